//! Steps: what `once` does with the ledger.
//!
//! ```text
//! claim ── First ──▶ run the effect ──▶ settle ──▶ return its outcome
//!   │                     └─ dropped half-way: abandoned, its outcome is unknown for ever
//!   ├─ Settled ─▶ return the kept outcome; nothing runs
//!   └─ anything else ends the call; nothing runs
//! ```
//!
//! Claim and settling run in tasks of their own: an author's `timeout` around `once` can drop the waiting for them, and not
//! them.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use mrtr_ledger::{
    Account, Claim, Claimed, Fingerprint, Found, Kind, Ledger, Owner, RowKey, Settled, Settlement,
    Token,
};
use mrtr_state::{Epoch, FlowId, Principal, RequestDigest, Timestamp};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::end::End;
use super::journal::Secret;
use super::outcome::Outcomes;
use super::there_and_back;
use crate::error::ToolError;
use crate::ledgering;

/// A step's outcome is kept up to this size, in bytes of JSON; it is returned on every rerun, so it must be kept whole.
pub(crate) const LARGEST_STEP_OUTCOME: usize = 64 * 1024;

/// What steps need to know of the flow and of the round that they run in.
pub(crate) struct Durable {
    pub(crate) ledger: Arc<dyn Ledger>,
    pub(crate) outcomes: Outcomes,
    pub(crate) audience: Arc<str>,
    pub(crate) flow: FlowId,
    pub(crate) flow_exp: Timestamp,
    pub(crate) epoch: Epoch,
    pub(crate) secret: Secret,
    pub(crate) principal: Principal,
    pub(crate) account: Account,
    pub(crate) request: RequestDigest,
    /// The round's row; none on a first call.
    pub(crate) round: Option<Owner>,
    /// The round may be taken over after a crash, and its body run again.
    pub(crate) run_again: bool,
    pub(crate) lease: Duration,
    /// Set when the connection closes.
    pub(crate) cancelled: CancellationToken,
    pub(crate) tasks: TaskTracker,
    pub(crate) steps: Steps,
}

/// The steps of this run.
#[derive(Debug, Default)]
pub(crate) struct Steps(Mutex<StepList>);

#[derive(Debug, Default)]
struct StepList {
    /// A claim has been made, whatever came of it.
    begun: bool,
    running: Vec<Owner>,
    taken: Vec<String>,
}

impl Steps {
    fn list(&self) -> MutexGuard<'_, StepList> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The rows whose lease must be kept alive.
    pub(crate) fn running(&self) -> Vec<Owner> {
        self.list().running.clone()
    }

    /// The steps that took effect or may have, in order.
    pub(crate) fn taken(&self) -> Vec<String> {
        self.list().taken.clone()
    }

    fn take(&self, step: &str) {
        self.list().taken.push(step.to_owned());
    }
}

/// A step's outcome as the ledger keeps it.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum StepOutcome {
    /// It succeeded with this value.
    Ok(Box<RawValue>),
    /// It failed, and this is what the caller may read.
    Err(String),
    /// It took effect, and its outcome cannot be kept: too large, or not JSON.
    Lost(String),
}

/// How a step begins.
pub(crate) enum Begun<'d> {
    /// This run owns the step: run the effect, then finish.
    Run(RunningStep<'d>),
    /// It has run before; this is what came of it.
    Before(StepOutcome),
    /// Neither.
    Ended(End),
}

