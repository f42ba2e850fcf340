//! `InputRequired` by hand: a handler that returns its own questions and its own state, for what [`Flow`](crate::Flow) does not
//! fit.
//!
//! The boundary does all the same what it does for a flow: the state is sealed and verified, an answer counts for the very
//! question that was put, kinds that were not declared are not asked, rounds are limited. In the earlier era the questions are
//! put on the call's own stream, and the handler runs again with the answers.

use std::borrow::Cow;
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use mrtr_state::{DataError, to_raw_value};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::value::RawValue;

use crate::error::ToolError;
use crate::extract::{Call, Extract, ExtractError, Spec};
use crate::flow::cell::{FlowCell, Key, Known};
use crate::flow::end::{End, Name};
use crate::question::{Answer, Question, QuestionError, Rendered};

/// What a handler comes to that asks by hand: its result, or questions. A handler returns it, or a `Result` of it.
///
/// ```
/// use mrtr_server::{Answer, Form, InputRequired, Resumed, ToolError, Turn, tool};
///
/// #[derive(serde::Deserialize, schemars::JsonSchema)]
/// struct Seats {
///     seats: u8,
/// }
///
/// async fn book(resumed: Resumed) -> Result<Turn<String>, ToolError> {
///     let price: f64 = match resumed.state()? {
///         Some(price) => price,
///         None => 42.0, // looked up once, sealed, and the same in every round
///     };
///     let question = Form::<Seats>::new(format!("How many seats at {price}?"));
///     Ok(match resumed.answer("seats", &question) {
///         Some(Answer::Accept(Seats { seats })) => Turn::Complete(format!("{seats} booked at {price}.")),
///         Some(_) => Turn::Complete("Nothing was booked. Do not ask again for this.".into()),
///         None => InputRequired::new().ask("seats", question).state(&price).into(),
///     })
/// }
/// # let _ = tool("book", book);
/// ```
///
/// Specification: `basic/patterns/mrtr`, "Basic Workflow".
#[derive(Debug)]
pub enum Turn<R> {
    /// The call is done.
    Complete(R),
    /// The client side is to answer, and the handler is to run again.
    InputRequired(InputRequired),
}

impl<R> Turn<R> {
    /// The result, if the call is done.
    pub fn completed(self) -> Option<R> {
        match self {
            Self::Complete(result) => Some(result),
            Self::InputRequired(_) => None,
        }
    }

    pub(crate) fn map<S>(self, change: impl FnOnce(R) -> S) -> Turn<S> {
        match self {
            Self::Complete(result) => Turn::Complete(change(result)),
            Self::InputRequired(asks) => Turn::InputRequired(asks),
        }
    }
}

impl<R> From<InputRequired> for Turn<R> {
    fn from(asks: InputRequired) -> Self {
        Self::InputRequired(asks)
    }
}

/// Questions and a state, to come back with. Needs a codec, and [`Resumed`] to read what comes.
///
/// The state is sealed, bound to principal, request, server and time, and good for one answer where the server has a ledger.
/// With the HMAC codec it is readable by whoever carries it.
///
/// A round without questions is repeated by the client at once, and counts as a round all the same; one without questions
/// *and* state ends the call with an internal error. So does a question that was declined in this flow: it is not put again.
#[derive(Default)]
#[must_use = "nothing is asked until the handler returns it"]
pub struct InputRequired {
    questions: Vec<(Key, Result<Rendered, QuestionError>)>,
    state: Option<Result<Box<RawValue>, DataError>>,
}

impl InputRequired {
    /// Nothing yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a question: a [`Form`](crate::Form), a [`Rendered`] of your own, or one of the deprecated kinds. Its key is this
    /// handler's name for it, and no other question of the round has it. A page is asked for with
    /// [`Flow::ask_url`](crate::Flow::ask_url).
    pub fn ask(mut self, key: impl Into<Cow<'static, str>>, question: impl Question) -> Self {
        self.questions.push((key.into(), question.render()));
        self
    }

    /// What the handler wants to know again when it runs next, in place of what it kept before. Numbers that are not finite
    /// cannot be kept.
    pub fn state<T: Serialize + ?Sized>(mut self, state: &T) -> Self {
        self.state = Some(to_raw_value(state));
        self
    }

    /// Hands everything to the flow's cell: what waits for the answers, or why the call ends.
    pub(crate) fn put(self, cell: &Arc<FlowCell>) -> Waiting {
        let (questions, end) = match self.checked(cell) {
            Ok(questions) => (questions, None),
            Err(end) => (Vec::new(), Some(end)),
        };
        Waiting {
            cell: Arc::clone(cell),
            keys: questions.iter().map(|(key, _)| key.clone()).collect(),
            questions: Some(questions),
            end,
        }
    }

