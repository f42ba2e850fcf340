//! Resources and templates: a URI, a handler, and what is published of them.

use std::fmt;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use mrtr_protocol::{
    Annotations, Icon, ReadResourceResult, Resource as PublishedResource, ResourceContents,
};
use serde::Serialize;

use crate::access::WithoutScope;
use crate::by_hand::Turn;
use crate::caching::Caching;
use crate::completion::{Completer, IntoCompletion};
use crate::error::ToolError;
use crate::handler::{ExtractAll, Handler};
use crate::registered::{self, Content, Draft};
use crate::repeat::Repeat;
use crate::tool::Json;

/// What reading a resource comes to.
pub type ResourceResult = ReadResourceResult;

/// A resource or a template: made by [`resource`] or [`template`], given to the builder.
///
/// It can ask and remember as a tool can: its handler takes a [`Flow`](crate::Flow).
///
/// ```
/// use mrtr_server::{Args, resource, template};
///
/// #[derive(serde::Deserialize, schemars::JsonSchema)]
/// struct Day {
///     day: String,
/// }
///
/// let today = resource("note://today", async || "Nothing yet.").name("Today's note");
/// let any = template("note://{day}", async |Args(Day { day }): Args<Day>| format!("The note of {day}."));
/// # let _ = (today, any);
/// ```
///
/// Specification: `server/resources`.
#[must_use = "a resource does nothing until a builder has it"]
pub struct Resource {
    /// What is listed, of a template too.
    pub(crate) published: PublishedResource,
    pub(crate) is_template: bool,
    pub(crate) draft: Draft,
}

/// The resource of this URI, which this handler reads. The builder refuses what is no URI (RFC 3986).
pub fn resource<H, A>(uri: impl Into<String>, handler: H) -> Resource
where
    H: Handler<A>,
    H::Future: Send,
    H::Output: IntoResourceResult,
    A: ExtractAll + Send + 'static,
{
    registered_at(uri.into(), false, handler)
}

/// The resources whose URIs fit this template, which this handler reads.
///
/// Templates are those of RFC 6570, with every operator: `{name}`, `{+path}`, `{#part}`, `{.ext}`, `{/seg}`, `{;p}`, `{?q,r}`,
/// `{&x}`, and lists by `{/path*}`. [`Args<T>`](crate::Args) reads the variables, percent-decoded, by name: `String`, or
/// `Vec<String>` where they are exploded. One that the handler can do without (`Option<String>`) may be undefined in the URI; so may
/// one behind an operator with a character of its own that no field is named after. `{name}` and `{+path}` stand for one
/// character or more. Variables of a query stand in the template's order.
///
/// What a client expands is read back as what it was. Where a URI of the template could be read in two ways, as by
/// `{year}-{month}` (either may hold a `-`), the builder refuses it and names such a URI; it refuses `{name:3}`, which is the
/// beginning of many values. Characters that the template does not use as delimiters need not be encoded in a value, except
/// `/`, `?`, `#`, `[` and `]`. A URI of more than 8 KiB fits no template.
///
/// A URI that fits more than one template is read by the one that was given to the builder first; exact URIs come before
/// templates.
///
/// ```
/// use mrtr_server::{Args, template};
///
/// #[derive(serde::Deserialize, schemars::JsonSchema)]
/// struct File {
///     repo: String,
///     path: Vec<String>,
///     rev: Option<String>,
/// }
///
/// let file = template("git://{repo}{/path*}{?rev}", async |Args(file): Args<File>| file.path.join(" > "));
/// # mrtr_server::Server::builder("s", "1").allow_anonymous().resource(file).build().unwrap();
/// ```
///
/// Guaranteed: what is read is a URI (RFC 3986). The URI of a file, `file:`, has no segment `.` or `..`, and behind its
/// escapes neither a separator nor a control character; any other is not found.
///
/// **Not guaranteed:** what a variable holds, beyond that. Under other schemes it can be `..`, or have slashes in it once it
/// is decoded; never make a path of one without looking. A symbolic link leads where it leads.
pub fn template<H, A>(uri_template: impl Into<String>, handler: H) -> Resource
where
    H: Handler<A>,
    H::Future: Send,
    H::Output: IntoResourceResult,
    A: ExtractAll + Send + 'static,
{
    registered_at(uri_template.into(), true, handler)
}

