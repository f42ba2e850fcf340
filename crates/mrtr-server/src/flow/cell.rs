//! The state of one run of one body, shared by the runtime that polls it and the `Flow` that it holds.
//!
//! What a handler does happens inside a poll of the body, on the thread that polls it; anything else is misuse (a `Flow` moved to
//! another task), which is exactly what [`FlowCell::enter`] detects. The one call from elsewhere is [`FlowCell::answered`], by the
//! request that brings an answer in the earlier era. The mutex is never held across an await, nor while the line's is taken.

use std::borrow::Cow;
use std::cell::Cell;
use std::collections::{HashMap, HashSet};
use std::future::{Future, poll_fn};
use std::pin::pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Waker;

use mrtr_protocol::{ErrorObject, Kind, KindSet};
use mrtr_state::{FlowId, Principal, RandomError, Timestamp};
use serde_json::value::RawValue;

use super::durable::Durable;
use super::end::{End, Name};
use super::journal::{Action, Given, Journal, QuestionDigest, read_as};
use crate::encoding::Base64;
use crate::line::{Line, QuestionId};
use crate::question::Rendered;

/// A key, memo name or step name.
pub(crate) type Key = Cow<'static, str>;

thread_local! {
    /// The address of the cell whose body is being polled on this thread; 0 when there is none.
    static POLLED: Cell<usize> = const { Cell::new(0) };
    /// Whether what is being polled on this thread is inside a `memo` or `once`.
    static INSIDE: Cell<bool> = const { Cell::new(false) };
}

/// One run's shared state.
pub(crate) struct FlowCell {
    declared: KindSet,
    /// Off only by `dangerous().ignore_question_digest()`.
    bind_questions: bool,
    pub(crate) durable: Option<Durable>,
    /// Whose flow this is and when it ends; none for a handler that takes no flow.
    pub(crate) owner: Option<FlowOwner>,
    /// In the earlier era, where questions are put while the body waits; absent in the modern one, where it is dropped.
    pub(crate) line: Option<Arc<Line>>,
    inner: Mutex<Inner>,
}

/// Whose flow it is, for pages that belong to it.
pub(crate) struct FlowOwner {
    pub(crate) principal: Principal,
    pub(crate) flow: FlowId,
    pub(crate) flow_exp: Timestamp,
}

struct Inner {
    journal: Journal,
    open: Vec<Open>,
    /// A round is to be put, with questions or without.
    round: bool,
    /// The earlier era: questions on the line.
    put: HashMap<Key, Put>,
    used: HashSet<(Namespace, Key)>,
    /// `memo` and `once` that have begun and not ended.
    busy: usize,
    /// The earlier era: pages that are being visited.
    visiting: usize,
    ended: Option<End>,
    /// A misuse that the running `memo` or `once` cannot survive: it waits for itself.
    nested: Option<Name>,
    waker: Option<Waker>,
}

/// A question that waits in this run.
pub(crate) struct Open {
    pub(crate) key: Key,
    pub(crate) rendered: Rendered,
    waker: Waker,
}

/// A question that was put on the line, and waits for its answer there.
struct Put {
    /// None while it is being sent.
    id: Option<QuestionId>,
    kind: Kind,
    digest: QuestionDigest,
    /// Its answer is in the journal, or has ended the call.
    arrived: bool,
    waker: Waker,
}

/// Questions, memos and steps have a namespace each.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Namespace {
    Question,
    Memo,
    Step,
}

/// What the journal knows of a question.
pub(crate) enum Known {
    Accepted(Box<RawValue>),
    Declined,
    Cancelled,
    Nothing,
}

impl FlowCell {
    pub(crate) fn new(
        journal: Journal,
        declared: KindSet,
        bind_questions: bool,
        durable: Option<Durable>,
        owner: Option<FlowOwner>,
        line: Option<Arc<Line>>,
    ) -> Arc<Self> {
        let inner = Inner {
            journal,
            open: Vec::new(),
            round: false,
            put: HashMap::new(),
            used: HashSet::new(),
            busy: 0,
            visiting: 0,
            ended: None,
            nested: None,
            waker: None,
        };
        Arc::new(Self {
            declared,
            bind_questions,
            durable,
            owner,
            line,
            inner: Mutex::new(inner),
        })
    }