impl Durable {
    /// Claims the step.
    pub(crate) async fn begin(&self, step: &str) -> Begun<'_> {
        if self.cancelled.is_cancelled() {
            return Begun::Ended(End::Cancelled);
        }
        let Ok(token) = Token::generate() else {
            return Begun::Ended(End::LedgerUnavailable);
        };
        let key = RowKey::step(&self.audience, &self.flow, step, self.flow_exp);
        let fingerprint = Fingerprint::step(&self.secret.0, &self.principal, &self.request, step);
        let claim = Claim::step(
            key,
            self.epoch,
            fingerprint,
            self.account,
            token,
            self.lease,
        );
        let first = !std::mem::replace(&mut self.steps.list().begun, true);
        let claim = match self.round {
            Some(round) => claim.under(round),
            None if first => claim,
            None => claim.later(),
        };
        match self.claim(claim).await {
            Some(Claimed::First) => {
                tracing::info!(step, "a step begins");
                let owner = Owner { key, token };
                self.steps.list().running.push(owner);
                Begun::Run(RunningStep {
                    durable: self,
                    step: step.to_owned(),
                    owner,
                    fingerprint,
                    over: false,
                })
            }
            Some(Claimed::Settled(stored)) => self.before(step, &key, &fingerprint, stored),
            Some(Claimed::InProgress { retry_after }) => {
                Begun::Ended(End::StepInProgress { retry_after })
            }
            Some(Claimed::Expired) => self.after_expiry(step, key, fingerprint).await,
            Some(Claimed::StaleEpoch) => Begun::Ended(End::StaleEpoch),
            Some(Claimed::StaleOwner) => Begun::Ended(End::RoundWithdrawn),
            Some(Claimed::Full) | None => Begun::Ended(End::LedgerUnavailable),
            // `Conflict` cannot be: flow, principal and request are bound to the state. If it is, nothing is certain.
            Some(Claimed::Abandoned | Claimed::Conflict | _) => self.unknown(step),
        }
    }

    /// Claims in a task of its own. A claim that nobody waits for any more is given back: nothing has run.
    async fn claim(&self, claim: Claim) -> Option<Claimed> {
        let (answer, answered) = oneshot::channel();
        let ledger = Arc::clone(&self.ledger);
        self.tasks.spawn(async move {
            let Owner { key, token } = Owner {
                key: claim.key,
                token: claim.token,
            };
            let claimed = ledgering::claim(&ledger, claim).await.ok();
            let no_word = claimed.is_none();
            let unheard = answer
                .send(claimed)
                .is_err_and(|unheard| unheard == Some(Claimed::First));
            if no_word || unheard {
                ledgering::keep_releasing(&ledger, key, token).await;
            }
        });
        answered.await.ok().flatten()
    }

    /// The flow's time is over: no step begins, and one that has run says what came of it.
    async fn after_expiry(&self, step: &str, key: RowKey, fingerprint: Fingerprint) -> Begun<'_> {
        match self.ledger.lookup(Kind::Step, key, fingerprint).await {
            Ok(Found::Absent) => Begun::Ended(End::FlowExpired),
            Ok(Found::InProgress { retry_after }) => {
                Begun::Ended(End::StepInProgress { retry_after })
            }
            Ok(Found::Settled(stored)) => self.before(step, &key, &fingerprint, stored),
            Ok(_) => self.unknown(step),
            Err(_) => Begun::Ended(End::LedgerUnavailable),
        }
    }

    fn before(
        &self,
        step: &str,
        key: &RowKey,
        fingerprint: &Fingerprint,
        stored: Vec<u8>,
    ) -> Begun<'_> {
        let opened = self.outcomes.open(key, fingerprint, stored).ok();
        match opened.and_then(|outcome| serde_json::from_slice(&outcome).ok()) {
            Some(outcome) => {
                self.steps.take(step);
                Begun::Before(outcome)
            }
            None => self.unknown(step),
        }
    }

    fn unknown(&self, step: &str) -> Begun<'_> {
        self.steps.take(step);
        Begun::Ended(End::StepUnknown {
            step: step.to_owned(),
        })
    }
}

/// A step that this run owns. Dropped before it is over, it is abandoned: its effect may have happened.
pub(crate) struct RunningStep<'d> {
    durable: &'d Durable,
    step: String,
    owner: Owner,
    fingerprint: Fingerprint,
    over: bool,
}

