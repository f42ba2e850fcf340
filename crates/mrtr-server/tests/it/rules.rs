//! Rules of the specification that no other test here is about: what every answer has, what a schema is, what a URI is.

use http::StatusCode;
use mrtr_server::protocol::content::ContentBlock;
use mrtr_server::{
    Args, BuildError, CreateMessageParams, Flow, Form, MemoryVisits, Pages, PromptMessage,
    ResourceContents, ResourceResult, Roots, Sampling, SamplingMessage, Server, State, prompt,
    resource, template, tool,
};
use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};

use crate::bank::{Bank, Call, Reply, accept};
use crate::cases::Refusal;
use crate::session::Session;

#[derive(Deserialize, JsonSchema)]
#[allow(dead_code, reason = "it is only read")]
struct Path {
    path: String,
}

/// A bank with one of each: prompts, resources, and a tool for each kind of question.
fn full() -> Bank {
    let clock = Bank::new().clock;
    let pages = Pages::new("https://bank.example/connect", MemoryVisits::new(clock)).unwrap();
    Bank::with(|builder| {
        builder
            .state(pages)
            .prompt(prompt("brief", async || "Brief me."))
            .resource(resource("note://today", async || "a note"))
            .resource(template(
                "file:///notes/{path}",
                async |Args(Path { path }): Args<Path>| format!("the file {path}"),
            ))
            .tool(tool(
                "page",
                async |flow: Flow, State(pages): State<Pages>| {
                    let _ = flow.ask_url("k", "Link it.", &pages).await;
                    "done"
                },
            ))
            .tool(tool("model", async |flow: Flow| {
                let ask =
                    CreateMessageParams::new(vec![SamplingMessage::user("One sentence.")], 50);
                let _ = flow.ask("k", Sampling::new(ask)).await;
                "done"
            }))
            .tool(tool("folders", async |flow: Flow| {
                let _ = flow.ask("k", Roots::new()).await;
                "done"
            }))
    })
}

fn everything() -> Value {
    json!({ "elicitation": { "form": {}, "url": {} }, "sampling": { "tools": {} }, "roots": {} })
}

/// One good request of each method.
fn requests() -> Vec<Call> {
    let mut all: Vec<Call> = [
        "server/discover",
        "tools/list",
        "prompts/list",
        "resources/list",
        "resources/templates/list",
    ]
    .map(Call::nameless)
    .into();
    all.extend([
        Call::of("plain", json!({})),
        Call::prompt("brief", json!({})),
        Call::resource("note://today"),
    ]);
    all
}

#[tokio::test]
async fn case_129_every_result_says_its_type() {
    let bank = full();
    for call in requests() {
        let reply = bank.send(&call).await;
        assert_eq!(reply.body["result"]["resultType"], "complete", "{reply:?}");
        assert_eq!(reply.headers["content-type"], "application/json");
        assert_eq!(
            (&reply.body["jsonrpc"], &reply.body["id"]),
            (&json!("2.0"), &json!(1))
        );
    }
    let failed = bank.send(&Call::of("transfer", json!({}))).await;
    assert_eq!(failed.body["result"]["isError"], true, "{failed:?}");
    assert_eq!(failed.body["result"]["resultType"], "complete");
    let asked = bank.send(&Call::first()).await;
    assert_eq!(asked.body["result"]["resultType"], "input_required");
    let done = bank.send(&Call::retry(asked.state())).await;
    assert_eq!(done.body["result"]["resultType"], "complete", "{done:?}");
}

/// The earlier era has no types of results, and no hints on how long to keep them.
#[tokio::test]
async fn case_129_no_result_of_the_earlier_era_says_a_type() {
    let session = Session::open(&full().server, everything()).await;
    for call in requests() {
        let mut params = call.body["params"].clone();
        params.as_object_mut().unwrap().remove("_meta");
        let method = call.body["method"].as_str().unwrap();
        let method = match method {
            "server/discover" => "ping",
            method => method,
        };
        let reply = session.reply(method, params).await;
        let result = reply.body["result"].as_object().unwrap();
        for modern in ["resultType", "ttlMs", "cacheScope"] {
            assert!(!result.contains_key(modern), "{method}: {reply:?}");
        }
    }
}

