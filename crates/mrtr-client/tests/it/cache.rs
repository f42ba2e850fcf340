//! Results that a server said may be used again (*Caching*).

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use axum::http::StatusCode;
use mrtr_client::CacheLimits;
use serde_json::{Value, json};

use crate::script::{Recorder, Reply, Seen, asks, in_process, session, yes};

fn tools(ttl: Value, name: &str, next: Option<&str>) -> Reply {
    let mut page = json!({"resultType": "complete", "ttlMs": ttl, "cacheScope": "private",
        "tools": [{"name": name, "inputSchema": {"type": "object"}}]});
    if let Some(next) = next {
        page["nextCursor"] = json!(next);
    }
    Reply::Result(page)
}

fn note(ttl: u64) -> Reply {
    Reply::Result(
        json!({"resultType": "complete", "ttlMs": ttl, "cacheScope": "public", "contents": [{"uri": "note://1", "text": "x"}]}),
    )
}

#[tokio::test(start_paused = true)]
async fn a_list_is_asked_for_again_when_it_is_stale() {
    let recorder = Recorder::new(|_, _| tools(json!(60_000), "t", None));
    let client = in_process(&recorder).build().unwrap();
    for _ in 0..5 {
        assert_eq!(client.list_tools().await.unwrap().len(), 1);
    }
    assert_eq!(recorder.count(), 1);
    client.fresh().list_tools().await.unwrap();
    assert_eq!(recorder.count(), 2, "unless the host insists");
    tokio::time::advance(Duration::from_millis(59_999)).await;
    client.list_tools().await.unwrap();
    assert_eq!(recorder.count(), 2, "and what came then is kept");
    tokio::time::advance(Duration::from_millis(1)).await;
    client.list_tools().await.unwrap();
    assert_eq!(recorder.count(), 3);
    // A clone is the same client; another client is another principal.
    client.clone().list_tools().await.unwrap();
    assert_eq!(recorder.count(), 3);
    let other = in_process(&recorder).bearer("user-b").build().unwrap();
    other.list_tools().await.unwrap();
    assert_eq!(recorder.count(), 4);
}

#[tokio::test]
async fn nothing_is_kept_where_nothing_may_be() {
    for ttl in [json!(0), json!(-1), json!(1.5)] {
        let recorder = Recorder::new(move |_, _| tools(ttl.clone(), "t", None));
        let client = in_process(&recorder).build().unwrap();
        client.list_tools().await.unwrap();
        client.list_tools().await.unwrap();
        assert_eq!(recorder.count(), 2);
    }
    let recorder = Recorder::new(|_, _| tools(json!(60_000), "t", None));
    let without = in_process(&recorder).without_cache().build().unwrap();
    without.list_tools().await.unwrap();
    without.list_tools().await.unwrap();
    assert_eq!(recorder.count(), 2);
    let tiny = CacheLimits {
        entries: 10,
        bytes: 100,
    };
    let tiny = in_process(&recorder).cache(tiny).build().unwrap();
    tiny.list_tools().await.unwrap();
    tiny.list_tools().await.unwrap();
    assert_eq!(recorder.count(), 4);
    // What a server may look at beside the params.
    let client = in_process(&recorder).build().unwrap();
    let tenant = client.with_meta("example.com/tenant", "a").unwrap();
    tenant.list_tools().await.unwrap();
    tenant.list_tools().await.unwrap();
    assert_eq!(recorder.count(), 6);
    let traced = client.with_meta("traceparent", "00-1").unwrap();
    traced.list_tools().await.unwrap();
    client.list_tools().await.unwrap();
    assert_eq!(recorder.count(), 7);
}

#[tokio::test]
async fn a_session_s_results_are_not_kept() {
    let recorder = Recorder::new(session("2025-11-25", |seen| {
        let list = json!({"tools": [], "ttlMs": 60_000, "cacheScope": "public"});
        (seen.what() == "tools/list" && !seen.is_modern()).then(|| Reply::Result(list))
    }));
    let client = in_process(&recorder).build().unwrap();
    client.list_tools().await.unwrap();
    client.list_tools().await.unwrap();
    let asked = recorder
        .seen()
        .iter()
        .filter(|seen| !seen.is_modern() && seen.what() == "tools/list")
        .count();
    assert_eq!(asked, 2);
}

