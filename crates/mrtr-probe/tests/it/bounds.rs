//! What a run does not exceed, and what it does not claim.

use std::net::Ipv4Addr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use mrtr_probe::{ProbeError, Verdict};
use serde_json::json;

use crate::ours::target;
use crate::weak::{Weak, serve};

const LONG: Duration = Duration::from_secs(600);

#[tokio::test]
async fn requests_are_bounded_and_what_is_left_is_unknown() {
    let url = serve(Weak::Nowhere, LONG).await;
    let mut target = target(&url);
    target.max_requests = 50;
    let report = mrtr_probe::run(&target, |_| {}).await.unwrap();
    assert_eq!(report.requests, 50);
    let last = report.row("survives").unwrap();
    assert_eq!(last.verdict, Verdict::Unknown);
    assert!(last.note.contains("--max-requests"), "{last:?}");
}

#[tokio::test]
async fn time_is_bounded() {
    let url = serve(Weak::Slow, LONG).await;
    let mut target = target(&url);
    target.max_time = Duration::from_secs(2);
    let began = Instant::now();
    let report = mrtr_probe::run(&target, |_| {}).await.unwrap();
    assert!(began.elapsed() < Duration::from_secs(60));
    let last = report.row("survives").unwrap();
    assert!(last.note.contains("--max-seconds"), "{last:?}");
}

#[tokio::test]
async fn nothing_is_claimed_without_the_good_path() {
    let url = serve(Weak::Nowhere, LONG).await;
    let no_tool = |name: &str| {
        let mut target = target(&url);
        target.tool = name.to_owned();
        target
    };
    let mut not_ticked = target(&url);
    not_ticked.answer = json!({ "ok": false });
    let mut counts_nothing = target(&url);
    counts_nothing.effect_tool = Some("transfer".into());
    let mut stranger = target(&url);
    stranger.token = Some("token-of-nobody".into());
    for target in [
        no_tool("nothing"),
        no_tool("count"),
        not_ticked,
        counts_nothing,
        stranger,
    ] {
        let error = mrtr_probe::run(&target, |_| {}).await.unwrap_err();
        assert!(matches!(error, ProbeError::NoGoodPath(_)), "{error}");
        assert!(!error.to_string().contains("token-of-"), "{error}");
    }
}

#[tokio::test]
async fn redirects_are_not_followed() {
    let hits = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&hits);
    let elsewhere = axum::Router::new().fallback(move || {
        counted.fetch_add(1, Ordering::SeqCst);
        async { "" }
    });
    let listener = tokio::net::TcpListener::bind((Ipv4Addr::LOCALHOST, 0))
        .await
        .unwrap();
    let to = format!("http://{}/mcp", listener.local_addr().unwrap());
    tokio::spawn(async move { axum::serve(listener, elsewhere).await });
    let redirect = axum::Router::new().fallback(move || {
        let to = to.clone();
        async move { axum::response::Redirect::temporary(&to) }
    });
    let listener = tokio::net::TcpListener::bind((Ipv4Addr::LOCALHOST, 0))
        .await
        .unwrap();
    let url = format!("http://{}/mcp", listener.local_addr().unwrap());
    tokio::spawn(async move { axum::serve(listener, redirect).await });
    let error = mrtr_probe::run(&target(&url), |_| {}).await.unwrap_err();
    assert!(matches!(error, ProbeError::NoGoodPath(_)), "{error}");
    assert_eq!(hits.load(Ordering::SeqCst), 0);
}

#[tokio::test]
async fn other_machines_are_left_alone() {
    let error = mrtr_probe::run(&target("http://192.0.2.1/mcp"), |_| {})
        .await
        .unwrap_err();
    assert!(error.to_string().contains("--allow-remote"), "{error}");
}
