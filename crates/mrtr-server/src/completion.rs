//! Completion: suggestions for an argument of a prompt, or a variable of a resource template, while a person types it.
//!
//! Specification: `server/utilities/completion`.

use std::collections::HashMap;
use std::fmt;
use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::Arc;

use mrtr_protocol::completion::MAX_VALUES;
use mrtr_protocol::{CompleteParams, CompleteResult, Completion, CompletionReference};
use tokio_util::sync::CancellationToken;
use tracing::Instrument as _;

use crate::call::Requester;
use crate::error::ToolError;
use crate::extract::{Call, Extract, ExtractError, Spec};
use crate::flow::cell::FlowCell;
use crate::flow::run::{Finish, Run};
use crate::handler::{ExtractAll, Handler};
use crate::meta::Notes;
use crate::reply::Reply;
use crate::server::{Inner, Running};

/// Typed and chosen text of one request, in bytes. A person types it, and it is sent with every key.
const LARGEST: usize = 64 * 1024;

/// What has been typed of an argument so far, and the arguments that were chosen before. An extractor, for the handlers of
/// completions alone.
///
/// All of it is what a client sends. **Not guaranteed:** that a chosen value is one that was suggested, or that it is good
/// for anything.
///
/// ```
/// use mrtr_server::{Args, Partial, prompt};
///
/// #[derive(serde::Deserialize, schemars::JsonSchema)]
/// struct Review {
///     language: String,
///     framework: Option<String>,
/// }
///
/// async fn review(Args(review): Args<Review>) -> String {
///     format!("Review this {} code.", review.language)
/// }
///
/// let prompt = prompt("review", review)
///     .complete("language", async |typed: Partial| typed.matching(["python", "pascal", "rust"]))
///     .complete("framework", async |typed: Partial| match typed.chosen("language") {
///         Some("python") => typed.matching(["django", "flask"]),
///         _ => vec![],
///     });
/// # let _ = prompt;
/// ```
#[derive(Clone, PartialEq, Eq)]
pub struct Partial {
    value: String,
    chosen: HashMap<String, String>,
}

impl Partial {
    /// What has been typed; empty at first.
    #[must_use]
    pub fn value(&self) -> &str {
        &self.value
    }

    /// The value that was chosen for another argument of the same prompt or template.
    #[must_use]
    pub fn chosen(&self, argument: &str) -> Option<&str> {
        self.chosen.get(argument).map(String::as_str)
    }

    /// Those of `values` that begin with what has been typed, and after them those that hold it elsewhere, each in the order
    /// in which they were given. Case makes no difference.
    pub fn matching<T: Into<String>>(&self, values: impl IntoIterator<Item = T>) -> Vec<String> {
        let typed = self.value.to_lowercase();
        let (mut first, mut second) = (Vec::new(), Vec::new());
        for value in values.into_iter().map(Into::into) {
            let lower = value.to_lowercase();
            if lower.starts_with(&typed) {
                first.push(value);
            } else if lower.contains(&typed) {
                second.push(value);
            }
        }
        first.append(&mut second);
        first
    }
}

/// What a person types is not the log's.
impl fmt::Debug for Partial {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Partial")
            .field("chosen", &self.chosen.keys())
            .finish_non_exhaustive()
    }
}

impl Extract for Partial {
    fn describe(spec: &mut Spec) {
        spec.completes = true;
    }

    fn extract(call: &mut Call<'_>) -> Result<Self, ExtractError> {
        call.partial
            .cloned()
            .ok_or(ExtractError::Missing("a completion"))
    }
}

/// What the handler of a completion may return.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be what a completion's handler returns",
    note = "return a `Vec` or an array of `String` or `&str`, a `Completion`, or a `Result` of one of them with any error"
)]
pub trait IntoCompletion {
    /// The suggestions, the best first.
    ///
    /// # Errors
    ///
    /// The handler's own.
    fn into_completion(self) -> Result<Completion, ToolError>;
}

/// As it is, but for the length: at most 100 values leave, and then there are more.
impl IntoCompletion for Completion {
    fn into_completion(mut self) -> Result<Completion, ToolError> {
        if self.values.len() > MAX_VALUES {
            self.values.truncate(MAX_VALUES);
            self.has_more = Some(true);
        }
        Ok(self)
    }
}

/// All that there are: the first 100 leave, and how many there are is said.
impl<T: Into<String>> IntoCompletion for Vec<T> {
    fn into_completion(self) -> Result<Completion, ToolError> {
        let total = u64::try_from(self.len()).ok();
        let mut completion = Completion::new(self);
        completion.total = total;
        Ok(completion)
    }
}

/// As a `Vec`.
impl<T: Into<String>, const N: usize> IntoCompletion for [T; N] {
    fn into_completion(self) -> Result<Completion, ToolError> {
        Vec::from(self).into_completion()
    }
}

impl<R: IntoCompletion, E: Into<ToolError>> IntoCompletion for Result<R, E> {
    fn into_completion(self) -> Result<Completion, ToolError> {
        self.map_err(Into::into)?.into_completion()
    }
}

type Suggesting = Pin<Box<dyn Future<Output = Result<Completion, ToolError>> + Send>>;

