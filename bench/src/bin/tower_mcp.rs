//! tower-mcp, as its documentation shows, with its codec bound to a subject and, by what is kept in the state, to the arguments.

use std::time::Duration;

use mrtr_bench::{KEY, listen, say_address};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;
use tower_mcp::mrtr::RequestStateCodec;
use tower_mcp::protocol::{
    CallToolResult, InputRequest, InputRequests, InputRequiredResult, RequestOutcome,
};
use tower_mcp::{Error, HttpTransport, McpRouter, ToolBuilder};

#[derive(Deserialize, JsonSchema)]
struct Echo {
    text: String,
}

#[derive(Clone, Deserialize, Serialize, JsonSchema, PartialEq)]
struct Payment {
    to: String,
    amount: u32,
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let codec = RequestStateCodec::new(KEY, Duration::from_secs(600))?;
    let echo = ToolBuilder::new("echo")
        .description("Says the same.")
        .handler(|Echo { text }: Echo| async move { Ok(CallToolResult::text(text)) })
        .build();
    let pay = ToolBuilder::new("pay")
        .description("Pays, after a confirmation.")
        .mrtr_handler::<Payment, _, _>(move |context, payment| {
            let codec = codec.clone();
            async move {
                let Some(state) = context.request_state() else {
                    let question = json!({
                        "method": "elicitation/create",
                        "params": {
                            "mode": "form",
                            "message": format!("Pay {} to {}?", payment.amount, payment.to),
                            "requestedSchema": { "type": "object", "properties": { "ok": { "type": "boolean" } }, "required": ["ok"] }
                        }
                    });
                    let question: InputRequest = serde_json::from_value(question).map_err(|error| Error::tool(error.to_string()))?;
                    let mut requests = InputRequests::new();
                    requests.insert("confirm".to_owned(), question);
                    let sealed = codec.encode_for("somebody", &payment).map_err(|error| Error::tool(error.to_string()))?;
                    return Ok(RequestOutcome::input_required(
                        InputRequiredResult::with_requests(requests).with_request_state(sealed),
                    ));
                };
                let asked: Payment = codec.decode_for(state, "somebody").map_err(|error| Error::tool(error.to_string()))?;
                if asked != payment {
                    return Err(Error::tool("the state belongs to another request"));
                }
                let answers = serde_json::to_value(context.input_responses()).map_err(|error| Error::tool(error.to_string()))?;
                let accepted = answers["confirm"]["action"] == "accept" && answers["confirm"]["content"]["ok"] == true;
                Ok(RequestOutcome::Complete(CallToolResult::text(if accepted { "done" } else { "not done" })))
            }
        })
        .build();
    let router = McpRouter::new()
        .server_info("bench", "0.0.0")
        .tool(echo)
        .tool(pay);
    let listener = listen().await?;
    say_address(&listener)?;
    axum::serve(
        listener,
        HttpTransport::new(router)
            .sse_responses(false)
            .into_router_at("/mcp"),
    )
    .await?;
    Ok(())
}
