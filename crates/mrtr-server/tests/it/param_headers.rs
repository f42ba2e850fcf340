//! Arguments that come in headers too: a header and an argument that differ are refused before anything runs.

use http::StatusCode;
use mrtr_server::{Args, Server, ServerBuilder, State, prompt, tool};
use mrtr_testkit::Harness;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::bank::{Bank, Call, Effects, Reply};
use crate::cases::Refusal;
use crate::log::Log;
use crate::session::Session;

#[derive(Deserialize, JsonSchema)]
#[allow(
    dead_code,
    reason = "the arguments matter to the headers, not to the body"
)]
struct Query {
    #[schemars(extend("x-mcp-header" = "Region"))]
    region: Option<String>,
    #[serde(default)]
    #[schemars(extend("x-mcp-header" = "Level"))]
    level: i64,
    #[schemars(extend("x-mcp-header" = "Dry"))]
    dry: Option<bool>,
    place: Option<Place>,
    /// Not mirrored.
    sql: Option<String>,
}

#[derive(Deserialize, JsonSchema)]
#[schemars(inline)]
#[allow(
    dead_code,
    reason = "the arguments matter to the headers, not to the body"
)]
struct Place {
    #[schemars(extend("x-mcp-header" = "Rack"))]
    rack: Rack,
}

#[derive(Deserialize, JsonSchema)]
#[schemars(inline)]
#[serde(rename_all = "lowercase")]
enum Rack {
    North,
    South,
}

async fn query(_: Args<Query>, State(effects): State<Effects>) -> &'static str {
    effects.happen();
    "done"
}

fn bank() -> Bank {
    Bank::with(|builder| {
        builder
            .tool(tool("query", query))
            .prompt(prompt("query", async || "x"))
    })
}

const MISMATCH: Refusal = Refusal::http(StatusCode::BAD_REQUEST, -32020);

async fn send(bank: &Bank, arguments: Value, headers: &[(&str, &str)]) -> Reply {
    let call = headers
        .iter()
        .fold(Call::of("query", arguments), |call, (name, value)| {
            call.header(name, value)
        });
    bank.send(&call).await
}

#[tokio::test]
async fn case_188_headers_that_say_what_the_body_says() {
    let bank = bank();
    for (arguments, headers) in [
        (json!({}), vec![]),
        (
            json!({ "region": null, "dry": null, "place": null }),
            vec![],
        ),
        (json!({ "sql": "select 1" }), vec![]),
        (
            json!({ "region": "us-west1" }),
            vec![("mcp-param-region", "us-west1")],
        ),
        (
            json!({ "region": "us-west1" }),
            vec![("Mcp-Param-REGION", "us-west1")],
        ),
        (
            json!({ "region": "us-west1" }),
            vec![("mcp-param-region", "  us-west1\t")],
        ),
        (
            json!({ "region": "Hello" }),
            vec![("mcp-param-region", "=?base64?SGVsbG8=?=")],
        ),
        (
            json!({ "region": "SGVsbG8=" }),
            vec![("mcp-param-region", "SGVsbG8=")],
        ),
        (
            json!({ "region": "=?base64?SGVsbG8=" }),
            vec![("mcp-param-region", "=?base64?SGVsbG8=")],
        ),
        (
            json!({ "region": " padded " }),
            vec![("mcp-param-region", "=?base64?IHBhZGRlZCA=?=")],
        ),
        (json!({ "region": "" }), vec![("mcp-param-region", "")]),
        (json!({ "level": 42 }), vec![("mcp-param-level", "42")]),
        (json!({ "level": 42 }), vec![("mcp-param-level", " 42 ")]),
        (json!({ "level": 42 }), vec![("mcp-param-level", "42.0")]),
        (json!({ "level": 42 }), vec![("mcp-param-level", "4.2e1")]),
        (
            json!({ "level": 9_007_199_254_740_991_i64 }),
            vec![("mcp-param-level", "9007199254740991")],
        ),
        (json!({ "level": 0 }), vec![("mcp-param-level", "0")]),
        (json!({ "dry": false }), vec![("mcp-param-dry", "false")]),
        (
            json!({ "place": { "rack": "south" } }),
            vec![("mcp-param-rack", "south")],
        ),
        // Nobody knows these; an intermediary may.
        (
            json!({}),
            vec![("mcp-param-sql", "x"), ("mcp-param-other", "=?base64?!?=")],
        ),
    ] {
        let before = bank.effects.count();
        let reply = send(&bank, arguments.clone(), &headers).await;
        assert_eq!(
            reply.status,
            StatusCode::OK,
            "{arguments} {headers:?}: {reply:?}"
        );
        assert_eq!(reply.text(), "done", "{arguments} {headers:?}");
        assert_eq!(bank.effects.count(), before + 1);
    }
}

