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

use std::sync::Arc;
use std::time::Duration;

use mrtr_ledger::{
    Account, Fingerprint, Found, Kind as RowKind, Owner, Redemption, RoundClaim, RowKey, Settled,
    Settlement, Token, redeem,
};
use mrtr_protocol::{CallToolParams, InputRequests, InputRequiredResult, InputResponses, KindSet};
use mrtr_state::{
    Binding, Consequence, Draft, Epoch, FlowId, LateState, Nonce, Principal, Reason, Rejected,
    RequestDigest, Timestamp, VerifiedState, random,
};
use serde_json::Value;
use serde_json::value::RawValue;
use tokio_util::sync::CancellationToken;
use tracing::Instrument;

use crate::encoding::Base64;
use crate::extract::{Call, ExtractError};
use crate::flow::cell::{FlowCell, Open};
use crate::flow::durable::{Durable, Steps};
use crate::flow::end::End;
use crate::flow::journal::{Journal, OpenQuestion};
use crate::flow::run::{Finish, Run};
use crate::ledgering;
use crate::reply::{Reply, Spent};
use crate::schema;
use crate::server::{Durability, Inner, Permit, RegisteredTool, Running};

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

/// One body to run: everything owned, so that it can outlive its connection.
struct Job {
    inner: Arc<Inner>,
    tool: Arc<RegisteredTool>,
    caller: Caller,
    arguments: Value,
    /// Present when the tool asks.
    flow: Option<(Frame, RequestDigest)>,
    cancelled: CancellationToken,
    /// Held until the body is gone.
    _permit: Permit,
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
        serde_json::from_str::<std::borrow::Cow<'_, str>>(state.get()),
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
    let (Some(envelope), Some(durability), Some(late)) =
        (&inner.envelope, &inner.durability, rejected.into_late())
    else {
        return rejection;
    };
    if now >= late.exp().saturating_add(inner.limits.retention) {
        return rejection;
    }
    look_up_late(
        durability,
        envelope.audience(),
        caller,
        request,
        &late,
        responses,
    )
    .await
    .unwrap_or(rejection)
}

async fn look_up_late(
    durability: &Durability,
    audience: &str,
    caller: &Caller,
    request: RequestDigest,
    late: &LateState,
    responses: &InputResponses<'_>,
) -> Option<Reply> {
    let journal = Journal::read(late.data())?;
    let answers = answers_digest(&journal, responses)?;
    let fingerprint = Fingerprint::round(
        &late.nonce(),
        &caller.principal,
        &request,
        answers.as_bytes(),
    );
    let key = RowKey::round(audience, &late.nonce(), late.exp());
    match durability
        .ledger
        .lookup(RowKind::Round, key, fingerprint)
        .await
    {
        Ok(Found::Absent) => None,
        Ok(found) => Some(durability.found(found, &key, &fingerprint, caller)),
        Err(error) => {
            tracing::error!(%error, "no word from the ledger on a look-up");
            Some(Reply::unavailable(
                "The replay ledger did not answer; nothing was run.",
            ))
        }
    }
}

impl Durability {
    /// What a caller is told of a row that it may not run.
    fn found(
        &self,
        found: Found,
        key: &RowKey,
        fingerprint: &Fingerprint,
        caller: &Caller,
    ) -> Reply {
        match found {
            Found::Settled(stored) => self.replayed(stored, key, fingerprint, caller),
            Found::InProgress { retry_after } => Reply::in_progress(retry_after),
            Found::Conflict => Reply::rejected(Reason::AlreadyUsed, Consequence::WithLedger, false),
            _ => Reply::unknown("an earlier run of this retry was cut off"),
        }
    }

    fn replayed(
        &self,
        stored: Vec<u8>,
        key: &RowKey,
        fingerprint: &Fingerprint,
        caller: &Caller,
    ) -> Reply {
        let opened = self.outcomes.open(key, fingerprint, stored).ok();
        opened
            .and_then(|stored| Reply::from_stored(&stored, caller.declared))
            .unwrap_or_else(|| {
                tracing::error!("a stored outcome cannot be read; its keys may have left the ring");
                Reply::unknown("what an earlier run of this retry stored cannot be read")
            })
    }
}