    fn checked(self, cell: &FlowCell) -> Result<Vec<(Key, Rendered)>, End> {
        let unaskable = |key: &str, error| End::Unaskable {
            key: key.to_owned(),
            error,
        };
        if self.questions.is_empty() && self.state.is_none() {
            return Err(unaskable("", QuestionError::Empty));
        }
        let state = self
            .state
            .transpose()
            .map_err(|error| unaskable("", QuestionError::Unwritable(error.to_string())))?;
        let mut questions: Vec<(Key, Rendered)> = Vec::with_capacity(self.questions.len());
        for (key, rendered) in self.questions {
            if questions.iter().any(|(known, _)| *known == key) {
                return Err(End::UsedTwice(Name {
                    what: "ask",
                    key: key.into_owned(),
                }));
            }
            let rendered = rendered.map_err(|error| unaskable(&key, error))?;
            if cell.was_declined(&rendered) {
                return Err(unaskable(&key, QuestionError::Declined));
            }
            if !cell.declares(rendered.kind()) {
                return Err(End::Undeclared(rendered.kind()));
            }
            questions.push((key, rendered));
        }
        cell.keep_state(state);
        Ok(questions)
    }
}

/// Content that a person will read is not the log's.
impl fmt::Debug for InputRequired {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let keys = self.questions.iter().map(|(key, _)| key);
        f.debug_struct("InputRequired")
            .field("keys", &keys.collect::<Vec<_>>())
            .finish_non_exhaustive()
    }
}

/// What came back to a handler that asks by hand: its state, and answers. An extractor; needs a codec.
///
/// On a first call there is nothing.
pub struct Resumed {
    cell: Arc<FlowCell>,
}

impl Resumed {
    /// The state that the handler sealed last; `None` on a first call, and when it sealed none.
    ///
    /// # Errors
    ///
    /// When it was sealed as another type, by another version of this handler. The caller reads "The tool failed."
    pub fn state<T: DeserializeOwned>(&self) -> Result<Option<T>, ToolError> {
        let state = self.cell.kept_state();
        let read = state
            .map(|state| serde_json::from_str(state.get()))
            .transpose();
        // Its text may hold the value.
        read.map_err(|error| {
            tracing::error!(kind = ?error.classify(), line = error.line(), column = error.column(), "a sealed state does not fit its type");
            ToolError::unread()
        })
    }

    /// The answer to this question under this key. `None`: there is none, it answers another question, or what was accepted
    /// does not fit; put the question (again).
    ///
    /// Everything of [`Answer`] holds: an acceptance counts for the very question that was put, and content that was not
    /// accepted cannot be reached. A question that was declined under another key is declined.
    #[must_use]
    pub fn answer<Q: Question>(&self, key: &str, question: &Q) -> Option<Answer<Q::Output>> {
        let rendered = question.render().ok()?;
        match self.cell.known(key, &rendered) {
            Known::Declined => Some(Answer::Decline),
            Known::Cancelled => Some(Answer::Cancel),
            Known::Accepted(content) => question.read(&content).map(Answer::Accept),
            Known::Nothing => None,
        }
    }
}

impl Extract for Resumed {
    fn describe(spec: &mut Spec) {
        spec.needs_codec = true;
        spec.resumes = true;
    }

    fn extract(call: &mut Call<'_>) -> Result<Self, ExtractError> {
        let cell = call.cell.cloned();
        cell.map(|cell| Self { cell })
            .ok_or(ExtractError::Missing("a state codec"))
    }
}

impl fmt::Debug for Resumed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Resumed").finish_non_exhaustive()
    }
}

/// Stands in for a body that has returned its questions: opens them, and in the earlier era waits until all are answered. In
/// the modern one it is dropped as any body that asks.
pub(crate) struct Waiting {
    cell: Arc<FlowCell>,
    /// Until they are open.
    questions: Option<Vec<(Key, Rendered)>>,
    /// Without an answer so far.
    keys: Vec<Key>,
    end: Option<End>,
}

impl Future for Waiting {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let this = &mut *self;
        if let Some(end) = this.end.take() {
            this.cell.end(end);
            this.questions = None;
            return Poll::Pending;
        }
        if let Some(questions) = this.questions.take() {
            this.cell.open_round();
            for (key, rendered) in questions {
                // What was answered under this key before was to another question, or did not fit.
                this.cell.forget(&key);
                this.cell.open(key, rendered, cx.waker().clone());
            }
            return Poll::Pending;
        }
        let cell = Arc::clone(&this.cell);
        this.keys.retain(|key| !cell.has_arrived(key, cx.waker()));
        match this.keys.is_empty() {
            true => Poll::Ready(()),
            false => Poll::Pending,
        }
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        for key in &self.keys {
            self.cell.withdraw(key);
        }
    }
}
