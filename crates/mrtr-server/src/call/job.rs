//! One body to run, with or without a round to claim before it.

use std::convert::Infallible;
use std::future::{Future, poll_fn};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use mrtr_ledger::{Owner, RedeemedState, Redemption, RoundClaim, Token, redeem};
use mrtr_protocol::{InputRequests, InputRequiredResult};
use mrtr_state::{Binding, Draft, Nonce, Reason, RequestDigest, SealError};
use serde_json::Value;
use serde_json::value::{RawValue, to_raw_value};
use tokio::time::{Instant, sleep};
use tokio_util::sync::CancellationToken;

use super::kept::{self, Place};
use super::row::Row;
use super::{Frame, Requester, Round, reject};
use crate::by_hand::Turn;
use crate::encoding::Base64;
use crate::extract::{Call, ExtractError};
use crate::flow::cell::{FlowCell, FlowOwner, Open};
use crate::flow::durable::{Durable, Steps};
use crate::flow::end::End;
use crate::flow::journal::{Journal, OpenQuestion};
use crate::flow::run::{Body, Finish, Run};
use crate::meta::Notes;
use crate::metrics;
use crate::registered::{Came, Content, Registered};
use crate::reply::{Reply, Standing};
use crate::server::{Inner, Running};

/// One body to run: everything owned, so that it can outlive its connection.
pub(super) struct Job {
    pub(super) inner: Arc<Inner>,
    pub(super) handler: Arc<Registered>,
    pub(super) target: Box<str>,
    pub(super) requester: Requester,
    pub(super) arguments: Value,
    pub(super) notes: Notes,
    /// Whether the request carries answers, or a state.
    pub(super) has_answers: bool,
    /// Present when the tool asks.
    pub(super) flow: Option<(Frame, RequestDigest)>,
    pub(super) cancelled: CancellationToken,
}

/// What a run may rely on.
enum Record {
    /// Nothing: no ledger, or nothing to record.
    None,
    /// A first call whose steps are recorded.
    Steps,
    /// A retry whose state has been redeemed: this run is the only one.
    Round(RedeemedState),
}

impl Record {
    fn owner(&self) -> Option<Owner> {
        match self {
            Self::Round(redeemed) => Some(redeemed.owner()),
            Self::None | Self::Steps => None,
        }
    }

    fn standing(&self, durable: Option<&Durable>, run_again: bool) -> Standing {
        let taken = durable
            .map(|durable| durable.steps.taken())
            .unwrap_or_default();
        match self {
            Self::None => Standing::Unrecorded,
            Self::Steps => Standing::Opening { taken },
            Self::Round(_) => Standing::Round { taken, run_again },
        }
    }
}

impl Job {
    /// Runs the body with nothing to record: it goes with its connection.
    pub(super) async fn run_alone(self) -> Reply {
        match Running::permit(&self.inner, self.requester.account) {
            Some(_permit) => self.run(&Record::None).await,
            None => Reply::unavailable(TOO_MANY),
        }
    }

