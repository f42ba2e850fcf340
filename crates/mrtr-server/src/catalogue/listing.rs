//! What is published beside names and schemas: icons, hints and `_meta`, checked before anybody sees them.

use mrtr_protocol::meta::{is_key, is_reserved};
use mrtr_protocol::{Annotations, Icon, RawObject};
use serde_json::json;

use crate::schema;

/// Icons are pictures on the web or in place (specification, `basic/index`, "`icons`").
pub(crate) fn check_icons(icons: &[Icon]) -> Result<(), String> {
    for icon in icons {
        let scheme = icon
            .src
            .split_once(':')
            .map(|(scheme, _)| scheme.to_ascii_lowercase());
        if !matches!(scheme.as_deref(), Some("https" | "http" | "data")) {
            return Err(format!(
                "the icon `{}` is neither an `https:` nor a `data:` URI, and no client would show it",
                shortened(&icon.src)
            ));
        }
        if let Some(size) = icon.sizes.iter().find(|size| !is_size(size)) {
            return Err(format!(
                "the icon size `{}` is neither like `48x48` nor `any`",
                shortened(size)
            ));
        }
    }
    Ok(())
}

/// A `data:` URI can be long, and one line of a log is enough.
fn shortened(text: &str) -> String {
    text.chars().take(64).collect()
}

fn is_size(size: &str) -> bool {
    let is_number = |part: &str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
    size == "any"
        || size
            .split_once('x')
            .is_some_and(|(width, height)| is_number(width) && is_number(height))
}

/// Hints hold what they are said to hold (specification, `server/resources`, "Annotations").
pub(super) fn check_annotations(annotations: Option<&Annotations>) -> Result<(), String> {
    let Some(annotations) = annotations else {
        return Ok(());
    };
    if let Some(priority) = annotations.priority
        && !(0.0..=1.0).contains(&priority)
    {
        return Err(format!("the priority {priority} is not from 0 to 1"));
    }
    if let Some(time) = &annotations.last_modified {
        let is_time = schema::compile(&json!({
            "anyOf": [{ "format": "date-time" }, { "format": "date" }],
        }))?;
        if !is_time.is_valid(&json!(time)) {
            return Err(format!(
                "`{}` is no time as ISO 8601 writes it, such as `2025-01-12T15:00:58Z`",
                shortened(time)
            ));
        }
    }
    Ok(())
}

/// Keys have the form that the specification gives them, and none is one that it gives a meaning to.
pub(super) fn check_meta(meta: &RawObject) -> Result<(), String> {
    for (key, _) in meta.iter() {
        if !is_key(key) {
            return Err(format!(
                "`{}` is no key of `_meta`: name it like `com.example/colour`",
                shortened(key)
            ));
        }
        if is_reserved(key) {
            return Err(format!(
                "the key `{}` of `_meta` is reserved by the specification",
                shortened(key)
            ));
        }
    }
    Ok(())
}
