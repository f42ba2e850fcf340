//! The host's folders (*Roots*). Deprecated since 2026-07-28: a new server takes folders as parameters, resource URIs or configuration.
//!
//! Hosts that have it go on to serve servers that need it.

use mrtr_protocol::{InputAnswer, ListRootsResult, Root};
use serde_json::value::{RawValue, to_raw_value};

use crate::error::AnswerError;
use crate::handler::{HandlerFuture, Refusal, ServerLabel};
use crate::target::Target;

/// Says which folders a server may work on. Deprecated since 2026-07-28: a new server takes folders as parameters, resource URIs or
/// configuration.
///
/// Any `async` closure over a [`RootsQuestion`] is a handler. Registering one declares `roots` with every request.
///
/// # Contract
///
/// * Name only folders that the person agreed to show to *this* server, and that exist.
/// * Roots guide; they protect nothing. What the server's process can reach, it can reach.
/// * A person or policy that says no is a [`Refusal`]: there is no answer that says so, and the call is abandoned.
pub trait RootsHandler: Send + Sync + 'static {
    /// Answers one question. No timeout of the client runs meanwhile. Deprecated since 2026-07-28: a new server takes folders as
    /// parameters, resource URIs or configuration.
    fn answer(&self, question: RootsQuestion) -> HandlerFuture<'_, Vec<Root>>;
}

impl<F, Fut> RootsHandler for F
where
    F: Fn(RootsQuestion) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = Result<Vec<Root>, Refusal>> + Send + 'static,
{
    fn answer(&self, question: RootsQuestion) -> HandlerFuture<'_, Vec<Root>> {
        Box::pin(self(question))
    }
}

/// One question for folders. Deprecated since 2026-07-28: a new server takes folders as parameters, resource URIs or configuration.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct RootsQuestion {
    /// Who is asking. Show it.
    pub server: ServerLabel,
    /// The call that waits for the answer. `None` when nothing says which one: a server of the earlier era may ask outside of a call's
    /// stream, and over stdio there is one stream for all.
    pub target: Option<Target>,
    /// The question's key in its round; in the earlier era the id of the server's request.
    pub key: String,
}

/// The answer as it goes onto the wire.
pub(crate) fn checked(roots: &[Root]) -> Result<Box<RawValue>, AnswerError> {
    let answer = InputAnswer::Roots(ListRootsResult {
        roots: roots.to_vec(),
    });
    to_raw_value(&answer).map_err(|_| AnswerError::NotAnObject)
}