#[tokio::test]
async fn what_may_be_kept_says_for_how_long_and_by_whom() {
    let bank = full();
    for call in requests() {
        let reply = bank.send(&call).await;
        let result = &reply.body["result"];
        let method = call.body["method"].as_str().unwrap();
        if ["tools/call", "prompts/get"].contains(&method) {
            assert!(
                result.get("ttlMs").is_none() && result.get("cacheScope").is_none(),
                "{reply:?}"
            );
        } else {
            assert!(result["ttlMs"].is_u64(), "{reply:?}");
            assert!(
                ["public", "private"].contains(&result["cacheScope"].as_str().unwrap()),
                "{reply:?}"
            );
        }
    }
    let asked = bank.send(&Call::first()).await;
    assert_eq!(asked.asks(), ["confirm"]);
    assert!(asked.body["result"].get("ttlMs").is_none(), "{asked:?}");
}

#[tokio::test]
async fn case_260_an_error_has_its_requests_id_and_a_code_that_is_defined() {
    let bank = full();
    let call = |call: Call| call.id("seven");
    for (bad, status, code) in [
        (Call::of("nobody", json!({})), 200, -32602),
        (Call::prompt("nobody", json!({})), 200, -32602),
        (Call::resource("note://nobody"), 200, -32602),
        (Call::nameless("foo/bar"), 404, -32601),
        (Call::first().header("mcp-name", "other"), 400, -32020),
        (Call::first().declaring(json!({})), 400, -32021),
        (Call::first().without_param("_meta"), 400, -32602),
        (
            Call::first()
                .meta("io.modelcontextprotocol/protocolVersion", "1900-01-01")
                .header("mcp-protocol-version", "1900-01-01"),
            400,
            -32022,
        ),
        (Call::retry("nonsense"), 200, -32602),
    ] {
        let reply = bank.send(&call(bad)).await;
        assert_eq!(reply.status.as_u16(), status, "{reply:?}");
        assert_eq!(reply.code(), Some(code), "{reply:?}");
        assert_eq!(reply.body["id"], "seven", "{reply:?}");
        assert!(reply.body["error"]["message"].is_string() && reply.body.get("result").is_none());
    }
}

#[tokio::test]
async fn case_192_a_version_that_is_not_spoken_is_answered_with_those_that_are() {
    let bank = Bank::new();
    for version in ["1900-01-01", "2099-01-01", "latest"] {
        let call = Call::first()
            .meta("io.modelcontextprotocol/protocolVersion", version)
            .header("mcp-protocol-version", version);
        let reply = bank.send(&call).await;
        Refusal::http(StatusCode::BAD_REQUEST, -32022).check(version, &reply);
        assert_eq!(reply.headers["content-type"], "application/json");
        assert_eq!(reply.body["id"], 1);
        let data = &reply.body["error"]["data"];
        assert_eq!(data["requested"], version);
        assert!(
            data["supported"]
                .as_array()
                .unwrap()
                .contains(&json!("2026-07-28")),
            "{reply:?}"
        );
    }
    assert_eq!(bank.send(&Call::first()).await.asks(), ["confirm"]);
}

#[tokio::test]
async fn a_question_is_a_result_and_no_request() {
    let bank = full();
    for (tool, method) in [
        ("two", "elicitation/create"),
        ("page", "elicitation/create"),
        ("model", "sampling/createMessage"),
        ("folders", "roots/list"),
    ] {
        let reply = bank
            .send(&Call::of(tool, json!({})).declaring(everything()))
            .await;
        assert!(
            reply.body.get("method").is_none() && reply.body["id"] == 1,
            "{reply:?}"
        );
        assert_eq!(
            reply.body["result"]["resultType"], "input_required",
            "{reply:?}"
        );
        let requests = reply.body["result"]["inputRequests"].as_object().unwrap();
        assert!(!requests.is_empty(), "{reply:?}");
        for request in requests.values() {
            assert_eq!(request["method"], method);
            assert!(request.get("id").is_none() && request.get("jsonrpc").is_none());
        }
    }
}

/// Serves a bank over one connection that stays open.
struct Connection(TcpStream);

