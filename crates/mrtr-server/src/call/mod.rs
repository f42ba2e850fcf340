//! One `tools/call`, from its params to its reply.
//!
//! ```text
//! params ── tool? arguments an object?                               -32602, nothing spent
//!    │
//!    ├─ with requestState: open ── claims, principal, request         rejected, nothing spent (late: looked up)
//!    │                      └─ journal receives the answers            -32602, nothing spent
//!    ├─ arguments against the published schema                         isError, nothing spent
//!    │
//!    ├─ nothing to record: the body runs in the request's own future, and goes with it
//!    └─ with a ledger: one task holds claim, body, settling and heartbeats; the connection may go
//! ```

mod job;
mod row;

use std::borrow::Cow;
use std::sync::Arc;

use mrtr_ledger::{Account, Fingerprint, LedgerError};
use mrtr_protocol::{CallToolParams, InputResponses, KindSet};
use mrtr_state::{
    Binding, Consequence, Epoch, FlowId, Principal, Reason, Rejected, RequestDigest, Timestamp,
    VerifiedState, random,
};
use serde_json::Value;
use serde_json::value::RawValue;
use tokio_util::sync::CancellationToken;
use tracing::Instrument;

use self::job::Job;
use self::row::Row;
use crate::flow::journal::{Journal, OpenQuestion};
use crate::reply::Reply;
use crate::schema;
use crate::server::{Inner, RegisteredTool};

/// Who calls, and what this request says of its client.
#[derive(Debug, Clone)]
pub(crate) struct Requester {
    pub(crate) principal: Principal,
    pub(crate) account: Account,
    /// The kinds of question that the client declared.
    pub(crate) declared: KindSet,
}

/// What a flow carries from round to round.
struct Frame {
    flow: FlowId,
    flow_exp: Timestamp,
    /// States sealed so far.
    round: u32,
    epoch: Option<Epoch>,
    journal: Journal,
}

/// A round to be claimed before its body runs.
struct Round {
    state: VerifiedState,
    fingerprint: Fingerprint,
}

/// Answers one `tools/call`.
pub(crate) async fn call_tool(
    inner: &Arc<Inner>,
    requester: Requester,
    params: &CallToolParams<'_>,
) -> Reply {
    let Some(tool) = inner.tool(&params.name) else {
        return Reply::invalid_params(format!("Unknown tool: {}", params.name));
    };
    // A span that tells flows apart without naming them: a hash of the flow's id, never a state, key or argument.
    let span = tracing::info_span!(
        "tools/call",
        tool = tool.name(),
        flow = tracing::field::Empty,
        round = tracing::field::Empty
    );
    let reply = call(inner, tool, requester, params).instrument(span).await;
    reply.naming(&inner.info)
}

async fn call(
    inner: &Arc<Inner>,
    tool: &Arc<RegisteredTool>,
    requester: Requester,
    params: &CallToolParams<'_>,
) -> Reply {
    let text = params.arguments.map(RawValue::get);
    let (flow, round) = match enter(inner, tool, &requester, params).await {
        Ok(entered) => entered,
        Err(reply) => return reply,
    };
    if let Some((frame, _)) = &flow {
        let span = tracing::Span::current();
        span.record("flow", tracing::field::debug(&frame.flow));
        span.record("round", frame.round);
    }
    let arguments = match text.map(serde_json::from_str).transpose() {
        Ok(arguments) => arguments.unwrap_or_else(|| Value::Object(Default::default())),
        Err(_) => return Reply::invalid_params("`arguments` cannot be read"),
    };
    if let Some(fault) = schema::fault(&tool.validator, &arguments) {
        return Reply::failed(format!("Invalid arguments for {}: {fault}", tool.name()));
    }

    let cancelled = CancellationToken::new();
    let disconnect = cancelled.clone().drop_guard();
    let records = inner.durability.is_some() && (round.is_some() || tool.acts_once);
    let job = Job {
        inner: Arc::clone(inner),
        tool: Arc::clone(tool),
        requester,
        arguments,
        flow,
        cancelled,
    };
    if !records {
        return job.run_alone().await;
    }
    // The task goes on when the connection closes: dropping `disconnect` tells it so.
    let reply = inner.tasks.spawn(job.record(round).in_current_span()).await;
    drop(disconnect);
    reply.unwrap_or_else(|error| {
        tracing::error!(%error, "a call's task was lost");
        Reply::unknown("the server stopped while it ran")
    })
}

/// The flow that the call is in, if its tool asks, and the round to be claimed, if there is a ledger. Checks everything
/// about the state and the answers; spends nothing.
async fn enter(
    inner: &Inner,
    tool: &RegisteredTool,
    requester: &Requester,
    params: &CallToolParams<'_>,
) -> Result<(Option<(Frame, RequestDigest)>, Option<Round>), Reply> {
    if params.request_state.is_none() {
        // Answers without a state are answers to nothing that this server asked; their shape is checked all the same.
        responses(params)?;
        if !tool.asks {
            return Ok((None, None));
        }
    }
    let Some(request) = digest(tool.name(), params.arguments.map(RawValue::get)) else {
        return Err(Reply::invalid_params("`arguments` cannot be read"));
    };
    let Some(state) = params.request_state else {
        let frame = open_flow(inner, tool).await?;
        return Ok((Some((frame, request)), None));
    };
    let (frame, round) = reenter(inner, tool, requester, request, state, params).await?;
    Ok((Some((frame, request)), round))
}

fn responses<'a>(params: &CallToolParams<'a>) -> Result<InputResponses<'a>, Reply> {
    let responses = params
        .input_responses
        .map(InputResponses::parse)
        .transpose();
    responses
        .map(Option::unwrap_or_default)
        .map_err(|error| Reply::invalid_params(format!("Malformed inputResponses: {error}")))
}

