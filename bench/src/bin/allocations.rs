//! How many allocations a plain call makes in process: prints the number for each of some calls in a row.

use std::alloc::System;

use bytes::Bytes;
use http::Request;
use http_body_util::{BodyExt as _, Full};
use mrtr_server::{Args, Server, tool};
use schemars::JsonSchema;
use serde::Deserialize;
use stats_alloc::{INSTRUMENTED_SYSTEM, Region, StatsAlloc};
use tower_service::Service as _;

#[global_allocator]
static ALLOCATOR: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

#[derive(Deserialize, JsonSchema)]
struct Echo {
    text: String,
}

async fn echo(Args(Echo { text }): Args<Echo>) -> String {
    text
}

const BODY: &str = r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"echo","arguments":{"text":"hello, world"},"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientInfo":{"name":"bench","version":"0.0.0"},"io.modelcontextprotocol/clientCapabilities":{"elicitation":{"form":{}}}}}}"#;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut server = Server::builder("bench", "0.0.0")
        .allow_anonymous()
        .tool(tool("echo", echo).description("Says the same."))
        .build()?;
    for _ in 0..10 {
        let request = Request::post("/mcp")
            .header("Host", "127.0.0.1")
            .header("Content-Type", "application/json")
            .header("Accept", "application/json, text/event-stream")
            .header("MCP-Protocol-Version", "2026-07-28")
            .header("Mcp-Method", "tools/call")
            .header("Mcp-Name", "echo")
            .body(Full::new(Bytes::from_static(BODY.as_bytes())))?;
        let region = Region::new(ALLOCATOR);
        let answer = server.call(request).await?;
        let body = answer.into_body().collect().await?.to_bytes();
        let made = region.change();
        if !body.windows(12).any(|part| part == b"hello, world") {
            return Err("the call has not come back".into());
        }
        println!("{}", made.allocations + made.reallocations);
    }
    Ok(())
}