impl RunningStep<'_> {
    /// Keeps what the effect came to, and returns what later rounds will read. An error ends the call.
    pub(crate) async fn finish<T: Serialize + DeserializeOwned>(
        self,
        outcome: Result<T, ToolError>,
    ) -> Result<Result<T, ToolError>, End> {
        match outcome {
            Ok(value) => match there_and_back(&value) {
                Ok((raw, same)) => self.settle(StepOutcome::Ok(raw)).await.map(|()| Ok(same)),
                Err(error) => Err(self.lose(error.to_string()).await),
            },
            Err(error) if error.says_not_done() => self.release().await.map(|()| Err(error)),
            Err(error) => {
                let error = error.logged(&self.step);
                let kept = StepOutcome::Err(error.public().to_owned());
                self.settle(kept).await.map(|()| Err(error))
            }
        }
    }

    async fn settle(self, outcome: StepOutcome) -> Result<(), End> {
        let text = serde_json::to_vec(&outcome).unwrap_or_default();
        if text.is_empty() || text.len() > LARGEST_STEP_OUTCOME {
            let why = format!(
                "it has {} bytes as JSON, and {LARGEST_STEP_OUTCOME} are kept",
                text.len()
            );
            return Err(self.lose(why).await);
        }
        self.write(text).await
    }

    /// The effect happened and its outcome cannot be kept; that is kept.
    async fn lose(self, why: String) -> End {
        let step = self.step.clone();
        let text = serde_json::to_vec(&StepOutcome::Lost(why.clone())).unwrap_or_default();
        match self.write(text).await {
            Ok(()) => End::StepLost { step, why },
            Err(end) => end,
        }
    }

    async fn write(mut self, text: Vec<u8>) -> Result<(), End> {
        let Owner { key, token } = self.owner;
        let sealed = self.durable.outcomes.seal(&key, &self.fingerprint, &text);
        let kept = sealed.is_some();
        let settlement = sealed.map_or(Settlement::Abandoned, Settlement::Outcome);
        self.end_running();
        self.durable.steps.take(&self.step);
        let (ledger, tasks) = (Arc::clone(&self.durable.ledger), self.durable.tasks.clone());
        let settled = self
            .durable
            .tasks
            .spawn(async move { ledgering::settle(&ledger, &tasks, key, token, settlement).await });
        match settled.await {
            Ok(Ok(Settled::Stored)) if kept => Ok(()),
            _ => Err(End::StepUnknown {
                step: self.step.clone(),
            }),
        }
    }

    /// Frees the step, because nothing was done.
    async fn release(mut self) -> Result<(), End> {
        self.end_running();
        let Owner { key, token } = self.owner;
        let (ledger, tasks) = (Arc::clone(&self.durable.ledger), self.durable.tasks.clone());
        let released = self
            .durable
            .tasks
            .spawn(async move { ledgering::release(&ledger, &tasks, key, token).await });
        match released.await {
            Ok(Ok(())) => Ok(()),
            _ => Err(End::LedgerUnavailable),
        }
    }

    fn end_running(&mut self) {
        self.over = true;
        let token = self.owner.token;
        self.durable
            .steps
            .list()
            .running
            .retain(|running| running.token != token);
    }
}

impl Drop for RunningStep<'_> {
    fn drop(&mut self) {
        if self.over {
            return;
        }
        self.end_running();
        self.durable.steps.take(&self.step);
        tracing::error!(
            step = self.step,
            "a step was dropped half-way (a timeout or select! around `once`, or a panic); whether it took effect is unknown, and it will not run again in this flow"
        );
        let Owner { key, token } = self.owner;
        let (ledger, tasks) = (Arc::clone(&self.durable.ledger), self.durable.tasks.clone());
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            self.durable.tasks.spawn_on(
                async move {
                    drop(
                        ledgering::settle(&ledger, &tasks, key, token, Settlement::Abandoned).await,
                    );
                },
                &runtime,
            );
        }
    }
}
