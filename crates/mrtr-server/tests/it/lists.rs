//! Lists in pages, and how long what is told may be kept.

use std::time::Duration;

use mrtr_server::{
    Args, BuildError, CacheScope, Caching, Caller, Flow, Form, Json, Resource, ResourceContents,
    ResourceResult, Server, ToolError, prompt, resource, template, tool,
};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::bank::{Bank, Call, Reply, accept};
use crate::cases::Refusal;
use crate::session::Session;

#[derive(Deserialize, JsonSchema)]
struct Confirm {
    ok: bool,
}

#[derive(Deserialize, JsonSchema)]
#[allow(dead_code, reason = "only what is listed is looked at")]
struct Id {
    id: String,
}

/// Seven of everything, in pages of `size`; `except` is left out.
fn shelves(size: Option<usize>, except: &[usize]) -> Bank {
    Bank::with(|builder| {
        let mut builder = (0..7)
            .filter(|n| !except.contains(n))
            .fold(builder, |builder, n| {
                builder
                    .tool(tool(format!("p{n}"), async || "x"))
                    .prompt(prompt(format!("p{n}"), async || "x"))
                    .resource(resource(format!("r://{n}"), async || "x"))
                    .resource(template(format!("r://{n}/{{id}}"), async |_: Args<Id>| "x"))
            });
        if let Some(size) = size {
            builder = builder.page_size(size);
        }
        builder
    })
}

const LISTS: [(&str, &str, &str); 4] = [
    ("tools/list", "tools", "name"),
    ("prompts/list", "prompts", "name"),
    ("resources/list", "resources", "uri"),
    (
        "resources/templates/list",
        "resourceTemplates",
        "uriTemplate",
    ),
];

fn names(reply: &Reply, member: &str, name: &str) -> Vec<String> {
    let entries = reply.body["result"][member]
        .as_array()
        .unwrap_or_else(|| panic!("{reply:?}"));
    entries
        .iter()
        .map(|entry| entry[name].as_str().unwrap().to_owned())
        .collect()
}

fn cursor(reply: &Reply) -> Option<&str> {
    reply.body["result"]["nextCursor"].as_str()
}

async fn list(bank: &Bank, method: &str, cursor: Option<&str>) -> Reply {
    let call = Call::nameless(method);
    let call = match cursor {
        Some(cursor) => call.param("cursor", cursor),
        None => call,
    };
    bank.send(&call).await
}

/// All pages: how many entries each has, and all entries.
async fn walk(
    bank: &Bank,
    (method, member, name): (&str, &str, &str),
) -> (Vec<usize>, Vec<String>) {
    let (mut sizes, mut all) = (Vec::new(), Vec::new());
    let mut next: Option<String> = None;
    loop {
        let page = list(bank, method, next.as_deref()).await;
        let entries = names(&page, member, name);
        sizes.push(entries.len());
        all.extend(entries);
        match cursor(&page) {
            Some(cursor) => next = Some(cursor.to_owned()),
            None => return (sizes, all),
        }
    }
}

#[tokio::test]
async fn pages_hold_everything_once_and_in_order() {
    for which in LISTS {
        let (sizes, whole) = walk(&shelves(None, &[]), which).await;
        assert_eq!(sizes.len(), 1, "by default a list is one page");
        for size in [1, 2, 3, 7, 8, 100] {
            let bank = shelves(Some(size), &[]);
            let (sizes, all) = walk(&bank, which).await;
            assert_eq!(all, whole, "{which:?} {size}");
            let (last, full) = sizes.split_last().unwrap();
            assert!(
                full.iter().all(|&full| full == size) && (1..=size).contains(last),
                "{sizes:?}"
            );
        }
    }
}

#[tokio::test]
async fn a_cursor_needs_nothing_on_the_server() {
    let before = shelves(Some(3), &[]);
    for (method, member, name) in LISTS {
        let first = list(&before, method, None).await;
        let cursor = cursor(&first).unwrap();
        let rest = names(&list(&before, method, Some(cursor)).await, member, name);
        // The same again, and on another instance.
        assert_eq!(
            names(&list(&before, method, Some(cursor)).await, member, name),
            rest
        );
        let other = shelves(Some(3), &[]);
        assert_eq!(
            names(&list(&other, method, Some(cursor)).await, member, name),
            rest
        );
        // After a restart, with pages of another size or none at all: what comes is what stands behind the last entry.
        let wide = names(
            &list(&shelves(None, &[]), method, Some(cursor)).await,
            member,
            name,
        );
        assert_eq!(wide[..rest.len()], rest);
        assert!(
            list(&shelves(None, &[]), method, Some(cursor)).await.body["result"]["nextCursor"]
                .is_null()
        );
    }
    // Entries before it that are gone move nothing; only its own entry does.
    let (method, member, name) = LISTS[1];
    let second = cursor(&list(&before, method, None).await)
        .unwrap()
        .to_owned();
    let fewer = list(&shelves(Some(3), &[0, 1]), method, Some(&second)).await;
    assert_eq!(names(&fewer, member, name), ["p3", "p4", "p5"]);
    Refusal::params().check(
        "gone",
        &list(&shelves(Some(3), &[2]), method, Some(&second)).await,
    );
    let last = list(&shelves(Some(3), &[3, 4, 5, 6]), method, Some(&second)).await;
    assert_eq!(
        names(&last, member, name),
        [""; 0],
        "nothing is behind it any more"
    );
    assert_eq!(cursor(&last), None);
}

