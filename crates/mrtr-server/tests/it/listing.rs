//! What is published beside names: icons, titles, hints, `_meta`, sizes, and schemas as they are given.

use mrtr_server::{
    Annotations, Args, ContentBlock, Icon, IconTheme, Prompt, Resource, ResourceLink, Role, Server,
    ServerBuilder, Tool, ToolResult, prompt, resource, template, tool,
};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};

use crate::bank::{Bank, Call};
use crate::session::Session;

#[derive(Deserialize, JsonSchema)]
#[allow(dead_code, reason = "only what is listed is looked at")]
struct Topic {
    /// What about.
    #[schemars(title = "Topic of the day")]
    topic: String,
}

fn picture() -> Icon {
    Icon::new("https://bank.example/i.png")
        .with_mime_type("image/png")
        .with_size("48x48")
        .with_size("any")
        .with_theme(IconTheme::Dark)
}

fn listed_picture() -> Value {
    json!([{
        "src": "https://bank.example/i.png", "mimeType": "image/png", "sizes": ["48x48", "any"], "theme": "dark",
    }])
}

fn hints() -> Annotations {
    Annotations::new()
        .with_audience([Role::User])
        .with_priority(0.8)
        .with_last_modified("2025-01-12T15:00:58Z")
}

fn listed_hints() -> Value {
    json!({ "audience": ["user"], "priority": 0.8, "lastModified": "2025-01-12T15:00:58Z" })
}

fn decorated() -> Bank {
    Bank::with(|builder| {
        builder
            .title("The bank")
            .description("Keeps money.")
            .website_url("https://bank.example")
            .icon(picture())
            .tool(
                tool("decorated", async || {
                    let mut link = ResourceLink::new("note://today", "today");
                    link.annotations = Some(hints());
                    ToolResult::new(vec![
                        ContentBlock::text("x").with_annotations(hints()),
                        ContentBlock::link(link),
                    ])
                })
                .title("Decorated")
                .icon(picture())
                .meta("com.example/colour", "red")
                .meta("com.example/", json!([1, { "a": 2 }])),
            )
            .prompt(
                prompt("brief", async |_: Args<Topic>| "x")
                    .title("Brief")
                    .icon(picture())
                    .meta("colour", 7),
            )
            .resource(
                resource("note://today", async || "x")
                    .icon(picture())
                    .size(1)
                    .annotations(hints())
                    .meta("com.example/a", true),
            )
            .resource(
                template("note://{topic}", async |_: Args<Topic>| "x")
                    .title("Notes")
                    .icon(picture())
                    .annotations(hints())
                    .meta("com.example/a", ()),
            )
    })
}

#[tokio::test]
async fn decorations_are_listed_in_both_eras() {
    let bank = decorated();
    let session = Session::open(&bank.server, json!({})).await;
    let modern = async |method: &str| bank.send(&Call::nameless(method)).await.body;
    let earlier = async |method: &str| session.reply(method, json!({})).await.body;
    let last = |list: &Value| list.as_array().unwrap().last().unwrap().clone();
    for era in ["modern", "earlier"] {
        let list = async |method: &str| match era {
            "modern" => modern(method).await,
            _ => earlier(method).await,
        };
        let tool = last(&list("tools/list").await["result"]["tools"]);
        assert_eq!(
            (&tool["title"], &tool["icons"]),
            (&json!("Decorated"), &listed_picture())
        );
        assert_eq!(
            tool["_meta"],
            json!({ "com.example/colour": "red", "com.example/": [1, { "a": 2 }] })
        );
        let prompt = last(&list("prompts/list").await["result"]["prompts"]);
        assert_eq!(
            (&prompt["icons"], &prompt["_meta"]),
            (&listed_picture(), &json!({ "colour": 7 }))
        );
        assert_eq!(
            prompt["arguments"],
            json!([{ "name": "topic", "title": "Topic of the day", "description": "What about.", "required": true }])
        );
        let resource = last(&list("resources/list").await["result"]["resources"]);
        assert_eq!(
            (
                &resource["icons"],
                &resource["size"],
                &resource["annotations"],
                &resource["_meta"]
            ),
            (
                &listed_picture(),
                &json!(1),
                &listed_hints(),
                &json!({ "com.example/a": true })
            )
        );
        let template = last(&list("resources/templates/list").await["result"]["resourceTemplates"]);
        assert_eq!(
            (
                &template["title"],
                &template["icons"],
                &template["annotations"],
                &template["_meta"]
            ),
            (
                &json!("Notes"),
                &listed_picture(),
                &listed_hints(),
                &json!({ "com.example/a": null })
            )
        );
    }
}

