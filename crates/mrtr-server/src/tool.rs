//! Tools: a name, a handler, and what is published of them.

use std::fmt;
use std::time::Duration;

use mrtr_protocol::{
    CallToolResult, ContentBlock, Icon, JsonObject, Tool as PublishedTool, ToolAnnotations,
};
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;

use crate::access::WithoutScope;
use crate::by_hand::Turn;
use crate::error::ToolError;
use crate::handler::{ExtractAll, Handler};
use crate::registered::{self, Content, Draft};
use crate::repeat::Repeat;
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
    /// What is listed; the input schema is put in when the server is built.
    pub(crate) published: PublishedTool,
    /// In place of what the handler's arguments say.
    pub(crate) input_schema: Option<JsonObject>,
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
        output
            .into_tool_result()
            .map(|turn| turn.map(Content::Tool))
    });
    let mut tool = Tool {
        published: PublishedTool::new(name, JsonObject::empty()),
        input_schema: None,
        draft: Draft::new::<A>(start, H::Output::asks_by_hand()),
    };
    if let Some(schema) = H::Output::output_schema() {
        tool = tool.output_schema(schema);
    }
    tool
}

impl Tool {
    /// The name that a person reads.
    pub fn title(mut self, title: impl Into<String>) -> Self {
        self.published.title = Some(title.into());
        self
    }

    /// What the tool does, for the model.
    pub fn description(mut self, description: impl Into<String>) -> Self {
        self.published.description = Some(description.into());
        self
    }

    /// Hints about its behaviour. Clients must not trust them.
    pub fn annotations(mut self, annotations: ToolAnnotations) -> Self {
        self.published.annotations = Some(annotations);
        self
    }

    /// Adds a picture, for user interfaces. The builder refuses what is neither an `https:` URL nor a `data:` URI.
    ///
    /// Specification: `basic/index`, "`icons`".
    pub fn icon(mut self, icon: Icon) -> Self {
        self.published.icons.push(icon);
        self
    }

    /// Adds an entry to the `_meta` that is listed, such as `com.example/colour`. The builder refuses keys of another form, and
    /// those that the specification gives a meaning to.
    pub fn meta(mut self, key: impl Into<String>, value: impl Serialize) -> Self {
        let key = key.into();
        if let Err(error) = self.published.meta.insert(key.as_str(), &value) {
            let fault = format!("the value of `{key}` in `_meta` does not serialize: {error}");
            self.draft.spec.faults.push(fault);
        }
        self
    }

    /// The schema of the arguments, in place of the one that [`Args<T>`](crate::Args) derives: listed as it is given, and what
    /// calls are validated against. It is JSON Schema 2020-12 with `type: "object"` at its root.
    ///
    /// `T` still reads what passes; `Args<serde_json::Value>` takes it as it is.
    ///
    /// ```
    /// use mrtr_server::{Args, tool};
    /// use serde_json::{Value, json};
    ///
    /// let tool = tool("contact", async |Args(arguments): Args<Value>| arguments.to_string()).input_schema(json!({
    ///     "type": "object",
    ///     "properties": { "phone": { "type": "string" }, "email": { "type": "string" } },
    ///     "anyOf": [{ "required": ["phone"] }, { "required": ["email"] }],
    ///     "additionalProperties": false,
    /// }));
    /// # let _ = tool;
    /// ```
    ///
    /// Specification: `basic/index`, "JSON Schema Usage".
    pub fn input_schema(mut self, schema: impl Serialize) -> Self {
        self.input_schema = self.schema("input", &schema);
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
    pub fn output_schema(mut self, schema: impl Serialize) -> Self {
        self.published.output_schema = self.schema("output", &schema);
        self
    }

    /// Publishes no output schema, although the handler's type has one. Results are then sent as they are.
    pub fn without_output_schema(mut self) -> Self {
        self.published.output_schema = None;
        self
    }

    fn schema(&mut self, of: &str, schema: &impl Serialize) -> Option<JsonObject> {
        let schema = JsonObject::from_serialize(schema);
        let fault = |error| format!("its {of} schema is {error}");
        schema
            .map_err(|error| self.draft.spec.faults.push(fault(error)))
            .ok()
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

    #[doc = include_str!("docs/scopes.md")]
    pub fn scopes<S: Into<Box<str>>>(mut self, scopes: impl IntoIterator<Item = S>) -> Self {
        self.draft
            .access
            .scopes
            .extend(scopes.into_iter().map(Into::into));
        self
    }

    /// What callers see of it who were not granted its [scopes](Self::scopes).
    pub fn without_scope(mut self, otherwise: WithoutScope) -> Self {
        self.draft.access.otherwise = otherwise;
        self
    }

    #[doc = include_str!("docs/repeat.md")]
    pub fn repeat(mut self, repeat: Repeat) -> Self {
        self.draft.repeat = repeat;
        self
    }

    #[doc = include_str!("docs/run_again.md")]
    pub fn run_again(mut self) -> Self {
        self.draft.run_again = true;
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
            .field("name", &self.published.name)
            .finish_non_exhaustive()
    }
}

/// What a handler may return.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be what a tool's handler returns",
    note = "return `&'static str`, `String`, `ContentBlock`, `Vec<ContentBlock>`, `Json<T>`, `ToolResult`, a `Turn` of one of them, or a `Result` with any error"
)]
pub trait IntoToolResult {
    /// The result, or the error that the caller may read.
    ///
    /// # Errors
    ///
    /// The handler's own.
    fn into_tool_result(self) -> Result<Turn<ToolResult>, ToolError>;

