//! Entries of `_meta` that a handler sees, which belong to the request; and the trace context, which does not.

use std::time::Duration;

use mrtr_server::{
    Args, Caching, Call as Extracting, Extract, ExtractError, Flow, Form, Json, Meta, MetaEntry,
    Partial, Server, Spec, TraceContext, prompt, resource, template, tool,
};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::bank::{Bank, Call, Reply, accept};
use crate::cases::Refusal;
use crate::session::Session;

#[derive(Deserialize)]
struct Tenant {
    name: String,
    level: u8,
}

impl MetaEntry for Tenant {
    const KEY: &'static str = "com.example/tenant";
}

#[derive(Deserialize)]
struct Locale(String);

impl MetaEntry for Locale {
    const KEY: &'static str = "com.example/locale";
}

#[derive(Deserialize, JsonSchema)]
struct Confirm {
    ok: bool,
}

#[derive(Deserialize, JsonSchema)]
#[allow(dead_code, reason = "only what `_meta` does is looked at")]
struct Id {
    id: Option<String>,
}

/// What one of our users might write: it names one key, and tries another.
struct Curious(Option<String>, Option<String>);

impl Extract for Curious {
    fn describe(spec: &mut Spec) {
        spec.meta_entry("com.example/named");
    }

    fn extract(call: &mut Extracting<'_>) -> Result<Self, ExtractError> {
        let text = |key| call.meta_entry(key).map(|raw| raw.get().to_owned());
        Ok(Self(text("com.example/named"), text("com.example/unnamed")))
    }
}

async fn ask(Meta(tenant): Meta<Tenant>, locale: Option<Meta<Locale>>, flow: Flow) -> String {
    let question = Form::<Confirm>::new(format!("For {}?", tenant.name));
    let ok = flow.ask("ok", question).await.accepted();
    let locale = locale.map_or_else(|| "none".to_owned(), |Meta(Locale(tag))| tag);
    format!(
        "{} {} {locale} {}",
        tenant.name,
        tenant.level,
        ok.is_some_and(|Confirm { ok }| ok)
    )
}

fn bank() -> Bank {
    Bank::with(|builder| {
        builder
            .tool(tool("ask", ask))
            .prompt(prompt("ask", ask))
            .resource(resource("r://ask", ask))
            .tool(tool("curious", async |Curious(named, unnamed): Curious| {
                format!("{named:?} {unnamed:?}")
            }))
            .tool(tool("trace", async |trace: TraceContext, flow: Flow| {
                let _ = flow.ask("ok", Form::<Confirm>::new("Go on?")).await;
                Json(json!([
                    trace.traceparent(),
                    trace.tracestate(),
                    trace.baggage(),
                    trace.trace_id(),
                    trace.parent_id(),
                    trace.is_sampled(),
                ]))
            }))
            .prompt(prompt("typed", async |_: Args<Id>| "x").complete(
                "id",
                async |typed: Partial, Meta(tenant): Meta<Tenant>| {
                    typed.matching([format!("{}-1", tenant.name)])
                },
            ))
    })
}

fn tenant(name: &str) -> Value {
    json!({ "name": name, "level": 7 })
}

fn with_tenant(call: Call) -> Call {
    call.meta("com.example/tenant", tenant("acme"))
}

fn retry(call: Call, asked: &Reply) -> Call {
    call.id(2)
        .state(asked.state())
        .answer("ok", accept(json!({ "ok": true })))
}

#[tokio::test]
async fn an_entry_is_read_and_belongs_to_the_request() {
    let bank = bank();
    for call in [
        Call::of("ask", json!({})),
        Call::prompt("ask", json!({})),
        Call::resource("r://ask"),
    ] {
        let asked = bank.send(&with_tenant(call.clone())).await;
        assert_eq!(asked.asks(), ["ok"], "{asked:?}");
        let request = &asked.body["result"]["inputRequests"]["ok"]["params"]["message"];
        assert_eq!(request, "For acme?");
        let different = Refusal::state("different_request");
        for (name, bent) in [
            (
                "another tenant",
                call.clone().meta("com.example/tenant", tenant("evil")),
            ),
            (
                "another level",
                call.clone()
                    .meta("com.example/tenant", json!({ "name": "acme", "level": 8 })),
            ),
            (
                "one more member",
                call.clone().meta(
                    "com.example/tenant",
                    json!({ "name": "acme", "level": 7, "x": 1 }),
                ),
            ),
            ("no tenant", call.clone()),
            ("null", call.clone().meta("com.example/tenant", Value::Null)),
            (
                "a locale that was not there",
                with_tenant(call.clone()).meta("com.example/locale", "de"),
            ),
            (
                "a locale of null",
                with_tenant(call.clone()).meta("com.example/locale", Value::Null),
            ),
        ] {
            different.check(name, &bank.send(&retry(bent, &asked)).await);
        }
        // What the handler does not see may change, and the order of members is nothing.
        let same = call
            .clone()
            .meta("com.example/tenant", json!({ "level": 7, "name": "acme" }))
            .meta("com.example/other", 9)
            .meta(
                "traceparent",
                "00-0af7651916cd43dd8448eb211c80319c-00f067aa0ba902b7-01",
            );
        let done = bank.send(&retry(same, &asked)).await;
        assert!(
            done.body.to_string().contains("acme 7 none true"),
            "{done:?}"
        );
    }
}

