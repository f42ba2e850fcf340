//! Scopes: who sees what, who may call what, and that each request is checked anew.

use std::future::ready;
use std::sync::{Arc, Mutex};

use http::StatusCode;
use http::header::WWW_AUTHENTICATE;
use http::request::Parts;
use mrtr_server::{
    Answer, Args, AuthFuture, Authenticator, BuildError, Caching, DurableFlow, Form, Identity,
    Partial, Principal, Server, State, ToolError, WithoutScope, prompt, resource, template, tool,
};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::bank::{Bank, Call, Effects, Reply, accept};
use crate::session::{Session, everything, text};

/// One person in one app, whose token is granted now this, now that.
#[derive(Debug, Clone, Default)]
struct Grants(Arc<Mutex<Vec<&'static str>>>);

impl Grants {
    fn set(&self, scopes: &[&'static str]) {
        *self.0.lock().unwrap() = scopes.to_vec();
    }
}

impl Authenticator for Grants {
    fn authenticate<'a>(&'a self, _: &'a Parts) -> AuthFuture<'a> {
        let principal = Principal::user("https://as.example", "user-a").with_client("app-1");
        let scopes = self.0.lock().unwrap().clone();
        Box::pin(ready(Ok(Identity::from(principal).with_scopes(scopes))))
    }
}

#[derive(Deserialize, JsonSchema)]
struct Confirm {
    ok: bool,
}

#[derive(Deserialize, JsonSchema)]
#[allow(dead_code, reason = "only who is let in matters")]
struct Id {
    id: String,
}

async fn pay(flow: DurableFlow, State(effects): State<Effects>) -> Result<String, ToolError> {
    let Answer::Accept(Confirm { ok: true }) =
        flow.ask("confirm", Form::<Confirm>::new("Pay?")).await
    else {
        return Ok("not paid".into());
    };
    let count = flow
        .once("pay", async || Ok::<_, ToolError>(effects.happen()))
        .await?;
    Ok(format!("paid {count}"))
}

fn bank() -> (Bank, Grants) {
    let grants = Grants::default();
    let bank = Bank::with(|builder| {
        builder
            .authenticator(grants.clone())
            .announces_changes()
            .tool(tool("pay", pay).scopes(["pay:write", "pay:read"]))
            .tool(
                tool("shown", async || "x")
                    .scopes(["shown"])
                    .without_scope(WithoutScope::Listed),
            )
            .tool(
                tool("secret", async |_: Args<Id>| "x")
                    .scopes(["secret"])
                    .without_scope(WithoutScope::Unknown)
                    .input_schema(json!({
                        "type": "object",
                        "properties": { "id": { "type": "string", "x-mcp-header": "Id" } },
                        "required": ["id"],
                    })),
            )
            .prompt(
                prompt("brief", async |_: Args<Id>| "x")
                    .scopes(["brief"])
                    .complete("id", async |_: Partial| ["one"]),
            )
            .resource(resource("note://a", async || "x").scopes(["notes"]))
            .resource(template("note://t/{id}", async |_: Args<Id>| "x").scopes(["notes"]))
    });
    (bank, grants)
}

fn challenge(reply: &Reply) -> &str {
    reply.headers[WWW_AUTHENTICATE].to_str().unwrap()
}

fn names(reply: &Reply, list: &str) -> Vec<String> {
    let entries = reply.body["result"][list].as_array();
    let entries = entries.unwrap_or_else(|| panic!("no {list} in {reply:?}"));
    let name = |entry: &Value| entry["name"].as_str().unwrap().to_owned();
    entries.iter().map(name).collect()
}

fn pay_call() -> Call {
    Call::of("pay", json!({}))
}

fn yes() -> Value {
    accept(json!({ "ok": true }))
}

#[tokio::test]
async fn a_call_without_its_scopes_is_told_all_that_it_needs() {
    let (bank, grants) = bank();
    grants.set(&["pay:read", "pay:write"]);
    assert_eq!(bank.send(&pay_call()).await.asks(), ["confirm"]);
    for scopes in [&[][..], &["pay:read"], &["pay:write2", "pay:read"]] {
        grants.set(scopes);
        let reply = bank.send(&pay_call()).await;
        assert_eq!(reply.status, StatusCode::FORBIDDEN, "{reply:?}");
        assert_eq!(
            challenge(&reply),
            r#"Bearer error="insufficient_scope", scope="pay:write pay:read""#
        );
        assert_eq!(reply.body["id"], 1);
    }
}

#[tokio::test]
async fn a_scope_that_is_taken_away_between_rounds_stops_the_flow_and_spends_nothing() {
    let (bank, grants) = bank();
    grants.set(&["pay:read", "pay:write"]);
    let opened = bank.send(&pay_call()).await;
    let retry = pay_call()
        .id(2)
        .state(opened.state())
        .answer("confirm", yes());
    grants.set(&["pay:read"]);
    let refused = bank.send(&retry).await;
    assert_eq!(refused.status, StatusCode::FORBIDDEN);
    // Nothing of the state is looked at: a broken one is told the same.
    let broken = bank.send(&pay_call().id(2).state("x")).await;
    assert_eq!(broken.status, StatusCode::FORBIDDEN);
    assert_eq!((bank.effects.count(), bank.rows().await), (0, (0, 0)));

    grants.set(&["pay:read", "pay:write"]);
    assert_eq!(bank.send(&retry).await.text(), "paid 1");
    // The stored result is no more anybody's than the call was.
    assert!(bank.send(&retry.clone().id(3)).await.is_replayed());
    grants.set(&[]);
    let replay = bank.send(&retry.clone().id(4)).await;
    assert_eq!(replay.status, StatusCode::FORBIDDEN, "{replay:?}");
    assert_eq!(bank.effects.count(), 1);
}

#[tokio::test]
async fn lists_hold_what_the_caller_may_use_and_what_is_shown_to_all() {
    let (bank, grants) = bank();
    let tools = Call::nameless("tools/list");
    let seen = names(&bank.send(&tools).await, "tools");
    assert!(
        seen.contains(&"plain".into()) && seen.contains(&"shown".into()),
        "{seen:?}"
    );
    assert!(
        !seen.contains(&"pay".into()) && !seen.contains(&"secret".into()),
        "{seen:?}"
    );
    for (method, list) in [
        ("prompts/list", "prompts"),
        ("resources/list", "resources"),
        ("resources/templates/list", "resourceTemplates"),
    ] {
        grants.set(&[]);
        let reply = bank.send(&Call::nameless(method)).await;
        assert!(names(&reply, list).is_empty(), "{reply:?}");
        assert_eq!(reply.body["result"]["cacheScope"], "private");
        grants.set(&["brief", "notes"]);
        assert_eq!(
            names(&bank.send(&Call::nameless(method)).await, list).len(),
            1
        );
    }
    grants.set(&["pay:read", "pay:write", "secret"]);
    let reply = bank.send(&tools).await;
    let seen = names(&reply, "tools");
    assert!(
        seen.contains(&"pay".into()) && seen.contains(&"secret".into()),
        "{seen:?}"
    );
    assert_eq!(reply.body["result"]["cacheScope"], "private");
    // A list that is the same for all may be anybody's.
    let reply = Bank::new().send(&tools).await;
    assert_eq!(reply.body["result"]["cacheScope"], "public");
}

#[tokio::test]
async fn pages_leave_out_what_is_not_listed_and_know_no_cursor_behind_it() {
    let grants = Grants::default();
    let bank = Bank::with(|builder| {
        (0..4).fold(
            builder.authenticator(grants.clone()).page_size(1),
            |builder, n| {
                let prompt = prompt(format!("p{n}"), async || "x");
                builder.prompt(if n % 2 == 0 {
                    prompt
                } else {
                    prompt.scopes(["odd"])
                })
            },
        )
    });
    let page = async |cursor: Option<&str>| {
        let call = Call::nameless("prompts/list");
        let call = match cursor {
            Some(cursor) => call.param("cursor", cursor),
            None => call,
        };
        bank.send(&call).await
    };
    let walk = async || {
        let (mut seen, mut cursors) = (Vec::new(), Vec::<String>::new());
        loop {
            let reply = page(cursors.last().map(String::as_str)).await;
            seen.extend(names(&reply, "prompts"));
            match reply.body["result"]["nextCursor"].as_str() {
                Some(next) => cursors.push(next.to_owned()),
                None => return (seen, cursors),
            }
        }
    };
    grants.set(&["odd"]);
    let (seen, cursors) = walk().await;
    assert_eq!(seen, ["p0", "p1", "p2", "p3"]);
    grants.set(&[]);
    assert_eq!(walk().await.0, ["p0", "p2"]);
    // The cursor behind `p1`.
    let reply = page(Some(&cursors[1])).await;
    assert_eq!(reply.code(), Some(-32602), "{reply:?}");
}

#[tokio::test]
async fn what_is_kept_from_a_caller_is_told_apart_from_nothing_by_nothing() {
    let (bank, grants) = bank();
    let call = |name: &str| Call::of(name, json!({ "id": "7" })).header("mcp-param-id", "7");
    grants.set(&["secret"]);
    assert_eq!(bank.send(&call("secret")).await.text(), "x");
    grants.set(&[]);
    let answer = async |call: &Call, name: &str| {
        let reply = bank.send(call).await;
        let headers = format!("{:?}", reply.headers);
        (
            reply.status,
            headers,
            reply.body.to_string().replace(name, "?"),
        )
    };
    for bend in [
        |call: Call| call,
        // Headers that the tool would refuse, arguments too, and a state.
        |call: Call| call.header("mcp-param-id", "8"),
        |call: Call| call.param("arguments", 7),
        |call: Call| call.state("x"),
    ] {
        let hidden = answer(&bend(call("secret")), "secret").await;
        let absent = answer(&bend(call("absent")), "absent").await;
        assert_eq!(hidden, absent);
    }
}

#[tokio::test]
async fn prompts_resources_completions_and_subscriptions_ask_for_scopes_too() {
    let (bank, grants) = bank();
    let complete = Call::nameless("completion/complete")
        .param("ref", json!({ "type": "ref/prompt", "name": "brief" }))
        .param("argument", json!({ "name": "id", "value": "" }));
    let all = [
        (Call::prompt("brief", json!({ "id": "x" })), "brief"),
        (complete, "brief"),
        (Call::resource("note://a"), "notes"),
        (Call::resource("note://t/7"), "notes"),
    ];
    for (call, scope) in all {
        grants.set(&[scope]);
        let reply = bank.send(&call).await;
        assert!(reply.body.get("result").is_some(), "{reply:?}");
        grants.set(&["other"]);
        let reply = bank.send(&call).await;
        assert_eq!(reply.status, StatusCode::FORBIDDEN, "{reply:?}");
        assert!(challenge(&reply).contains(&format!("scope=\"{scope}\"")));
    }
    // A subscription is opened for what may be read alone.
    for (scopes, honoured) in [(&["notes"][..], 1), (&[], 0)] {
        grants.set(scopes);
        let session = Session::open(&bank.server, everything()).await;
        let reply = session
            .reply("resources/subscribe", json!({ "uri": "note://a" }))
            .await;
        assert_eq!(reply.status.is_success(), honoured == 1, "{reply:?}");
    }
}

#[tokio::test]
async fn a_session_of_the_earlier_era_is_checked_at_each_request_and_each_answer() {
    let (bank, grants) = bank();
    grants.set(&["pay:read", "pay:write"]);
    let session = Session::open(&bank.server, everything()).await;
    let mut call = session.call(1, "pay", json!({})).await;
    let question = call.message().await;

    grants.set(&["pay:read"]);
    let answer = session.answer(&question, yes()).await;
    assert_eq!(answer.status, StatusCode::FORBIDDEN);
    assert!(
        answer.headers[WWW_AUTHENTICATE]
            .to_str()
            .unwrap()
            .contains("pay:write pay:read")
    );
    let another = session.call(2, "pay", json!({})).await;
    assert_eq!(another.status, StatusCode::FORBIDDEN);
    let listed = session.reply("tools/list", json!({})).await;
    assert!(!names(&listed, "tools").contains(&"pay".into()));
    assert_eq!(bank.effects.count(), 0);

    // The question waits on.
    grants.set(&["pay:read", "pay:write"]);
    assert_eq!(
        session.answer(&question, yes()).await.status,
        StatusCode::ACCEPTED
    );
    assert_eq!(text(&call.message().await), "paid 1");
}

#[tokio::test]
async fn an_identity_that_grants_everything_is_asked_for_nothing() {
    let identity = Identity::from(Principal::user("stdio", "uid:0"));
    assert!(!identity.has_scope("pay:write"));
    assert!(identity.with_every_scope().has_scope("pay:write"));
}

#[test]
fn what_no_token_could_carry_and_what_would_show_it_to_all_is_refused_at_build() {
    let builder = || Server::builder("s", "1").allow_anonymous();
    let plain = || tool("plain", async || "x");
    assert!(
        builder()
            .tool(plain().scopes(["a:b", "c/d"]))
            .build()
            .is_ok()
    );
    for scope in ["", "a b", "a\"b", "a\\b", "\u{e9}", "a\n"] {
        let error = builder().tool(plain().scopes([scope])).build().unwrap_err();
        assert!(matches!(error, BuildError::Handler { .. }), "{error}");
    }
    let kept = |caching| {
        let resource = resource("note://a", async || "x")
            .scopes(["a"])
            .caching(caching);
        builder().resource(resource).build()
    };
    let minute = std::time::Duration::from_secs(60);
    assert!(kept(Caching::private(minute)).is_ok());
    assert!(matches!(
        kept(Caching::public(minute)),
        Err(BuildError::Handler { .. })
    ));
}