fn registered_at<H, A>(uri: String, is_template: bool, handler: H) -> Resource
where
    H: Handler<A>,
    H::Future: Send,
    H::Output: IntoResourceResult,
    A: ExtractAll + Send + 'static,
{
    let start = registered::start(handler, |output: H::Output, uri| {
        output
            .into_resource_result(uri)
            .map(|turn| turn.map(Content::Resource))
    });
    let mut draft = Draft::new::<A>(start, H::Output::asks_by_hand());
    draft.hints_itself = H::Output::hints_itself();
    Resource {
        published: PublishedResource::new(uri.clone(), uri),
        is_template,
        draft,
    }
}

impl Resource {
    /// The programmatic name; the URI by default.
    pub fn name(mut self, name: impl Into<String>) -> Self {
        self.published.name = name.into();
        self
    }

    /// The name that a person reads.
    pub fn title(mut self, title: impl Into<String>) -> Self {
        self.published.title = Some(title.into());
        self
    }

    /// What is to be found there.
    pub fn description(mut self, description: impl Into<String>) -> Self {
        self.published.description = Some(description.into());
        self
    }

    /// The media type that is published. Contents carry their own, if any.
    pub fn mime_type(mut self, mime_type: impl Into<String>) -> Self {
        self.published.mime_type = Some(mime_type.into());
        self
    }

    /// How many bytes it has, before any encoding. A template's resources have no size in common.
    pub fn size(mut self, bytes: u64) -> Self {
        self.published.size = Some(bytes);
        self
    }

    /// Hints about whom it is for, how important it is, and when it changed. The builder refuses a priority beyond 0 to 1, and
    /// what is no time.
    ///
    /// Specification: `server/resources`, "Annotations".
    pub fn annotations(mut self, annotations: Annotations) -> Self {
        self.published.annotations = Some(annotations);
        self
    }

    /// How long, and by whom, what is read here may be kept. By default it is stale at once. What came of answers is never to be
    /// kept, and says so.
    ///
    /// The builder refuses it for a handler that returns a [`ResourceResult`], which says for itself how long it may be kept, and
    /// refuses a public hint for one that takes [`Caller`](crate::Caller): what it reads depends on who asks.
    ///
    /// Specification: `server/utilities/caching`.
    pub fn caching(mut self, caching: Caching) -> Self {
        self.draft.caching = Some(caching);
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

    /// Suggests values for a variable while a person types it: an async function over extractors, of which
    /// [`Partial`](crate::Partial) has what was typed. At most 100 values leave, the first ones. Only templates have variables.
    ///
    /// Suggestions are answers to whoever asks: where they are not for everybody, take [`Caller`](crate::Caller) and look.
    /// How often one principal may ask is [`Limits::completions_per_second`](crate::Limits::completions_per_second). A
    /// completion cannot ask anything, and is not recorded.
    ///
    /// Specification: `server/utilities/completion`.
    pub fn complete<H, A>(mut self, variable: impl Into<String>, handler: H) -> Self
    where
        H: Handler<A>,
        H::Future: Send,
        H::Output: IntoCompletion,
        A: ExtractAll + Send + 'static,
    {
        let completer = Completer::new(variable.into(), handler);
        self.draft.completers.push(completer);
        self
    }

    /// How long a state of this resource may be answered, instead of the server's default.
    pub fn lifetime(mut self, lifetime: Duration) -> Self {
        self.draft.lifetime = Some(lifetime);
        self
    }

    /// How long a flow of this resource may take from its first request to its last, instead of the server's default.
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

impl fmt::Debug for Resource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Resource")
            .field("uri", &self.published.uri)
            .finish_non_exhaustive()
    }
}

