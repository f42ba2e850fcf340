//! Content of results (*Tools, Tool Result*).

use serde::de::{self, Deserializer};
use serde::ser::Serializer;
use serde::{Deserialize, Serialize};

use crate::annotations::Annotations;
use crate::icon::{self, Icon};
use crate::object::{self, JsonObject, RawObject, as_string};
use crate::word::words;

/// Who speaks in a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Role {
    /// The person, or whoever speaks for them.
    User,
    /// The model.
    Assistant,
}

words!(Role {
    User = "user",
    Assistant = "assistant",
});

/// One piece of content. A type that this revision does not define is kept whole.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum ContentBlock {
    /// `text`.
    Text(TextContent),
    /// `image`.
    Image(ImageContent),
    /// `audio`.
    Audio(AudioContent),
    /// `resource_link`: a resource to be read elsewhere.
    ResourceLink(ResourceLink),
    /// `resource`: a resource in place.
    Resource(EmbeddedResource),
    /// Anything else with a `type`, verbatim.
    Other(JsonObject),
}

impl ContentBlock {
    /// Plain text.
    pub fn text(text: impl Into<String>) -> Self {
        Self::Text(TextContent {
            text: text.into(),
            annotations: None,
            meta: RawObject::new(),
        })
    }

    /// A picture: its bytes, which are in base64 already, and their media type.
    pub fn image(base64: impl Into<String>, mime_type: impl Into<String>) -> Self {
        Self::Image(ImageContent {
            data: base64.into(),
            mime_type: mime_type.into(),
            annotations: None,
            meta: RawObject::new(),
        })
    }

    /// Sound: its bytes, which are in base64 already, and their media type.
    pub fn audio(base64: impl Into<String>, mime_type: impl Into<String>) -> Self {
        Self::Audio(AudioContent {
            data: base64.into(),
            mime_type: mime_type.into(),
            annotations: None,
            meta: RawObject::new(),
        })
    }

    /// A resource in place.
    #[must_use]
    pub fn resource(resource: ResourceContents) -> Self {
        Self::Resource(EmbeddedResource {
            resource,
            annotations: None,
            meta: RawObject::new(),
        })
    }

    /// A resource to be read elsewhere.
    #[must_use]
    pub fn link(link: ResourceLink) -> Self {
        Self::ResourceLink(link)
    }

    /// With hints for display and use. A block of another type is left as it is.
    ///
    /// ```
    /// use mrtr_protocol::{Annotations, ContentBlock, Role};
    /// let hints = Annotations::new().with_audience([Role::User]).with_priority(0.9);
    /// let block = ContentBlock::text("For people.").with_annotations(hints);
    /// # assert!(serde_json::to_string(&block)?.contains("priority"));
    /// # Ok::<(), serde_json::Error>(())
    /// ```
    #[must_use]
    pub fn with_annotations(mut self, annotations: Annotations) -> Self {
        let place = match &mut self {
            Self::Text(content) => &mut content.annotations,
            Self::Image(content) => &mut content.annotations,
            Self::Audio(content) => &mut content.annotations,
            Self::ResourceLink(content) => &mut content.annotations,
            Self::Resource(content) => &mut content.annotations,
            Self::Other(_) => return self,
        };
        *place = Some(annotations);
        self
    }

    /// The text of a text block.
    #[must_use]
    pub fn as_text(&self) -> Option<&str> {
        match self {
            Self::Text(content) => Some(&content.text),
            _ => None,
        }
    }
}

impl Serialize for ContentBlock {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Text(content) => content.serialize(serializer),
            Self::Image(content) => content.serialize(serializer),
            Self::Audio(content) => content.serialize(serializer),
            Self::ResourceLink(content) => content.serialize(serializer),
            Self::Resource(content) => content.serialize(serializer),
            Self::Other(content) => content.serialize(serializer),
        }
    }
}

impl<'de> Deserialize<'de> for ContentBlock {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let block = JsonObject::deserialize(deserializer)?;
        let kind = block
            .members()
            .map_err(de::Error::custom)?
            .get("type")
            .and_then(as_string)
            .map(String::from);
        let read = match kind.as_deref() {
            Some("text") => block.read().map(Self::Text),
            Some("image") => block.read().map(Self::Image),
            Some("audio") => block.read().map(Self::Audio),
            Some("resource_link") => block.read().map(Self::ResourceLink),
            Some("resource") => block.read().map(Self::Resource),
            Some(_) => return Ok(Self::Other(block)),
            None => return Err(de::Error::custom("content without a `type`")),
        };
        read.map_err(de::Error::custom)
    }
}

/// Text.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename = "text")]
pub struct TextContent {
    /// The text.
    pub text: String,
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

/// A picture.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename = "image", rename_all = "camelCase")]
pub struct ImageContent {
    /// The bytes in base64, not decoded here.
    pub data: String,
    /// The media type.
    pub mime_type: String,
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

/// Sound.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename = "audio", rename_all = "camelCase")]
pub struct AudioContent {
    /// The bytes in base64, not decoded here.
    pub data: String,
    /// The media type.
    pub mime_type: String,
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

/// A resource to be read elsewhere.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename = "resource_link", rename_all = "camelCase")]
pub struct ResourceLink {
    /// Where it is.
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

impl ResourceLink {
    /// A link to a URI, with a name; the rest are public fields.
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

/// A resource in place.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename = "resource")]
pub struct EmbeddedResource {
    /// Text or bytes.
    pub resource: ResourceContents,
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

/// What a resource holds. One of text and bytes; both, or neither, is an error.
#[derive(Debug, Clone, PartialEq)]
pub struct ResourceContents {
    /// Where it comes from.
    pub uri: String,
    /// The media type.
    pub mime_type: Option<String>,
    /// The body.
    pub body: ResourceBody,
    /// `_meta`.
    pub meta: RawObject,
}

impl ResourceContents {
    /// Text; [`with_mime_type`](Self::with_mime_type) says of which media type, if it matters.
    pub fn text(uri: impl Into<String>, text: impl Into<String>) -> Self {
        Self::with_body(uri, ResourceBody::Text(text.into()))
    }