impl Connection {
    async fn open(bank: &Bank) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let server = bank.server.clone();
        tokio::spawn(async move { server.serve(listener, std::future::pending()).await });
        Self(TcpStream::connect(address).await.unwrap())
    }

    /// The status and the body of what comes back.
    async fn send(&mut self, call: &Call) -> (u16, Value) {
        let body = call.body.to_string();
        let mut head = String::from("POST /mcp HTTP/1.1\r\n");
        for (name, value) in &call.headers {
            head.push_str(&format!("{name}: {value}\r\n"));
        }
        head.push_str(&format!("content-length: {}\r\n\r\n", body.len()));
        self.0.write_all(head.as_bytes()).await.unwrap();
        self.0.write_all(body.as_bytes()).await.unwrap();
        let mut answer = Vec::new();
        let end = loop {
            answer.push(self.0.read_u8().await.unwrap());
            if answer.ends_with(b"\r\n\r\n") {
                break String::from_utf8(answer).unwrap().to_ascii_lowercase();
            }
        };
        let length = end.split("content-length: ").nth(1).unwrap();
        let length = length.split("\r\n").next().unwrap().parse().unwrap();
        let mut body = vec![0; length];
        self.0.read_exact(&mut body).await.unwrap();
        let status = end.split(' ').nth(1).unwrap().parse().unwrap();
        (status, serde_json::from_slice(&body).unwrap_or_default())
    }
}

#[tokio::test]
async fn nothing_of_a_request_is_remembered_for_the_next_on_its_connection() {
    let bank = full();
    let mut connection = Connection::open(&bank).await;
    let asks = |(status, body): &(u16, Value)| {
        *status == 200 && body["result"]["inputRequests"]["confirm"].is_object()
    };
    assert!(
        asks(&connection.send(&Call::first()).await),
        "the good path"
    );
    // Neither what the client can do, nor its version, nor who it is.
    let (status, body) = connection.send(&Call::first().declaring(json!({}))).await;
    assert_eq!(
        (status, &body["error"]["code"]),
        (400, &json!(-32021)),
        "{body}"
    );
    let (status, body) = connection.send(&Call::first().without_param("_meta")).await;
    assert_eq!(
        (status, &body["error"]["code"]),
        (400, &json!(-32602)),
        "{body}"
    );
    let (_, first) = connection.send(&Call::first()).await;
    let state = first["result"]["requestState"].as_str().unwrap();
    let (_, body) = connection
        .send(&Call::retry(state).without_header("authorization"))
        .await;
    assert_eq!(
        body["error"]["data"]["reason"], "different_principal",
        "{body}"
    );
    let (_, body) = connection.send(&Call::retry(state)).await;
    assert_eq!(body["result"]["content"][0]["text"], "done 1", "{body}");
}

#[tokio::test]
async fn lists_are_the_same_on_every_connection_whatever_came_before() {
    let bank = full();
    for method in [
        "tools/list",
        "prompts/list",
        "resources/list",
        "resources/templates/list",
    ] {
        let mut one = Connection::open(&bank).await;
        let mut other = Connection::open(&bank).await;
        let (status, before) = one.send(&Call::nameless(method)).await;
        assert_eq!(status, 200, "{before}");
        for call in requests() {
            other.send(&call).await;
        }
        assert_eq!(other.send(&Call::nameless(method)).await.1, before);
        assert_eq!(one.send(&Call::nameless(method)).await.1, before);
    }
}

#[tokio::test]
async fn header_names_have_no_case_and_their_values_have() {
    let bank = Bank::new();
    let mut connection = Connection::open(&bank).await;
    let mut call = Call::first();
    for (name, _) in &mut call.headers {
        *name = name.to_ascii_uppercase();
    }
    let (status, body) = connection.send(&call).await;
    assert_eq!(
        (status, &body["result"]["resultType"]),
        (200, &json!("input_required")),
        "{body}"
    );
    for (name, value) in [
        ("mcp-method", "Tools/Call"),
        ("mcp-name", "Transfer"),
        ("mcp-name", "=?BASE64?dHJhbnNmZXI=?="),
    ] {
        let (status, body) = connection.send(&Call::first().header(name, value)).await;
        assert_eq!(
            (status, &body["error"]["code"]),
            (400, &json!(-32020)),
            "{value}: {body}"
        );
    }
}