#[tokio::test]
async fn an_entry_that_is_missing_or_another_is_an_error() {
    let bank = bank();
    let call = Call::of("ask", json!({}));
    assert_eq!(bank.send(&with_tenant(call.clone())).await.asks(), ["ok"]);
    for (name, bad) in [
        ("missing", call.clone()),
        ("null", call.clone().meta("com.example/tenant", Value::Null)),
        ("text", call.clone().meta("com.example/tenant", "acme")),
        (
            "another shape",
            call.clone()
                .meta("com.example/tenant", json!({ "name": "acme" })),
        ),
        (
            "another case",
            call.clone().meta("com.example/Tenant", tenant("acme")),
        ),
        (
            "an option of another type",
            with_tenant(call.clone()).meta("com.example/locale", 7),
        ),
    ] {
        let reply = bank.send(&bad).await;
        Refusal::params().check(name, &reply);
        let message = reply.body["error"]["message"].as_str().unwrap();
        assert!(
            message.contains("com.example/") && !message.contains("acme"),
            "{message}"
        );
    }
}

#[tokio::test]
async fn only_what_was_named_can_be_reached() {
    let bank = bank();
    let call = Call::of("curious", json!({}))
        .meta("com.example/named", json!([1]))
        .meta("com.example/unnamed", json!([2]));
    assert_eq!(bank.send(&call).await.text(), "Some(\"[1]\") None");
}

#[tokio::test]
async fn completions_and_the_earlier_era_have_entries_too() {
    let bank = bank();
    let complete = Call::nameless("completion/complete")
        .param("ref", json!({ "type": "ref/prompt", "name": "typed" }))
        .param("argument", json!({ "name": "id", "value": "a" }));
    let reply = bank.send(&with_tenant(complete.clone())).await;
    assert_eq!(
        reply.body["result"]["completion"]["values"],
        json!(["acme-1"])
    );
    Refusal::params().check("no tenant", &bank.send(&complete).await);

    let session = Session::open(&bank.server, json!({})).await;
    let params = json!({ "name": "curious", "_meta": { "com.example/named": 5 } });
    assert_eq!(
        session.reply("tools/call", params).await.text(),
        "Some(\"5\") None"
    );
    let missing = session
        .reply("tools/call", json!({ "name": "ask", "arguments": {} }))
        .await;
    assert_eq!(missing.code(), Some(-32602), "{missing:?}");
}

const PARENT: &str = "00-0af7651916cd43dd8448eb211c80319c-00f067aa0ba902b7-01";

#[tokio::test]
async fn a_trace_context_is_read_and_may_change_from_round_to_round() {
    let bank = bank();
    let call = || {
        Call::of("trace", json!({}))
            .meta("traceparent", PARENT)
            .meta("tracestate", "rojo=1")
            .meta("baggage", "user=a%20b")
    };
    let asked = bank.send(&call()).await;
    let structured = |reply: &Reply| reply.body["result"]["structuredContent"].clone();
    let other = PARENT.replace("00f067", "11f067").replace("-01", "-00");
    let done = bank
        .send(&retry(call().meta("traceparent", other.as_str()), &asked))
        .await;
    assert_eq!(
        structured(&done),
        json!([
            other,
            "rojo=1",
            "user=a%20b",
            "0af7651916cd43dd8448eb211c80319c",
            "11f067aa0ba902b7",
            false
        ])
    );
    // What is not spelt as it should be is as good as absent, and no reason to refuse a call.
    for (bent, expected) in [
        (
            call().meta("traceparent", PARENT.to_uppercase()),
            json!([null, null, "user=a%20b", null, null, false]),
        ),
        (
            call().meta("traceparent", 7),
            json!([null, null, "user=a%20b", null, null, false]),
        ),
        (
            call().meta("tracestate", "A=1").meta("baggage", "x"),
            json!([
                PARENT,
                null,
                null,
                "0af7651916cd43dd8448eb211c80319c",
                "00f067aa0ba902b7",
                true,
            ]),
        ),
    ] {
        let asked = bank.send(&bent).await;
        let done = bank.send(&retry(bent, &asked)).await;
        assert_eq!(structured(&done), expected);
    }
}

#[test]
fn keys_that_are_not_an_applications_own_are_refused() {
    struct Reserved;
    impl<'de> Deserialize<'de> for Reserved {
        fn deserialize<D: serde::Deserializer<'de>>(_: D) -> Result<Self, D::Error> {
            Ok(Self)
        }
    }
    impl MetaEntry for Reserved {
        const KEY: &'static str = "io.modelcontextprotocol/clientInfo";
    }
    struct Malformed;
    impl Extract for Malformed {
        fn describe(spec: &mut Spec) {
            spec.meta_entry("a b");
        }
        fn extract(_: &mut Extracting<'_>) -> Result<Self, ExtractError> {
            Ok(Self)
        }
    }
    let builder = || Server::builder("s", "1").allow_anonymous();
    let refused = |builder: mrtr_server::ServerBuilder, part: &str| {
        let error = builder.build().unwrap_err().to_string();
        assert!(error.contains(part), "{part}: {error}");
    };
    let good = builder().tool(tool("t", async |_: Option<Meta<Tenant>>| "x"));
    assert!(good.build().is_ok());
    refused(
        builder().tool(tool("t", async |_: Meta<Reserved>| "x")),
        "clientInfo",
    );
    refused(builder().tool(tool("t", async |_: Malformed| "x")), "`a b`");
    let completed = prompt("p", async |_: Args<Id>| "x").complete("id", async |_: Malformed| ["x"]);
    refused(builder().prompt(completed), "`a b`");
    for caching in [
        Caching::private(Duration::from_secs(1)),
        Caching::public(Duration::ZERO),
    ] {
        refused(
            builder().resource(template("a://{id}", async |_: Meta<Tenant>| "x").caching(caching)),
            "`Meta`",
        );
    }
}