#[tokio::test]
async fn the_server_says_what_it_is() {
    let bank = decorated();
    let discovered = bank.send(&Call::nameless("server/discover")).await;
    assert_eq!(
        discovered.body["result"]["_meta"]["io.modelcontextprotocol/serverInfo"],
        json!({
            "name": "bank", "version": "1.0.0", "title": "The bank", "description": "Keeps money.",
            "websiteUrl": "https://bank.example", "icons": listed_picture(),
        })
    );
}

#[tokio::test]
async fn content_carries_hints() {
    let bank = decorated();
    let reply = bank.send(&Call::of("decorated", json!({}))).await;
    let content = &reply.body["result"]["content"];
    assert_eq!(content[0]["annotations"], listed_hints(), "{reply:?}");
    assert_eq!(
        content[1],
        json!({ "type": "resource_link", "uri": "note://today", "name": "today", "annotations": listed_hints() })
    );
}

const SCHEMA: &str = r##"{"$schema":"https://json-schema.org/draft/2020-12/schema","type":"object",
 "$defs":{"address":{"$anchor":"addressDef","type":"object","properties":{"street":{"type":"string"},"city":{"type":"string"}}}},
 "properties":{"name":{"type":"string"},"address":{"$ref":"#/$defs/address"},"contactMethod":{"type":"string","enum":["phone","email"]},
 "phone":{"type":"string"},"email":{"type":"string"},"n":{"type":"number","maximum":1.50e2}},
 "allOf":[{"anyOf":[{"required":["phone"]},{"required":["email"]}]}],
 "if":{"properties":{"contactMethod":{"const":"phone"}},"required":["contactMethod"]},"then":{"required":["phone"]},"else":{"required":["email"]},
 "additionalProperties":false}"##;

#[tokio::test]
async fn a_schema_that_is_given_is_listed_to_the_byte_and_kept_to() {
    let raw: Box<RawValue> = serde_json::from_str(SCHEMA).unwrap();
    let bank = Bank::with(|builder| {
        builder
            .tool(
                tool("any", async |Args(given): Args<Value>| given.to_string()).input_schema(&raw),
            )
            .tool(
                tool("typed", async |Args(Topic { topic }): Args<Topic>| topic).input_schema(
                    json!({
                        "type": "object", "properties": { "topic": { "enum": ["tea", 7] } },
                    }),
                ),
            )
            .tool(
                tool("none", async || "x")
                    .input_schema(json!({ "type": "object", "maxProperties": 1 })),
            )
    });
    let listed = bank.send_for_text(&Call::nameless("tools/list")).await;
    assert!(listed.contains(SCHEMA), "{listed}");
    let call = async |tool: &str, arguments: Value| bank.send(&Call::of(tool, arguments)).await;
    let good = json!({ "contactMethod": "phone", "phone": "1", "address": { "street": "x" } });
    assert_eq!(call("any", good.clone()).await.text(), good.to_string());
    for bad in [
        json!({ "contactMethod": "phone", "email": "x" }),
        json!({ "phone": "1" }),
        json!({ "phone": "1", "email": "x", "address": { "street": 7 } }),
        json!({ "phone": "1", "email": "x", "more": 1 }),
        json!({ "phone": "1", "email": "x", "n": 151 }),
    ] {
        let reply = call("any", bad.clone()).await;
        assert_eq!(reply.body["result"]["isError"], true, "{bad}: {reply:?}");
    }
    // The type still reads what passes.
    assert_eq!(call("typed", json!({ "topic": "tea" })).await.text(), "tea");
    let unread = call("typed", json!({ "topic": 7 })).await;
    assert_eq!(unread.body["result"]["isError"], true, "{unread:?}");
    assert_eq!(call("none", json!({ "a": 1 })).await.text(), "x");
    let two = call("none", json!({ "a": 1, "b": 2 })).await;
    assert_eq!(two.body["result"]["isError"], true);
}