impl Job {
    /// Claims the round if there is one, runs the body, and settles.
    async fn record(self, round: Option<Round>) -> Reply {
        let Some(Round { state, fingerprint }) = round else {
            return self.run(None, Spent::No).await;
        };
        let inner = Arc::clone(&self.inner);
        let (Some(durability), Some(envelope)) = (&inner.durability, &inner.envelope) else {
            return Reply::internal("A round cannot be recorded without a ledger.");
        };
        let Ok(token) = Token::generate() else {
            return Reply::unavailable(
                "The server has no randomness to claim with; nothing was run.",
            );
        };
        let key = RowKey::round(envelope.audience(), &state.nonce(), state.exp());
        let claim = RoundClaim {
            audience: envelope.audience(),
            fingerprint,
            account: self.caller.account,
            token,
            lease: inner.limits.lease,
        };
        let caller = self.caller.clone();
        let rejected =
            |reason| Reply::rejected(reason, Consequence::WithLedger, inner.opaque_rejections);
        let redeemed = match redeem(durability.ledger.as_ref(), state, claim).await {
            Ok(Redemption::Redeemed(redeemed)) => redeemed,
            Ok(Redemption::Settled(outcome)) => {
                return durability.replayed(outcome, &key, &fingerprint, &caller);
            }
            Ok(Redemption::InProgress { retry_after }) => return Reply::in_progress(retry_after),
            Ok(Redemption::Conflict) => return rejected(Reason::AlreadyUsed),
            // By the ledger's clock the time is over; what came of an earlier run is told all the same.
            Ok(Redemption::Expired) => {
                return match durability
                    .ledger
                    .lookup(RowKind::Round, key, fingerprint)
                    .await
                {
                    Ok(Found::Absent) => rejected(Reason::Expired),
                    Ok(found) => durability.found(found, &key, &fingerprint, &caller),
                    Err(error) => {
                        tracing::error!(%error, "no word from the ledger on a look-up");
                        Reply::unavailable("The replay ledger did not answer; nothing was run.")
                    }
                };
            }
            Ok(Redemption::StaleEpoch) => {
                durability.forget_epoch();
                return rejected(Reason::StaleEpoch);
            }
            Ok(Redemption::Full) => {
                return Reply::unavailable(
                    "The replay ledger has no room; nothing was run, and the state is not spent.",
                );
            }
            Ok(_) => return Reply::unknown("an earlier run of this retry was cut off"),
            Err(error) => {
                tracing::error!(%error, "no word from the ledger on a round's claim; nothing was run");
                // The claim may have been recorded all the same; freed, the same retry can claim it again.
                let ledger = Arc::clone(&durability.ledger);
                inner
                    .tasks
                    .spawn(async move { ledger.release(key, token).await.map(drop) });
                return Reply::unavailable(
                    "The replay ledger did not answer; nothing was run, and the state is not spent.",
                );
            }
        };
        let owner = redeemed.owner();
        let reply = self.run(Some(owner), Spent::Yes).await;
        settle(&inner, durability, owner, &fingerprint, &caller, reply).await
    }

    /// Runs the body and turns what came of it into a reply.
    async fn run(mut self, round: Option<Owner>, spent: Spent) -> Reply {
        let tool = Arc::clone(&self.tool);
        let opaque = self.inner.opaque_rejections;
        let cell = self.flow.as_ref().map(|(frame, request)| {
            let durable = self.durable(frame, request, round);
            FlowCell::new(
                frame.journal.clone(),
                self.caller.declared,
                self.inner.bind_questions,
                durable,
            )
        });
        let mut call = Call {
            arguments: tool
                .takes_arguments
                .then(|| std::mem::take(&mut self.arguments)),
            principal: &self.caller.principal,
            states: &self.inner.states,
            cell: cell.as_ref(),
        };
        let body = match (tool.start)(&mut call) {
            Ok(body) => body,
            Err(error @ ExtractError::Arguments(_)) => return Reply::failed(error.to_string()),
            Err(error) => {
                tracing::error!(tool = tool.name(), %error, "an extractor failed");
                return Reply::internal("The tool's handler could not be given what it takes.");
            }
        };
        let cell = cell.unwrap_or_else(FlowCell::without_flow);
        let finish = alive(&self.inner, &cell, round, Run::new(Arc::clone(&cell), body)).await;
        match finish {
            Finish::Done(Ok(mut result)) => {
                result.meta = result.meta.with_server_info(&self.inner.info);
                Reply::result(&result)
            }
            Finish::Done(Err(error)) => Reply::tool_error(tool.name(), &error),
            Finish::Ended(end) => {
                if let (End::StaleEpoch, Some(durability)) = (&end, &self.inner.durability) {
                    durability.forget_epoch();
                }
                Reply::ended(tool.name(), &end, spent, opaque)
            }
            Finish::Panicked => {
                tracing::error!(tool = tool.name(), "a handler panicked");
                Reply::panicked(spent)
            }
            Finish::Asks(open) => self.ask(&cell, open),
        }
    }

    fn durable(
        &self,
        frame: &Frame,
        request: &RequestDigest,
        round: Option<Owner>,
    ) -> Option<Durable> {
        let (durability, envelope) = (
            self.inner.durability.as_ref()?,
            self.inner.envelope.as_ref()?,
        );
        Some(Durable {
            ledger: Arc::clone(&durability.ledger),
            outcomes: durability.outcomes.clone(),
            audience: envelope.audience().into(),
            flow: frame.flow,
            flow_exp: frame.flow_exp,
            epoch: frame.epoch?,
            secret: frame.journal.secret,
            principal: self.caller.principal.clone(),
            account: self.caller.account,
            request: *request,
            round,
            lease: self.inner.limits.lease,
            cancelled: self.cancelled.clone(),
            tasks: self.inner.tasks.clone(),
            steps: Steps::default(),
        })
    }

