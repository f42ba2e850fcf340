//! From a modern result to one of the earlier era, on the text.

use std::borrow::Cow;

use serde_json::value::RawValue;

use crate::meta;
use crate::object::{Members, as_string, is_object};

/// Members that the earlier era's results do not have.
const MODERN: [&str; 3] = ["resultType", "ttlMs", "cacheScope"];
/// Keys of a result's `_meta` that only the modern era gives a meaning.
const MODERN_META: [&str; 2] = [meta::SERVER_INFO, meta::SUBSCRIPTION_ID];

/// Why a result cannot be sent to a client of the earlier era: each is a fault of the caller.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum EarlierResultError {
    /// It is no object, or has a member twice.
    #[error("the result is not an object with distinct members")]
    NotAnObject,
    /// `resultType` is not `complete`: in the earlier era questions are requests, not results.
    #[error("a result that is not complete cannot be sent in the earlier era")]
    NotComplete,
}

/// Takes out of a modern result what the earlier era does not know (*2026-07-28, Key Changes*).
///
/// Dropped are `resultType`, `ttlMs` and `cacheScope`; in `_meta` the server's name and the subscription's id, and `_meta` itself when
/// nothing else was in it; a `structuredContent` that is no object, and in a list of tools an `outputSchema` whose root is not
/// `type: "object"`, because the earlier era has neither. Everything else is kept in its order, each value byte for byte. A result with
/// nothing to drop is returned as it is.
///
/// ```
/// use mrtr_protocol::earlier::result;
/// let modern = r#"{"resultType":"complete","content":[],"_meta":{"io.modelcontextprotocol/serverInfo":{"name":"s","version":"1"}}}"#;
/// assert_eq!(result(modern)?, r#"{"content":[]}"#);
/// # Ok::<(), mrtr_protocol::earlier::EarlierResultError>(())
/// ```
///
/// # Errors
///
/// [`EarlierResultError`].
pub fn result(modern: &str) -> Result<Cow<'_, str>, EarlierResultError> {
    let members = members_of(modern).ok_or(EarlierResultError::NotAnObject)?;
    if let Some(kind) = members.get("resultType")
        && as_string(kind).as_deref() != Some("complete")
    {
        return Err(EarlierResultError::NotComplete);
    }
    Ok(rewritten(modern, &members, |name, value| match name {
        _ if MODERN.contains(&name) => Change::Drop,
        "_meta" => without_modern_keys(value),
        "structuredContent" if !is_object(value) => Change::Drop,
        "tools" => without_other_schemas(value),
        _ => Change::Keep,
    }))
}

/// What becomes of one member.
enum Change {
    Keep,
    Drop,
    Replace(String),
}

fn members_of(text: &str) -> Option<Members<'_>> {
    let raw: &RawValue = serde_json::from_str(text).ok()?;
    Members::parse(raw).ok()
}

/// The object with each member kept, dropped or replaced; its own text where all are kept.
fn rewritten<'t>(
    text: &'t str,
    members: &Members<'_>,
    change: impl Fn(&str, &RawValue) -> Change,
) -> Cow<'t, str> {
    let mut changed = false;
    let mut out = String::with_capacity(text.len());
    out.push('{');
    for (name, value) in members.iter() {
        let replaced;
        let value = match change(name, value) {
            Change::Keep => value.get(),
            Change::Drop => {
                changed = true;
                continue;
            }
            Change::Replace(new) => {
                changed = true;
                replaced = new;
                &replaced
            }
        };
        if out.len() > 1 {
            out.push(',');
        }
        // A string always serializes.
        out.push_str(&serde_json::to_string(name).unwrap_or_default());
        out.push(':');
        out.push_str(value);
    }
    out.push('}');
    if changed {
        Cow::Owned(out)
    } else {
        Cow::Borrowed(text)
    }
}

fn without_modern_keys(meta: &RawValue) -> Change {
    let Some(members) = members_of(meta.get()) else {
        return Change::Keep;
    };
    let is_modern = |name: &str| MODERN_META.contains(&name);
    if !members.is_empty() && members.iter().all(|(name, _)| is_modern(name)) {
        return Change::Drop;
    }
    of(rewritten(meta.get(), &members, |name, _| {
        if is_modern(name) {
            Change::Drop
        } else {
            Change::Keep
        }
    }))
}

fn without_other_schemas(tools: &RawValue) -> Change {
    let Ok(items) = serde_json::from_str::<Vec<&RawValue>>(tools.get()) else {
        return Change::Keep;
    };
    let items: Vec<Cow<'_, str>> = items.into_iter().map(without_other_schema).collect();
    if items.iter().all(|item| matches!(item, Cow::Borrowed(_))) {
        return Change::Keep;
    }
    Change::Replace(format!("[{}]", items.join(",")))
}

fn without_other_schema(tool: &RawValue) -> Cow<'_, str> {
    let Some(members) = members_of(tool.get()) else {
        return Cow::Borrowed(tool.get());
    };
    rewritten(tool.get(), &members, |name, value| {
        let other = name == "outputSchema"
            && members_of(value.get())
                .and_then(|schema| schema.get("type").and_then(as_string))
                .is_none_or(|kind| kind != "object");
        if other { Change::Drop } else { Change::Keep }
    })
}

fn of(text: Cow<'_, str>) -> Change {
    match text {
        Cow::Borrowed(_) => Change::Keep,
        Cow::Owned(new) => Change::Replace(new),
    }
}
