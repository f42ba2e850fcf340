//! The flow: ask, memo, once.
//!
//! | module | what is in it |
//! |---|---|
//! | this file, `ask`, `memo` | what a handler sees |
//! | `cell` | one run's state, shared by the handler and the runtime |
//! | `run` | the runtime that polls a body until it is done, asks, or is over |
//! | `journal` | what travels in the sealed state |
//! | `durable`, `outcome` | steps, and how their outcomes are kept |
//! | `in_database` | steps whose effect is in the ledger's own database |
//! | `end` | why a call ends without its body |

pub(crate) mod cell;
pub(crate) mod durable;
pub(crate) mod end;
pub(crate) mod in_database;
pub(crate) mod journal;
pub(crate) mod outcome;
pub(crate) mod run;

mod ask;
mod memo;

use std::borrow::Cow;
use std::fmt;
use std::future::{Future, pending};
use std::ops::Deref;
use std::sync::Arc;
use std::time::Duration;

use mrtr_protocol::earlier::ElicitationCompleteParams;
use mrtr_protocol::{Kind, method};
use mrtr_state::Principal;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::value::{RawValue, to_raw_value};

pub use self::ask::Ask;
use self::cell::{FlowCell, Key, Namespace};
use self::durable::{Begun, StepOutcome};
use self::end::{End, Name};
pub use self::in_database::FlowIn;
use crate::error::ToolError;
use crate::page::{Pages, Visit, VisitError};
use crate::question::{Answer, PageVisit, Question, QuestionError};

/// How often the record of visits is asked whether a page is done with, while a call of the earlier era waits for that.
const VISIT_PAUSE: Duration = Duration::from_secs(1);

/// A handler's way to ask the client side, and to remember between rounds. An extractor; needs a codec.
///
/// **The body runs again from the top on every retry.** Ask first, act last: an effect before a question happens once a
/// round. Where that cannot be, [`memo`](Self::memo) keeps a value and [`DurableFlow::once`] keeps an effect.
///
/// Whatever else the body was awaiting is dropped with it when it asks, and runs again: guards, transactions and
/// temporary files must not be held across a question.
///
/// It is owned and not `Clone`; helpers take `&Flow`. [`ask`](Self::ask), [`memo`](Self::memo) and `once` work only inside
/// the poll of the handler that owns it: moved into `tokio::spawn` they panic there and end the call with an error.
///
/// Specification: `basic/patterns/mrtr`, "Basic Workflow".
pub struct Flow {
    cell: Arc<FlowCell>,
}

impl Flow {
    pub(crate) fn new(cell: Arc<FlowCell>) -> Self {
        Self { cell }
    }

