//! One `tools/call`, `prompts/get` or `resources/read`, from its params to its reply.
//!
//! ```text
//! params ── known? arguments an object?                              -32602, nothing spent
//!    │
//!    ├─ with requestState: open ── claims, principal, request         rejected, nothing spent (late: looked up)
//!    │                      ├─ its journal, if the ledger keeps it    rejected or 1003, nothing spent
//!    │                      └─ journal receives the answers            -32602, nothing spent
//!    ├─ arguments against the published schema                         isError or -32602, nothing spent
//!    │
//!    ├─ nothing to record: the body runs in the request's own future, and goes with it
//!    └─ with a ledger: one task holds claim, body, settling and heartbeats; the connection may go
//! ```

mod job;
mod kept;
mod row;

use std::borrow::Cow;
use std::sync::Arc;

use mrtr_ledger::{Account, Fingerprint, LedgerError};
use mrtr_protocol::object::as_string;
use mrtr_protocol::{CallToolParams, GetPromptParams, InputResponses, KindSet, ReadResourceParams};
use mrtr_state::{
    Binding, Consequence, Epoch, FlowId, Principal, Reason, Rejected, RequestDigest, Timestamp,
    VerifiedState, random,
};
use serde_json::value::RawValue;
use serde_json::{Map, Value};
use tokio_util::sync::CancellationToken;
use tracing::Instrument;

use self::job::Job;
use self::kept::{Place, Unread};
use self::row::Row;
use crate::access::Granted;
use crate::flow::journal::{Journal, OpenQuestion};
use crate::meta::Notes;
use crate::outbox::Link;
use crate::registered::{Registered, Surface};
use crate::reply::Reply;
use crate::schema;
use crate::server::Inner;
use crate::value;

/// Who calls, and what this request says of its client.
#[derive(Debug, Clone)]
pub(crate) struct Requester {
    pub(crate) principal: Principal,
    /// What this request's credentials were granted.
    pub(crate) granted: Granted,
    pub(crate) account: Account,
    /// The kinds of question that the client declared.
    pub(crate) declared: KindSet,
    pub(crate) link: Link,
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

/// A request that may be answered with a question: what it addresses, and what it carries.
pub(crate) struct Asked<'a> {
    pub(crate) surface: Surface,
    /// The tool's or prompt's name, or the resource's URI.
    pub(crate) target: Cow<'a, str>,
    pub(crate) arguments: Option<&'a RawValue>,
    pub(crate) responses: Option<&'a RawValue>,
    pub(crate) state: Option<&'a RawValue>,
    pub(crate) meta: Option<&'a RawValue>,
}

impl<'a> From<CallToolParams<'a>> for Asked<'a> {
    fn from(params: CallToolParams<'a>) -> Self {
        Self {
            surface: Surface::Tool,
            target: params.name,
            arguments: params.arguments,
            responses: params.input_responses,
            state: params.request_state,
            meta: params.meta,
        }
    }
}

impl<'a> From<GetPromptParams<'a>> for Asked<'a> {
    fn from(params: GetPromptParams<'a>) -> Self {
        Self {
            surface: Surface::Prompt,
            target: params.name,
            arguments: params.arguments,
            responses: params.input_responses,
            state: params.request_state,
            meta: params.meta,
        }
    }
}

impl<'a> From<ReadResourceParams<'a>> for Asked<'a> {
    fn from(params: ReadResourceParams<'a>) -> Self {
        Self {
            surface: Surface::Resource,
            target: params.uri,
            arguments: None,
            responses: params.input_responses,
            state: params.request_state,
            meta: params.meta,
        }
    }
}

/// Answers one `tools/call`, `prompts/get` or `resources/read`.
pub(crate) async fn answer(inner: &Arc<Inner>, requester: Requester, asked: &Asked<'_>) -> Reply {
    let mut variables = None;
    let granted = &requester.granted;
    let handler = match asked.surface {
        Surface::Tool => inner.catalogue.tool(&asked.target, granted),
        Surface::Prompt => inner.catalogue.prompt(&asked.target, granted),
        Surface::Resource => inner
            .catalogue
            .resource(&asked.target, granted)
            .map(|found| {
                variables = found.variables;
                found.handler
            }),
    };
    let Some(handler) = handler else {
        return Reply::nothing_there(asked.surface, &asked.target);
    };
    // A span that tells flows apart without naming them: a hash of the flow's id, never a state, key or argument.
    let span = tracing::info_span!(
        "call",
        method = handler.surface.method(),
        name = handler.name,
        flow = tracing::field::Empty,
        round = tracing::field::Empty,
        trace_id = tracing::field::Empty,
        parent_id = tracing::field::Empty
    );
    let notes = Notes::of(asked.meta, &handler.meta_keys);
    if let (Some(trace), Some(parent)) = (notes.trace.trace_id(), notes.trace.parent_id()) {
        span.record("trace_id", trace);
        span.record("parent_id", parent);
    }
    let reply = call(inner, handler, requester, asked, variables, notes)
        .instrument(span)
        .await;
    reply.naming(&inner.info)
}

