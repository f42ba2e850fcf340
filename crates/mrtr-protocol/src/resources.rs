//! Resources and templates of resources: the lists, a request for one, its result (*Resources*).
//!
//! What a resource holds is [`ResourceContents`], because results of tools hold it too.

use std::borrow::Cow;
use std::fmt;

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::annotations::Annotations;
use crate::content::ResourceContents;
use crate::discover::CacheScope;
use crate::icon::{self, Icon};
use crate::meta::ResultMeta;
use crate::object::{self, Members, RawObject, as_string};
use crate::tools::ParamsError;

/// A resource that can be read.
///
/// Everything in it is the server's word.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct Resource {
    /// Where it is: what `resources/read` takes.
    pub uri: String,
    /// The programmatic name.
    pub name: String,
    /// A name for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// What it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// The media type.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mime_type: Option<String>,
    /// In bytes, before any encoding.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub size: Option<u64>,
    /// Pictures.
    #[serde(
        default,
        skip_serializing_if = "Vec::is_empty",
        deserialize_with = "icon::list"
    )]
    pub icons: Vec<Icon>,
    /// Hints for display.
    #[serde(
        default,
        skip_serializing_if = "Option::is_none",
        deserialize_with = "object::optional"
    )]
    pub annotations: Option<Annotations>,
    /// `_meta`.
    #[serde(rename = "_meta", default, skip_serializing_if = "RawObject::is_empty")]
    pub meta: RawObject,
}

impl Resource {
    /// A resource with a URI and a name; the rest are public fields.
    pub fn new(uri: impl Into<String>, name: impl Into<String>) -> Self {
        Self {
            uri: uri.into(),
            name: name.into(),
            title: None,
            description: None,
            mime_type: None,
            size: None,
            icons: Vec::new(),
            annotations: None,
            meta: RawObject::new(),
        }
    }
}

/// A family of resources: a URI with variables in it.
///
/// The template is kept as text, in the syntax of RFC 6570; nothing here expands or matches it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct ResourceTemplate {
    /// The URI with its variables in braces.
    pub uri_template: String,
    /// The programmatic name.
    pub name: String,
    /// A name for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// What it is for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// The media type, where all of the family have the same.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mime_type: Option<String>,
    /// Pictures.
    #[serde(
        default,
        skip_serializing_if = "Vec::is_empty",
        deserialize_with = "icon::list"
    )]
    pub icons: Vec<Icon>,
    /// Hints for display.
    #[serde(
        default,
        skip_serializing_if = "Option::is_none",
        deserialize_with = "object::optional"
    )]
    pub annotations: Option<Annotations>,
    /// `_meta`.
    #[serde(rename = "_meta", default, skip_serializing_if = "RawObject::is_empty")]
    pub meta: RawObject,
}

impl ResourceTemplate {
    /// A template with its text and a name; the rest are public fields.
    pub fn new(uri_template: impl Into<String>, name: impl Into<String>) -> Self {
        Self {
            uri_template: uri_template.into(),
            name: name.into(),
            title: None,
            description: None,
            mime_type: None,
            icons: Vec::new(),
            annotations: None,
            meta: RawObject::new(),
        }
    }
}

/// Result of `resources/list`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "resultType", rename = "complete", rename_all = "camelCase")]
pub struct ListResourcesResult {
    /// The resources of this page.
    #[serde(deserialize_with = "object::list")]
    pub resources: Vec<Resource>,
    /// Where the next page begins; `None` on the last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_cursor: Option<String>,
    /// How long the list may be cached, in milliseconds. Absent or negative reads as 0.
    #[serde(default, deserialize_with = "crate::discover::ttl_ms")]
    pub ttl_ms: u64,
    /// By whom it may be cached. Absent reads as private.
    #[serde(default)]
    pub cache_scope: CacheScope,
    /// `_meta`.
    #[serde(
        rename = "_meta",
        default,
        skip_serializing_if = "ResultMeta::is_empty"
    )]
    pub meta: ResultMeta,
}

/// Result of `resources/templates/list`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "resultType", rename = "complete", rename_all = "camelCase")]
pub struct ListResourceTemplatesResult {
    /// The templates of this page.
    #[serde(deserialize_with = "object::list")]
    pub resource_templates: Vec<ResourceTemplate>,
    /// Where the next page begins; `None` on the last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_cursor: Option<String>,
    /// How long the list may be cached, in milliseconds. Absent or negative reads as 0.
    #[serde(default, deserialize_with = "crate::discover::ttl_ms")]
    pub ttl_ms: u64,
    /// By whom it may be cached. Absent reads as private.
    #[serde(default)]
    pub cache_scope: CacheScope,
    /// `_meta`.
    #[serde(
        rename = "_meta",
        default,
        skip_serializing_if = "ResultMeta::is_empty"
    )]
    pub meta: ResultMeta,
}

/// Params of `resources/read`, borrowed and mostly raw.
///
/// `inputResponses` and `requestState` are whatever was sent, `null` and numbers included, so that they reach the code that must refuse
/// them.
///
/// Debug prints neither answers nor state.
#[derive(Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ReadResourceParams<'a> {
    /// The resource. Whatever a client wrote: servers validate it.
    pub uri: Cow<'a, str>,
    /// Answers to the questions of the round before.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub input_responses: Option<&'a RawValue>,
    /// The state of the round before: attacker-controlled.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub request_state: Option<&'a RawValue>,
    /// `_meta`. Read it with [`RequestMeta`](crate::RequestMeta).
    #[serde(rename = "_meta", skip_serializing_if = "Option::is_none")]
    pub meta: Option<&'a RawValue>,
}