    /// Claims the round if there is one, runs the body, and settles.
    pub(super) async fn record(self, round: Option<Round>) -> Reply {
        let Some(Round { state, fingerprint }) = round else {
            return match Running::permit(&self.inner, self.requester.account) {
                Some(_permit) => self.run(&Record::Steps).await,
                None => Reply::unavailable(TOO_MANY),
            };
        };
        let (inner, requester) = (Arc::clone(&self.inner), self.requester.clone());
        let handler = Arc::clone(&self.handler);
        let (nonce, exp) = (state.nonce(), state.exp());
        let Some(row) = Row::of_round(&inner, &handler, &requester, &nonce, exp, fingerprint)
        else {
            return Reply::internal("A round cannot be recorded without a ledger.");
        };
        let Ok(token) = Token::generate() else {
            return Reply::unavailable(
                "The server has no randomness to claim with; nothing was run.",
            );
        };
        let claim = RoundClaim {
            audience: row.audience,
            fingerprint,
            account: requester.account,
            token,
            lease: inner.limits.lease,
            run_again: handler.run_again,
        };
        let start = Instant::now();
        let redemption = redeem(row.durability.ledger.as_ref(), state, claim).await;
        metrics::redeemed(&redemption, start.elapsed());
        match redemption {
            Ok(Redemption::Redeemed(redeemed)) => {
                let held = row.held(token);
                // The client has gone, and nothing has run: what its person answered is good for the same retry.
                if self.cancelled.is_cancelled() {
                    held.release().await;
                    return Reply::unavailable("The call was cancelled before anything was run.");
                }
                // Repeats of what has run need no room; only a body does.
                let Some(_permit) = Running::permit(&inner, requester.account) else {
                    held.release().await;
                    return Reply::unavailable(TOO_MANY);
                };
                let reply = self.run(&Record::Round(redeemed)).await;
                held.settle(reply).await
            }
            Ok(Redemption::Settled(outcome)) => row.replayed(outcome),
            Ok(Redemption::InProgress { retry_after }) => Reply::in_progress(retry_after),
            Ok(Redemption::Conflict) => reject(&inner, Reason::AlreadyUsed),
            // By the ledger's clock the time is over; what came of an earlier run is told all the same.
            Ok(Redemption::Expired) => row
                .look_up()
                .await
                .unwrap_or_else(|| reject(&inner, Reason::Expired)),
            Ok(Redemption::StaleEpoch) => {
                row.durability.forget_epoch();
                reject(&inner, Reason::StaleEpoch)
            }
            Ok(Redemption::Full) => Reply::unavailable(
                "The replay ledger has no room; nothing was run, and the state is not spent.",
            ),
            Ok(_) => Reply::unknown("an earlier run of this retry was cut off"),
            Err(error) => {
                tracing::error!(%error, "no word from the ledger on a round's claim; nothing was run");
                // The claim may have been recorded all the same; given back, the same retry can claim it again.
                row.release(token).await;
                Reply::unavailable(
                    "The replay ledger did not answer; nothing was run, and only the same retry can use the state.",
                )
            }
        }
    }

    /// Runs the body and turns what came of it into a reply. In the earlier era a handler that asks by hand runs again here,
    /// as often as it asks.
    async fn run(mut self, record: &Record) -> Reply {
        let handler = Arc::clone(&self.handler);
        let flow = self.flow.as_mut();
        let mut journal = flow.map(|(frame, _)| std::mem::take(&mut frame.journal));
        let mut rounds = 0;
        let steps = Steps::default();
        loop {
            let cell = self.cell(journal, record, &steps);
            let standing = || record.standing(cell.durable.as_ref(), handler.run_again);
            let body = match self.start(&cell, &standing()) {
                Ok(body) => body,
                Err(reply) => return reply,
            };
            let run = Run::new(Arc::clone(&cell), body);
            let asks = match self.finish(&cell, record, run, &mut rounds).await {
                Finish::Done(Ok(Turn::Complete(content))) => {
                    return self.complete(content, &standing());
                }
                Finish::Done(Ok(Turn::InputRequired(asks))) => asks,
                Finish::Done(Err(error)) => return Reply::handler_error(&handler, error),
                finish => return self.unfinished(&cell, finish, &standing()).await,
            };
            let waiting = Run::new(Arc::clone(&cell), Box::pin(asks.put(&cell)));
            match self.finish(&cell, record, waiting, &mut rounds).await {
                Finish::Done(()) => journal = Some(cell.take_journal()),
                finish => return self.unfinished(&cell, finish, &standing()).await,
            }
        }
    }

    /// What the handler's `Flow` holds on to.
    fn cell(&self, journal: Option<Journal>, record: &Record, steps: &Steps) -> Arc<FlowCell> {
        let (Some((frame, request)), Some(journal)) = (&self.flow, journal) else {
            return FlowCell::without_flow();
        };
        let owner = FlowOwner {
            principal: self.requester.principal.clone(),
            flow: frame.flow,
            flow_exp: frame.flow_exp,
        };
        let durable = self.durable(&journal, *request, record.owner(), steps.clone());
        FlowCell::new(
            journal,
            self.requester.declared,
            self.inner.bind_questions,
            durable,
            Some(owner),
            self.requester.link.line.clone(),
        )
    }

