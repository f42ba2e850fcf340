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
use tokio::runtime::Handle;
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

/// The steps of this call. Cheap to clone; clones are the same.
#[derive(Debug, Default, Clone)]
pub(crate) struct Steps(Arc<Mutex<StepList>>);

#[derive(Debug, Default)]
struct StepList {
    /// There was room for a step, and so for all that follow.
    admitted: bool,
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

    pub(crate) fn take(&self, step: &str) {
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

/// A step's row in the ledger.
#[derive(Debug, Clone)]
pub(crate) struct StepRow {
    pub(crate) step: String,
    pub(crate) key: RowKey,
    pub(crate) fingerprint: Fingerprint,
}

impl Durable {
    pub(crate) fn row(&self, step: &str) -> StepRow {
        StepRow {
            step: step.to_owned(),
            key: RowKey::step(&self.audience, &self.flow, step, self.flow_exp),
            fingerprint: Fingerprint::step(&self.secret.0, &self.principal, &self.request, step),
        }
    }

    /// The claim of a step. `Err`: none is made, and this is what is known of the step instead, or why the call ends.
    pub(crate) async fn claim_of(&self, row: &StepRow) -> Result<Claim, Result<StepOutcome, End>> {
        if self.cancelled.is_cancelled() {
            return Err(self.no_more(row, End::Cancelled).await);
        }
        let token = Token::generate().map_err(|_| Err(End::LedgerUnavailable))?;
        let claim = Claim::step(
            row.key,
            self.epoch,
            row.fingerprint,
            self.account,
            token,
            self.lease,
        );
        Ok(match self.round {
            Some(round) => claim.under(round),
            // Two steps at once are both the first, until there was room for one of them.
            None if self.steps.list().admitted => claim.later(),
            None => claim,
        })
    }

    /// Notes what a claim was told: where there was room for one step, there is for those that follow.
    pub(crate) fn note(&self, claimed: &Claimed) {
        self.steps.list().admitted |= *claimed != Claimed::Full;
    }

    /// Claims the step.
    pub(crate) async fn begin(&self, step: &str) -> Begun<'_> {
        let row = self.row(step);
        let claim = match self.claim_of(&row).await {
            Ok(claim) => claim,
            Err(Ok(outcome)) => return Begun::Before(outcome),
            Err(Err(end)) => return Begun::Ended(end),
        };
        match self.claim(claim).await {
            Ok(grant) => {
                tracing::info!(step, "a step begins");
                let owner = grant.taken();
                self.steps.list().running.push(owner);
                Begun::Run(RunningStep {
                    durable: self,
                    row,
                    owner,
                    over: false,
                })
            }
            Err(Some(claimed)) => match self.before(&row, claimed).await {
                Ok(outcome) => Begun::Before(outcome),
                Err(end) => Begun::Ended(end),
            },
            Err(None) => Begun::Ended(End::LedgerUnavailable),
        }
    }

    /// Claims in a task of its own, and gives back what nobody waits for any more: nothing has run. The error is what else the ledger
    /// said, or that it gave no word.
    async fn claim(&self, claim: Claim) -> Result<Grant, Option<Claimed>> {
        let (answer, answered) = oneshot::channel();
        let (ledger, tasks) = (Arc::clone(&self.ledger), self.tasks.clone());
        let owner = Owner {
            key: claim.key,
            token: claim.token,
        };
        self.tasks.spawn(async move {
            let granted = match ledgering::claim(&ledger, &tasks, claim).await {
                // Whoever does not take it, because they have gone or never look, drops it.
                Ok(Claimed::First) => Ok(Grant {
                    ledger,
                    tasks,
                    owner,
                    taken: false,
                }),
                Ok(claimed) => Err(Some(claimed)),
                Err(_) => {
                    drop(answer.send(Err(None)));
                    ledgering::keep_releasing(&ledger, owner.key, owner.token).await;
                    return;
                }
            };
            drop(answer.send(granted));
        });
        let granted = answered.await.unwrap_or(Err(None));
        match &granted {
            Ok(_) => self.note(&Claimed::First),
            Err(Some(claimed)) => self.note(claimed),
            Err(None) => {}
        }
        granted
    }

    /// What came of a step that this run does not own, by what its claim was told.
    pub(crate) async fn before(&self, row: &StepRow, claimed: Claimed) -> Result<StepOutcome, End> {
        match claimed {
            Claimed::Settled(stored) => self.kept(row, stored),
            Claimed::InProgress { retry_after } => Err(End::StepInProgress { retry_after }),
            Claimed::Expired => self.no_more(row, End::FlowExpired).await,
            Claimed::StaleEpoch => Err(End::StaleEpoch),
            Claimed::StaleOwner => Err(End::RoundWithdrawn),
            Claimed::Full => Err(End::LedgerUnavailable),
            // `Conflict` cannot be: flow, principal and request are bound to the state. If it is, nothing is certain.
            _ => Err(self.unknown(row)),
        }
    }

    /// No step begins any more, because the flow's time is over or its client has gone: that is how the call ends, unless the step
    /// is there already. One that was settled, in another round or run, is returned and so named; of one that is in doubt nobody
    /// says that the call ended before it.
    async fn no_more(&self, row: &StepRow, end: End) -> Result<StepOutcome, End> {
        let found = self.ledger.lookup(Kind::Step, row.key, row.fingerprint);
        match found.await {
            Ok(Found::Absent) => Err(end),
            Ok(Found::InProgress { retry_after }) => Err(End::StepInProgress { retry_after }),
            Ok(Found::Settled(stored)) => self.kept(row, stored),
            Ok(_) => Err(self.unknown(row)),
            Err(_) => Err(End::LedgerUnavailable),
        }
    }

    fn kept(&self, row: &StepRow, stored: Vec<u8>) -> Result<StepOutcome, End> {
        let opened = self.outcomes.open(&row.key, &row.fingerprint, stored).ok();
        let outcome = opened.and_then(|outcome| serde_json::from_slice(&outcome).ok());
        match outcome {
            Some(outcome) => {
                self.steps.take(&row.step);
                Ok(outcome)
            }
            None => Err(self.unknown(row)),
        }
    }

    pub(crate) fn unknown(&self, row: &StepRow) -> End {
        self.steps.take(&row.step);
        End::StepUnknown {
            step: row.step.clone(),
        }
    }
}

/// A step that was granted and has not begun. Dropped so, it is given back.
struct Grant {
    ledger: Arc<dyn Ledger>,
    tasks: TaskTracker,
    owner: Owner,
    taken: bool,
}

impl Grant {
    fn taken(mut self) -> Owner {
        self.taken = true;
        self.owner
    }
}

impl Drop for Grant {
    fn drop(&mut self) {
        if self.taken {
            return;
        }
        if let Ok(runtime) = Handle::try_current() {
            let (ledger, Owner { key, token }) = (Arc::clone(&self.ledger), self.owner);
            let release = async move { ledgering::keep_releasing(&ledger, key, token).await };
            self.tasks.spawn_on(release, &runtime);
        }
    }
}

/// A step that this run owns. Dropped before it is over, it is abandoned: its effect may have happened.
pub(crate) struct RunningStep<'d> {
    durable: &'d Durable,
    row: StepRow,
    owner: Owner,
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
                let error = error.logged(&self.row.step);
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
        let step = self.row.step.clone();
        let text = serde_json::to_vec(&StepOutcome::Lost(why.clone())).unwrap_or_default();
        match self.write(text).await {
            Ok(()) => End::StepLost { step, why },
            Err(end) => end,
        }
    }

    async fn write(mut self, text: Vec<u8>) -> Result<(), End> {
        let Owner { key, token } = self.owner;
        let sealed = self
            .durable
            .outcomes
            .seal(&key, &self.row.fingerprint, &text);
        let kept = sealed.is_some();
        let settlement = sealed.map_or(Settlement::Abandoned, Settlement::Outcome);
        self.end_running();
        self.durable.steps.take(&self.row.step);
        let (ledger, tasks) = (Arc::clone(&self.durable.ledger), self.durable.tasks.clone());
        let settled = self
            .durable
            .tasks
            .spawn(async move { ledgering::settle(&ledger, &tasks, key, token, settlement).await });
        match settled.await {
            Ok(Ok(Settled::Stored)) if kept => Ok(()),
            _ => Err(End::StepUnknown {
                step: self.row.step.clone(),
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
        self.durable.steps.take(&self.row.step);
        tracing::error!(
            step = self.row.step,
            "a step was dropped half-way (a timeout or select! around `once`, or a panic); whether it took effect is unknown, and it will not run again in this flow"
        );
        let Owner { key, token } = self.owner;
        let (ledger, tasks) = (Arc::clone(&self.durable.ledger), self.durable.tasks.clone());
        if let Ok(runtime) = Handle::try_current() {
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
