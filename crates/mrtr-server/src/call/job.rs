//! One body to run, with or without a round to claim before it.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Duration;

use mrtr_ledger::{Owner, Redemption, RoundClaim, Token, redeem};
use mrtr_protocol::{InputRequests, InputRequiredResult};
use mrtr_state::{Binding, Draft, Nonce, Reason, RequestDigest, random};
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use super::row::Row;
use super::{Caller, Frame, Round, reject};
use crate::encoding::Base64;
use crate::extract::{Call, ExtractError};
use crate::flow::cell::{FlowCell, Open};
use crate::flow::durable::{Durable, Steps};
use crate::flow::end::End;
use crate::flow::journal::OpenQuestion;
use crate::flow::run::{Finish, Run};
use crate::reply::{Reply, Spent};
use crate::server::{Inner, Permit, RegisteredTool};

/// One body to run: everything owned, so that it can outlive its connection.
pub(super) struct Job {
    pub(super) inner: Arc<Inner>,
    pub(super) tool: Arc<RegisteredTool>,
    pub(super) caller: Caller,
    pub(super) arguments: Value,
    /// Present when the tool asks.
    pub(super) flow: Option<(Frame, RequestDigest)>,
    pub(super) cancelled: CancellationToken,
    /// Held until the body is gone.
    pub(super) _permit: Permit,
}

impl Job {
    /// Claims the round if there is one, runs the body, and settles.
    pub(super) async fn record(self, round: Option<Round>) -> Reply {
        let Some(Round { state, fingerprint }) = round else {
            return self.run(None, Spent::No).await;
        };
        let (inner, caller) = (Arc::clone(&self.inner), self.caller.clone());
        let Some(row) = Row::of_round(&inner, &caller, &state.nonce(), state.exp(), fingerprint)
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
            account: caller.account,
            token,
            lease: inner.limits.lease,
        };
        match redeem(row.durability.ledger.as_ref(), state, claim).await {
            Ok(Redemption::Redeemed(redeemed)) => {
                let owner = redeemed.owner();
                let reply = self.run(Some(owner), Spent::Yes).await;
                row.settle(owner.token, reply).await
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
                // The claim may have been recorded all the same; freed, the same retry can claim it again.
                let (ledger, key) = (Arc::clone(&row.durability.ledger), row.key);
                inner
                    .tasks
                    .spawn(async move { ledger.release(key, token).await.map(drop) });
                Reply::unavailable(
                    "The replay ledger did not answer; nothing was run, and the state is not spent.",
                )
            }
        }
    }

    /// Runs the body and turns what came of it into a reply.
    pub(super) async fn run(mut self, round: Option<Owner>, spent: Spent) -> Reply {
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
        // An extractor is the author's code too.
        let started = catch_unwind(AssertUnwindSafe(|| (tool.start)(&mut call)));
        let body = match started {
            Ok(Ok(body)) => body,
            Err(_panic) => return panicked(&tool, spent),
            Ok(Err(error @ ExtractError::Arguments(_))) => return Reply::failed(error.to_string()),
            Ok(Err(error)) => {
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
            Finish::Panicked => panicked(&tool, spent),
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

fn panicked(tool: &RegisteredTool, spent: Spent) -> Reply {
    tracing::error!(tool = tool.name(), "a handler panicked");
    Reply::panicked(spent)
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