    /// Whether it may be questions instead of a result: [`Turn`] alone.
    #[must_use]
    fn asks_by_hand() -> bool {
        false
    }

    /// The schema of the structured content that every result of this type has; `None`: it has none, or one of any shape.
    #[must_use]
    fn output_schema() -> Option<Value> {
        None
    }
}

impl IntoToolResult for ToolResult {
    fn into_tool_result(self) -> Result<Turn<ToolResult>, ToolError> {
        Ok(Turn::Complete(self))
    }
}

impl IntoToolResult for ContentBlock {
    fn into_tool_result(self) -> Result<Turn<ToolResult>, ToolError> {
        vec![self].into_tool_result()
    }
}

impl IntoToolResult for Vec<ContentBlock> {
    fn into_tool_result(self) -> Result<Turn<ToolResult>, ToolError> {
        Ok(Turn::Complete(ToolResult::new(self)))
    }
}

impl IntoToolResult for String {
    fn into_tool_result(self) -> Result<Turn<ToolResult>, ToolError> {
        Ok(Turn::Complete(self.into()))
    }
}

impl IntoToolResult for &'static str {
    fn into_tool_result(self) -> Result<Turn<ToolResult>, ToolError> {
        Ok(Turn::Complete(self.into()))
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
    fn into_tool_result(self) -> Result<Turn<ToolResult>, ToolError> {
        Ok(Turn::Complete(ToolResult::structured(&self.0)?))
    }

    fn output_schema() -> Option<Value> {
        Some(schema::of_output::<T>()).filter(schema::says_something)
    }
}

impl<R: IntoToolResult> IntoToolResult for Turn<R> {
    fn into_tool_result(self) -> Result<Turn<ToolResult>, ToolError> {
        match self {
            Self::Complete(result) => result.into_tool_result(),
            Self::InputRequired(asks) => Ok(Turn::InputRequired(asks)),
        }
    }

    fn output_schema() -> Option<Value> {
        R::output_schema()
    }

    fn asks_by_hand() -> bool {
        true
    }
}

impl<R: IntoToolResult, E: Into<ToolError>> IntoToolResult for Result<R, E> {
    fn into_tool_result(self) -> Result<Turn<ToolResult>, ToolError> {
        self.map_err(Into::into)?.into_tool_result()
    }

    fn asks_by_hand() -> bool {
        R::asks_by_hand()
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
        assert_eq!(
            one.clone()
                .into_tool_result()
                .unwrap()
                .completed()
                .unwrap()
                .content,
            [one]
        );
        assert_eq!(
            two.clone()
                .into_tool_result()
                .unwrap()
                .completed()
                .unwrap()
                .content,
            two
        );
    }
}