    /// Gives the handler what it takes.
    fn start(&mut self, cell: &Arc<FlowCell>, standing: &Standing) -> Result<Body<Came>, Reply> {
        let handler = Arc::clone(&self.handler);
        // Only where it may run again are they needed again.
        let again = handler.asks_by_hand && self.requester.link.is_earlier();
        let arguments = handler.takes_arguments.then(|| match again {
            true => self.arguments.clone(),
            false => std::mem::take(&mut self.arguments),
        });
        let mut call = Call {
            arguments,
            target: &self.target,
            principal: &self.requester.principal,
            states: &self.inner.states,
            cell: self.flow.is_some().then_some(cell),
            link: &self.requester.link,
            cancelled: &self.cancelled,
            partial: None,
            notes: &self.notes,
        };
        // An extractor is the author's code too.
        let started = catch_unwind(AssertUnwindSafe(|| (handler.start)(&mut call)));
        let Ok(started) = started else {
            return Err(panicked(&handler, standing));
        };
        started.map_err(|error| match error {
            ExtractError::Refused(error) => Reply::handler_error(&handler, error),
            ExtractError::Meta(_) => Reply::invalid_params(format!("Invalid params: {error}.")),
            ExtractError::Arguments => Reply::invalid_arguments(handler.surface, error.to_string()),
            ExtractError::Missing(_) => {
                tracing::error!(%error, "an extractor failed");
                Reply::internal("The handler could not be given what it takes.")
            }
        })
    }

    /// Runs to the end, with signs of life to the ledger.
    async fn finish<T>(
        &self,
        cell: &Arc<FlowCell>,
        record: &Record,
        run: Run<T>,
        rounds: &mut u32,
    ) -> Finish<T> {
        let run = self.until_asked_out(cell, run, rounds);
        alive(self.inner.limits.lease, cell, record.owner(), run).await
    }

    /// A result, if it is what was promised.
    fn complete(&self, mut content: Content, standing: &Standing) -> Reply {
        let handler = &self.handler;
        if let Some(breach) = handler.breach(&content) {
            tracing::error!(
                handler = handler.name,
                breach,
                "a result does not fit the output schema, and is not sent"
            );
            return Reply::unfit(standing);
        }
        handler.hint(&mut content, self.has_answers);
        Reply::content(content, &self.inner.info)
    }

    /// What comes of a body that did not end.
    async fn unfinished<T>(self, cell: &FlowCell, finish: Finish<T>, standing: &Standing) -> Reply {
        let handler = Arc::clone(&self.handler);
        match finish {
            Finish::Asks(open) => self.ask(cell, open, standing).await,
            Finish::Ended(end) => self.ended(&end, standing),
            Finish::Panicked | Finish::Done(_) => panicked(&handler, standing),
        }
    }

    /// What the framework could not deliver.
    fn ended(&self, end: &End, standing: &Standing) -> Reply {
        if let (End::StaleEpoch, Some(durability)) = (end, &self.inner.durability) {
            durability.forget_epoch();
        }
        let earlier = self.requester.link.is_earlier();
        let opaque = self.inner.opaque_rejections;
        Reply::ended(&self.handler, end, standing, opaque, earlier)
    }

