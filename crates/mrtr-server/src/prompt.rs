//! Prompts: a name, a handler, and what is published of them.

use std::fmt;
use std::time::Duration;

use mrtr_protocol::{GetPromptResult, Icon, Prompt as PublishedPrompt, PromptMessage};
use serde::Serialize;

use crate::access::WithoutScope;
use crate::by_hand::Turn;
use crate::completion::{Completer, IntoCompletion};
use crate::error::ToolError;
use crate::handler::{ExtractAll, Handler};
use crate::registered::{self, Content, Draft};
use crate::repeat::Repeat;

/// A prompt result: messages for the model.
pub type PromptResult = GetPromptResult;

/// A prompt: made by [`prompt`], given to the builder.
///
/// It can ask and remember as a tool can: its handler takes a [`Flow`](crate::Flow).
///
/// ```
/// use mrtr_server::{Args, prompt};
///
/// #[derive(serde::Deserialize, schemars::JsonSchema)]
/// struct Topic {
///     /// What to brief about.
///     topic: String,
/// }
///
/// async fn brief(Args(Topic { topic }): Args<Topic>) -> String {
///     format!("Brief me about {topic}, in three sentences.")
/// }
///
/// let prompt = prompt("brief", brief).description("Asks for a short briefing.");
/// # let _ = prompt;
/// ```
///
/// Specification: `server/prompts`.
#[must_use = "a prompt does nothing until a builder has it"]
pub struct Prompt {
    /// What is listed; the arguments are put in when the server is built.
    pub(crate) published: PublishedPrompt,
    pub(crate) draft: Draft,
}

/// A prompt of this name whose requests this handler answers.
///
/// [`Args<T>`](crate::Args) reads the prompt's arguments, which are strings on the wire: the fields of `T` are `String`,
/// `Option<String>` or unit enums, and the builder refuses others.
pub fn prompt<H, A>(name: impl Into<String>, handler: H) -> Prompt
where
    H: Handler<A>,
    H::Future: Send,
    H::Output: IntoPromptResult,
    A: ExtractAll + Send + 'static,
{
    let start = registered::start(handler, |output: H::Output, _| {
        output
            .into_prompt_result()
            .map(|turn| turn.map(Content::Prompt))
    });
    Prompt {
        published: PublishedPrompt::new(name),
        draft: Draft::new::<A>(start, H::Output::asks_by_hand()),
    }
}

impl Prompt {
    /// The name that a person reads.
    pub fn title(mut self, title: impl Into<String>) -> Self {
        self.published.title = Some(title.into());
        self
    }

    /// What the prompt is for.
    pub fn description(mut self, description: impl Into<String>) -> Self {
        self.published.description = Some(description.into());
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

    /// Suggests values for an argument while a person types it: an async function over extractors, of which
    /// [`Partial`](crate::Partial) has what was typed. At most 100 values leave, the first ones.
    ///
    /// Suggestions are answers to whoever asks: where they are not for everybody, take [`Caller`](crate::Caller) and look.
    /// How often one principal may ask is [`Limits::completions_per_second`](crate::Limits::completions_per_second). A
    /// completion cannot ask anything, and is not recorded.
    ///
    /// Specification: `server/utilities/completion`.
    pub fn complete<H, A>(mut self, argument: impl Into<String>, handler: H) -> Self
    where
        H: Handler<A>,
        H::Future: Send,
        H::Output: IntoCompletion,
        A: ExtractAll + Send + 'static,
    {
        let completer = Completer::new(argument.into(), handler);
        self.draft.completers.push(completer);
        self
    }

    /// How long a state of this prompt may be answered, instead of the server's default.
    pub fn lifetime(mut self, lifetime: Duration) -> Self {
        self.draft.lifetime = Some(lifetime);
        self
    }

    /// How long a flow of this prompt may take from its first request to its last, instead of the server's default.
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

impl fmt::Debug for Prompt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Prompt")
            .field("name", &self.published.name)
            .finish_non_exhaustive()
    }
}

/// What a prompt's handler may return.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be what a prompt's handler returns",
    note = "return `String`, `&'static str`, `Vec<PromptMessage>`, `PromptResult`, a `Turn` of one of them, or a `Result` with any error"
)]
pub trait IntoPromptResult {
    /// The messages, or the error that the caller may read.
    ///
    /// # Errors
    ///
    /// The handler's own.
    fn into_prompt_result(self) -> Result<Turn<PromptResult>, ToolError>;

    /// Whether it may be questions instead of a result: [`Turn`] alone.
    #[must_use]
    fn asks_by_hand() -> bool {
        false
    }
}

impl IntoPromptResult for PromptResult {
    fn into_prompt_result(self) -> Result<Turn<PromptResult>, ToolError> {
        Ok(Turn::Complete(self))
    }
}

impl IntoPromptResult for Vec<PromptMessage> {
    fn into_prompt_result(self) -> Result<Turn<PromptResult>, ToolError> {
        Ok(Turn::Complete(PromptResult::new(self)))
    }
}

/// One message of the user's.
impl IntoPromptResult for String {
    fn into_prompt_result(self) -> Result<Turn<PromptResult>, ToolError> {
        Ok(Turn::Complete(PromptResult::new(vec![
            PromptMessage::user(self),
        ])))
    }
}

/// One message of the user's.
impl IntoPromptResult for &'static str {
    fn into_prompt_result(self) -> Result<Turn<PromptResult>, ToolError> {
        self.to_owned().into_prompt_result()
    }
}

impl<R: IntoPromptResult> IntoPromptResult for Turn<R> {
    fn into_prompt_result(self) -> Result<Turn<PromptResult>, ToolError> {
        match self {
            Self::Complete(result) => result.into_prompt_result(),
            Self::InputRequired(asks) => Ok(Turn::InputRequired(asks)),
        }
    }

    fn asks_by_hand() -> bool {
        true
    }
}

impl<R: IntoPromptResult, E: Into<ToolError>> IntoPromptResult for Result<R, E> {
    fn into_prompt_result(self) -> Result<Turn<PromptResult>, ToolError> {
        self.map_err(Into::into)?.into_prompt_result()
    }

    fn asks_by_hand() -> bool {
        R::asks_by_hand()
    }
}
