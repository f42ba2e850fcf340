//! The client's folders. Deprecated since 2026-07-28, as roots are: take folders as parameters, resource URIs or configuration.

use mrtr_protocol::{InputRequest, Kind, ListRootsResult, Object, Root};
use serde_json::value::RawValue;

use super::{Question, QuestionError, Rendered};

/// Asks for the client's working folders. Deprecated since 2026-07-28: a new server takes folders as parameters, resource
/// URIs or configuration.
///
/// The answer is what the client says; that a folder is there, or that it may be read, is not proved by it.
///
/// Specification: `client/roots`.
#[derive(Debug, Clone, Copy, Default)]
#[non_exhaustive]
pub struct Roots;

impl Roots {
    /// The question; it takes nothing. Deprecated since 2026-07-28: take folders as parameters, resource URIs or
    /// configuration.
    #[must_use]
    pub const fn new() -> Self {
        Self
    }
}

impl Question for Roots {
    type Output = Vec<Root>;

    fn render(&self) -> Result<Rendered, QuestionError> {
        Rendered::unchecked(Kind::Roots, InputRequest::roots())
    }

    fn read(&self, content: &RawValue) -> Option<Vec<Root>> {
        let Object(ListRootsResult { roots, .. }) = serde_json::from_str(content.get()).ok()?;
        Some(roots)
    }
}