    /// Seals what the flow must remember and asks.
    fn ask(self, cell: &FlowCell, open: Vec<Open>) -> Reply {
        let (Some(envelope), Some((frame, request))) = (&self.inner.envelope, self.flow) else {
            return Reply::internal("A question cannot be put without a codec.");
        };
        let tool = self.tool.name();
        let round = frame.round + 1;
        if round > self.inner.limits.rounds {
            tracing::warn!(tool, rounds = frame.round, "a tool asked too often");
            return Reply::failed(format!(
                "The tool stopped: it asked in {} rounds and wanted to ask again, which is more than this server permits. Start again with a simpler request.",
                frame.round
            ));
        }
        let now = self.inner.clock.now();
        if now >= frame.flow_exp {
            return Reply::failed(
                "The tool stopped: this call has been open for too long to ask again. Start the request again.",
            );
        }
        let mut journal = cell.journal();
        let mut requests = InputRequests::default();
        for Open { key, rendered } in open {
            let digest = Base64(*rendered.digest().as_bytes());
            journal
                .open
                .push(OpenQuestion(key.to_string(), rendered.kind(), digest));
            if let Err(error) = requests.insert(key, rendered.into_request()) {
                return Reply::internal(format!("Tool {tool:?} cannot ask: {error}."));
            }
        }
        let sealed = serde_json::value::to_raw_value(&journal)
            .map_err(|error| error.to_string())
            .and_then(|data| {
                let draft = Draft {
                    nonce: Nonce::from_bytes(random().map_err(|error| error.to_string())?),
                    flow: frame.flow,
                    flow_exp: frame.flow_exp,
                    round,
                    epoch: frame.epoch,
                    iat: now,
                    exp: now.saturating_add(self.tool.lifetime).min(frame.flow_exp),
                    data: &data,
                };
                let binding = Binding {
                    principal: self.caller.principal,
                    request,
                };
                let state = envelope
                    .seal(&binding, &draft)
                    .map_err(|error| error.to_string())?;
                InputRequiredResult::new(requests, Some(state)).map_err(|error| error.to_string())
            });
        match sealed {
            Ok(mut result) => {
                result.meta = self.inner.result_meta();
                Reply::asking(&result)
            }
            Err(error) => {
                tracing::error!(tool, error, "a state cannot be sealed");
                Reply::internal(format!(
                    "Tool {tool:?} cannot ask: its state cannot be sealed ({error})."
                ))
            }
        }
    }
}

/// Polls the run, and gives the ledger signs of life meanwhile.
async fn alive<T>(
    inner: &Inner,
    cell: &Arc<FlowCell>,
    round: Option<Owner>,
    run: Run<T>,
) -> Finish<T> {
    let Some(durable) = cell.durable.as_ref() else {
        return run.await;
    };
    let lease = inner.limits.lease;
    let mut beats = tokio::time::interval((lease / 3).max(Duration::from_millis(10)));
    beats.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    beats.tick().await;
    tokio::pin!(run);
    loop {
        tokio::select! {
            biased;
            finish = &mut run => return finish,
            _ = beats.tick() => {
                for owner in round.into_iter().chain(durable.steps.running()) {
                    match durable.ledger.beat(owner.key, owner.token, lease).await {
                        Ok(true) => {}
                        // Withdrawn: the next step's claim is refused in its own statement.
                        Ok(false) => tracing::warn!("a row is not this run's any more"),
                        Err(error) => tracing::warn!(%error, "no word from the ledger on a beat"),
                    }
                }
            }
        }
    }
}

/// Keeps the reply. No response leaves before that is durable.
async fn settle(
    inner: &Inner,
    durability: &Durability,
    Owner { key, token }: Owner,
    fingerprint: &Fingerprint,
    caller: &Caller,
    reply: Reply,
) -> Reply {
    let kept = reply
        .to_stored(inner.limits.stored_result)
        .and_then(|stored| durability.outcomes.seal(&key, fingerprint, &stored));
    let settlement = kept.map_or(Settlement::Abandoned, Settlement::Outcome);
    match ledgering::settle(&durability.ledger, &inner.tasks, key, token, settlement).await {
        Ok(Settled::Stored) => reply,
        Ok(Settled::Refused) => match durability
            .ledger
            .lookup(RowKind::Round, key, *fingerprint)
            .await
        {
            Ok(found) => durability.found(found, &key, fingerprint, caller),
            Err(_) => Reply::unknown("this run was given up while it ran"),
        },
        Err(_) => Reply::unknown("the replay ledger did not confirm that the outcome was kept"),
    }
}
