//! Tools: a name, a handler, and what is published of them.

use std::fmt;
use std::time::Duration;

use mrtr_protocol::{CallToolResult, ContentBlock, ToolAnnotations};
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;

use crate::error::ToolError;
use crate::handler::{ExtractAll, Handler};
use crate::registered::{self, Content, Draft};
use crate::schema;

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
    pub(crate) output_schema: Option<Value>,
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
        output_schema: H::Output::output_schema(),
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

    /// Publishes the schema of `T` as the tool's output schema: every result that is no error has structured content that fits
    /// it. For handlers that return a [`ToolResult`]; one that returns [`Json<T>`](Json) does this by itself.
    ///
    /// A result that does not fit is a fault of the server's: it is logged and never sent, and the caller gets an internal
    /// error (-32603). The effects of such a call have happened.
    ///
    /// Specification: `server/tools`, "Output Schema".
    pub fn output<T: JsonSchema>(self) -> Self {
        self.output_schema(schema::of_output::<T>())
    }

    /// Publishes this output schema, as [`output`](Self::output) does that of a type. It is JSON Schema 2020-12, and listed as
    /// it is given. In the earlier era, whose results are objects, a schema of another root is not listed.
    pub fn output_schema(mut self, schema: Value) -> Self {
        self.output_schema = Some(schema);
        self
    }

    /// Publishes no output schema, although the handler's type has one. Results are then sent as they are.
    pub fn without_output_schema(mut self) -> Self {
        self.output_schema = None;
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

    /// The schema of the structured content that every result of this type has; `None`: it has none, or one of any shape.
    #[must_use]
    fn output_schema() -> Option<Value> {
        None
    }
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

/// Structured content: sent as `structuredContent`, and as text for clients that read only text.
///
/// The schema of `T` is published as the tool's output schema, and results are validated against it before they leave: see
/// [`Tool::output`]. [`Tool::without_output_schema`] turns that off. `Json<serde_json::Value>` is of any shape and has none.
///
/// ```
/// use mrtr_server::{Json, tool};
///
/// #[derive(serde::Serialize, schemars::JsonSchema)]
/// struct Weather {
///     /// In degrees Celsius.
///     temperature: f64,
/// }
///
/// let tool = tool("weather", async || Json(Weather { temperature: 21.5 }));
/// # let _ = tool;
/// ```
///
/// Specification: `server/tools`, "Structured Content".
#[derive(Debug, Clone, Copy)]
pub struct Json<T>(pub T);

impl<T: Serialize + JsonSchema> IntoToolResult for Json<T> {
    fn into_tool_result(self) -> Result<ToolResult, ToolError> {
        Ok(ToolResult::structured(&self.0)?)
    }

    fn output_schema() -> Option<Value> {
        Some(schema::of_output::<T>()).filter(schema::says_something)
    }
}

impl<R: IntoToolResult, E: Into<ToolError>> IntoToolResult for Result<R, E> {
    fn into_tool_result(self) -> Result<ToolResult, ToolError> {
        self.map_err(Into::into)?.into_tool_result()
    }

    fn output_schema() -> Option<Value> {
        R::output_schema()
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
