#![forbid(unsafe_code)]
//! Client for the Model Context Protocol, of both eras, over Streamable HTTP and stdio: the *courier* of multi round-trip requests.
//!
//! A server of revision 2026-07-28 that needs something only this side has answers a call with questions and a state. This crate puts the
//! questions to the host's handlers, and repeats the call with the answers and the exact state, until there is a result or a reason to
//! stop. It cannot open a state, and never looks into one. A server of the earlier era (2025-11-25, 2025-06-18, 2025-03-26) asks by requests
//! of its own while the call stays open; the same handlers answer them, under the same rules. Which era a server speaks is found out with
//! the first request, and remembered; [`EraChoice`] says otherwise.
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
//! * It never repeats a call by itself after a broken connection, nor in a new session. [`CallError::OutcomeUnknown`] says that the outcome is
//!   unknown, whether repeating is safe, and hands back the [`PendingCall`]. A stream of the earlier era is resumed, which repeats nothing.
//! * It never follows a redirect: the body holds a state, and the headers a token.
//!
//! # Map
//!
//! | module | what | specification page |
//! |---|---|---|
//! | [`builder`], [`client`] | building a client, discovery, lists | Discovery; Tools; Prompts; Resources |
//! | [`call`] | the loop of `call_tool`, `get_prompt` and `read_resource` | Multi Round-Trip Requests, Client Requirements |
//! | [`target`] | what a call is for, and its result | Multi Round-Trip Requests, Supported Requests |
//! | [`pending`] | the loop by hand; a call that can be stored | the same |
//! | [`era`] | which era a server speaks, and how that is found out | Versioning and Compatibility |
//! | [`requests`] | who the server is, completion, and what only the earlier era has | Discovery; Completion; 2025-11-25: Lifecycle, Ping, Logging |
//! | [`listen`] | word of changes as a stream | Subscriptions; 2025-11-25: Resources |
//! | [`cache`] | results that may be used again | Caching |
//! | [`handler`] | who answers questions; forms | Elicitation |
//! | [`page`] | pages to be opened | Elicitation, URL mode |
//! | [`sampling`] | questions for a model (deprecated since 2026-07-28: a new server calls a provider itself) | Sampling |
//! | [`roots`] | folders (deprecated since 2026-07-28: take them as parameters, resource URIs or configuration) | Roots |
//! | [`notices`] | progress, and log messages (deprecated since 2026-07-28: stderr or OpenTelemetry) | Progress; Logging |
//! | [`transport`] | the wire of HTTP, and how to put in another | Streamable HTTP |
//! | [`credentials`] | tokens for each request, and what happens after 401 and 403 | Authorization |
//! | [`process`] | a server that is a child process | stdio |
//! | [`error`] | everything that can go wrong | Overview, Error Responses |
//!
//! Inside, `over_http` and `over_stdio` find out the era and send requests; `earlier` holds sessions, answers what servers ask in them and
//! resumes their streams; `patience` counts the time that a request may take.

mod answer;
mod ask;
pub mod builder;
pub mod cache;
pub mod call;
pub mod client;
pub mod credentials;
mod earlier;
pub mod era;
pub mod error;
mod exchange;
pub mod handler;
mod host;
pub mod listen;
pub mod notices;
mod outgoing;
mod over_http;
mod over_stdio;
pub mod page;
mod patience;
pub mod pending;
pub mod process;
pub mod requests;
pub mod roots;
pub mod sampling;
mod sse;
pub mod target;
pub mod transport;

pub use builder::{BuildError, ClientBuilder};
pub use cache::CacheLimits;
pub use call::Progress;
pub use client::Client;
pub use credentials::{
    Again, Authorization, Challenge, Credentials, CredentialsError, CredentialsFuture, Sending,
};
pub use era::{Era, EraChoice};
pub use error::{
    Abandoned, AnswerError, CallError, ProtocolError, QuestionProblem, RequestError, RpcError,
};
pub use handler::{FormAnswer, FormHandler, FormQuestion, HandlerFuture, Refusal, ServerLabel};
pub use listen::{Change, Ended, Subscription};
/// The wire types, for what this crate does not name itself: content blocks, messages and roots for handlers to return.
pub use mrtr_protocol as protocol;
pub use notices::{LogMessage, ProgressReport};
pub use page::{PageUrl, UrlAnswer, UrlHandler, UrlProblem, UrlQuestion, UrlWarning};
pub use pending::{PendingCall, Repeat};
pub use process::{ServerProcess, Stderr};
pub use requests::ServerInfo;
pub use roots::{RootsHandler, RootsQuestion};
pub use sampling::{SamplingHandler, SamplingQuestion};
pub use target::{Completed, Target};
pub use transport::{HttpTransport, ResponseBody, Transport, TransportError, TransportFuture};

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct ReadmeDoctests;
