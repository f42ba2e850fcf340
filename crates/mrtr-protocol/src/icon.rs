//! Pictures for user interfaces (*Overview, `icons`*).

use serde::{Deserialize, Deserializer, Serialize};

use crate::object;
use crate::word::{self, words};

/// A picture for a user interface.
///
/// Untrusted. Where icons are read as a part of something else, those whose source is not [acceptable](Icon::is_acceptable) are left out.
/// Not guaranteed: that the picture is there, is one, or is harmless. Fetch it without credentials, follow no redirect to another origin,
/// bound its size, and look at its bytes before anything renders it.
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

    /// Says of which media type it is.
    #[must_use]
    pub fn with_mime_type(mut self, mime_type: impl Into<String>) -> Self {
        self.mime_type = Some(mime_type.into());
        self
    }

    /// Adds a size: `48x48`, or `any` for one that scales.
    #[must_use]
    pub fn with_size(mut self, size: impl Into<String>) -> Self {
        self.sizes.push(size.into());
        self
    }

    /// Says for which background it is made.
    #[must_use]
    pub fn with_theme(mut self, theme: IconTheme) -> Self {
        self.theme = Some(theme);
        self
    }

    /// Whether a client may take the source at all: an `https:` URL, or a `data:` URI of an image.
    ///
    /// ```
    /// use mrtr_protocol::icon::Icon;
    /// assert!(Icon::new("https://a.example/i.png").is_acceptable());
    /// assert!(!Icon::new("javascript:alert(1)").is_acceptable());
    /// ```
    #[must_use]
    pub fn is_acceptable(&self) -> bool {
        let begins = |with: &str| {
            self.src
                .get(..with.len())
                .is_some_and(|begin| begin.eq_ignore_ascii_case(with))
        };
        begins("https://") || begins("data:image/")
    }
}

/// For `#[serde(deserialize_with)]`: the icons that are acceptable. One that is not costs its tool nothing but the picture.
pub(crate) fn list<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<Icon>, D::Error> {
    let mut icons: Vec<Icon> = object::list(deserializer)?;
    icons.retain(Icon::is_acceptable);
    Ok(icons)
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

    #[test]
    fn icons_of_other_schemes_are_left_out() {
        #[derive(Deserialize)]
        struct Shown {
            #[serde(deserialize_with = "list")]
            icons: Vec<Icon>,
        }
        let shown = |src: &str| {
            let text =
                serde_json::json!({"icons": [{"src": src}, {"src": "https://a.example/i.png"}]});
            serde_json::from_value::<Shown>(text).unwrap().icons.len()
        };
        for good in [
            "https://a.example/i.svg",
            "HTTPS://a.example/i.svg",
            "data:image/png;base64,AA==",
        ] {
            assert_eq!(shown(good), 2, "{good}");
        }
        for bad in [
            "javascript:alert(1)",
            "file:///etc/passwd",
            "ftp://a.example/i.png",
            "ws://a.example",
            "http://a.example/i.png",
            "slack://open",
            "data:text/html,<script>",
            "//a.example/i.png",
            "https:",
            " https://a.example/i.png",
            "",
        ] {
            assert_eq!(shown(bad), 1, "{bad}");
        }
    }
}
