//! Resources: text, bytes, a template, and one that is watched.

use mrtr_server::{Args, Json, ResourceContents, ServerBuilder, resource, template};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::content::PNG;

pub(crate) fn add(server: ServerBuilder) -> ServerBuilder {
    server
        .resource(
            resource(TEXT, text)
                .name("static-text")
                .description("A text that never changes.")
                .mime_type("text/plain"),
        )
        .resource(
            resource(BINARY, binary)
                .name("static-binary")
                .description("A picture that never changes.")
                .mime_type("image/png"),
        )
        .resource(
            template("test://template/{id}/data", by_id)
                .name("template")
                .description("The data of an id.")
                .mime_type("application/json"),
        )
        .resource(
            resource(WATCHED, watched)
                .name("watched-resource")
                .description("A resource to subscribe to.")
                .mime_type("text/plain"),
        )
}

const TEXT: &str = "test://static-text";
const BINARY: &str = "test://static-binary";
pub(crate) const WATCHED: &str = "test://watched-resource";

async fn text() -> ResourceContents {
    let text = "This is the content of the static text resource.";
    ResourceContents::text(TEXT, text).with_mime_type("text/plain")
}

async fn binary() -> ResourceContents {
    ResourceContents::blob(BINARY, PNG).with_mime_type("image/png")
}

async fn watched() -> ResourceContents {
    ResourceContents::text(WATCHED, "Watched resource content.").with_mime_type("text/plain")
}

#[derive(Deserialize, JsonSchema)]
struct Id {
    /// Whose data.
    id: String,
}

async fn by_id(Args(Id { id }): Args<Id>) -> Json<Value> {
    let text = format!("Data for ID: {id}");
    Json(json!({ "id": id, "templateTest": true, "data": text }))
}
