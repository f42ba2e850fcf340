#![forbid(unsafe_code)]
#![doc = include_str!("docs/front.md")]

mod access;
mod auth;
mod builder;
mod by_hand;
mod caching;
mod call;
mod calls;
mod catalogue;
mod changes;
mod completion;
mod content;
mod encoding;
mod error;
mod extract;
mod flow;
mod form;
mod handler;
mod http;
mod hub;
mod ledgering;
mod limits;
mod line;
mod listed;
mod listen;
mod meta;
mod methods;
mod metrics;
mod modern;
mod notices;
mod outbox;
mod pace;
pub mod page;
mod prompt;
mod question;
mod registered;
mod repeat;
mod reply;
mod resource;
mod schema;
mod server;
mod session;
mod stdio;
mod stored_codec;
mod template;
mod tool;
mod uri;
mod value;

pub use crate::access::{Identity, WithoutScope};
pub use crate::auth::{AuthError, AuthFuture, Authenticator, StaticTokens};
pub use crate::builder::{BuildError, Dangerous, ServerBuilder};
pub use crate::by_hand::{InputRequired, Resumed, Turn};
pub use crate::caching::{Caching, ListCaching};
pub use crate::changes::Changes;
pub use crate::completion::{IntoCompletion, Partial};
pub use crate::error::ToolError;
pub use crate::extract::{Args, Call, Caller, Extract, ExtractError, Spec, State};
pub use crate::flow::{Ask, DurableFlow, Flow, FlowIn};
pub use crate::form::FormError;
pub use crate::handler::{ExtractAll, Handler};
pub use crate::limits::Limits;
pub use crate::meta::{Meta, MetaEntry, TraceContext};
pub use crate::notices::{Cancelled, Log, Polling, Progress};
pub use crate::page::{MemoryVisits, Page, Pages, Submission, Visit};
pub use crate::prompt::{IntoPromptResult, Prompt, PromptResult, prompt};
pub use crate::question::{Answer, Form, Question, QuestionError, Rendered, Roots, Sampling};
pub use crate::repeat::Repeat;
pub use crate::resource::{IntoResourceResult, Resource, ResourceResult, resource, template};
pub use crate::server::Server;
pub use crate::stored_codec::{ServerCodec, StoredCodec};
pub use crate::tool::{IntoToolResult, Json, Tool, ToolResult, tool};
/// The wire types, for what this crate does not name itself: content blocks, tools for sampling and the like.
pub use mrtr_protocol as protocol;
pub use mrtr_protocol::{
    Annotations, CacheScope, Completion, ContentBlock, Icon, IconTheme, Kind, PromptMessage,
    ResourceContents, ResourceLink, Role, ToolAnnotations,
};
/// Deprecated since 2026-07-28, as sampling and roots are: a new server calls a model provider itself, and takes folders as
/// parameters, resource URIs or configuration.
pub use mrtr_protocol::{CreateMessageParams, CreateMessageResult, Root, SamplingMessage};
pub use mrtr_state::Principal;

/// The README's code compiles.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
