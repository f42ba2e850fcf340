#![forbid(unsafe_code)]
//! Client for the Model Context Protocol, revision 2026-07-28, over Streamable HTTP: the *courier* of multi round-trip requests.
//!
//! A server that needs something only this side has answers a call with questions and a state. This crate puts the questions to the host's
//! handlers, and repeats the call with the answers and the exact state, until there is a result or a reason to stop. It cannot open a
//! state, and never looks into one.
//!
//! ```no_run
//! use mrtr_client::{Client, FormAnswer, FormQuestion};
//! use serde_json::json;
//!
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! let client = Client::builder("https://expenses.example/mcp")
//!     .bearer("token")
//!     .on_form(async |question: FormQuestion| {
//!         println!("{} asks: {}", question.server, question.plain_message());
//!         Ok(FormAnswer::Accept(json!({"ok": true})))
//!     })
//!     .build()?;
//! let result = client.call_tool("submit_expense", json!({"amount": 250, "memo": "train"})).await?;
//! println!("{}", result.joined_text());
//! # Ok(())
//! # }
//! ```
//!
//! # What it never does
//!
//! * It never sends an `accept` that a handler did not give, or whose content does not fit the question's schema.
//! * It never declares a capability without a handler for it, and never answers a question of a kind that it did not declare.
//! * It never opens or fetches a URL: that is the host's, after the person's consent to the whole of it.
//! * It never repeats a call by itself after a broken connection. [`CallError::OutcomeUnknown`] says that the outcome is unknown,
//!   whether repeating is safe, and hands back the [`PendingCall`].
//! * It never follows a redirect: the body holds a state, and the headers a token.
//!
//! # Map
//!
//! | module | what | specification page |
//! |---|---|---|
//! | [`client`] | building a client, discovery, lists | Discovery; Tools; Prompts; Resources |
//! | [`call`] | the loop of `call_tool`, `get_prompt` and `read_resource` | Multi Round-Trip Requests, Client Requirements |
//! | [`target`] | what a call is for, and its result | Multi Round-Trip Requests, Supported Requests |
//! | [`pending`] | the loop by hand; a call that can be stored | the same |
//! | [`handler`] | who answers questions; forms | Elicitation |
//! | [`page`] | pages to be opened | Elicitation, URL mode |
//! | [`sampling`] | questions for a model (deprecated since 2026-07-28: a new server calls a provider itself) | Sampling |
//! | [`roots`] | folders (deprecated since 2026-07-28: take them as parameters, resource URIs or configuration) | Roots |
//! | [`transport`] | the wire, and how to put in another | Streamable HTTP |
//! | [`error`] | everything that can go wrong | Overview, Error Responses |
//!
//! Stdio and revision 2025-11-25 are not here yet.

mod answer;
mod ask;
pub mod call;
pub mod client;
pub mod error;
mod exchange;
pub mod handler;
pub mod page;
pub mod pending;
pub mod roots;
pub mod sampling;
mod sse;
pub mod target;
pub mod transport;

pub use call::Progress;
pub use client::{BuildError, Client, ClientBuilder};
pub use error::{
    Abandoned, AnswerError, CallError, ProtocolError, QuestionProblem, RequestError, RpcError,
};
pub use handler::{FormAnswer, FormHandler, FormQuestion, HandlerFuture, Refusal, ServerLabel};
/// The wire types, for what this crate does not name itself: content blocks, messages and roots for handlers to return.
pub use mrtr_protocol as protocol;
pub use page::{PageUrl, UrlAnswer, UrlHandler, UrlProblem, UrlQuestion, UrlWarning};
pub use pending::{PendingCall, Repeat};
pub use roots::{RootsHandler, RootsQuestion};
pub use sampling::{SamplingHandler, SamplingQuestion};
pub use target::{Completed, Target};
pub use transport::{HttpTransport, ResponseBody, Transport, TransportError, TransportFuture};

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct ReadmeDoctests;