#[tokio::test]
async fn what_is_no_cursor_of_this_list_is_an_error() {
    let bank = shelves(Some(3), &[]);
    let mut cursors = Vec::new();
    for (method, ..) in LISTS {
        cursors.push(cursor(&list(&bank, method, None).await).unwrap().to_owned());
    }
    for (at, (method, ..)) in LISTS.into_iter().enumerate() {
        assert_eq!(
            list(&bank, method, Some(&cursors[at])).await.code(),
            None,
            "the good one is good"
        );
        let others = cursors.iter().enumerate().filter(|(other, _)| *other != at);
        let mut bad: Vec<Value> = others.map(|(_, cursor)| json!(cursor)).collect();
        let good = &cursors[at];
        let other_bits = if good.ends_with('A') { 'B' } else { 'A' };
        bad.extend([
            json!(""),
            json!("0"),
            json!("3"),
            json!("x".repeat(good.len())),
            json!(good[1..]),
            json!(format!("{good}=")),
            json!(format!(" {good}")),
            json!(format!("{}{other_bits}", &good[..good.len() - 1])),
            json!("x".repeat(100_000)),
            json!(null),
            json!(3),
            json!([good]),
            json!({ "cursor": good }),
        ]);
        for cursor in bad {
            let reply = bank
                .send(&Call::nameless(method).param("cursor", cursor.clone()))
                .await;
            Refusal::params().check(&format!("{method} {cursor}"), &reply);
        }
    }
}

#[tokio::test]
async fn the_earlier_era_has_pages_too() {
    let bank = shelves(Some(4), &[]);
    let session = Session::open(&bank.server, json!({})).await;
    let first = session.reply("prompts/list", json!({})).await;
    assert_eq!(names(&first, "prompts", "name"), ["p0", "p1", "p2", "p3"]);
    let second = session
        .reply("prompts/list", json!({ "cursor": cursor(&first).unwrap() }))
        .await;
    assert_eq!(names(&second, "prompts", "name"), ["p4", "p5", "p6"]);
    let bad = session
        .reply("prompts/list", json!({ "cursor": "x" }))
        .await;
    assert_eq!(bad.code(), Some(-32602));
}

fn hint(reply: &Reply) -> (u64, &str) {
    let result = &reply.body["result"];
    (
        result["ttlMs"]
            .as_u64()
            .unwrap_or_else(|| panic!("{reply:?}")),
        result["cacheScope"].as_str().unwrap(),
    )
}

#[tokio::test]
async fn every_list_has_its_own_hint_on_every_page() {
    let plain = shelves(None, &[]);
    for method in LISTS
        .map(|(method, ..)| method)
        .into_iter()
        .chain(["server/discover"])
    {
        assert_eq!(
            hint(&list(&plain, method, None).await),
            (60_000, "public"),
            "{method}"
        );
    }
    let bank = Bank::with(|builder| {
        builder
            .prompt(prompt("p", async || "x"))
            .resource(resource("r://1", async || "x"))
            .resource(template("r://1/{id}", async |_: Args<Id>| "x"))
            .page_size(1)
            .caching(|lists| {
                lists.discovery = Caching::public(Duration::MAX);
                lists.tools = Caching::private(Duration::from_millis(5));
                lists.prompts = Caching::public(Duration::from_secs(6));
                lists.resources = Caching::NONE;
                lists.templates = Caching::public(Duration::ZERO);
            })
    });
    let first = list(&bank, "tools/list", None).await;
    assert_eq!(hint(&first), (5, "private"));
    let second = list(&bank, "tools/list", cursor(&first)).await;
    assert_eq!(hint(&second), (5, "private"), "one scope for all pages");
    assert_eq!(
        hint(&list(&bank, "prompts/list", None).await),
        (6000, "public")
    );
    assert_eq!(
        hint(&list(&bank, "resources/list", None).await),
        (0, "private")
    );
    assert_eq!(
        hint(&list(&bank, "resources/templates/list", None).await),
        (0, "public")
    );
    let discovered = list(&bank, "server/discover", None).await;
    assert_eq!(
        hint(&discovered),
        ((1 << 53) - 1, "public"),
        "as much as a reader of JSON takes"
    );
}