    /// Asks. The handler goes on with an answer, or it does not go on.
    ///
    /// Infallible on purpose: whatever cannot be delivered (an undeclared capability, the round limit, a key used twice)
    /// ends the call, and the body does not continue.
    ///
    /// `key` names the question within this tool and must be the same in every round; a loop numbers its keys. Questions
    /// asked in one poll are one round: `join!(flow.ask("a", ..), flow.ask("b", ..))`.
    ///
    /// An accepted answer counts only when the question that is asked now is the one that was put: if a price in its
    /// message changed, it is put anew. A decline or a dismissal counts for its key whatever is asked under it, and a
    /// question that was declined is not put again under any other key.
    ///
    /// # Panics
    ///
    /// When it is polled outside the handler that owns the flow.
    pub fn ask<Q: Question>(&self, key: impl Into<Cow<'static, str>>, question: Q) -> Ask<'_, Q> {
        Ask::new(self, key.into(), question)
    }

    /// Asks the person to open a page, and goes on when they have completed it there.
    ///
    /// The client's `accept` is only consent to open the page: until the record of visits says that the visit is done, the
    /// same question is put again, with the same URL. `Accept(())` therefore means that the page has taken what it wanted,
    /// from the principal whose call this is. What was typed there never passes through the client; look it up by
    /// principal.
    ///
    /// Needs a principal: an anonymous caller's page could be anybody's, and the call ends with an error.
    ///
    /// # Panics
    ///
    /// When it is polled outside the handler that owns the flow.
    ///
    /// Specification: `client/elicitation`, "URL Mode Elicitation Requests".
    pub async fn ask_url(
        &self,
        key: impl Into<Cow<'static, str>>,
        message: impl Into<String>,
        pages: &Pages,
    ) -> Answer<()> {
        let key: Key = key.into();
        let asking = self.ask_by_url(&key, message.into(), pages);
        self.cell.in_own_polls("ask_url", &key, asking).await
    }

    async fn ask_by_url(&self, key: &Key, message: String, pages: &Pages) -> Answer<()> {
        let owner = self.cell.owner.as_ref();
        let Some(owner) = owner.filter(|owner| owner.principal != Principal::Anonymous) else {
            let error = QuestionError::Anonymous;
            let key = key.to_string();
            self.cell.end(End::Unaskable { key, error });
            return pending().await;
        };
        // Looked up before the question is opened, so that several questions still make one round.
        let busy = self.cell.busy();
        let visited = async {
            let handle = self
                .cell
                .handle(key)
                .map_err(|error| VisitError::from(Box::from(error)))?;
            let visit = Visit {
                handle: handle.clone(),
                principal: owner.principal.clone(),
                flow: owner.flow,
                key: key.to_string(),
                expires: owner.flow_exp,
            };
            pages.visits().open(visit).await?;
            let done = pages.visits().is_done(&handle).await?;
            Ok::<_, VisitError>((handle, done))
        };
        let visited = visited.await;
        drop(busy);
        let (handle, done) = match visited {
            Ok(visited) => visited,
            Err(error) => return self.no_visits(&error).await,
        };
        let visit = PageVisit {
            message,
            url: pages.url(&handle),
            done,
            elicitation: self.cell.line.as_ref().map(|_| handle.clone()),
        };
        let answer = self.ask(key.clone(), visit).await;
        match (&answer, &self.cell.line) {
            (Answer::Accept(()), Some(line)) if !done => {
                if let Err(error) = self.until_visited(pages, &handle).await {
                    return self.no_visits(&error).await;
                }
                let complete = ElicitationCompleteParams::new(handle);
                line.notify(method::ELICITATION_COMPLETE, &complete);
            }
            _ => {}
        }
        answer
    }

    async fn no_visits(&self, error: &VisitError) -> Answer<()> {
        tracing::error!(%error, "a page cannot be asked for");
        self.cell.end(End::NoVisits);
        pending().await
    }

    /// The earlier era: the call stays open until the page is done with. It ends as an unanswered question does.
    async fn until_visited(&self, pages: &Pages, handle: &str) -> Result<(), VisitError> {
        let _visiting = self.cell.visiting();
        while !pages.visits().is_done(handle).await? {
            tokio::time::sleep(VISIT_PAUSE).await;
        }
        Ok(())
    }

    /// Whether this request's client declared that it can be asked questions of `kind`.
    #[must_use]
    pub fn can_ask(&self, kind: Kind) -> bool {
        self.cell.declares(kind)
    }
}

/// What later rounds will read is what this round uses: a value that does not survive the way there and back is found in
/// the first round, not in the second.
fn there_and_back<T: Serialize + DeserializeOwned>(
    value: &T,
) -> Result<(Box<RawValue>, T), serde_json::Error> {
    let raw = to_raw_value(value)?;
    let same = serde_json::from_str(raw.get())?;
    Ok((raw, same))
}

impl fmt::Debug for Flow {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Flow").finish_non_exhaustive()
    }
}

/// A [`Flow`] that can also act once. An extractor; needs a codec and a ledger.
pub struct DurableFlow(Flow);

impl DurableFlow {
    pub(crate) fn new(cell: Arc<FlowCell>) -> Self {
        Self(Flow::new(cell))
    }