impl<'a> ReadResourceParams<'a> {
    /// Reads the params of a request.
    ///
    /// # Errors
    ///
    /// [`ParamsError`] when the URI is absent or no string.
    pub fn of(params: &Members<'a>) -> Result<Self, ParamsError> {
        let uri = params.get("uri").ok_or(ParamsError::Missing("uri"))?;
        Ok(Self {
            uri: as_string(uri).ok_or(ParamsError::Mistyped("uri"))?,
            input_responses: params.get("inputResponses"),
            request_state: params.get("requestState"),
            meta: params.get("_meta"),
        })
    }
}

impl fmt::Debug for ReadResourceParams<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ReadResourceParams")
            .field("uri", &self.uri)
            .field("input_responses", &self.input_responses.is_some())
            .field("request_state", &self.request_state.is_some())
            .finish_non_exhaustive()
    }
}

/// Result of `resources/read` that completes it.
///
/// A result that took answers must not be cached, whatever it says: the answers are no part of a cache's key (*Caching*).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "resultType", rename = "complete", rename_all = "camelCase")]
#[non_exhaustive]
pub struct ReadResourceResult {
    /// The contents; several where a directory was read. Never empty for a resource that does not exist: that is an error.
    #[serde(deserialize_with = "object::list")]
    pub contents: Vec<ResourceContents>,
    /// How long it may be cached, in milliseconds. Absent or negative reads as 0.
    #[serde(default, deserialize_with = "crate::discover::ttl_ms")]
    pub ttl_ms: u64,
    /// By whom it may be cached. Absent reads as private.
    #[serde(default)]
    pub cache_scope: CacheScope,
    /// `_meta`.
    #[serde(
        rename = "_meta",
        default,
        skip_serializing_if = "ResultMeta::is_empty"
    )]
    pub meta: ResultMeta,
}

impl ReadResourceResult {
    /// A result with contents, private and stale at once.
    #[must_use]
    pub fn new(contents: Vec<ResourceContents>) -> Self {
        Self {
            contents,
            ttl_ms: 0,
            cache_scope: CacheScope::Private,
            meta: ResultMeta::default(),
        }
    }

    /// The texts, joined by newlines; bytes are left out.
    #[must_use]
    pub fn joined_text(&self) -> String {
        self.contents
            .iter()
            .filter_map(ResourceContents::as_text)
            .collect::<Vec<_>>()
            .join("\n")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::object::Object;

    #[test]
    fn params_let_nothing_slip() {
        let text = r#"{"uri":"note://1","inputResponses":[],"requestState":7,"_meta":{}}"#;
        let raw: Box<RawValue> = serde_json::from_str(text).unwrap();
        let params = ReadResourceParams::of(&Members::parse(&raw).unwrap()).unwrap();
        assert_eq!(serde_json::to_string(&params).unwrap(), text);
        assert!(!format!("{params:?}").contains('7'));
        for (bad, error) in [
            ("{}", ParamsError::Missing("uri")),
            (r#"{"name":"x"}"#, ParamsError::Missing("uri")),
            (r#"{"uri":null}"#, ParamsError::Mistyped("uri")),
            (r#"{"uri":["x"]}"#, ParamsError::Mistyped("uri")),
        ] {
            let raw: Box<RawValue> = serde_json::from_str(bad).unwrap();
            assert_eq!(
                ReadResourceParams::of(&Members::parse(&raw).unwrap()).unwrap_err(),
                error,
                "{bad}"
            );
        }
    }

    #[test]
    fn results_are_objects_all_the_way_down() {
        let read = |text: &str| serde_json::from_str::<Object<ReadResourceResult>>(text);
        let good = r#"{"contents":[{"uri":"note://1","text":"a"},{"uri":"note://2","blob":"AA=="},{"uri":"note://3","text":"b"}],"ttlMs":5}"#;
        let result = read(good).unwrap().0;
        assert_eq!(result.joined_text(), "a\nb");
        assert_eq!(
            (result.ttl_ms, result.cache_scope),
            (5, CacheScope::Private)
        );
        for (from, to) in [
            (
                r#"{"uri":"note://1","text":"a"}"#,
                r#"["note://1",null,"a",null]"#,
            ),
            (r#""text":"a""#, r#""text":"a","blob":"AA==""#),
            (r#""text":"a""#, r#""mimeType":"text/plain""#),
            (r#""ttlMs":5"#, r#""ttlMs":"5""#),
            (r#""ttlMs":5"#, r#""cacheScope":"Public""#),
        ] {
            assert!(good.contains(from), "{from}");
            assert!(read(&good.replace(from, to)).is_err(), "{to}");
        }
    }

    #[test]
    fn lists_are_objects_all_the_way_down() {
        type Resources = Object<ListResourcesResult>;
        type Templates = Object<ListResourceTemplatesResult>;
        assert!(
            serde_json::from_str::<Resources>(r#"{"resources":[{"uri":"a:b","name":"n"}]}"#)
                .is_ok()
        );
        assert!(serde_json::from_str::<Resources>(r#"{"resources":[["a:b","n"]]}"#).is_err());
        assert!(serde_json::from_str::<Resources>(r#"{"resources":[{"uri":"a:b"}]}"#).is_err());
        assert!(
            serde_json::from_str::<Templates>(
                r#"{"resourceTemplates":[{"uriTemplate":"a:{b}","name":"n"}]}"#
            )
            .is_ok()
        );
        assert!(
            serde_json::from_str::<Templates>(r#"{"resourceTemplates":[["a:{b}","n"]]}"#).is_err()
        );
    }
}