#[tokio::test]
async fn case_188_headers_that_say_something_else() {
    for (arguments, headers) in [
        (json!({ "region": "us-west1" }), vec![]),
        (json!({ "region": "" }), vec![]),
        (json!({ "level": 0 }), vec![]),
        (json!({ "dry": false }), vec![]),
        (json!({ "place": { "rack": "south" } }), vec![]),
        (
            json!({ "region": "us-west1" }),
            vec![("mcp-param-region", "us-west2")],
        ),
        (
            json!({ "region": "us-west1" }),
            vec![("mcp-param-region", "US-WEST1")],
        ),
        (
            json!({ "region": "us-west1" }),
            vec![("mcp-param-region", "")],
        ),
        (
            json!({ "region": " padded " }),
            vec![("mcp-param-region", " padded ")],
        ),
        (
            json!({ "region": "Hello" }),
            vec![("mcp-param-region", "=?base64?SGVsbG8?=")],
        ),
        (
            json!({ "region": "Hello" }),
            vec![("mcp-param-region", "=?base64?SGVs!!!bG8=?=")],
        ),
        (
            json!({ "region": "=?base64?SGVsbG8=?=" }),
            vec![("mcp-param-region", "=?base64?SGVsbG8=?=")],
        ),
        (json!({ "level": 42 }), vec![("mcp-param-level", "43")]),
        (json!({ "level": 42 }), vec![("mcp-param-level", "0x2a")]),
        (
            json!({ "level": 9_007_199_254_740_993_i64 }),
            vec![("mcp-param-level", "9007199254740993")],
        ),
        (json!({ "level": 9_007_199_254_740_993_i64 }), vec![]),
        (json!({ "level": 42 }), vec![("mcp-param-level", "042")]),
        (json!({ "level": 42 }), vec![("mcp-param-level", "")]),
        (json!({ "dry": true }), vec![("mcp-param-dry", "TRUE")]),
        (json!({ "dry": true }), vec![("mcp-param-dry", "True")]),
        (
            json!({ "place": { "rack": "south" } }),
            vec![("mcp-param-rack", "north")],
        ),
        // There is nothing that it could mirror.
        (json!({}), vec![("mcp-param-region", "us-west1")]),
        (
            json!({ "region": null }),
            vec![("mcp-param-region", "null")],
        ),
        (json!({ "region": null }), vec![("mcp-param-region", "")]),
        (json!({ "place": null }), vec![("mcp-param-rack", "south")]),
        (
            json!({ "region": ["us-west1"] }),
            vec![("mcp-param-region", "us-west1")],
        ),
        (json!({ "level": 1.5 }), vec![("mcp-param-level", "1.5")]),
    ] {
        let bank = bank();
        let reply = send(&bank, arguments.clone(), &headers).await;
        MISMATCH.check(&format!("{arguments} {headers:?}"), &reply);
        assert_eq!(bank.effects.count(), 0);
        let message = reply.body["error"]["message"].as_str().unwrap();
        assert!(
            message.contains("Mcp-Param-") && !message.contains("us-west"),
            "{message}"
        );
    }
}

