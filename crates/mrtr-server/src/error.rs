//! Errors of handlers, and who reads them.
//!
//! A failed tool call has two readers. The *model* reads the result and decides what to do next: it needs a sentence that
//! says what happened and what helps. The *operator* reads the log and needs the cause. A [`ToolError`] keeps the two apart:
//! text for the model is given on purpose with [`ToolError::text`]; everything that arrives through `?` is a cause, goes to
//! the log alone, and the caller reads "The tool failed.": an error's text may hold a path, a query or a key.

use std::error::Error as StdError;
use std::fmt;

/// Why a tool call failed.
///
/// `?` turns any [`std::error::Error`] into one whose text stays in the log.
///
/// ```
/// use mrtr_server::ToolError;
///
/// fn parse(input: &str) -> Result<u32, ToolError> {
///     if input.is_empty() {
///         return Err(ToolError::text("The amount is missing. Give it as a whole number."));
///     }
///     Ok(input.parse()?) // the cause is logged; the caller reads "The tool failed."
/// }
/// # assert!(parse("").is_err());
/// # assert!(parse("x").is_err());
/// ```
///
/// It deliberately does not implement [`std::error::Error`], so that the conversion above can exist.
pub struct ToolError {
    text: Option<String>,
    cause: Option<Box<dyn StdError + Send + Sync>>,
    not_done: bool,
}

/// What the caller reads when a cause must stay in the log.
pub(crate) const OPAQUE: &str = "The tool failed.";

impl ToolError {
    /// An error whose text the model reads. Say what happened and what to do next.
    pub fn text(text: impl Into<String>) -> Self {
        Self {
            text: Some(text.into()),
            cause: None,
            not_done: false,
        }
    }

    /// An error inside `once` that says: *nothing was done*. The step is freed and may run again in this flow.
    ///
    /// Only say so when it is certain: a request that timed out may well have taken effect.
    #[must_use]
    pub fn not_done(mut self) -> Self {
        self.not_done = true;
        self
    }

    /// Adds a text for the model to an error whose cause stays in the log.
    #[must_use]
    pub fn with_text(mut self, text: impl Into<String>) -> Self {
        self.text = Some(text.into());
        self
    }

    /// What the handler wanted to read cannot be read; the log has the reason already.
    pub(crate) fn unread() -> Self {
        Self {
            text: None,
            cause: None,
            not_done: false,
        }
    }

    pub(crate) fn says_not_done(&self) -> bool {
        self.not_done
    }

    /// The text that was meant for the caller, if there is one.
    pub(crate) fn said(&self) -> Option<&str> {
        self.text.as_deref()
    }

    /// The text that the caller may read.
    pub(crate) fn public(&self) -> &str {
        self.said().unwrap_or(OPAQUE)
    }

    /// Writes the cause, with its sources, to the log; what is left is what the caller may read, so that a cause is
    /// logged once, where it is known what failed.
    pub(crate) fn logged(mut self, what: &str) -> Self {
        if let Some(cause) = self.cause.take() {
            tracing::error!(what, cause = %Chain(cause.as_ref()), "failed");
        }
        self
    }
}

impl<E: StdError + Send + Sync + 'static> From<E> for ToolError {
    fn from(cause: E) -> Self {
        Self {
            text: None,
            cause: Some(Box::new(cause)),
            not_done: false,
        }
    }
}

impl fmt::Debug for ToolError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ToolError")
            .field("text", &self.text)
            .field("cause", &self.cause)
            .field("not_done", &self.not_done)
            .finish()
    }
}

/// An error and its sources on one line.
struct Chain<'a>(&'a dyn StdError);

impl fmt::Display for Chain<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)?;
        let mut source = self.0.source();
        while let Some(error) = source {
            write!(f, ": {error}")?;
            source = error.source();
        }
        Ok(())
    }
}
