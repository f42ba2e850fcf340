#![forbid(unsafe_code)]
//! Wire types of the Model Context Protocol, revision 2026-07-28.
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
//! | [`jsonrpc`], [`id`] | Overview: requests, responses, notifications |
//! | [`error`] | Overview: error codes |
//! | [`meta`], [`capabilities`] | Overview: `_meta`, per-request protocol fields |
//! | [`mrtr`], [`kind`], [`answer`] | Multi Round-Trip Requests |
//! | [`elicit`], [`form`] | Elicitation |
//! | [`sampling`] | Sampling (deprecated since 2026-07-28: a new server calls a model provider itself) |
//! | [`roots`] | Roots (deprecated since 2026-07-28: take folders as parameters, resource URIs or configuration) |
//! | [`tools`], [`content`] | Tools |
//! | [`prompts`] | Prompts |
//! | [`resources`] | Resources |
//! | [`pages`] | Pagination |
//! | [`discover`] | Discovery |
//! | [`headers`] | Streamable HTTP: standard request headers, value encoding |
//! | [`strict`], [`object`] | what serde lets through and this crate does not |
//!
//! # What serde lets through
//!
//! A derived struct reads an array as happily as an object, and an `Option` reads `null` as absent. Types of this crate that a server
//! reads insist on objects at every level and tell `null` from absent. Types that only a client reads insist on objects too, and treat
//! `null` in an optional text that is only displayed as absent. Read a derived type through [`Object`] (or [`object::read`]), which
//! refuses an array at the top.
//!
//! No type of this crate uses serde's `flatten` or `untagged`: both buffer numbers, and what they accept changes when any crate in the
//! build turns on serde_json's `arbitrary_precision`.

pub mod answer;
pub mod capabilities;
pub mod content;
pub mod discover;
pub mod elicit;
pub mod error;
pub mod form;
pub mod headers;
pub mod id;
pub mod jsonrpc;
pub mod kind;
pub mod meta;
pub mod mrtr;
pub mod object;
pub mod pages;
pub mod prompts;
pub mod resources;
pub mod roots;
pub mod sampling;
pub mod strict;
pub mod tools;
mod word;

pub use answer::{AnswerError, InputAnswer};
pub use capabilities::{
    ClientCapabilities, ElicitationCapability, RootsCapability, SamplingCapability,
};
pub use content::{ContentBlock, ResourceContents, Role};
pub use discover::{CacheScope, DiscoverResult, ServerCapabilities};
pub use elicit::{ElicitAction, ElicitForm, ElicitUrl};
pub use error::{ErrorObject, KnownError, code};
pub use form::FormSchema;
pub use id::RequestId;
pub use jsonrpc::{EnvelopeError, Incoming, Message, Notification, Request, Response};
pub use kind::{Kind, KindSet};
pub use meta::{Implementation, MetaError, RequestMeta, ResultMeta};
pub use mrtr::{InputRequest, InputRequests, InputRequiredResult, InputResponses, ResultType};
pub use object::{JsonObject, Members, Object, RawObject};
pub use pages::PaginatedParams;
pub use prompts::{
    GetPromptParams, GetPromptResult, ListPromptsResult, Prompt, PromptArgument, PromptMessage,
};
pub use resources::{
    ListResourceTemplatesResult, ListResourcesResult, ReadResourceParams, ReadResourceResult,
    Resource, ResourceTemplate,
};
pub use roots::{ListRootsResult, Root};
pub use sampling::{CreateMessageParams, CreateMessageResult, SamplingContent, SamplingMessage};
pub use tools::{
    CallToolParams, CallToolResult, ListToolsResult, ParamsError, Tool, ToolAnnotations,
};

/// The protocol revision that this crate speaks: the value of `io.modelcontextprotocol/protocolVersion` and of the
/// `MCP-Protocol-Version` header.
pub const REVISION: &str = "2026-07-28";

/// Method names of the specification.
pub mod method {
    /// `server/discover`: what the server is and speaks.
    pub const DISCOVER: &str = "server/discover";
    /// `tools/list`: the tools that the caller may use.
    pub const TOOLS_LIST: &str = "tools/list";
    /// `tools/call`: may be answered with `input_required`.
    pub const TOOLS_CALL: &str = "tools/call";
    /// `prompts/list`: the prompts that the caller may use.
    pub const PROMPTS_LIST: &str = "prompts/list";
    /// `prompts/get`: may be answered with `input_required`.
    pub const PROMPTS_GET: &str = "prompts/get";
    /// `resources/list`: the resources that the caller may read.
    pub const RESOURCES_LIST: &str = "resources/list";
    /// `resources/templates/list`: the families of resources that the caller may read.
    pub const RESOURCES_TEMPLATES_LIST: &str = "resources/templates/list";
    /// `resources/read`: may be answered with `input_required`.
    pub const RESOURCES_READ: &str = "resources/read";
    /// `elicitation/create`: a question for a person, inside `inputRequests`.
    pub const ELICITATION_CREATE: &str = "elicitation/create";
    /// `sampling/createMessage`: a question for a model, inside `inputRequests`. Deprecated since 2026-07-28: a new server calls a model
    /// provider itself.
    pub const SAMPLING_CREATE_MESSAGE: &str = "sampling/createMessage";
    /// `roots/list`: the client's folders, inside `inputRequests`. Deprecated since 2026-07-28: a new server takes folders as parameters,
    /// resource URIs or configuration.
    pub const ROOTS_LIST: &str = "roots/list";

    /// The methods that a server may answer with `input_required` (*Multi Round-Trip Requests, Supported Requests*).
    pub const MAY_ASK: [&str; 3] = [TOOLS_CALL, PROMPTS_GET, RESOURCES_READ];
}

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct ReadmeDoctests;