async fn asking(flow: Flow) -> String {
    if !flow.can_ask(mrtr_server::Kind::Form) {
        return "unasked".into();
    }
    let ok = flow.ask("ok", Form::<Confirm>::new("Read it?")).await;
    format!("{}", ok.accepted().is_some_and(|Confirm { ok }| ok))
}

#[tokio::test]
async fn case_127_what_a_resource_holds_is_kept_as_it_says() {
    let hour = Duration::from_secs(3600);
    let by_hand = |ttl_ms, scope| {
        move || async move {
            let mut result = ResourceResult::new(vec![ResourceContents::text("r://hand", "x")]);
            result.ttl_ms = ttl_ms;
            result.cache_scope = scope;
            result
        }
    };
    let bank = Bank::with(|builder| {
        builder
            .resource(resource("r://plain", async || "x"))
            .resource(resource("r://public", async || Json(1)).caching(Caching::public(hour)))
            .resource(
                resource("r://private", async |_: Caller| "x").caching(Caching::private(hour)),
            )
            .resource(
                template("r://t/{id}", async |_: Args<Id>| "x").caching(Caching::public(hour)),
            )
            .resource(resource("r://asking", asking).caching(Caching::public(hour)))
            .resource(
                resource("r://unstated", asking)
                    .caching(Caching::public(hour))
                    .accept_answers_without_state(),
            )
            .resource(resource("r://hand", by_hand(7, CacheScope::Private)))
            .resource(resource("r://free", by_hand(0, CacheScope::Public)))
    });
    let read = async |uri: &str| bank.send(&Call::resource(uri)).await;
    assert_eq!(hint(&read("r://plain").await), (0, "private"));
    assert_eq!(hint(&read("r://public").await), (3_600_000, "public"));
    assert_eq!(hint(&read("r://private").await), (3_600_000, "private"));
    assert_eq!(hint(&read("r://t/1").await), (3_600_000, "public"));
    assert_eq!(
        hint(&read("r://hand").await),
        (7, "private"),
        "its own word counts"
    );
    assert_eq!(hint(&read("r://free").await), (0, "public"));

    // A question has no hint, and what came of an answer is nobody's to keep.
    let asked = read("r://asking").await;
    assert_eq!(asked.asks(), ["ok"]);
    assert!(
        asked.body["result"].get("ttlMs").is_none()
            && asked.body["result"].get("cacheScope").is_none()
    );
    let retry = Call::resource("r://asking")
        .id(2)
        .state(asked.state())
        .answer("ok", accept(json!({ "ok": true })));
    for _ in 0..2 {
        let done = bank.send(&retry).await;
        assert_eq!(done.body["result"]["contents"][0]["text"], "true");
        assert_eq!(hint(&done), (0, "private"));
    }
    let unasked = Call::resource("r://asking").declaring(json!({}));
    assert_eq!(
        hint(&bank.send(&unasked).await),
        (3_600_000, "public"),
        "nothing was answered"
    );
    let unstated = Call::resource("r://unstated").answer("ok", accept(json!({ "ok": true })));
    assert_eq!(hint(&bank.send(&unstated).await), (0, "private"));

    let session = Session::open(&bank.server, json!({})).await;
    let earlier = session
        .reply("resources/read", json!({ "uri": "r://public" }))
        .await;
    assert!(earlier.body["result"].get("ttlMs").is_none(), "{earlier:?}");
}

#[test]
fn what_depends_on_who_asks_is_not_public_and_a_page_is_not_empty() {
    let build = |resource: Resource| {
        Server::builder("s", "1")
            .allow_anonymous()
            .resource(resource)
            .build()
            .map(drop)
    };
    let mine = || resource("r://mine", async |_: Caller| "x");
    let hour = Duration::from_secs(3600);
    assert!(build(mine().caching(Caching::private(hour))).is_ok());
    let error = build(mine().caching(Caching::public(hour)))
        .unwrap_err()
        .to_string();
    assert!(
        error.contains("`Caller`") && error.contains("r://mine"),
        "{error}"
    );
    // Two words on one result would be one too many, and the careful one might lose.
    let by_hand = || {
        resource("r://hand", async || {
            Ok::<_, ToolError>(ResourceResult::new(Vec::new()))
        })
    };
    assert!(build(by_hand()).is_ok());
    let error = build(by_hand().caching(Caching::public(hour)))
        .unwrap_err()
        .to_string();
    assert!(
        error.contains("`ResourceResult`") && error.contains("r://hand"),
        "{error}"
    );
    let none = Server::builder("s", "1")
        .allow_anonymous()
        .page_size(0)
        .build();
    assert!(matches!(
        none.unwrap_err(),
        BuildError::ZeroLimit("page_size")
    ));
}