async fn call(
    inner: &Arc<Inner>,
    handler: &Arc<Registered>,
    requester: Requester,
    asked: &Asked<'_>,
    variables: Option<Map<String, Value>>,
    notes: Notes,
) -> Reply {
    let (flow, round) = match enter(inner, handler, &requester, asked, &notes).await {
        Ok(entered) => entered,
        Err(reply) => return reply,
    };
    if let Some((frame, _)) = &flow {
        let span = tracing::Span::current();
        span.record("flow", tracing::field::debug(&frame.flow));
        span.record("round", frame.round);
    }
    let text = asked.arguments.map(RawValue::get);
    let arguments = match text.map(value::read).transpose() {
        Ok(arguments) => arguments.unwrap_or_else(|| Value::Object(variables.unwrap_or_default())),
        Err(_) => return Reply::invalid_params("`arguments` cannot be read"),
    };
    if let Some(fault) = schema::fault(&handler.validator, &arguments) {
        let text = format!("Invalid arguments for {}: {fault}", handler.name);
        return Reply::invalid_arguments(handler.surface, text);
    }

    let cancelled = CancellationToken::new();
    let disconnect = cancelled.clone().drop_guard();
    let records = inner.durability.is_some() && (round.is_some() || handler.acts_once);
    let job = Job {
        inner: Arc::clone(inner),
        handler: Arc::clone(handler),
        target: asked.target.as_ref().into(),
        requester,
        arguments,
        notes,
        has_answers: asked.responses.or(asked.state).is_some(),
        flow,
        cancelled,
    };
    if !records {
        return job.run_alone().await;
    }
    // The task goes on when the connection closes: dropping `disconnect` tells it so.
    let runs_again = round.is_some() && handler.run_again;
    let reply = inner.tasks.spawn(job.record(round).in_current_span()).await;
    drop(disconnect);
    reply.unwrap_or_else(|error| {
        tracing::error!(%error, "a call's task was lost");
        match runs_again {
            true => Reply::unavailable("The server stopped while it ran."),
            false => Reply::unknown("the server stopped while it ran"),
        }
    })
}

/// The flow that the call is in, if its handler asks, and the round to be claimed, if there is a ledger. Checks everything
/// about the state and the answers; spends nothing.
async fn enter(
    inner: &Inner,
    handler: &Registered,
    requester: &Requester,
    asked: &Asked<'_>,
    notes: &Notes,
) -> Result<(Option<(Frame, RequestDigest)>, Option<Round>), Reply> {
    let digest = || {
        digest(asked, &handler.meta_keys, notes)
            .ok_or_else(|| Reply::invalid_params("`arguments` cannot be read"))
    };
    let Some(state) = asked.state else {
        // Answers without a state are answers to nothing that this server asked; their shape is checked all the same.
        let responses = responses(asked)?;
        if !handler.asks {
            return Ok((None, None));
        }
        let request = digest()?;
        let mut frame = open_flow(inner, handler).await?;
        if handler.answers_without_state {
            frame.journal.take_unasked(&responses);
        }
        return Ok((Some((frame, request)), None));
    };
    let request = digest()?;
    let (frame, round) = reenter(inner, handler, requester, request, state, asked).await?;
    Ok((Some((frame, request)), round))
}

fn responses<'a>(asked: &Asked<'a>) -> Result<InputResponses<'a>, Reply> {
    let responses = asked.responses.map(InputResponses::parse).transpose();
    responses
        .map(Option::unwrap_or_default)
        .map_err(|error| Reply::invalid_params(format!("Malformed inputResponses: {error}")))
}

