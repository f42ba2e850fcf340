#![forbid(unsafe_code)]
//! Wire types of the Model Context Protocol: revision 2026-07-28, and the earlier era (2025-11-25, 2025-06-18, 2025-03-26).
//!
//! No clock, no cryptography, no I/O and no async: bytes in, types out, and back. Params and arguments stay raw
//! ([`serde_json::value::RawValue`]) until someone who knows their schema reads them, so that nothing is parsed twice and the exact text
//! is there for whoever must hash it.
//!
//! # Where to start
//!
//! * A server reads a body with [`Message::parse`], runs [`strict::check`] over it, and reads params with [`Members`],
//!   [`RequestMeta`] and [`CallToolParams`]. It answers with [`jsonrpc::write_result`] and [`jsonrpc::write_error`].
//! * A client writes with [`jsonrpc::write_request`], reads with [`Response::parse`], and looks at [`ResultType`] before anything else.
//! * Questions of multi round-trip requests are in [`mrtr`]; [`InputAnswer`] reads an answer as one to the kind that was asked.
//!
//! # Map
//!
//! | module | specification page |
//! |---|---|
//! | [`jsonrpc`], [`id`], [`method`] | Overview: requests, responses, notifications |
//! | [`error`] | Overview: error codes |
//! | [`meta`], [`capabilities`] | Overview: `_meta`, per-request protocol fields |
//! | [`mrtr`], [`kind`], [`answer`] | Multi Round-Trip Requests |
//! | [`elicit`], [`form`] | Elicitation |
//! | [`sampling`] | Sampling (deprecated since 2026-07-28: a new server calls a model provider itself) |
//! | [`roots`] | Roots (deprecated since 2026-07-28: take folders as parameters, resource URIs or configuration) |
//! | [`tools`], [`content`] | Tools |
//! | [`icon`], [`annotations`] | Overview: `icons`; Resources: annotations |
//! | [`prompts`] | Prompts |
//! | [`resources`] | Resources |
//! | [`pages`] | Pagination |
//! | [`completion`] | Completion |
//! | [`subscriptions`] | Subscriptions |
//! | [`notification`] | Progress, Cancellation, Resources (updates), Logging (deprecated since 2026-07-28: log to stderr or OpenTelemetry) |
//! | [`discover`] | Discovery |
//! | [`earlier`] | Lifecycle, and what else only revisions up to 2025-11-25 have |
//! | [`headers`], [`param_headers`] | Streamable HTTP: standard request headers, value encoding, headers from tool parameters |
//! | [`strict`], [`object`] | what serde lets through and this crate does not |
//!
//! # What serde lets through
//!
//! A derived struct reads an array as happily as an object, and an `Option` reads `null` as absent. Types of this crate that a server
//! reads insist on objects at every level and tell `null` from absent. Types that only a client reads insist on objects too, and treat
//! `null` in an optional text that is only displayed as absent, and so a word there that no revision defines. Read a derived type through [`Object`] (or [`object::read`]), which
//! refuses an array at the top.
//!
//! No type of this crate uses serde's `flatten` or `untagged`: both buffer numbers, and what they accept changes when any crate in the
//! build turns on serde_json's `arbitrary_precision`.

pub mod annotations;
pub mod answer;
pub mod capabilities;
pub mod completion;
pub mod content;
pub mod discover;
pub mod earlier;
pub mod elicit;
pub mod error;
pub mod form;
pub mod headers;
pub mod icon;
pub mod id;
pub mod jsonrpc;
pub mod kind;
pub mod meta;
pub mod method;
pub mod mrtr;
pub mod notification;
pub mod object;
pub mod pages;
pub mod param_headers;
pub mod prompts;
pub mod resources;
pub mod roots;
pub mod sampling;
pub mod strict;
pub mod subscriptions;
pub mod tools;
mod word;

pub use annotations::Annotations;
pub use answer::{AnswerError, InputAnswer};
pub use capabilities::{
    ClientCapabilities, ElicitationCapability, RootsCapability, SamplingCapability,
};
pub use completion::{CompleteParams, CompleteResult, Completion, CompletionReference};
pub use content::{ContentBlock, ResourceContents, ResourceLink, Role};
pub use discover::{CacheScope, DiscoverResult, ServerCapabilities};
pub use earlier::EarlierRevision;
pub use elicit::{ElicitAction, ElicitForm, ElicitUrl};
pub use error::{ErrorObject, KnownError, code};
pub use form::FormSchema;
pub use icon::{Icon, IconTheme};
pub use id::RequestId;
pub use jsonrpc::{EnvelopeError, Incoming, Message, Notification, Request, Response};
pub use kind::{Kind, KindSet};
pub use meta::{Implementation, MetaError, NotificationMeta, RequestMeta, ResultMeta};
pub use mrtr::{InputRequest, InputRequests, InputRequiredResult, InputResponses, ResultType};
pub use notification::{
    CancelledParams, LogLevel, LogParams, ProgressParams, ProgressToken, ResourceUpdatedParams,
};
pub use object::{JsonObject, Members, Object, RawObject};
pub use pages::PaginatedParams;
pub use param_headers::ParamHeaders;
pub use prompts::{
    GetPromptParams, GetPromptResult, ListPromptsResult, Prompt, PromptArgument, PromptMessage,
};
pub use resources::{
    ListResourceTemplatesResult, ListResourcesResult, ReadResourceParams, ReadResourceResult,
    Resource, ResourceTemplate,
};
pub use roots::{ListRootsResult, Root};
pub use sampling::{CreateMessageParams, CreateMessageResult, SamplingContent, SamplingMessage};
pub use subscriptions::{AcknowledgedParams, ListenParams, ListenResult, SubscriptionFilter};
pub use tools::{
    CallToolParams, CallToolResult, ListToolsResult, ParamsError, Tool, ToolAnnotations,
};

/// The protocol revision that this crate speaks: the value of `io.modelcontextprotocol/protocolVersion` and of the
/// `MCP-Protocol-Version` header.
pub const REVISION: &str = "2026-07-28";

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct ReadmeDoctests;