#[tokio::test]
async fn case_204_a_notification_is_accepted_without_a_body_or_refused_by_status() {
    let bank = Bank::new();
    let send = async |body: &str| -> Reply {
        bank.send_raw(Call::first().with_body(body.to_owned()))
            .await
    };
    let accepted = send(r#"{"jsonrpc":"2.0","method":"notifications/x","params":{}}"#).await;
    assert_eq!(
        (accepted.status, &accepted.body),
        (StatusCode::ACCEPTED, &Value::Null)
    );
    for bad in [
        r#"{"jsonrpc":"2.0","method":"notifications/x","params":[]}"#,
        r#"{"jsonrpc":"2.0","method":"notifications/x","params":{"a":1,"a":2}}"#,
        r#"{"jsonrpc":"1.0","method":"notifications/x"}"#,
        r#"{"jsonrpc":"2.0","result":{}}"#,
    ] {
        let refused = send(bad).await;
        assert_eq!(refused.status, StatusCode::BAD_REQUEST, "{bad}");
        assert!(
            refused.body.get("id").is_none() && refused.code() == Some(-32600),
            "{refused:?}"
        );
    }
}

/// The error of a server whose tool takes `T`.
fn refused<T: for<'de> Deserialize<'de> + JsonSchema + Send + 'static>() -> BuildError {
    let server = Server::builder("s", "1")
        .allow_anonymous()
        .tool(tool("t", async |_: Args<T>| "x"));
    server.build().unwrap_err()
}

#[tokio::test]
async fn schemas_are_read_as_2020_12() {
    #[derive(Deserialize, JsonSchema)]
    #[schemars(extend("dependentRequired" = { "a": ["b"] }))]
    #[allow(dead_code, reason = "only the schema is looked at")]
    struct Plain {
        a: Option<u8>,
        b: Option<u8>,
    }
    #[derive(Deserialize, JsonSchema)]
    #[schemars(extend("$schema" = "https://json-schema.org/draft/2020-12/schema", "dependentRequired" = { "a": ["b"] }))]
    #[allow(dead_code, reason = "only the schema is looked at")]
    struct Named {
        a: Option<u8>,
        b: Option<u8>,
    }
    let bank = Bank::with(|builder| {
        builder
            .tool(tool("plain_schema", async |_: Args<Plain>| "x"))
            .tool(tool("named_schema", async |_: Args<Named>| "x"))
    });
    // A keyword that older drafts do not know.
    for tool in ["plain_schema", "named_schema"] {
        let good = bank.send(&Call::of(tool, json!({ "a": 1, "b": 1 }))).await;
        assert_eq!(good.text(), "x");
        let bad = bank.send(&Call::of(tool, json!({ "a": 1 }))).await;
        assert_eq!(bad.body["result"]["isError"], true, "{bad:?}");
    }
}

#[test]
fn another_dialect_and_what_is_no_schema_are_refused() {
    #[derive(Deserialize, JsonSchema)]
    #[schemars(extend("$schema" = "http://json-schema.org/draft-07/schema#"))]
    struct Draft7 {}
    let error = refused::<Draft7>().to_string();
    assert!(
        error.contains("draft-07") && error.contains("not supported"),
        "{error}"
    );

    #[derive(Deserialize, JsonSchema)]
    #[schemars(extend("required" = "a"))]
    struct NoSchema {}
    let error = refused::<NoSchema>().to_string();
    assert!(error.contains("does not compile"), "{error}");

    let error = refused::<String>().to_string();
    assert!(error.contains("an object on the wire"), "{error}");
    let error = refused::<()>().to_string();
    assert!(error.contains("an object on the wire"), "{error}");
}

#[test]
fn references_to_the_network_are_not_followed() {
    static LISTENER: std::sync::LazyLock<std::net::TcpListener> = std::sync::LazyLock::new(|| {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        listener.set_nonblocking(true).unwrap();
        listener
    });
    fn far(_: &mut SchemaGenerator) -> Schema {
        let address = LISTENER.local_addr().unwrap();
        Schema::try_from(json!({ "$ref": format!("http://{address}/s.json") })).unwrap()
    }
    #[derive(Deserialize, JsonSchema)]
    #[allow(dead_code, reason = "only the schema is looked at")]
    struct Far {
        #[schemars(schema_with = "far")]
        a: Value,
    }
    let error = refused::<Far>().to_string();
    assert!(error.contains("does not compile"), "{error}");
    let asked = LISTENER.accept();
    assert_eq!(
        asked.unwrap_err().kind(),
        std::io::ErrorKind::WouldBlock,
        "nobody was asked"
    );
}

#[tokio::test]
async fn case_173_a_form_that_asks_for_a_secret_is_never_put() {
    #[derive(Deserialize, JsonSchema)]
    #[allow(dead_code, reason = "it is never answered")]
    struct Login {
        user: String,
        password: String,
    }
    let bank = Bank::with(|builder| {
        builder.tool(tool("login", async |flow: Flow| {
            let _ = flow.ask("k", Form::<Login>::new("Who are you?")).await;
            "asked"
        }))
    });
    let reply = bank.send(&Call::of("login", json!({}))).await;
    assert_eq!(reply.code(), Some(-32603), "{reply:?}");
    assert!(reply.body.get("result").is_none());
    let error = Form::<Login>::check().unwrap_err().to_string();
    assert!(error.contains("password"), "{error}");
    let good = bank.send(&Call::first()).await;
    let done = bank
        .send(
            &Call::first()
                .id(2)
                .state(good.state())
                .answer("confirm", accept(json!({ "ok": true }))),
        )
        .await;
    assert_eq!(done.text(), "done 1");
}