/// The digest of the originating request: method, tool and arguments, by value.
fn digest(tool: &str, arguments: Option<&str>) -> Option<RequestDigest> {
    let digest = RequestDigest::builder("tools/call", tool);
    let digest = match arguments {
        Some(text) => digest.json("arguments", text).ok()?,
        None => digest.absent("arguments"),
    };
    Some(digest.finish())
}

/// Opens a flow.
async fn open_flow(inner: &Inner, tool: &RegisteredTool) -> Result<Frame, Reply> {
    let epoch = match &inner.durability {
        None => None,
        Some(durability) => Some(durability.epoch(inner.clock.now()).await.map_err(|error| {
            tracing::error!(%error, "no word from the ledger on its epoch; no flow is opened");
            Reply::unavailable("The replay ledger did not answer; nothing was run.")
        })?),
    };
    let fresh = || -> Result<Frame, mrtr_state::RandomError> {
        Ok(Frame {
            flow: FlowId::from_bytes(random()?),
            flow_exp: inner.clock.now().saturating_add(tool.flow_lifetime),
            round: 0,
            epoch,
            journal: Journal::open()?,
        })
    };
    fresh().map_err(|error| {
        tracing::error!(%error, "no flow is opened");
        Reply::internal("The server has no randomness to open a flow with.")
    })
}

/// Enters a flow again, with a state that came from outside.
async fn reenter(
    inner: &Inner,
    tool: &RegisteredTool,
    requester: &Requester,
    request: RequestDigest,
    state: &RawValue,
    params: &CallToolParams<'_>,
) -> Result<(Frame, Option<Round>), Reply> {
    let (Some(envelope), Ok(token)) = (
        &inner.envelope,
        serde_json::from_str::<Cow<'_, str>>(state.get()),
    ) else {
        return Err(reject(inner, Reason::Malformed));
    };
    let binding = Binding {
        principal: requester.principal.clone(),
        request,
    };
    let now = inner.clock.now();
    let open = |epoch| envelope.open(&token, &binding, now, tool.lifetime, epoch);
    let opened = match &inner.durability {
        None => open(None),
        Some(durability) => {
            let seen = durability
                .epoch(now)
                .await
                .map_err(|error| unspent(&error))?;
            match open(Some(seen)) {
                // Another server may have rotated the epoch since this one looked: before a state is refused for that, or
                // a late one looked up, the ledger is asked.
                Err(rejected)
                    if [Reason::StaleEpoch, Reason::Expired].contains(&rejected.reason()) =>
                {
                    let current = durability.refreshed_epoch(now).await;
                    open(Some(current.map_err(|error| unspent(&error))?))
                }
                opened => opened,
            }
        }
    };
    let state = match opened {
        Ok(state) => state,
        Err(rejected) => {
            return Err(late_or_rejected(inner, requester, request, rejected, params, now).await);
        }
    };
    let Some(mut journal) = Journal::read(state.data()) else {
        return Err(reject(inner, Reason::Malformed));
    };
    let responses = responses(params)?;
    let answers =
        answers_digest(&journal, &responses).ok_or_else(|| reject(inner, Reason::Malformed))?;
    journal
        .receive(&responses)
        .map_err(|malformed| Reply::malformed_answer(&malformed))?;
    let frame = Frame {
        flow: state.flow(),
        flow_exp: state.flow_exp(),
        round: state.round(),
        epoch: state.epoch(),
        journal,
    };
    let round = inner.durability.is_some().then(|| Round {
        fingerprint: Fingerprint::round(
            &state.nonce(),
            &requester.principal,
            &request,
            answers.as_bytes(),
        ),
        state,
    });
    Ok((frame, round))
}

fn unspent(error: &LedgerError) -> Reply {
    tracing::error!(%error, "no word from the ledger on its epoch");
    Reply::unavailable(
        "The replay ledger did not answer; nothing was run, and the state is not spent.",
    )
}

/// What makes two retries of one state the same retry: the answers to its open questions, by value.
fn answers_digest(journal: &Journal, responses: &InputResponses<'_>) -> Option<RequestDigest> {
    let mut digest = RequestDigest::builder("answers", "");
    for OpenQuestion(key, ..) in &journal.open {
        digest = match responses.get(key) {
            Some(answer) => digest.json(key, answer.get()).ok()?,
            None => digest.absent(key),
        };
    }
    Some(digest.finish())
}

fn reject(inner: &Inner, reason: Reason) -> Reply {
    let consequence = match inner.durability {
        Some(_) => Consequence::WithLedger,
        None => Consequence::WithoutLedger,
    };
    Reply::rejected(reason, consequence, inner.opaque_rejections)
}

/// An expired state that passes every other check is looked up, never claimed, so that a late repeat of a lost response
/// still gets it. Everything else is rejected.
async fn late_or_rejected(
    inner: &Inner,
    requester: &Requester,
    request: RequestDigest,
    rejected: Rejected,
    params: &CallToolParams<'_>,
    now: Timestamp,
) -> Reply {
    let rejection = reject(inner, rejected.reason());
    let Some(late) = rejected.into_late() else {
        return rejection;
    };
    if now >= late.exp().saturating_add(inner.limits.retention) {
        return rejection;
    }
    let row = Journal::read(late.data()).and_then(|journal| {
        let answers = answers_digest(&journal, &responses(params).ok()?)?;
        let fingerprint = Fingerprint::round(
            &late.nonce(),
            &requester.principal,
            &request,
            answers.as_bytes(),
        );
        Row::of_round(inner, requester, &late.nonce(), late.exp(), fingerprint)
    });
    match row {
        Some(row) => row.look_up().await.unwrap_or(rejection),
        None => rejection,
    }
}
