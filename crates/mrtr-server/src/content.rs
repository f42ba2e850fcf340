//! What a handler came to, looked at before it is sent: whoever reads it must be able to.
//!
//! Bytes are base64 with a media type beside them, and what is embedded says where it is from (specification,
//! `server/prompts`, "Image Content" to "Embedded Resources"; `server/resources`, "Security Considerations").

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use mrtr_protocol::content::{ContentBlock, ResourceBody, ResourceContents};
use thiserror::Error;

use crate::registered::Content;
use crate::uri;

/// Why content is not sent. The log reads it; the caller is told that the handler failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub(crate) enum ContentFault {
    #[error("{0} is not base64")]
    Base64(&'static str),
    #[error("{0} has no media type such as `image/png`")]
    MediaType(&'static str),
    #[error("{0} has no URI (RFC 3986)")]
    Uri(&'static str),
}

/// Checks all of what a handler returned.
pub(crate) fn check(content: &Content) -> Result<(), ContentFault> {
    match content {
        Content::Tool(result) => result.content.iter().try_for_each(block),
        Content::Prompt(result) => result
            .messages
            .iter()
            .try_for_each(|message| block(&message.content)),
        Content::Resource(result) => result.contents.iter().try_for_each(resource),
    }
}

fn block(block: &ContentBlock) -> Result<(), ContentFault> {
    match block {
        ContentBlock::Image(image) => media("an image", &image.data, &image.mime_type),
        ContentBlock::Audio(audio) => media("a sound", &audio.data, &audio.mime_type),
        ContentBlock::Resource(embedded) => resource(&embedded.resource),
        ContentBlock::ResourceLink(link) if !uri::is_uri(&link.uri) => {
            Err(ContentFault::Uri("a link"))
        }
        _ => Ok(()),
    }
}

fn media(what: &'static str, data: &str, mime_type: &str) -> Result<(), ContentFault> {
    if !is_media_type(mime_type) {
        return Err(ContentFault::MediaType(what));
    }
    base64(what, data)
}

fn resource(contents: &ResourceContents) -> Result<(), ContentFault> {
    const WHAT: &str = "a resource";
    if !uri::is_uri(&contents.uri) {
        return Err(ContentFault::Uri(WHAT));
    }
    if contents
        .mime_type
        .as_deref()
        .is_some_and(|media| !is_media_type(media))
    {
        return Err(ContentFault::MediaType(WHAT));
    }
    match &contents.body {
        ResourceBody::Text(_) => Ok(()),
        ResourceBody::Blob(blob) => base64(WHAT, blob),
    }
}

/// Decodes piece by piece, so that a large picture is not held twice.
fn base64(what: &'static str, text: &str) -> Result<(), ContentFault> {
    const PIECE: usize = 4 * 1024;
    let mut decoded = [0; PIECE / 4 * 3];
    let last = text.len().saturating_sub(1) / PIECE;
    let fits = text
        .as_bytes()
        .chunks(PIECE)
        .enumerate()
        .all(|(at, piece)| {
            // Padding is the end's alone.
            (at == last || !piece.contains(&b'='))
                && STANDARD.decode_slice(piece, &mut decoded).is_ok()
        });
    match fits {
        true => Ok(()),
        false => Err(ContentFault::Base64(what)),
    }
}

fn is_media_type(text: &str) -> bool {
    // The parser takes `image/` for one.
    let parsed = text.parse::<mime::Mime>();
    parsed.is_ok_and(|media| {
        !media.type_().as_str().is_empty() && !media.subtype().as_str().is_empty()
    })
}

#[cfg(test)]
mod tests {
    use mrtr_protocol::GetPromptResult;
    use mrtr_protocol::content::Role;
    use mrtr_protocol::prompts::PromptMessage;

    use super::*;

    fn checked(block: ContentBlock) -> Result<(), ContentFault> {
        let message = PromptMessage {
            content: block,
            ..PromptMessage::user("x")
        };
        assert_eq!(message.role, Role::User);
        check(&Content::Prompt(GetPromptResult::new(vec![
            PromptMessage::user("a"),
            message,
        ])))
    }

    #[test]
    fn pictures_and_sounds_are_base64_with_a_media_type() {
        let large = STANDARD.encode(vec![7; 100_000]);
        for good in ["", "AA==", "AAA=", "AAAA", &large] {
            assert_eq!(checked(ContentBlock::image(good, "image/png")), Ok(()));
            assert_eq!(checked(ContentBlock::audio(good, "audio/wav")), Ok(()));
        }
        let in_the_middle = format!("{}AA=={}", "A".repeat(4092), "A".repeat(8));
        for bad in [
            "AA",
            "A",
            "AB==",
            "A A=",
            "AA==\n",
            "AA--",
            "\u{e9}AAA",
            &in_the_middle,
        ] {
            let fault = Err(ContentFault::Base64("an image"));
            assert_eq!(
                checked(ContentBlock::image(bad, "image/png")),
                fault,
                "{bad:.20}"
            );
        }
        for bad in ["", "png", "image/", "/png", "image png"] {
            let fault = Err(ContentFault::MediaType("a sound"));
            assert_eq!(checked(ContentBlock::audio("AA==", bad)), fault, "{bad}");
        }
    }

    #[test]
    fn what_is_embedded_says_where_it_is_from() {
        let embedded = |resource: ResourceContents| checked(ContentBlock::resource(resource));
        assert_eq!(embedded(ResourceContents::text("note://a", "x")), Ok(()));
        assert_eq!(embedded(ResourceContents::blob("note://a", "AA==")), Ok(()));
        let fault = Err(ContentFault::Uri("a resource"));
        assert_eq!(embedded(ResourceContents::text("a", "x")), fault);
        let fault = Err(ContentFault::Base64("a resource"));
        assert_eq!(embedded(ResourceContents::blob("note://a", "\u{0}")), fault);
        let typed = ResourceContents::text("note://a", "x").with_mime_type("text");
        assert_eq!(embedded(typed), Err(ContentFault::MediaType("a resource")));
    }
}
