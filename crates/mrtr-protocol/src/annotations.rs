//! Hints about content and resources (*Resources, Annotations*). Those of tools are [`ToolAnnotations`](crate::ToolAnnotations).

use serde::{Deserialize, Serialize};

use crate::content::Role;
use crate::word;

/// Hints for display and use. They are the server's word, and oblige nobody.
///
/// Not guaranteed: that the priority lies between 0 and 1, or that the time is one.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct Annotations {
    /// For whom it is. Empty: nothing is said.
    #[serde(
        default,
        skip_serializing_if = "Vec::is_empty",
        deserialize_with = "word::known_list"
    )]
    pub audience: Vec<Role>,
    /// From 0, optional, to 1, required.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub priority: Option<f64>,
    /// When it changed, as ISO 8601 writes it: `2025-01-12T15:00:58Z`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_modified: Option<String>,
}

impl Annotations {
    /// No hints; they are public fields.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Says for whom it is.
    #[must_use]
    pub fn with_audience(mut self, audience: impl IntoIterator<Item = Role>) -> Self {
        self.audience = audience.into_iter().collect();
        self
    }

    /// Says how important it is: from 0, optional, to 1, required.
    #[must_use]
    pub fn with_priority(mut self, priority: f64) -> Self {
        self.priority = Some(priority);
        self
    }

    /// Says when it changed, as ISO 8601 writes it.
    #[must_use]
    pub fn with_last_modified(mut self, time: impl Into<String>) -> Self {
        self.last_modified = Some(time.into());
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::object::Object;

    #[test]
    fn hints_go_both_ways() {
        let read = |text: &str| {
            serde_json::from_str::<Object<Annotations>>(text).map(|Object(hints)| hints)
        };
        let good = r#"{"audience":["user","assistant"],"priority":0.5,"lastModified":"2025-01-12T15:00:58Z"}"#;
        let hints = read(good).unwrap();
        assert_eq!(hints.audience, [Role::User, Role::Assistant]);
        assert_eq!(serde_json::to_string(&hints).unwrap(), good);
        assert_eq!(serde_json::to_string(&Annotations::new()).unwrap(), "{}");
        let newer = read(&good.replace("assistant", "auditor")).unwrap();
        assert_eq!(newer.audience, [Role::User]);
        assert_eq!(
            read(r#"{"audience":null,"priority":null}"#).unwrap(),
            Annotations::new()
        );
        for bad in [
            r#"{"audience":"user"}"#,
            r#"{"audience":[1]}"#,
            r#"{"priority":"1"}"#,
            "[]",
        ] {
            assert!(read(bad).is_err(), "{bad}");
        }
    }
}