#[tokio::test]
async fn one_value_twice_is_no_value() {
    let bank = bank();
    let call = Call::of("query", json!({ "region": "a" })).header("mcp-param-region", "a");
    assert_eq!(bank.send(&call).await.text(), "done");
    let mut twice = call.clone();
    twice.headers.push(("mcp-param-region".into(), "a".into()));
    MISMATCH.check("twice", &bank.send(&twice).await);
    let mut request = call.with_body(call.body.to_string());
    let latin1 = http::HeaderValue::from_bytes(b"caf\xe9").unwrap();
    request.headers_mut().insert("mcp-param-region", latin1);
    MISMATCH.check("no visible ASCII", &bank.send_raw(request).await);
    let mut request = call.clone().argument("region", "caf\u{e9}").with_body(
        call.clone()
            .argument("region", "caf\u{e9}")
            .body
            .to_string(),
    );
    let utf8 = http::HeaderValue::from_bytes("caf\u{e9}".as_bytes()).unwrap();
    request.headers_mut().insert("mcp-param-region", utf8);
    MISMATCH.check("raw UTF-8", &bank.send_raw(request).await);
    assert_eq!(bank.effects.count(), 1);
}

#[tokio::test]
async fn arguments_that_fail_the_schema_are_the_models_to_mend_still() {
    let bank = bank();
    for arguments in [
        json!({ "region": ["a"] }),
        json!({ "level": 1.5 }),
        json!({ "place": 7 }),
    ] {
        let reply = send(&bank, arguments.clone(), &[]).await;
        assert_eq!(
            reply.body["result"]["isError"], true,
            "{arguments}: {reply:?}"
        );
    }
    // A prompt of the same name has nothing to do with it.
    let prompted = Call::prompt("query", json!({})).header("mcp-param-region", "x");
    assert_eq!(bank.send(&prompted).await.status, StatusCode::OK);
    let unknown = Call::of("nobody", json!({ "region": "a" })).header("mcp-param-region", "b");
    Refusal::params().check("an unknown tool", &bank.send(&unknown).await);
}

#[tokio::test]
async fn a_client_sends_what_the_server_wants() {
    let server = Server::builder("s", "1")
        .allow_anonymous()
        .state(Effects::default())
        .tool(tool("query", query))
        .build()
        .unwrap();
    let harness = Harness::new(server);
    let client = harness.client().build().unwrap();
    let [listed] = &client.list_tools().await.unwrap()[..] else {
        panic!("one tool, valid to a client")
    };
    let schema: Value = serde_json::from_str(listed.input_schema.as_str()).unwrap();
    assert_eq!(
        (&schema["properties"]["region"], &schema["required"]),
        (
            &json!({ "type": "string", "x-mcp-header": "Region" }),
            &Value::Null
        ),
        "an option may be left out, and is of one type"
    );
    let arguments =
        json!({ "region": " caf\u{e9}", "level": -7, "dry": true, "place": { "rack": "north" } });
    let result = client.call_tool("query", arguments).await.unwrap();
    assert_eq!(result.joined_text(), "done");
    let sent = &harness.exchanges().pop().unwrap();
    assert_eq!(sent.headers()["mcp-param-rack"], "north");
    // One that has never listed the tools is told, lists them, and sends the headers.
    let fresh = harness.client().build().unwrap();
    let result = fresh.call_tool("query", json!({ "region": "x" })).await;
    assert_eq!(result.unwrap().joined_text(), "done");
}

/// Why a tool with these arguments cannot be served.
fn build<T: serde::de::DeserializeOwned + JsonSchema + Send + 'static>() -> String {
    let builder: ServerBuilder = Server::builder("s", "1").allow_anonymous();
    let tool = tool("t", async |_: Args<T>| "x");
    builder.tool(tool).build().unwrap_err().to_string()
}

