//! The floors: bare axum handlers that answer what an MCP server would.
//!
//! `json`: the request parsed into a `serde_json::Value`, the answer built as one and serialized; what a server without a
//! framework does at least. `bytes`: the request is read and not looked at, the answer is the same bytes each time; what HTTP alone
//! costs.

use axum::Router;
use axum::body::Body;
use axum::extract::Json;
use axum::http::{HeaderValue, header};
use axum::response::Response;
use axum::routing::post;
use bytes::Bytes;
use mrtr_bench::{listen, say_address};
use serde_json::{Value, json};

#[tokio::main]
async fn main() -> std::io::Result<()> {
    let router = match std::env::args().nth(1).as_deref() {
        Some("json") => Router::new().route("/mcp", post(parsed)),
        Some("bytes") => Router::new().route("/mcp", post(constant)),
        _ => return Err(std::io::Error::other("say `json` or `bytes`")),
    };
    let listener = listen().await?;
    say_address(&listener)?;
    axum::serve(listener, router).await
}

async fn parsed(Json(request): Json<Value>) -> Json<Value> {
    let params = &request["params"];
    let result = match params["name"].as_str() {
        Some("echo") => {
            let text = params["arguments"]["text"].as_str().unwrap_or_default();
            json!({ "resultType": "complete", "content": [{ "type": "text", "text": text }] })
        }
        _ if params["requestState"].is_string() => {
            let answer = &params["inputResponses"]["confirm"];
            let text = if answer["action"] == "accept" && answer["content"]["ok"] == true {
                "done"
            } else {
                "not done"
            };
            json!({ "resultType": "complete", "content": [{ "type": "text", "text": text }] })
        }
        // The question, and a state of the length that a sealed one has.
        _ => json!({
            "resultType": "input_required",
            "inputRequests": { "confirm": { "method": "elicitation/create", "params": {
                "mode": "form",
                "message": format!("Pay {} to {}?", params["arguments"]["amount"], params["arguments"]["to"]),
                "requestedSchema": { "type": "object", "properties": { "ok": { "type": "boolean" } }, "required": ["ok"] }
            } } },
            "requestState": STATE,
        }),
    };
    Json(json!({ "jsonrpc": "2.0", "id": request["id"], "result": result }))
}

async fn constant(_request: Bytes) -> Response {
    let mut response = Response::new(Body::from(
        r#"{"jsonrpc":"2.0","id":1,"result":{"resultType":"complete","content":[{"type":"text","text":"hello, world"}]}}"#,
    ));
    response.headers_mut().insert(
        header::CONTENT_TYPE,
        HeaderValue::from_static("application/json"),
    );
    response
}

/// As long as the sealed state of the tool that asks.
const STATE: &str = concat!(
    "floor.AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA",
    "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA",
    "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA",
    "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA",
    "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA",
    "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA",
);
