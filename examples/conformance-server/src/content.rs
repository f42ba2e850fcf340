//! Tools that return content of each type.

use mrtr_server::{ContentBlock, ResourceContents, ServerBuilder, ToolError, ToolResult, tool};

/// One red pixel.
pub(crate) const PNG: &str = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8DwHwAFBQIAX8jx0gAAAABJRU5ErkJggg==";

/// A second's hundredth of silence: 8 kHz, 8 bits, one channel, and no samples.
const WAV: &str = "UklGRiQAAABXQVZFZm10IBAAAAABAAEAQB8AAEAfAAABAAgAZGF0YQAAAAA=";

pub(crate) fn add(server: ServerBuilder) -> ServerBuilder {
    server
        .tool(tool("test_simple_text", simple_text).description("Returns a text."))
        .tool(tool("test_image_content", image).description("Returns a picture."))
        .tool(tool("test_audio_content", audio).description("Returns a sound."))
        .tool(tool("test_embedded_resource", embedded).description("Returns a resource in place."))
        .tool(
            tool("test_multiple_content_types", several)
                .description("Returns a text, a picture and a resource."),
        )
        .tool(tool("test_error_handling", error).description("Fails, and says so to the model."))
}

async fn simple_text() -> &'static str {
    "This is a simple text response for testing."
}

async fn image() -> ContentBlock {
    ContentBlock::image(PNG, "image/png")
}

async fn audio() -> ContentBlock {
    ContentBlock::audio(WAV, "audio/wav")
}

async fn embedded() -> ContentBlock {
    let text = "This is an embedded resource content.";
    let resource = ResourceContents::text("test://embedded-resource", text);
    ContentBlock::resource(resource.with_mime_type("text/plain"))
}

async fn several() -> Vec<ContentBlock> {
    let json = r#"{"test":"data","value":123}"#;
    let resource = ResourceContents::text("test://mixed-content-resource", json);
    vec![
        ContentBlock::text("Multiple content types test:"),
        ContentBlock::image(PNG, "image/png"),
        ContentBlock::resource(resource.with_mime_type("application/json")),
    ]
}

async fn error() -> Result<ToolResult, ToolError> {
    Err(ToolError::text(
        "This tool intentionally returns an error for testing",
    ))
}
