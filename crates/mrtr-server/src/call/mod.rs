//! One `tools/call`, from its params to its reply.
//!
//! ```text
//! params ── tool? arguments an object? answers an object?            -32602, nothing spent
//!    │
//!    ├─ with requestState: open ── claims, principal, request         rejected, nothing spent
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

use mrtr_ledger::{Account, Fingerprint};
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
use crate::reply::{Reply, Spent};
use crate::schema;
use crate::server::{Inner, RegisteredTool, Running};

/// Who calls, and what this request says of its client.
#[derive(Debug, Clone)]
pub(crate) struct Caller {
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
    caller: Caller,
    params: &CallToolParams<'_>,
) -> Reply {
    let Some(tool) = inner.tool(&params.name) else {
        return Reply::invalid_params(format!("Unknown tool: {}", params.name));
    };
    let arguments = params.arguments.map(RawValue::get);
    let responses = match params
        .input_responses
        .map(InputResponses::parse)
        .transpose()
    {
        Ok(responses) => responses.unwrap_or_default(),
        Err(error) => return Reply::invalid_params(format!("Malformed inputResponses: {error}")),
    };

    let mut round = None;
    let mut flow = None;
    if tool.asks || params.request_state.is_some() {
        let Some(request) = digest(&tool.published.name, arguments) else {
            return Reply::invalid_params("`arguments` cannot be read");
        };
        let entered = match params.request_state {
            Some(state) => match enter(inner, tool, &caller, request, state, &responses).await {
                Ok((frame, entered)) => {
                    round = entered;
                    Ok(frame)
                }
                Err(reply) => Err(reply),
            },
            // Answers without a state are answers to nothing that this server asked.
            None => open_flow(inner, tool).await,
        };
        match entered {
            Ok(frame) => flow = Some((frame, request)),
            Err(reply) => return reply,
        }
    }

    let arguments = match arguments.map(serde_json::from_str).transpose() {
        Ok(arguments) => arguments.unwrap_or_else(|| Value::Object(Default::default())),
        Err(error) => return Reply::invalid_params(format!("`arguments` cannot be read: {error}")),
    };
    if let Some(fault) = schema::fault(&tool.validator, &arguments) {
        return Reply::failed(format!("Invalid arguments for {}: {fault}", tool.name()));
    }

    let Some(permit) = Running::permit(inner, caller.account) else {
        return Reply::unavailable("Too many calls of this principal are running.");
    };
    let cancelled = CancellationToken::new();
    let disconnect = cancelled.clone().drop_guard();
    let records = inner.durability.is_some() && (round.is_some() || tool.acts_once);
    let span = span(tool, flow.as_ref());
    let job = Job {
        inner: Arc::clone(inner),
        tool: Arc::clone(tool),
        caller,
        arguments,
        flow,
        cancelled,
        _permit: permit,
    };
    if !records {
        return job.run(None, Spent::No).instrument(span).await;
    }
    // The task goes on when the connection closes: dropping `disconnect` tells it so.
    let reply = inner.tasks.spawn(job.record(round).instrument(span)).await;
    drop(disconnect);
    reply.unwrap_or_else(|error| {
        tracing::error!(%error, "a call's task was lost");
        Reply::unknown("the server stopped while it ran")
    })
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

/// A span that tells flows apart without naming them: a hash of the flow's id, never a state, key or argument.
fn span(tool: &RegisteredTool, flow: Option<&(Frame, RequestDigest)>) -> tracing::Span {
    let span = tracing::info_span!(
        "tools/call",
        tool = tool.name(),
        flow = tracing::field::Empty,
        round = tracing::field::Empty
    );
    if let Some((frame, _)) = flow {
        span.record("flow", tracing::field::debug(&frame.flow));
        span.record("round", frame.round);
    }
    span
}

/// Opens a flow.
async fn open_flow(inner: &Inner, tool: &RegisteredTool) -> Result<Frame, Reply> {
    let epoch = match &inner.durability {
        None => None,
        Some(durability) => Some(durability.epoch().await.map_err(|error| {
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

/// Enters a flow with a state that came from outside: checks everything, spends nothing.
async fn enter(
    inner: &Inner,
    tool: &RegisteredTool,
    caller: &Caller,
    request: RequestDigest,
    state: &RawValue,
    responses: &InputResponses<'_>,
) -> Result<(Frame, Option<Round>), Reply> {
    let (Some(envelope), Ok(token)) = (
        &inner.envelope,
        serde_json::from_str::<Cow<'_, str>>(state.get()),
    ) else {
        return Err(reject(inner, Reason::Malformed));
    };
    let binding = Binding {
        principal: caller.principal.clone(),
        request,
    };
    let now = inner.clock.now();
    let open = |epoch| envelope.open(&token, &binding, now, tool.lifetime, epoch);
    let opened = match &inner.durability {
        None => open(None),
        Some(durability) => {
            let unavailable = |error| {
                tracing::error!(%error, "no word from the ledger on its epoch");
                Reply::unavailable(
                    "The replay ledger did not answer; nothing was run, and the state is not spent.",
                )
            };
            let seen = durability.epoch().await.map_err(unavailable)?;
            match open(Some(seen)) {
                // Another server may have rotated the epoch since this one looked.
                Err(rejected) if rejected.reason() == Reason::StaleEpoch => {
                    let current = durability.refreshed_epoch().await.map_err(unavailable)?;
                    if current == seen {
                        Err(rejected)
                    } else {
                        open(Some(current))
                    }
                }
                opened => opened,
            }
        }
    };
    let state = match opened {
        Ok(state) => state,
        Err(rejected) => {
            return Err(late_or_rejected(inner, caller, request, rejected, responses, now).await);
        }
    };
    let Some(mut journal) = Journal::read(state.data()) else {
        return Err(reject(inner, Reason::Malformed));
    };
    let answers =
        answers_digest(&journal, responses).ok_or_else(|| reject(inner, Reason::Malformed))?;
    journal
        .receive(responses)
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
            &caller.principal,
            &request,
            answers.as_bytes(),
        ),
        state,
    });
    Ok((frame, round))
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
    caller: &Caller,
    request: RequestDigest,
    rejected: Rejected,
    responses: &InputResponses<'_>,
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
        let answers = answers_digest(&journal, responses)?;
        let fingerprint = Fingerprint::round(
            &late.nonce(),
            &caller.principal,
            &request,
            answers.as_bytes(),
        );
        Row::of_round(inner, caller, &late.nonce(), late.exp(), fingerprint)
    });
    match row {
        Some(row) => row.look_up().await.unwrap_or(rejection),
        None => rejection,
    }
}
