//! What a client says it can do, with every request (*Overview, Per-request protocol fields*).

use serde::de::{self, Deserializer};
use serde::ser::{SerializeMap, Serializer};
use serde::{Deserialize, Serialize};

use crate::kind::{Kind, KindSet};
use crate::object::{JsonObject, RawObject};

/// `io.modelcontextprotocol/clientCapabilities`.
///
/// Every known member must be an object: `null`, arrays and booleans are errors, never read as absent. Unknown members are kept.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct ClientCapabilities {
    /// Questions for a person.
    pub elicitation: Option<ElicitationCapability>,
    /// Questions for a model. Deprecated since 2026-07-28: a new server calls a model provider itself.
    pub sampling: Option<SamplingCapability>,
    /// The client's folders. Deprecated since 2026-07-28: a new server takes folders as parameters, resource URIs or configuration.
    pub roots: Option<RootsCapability>,
    /// Every other member, `extensions` and `experimental` among them.
    pub others: RawObject,
}

impl ClientCapabilities {
    /// The kinds of question that this client declares.
    #[must_use]
    pub fn kinds(&self) -> KindSet {
        let mut kinds = KindSet::new();
        if let Some(elicitation) = &self.elicitation {
            if elicitation.declares_form() {
                kinds = kinds.with(Kind::Form);
            }
            if elicitation.url.is_some() {
                kinds = kinds.with(Kind::Url);
            }
        }
        if let Some(sampling) = &self.sampling {
            kinds = kinds.with(Kind::Sampling);
            if sampling.tools.is_some() {
                kinds = kinds.with(Kind::SamplingWithTools);
            }
        }
        if self.roots.is_some() {
            kinds = kinds.with(Kind::Roots);
        }
        kinds
    }

    /// What of `needed` this client did not declare; `None` when nothing is missing.
    #[must_use]
    pub fn missing(&self, needed: KindSet) -> Option<KindSet> {
        let missing = needed.minus(self.kinds());
        (!missing.is_empty()).then_some(missing)
    }
}

/// `elicitation`: `{}` means forms only, for the sake of older clients (*Elicitation, Capabilities*).
#[derive(Debug, Clone, PartialEq, Default)]
pub struct ElicitationCapability {
    /// Forms, spelt out.
    pub form: Option<JsonObject>,
    /// URLs.
    pub url: Option<JsonObject>,
    /// Every other member.
    pub others: RawObject,
}

impl ElicitationCapability {
    /// Whether forms are declared, by name or by the empty object.
    #[must_use]
    pub fn declares_form(&self) -> bool {
        self.form.is_some() || (self.url.is_none() && self.others.is_empty())
    }
}

/// `sampling`. Deprecated since 2026-07-28: a new server calls a model provider itself.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct SamplingCapability {
    /// Requests with `tools` and `toolChoice`. Deprecated since 2026-07-28: a new server calls a model provider itself.
    pub tools: Option<JsonObject>,
    /// Requests with `includeContext`. Deprecated since 2026-07-28: a new server calls a model provider itself.
    pub context: Option<JsonObject>,
    /// Every other member.
    pub others: RawObject,
}

/// `roots`. Deprecated since 2026-07-28: a new server takes folders as parameters, resource URIs or configuration.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct RootsCapability {
    /// Every member: revision 2026-07-28 defines none.
    pub others: RawObject,
}

impl RootsCapability {
    /// Whether the client announces changes of its roots: the earlier era only. Deprecated since 2026-07-28: take folders as parameters,
    /// resource URIs or configuration.
    #[must_use]
    pub fn list_changed(&self) -> bool {
        self.others.get_as("listChanged") == Some(true)
    }

    /// The same with or without that announcement. Deprecated since 2026-07-28: take folders as parameters, resource URIs or
    /// configuration.
    #[must_use]
    pub fn announcing_changes(mut self, announced: bool) -> Self {
        // A boolean always serializes.
        let _ = self.others.insert("listChanged", &announced);
        self
    }
}

