//! Pictures for user interfaces (*Overview, `icons`*).

use serde::{Deserialize, Serialize};

use crate::word::{self, words};

/// A picture for a user interface.
///
/// Untrusted: the specification tells clients to take `https:` and `data:` only, without credentials, and never to follow a redirect to
/// another origin. Nothing here looks at the source.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct Icon {
    /// A URL or `data:` URI.
    pub src: String,
    /// The media type, if the source's own is missing or too general.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mime_type: Option<String>,
    /// Sizes such as `48x48`, or `any`. Empty: fit for any size.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub sizes: Vec<String>,
    /// The background that it is made for. `None`: any.
    #[serde(
        default,
        skip_serializing_if = "Option::is_none",
        deserialize_with = "word::known"
    )]
    pub theme: Option<IconTheme>,
}

impl Icon {
    /// A picture from an `https:` URL or a `data:` URI; the rest are public fields.
    pub fn new(src: impl Into<String>) -> Self {
        Self {
            src: src.into(),
            mime_type: None,
            sizes: Vec::new(),
            theme: None,
        }
    }
}

/// The background that an icon is made for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum IconTheme {
    /// A light one.
    Light,
    /// A dark one.
    Dark,
}

words!(IconTheme {
    Light = "light",
    Dark = "dark",
});

#[cfg(test)]
mod tests {
    use super::*;
    use crate::object::Object;

    #[test]
    fn icons_go_both_ways() {
        let read = |text: &str| serde_json::from_str::<Object<Icon>>(text).map(|Object(icon)| icon);
        let good = r#"{"src":"https://a.example/i.png","mimeType":"image/png","sizes":["48x48","any"],"theme":"dark"}"#;
        let icon = read(good).unwrap();
        assert_eq!(icon.theme, Some(IconTheme::Dark));
        assert_eq!(serde_json::to_string(&icon).unwrap(), good);
        let plain = Icon::new("https://a.example/i.png");
        assert_eq!(
            serde_json::to_string(&plain).unwrap(),
            r#"{"src":"https://a.example/i.png"}"#
        );
        // Only displayed: what is not known is as good as absent.
        for theme in [r#""sepia""#, "null"] {
            let read = read(&good.replace(r#""dark""#, theme)).unwrap();
            assert_eq!(read.theme, None, "{theme}");
        }
        for (from, to) in [
            (r#""https://a.example/i.png""#, "null"),
            (r#"["48x48","any"]"#, r#"[48]"#),
            (r#""dark""#, "1"),
        ] {
            assert!(good.contains(from), "{from}");
            assert!(read(&good.replace(from, to)).is_err(), "{to}");
        }
    }
}
