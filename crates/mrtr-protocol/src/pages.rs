//! Lists that come in pages (*Pagination*).

use std::borrow::Cow;

use crate::object::{Members, as_string};
use crate::tools::ParamsError;

/// Params of every method that lists: tools, prompts, resources, resource templates.
#[derive(Debug, Clone, Default)]
pub struct PaginatedParams<'a> {
    /// Where to go on: opaque to the client, and to the server whatever a client sent.
    pub cursor: Option<Cow<'a, str>>,
}

impl<'a> PaginatedParams<'a> {
    /// Reads the params of a request.
    ///
    /// # Errors
    ///
    /// [`ParamsError::Mistyped`] for a cursor that is no string, `null` included.
    pub fn of(params: &Members<'a>) -> Result<Self, ParamsError> {
        let cursor = params
            .get("cursor")
            .map(|raw| as_string(raw).ok_or(ParamsError::Mistyped("cursor")));
        Ok(Self {
            cursor: cursor.transpose()?,
        })
    }
}