    /// The run to its end. In the earlier era that is where its questions are put, on the call's own line, and waited for.
    async fn until_asked_out<T>(
        &self,
        cell: &Arc<FlowCell>,
        mut run: Run<T>,
        rounds: &mut u32,
    ) -> Finish<T> {
        let Some(line) = &cell.line else {
            return run.await;
        };
        let mut deadline = pin!(sleep(self.patience()));
        let mut cancelled = pin!(self.cancelled.cancelled());
        let mut winds_up = pin!(line.winds_up());
        let mut over = false;
        loop {
            // Who waits for a person is ended by the time that passes, and by a client that has gone; who works is not.
            let finish = poll_fn(|cx| {
                loop {
                    if let Poll::Ready(finish) = Pin::new(&mut run).poll(cx) {
                        return Poll::Ready(finish);
                    }
                    if over || !cell.awaits_answers() {
                        return Poll::Pending;
                    }
                    if cancelled.as_mut().poll(cx).is_ready() {
                        cell.end(End::Cancelled);
                    } else if winds_up.as_mut().poll(cx).is_ready() {
                        cell.end(End::WindingUp);
                    } else if deadline.as_mut().poll(cx).is_ready() {
                        cell.end(End::Unanswered);
                    } else {
                        return Poll::Pending;
                    }
                    over = true;
                }
            });
            let open = match finish.await {
                Finish::Asks(open) => open,
                finish => return finish,
            };
            *rounds += 1;
            if *rounds > self.inner.limits.rounds {
                cell.end(End::AskedTooOften {
                    rounds: *rounds - 1,
                });
            } else if self.is_over() {
                cell.end(End::OpenTooLong);
            } else if cell.put(open) {
                deadline.set(sleep(self.patience()));
            } else {
                cell.end(End::NotPut);
            }
        }
    }

    /// How long a question that is put now may wait for its answer: as long as a state could be answered.
    fn patience(&self) -> Duration {
        let lifetime = self.handler.lifetime;
        let left = self
            .flow
            .as_ref()
            .map(|(frame, _)| frame.flow_exp.saturating_since(self.inner.clock.now()));
        left.map_or(lifetime, |left| left.min(lifetime))
    }

    /// Whether the flow's time is over, so that nothing more can be asked in it.
    fn is_over(&self) -> bool {
        let now = self.inner.clock.now();
        self.flow
            .as_ref()
            .is_some_and(|(frame, _)| now >= frame.flow_exp)
    }

    fn durable(
        &self,
        journal: &Journal,
        request: RequestDigest,
        round: Option<Owner>,
        steps: Steps,
    ) -> Option<Durable> {
        let (frame, _) = self.flow.as_ref()?;
        let durability = self.inner.durability.as_ref()?;
        Some(Durable {
            ledger: Arc::clone(&durability.ledger),
            outcomes: durability.outcomes.clone(),
            audience: Arc::clone(&durability.audience),
            flow: frame.flow,
            flow_exp: frame.flow_exp,
            epoch: frame.epoch?,
            secret: journal.secret,
            principal: self.requester.principal.clone(),
            account: self.requester.account,
            request,
            round,
            run_again: self.handler.run_again,
            lease: self.inner.limits.lease,
            cancelled: self.cancelled.clone(),
            tasks: self.inner.tasks.clone(),
            steps,
        })
    }

    /// Seals what the flow must remember and asks. What is too large to be carried is kept in the ledger before the state leaves.
    async fn ask(self, cell: &FlowCell, open: Vec<Open>, standing: &Standing) -> Reply {
        let handler = &self.handler;
        let (Some(envelope), Some((frame, request))) = (&self.inner.envelope, &self.flow) else {
            return Reply::unaskable(handler, "the server has no codec", standing);
        };
        let round = frame.round + 1;
        if round > self.inner.limits.rounds {
            return Reply::asked_too_often(handler, frame.round, standing);
        }
        let now = self.inner.clock.now();
        if now >= frame.flow_exp {
            return Reply::open_too_long(handler, standing);
        }
        let mut journal = cell.take_journal();
        let mut requests = InputRequests::default();
        for Open { key, rendered, .. } in open {
            let digest = Base64(*rendered.digest().as_bytes());
            journal
                .open
                .push(OpenQuestion(key.to_string(), rendered.kind(), digest));
            if requests.insert(key, rendered.into_request()).is_err() {
                return Reply::unaskable(handler, "it used a key twice", standing);
            }
        }
        let written = to_raw_value(&journal).ok().zip(Nonce::generate().ok());
        let Some((journal, nonce)) = written else {
            tracing::error!(
                "a journal does not serialize, or there is no randomness to seal it with"
            );
            return Reply::unaskable(handler, LOGGED, standing);
        };
        let exp = now.saturating_add(handler.lifetime).min(frame.flow_exp);
        let kept = match self.to_be_kept(&journal) {
            Ok(kept) => kept,
            Err(why) => return Reply::unaskable(handler, why, standing),
        };
        let binding = Binding {
            principal: self.requester.principal.clone(),
            request: *request,
        };
        let draft = Draft {
            nonce,
            flow: frame.flow,
            flow_exp: frame.flow_exp,
            round,
            epoch: frame.epoch,
            iat: now,
            exp,
            data: kept.as_deref().unwrap_or(&journal),
        };
        let state = match envelope.seal(&binding, &draft) {
            Ok(state) => state,
            Err(error) => {
                tracing::error!(%error, "a state cannot be sealed");
                let why = match error {
                    SealError::TooLarge { .. } => "what it keeps does not fit into a state",
                    _ => LOGGED,
                };
                return Reply::unaskable(handler, why, standing);
            }
        };
        metrics::sealed();
        let mut result = match InputRequiredResult::new(requests, Some(state)) {
            Ok(result) => result,
            Err(error) => {
                tracing::error!(%error, "a round cannot be put");
                return Reply::unaskable(handler, LOGGED, standing);
            }
        };
        if kept.is_some() {
            let place = Place {
                nonce,
                exp,
                principal: &binding.principal,
                request,
            };
            if let Err(end) = self.keep(cell, &place, &journal, standing).await {
                return self.ended(&end, standing);
            }
        }
        result.meta = self.inner.result_meta();
        Reply::asking(&result)
    }