    /// Bytes that are in base64 already.
    pub fn blob(uri: impl Into<String>, base64: impl Into<String>) -> Self {
        Self::with_body(uri, ResourceBody::Blob(base64.into()))
    }

    /// Says of which media type it is.
    #[must_use]
    pub fn with_mime_type(mut self, mime_type: impl Into<String>) -> Self {
        self.mime_type = Some(mime_type.into());
        self
    }

    fn with_body(uri: impl Into<String>, body: ResourceBody) -> Self {
        Self {
            uri: uri.into(),
            mime_type: None,
            body,
            meta: RawObject::new(),
        }
    }

    /// The text, if it is text.
    #[must_use]
    pub fn as_text(&self) -> Option<&str> {
        match &self.body {
            ResourceBody::Text(text) => Some(text),
            ResourceBody::Blob(_) => None,
        }
    }
}

/// Text or bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ResourceBody {
    /// `text`.
    Text(String),
    /// `blob`: base64, not decoded here.
    Blob(String),
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct ResourceWire {
    uri: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    mime_type: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    text: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    blob: Option<String>,
    #[serde(rename = "_meta", default, skip_serializing_if = "RawObject::is_empty")]
    meta: RawObject,
}

impl Serialize for ResourceContents {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let (text, blob) = match &self.body {
            ResourceBody::Text(text) => (Some(text.clone()), None),
            ResourceBody::Blob(blob) => (None, Some(blob.clone())),
        };
        ResourceWire {
            uri: self.uri.clone(),
            mime_type: self.mime_type.clone(),
            text,
            blob,
            meta: self.meta.clone(),
        }
        .serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for ResourceContents {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let ResourceWire {
            uri,
            mime_type,
            text,
            blob,
            meta,
        } = object::required(deserializer)?;
        let body = match (text, blob) {
            (Some(text), None) => ResourceBody::Text(text),
            (None, Some(blob)) => ResourceBody::Blob(blob),
            _ => {
                return Err(de::Error::custom(
                    "a resource holds either `text` or `blob`",
                ));
            }
        };
        Ok(Self {
            uri,
            mime_type,
            body,
            meta,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_type_goes_both_ways() {
        for text in [
            r#"{"type":"text","text":"hi"}"#,
            r#"{"type":"image","data":"AA==","mimeType":"image/png","annotations":{"audience":["user"],"priority":0.9}}"#,
            r#"{"type":"audio","data":"AA==","mimeType":"audio/wav","_meta":{"x/y":1}}"#,
            r#"{"type":"resource_link","uri":"file:///a","name":"a","size":5}"#,
            r#"{"type":"resource","resource":{"uri":"file:///a","mimeType":"text/plain","text":"x"}}"#,
            r#"{"type":"resource","resource":{"uri":"file:///a","blob":"AA=="}}"#,
            r#"{"type":"hologram","beams": 7}"#,
        ] {
            let block: ContentBlock = serde_json::from_str(text).unwrap();
            assert_eq!(serde_json::to_string(&block).unwrap(), text);
        }
        assert!(matches!(
            serde_json::from_str(r#"{"type":"hologram"}"#),
            Ok(ContentBlock::Other(_))
        ));
    }

    #[test]
    fn what_is_made_is_what_is_read() {
        let contents = ResourceContents::text("file:///a", "x").with_mime_type("text/plain");
        for (block, text) in [
            (
                ContentBlock::image("AA==", "image/png"),
                r#"{"type":"image","data":"AA==","mimeType":"image/png"}"#,
            ),
            (
                ContentBlock::audio("AA==", "audio/wav"),
                r#"{"type":"audio","data":"AA==","mimeType":"audio/wav"}"#,
            ),
            (
                ContentBlock::resource(contents),
                r#"{"type":"resource","resource":{"uri":"file:///a","mimeType":"text/plain","text":"x"}}"#,
            ),
        ] {
            assert_eq!(serde_json::to_string(&block).unwrap(), text);
            assert_eq!(serde_json::from_str::<ContentBlock>(text).unwrap(), block);
        }
    }

    #[test]
    fn refuses_what_is_no_content() {
        for bad in [
            r#"["text","hi"]"#,
            r#"{"text":"hi"}"#,
            r#"{"type":1,"text":"hi"}"#,
            r#"{"type":"text"}"#,
            r#"{"type":"text","text":"hi","annotations":[["user"]]}"#,
            r#"{"type":"text","text":"hi","_meta":[]}"#,
            r#"{"type":"resource","resource":["file:///a",null,"x"]}"#,
            r#"{"type":"resource","resource":{"uri":"a"}}"#,
            r#"{"type":"resource","resource":{"uri":"a","text":"x","blob":"AA=="}}"#,
        ] {
            assert!(serde_json::from_str::<ContentBlock>(bad).is_err(), "{bad}");
        }
    }
}
