//! rmcp, as its documentation shows, with its codec bound to principal and arguments by associated data.

use std::sync::Arc;
use std::time::Duration;

use mrtr_bench::{KEY, listen, say_address};
use rmcp::ServerHandler;
use rmcp::handler::server::tool::{InputResponses, RequestState};
use rmcp::handler::server::wrapper::Parameters;
use rmcp::model::{
    CallToolResponse, CallToolResult, ContentBlock, ElicitRequest, ElicitRequestParams, ErrorData,
    InputRequest, InputRequests, InputRequiredResult, ProtocolVersion, RequestStateCodec,
    SealOptions, ServerCapabilities, ServerConfig,
};
use rmcp::transport::streamable_http_server::session::local::LocalSessionManager;
use rmcp::transport::streamable_http_server::{StreamableHttpServerConfig, StreamableHttpService};
use rmcp::{tool, tool_handler, tool_router};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;

#[derive(Clone)]
struct Bench {
    codec: RequestStateCodec,
}

#[derive(Deserialize, JsonSchema)]
struct Echo {
    text: String,
}

#[derive(Deserialize, Serialize, JsonSchema)]
struct Payment {
    to: String,
    amount: u32,
}

#[tool_router]
impl Bench {
    #[tool(description = "Says the same.")]
    async fn echo(
        &self,
        Parameters(Echo { text }): Parameters<Echo>,
    ) -> Result<CallToolResult, ErrorData> {
        Ok(CallToolResult::success(vec![ContentBlock::text(text)]))
    }

    #[tool(description = "Pays, after a confirmation.")]
    async fn pay(
        &self,
        Parameters(payment): Parameters<Payment>,
        RequestState(state): RequestState,
        InputResponses(responses): InputResponses,
    ) -> Result<CallToolResponse, ErrorData> {
        let arguments = serde_json::to_string(&payment)
            .map_err(|error| ErrorData::internal_error(error.to_string(), None))?;
        let bound = format!("somebody|tools/call:pay|{arguments}");
        let Some(state) = state else {
            let mut requests = InputRequests::new();
            let schema = json!({ "type": "object", "properties": { "ok": { "type": "boolean" } }, "required": ["ok"] });
            let question = ElicitRequestParams::FormElicitationParams {
                meta: None,
                message: format!("Pay {} to {}?", payment.amount, payment.to),
                requested_schema: serde_json::from_value(schema)
                    .map_err(|error| ErrorData::internal_error(error.to_string(), None))?,
            };
            requests.insert(
                "confirm".to_owned(),
                InputRequest::Elicitation(ElicitRequest::new(question)),
            );
            let options = SealOptions::new()
                .associated_data(bound.as_bytes())
                .ttl(Duration::from_secs(600));
            let sealed = self.codec.seal_with(b"confirm", &options);
            return Ok(InputRequiredResult::new(Some(requests), Some(sealed)).into());
        };
        self.codec
            .open_with(&state, bound.as_bytes())
            .map_err(|error| ErrorData::invalid_params(error.to_string(), None))?;
        let answer = responses
            .as_ref()
            .and_then(|responses| responses.get("confirm"));
        let accepted = answer
            .is_some_and(|answer| answer["action"] == "accept" && answer["content"]["ok"] == true);
        let text = if accepted { "done" } else { "not done" };
        Ok(CallToolResult::success(vec![ContentBlock::text(text)]).into())
    }
}

#[tool_handler]
impl ServerHandler for Bench {
    fn get_info(&self) -> ServerConfig {
        let mut info = ServerConfig::new(ServerCapabilities::builder().enable_tools().build());
        info.protocol_version = ProtocolVersion::V_2026_07_28;
        info
    }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let server = Bench {
        codec: RequestStateCodec::try_new(KEY)?,
    };
    let mut config = StreamableHttpServerConfig::default();
    config.json_response = true;
    config.legacy_session_mode = false;
    let service = StreamableHttpService::new(
        move || Ok(server.clone()),
        Arc::new(LocalSessionManager::default()),
        config,
    );
    let listener = listen().await?;
    say_address(&listener)?;
    axum::serve(listener, axum::Router::new().nest_service("/mcp", service)).await?;
    Ok(())
}