    /// The cell of a handler that takes no flow: nothing can be asked or kept through it.
    pub(crate) fn without_flow() -> Arc<Self> {
        Self::new(Journal::default(), KindSet::new(), true, None, None, None)
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        // Nothing in here panics half-way through a change, so a poisoned lock is still good.
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Marks this thread as polling the body of this cell until the guard is dropped.
    pub(crate) fn enter(self: &Arc<Self>, waker: &Waker) -> Entered {
        let mut inner = self.inner();
        if !inner
            .waker
            .as_ref()
            .is_some_and(|known| known.will_wake(waker))
        {
            inner.waker = Some(waker.clone());
        }
        drop(inner);
        Entered {
            outer: POLLED.replace(Arc::as_ptr(self) as usize),
            // A body that is polled inside another one's `once` is not inside that one.
            inside: INSIDE.replace(false),
        }
    }

    /// Ends the call and panics when this thread is not polling the body that owns the flow.
    ///
    /// A question in another task could never be taken back when the body is dropped: the task would wait for ever. The
    /// panic ends that task, and the end ends the call.
    pub(crate) fn require_own_poll(self: &Arc<Self>, what: &'static str, key: &str) {
        if POLLED.get() == Arc::as_ptr(self) as usize {
            return;
        }
        let name = Name {
            what,
            key: key.to_owned(),
        };
        let message = format!(
            "`{what}(\"{key}\")` was polled outside the handler that owns the flow; a `Flow` must not move to another task"
        );
        self.end(End::OutsideItsBody(name));
        if let Some(waker) = self.inner().waker.clone() {
            waker.wake();
        }
        panic!("{message}");
    }

    /// Polls what runs inside a `memo` or `once`. Nothing may be asked, kept or claimed from in there: it would wait for
    /// a run that waits for it.
    pub(crate) async fn inside<F: Future>(&self, work: F) -> F::Output {
        let mut work = pin!(work);
        poll_fn(|cx| {
            let _inside = Inside {
                outer: INSIDE.replace(true),
            };
            work.as_mut().poll(cx)
        })
        .await
    }

    /// Polls a `memo` or `once` of this cell, and sees in every poll that it is polled where it belongs.
    pub(crate) async fn in_own_polls<F: Future>(
        self: &Arc<Self>,
        what: &'static str,
        key: &str,
        work: F,
    ) -> F::Output {
        let mut work = pin!(work);
        poll_fn(|cx| {
            self.require_own_poll(what, key);
            work.as_mut().poll(cx)
        })
        .await
    }

    /// Ends the call; the first reason stands.
    pub(crate) fn end(&self, end: End) {
        self.inner().ended.get_or_insert(end);
    }

    /// Takes `key` for its one use in this run. False, and the call is over, when it was used before or the call has
    /// ended already.
    pub(crate) fn take_key(&self, namespace: Namespace, what: &'static str, key: &Key) -> bool {
        let mut inner = self.inner();
        if INSIDE.get() {
            inner.nested = Some(Name {
                what,
                key: key.to_string(),
            });
            return false;
        }
        if inner.ended.is_some() {
            return false;
        }
        let fresh = inner.used.insert((namespace, key.clone()));
        if !fresh {
            inner.ended = Some(End::UsedTwice(Name {
                what,
                key: key.to_string(),
            }));
        }
        fresh
    }

    pub(crate) fn declares(&self, kind: Kind) -> bool {
        self.declared.contains(kind)
    }

    /// What the journal knows of this question under `key`. An acceptance of another question is forgotten.
    pub(crate) fn known(&self, key: &str, asked: &Rendered) -> Known {
        let digest = &asked.digest();
        let mut inner = self.inner();
        inner
            .journal
            .enter_unasked(key, asked.kind(), Base64(*digest.as_bytes()));
        if let Some(given) = inner.journal.answers.get(key) {
            let same = given.question.0 == *digest.as_bytes() || !self.bind_questions;
            match &given.action {
                Action::Decline => return Known::Declined,
                Action::Cancel => return Known::Cancelled,
                Action::Accept(content) if same => return Known::Accepted(content.clone()),
                Action::Accept(_) => {
                    inner.journal.answers.remove(key);
                }
            }
        }
        if inner.journal.was_declined(digest) {
            Known::Declined
        } else {
            Known::Nothing
        }
    }

    /// Forgets an accepted answer whose content does not fit the question.
    pub(crate) fn forget(&self, key: &str) {
        self.inner().journal.answers.remove(key);
    }

    /// Whether exactly this question was declined, under whatever key.
    pub(crate) fn was_declined(&self, asked: &Rendered) -> bool {
        self.inner().journal.was_declined(&asked.digest())
    }

    /// The state that a handler which asks by hand sealed last.
    pub(crate) fn kept_state(&self) -> Option<Box<RawValue>> {
        self.inner().journal.state.clone()
    }

    pub(crate) fn keep_state(&self, state: Option<Box<RawValue>>) {
        self.inner().journal.state = state;
    }

    /// Asks by hand: a round is put even when it has no question.
    pub(crate) fn open_round(&self) {
        self.inner().round = true;
    }

    /// Opens a question; `withdraw` takes it back.
    pub(crate) fn open(&self, key: Key, rendered: Rendered, waker: Waker) {
        self.inner().open.push(Open {
            key,
            rendered,
            waker,
        });
    }

    /// Takes a question back: one that is on the line is cancelled there.
    pub(crate) fn withdraw(&self, key: &str) {
        let mut inner = self.inner();
        inner.open.retain(|open| open.key != key);
        let put = inner.put.remove(key);
        drop(inner);
        if let (Some(line), Some(Put { id: Some(id), .. })) = (&self.line, put) {
            line.withdraw(id);
        }
    }

    /// Puts open questions on the line. False: one of them cannot be sent.
    pub(crate) fn put(self: &Arc<Self>, open: Vec<Open>) -> bool {
        let Some(line) = &self.line else {
            return false;
        };
        open.into_iter().all(|question| {
            let Open {
                key,
                rendered,
                waker,
            } = question;
            let put = Put {
                id: None,
                kind: rendered.kind(),
                digest: Base64(*rendered.digest().as_bytes()),
                arrived: false,
                waker,
            };
            // Known before it is sent: the answer may be here before `put` returns.
            self.inner().put.insert(key.clone(), put);
            let id = line.put(self, &key, &rendered.into_request());
            if let Some(put) = self.inner().put.get_mut(&key) {
                put.id = id;
            }
            id.is_some()
        })
    }

    /// Whether somebody is waited for: questions are on the line that have no answer yet, or a page is being visited.
    pub(crate) fn awaits_answers(&self) -> bool {
        let inner = self.inner();
        inner.visiting > 0 || inner.put.values().any(|put| !put.arrived)
    }

    /// Says that a page is being visited, until the guard is dropped.
    pub(crate) fn visiting(self: &Arc<Self>) -> Visiting {
        self.inner().visiting += 1;
        Visiting {
            cell: Arc::clone(self),
        }
    }

    /// Whether the answer to `key` has arrived on the line; its question is then forgotten there. The waker is woken otherwise.
    pub(crate) fn has_arrived(&self, key: &str, waker: &Waker) -> bool {
        let mut inner = self.inner();
        // The call is over, and waits for what is busy in it.
        if inner.ended.is_some() {
            return false;
        }
        if let Some(open) = inner.open.iter_mut().find(|open| open.key == key) {
            open.waker.clone_from(waker);
            return false;
        }
        match inner.put.get_mut(key) {
            Some(put) if put.arrived => {
                inner.put.remove(key);
                true
            }
            Some(put) => {
                put.waker.clone_from(waker);
                false
            }
            None => false,
        }
    }

    /// Takes what the client answered on the line. Its content is looked at when the body asks, as in the modern era.
    pub(crate) fn answered(&self, key: &str, outcome: Result<&RawValue, ErrorObject>) {
        let mut inner = self.inner();
        let Some(put) = inner.put.get_mut(key) else {
            return;
        };
        put.arrived = true;
        put.id = None;
        let (kind, question, waker) = (put.kind, put.digest, put.waker.clone());
        let action = match outcome {
            Ok(answer) => read_as(kind, answer).map_err(|why| End::BadAnswer {
                key: key.to_owned(),
                why,
            }),
            // What a person said no to is declined, whichever kind it was (2025-11-25, `client/sampling`, "Error Handling").
            Err(error) if error.code == USER_REJECTED && is_sampling(kind) => Ok(Action::Decline),
            Err(error) => Err(End::ClientFailed {
                key: key.to_owned(),
                code: error.code,
            }),
        };
        match action {
            Ok(action) => {
                inner
                    .journal
                    .answers
                    .insert(key.to_owned(), Given { question, action });
            }
            Err(end) => {
                inner.ended.get_or_insert(end);
            }
        }
        let run = inner.waker.clone();
        drop(inner);
        waker.wake();
        if let Some(run) = run {
            run.wake();
        }
    }

    pub(crate) fn memo(&self, name: &str) -> Option<Box<RawValue>> {
        self.inner().journal.memos.get(name).cloned()
    }

    pub(crate) fn keep_memo(&self, name: &str, value: Box<RawValue>) {
        self.inner().journal.memos.insert(name.to_owned(), value);
    }

    /// The handle of the page behind this key, the same in every round.
    pub(crate) fn handle(&self, key: &str) -> Result<String, RandomError> {
        let mut inner = self.inner();
        if let Some(handle) = inner.journal.handles.get(key) {
            return Ok(handle.clone());
        }
        let handle = FlowId::generate()?.to_text();
        inner.journal.handles.insert(key.to_owned(), handle.clone());
        Ok(handle)
    }

    /// Keeps the runtime from dropping the body until the guard is dropped.
    pub(crate) fn busy(self: &Arc<Self>) -> Busy {
        self.inner().busy += 1;
        Busy {
            cell: Arc::clone(self),
        }
    }

    /// Looks at a body that is pending: does it go on, does it ask, is it over?
    pub(crate) fn after_poll(&self) -> AfterPoll {
        let mut inner = self.inner();
        if let Some(name) = inner.nested.take() {
            return AfterPoll::Ended(End::Nested(name));
        }
        if inner.busy > 0 {
            return AfterPoll::Waiting;
        }
        if let Some(end) = inner.ended.take() {
            return AfterPoll::Ended(end);
        }
        let round = std::mem::take(&mut inner.round);
        if inner.open.is_empty() && !round {
            return AfterPoll::Waiting;
        }
        AfterPoll::Asks(std::mem::take(&mut inner.open))
    }

    /// The reason why a body that completed must not count as complete.
    pub(crate) fn ended(&self) -> Option<End> {
        let mut inner = self.inner();
        inner.nested.take().map(End::Nested).or(inner.ended.take())
    }

    /// The journal as it stands, for the next state. The body is gone, so nobody reads it any more.
    pub(crate) fn take_journal(&self) -> Journal {
        std::mem::take(&mut self.inner().journal)
    }
}

/// What a client answers to `sampling/createMessage` when its person refuses.
const USER_REJECTED: i64 = -1;

fn is_sampling(kind: Kind) -> bool {
    matches!(kind, Kind::Sampling | Kind::SamplingWithTools)
}

/// What the runtime does after a poll that was pending.
pub(crate) enum AfterPoll {
    Waiting,
    Asks(Vec<Open>),
    Ended(End),
}

/// Marks the thread as polling a body; restores what was polled before, so that bodies may nest.
pub(crate) struct Entered {
    outer: usize,
    inside: bool,
}

impl Drop for Entered {
    fn drop(&mut self) {
        POLLED.set(self.outer);
        INSIDE.set(self.inside);
    }
}

/// Marks the thread as being inside a `memo` or `once`.
struct Inside {
    outer: bool,
}

impl Drop for Inside {
    fn drop(&mut self) {
        INSIDE.set(self.outer);
    }
}

/// A `memo` or a `once` that runs.
pub(crate) struct Busy {
    cell: Arc<FlowCell>,
}

/// A page that is being visited.
pub(crate) struct Visiting {
    cell: Arc<FlowCell>,
}

impl Drop for Visiting {
    fn drop(&mut self) {
        self.cell.inner().visiting -= 1;
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        self.cell.inner().busy -= 1;
    }
}