#[test]
fn case_189_annotations_that_no_client_would_take_are_refused() {
    #[derive(Deserialize, JsonSchema)]
    #[allow(dead_code, reason = "only the schema is looked at")]
    struct Twice {
        #[schemars(extend("x-mcp-header" = "Region"))]
        a: String,
        #[schemars(extend("x-mcp-header" = "rEGION"))]
        b: String,
    }
    #[derive(Deserialize, JsonSchema)]
    #[allow(dead_code, reason = "only the schema is looked at")]
    struct Number {
        #[schemars(extend("x-mcp-header" = "N"))]
        n: f64,
    }
    #[derive(Deserialize, JsonSchema)]
    #[allow(dead_code, reason = "only the schema is looked at")]
    struct Empty {
        #[schemars(extend("x-mcp-header" = ""))]
        n: String,
    }
    #[derive(Deserialize, JsonSchema)]
    #[allow(dead_code, reason = "only the schema is looked at")]
    struct Broken {
        #[schemars(extend("x-mcp-header" = "a\r\nb"))]
        n: String,
    }
    #[derive(Deserialize, JsonSchema)]
    #[allow(dead_code, reason = "only the schema is looked at")]
    struct Listed {
        list: Vec<Number>,
    }
    for (error, part) in [
        (build::<Twice>(), "used twice"),
        (build::<Number>(), "string, integer or boolean"),
        (build::<Empty>(), "non-empty token"),
        (build::<Broken>(), "non-empty token"),
        (build::<Listed>(), "reachable through `properties`"),
    ] {
        assert!(
            error.contains(part) && error.contains("tool `t`"),
            "{error}"
        );
    }
}

#[test]
fn case_190_a_secret_is_in_no_header() {
    #[derive(Deserialize, JsonSchema)]
    #[allow(dead_code, reason = "only the schema is looked at")]
    struct ApiKey {
        #[schemars(extend("x-mcp-header" = "Key"))]
        api_key: String,
    }
    #[derive(Deserialize, JsonSchema)]
    #[allow(dead_code, reason = "only the schema is looked at")]
    struct Password {
        #[schemars(extend("x-mcp-header" = "Region"))]
        password: String,
    }
    #[derive(Deserialize, JsonSchema)]
    #[allow(dead_code, reason = "only the schema is looked at")]
    struct Token {
        #[schemars(extend("x-mcp-header" = "Region"))]
        #[serde(rename = "accessToken")]
        token: String,
    }
    for (error, name) in [
        (build::<ApiKey>(), "api_key"),
        (build::<Password>(), "password"),
        (build::<Token>(), "accessToken"),
    ] {
        let part = format!("`{name}` asks for a secret");
        assert!(
            error.contains(&part) && error.contains("tool `t`"),
            "{error}"
        );
    }
}

#[tokio::test]
async fn case_190_headers_are_not_in_the_log() {
    let (log, _listening) = Log::listen();
    let bank = bank();
    let call = Call::of("query", json!({ "region": "a region of mine" }))
        .header("cookie", "sid=a cookie of mine")
        .header("x-api-key", "a key of mine");
    let good = call.clone().header("mcp-param-region", "a region of mine");
    assert_eq!(bank.send(&good).await.text(), "done");
    let other = call.clone().header("mcp-param-region", "another of mine");
    MISMATCH.check("another", &bank.send(&other).await);
    let stranger = good.by("a token of mine");
    assert_eq!(bank.send(&stranger).await.status, StatusCode::UNAUTHORIZED);
    let text = log.text();
    assert!(text.contains("query"), "{text}");
    assert!(!text.contains("of mine"), "{text}");
}

#[tokio::test]
async fn the_earlier_era_knows_no_such_headers() {
    let bank = bank();
    let session = Session::open(&bank.server, json!({})).await;
    let params = json!({ "name": "query", "arguments": { "region": "us-west1" } });
    let reply = session.reply("tools/call", params).await;
    assert_eq!(reply.text(), "done");
}
