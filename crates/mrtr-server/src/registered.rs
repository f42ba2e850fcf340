//! What is served: handlers of tools, prompts and resources, registered alike.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use jsonschema::Validator;
use mrtr_protocol::{CallToolResult, GetPromptResult, ParamHeaders, ReadResourceResult, method};

use crate::access::Access;
use crate::by_hand::Turn;
use crate::caching::Caching;
use crate::completion::Completer;
use crate::content;
use crate::error::ToolError;
use crate::extract::{Call, ExtractError, Spec};
use crate::flow::run::Body;
use crate::handler::{ExtractAll, Handler};
use crate::repeat::Repeat;
use crate::schema;

/// The three requests that may be answered with a question (specification, `basic/patterns/mrtr`, "Supported Requests").
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Surface {
    Tool,
    Prompt,
    Resource,
}

impl Surface {
    pub(crate) fn method(self) -> &'static str {
        match self {
            Self::Tool => method::TOOLS_CALL,
            Self::Prompt => method::PROMPTS_GET,
            Self::Resource => method::RESOURCES_READ,
        }
    }
}

impl fmt::Display for Surface {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Tool => "tool",
            Self::Prompt => "prompt",
            Self::Resource => "resource",
        })
    }
}

/// What a handler came to.
#[derive(Debug)]
pub(crate) enum Content {
    Tool(CallToolResult),
    Prompt(GetPromptResult),
    Resource(ReadResourceResult),
}

/// What a body comes to.
pub(crate) type Came = Result<Turn<Content>, ToolError>;

/// Extracts, and starts the body.
pub(crate) type Start =
    Arc<dyn Fn(&mut Call<'_>) -> Result<Body<Came>, ExtractError> + Send + Sync>;

/// The start of a handler whose output `finish` turns into content, given the URI or name that was asked for.
pub(crate) fn start<H, A>(
    handler: H,
    finish: impl Fn(H::Output, &str) -> Came + Clone + Send + Sync + 'static,
) -> Start
where
    H: Handler<A>,
    H::Future: Send,
    A: ExtractAll + Send + 'static,
{
    Arc::new(move |call| {
        let arguments = A::extract_all(call)?;
        let target = call.target().to_owned();
        // Called inside the body, so that whatever it does before its first await is the body's too.
        let (handler, finish) = (handler.clone(), finish.clone());
        Ok(Box::pin(async move {
            let came = finish(handler.call(arguments).await, &target)?;
            if let Turn::Complete(content) = &came {
                content::check(content)?;
            }
            Ok(came)
        }))
    })
}

/// What a tool, prompt or resource has in common before it is built.
pub(crate) struct Draft {
    pub(crate) spec: Spec,
    pub(crate) start: Start,
    pub(crate) lifetime: Option<Duration>,
    pub(crate) flow_lifetime: Option<Duration>,
    pub(crate) answers_without_state: bool,
    pub(crate) repeat: Repeat,
    pub(crate) run_again: bool,
    /// The handler may return its questions itself.
    pub(crate) asks_by_hand: bool,
    pub(crate) completers: Vec<Completer>,
    /// Of a resource.
    pub(crate) caching: Option<Caching>,
    /// What the handler returns says for itself how long it may be kept.
    pub(crate) hints_itself: bool,
    pub(crate) access: Access,
}

impl Draft {
    pub(crate) fn new<A: ExtractAll>(start: Start, asks_by_hand: bool) -> Self {
        let mut spec = Spec::default();
        A::describe_all(&mut spec);
        Self {
            spec,
            start,
            lifetime: None,
            flow_lifetime: None,
            answers_without_state: false,
            repeat: Repeat::default(),
            run_again: false,
            asks_by_hand,
            completers: Vec::new(),
            caching: None,
            hints_itself: false,
            access: Access::default(),
        }
    }
}

/// A handler as it is served.
pub(crate) struct Registered {
    pub(crate) surface: Surface,
    /// The tool's or prompt's name, the resource's URI or the template.
    pub(crate) name: String,
    pub(crate) validator: Validator,
    /// Arguments that come in headers too, over HTTP.
    pub(crate) param_headers: ParamHeaders,
    /// What a tool's structured content must fit, if that is published.
    pub(crate) output: Option<Validator>,
    /// How long what a resource holds may be kept.
    pub(crate) caching: Option<Caching>,
    /// The scopes that its callers need.
    pub(crate) access: Arc<Access>,
    pub(crate) takes_arguments: bool,
    /// Entries of `_meta` that it sees, which belong to the request like its arguments.
    pub(crate) meta_keys: Vec<&'static str>,
    pub(crate) asks: bool,
    pub(crate) acts_once: bool,
    /// It may return its questions itself.
    pub(crate) asks_by_hand: bool,
    /// Answers on a first call count, although no state says that anything was asked.
    pub(crate) answers_without_state: bool,
    /// What a repeated retry gets of it.
    pub(crate) repeat: Repeat,
    /// A round that was lost runs again from the top of the body.
    pub(crate) run_again: bool,
    pub(crate) lifetime: Duration,
    pub(crate) flow_lifetime: Duration,
    pub(crate) start: Start,
}

impl Registered {
    /// Says how long the content may be kept. What came of answers may not be kept at all.
    pub(crate) fn hint(&self, content: &mut Content, came_of_answers: bool) {
        let Content::Resource(result) = content else {
            return;
        };
        match self.caching {
            _ if came_of_answers => Caching::forbid(result),
            Some(caching) => caching.hint(result),
            None => {}
        }
    }

    /// Why this content is not what was promised. It names places and rules, never values.
    pub(crate) fn breach(&self, content: &Content) -> Option<String> {
        let (Some(output), Content::Tool(result)) = (&self.output, content) else {
            return None;
        };
        // A failure need not be structured: the model reads it.
        if result.is_error {
            return None;
        }
        let Some(structured) = &result.structured_content else {
            return Some("there is no structured content".into());
        };
        match serde_json::from_str(structured.get()) {
            Ok(value) => schema::fault(output, &value),
            Err(error) => Some(error.to_string()),
        }
    }
}