/// Takes a known member out of `from`; anything but an object (of this type) is an error.
fn take<T: for<'de> Deserialize<'de>, E: de::Error>(
    from: &mut RawObject,
    name: &str,
) -> Result<Option<T>, E> {
    let Some(raw) = from.remove(name) else {
        return Ok(None);
    };
    // `T` is one of this module's types or `JsonObject`; none of them reads anything but an object.
    serde_json::from_str(raw.get())
        .map(Some)
        .map_err(|_| E::custom(format_args!("`{name}` must be an object")))
}

macro_rules! capability_object {
    ($name:ident { $($field:ident),* }) => {
        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                #[allow(unused_mut, reason = "`roots` has no known member")]
                let mut others = RawObject::deserialize(deserializer)?;
                Ok(Self { $($field: take(&mut others, stringify!($field))?,)* others })
            }
        }

        impl Serialize for $name {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                let mut map = serializer.serialize_map(None)?;
                $(if let Some($field) = &self.$field {
                    map.serialize_entry(stringify!($field), $field)?;
                })*
                for (name, value) in self.others.iter() {
                    map.serialize_entry(name, value)?;
                }
                map.end()
            }
        }
    };
}

capability_object!(ClientCapabilities {
    elicitation,
    sampling,
    roots
});
capability_object!(ElicitationCapability { form, url });
capability_object!(SamplingCapability { tools, context });
capability_object!(RootsCapability {});

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<ClientCapabilities, serde_json::Error> {
        serde_json::from_str(text)
    }

    #[test]
    fn kinds_follow_the_declaration() {
        use Kind::*;
        for (text, kinds) in [
            ("{}", vec![]),
            (r#"{"elicitation":{}}"#, vec![Form]),
            (r#"{"elicitation":{"form":{}}}"#, vec![Form]),
            (r#"{"elicitation":{"url":{}}}"#, vec![Url]),
            (r#"{"elicitation":{"form":{},"url":{}}}"#, vec![Form, Url]),
            (r#"{"elicitation":{"voice":{}}}"#, vec![]),
            (r#"{"sampling":{}}"#, vec![Sampling]),
            (
                r#"{"sampling":{"tools":{}}}"#,
                vec![Sampling, SamplingWithTools],
            ),
            (r#"{"roots":{}}"#, vec![Roots]),
            (r#"{"Elicitation":{}}"#, vec![]),
        ] {
            assert_eq!(
                read(text).unwrap().kinds(),
                KindSet::from_iter(kinds),
                "{text}"
            );
        }
    }

    #[test]
    fn only_objects_declare_anything() {
        assert!(read(r#"{"elicitation":{"form":{}}}"#).is_ok());
        for bad in [
            "[]",
            "null",
            "true",
            r#"{"elicitation":null}"#,
            r#"{"elicitation":[]}"#,
            r#"{"elicitation":true}"#,
            r#"{"elicitation":{"form":null}}"#,
            r#"{"elicitation":{"form":[]}}"#,
            r#"{"elicitation":{"url":true}}"#,
            r#"{"sampling":null}"#,
            r#"{"sampling":{"tools":[]}}"#,
            r#"{"roots":[]}"#,
        ] {
            assert!(read(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn missing_is_what_was_not_declared() {
        let declared = read(r#"{"elicitation":{"url":{}}}"#).unwrap();
        assert_eq!(declared.missing(Kind::Url.into()), None);
        let missing = declared
            .missing(KindSet::from_iter([Kind::Form, Kind::Url]))
            .unwrap();
        assert_eq!(
            serde_json::to_string(&missing.to_capabilities()).unwrap(),
            r#"{"elicitation":{"form":{}}}"#
        );
    }

    #[test]
    fn every_set_survives_the_wire() {
        for bits in 0..32_u8 {
            let set: KindSet = Kind::ALL
                .into_iter()
                .filter(|kind| bits & (1 << *kind as u8) != 0)
                .collect();
            let declared = read(&serde_json::to_string(&set.to_capabilities()).unwrap()).unwrap();
            assert!(set.is_subset(declared.kinds()), "{set:?}");
            // Tool use implies sampling; nothing else implies anything.
            let extra = declared.kinds().minus(set);
            assert!(
                extra.is_empty() || extra == Kind::Sampling.into(),
                "{set:?} {extra:?}"
            );
        }
    }
}
