//! Steps: what `once` does with the ledger.
//!
//! ```text
//! claim ── First ──▶ run the effect ──▶ settle ──▶ return its outcome
//!   │                     └─ dropped half-way: abandoned, its outcome is unknown for ever
//!   ├─ Settled ─▶ return the kept outcome; nothing runs
//!   └─ anything else ends the call; nothing runs
//! ```

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use mrtr_ledger::{
    Account, Claim, Claimed, Fingerprint, Found, Kind, Ledger, Owner, RowKey, Settled, Settlement,
    Token,
};
use mrtr_state::{Epoch, FlowId, Principal, RequestDigest, Timestamp};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::end::End;
use super::journal::Secret;
use super::outcome::Outcomes;
use crate::ledgering;

/// A step's outcome is kept up to this size, in bytes; it is returned on every rerun, so it must be kept whole.
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
    running: Vec<Owner>,
    done: Vec<String>,
}

impl Steps {
    fn list(&self) -> std::sync::MutexGuard<'_, StepList> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The rows whose lease must be kept alive.
    pub(crate) fn running(&self) -> Vec<Owner> {
        self.list().running.clone()
    }

    fn have_begun(&self) -> bool {
        let list = self.list();
        !list.running.is_empty() || !list.done.is_empty()
    }

    /// The steps whose outcome is known, in order.
    pub(crate) fn done(&self) -> Vec<String> {
        self.list().done.clone()
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
    /// It took effect, and its value cannot be kept: too large, or not JSON.
    Lost(String),
}

/// How a step begins.
pub(crate) enum Begun<'d> {
    /// This run owns the step: run the effect, then settle.
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
            return Begun::Ended(End::Cancelled {
                steps_done: self.steps.done(),
            });
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
        let claim = match self.round {
            Some(round) => claim.under(round),
            None if self.steps.have_begun() => claim.later(),
            None => claim,
        };
        let unknown = || {
            Begun::Ended(End::StepUnknown {
                step: step.to_owned(),
            })
        };
        match ledgering::claim(self.ledger.as_ref(), claim).await {
            Ok(Claimed::First) => {
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
            Ok(Claimed::Settled(stored)) => match self.read(&key, &fingerprint, stored) {
                Some(outcome) => {
                    self.steps.list().done.push(step.to_owned());
                    Begun::Before(outcome)
                }
                None => unknown(),
            },
            Ok(Claimed::InProgress { retry_after }) => {
                Begun::Ended(End::StepInProgress { retry_after })
            }
            Ok(Claimed::Expired) => self.after_expiry(step, key, fingerprint).await,
            Ok(Claimed::StaleEpoch) => Begun::Ended(End::StaleEpoch),
            Ok(Claimed::StaleOwner) => Begun::Ended(End::RoundWithdrawn),
            Ok(Claimed::Full) | Err(_) => Begun::Ended(End::LedgerUnavailable),
            // `Conflict` cannot be: flow, principal and request are bound to the state. If it is, nothing is certain.
            Ok(Claimed::Abandoned | Claimed::Conflict | _) => unknown(),
        }
    }

    /// The flow's time is over: no step begins, and one that has run says what came of it.
    async fn after_expiry(&self, step: &str, key: RowKey, fingerprint: Fingerprint) -> Begun<'_> {
        match self.ledger.lookup(Kind::Step, key, fingerprint).await {
            Ok(Found::Absent) => Begun::Ended(End::FlowExpired),
            Ok(Found::InProgress { retry_after }) => {
                Begun::Ended(End::StepInProgress { retry_after })
            }
            Ok(Found::Settled(stored)) => match self.read(&key, &fingerprint, stored) {
                Some(outcome) => Begun::Before(outcome),
                None => Begun::Ended(End::StepUnknown {
                    step: step.to_owned(),
                }),
            },
            Ok(_) => Begun::Ended(End::StepUnknown {
                step: step.to_owned(),
            }),
            Err(_) => Begun::Ended(End::LedgerUnavailable),
        }
    }

    fn read(
        &self,
        key: &RowKey,
        fingerprint: &Fingerprint,
        stored: Vec<u8>,
    ) -> Option<StepOutcome> {
        let outcome = self.outcomes.open(key, fingerprint, stored).ok()?;
        serde_json::from_slice(&outcome).ok()
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
    /// Keeps the outcome. The call must end with what is returned, if anything is: the outcome is then not known to be
    /// kept.
    pub(crate) async fn settle(mut self, outcome: &StepOutcome) -> Result<(), End> {
        let settlement = self.settlement(outcome);
        self.end_running(true);
        let Owner { key, token } = self.owner;
        match ledgering::settle(
            &self.durable.ledger,
            &self.durable.tasks,
            key,
            token,
            settlement,
        )
        .await
        {
            Ok(Settled::Stored) => Ok(()),
            Ok(Settled::Refused) | Err(_) => Err(End::StepUnknown {
                step: self.step.clone(),
            }),
        }
    }

    fn settlement(&self, outcome: &StepOutcome) -> Settlement {
        let text = serde_json::to_vec(outcome).unwrap_or_default();
        let sealed = (text.len() <= LARGEST_STEP_OUTCOME)
            .then(|| {
                self.durable
                    .outcomes
                    .seal(&self.owner.key, &self.fingerprint, &text)
            })
            .flatten();
        sealed.map_or(Settlement::Abandoned, Settlement::Outcome)
    }

    /// Frees the step, because nothing was done.
    pub(crate) async fn release(mut self) -> Result<(), End> {
        self.end_running(false);
        let Owner { key, token } = self.owner;
        match self.durable.ledger.release(key, token).await {
            Ok(_) => Ok(()),
            // The row stays claimed until its lease lapses; whoever comes then is told that the outcome is unknown.
            Err(_) => Err(End::LedgerUnavailable),
        }
    }

    fn end_running(&mut self, done: bool) {
        self.over = true;
        let mut list = self.durable.steps.list();
        list.running
            .retain(|running| running.token != self.owner.token);
        if done {
            list.done.push(self.step.clone());
        }
    }
}

impl Drop for RunningStep<'_> {
    fn drop(&mut self) {
        if self.over {
            return;
        }
        self.end_running(false);
        tracing::error!(
            step = self.step,
            "a step was dropped half-way (a timeout or select! around `once`, or a panic); whether it took effect is unknown, and it will not run again in this flow"
        );
        let (ledger, Owner { key, token }) = (Arc::clone(&self.durable.ledger), self.owner);
        let tasks = self.durable.tasks.clone();
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            self.durable.tasks.spawn_on(
                async move {
                    drop(
                        ledgering::settle(&ledger, &tasks, key, token, Settlement::Abandoned).await,
                    )
                },
                &runtime,
            );
        }
    }
}
