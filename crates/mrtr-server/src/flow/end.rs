//! Why a call ends without its body: what the framework could not deliver.

use std::time::Duration;

use mrtr_protocol::{AnswerError, Kind};

use crate::question::QuestionError;

/// What was called, and with which key: `ask("confirm")`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Name {
    pub(crate) what: &'static str,
    pub(crate) key: String,
}

impl std::fmt::Display for Name {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}({:?})", self.what, self.key)
    }
}

/// The body does not go on, and this is why.
#[derive(Debug)]
pub(crate) enum End {
    /// A kind of question that the client did not declare.
    Undeclared(Kind),
    /// A key, memo name or step name was used twice in one run.
    UsedTwice(Name),
    /// `ask`, `memo` or `once` inside a `memo` or `once`.
    Nested(Name),
    /// `ask`, `memo` or `once` outside the body that owns the flow.
    OutsideItsBody(Name),
    /// A question that may not be put.
    Unaskable { key: String, error: QuestionError },
    /// The record of visits did not answer.
    NoVisits,
    /// A memo or step whose value is of another type than the one it is read as, or does not serialize.
    Value {
        name: Name,
        error: serde_json::Error,
    },
    /// A memo that is too large for the ledger, in a round that may run again.
    MemoTooLarge { name: Name, bytes: usize },
    /// An earlier run kept this memo, and it cannot be read.
    MemoUnknown { memo: String },
    /// Another run of the same flow is inside this step.
    StepInProgress { retry_after: Duration },
    /// Nobody knows whether this step took effect.
    StepUnknown { step: String },
    /// This step took effect, but its value could not be kept.
    StepLost { step: String, why: String },
    /// This step's outcome is too large to be kept, and its effect was taken back.
    StepTooLarge { step: String, bytes: usize },
    /// The ledger has not said whether it committed a step that was performed in it. It knows.
    StepUnheard,
    /// The round that this run serves was withdrawn while it ran.
    RoundWithdrawn,
    /// The flow's lifetime ended before this step.
    FlowExpired,
    /// The ledger's epoch is another one than when the flow opened.
    StaleEpoch,
    /// No word from the ledger, or no room in it.
    LedgerUnavailable,
    /// The same, when what the flow must remember was to be kept there and a question was to be put.
    NotKept,
    /// The connection closed, or the client cancelled the request; no further step is begun.
    Cancelled,
    /// The earlier era: the flow has asked in as many rounds as it may. In the modern one a state says how many they were.
    AskedTooOften { rounds: u32 },
    /// The earlier era: the flow's time was over before this question.
    OpenTooLong,
    /// The earlier era: the question could not be sent.
    NotPut,
    /// The earlier era: the server is shutting down, and nobody can answer any more.
    WindingUp,
    /// The earlier era: nobody answered in time.
    Unanswered,
    /// The earlier era: the client answered with an error.
    ClientFailed { key: String, code: i64 },
    /// The earlier era: the client's answer is not one to the kind that was asked.
    BadAnswer { key: String, why: AnswerError },
}