/// The digest of the originating request: method, target, arguments, and the entries of `_meta` that the handler sees, by
/// value.
fn digest(asked: &Asked<'_>, keys: &[&'static str], notes: &Notes) -> Option<RequestDigest> {
    let digest = RequestDigest::builder(asked.surface.method(), &asked.target);
    let mut digest = match asked.arguments {
        Some(text) => digest.json("arguments", text.get()).ok()?,
        None => digest.absent("arguments"),
    };
    for key in keys {
        let label = format!("_meta {key}");
        digest = match notes.entry(key) {
            Some(entry) => digest.json(&label, entry.get()).ok()?,
            None => digest.absent(&label),
        };
    }
    Some(digest.finish())
}

/// Opens a flow.
async fn open_flow(inner: &Inner, handler: &Registered) -> Result<Frame, Reply> {
    let epoch = match &inner.durability {
        None => None,
        Some(durability) => Some(durability.epoch(inner.clock.now()).await.map_err(|error| {
            tracing::error!(%error, "no word from the ledger on its epoch; no flow is opened");
            Reply::unavailable(NO_WORD)
        })?),
    };
    let fresh = || -> Result<Frame, mrtr_state::RandomError> {
        Ok(Frame {
            flow: FlowId::from_bytes(random()?),
            flow_exp: inner.clock.now().saturating_add(handler.flow_lifetime),
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

/// Whether a JSON string has more than `limit` bytes however it is spelt, told without a copy of it: an escape takes six
/// bytes for one at most.
fn is_surely_larger(string: &RawValue, limit: usize) -> bool {
    let spelt = string.get();
    spelt.starts_with('"') && spelt.len() - 2 > limit.saturating_mul(6)
}

/// Enters a flow again, with a state that came from outside.
async fn reenter(
    inner: &Inner,
    handler: &Registered,
    requester: &Requester,
    request: RequestDigest,
    state: &RawValue,
    asked: &Asked<'_>,
) -> Result<(Frame, Option<Round>), Reply> {
    if is_surely_larger(state, inner.limits.state) {
        return Err(reject(inner, Reason::TooLarge));
    }
    let (Some(envelope), Some(token)) = (&inner.envelope, as_string(state)) else {
        return Err(reject(inner, Reason::Malformed));
    };
    let binding = Binding {
        principal: requester.principal.clone(),
        request,
    };
    let now = inner.clock.now();
    let open = |epoch| envelope.open(&token, &binding, now, handler.lifetime, epoch);
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
            return Err(
                late_or_rejected(inner, handler, requester, request, rejected, asked, now).await,
            );
        }
    };
    let place = Place {
        nonce: state.nonce(),
        exp: state.exp(),
        principal: &requester.principal,
        request: &request,
    };
    let mut journal = match kept::read(inner, &place, state.data()).await {
        Ok(journal) => journal,
        Err(Unread::Reason(reason)) => return Err(reject(inner, reason)),
        Err(Unread::NoWord) => return Err(Reply::unavailable(UNSPENT)),
    };
    let responses = responses(asked)?;
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
    Reply::unavailable(UNSPENT)
}

/// Where there is no state to spend.
const NO_WORD: &str = "The replay ledger did not answer; nothing was run.";
const UNSPENT: &str =
    "The replay ledger did not answer; nothing was run, and the state is not spent.";

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
    handler: &Registered,
    requester: &Requester,
    request: RequestDigest,
    rejected: Rejected,
    asked: &Asked<'_>,
    now: Timestamp,
) -> Reply {
    // Told, logged and counted only where it is the answer.
    let reason = rejected.reason();
    let rejection = || reject(inner, reason);
    let Some(late) = rejected.into_late() else {
        return rejection();
    };
    if now >= late.exp().saturating_add(inner.limits.retention) {
        return rejection();
    }
    let place = Place {
        nonce: late.nonce(),
        exp: late.exp(),
        principal: &requester.principal,
        request: &request,
    };
    let journal = match kept::read(inner, &place, late.data()).await {
        Ok(journal) => Some(journal),
        Err(Unread::Reason(_)) => None,
        Err(Unread::NoWord) => return Reply::unavailable(NO_WORD),
    };
    let row = journal.and_then(|journal| {
        let answers = answers_digest(&journal, &responses(asked).ok()?)?;
        let fingerprint = Fingerprint::round(
            &late.nonce(),
            &requester.principal,
            &request,
            answers.as_bytes(),
        );
        Row::of_round(
            inner,
            handler,
            requester,
            &late.nonce(),
            late.exp(),
            fingerprint,
        )
    });
    match row {
        Some(row) => row.look_up().await.unwrap_or_else(rejection),
        None => rejection(),
    }
}