#[tokio::test]
async fn content_that_nobody_could_read_is_not_sent() {
    let bank = Bank::with(|builder| {
        builder
            .tool(tool("good", async || {
                ContentBlock::image("AA==", "image/png")
            }))
            .tool(tool("bad", async || {
                ContentBlock::image("no base64", "image/png")
            }))
            .prompt(prompt("good", async || vec![PromptMessage::user("x")]))
            .prompt(prompt("bad", async || {
                let message = PromptMessage::user("x");
                let content = ContentBlock::audio("AA==", "wav");
                vec![PromptMessage { content, ..message }]
            }))
            .resource(resource("data://bad", async || {
                ResourceResult::new(vec![ResourceContents::blob("data://bad", "no base64")])
            }))
    });
    let good = bank.send(&Call::of("good", json!({}))).await;
    assert_eq!(
        good.body["result"]["content"][0]["data"], "AA==",
        "{good:?}"
    );
    let bad = bank.send(&Call::of("bad", json!({}))).await;
    assert_eq!(
        (bad.text(), &bad.body["result"]["isError"]),
        ("The tool failed.", &json!(true))
    );
    let good = bank.send(&Call::prompt("good", json!({}))).await;
    assert_eq!(
        good.body["result"]["messages"][0]["content"]["text"], "x",
        "{good:?}"
    );
    for call in [Call::prompt("bad", json!({})), Call::resource("data://bad")] {
        assert_eq!(bank.send(&call).await.code(), Some(-32603));
    }
}

#[tokio::test]
async fn case_180_tools_for_a_model_are_put_to_those_who_declared_them() {
    let bank = Bank::with(|builder| {
        builder.tool(tool("model", async |flow: Flow| {
            let mut ask = CreateMessageParams::new(vec![SamplingMessage::user("Go.")], 50);
            ask.tools = Some(Vec::new());
            let _ = flow.ask("k", Sampling::new(ask)).await;
            "done"
        }))
    });
    let call = |capabilities: Value| Call::of("model", json!({})).declaring(capabilities);
    let asked = bank
        .send(&call(json!({ "sampling": { "tools": {} } })))
        .await;
    assert_eq!(asked.asks(), ["k"], "{asked:?}");
    let refused = bank.send(&call(json!({ "sampling": {} }))).await;
    Refusal::http(StatusCode::BAD_REQUEST, -32021).check("no tools", &refused);
    let required = &refused.body["error"]["data"]["requiredCapabilities"];
    assert_eq!(*required, json!({ "sampling": { "tools": {} } }));
}

#[tokio::test]
async fn uris_are_looked_at_before_anything_is_read() {
    let bank = full();
    let good = bank.send(&Call::resource("file:///notes/a.md")).await;
    assert_eq!(
        good.body["result"]["contents"][0]["text"], "the file a.md",
        "{good:?}"
    );
    for uri in [
        "a.md",
        "file:///notes/..",
        "file:///notes/%2e%2e",
        "file:///notes/..%2f..%2fetc%2fpasswd",
        "file:///notes/%2Fetc%2Fpasswd",
        "file:///notes/..%5cb",
        "file:///notes/a%00.md",
        "file:///notes/two words",
        "file:///notes/%zz",
    ] {
        let mut call = Call::resource("file:///notes/a.md").param("uri", uri);
        call = call.header("mcp-name", &mrtr_server::protocol::headers::encode(uri));
        let reply = bank.send(&call).await;
        assert_eq!(reply.code(), Some(-32602), "{uri}: {reply:?}");
        assert!(reply.body.get("result").is_none(), "{uri}");
    }
    for uri in [
        "today",
        "note://two words",
        "note://caf\u{e9}",
        "file:///a/../b",
    ] {
        let server = Server::builder("s", "1")
            .allow_anonymous()
            .resource(resource(uri, async || "x"));
        let error = server.build().unwrap_err().to_string();
        assert!(error.contains("RFC 3986"), "{uri}: {error}");
    }
}