    /// Runs an effect at most once in this flow, and returns its outcome on every rerun.
    ///
    /// The step is claimed in the ledger before `effect` runs and its outcome is kept there before this returns, so that
    /// a retry, a replay, a fork of the flow or a repeat after a lost response gets the same outcome, and nothing runs
    /// twice. An error is an outcome and is kept, unless it says that nothing was done
    /// ([`ToolError::not_done`]), which frees the step.
    ///
    /// The outcome is kept as JSON of at most 64 KiB, and what is returned is what later rounds will read: a value that is
    /// larger, or that does not survive the way through JSON and back, ends the call. Nothing may be asked, kept or done
    /// once inside `effect`; that ends the call too, and the step stays unknown.
    ///
    /// **Not guaranteed:**
    /// * that the effect happens: a crash between claim and settling leaves the outcome *unknown*. The caller is told so,
    ///   and nothing runs again;
    /// * anything across flows: the same *first* request sent twice is two flows, and a step before the first question has
    ///   no state that a client could repeat. A business key in the effect (an idempotency key, a unique column) is what
    ///   prevents that;
    /// * anything when a `timeout` or `select!` around `once` drops it half-way: the step is then marked abandoned, and
    ///   its outcome is unknown.
    ///
    /// # Errors
    ///
    /// The effect's own error, now or as it was kept. What the ledger cannot deliver ends the call instead.
    ///
    /// # Panics
    ///
    /// When it is polled outside the handler that owns the flow.
    pub async fn once<T, E, F, Fut>(
        &self,
        step: impl Into<Cow<'static, str>>,
        effect: F,
    ) -> Result<T, ToolError>
    where
        T: Serialize + DeserializeOwned,
        E: Into<ToolError>,
        F: FnOnce() -> Fut,
        Fut: Future<Output = Result<T, E>>,
    {
        let step: Key = step.into();
        self.cell
            .in_own_polls("once", &step, self.acted(&step, effect))
            .await
    }

    async fn acted<T, E, F, Fut>(&self, step: &Key, effect: F) -> Result<T, ToolError>
    where
        T: Serialize + DeserializeOwned,
        E: Into<ToolError>,
        F: FnOnce() -> Fut,
        Fut: Future<Output = Result<T, E>>,
    {
        let cell = &self.cell;
        let taken = cell.take_key(Namespace::Step, "once", step);
        let Some(durable) = cell.durable.as_ref().filter(|_| taken) else {
            return pending().await;
        };
        let busy = cell.busy();
        let acted = match durable.begin(step).await {
            Begun::Before(outcome) => read_outcome("once", step, outcome),
            Begun::Run(running) => {
                let outcome = cell.inside(async move { effect().await }).await;
                running.finish(outcome.map_err(Into::into)).await
            }
            Begun::Ended(end) => Err(end),
        };
        drop(busy);
        match acted {
            Ok(outcome) => outcome,
            Err(end) => {
                cell.end(end);
                pending().await
            }
        }
    }
}

/// What a step that ran before hands to this run.
fn read_outcome<T: DeserializeOwned>(
    what: &'static str,
    step: &str,
    outcome: StepOutcome,
) -> Result<Result<T, ToolError>, End> {
    match outcome {
        StepOutcome::Ok(raw) => {
            serde_json::from_str(raw.get())
                .map(Ok)
                .map_err(|error| End::Value {
                    name: Name {
                        what,
                        key: step.to_owned(),
                    },
                    error,
                })
        }
        StepOutcome::Err(text) => Ok(Err(ToolError::text(text))),
        StepOutcome::Lost(why) => Err(End::StepLost {
            step: step.to_owned(),
            why,
        }),
    }
}

impl Deref for DurableFlow {
    type Target = Flow;

    fn deref(&self) -> &Flow {
        &self.0
    }
}

impl fmt::Debug for DurableFlow {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DurableFlow").finish_non_exhaustive()
    }
}