    /// What the state carries in the journal's place, if that is too large to be carried; or why it can go nowhere.
    fn to_be_kept(&self, journal: &RawValue) -> Result<Option<Box<RawValue>>, &'static str> {
        let bytes = journal.get().len();
        let Some(sizes) = self.inner.stored.filter(|sizes| sizes.stores(bytes)) else {
            return Ok(None);
        };
        if sizes.refuses(bytes) {
            tracing::error!(bytes, "a journal is larger than the `StoredCodec` stores");
            return Err("what it keeps is more than this server stores");
        }
        kept::in_place_of(journal).map(Some).ok_or(LOGGED)
    }

    async fn keep(
        &self,
        cell: &FlowCell,
        place: &Place<'_>,
        journal: &RawValue,
        standing: &Standing,
    ) -> Result<(), End> {
        let (Some(durable), Some(durability)) = (&cell.durable, &self.inner.durability) else {
            return Err(End::NotKept);
        };
        // Who has been let in to act is not turned away when the act is over.
        let admitted = !standing.may_repeat();
        kept::keep(durable, &durability.journals, place, journal, admitted).await
    }
}

/// Why a question cannot be put, where the cause is for the operator alone.
const LOGGED: &str = "the server's log has the reason";

const TOO_MANY: &str = "Too many calls of this principal are running; nothing was run.";

fn panicked(handler: &Registered, standing: &Standing) -> Reply {
    tracing::error!(handler = handler.name, "a handler panicked");
    Reply::panicked(standing)
}

/// Polls the run, and beside it gives the ledger signs of life: neither waits for the other.
async fn alive<T>(
    lease: Duration,
    cell: &Arc<FlowCell>,
    round: Option<Owner>,
    run: impl Future<Output = Finish<T>>,
) -> Finish<T> {
    let Some(durable) = cell.durable.as_ref() else {
        return run.await;
    };
    tokio::select! {
        biased;
        finish = run => finish,
        never = beat(lease, durable, round) => match never {},
    }
}

/// Renews the leases of the round and of the steps that run, three times as often as they lapse.
async fn beat(lease: Duration, durable: &Durable, round: Option<Owner>) -> Infallible {
    loop {
        tokio::time::sleep(lease / 3).await;
        for owner in round.into_iter().chain(durable.steps.running()) {
            match durable.ledger.beat(owner.key, owner.token, lease).await {
                Ok(true) => {}
                // Withdrawn, or over in this moment. If withdrawn, the next step's claim is refused in its own statement.
                Ok(false) => tracing::debug!("a row is not this run's any more"),
                Err(error) => tracing::warn!(%error, "no word from the ledger on a beat"),
            }
        }
    }
}