/// Extracts, and starts the handler.
type Start = Arc<dyn Fn(&mut Call<'_>) -> Result<Suggesting, ExtractError> + Send + Sync>;

/// One argument's handler, before it is built.
pub(crate) struct Completer {
    pub(crate) argument: String,
    pub(crate) spec: Spec,
    start: Start,
}

impl Completer {
    pub(crate) fn new<H, A>(argument: String, handler: H) -> Self
    where
        H: Handler<A>,
        H::Future: Send,
        H::Output: IntoCompletion,
        A: ExtractAll + Send + 'static,
    {
        let mut spec = Spec::default();
        A::describe_all(&mut spec);
        let start: Start = Arc::new(move |call| {
            let arguments = A::extract_all(call)?;
            let handler = handler.clone();
            Ok(Box::pin(async move {
                handler.call(arguments).await.into_completion()
            }))
        });
        Self {
            argument,
            spec,
            start,
        }
    }
}

/// The arguments of one prompt or template, and their handlers.
#[derive(Default)]
pub(crate) struct Completions(HashMap<String, Option<Completer>>);

impl Completions {
    pub(crate) fn of(arguments: impl IntoIterator<Item = String>) -> Self {
        Self(arguments.into_iter().map(|name| (name, None)).collect())
    }

    /// False: there is no such argument, or it has a handler already.
    pub(crate) fn add(&mut self, completer: Completer) -> bool {
        match self.0.get_mut(&completer.argument) {
            Some(place @ None) => place.replace(completer).is_none(),
            Some(Some(_)) | None => false,
        }
    }
}

/// Answers one `completion/complete`.
pub(crate) async fn answer(
    inner: &Arc<Inner>,
    requester: Requester,
    params: &CompleteParams<'_>,
) -> Reply {
    let (what, name) = match &params.reference {
        CompletionReference::Prompt { name } => ("prompt", name),
        CompletionReference::Resource { uri } => ("resource template", uri),
        _ => return Reply::invalid_params("Invalid params: `ref` is of an unknown type."),
    };
    let Some(completions) = inner
        .catalogue
        .completions(&params.reference, &requester.granted)
    else {
        return Reply::invalid_params(format!("Unknown {what}: {name}"));
    };
    let Some(completer) = completions.0.get(params.name.as_ref()) else {
        return Reply::invalid_params(format!("Unknown argument of that {what}: {}", params.name));
    };
    let chosen = params.context.iter();
    let size = chosen
        .map(|(name, value)| name.len() + value.len())
        .sum::<usize>();
    if size + params.value.len() > LARGEST {
        return Reply::invalid_params(format!(
            "Invalid params: `argument` and `context` have more than {LARGEST} bytes of text together."
        ));
    }
    let now = inner.clock.now();
    if !inner
        .pace
        .permits(requester.account, inner.limits.completions_per_second, now)
    {
        return Reply::unavailable("This principal asks for too many completions.");
    }
    let Some(completer) = completer else {
        return Reply::result(&result(inner, Completion::new([""; 0])));
    };
    let Some(_permit) = Running::permit(inner, requester.account) else {
        return Reply::unavailable("Too many calls of this principal are running.");
    };
    let partial = Partial {
        value: params.value.as_ref().to_owned(),
        // What is no argument here is not the handler's to see.
        chosen: params
            .context
            .iter()
            .filter(|(name, _)| completions.0.contains_key(name.as_ref()))
            .map(|(name, value)| (name.as_ref().to_owned(), value.as_ref().to_owned()))
            .collect(),
    };
    let span = tracing::info_span!("completion", of = %name, argument = %params.name);
    let notes = Notes::of(params.meta, &completer.spec.meta_keys);
    let suggested = suggest(inner, &requester, completer, name, &partial, &notes);
    match suggested.instrument(span).await {
        Ok(completion) => Reply::result(&result(inner, completion)),
        Err(reply) => reply,
    }
}

async fn suggest(
    inner: &Inner,
    requester: &Requester,
    completer: &Completer,
    target: &str,
    partial: &Partial,
    notes: &Notes,
) -> Result<Completion, Reply> {
    // A connection that closes takes the handler with it.
    let cancelled = CancellationToken::new();
    let _gone = cancelled.clone().drop_guard();
    let mut call = Call {
        arguments: None,
        target,
        principal: &requester.principal,
        states: &inner.states,
        cell: None,
        link: &requester.link,
        cancelled: &cancelled,
        partial: Some(partial),
        notes,
    };
    let panicked = || {
        tracing::error!("a completion's handler panicked");
        Reply::internal("The completion failed.")
    };
    // An extractor is the author's code too.
    let started = catch_unwind(AssertUnwindSafe(|| (completer.start)(&mut call)));
    let suggesting = match started {
        Ok(Ok(suggesting)) => suggesting,
        Ok(Err(ExtractError::Refused(error))) => return Err(failed(error)),
        Ok(Err(error @ ExtractError::Meta(_))) => {
            return Err(Reply::invalid_params(format!("Invalid params: {error}.")));
        }
        Ok(Err(error)) => {
            tracing::error!(%error, "an extractor failed");
            return Err(Reply::internal("The completion failed."));
        }
        Err(_panic) => return Err(panicked()),
    };
    match Run::new(FlowCell::without_flow(), suggesting).await {
        Finish::Done(suggested) => suggested.map_err(failed),
        // It has no flow to ask or to end.
        Finish::Panicked | Finish::Asks(_) | Finish::Ended(_) => Err(panicked()),
    }
}

fn failed(error: ToolError) -> Reply {
    let error = error.logged("completion");
    Reply::internal(error.said().unwrap_or("The completion failed."))
}

fn result(inner: &Inner, completion: Completion) -> CompleteResult {
    let mut result = CompleteResult::new(completion);
    result.meta = inner.result_meta();
    result
}