/// What a resource's handler may return.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be what a resource's handler returns",
    note = "return `String`, `&'static str`, `Vec<u8>`, `Json<T>`, `ResourceContents`, `ResourceResult`, a `Turn` of one of them, or a `Result` with any error"
)]
pub trait IntoResourceResult {
    /// The contents of `uri`, or the error that the caller may read.
    ///
    /// # Errors
    ///
    /// The handler's own.
    fn into_resource_result(self, uri: &str) -> Result<Turn<ResourceResult>, ToolError>;

    /// Whether it may be questions instead of a result: [`Turn`] alone.
    #[must_use]
    fn asks_by_hand() -> bool {
        false
    }

    /// Whether it says for itself how long it may be kept: [`ResourceResult`] alone.
    #[must_use]
    fn hints_itself() -> bool {
        false
    }
}

impl IntoResourceResult for ResourceResult {
    fn hints_itself() -> bool {
        true
    }

    fn into_resource_result(self, _: &str) -> Result<Turn<ResourceResult>, ToolError> {
        Ok(Turn::Complete(self))
    }
}

/// Contents of their own URI and media type.
impl IntoResourceResult for ResourceContents {
    fn into_resource_result(self, _: &str) -> Result<Turn<ResourceResult>, ToolError> {
        Ok(Turn::Complete(ResourceResult::new(vec![self])))
    }
}

impl IntoResourceResult for String {
    fn into_resource_result(self, uri: &str) -> Result<Turn<ResourceResult>, ToolError> {
        Ok(Turn::Complete(ResourceResult::new(vec![
            ResourceContents::text(uri, self),
        ])))
    }
}

impl IntoResourceResult for &'static str {
    fn into_resource_result(self, uri: &str) -> Result<Turn<ResourceResult>, ToolError> {
        self.to_owned().into_resource_result(uri)
    }
}

/// Bytes: published as base64.
impl IntoResourceResult for Vec<u8> {
    fn into_resource_result(self, uri: &str) -> Result<Turn<ResourceResult>, ToolError> {
        Ok(Turn::Complete(ResourceResult::new(vec![
            ResourceContents::blob(uri, STANDARD.encode(self)),
        ])))
    }
}

/// Text of the media type `application/json`.
impl<T: Serialize> IntoResourceResult for Json<T> {
    fn into_resource_result(self, uri: &str) -> Result<Turn<ResourceResult>, ToolError> {
        let mut contents = ResourceContents::text(uri, serde_json::to_string(&self.0)?);
        contents.mime_type = Some("application/json".into());
        Ok(Turn::Complete(ResourceResult::new(vec![contents])))
    }
}

impl<R: IntoResourceResult> IntoResourceResult for Turn<R> {
    fn into_resource_result(self, uri: &str) -> Result<Turn<ResourceResult>, ToolError> {
        match self {
            Self::Complete(result) => result.into_resource_result(uri),
            Self::InputRequired(asks) => Ok(Turn::InputRequired(asks)),
        }
    }

    fn asks_by_hand() -> bool {
        true
    }

    fn hints_itself() -> bool {
        R::hints_itself()
    }
}

impl<R: IntoResourceResult, E: Into<ToolError>> IntoResourceResult for Result<R, E> {
    fn into_resource_result(self, uri: &str) -> Result<Turn<ResourceResult>, ToolError> {
        self.map_err(Into::into)?.into_resource_result(uri)
    }

    fn asks_by_hand() -> bool {
        R::asks_by_hand()
    }

    fn hints_itself() -> bool {
        R::hints_itself()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn contents_keep_their_own_uri_and_media_type() {
        let contents = ResourceContents::text("note://other", "{}").with_mime_type("text/x");
        let result = contents.clone().into_resource_result("note://asked");
        assert_eq!(result.unwrap().completed().unwrap().contents, [contents]);
    }
}
