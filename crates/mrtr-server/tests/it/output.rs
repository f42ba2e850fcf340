//! Structured results: what is published of them, and that nothing else leaves.

use std::collections::HashMap;

use mrtr_server::{
    Answer, BuildError, DurableFlow, Flow, Form, Json, Server, State, Tool, ToolError, ToolResult,
    tool,
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::bank::{Bank, Call, Effects, accept};
use crate::session::Session;

#[derive(Serialize, JsonSchema)]
struct Weather {
    /// In degrees Celsius.
    temperature: f64,
    wind: Option<Wind>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    notes: Vec<String>,
}

#[derive(Serialize, JsonSchema)]
struct Wind {
    #[schemars(range(max = 400))]
    speed: u32,
}

fn weather(temperature: f64) -> Weather {
    Weather {
        temperature,
        wind: None,
        notes: vec![],
    }
}

#[derive(Deserialize, JsonSchema)]
struct Confirm {
    ok: bool,
}

fn structured(value: &Value) -> ToolResult {
    ToolResult::structured(value).unwrap()
}

fn bank() -> Bank {
    Bank::with(|builder| {
        builder
            .tool(tool("weather", async || Json(weather(21.5))))
            .tool(tool(
                "perhaps",
                async || -> Result<Json<Weather>, ToolError> {
                    Err(ToolError::text("There is no weather."))
                },
            ))
            .tool(tool("list", async || {
                Json(vec![weather(1.0), weather(2.0)])
            }))
            .tool(tool("number", async || Json(7)))
            .tool(tool("any", async || Json(json!({ "a": 1 }))))
            .tool(tool("quiet", async || Json(weather(1.0))).without_output_schema())
            .tool(
                tool("by_hand", async || {
                    structured(&json!({ "temperature": 3.5 }))
                })
                .output::<Weather>(),
            )
            .tool(
                tool("raw", async || structured(&json!("even")))
                    .output_schema(json!({ "enum": ["odd", "even"] })),
            )
            // These promise what they do not keep.
            .tool(tool("nan", async || Json(weather(f64::NAN))))
            .tool(tool("gale", async || {
                let wind = Some(Wind { speed: 401 });
                Json(Weather {
                    wind,
                    ..weather(1.0)
                })
            }))
            .tool(tool("text", async || ToolResult::text("a secret text")).output::<Weather>())
            .tool(tool("other", async || structured(&json!({ "secret": 1 }))).output::<Weather>())
            .tool(tool("nothing", async || structured(&Value::Null)).output::<Weather>())
            .tool(tool("failing", async || ToolResult::error("No.")).output::<Weather>())
    })
}

async fn listed(bank: &Bank) -> HashMap<String, Value> {
    let listed = bank.send(&Call::nameless("tools/list")).await;
    let tools = listed.body["result"]["tools"].as_array().unwrap().clone();
    tools
        .into_iter()
        .map(|tool| (tool["name"].as_str().unwrap().to_owned(), tool))
        .collect()
}

async fn call(bank: &Bank, tool: &str) -> crate::bank::Reply {
    bank.send(&Call::of(tool, json!({}))).await
}

#[tokio::test]
async fn what_a_type_promises_is_published() {
    let bank = bank();
    let tools = listed(&bank).await;
    let schema = &tools["weather"]["outputSchema"];
    assert_eq!(
        (
            &schema["type"],
            &schema["required"],
            &schema["properties"]["temperature"]
        ),
        (
            &json!("object"),
            &json!(["temperature", "wind"]),
            &json!({ "type": "number", "format": "double", "description": "In degrees Celsius." })
        ),
        "as it is written: an option is there and null, a skipped list is not"
    );
    assert_eq!(&tools["perhaps"]["outputSchema"], schema);
    assert_eq!(&tools["by_hand"]["outputSchema"], schema);
    assert_eq!(tools["list"]["outputSchema"]["type"], "array");
    assert_eq!(
        tools["raw"]["outputSchema"],
        json!({ "enum": ["odd", "even"] })
    );
    for without in ["any", "quiet", "plain", "transfer"] {
        assert!(tools[without].get("outputSchema").is_none(), "{without}");
    }
}

#[tokio::test]
async fn what_fits_is_sent_as_it_is() {
    let bank = bank();
    for (tool, value) in [
        ("weather", json!({ "temperature": 21.5, "wind": null })),
        (
            "list",
            json!([{ "temperature": 1.0, "wind": null }, { "temperature": 2.0, "wind": null }]),
        ),
        ("number", json!(7)),
        ("any", json!({ "a": 1 })),
        ("quiet", json!({ "temperature": 1.0, "wind": null })),
        ("raw", json!("even")),
    ] {
        let reply = call(&bank, tool).await;
        assert_eq!(
            reply.body["result"]["structuredContent"], value,
            "{tool}: {reply:?}"
        );
        let text: Value = serde_json::from_str(reply.text()).unwrap();
        assert_eq!(text, value, "for clients that read text alone");
    }
    // A failure need not be structured.
    for (tool, text) in [("perhaps", "There is no weather."), ("failing", "No.")] {
        let reply = call(&bank, tool).await;
        assert_eq!(
            (reply.text(), &reply.body["result"]["isError"]),
            (text, &json!(true))
        );
    }
}

#[tokio::test]
async fn what_does_not_fit_never_leaves() {
    let bank = bank();
    // `wind` is required, so this one breaks its word as well.
    for tool in ["by_hand", "nan", "gale", "text", "other", "nothing"] {
        let reply = call(&bank, tool).await;
        assert_eq!(reply.code(), Some(-32603), "{tool}: {reply:?}");
        let said = reply.body.to_string();
        assert!(!said.contains("secret") && !said.contains("401"), "{said}");
    }
}

#[tokio::test]
async fn the_earlier_era_has_objects_alone() {
    let bank = bank();
    let session = Session::open(&bank.server, json!({})).await;
    let listed = session.reply("tools/list", json!({})).await;
    let tools = listed.body["result"]["tools"].as_array().unwrap();
    let schema = |name: &str| {
        let tool = tools.iter().find(|tool| tool["name"] == name).unwrap();
        tool["outputSchema"]["type"].clone()
    };
    assert_eq!(
        (schema("weather"), schema("list")),
        (json!("object"), Value::Null)
    );
    let list = session.reply("tools/call", json!({ "name": "list" })).await;
    assert!(
        list.body["result"].get("structuredContent").is_none(),
        "{list:?}"
    );
    assert!(list.text().starts_with('['), "the text is there still");
    let weather = session
        .reply("tools/call", json!({ "name": "weather" }))
        .await;
    assert_eq!(
        weather.body["result"]["structuredContent"]["temperature"],
        21.5
    );
    let broken = session.reply("tools/call", json!({ "name": "nan" })).await;
    assert_eq!(broken.code(), Some(-32603));
}

async fn act_and_lie(
    flow: DurableFlow,
    State(effects): State<Effects>,
) -> Result<Json<Weather>, ToolError> {
    match flow.ask("confirm", Form::<Confirm>::new("Sure?")).await {
        Answer::Accept(Confirm { ok: true }) => {}
        _ => return Err(ToolError::text("no")),
    }
    flow.once("act", async || Ok::<_, ToolError>(effects.happen()))
        .await?;
    Ok(Json(weather(f64::INFINITY)))
}

#[tokio::test]
async fn a_broken_promise_after_an_effect_says_what_was_done_and_is_kept() {
    let bank = Bank::with(|builder| builder.tool(tool("act", act_and_lie)));
    let asked = call(&bank, "act").await;
    let retry = Call::of("act", json!({}))
        .id(2)
        .state(asked.state())
        .answer("confirm", accept(json!({ "ok": true })));
    let mut replies = Vec::new();
    for _ in 0..2 {
        let reply = bank.send(&retry).await;
        assert_eq!(reply.code(), Some(-32603), "{reply:?}");
        let message = reply.body["error"]["message"].as_str().unwrap().to_owned();
        assert!(message.contains("Steps that were taken: act"), "{message}");
        replies.push(message);
    }
    assert_eq!(replies[0], replies[1], "the same retry is told the same");
    assert_eq!(bank.effects.count(), 1);
}

#[test]
fn schemas_that_cannot_be_promised_are_refused() {
    let build = |tool: Tool| {
        Server::builder("s", "1")
            .allow_anonymous()
            .tool(tool)
            .build()
    };
    let with =
        |schema: Value| build(tool("t", async || structured(&json!(1))).output_schema(schema));
    assert!(with(json!({ "type": "integer" })).is_ok());
    for schema in [
        json!(true),
        json!(null),
        json!([]),
        json!({ "type": "intger" }),
        json!({ "$ref": "https://example.com/schema" }),
        json!({ "$schema": "http://json-schema.org/draft-07/schema#", "type": "object" }),
    ] {
        let error = with(schema.clone()).unwrap_err();
        let BuildError::Handler { handler, fault } = &error else {
            panic!("{error}")
        };
        assert!(
            handler == "tool `t`" && fault.contains("output schema"),
            "{schema}: {error}"
        );
    }
    let unused = async |_: Flow| "x";
    assert!(
        build(tool("t", unused)).is_err(),
        "and the other checks are still made"
    );
}