/// Case 152.
#[tokio::test]
async fn case_152_a_read_that_answered_a_round_is_never_kept() {
    let recorder = Recorder::new(|_, seen| match seen.param("requestState") {
        None => asks("k", "S"),
        Some(_) => note(60_000),
    });
    let client = in_process(&recorder).on_form(yes).build().unwrap();
    client.read_resource("note://1").await.unwrap();
    client.read_resource("note://1").await.unwrap();
    assert_eq!(recorder.count(), 4);
    // Without a round it is, by its URI.
    let recorder = Recorder::new(|_, _| note(60_000));
    let client = in_process(&recorder).build().unwrap();
    for uri in ["note://1", "note://1", "note://2", "note://1", "note://2"] {
        client.read_resource(uri).await.unwrap();
    }
    assert_eq!(recorder.count(), 2);
    // A call is no read.
    let recorder = Recorder::new(|_, _| {
        Reply::Result(json!({"resultType": "complete", "content": [], "ttlMs": 60_000}))
    });
    let client = in_process(&recorder).build().unwrap();
    client.call_tool("t", ()).await.unwrap();
    client.call_tool("t", ()).await.unwrap();
    assert_eq!(recorder.count(), 2);
}

fn cursor(seen: &Seen) -> Option<&str> {
    seen.param("cursor")?.as_str()
}

#[tokio::test(start_paused = true)]
async fn each_page_is_kept_by_itself() {
    let recorder = Recorder::new(|_, seen| match cursor(seen) {
        None => tools(json!(600_000), "a", Some("2")),
        Some(_) => tools(json!(1_000), "b", None),
    });
    let client = in_process(&recorder).build().unwrap();
    assert_eq!(client.list_tools().await.unwrap().len(), 2);
    assert_eq!(client.list_tools().await.unwrap().len(), 2);
    assert_eq!(recorder.count(), 2);
    tokio::time::advance(Duration::from_secs(2)).await;
    assert_eq!(client.list_tools().await.unwrap().len(), 2);
    assert_eq!(recorder.count(), 3);
    assert_eq!(cursor(&recorder.seen()[2]), Some("2"));
}

#[tokio::test(start_paused = true)]
async fn a_cursor_that_is_none_any_more_begins_the_list_anew() {
    let epoch = Arc::new(AtomicUsize::new(1));
    let now = Arc::clone(&epoch);
    let recorder = Recorder::new(move |_, seen| {
        let own = format!("c{}", now.load(Ordering::Relaxed));
        match cursor(seen) {
            None => tools(json!(600_000), "a", Some(&own)),
            Some(cursor) if cursor == own => tools(json!(0), "b", None),
            Some(_) => Reply::Error(
                StatusCode::OK,
                json!({"code": -32602, "message": "Invalid cursor"}),
            ),
        }
    });
    let client = in_process(&recorder).build().unwrap();
    client.list_tools().await.unwrap();
    epoch.store(2, Ordering::Relaxed);
    assert_eq!(client.list_tools().await.unwrap().len(), 2);
    let cursors: Vec<_> = recorder
        .seen()
        .iter()
        .map(|seen| cursor(seen).map(str::to_owned))
        .collect();
    let text = |text: &str| Some(text.to_owned());
    assert_eq!(cursors, [None, text("c1"), text("c1"), None, text("c2")]);
    // Once: a server that refuses its own cursors is told on.
    let recorder = Recorder::new(|_, seen| match cursor(seen) {
        None => tools(json!(600_000), "a", Some("x")),
        Some(_) => Reply::Error(
            StatusCode::OK,
            json!({"code": -32602, "message": "Invalid cursor"}),
        ),
    });
    let client = in_process(&recorder).build().unwrap();
    client.list_tools().await.unwrap_err();
    assert_eq!(recorder.count(), 2);
    client.list_tools().await.unwrap_err();
    assert_eq!(recorder.count(), 5);
}

#[tokio::test]
async fn a_call_that_the_server_does_not_understand_puts_its_list_in_doubt() {
    let gone = Arc::new(AtomicBool::new(false));
    let is_gone = Arc::clone(&gone);
    let recorder = Recorder::new(move |_, seen| match seen.what() {
        "tools/list" => tools(json!(600_000), "t", None),
        _ if is_gone.load(Ordering::Relaxed) => Reply::Error(
            StatusCode::OK,
            json!({"code": -32602, "message": "Unknown tool"}),
        ),
        _ => crate::script::done("x"),
    });
    let client = in_process(&recorder).build().unwrap();
    client.list_tools().await.unwrap();
    client.call_tool("t", ()).await.unwrap();
    client.list_tools().await.unwrap();
    assert_eq!(recorder.count(), 2);
    gone.store(true, Ordering::Relaxed);
    client.call_tool("t", ()).await.unwrap_err();
    client.list_tools().await.unwrap();
    assert_eq!(recorder.count(), 4);
}

#[tokio::test]
async fn discovery_is_kept_too() {
    let recorder = Recorder::new(|_, _| {
        Reply::Result(
            json!({"resultType": "complete", "supportedVersions": ["2026-07-28"], "capabilities": {}, "ttlMs": 600_000, "cacheScope": "public"}),
        )
    });
    let client = in_process(&recorder).build().unwrap();
    client.discover().await.unwrap();
    client.server().await.unwrap();
    assert_eq!(recorder.count(), 1);
}
