//! Tools: a name, a handler, and what is published of them.

use std::fmt;
use std::time::Duration;

use mrtr_protocol::{CallToolResult, ContentBlock, ToolAnnotations};
use serde::Serialize;

use crate::error::ToolError;
use crate::handler::{ExtractAll, Handler};
use crate::registered::{self, Content, Draft};

/// A tool result: what the model reads.
pub type ToolResult = CallToolResult;

/// A tool: made by [`tool`], given to the builder.
///
/// ```
/// use mrtr_server::{Args, tool};
///
/// #[derive(serde::Deserialize, schemars::JsonSchema)]
/// struct Greeting {
///     /// Whom to greet.
///     name: String,
/// }
///
/// async fn greet(Args(greeting): Args<Greeting>) -> String {
///     format!("Hello, {}!", greeting.name)
/// }
///
/// let tool = tool("greet", greet).title("Greet").description("Greets somebody by name.");
/// # let _ = tool;
/// ```
#[must_use = "a tool does nothing until a builder has it"]
pub struct Tool {
    pub(crate) name: String,
    pub(crate) title: Option<String>,
    pub(crate) description: Option<String>,
    pub(crate) annotations: Option<ToolAnnotations>,
    pub(crate) draft: Draft,
}

/// A tool of this name whose calls this handler answers.
///
/// Names should be 1 to 128 characters of `A-Z`, `a-z`, `0-9`, `_`, `-` and `.` (specification, `server/tools`,
/// "Tool Names"); the builder refuses others.
pub fn tool<H, A>(name: impl Into<String>, handler: H) -> Tool
where
    H: Handler<A>,
    H::Future: Send,
    H::Output: IntoToolResult,
    A: ExtractAll + Send + 'static,
{
    let start = registered::start(handler, |output: H::Output, _| {
        output.into_tool_result().map(Content::Tool)
    });
    Tool {
        name: name.into(),
        title: None,
        description: None,
        annotations: None,
        draft: Draft::new::<A>(start),
    }
}

impl Tool {
    /// The name that a person reads.
    pub fn title(mut self, title: impl Into<String>) -> Self {
        self.title = Some(title.into());
        self
    }

    /// What the tool does, for the model.
    pub fn description(mut self, description: impl Into<String>) -> Self {
        self.description = Some(description.into());
        self
    }

    /// Hints about its behaviour. Clients must not trust them.
    pub fn annotations(mut self, annotations: ToolAnnotations) -> Self {
        self.annotations = Some(annotations);
        self
    }

    /// How long a state of this tool may be answered, instead of the server's default. An approval may take a day.
    ///
    /// The flow's lifetime is raised to this if it is shorter.
    pub fn lifetime(mut self, lifetime: Duration) -> Self {
        self.draft.lifetime = Some(lifetime);
        self
    }

    /// How long a flow of this tool may take from its first request to its last, instead of the server's default.
    pub fn flow_lifetime(mut self, lifetime: Duration) -> Self {
        self.draft.flow_lifetime = Some(lifetime);
        self
    }

    #[doc = include_str!("docs/answers_without_state.md")]
    pub fn accept_answers_without_state(mut self) -> Self {
        self.draft.answers_without_state = true;
        self
    }
}

impl fmt::Debug for Tool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tool")
            .field("name", &self.name)
            .finish_non_exhaustive()
    }
}

/// What a handler may return.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be what a tool's handler returns",
    note = "return `&'static str`, `String`, `ContentBlock`, `Vec<ContentBlock>`, `Json<T>`, `ToolResult`, or a `Result` of one of them with any error"
)]
pub trait IntoToolResult {
    /// The result, or the error that the caller may read.
    ///
    /// # Errors
    ///
    /// The handler's own.
    fn into_tool_result(self) -> Result<ToolResult, ToolError>;
}

impl IntoToolResult for ToolResult {
    fn into_tool_result(self) -> Result<ToolResult, ToolError> {
        Ok(self)
    }
}

impl IntoToolResult for ContentBlock {
    fn into_tool_result(self) -> Result<ToolResult, ToolError> {
        vec![self].into_tool_result()
    }
}

impl IntoToolResult for Vec<ContentBlock> {
    fn into_tool_result(self) -> Result<ToolResult, ToolError> {
        Ok(ToolResult::new(self))
    }
}

impl IntoToolResult for String {
    fn into_tool_result(self) -> Result<ToolResult, ToolError> {
        Ok(self.into())
    }
}

impl IntoToolResult for &'static str {
    fn into_tool_result(self) -> Result<ToolResult, ToolError> {
        Ok(self.into())
    }
}

/// Structured content: published as `structuredContent`, and as text for clients that read only text.
#[derive(Debug, Clone, Copy)]
pub struct Json<T>(pub T);

impl<T: Serialize> IntoToolResult for Json<T> {
    fn into_tool_result(self) -> Result<ToolResult, ToolError> {
        Ok(ToolResult::structured(&self.0)?)
    }
}

impl<R: IntoToolResult, E: Into<ToolError>> IntoToolResult for Result<R, E> {
    fn into_tool_result(self) -> Result<ToolResult, ToolError> {
        self.map_err(Into::into)?.into_tool_result()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn content_is_a_result() {
        let one = ContentBlock::image("AA==", "image/png");
        let two = vec![ContentBlock::text("a"), one.clone()];
        assert_eq!(one.clone().into_tool_result().unwrap().content, [one]);
        assert_eq!(two.clone().into_tool_result().unwrap().content, two);
    }
}