#[test]
fn what_no_client_would_take_is_refused() {
    let builder = || Server::builder("s", "1").allow_anonymous();
    let refused = |builder: ServerBuilder, part: &str| {
        let error = builder.build().unwrap_err().to_string();
        assert!(error.contains(part), "{part}: {error}");
    };
    let with_tool = |tool: Tool| builder().tool(tool);
    let with_prompt = |prompt: Prompt| builder().prompt(prompt);
    let with_resource = |resource: Resource| builder().resource(resource);
    let bare = || tool("t", async || "x");
    assert!(
        with_tool(bare().icon(picture()).meta("a/b", 1))
            .build()
            .is_ok()
    );
    for src in [
        "javascript:alert(1)",
        "file:///etc/passwd",
        "ftp://a/b",
        "i.png",
        "",
        "//a/b",
    ] {
        refused(with_tool(bare().icon(Icon::new(src))), "icon");
        refused(
            with_prompt(prompt("p", async || "x").icon(Icon::new(src))),
            "icon",
        );
        refused(
            with_resource(resource("a://b", async || "x").icon(Icon::new(src))),
            "icon",
        );
        refused(builder().icon(Icon::new(src)), "icon");
    }
    for size in ["48", "48X48", "x", "48x", "large", ""] {
        refused(
            with_tool(bare().icon(Icon::new("data:,x").with_size(size))),
            "icon size",
        );
    }
    for key in ["a b", "/x", "a..b/x", "x_"] {
        refused(with_tool(bare().meta(key, 1)), "no key of `_meta`");
    }
    for key in [
        "io.modelcontextprotocol/x",
        "dev.mcp/",
        "progressToken",
        "traceparent",
    ] {
        refused(with_tool(bare().meta(key, 1)), "reserved");
        refused(
            with_prompt(prompt("p", async || "x").meta(key, 1)),
            "reserved",
        );
        refused(
            with_resource(resource("a://b", async || "x").meta(key, 1)),
            "reserved",
        );
    }
    let unwritable = std::collections::HashMap::from([((1, 2), 3)]);
    refused(
        with_tool(bare().meta("a/b", unwritable)),
        "does not serialize",
    );
    let hinted = |hints| with_resource(resource("a://b", async || "x").annotations(hints));
    assert!(hinted(hints()).build().is_ok());
    assert!(
        hinted(Annotations::new().with_last_modified("2025-01-12"))
            .build()
            .is_ok()
    );
    for priority in [-0.1, 1.1, f64::NAN, f64::INFINITY] {
        refused(
            hinted(Annotations::new().with_priority(priority)),
            "priority",
        );
    }
    for time in ["yesterday", "", "1700000000", "2025-13-12"] {
        refused(hinted(Annotations::new().with_last_modified(time)), "time");
    }
    refused(
        with_resource(template("a://{x}", async || "x").size(1)),
        "no size in common",
    );
    refused(builder().website_url("javascript:alert(1)"), "website");
    for schema in [
        json!(true),
        json!([]),
        json!({}),
        json!({ "type": "array" }),
        json!({ "type": "objekt" }),
    ] {
        refused(with_tool(bare().input_schema(schema)), "tool `t`");
    }
}
