//! What is done in each scenario. Whether it was done right, the suite sees on the wire.

use mrtr_client::Client;
use mrtr_client::protocol::Tool;
use serde_json::json;

use crate::{Context, Failure};

/// The suite's scenarios, by what they need done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Scenario {
    /// Connect, and list the tools.
    List,
    /// Call one tool, and read its result.
    Add,
    /// Make more than one request.
    Discover,
    /// Answer what tools ask, with a state to carry and without.
    Rounds,
    /// Send every request that has a name or URI.
    Everything,
    /// Make the calls that the context says.
    Calls,
    /// Call the one tool whose annotations are valid.
    ValidTool,
    /// Give a tool's schema back as it came.
    Echo,
    /// Call the tool that asks with a form full of defaults.
    Defaults,
    /// Call the tool whose stream is closed in the middle.
    Reconnect,
    /// Call a tool of a server that wants a token.
    Authorized,
}

impl Scenario {
    pub(crate) fn named(name: &str) -> Option<Self> {
        Some(match name {
            "initialize" | "json-schema-ref-no-deref" => Self::List,
            "tools_call" => Self::Add,
            "request-metadata" => Self::Discover,
            "sep-2322-client-request-state" => Self::Rounds,
            "http-standard-headers" => Self::Everything,
            "http-custom-headers" => Self::Calls,
            "http-invalid-tool-headers" => Self::ValidTool,
            "json-schema-2020-12-preservation" => Self::Echo,
            "elicitation-sep1034-client-defaults" => Self::Defaults,
            "sse-retry" => Self::Reconnect,
            _ if name.starts_with("auth/") => Self::Authorized,
            _ => return None,
        })
    }

    pub(crate) async fn play(self, client: &Client, context: &Context) -> Result<(), Failure> {
        match self {
            Self::List => {
                client.list_tools().await?;
            }
            Self::Add => {
                client.list_tools().await?;
                let sum = json!({ "a": 5, "b": 3 });
                client.call_tool("add_numbers", sum).await?;
            }
            Self::Discover => {
                client.discover().await?;
                client.list_tools().await?;
            }
            Self::Rounds => rounds(client).await?,
            Self::Everything => everything(client).await?,
            Self::Calls => {
                client.list_tools().await?;
                for call in &context.tool_calls {
                    client.call_tool(&call.name, &call.arguments).await?;
                }
            }
            Self::ValidTool => {
                // Only valid ones are listed; the suite sees whether another one is called.
                for tool in client.list_tools().await? {
                    let region = json!({ "region": "us-west1" });
                    client.call_tool(&tool.name, region).await?;
                }
            }
            Self::Echo => echo(client).await?,
            Self::Defaults => {
                client.list_tools().await?;
                let tool = "test_client_elicitation_defaults";
                client.call_tool(tool, json!({})).await?;
            }
            Self::Reconnect => {
                client.list_tools().await?;
                client.call_tool("test_reconnection", json!({})).await?;
            }
            Self::Authorized => {
                client.list_tools().await?;
                client.call_tool("test-tool", json!({})).await?;
            }
        }
        Ok(())
    }
}

async fn rounds(client: &Client) -> Result<(), Failure> {
    client.list_tools().await?;
    for tool in [
        "test_mrtr_echo_state",
        "test_mrtr_no_state",
        "test_mrtr_unrelated",
        "test_mrtr_no_result_type",
    ] {
        client.call_tool(tool, json!({})).await?;
    }
    Ok(())
}

async fn everything(client: &Client) -> Result<(), Failure> {
    for tool in client.list_tools().await? {
        client.call_tool(&tool.name, json!({})).await?;
    }
    for resource in client.list_resources().await? {
        client.read_resource(&resource.uri).await?;
    }
    for prompt in client.list_prompts().await? {
        client.get_prompt(&prompt.name, json!({})).await?;
    }
    Ok(())
}

async fn echo(client: &Client) -> Result<(), Failure> {
    let with_schema = |tool: &Tool| tool.name == "json_schema_2020_12_tool";
    let tools = client.list_tools().await?;
    let tool = tools
        .iter()
        .find(|tool| with_schema(tool))
        .ok_or(Failure::Missing("tool with a schema to give back"))?;
    let schema = json!({ "schema": tool.input_schema });
    client.call_tool("json_schema_echo", schema).await?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scenarios_are_found_by_name_and_others_are_not() {
        assert_eq!(Scenario::named("tools_call"), Some(Scenario::Add));
        assert_eq!(
            Scenario::named("auth/basic-cimd"),
            Some(Scenario::Authorized)
        );
        assert_eq!(Scenario::named("tools-call"), None);
    }
}
