//! Which era a server speaks: probing, falling back, remembering (*Versioning and Compatibility*).

use axum::http::StatusCode;
use mrtr_client::{CallError, Era, EraChoice, RequestError};
use mrtr_protocol::earlier::EarlierRevision;
use serde_json::{Value, json};

use crate::script::{
    Recorder, Reply, Seen, Server, accepted, asks, done, in_process, session, text, yes,
};

/// A server of the earlier era that answers modern requests with `refusal`.
fn earlier_but(
    refusal: impl Fn() -> Reply + Send + Sync + 'static,
) -> impl Fn(usize, &Seen) -> Reply + Send + Sync + 'static {
    session("2025-11-25", move |seen| match seen.what() {
        _ if seen.is_modern() => Some(refusal()),
        "tools/call" => Some(Reply::Result(text("in a session"))),
        "tools/list" => Some(Reply::Result(json!({"tools": []}))),
        _ => None,
    })
}

fn error(status: u16, code: i64) -> Reply {
    let status = StatusCode::from_u16(status).unwrap();
    Reply::Error(status, json!({"code": code, "message": "no"}))
}

#[tokio::test]
async fn case_225_a_refusal_that_is_not_modern_leads_to_a_session() {
    let refusals: [fn() -> Reply; 10] = [
        || Reply::status(400),
        || Reply::Raw(StatusCode::BAD_REQUEST, "text/html", "<p>no".to_owned()),
        || error(400, -32000),
        || error(400, -32600),
        || error(400, -32602),
        || Reply::status(404),
        || Reply::status(405),
        || Reply::status(406),
        || Reply::status(415),
        || Reply::Raw(StatusCode::NOT_FOUND, "application/json", "{}".to_owned()),
    ];
    for refusal in refusals {
        let recorder = Recorder::new(earlier_but(refusal));
        let client = in_process(&recorder).build().unwrap();
        assert_eq!(client.era(), None);
        let result = client.call_tool("t", ()).await.unwrap();
        assert_eq!(result.joined_text(), "in a session");
        let handshake = [
            "tools/call",
            "initialize",
            "notifications/initialized",
            "tools/call",
        ];
        assert_eq!(recorder.methods(), handshake);
        // It is remembered, and nothing is probed twice.
        client.call_tool("t", ()).await.unwrap();
        assert_eq!(recorder.count(), 5);
        assert_eq!(
            client.era(),
            Some(Era::Earlier(EarlierRevision::V2025_11_25))
        );
    }
}

#[tokio::test]
async fn case_225_what_is_about_the_caller_or_the_moment_leads_nowhere() {
    for (status, code) in [
        (401, None),
        (403, None),
        (429, None),
        (500, None),
        (503, None),
        (401, Some(-32001)),
        (200, Some(-32601)),
        (200, Some(-32602)),
        (400, Some(-32020)),
        (400, Some(-32021)),
        (404, Some(-32601)),
    ] {
        let recorder = Recorder::new(earlier_but(move || match code {
            Some(code) => error(status, code),
            None => Reply::status(status),
        }));
        let client = in_process(&recorder).build().unwrap();
        client.call_tool("t", ()).await.unwrap_err();
        assert!(
            !recorder.methods().contains(&"initialize".to_owned()),
            "{status} {code:?}"
        );
    }
}

#[tokio::test]
async fn a_version_error_is_answered_with_a_version_of_its_list() {
    let unsupported = |supported: &'static [&'static str]| {
        move || {
            let data = json!({"supported": supported, "requested": "2026-07-28"});
            let error =
                json!({"code": -32022, "message": "Unsupported protocol version", "data": data});
            Reply::Error(StatusCode::BAD_REQUEST, error)
        }
    };
    // The same version once more, and only once more.
    let again = unsupported(&["2026-07-28", "2025-11-25"]);
    let recorder = Recorder::new(move |n, _| if n == 1 { again() } else { done("x") });
    let client = in_process(&recorder).build().unwrap();
    assert_eq!(client.call_tool("t", ()).await.unwrap().joined_text(), "x");
    assert_eq!(recorder.methods(), ["tools/call", "tools/call"]);
    let seen = recorder.seen();
    assert_ne!(seen[0].id(), seen[1].id());
    let stubborn = unsupported(&["2026-07-28"]);
    let recorder = Recorder::new(move |_, _| stubborn());
    let client = in_process(&recorder).build().unwrap();
    client.call_tool("t", ()).await.unwrap_err();
    assert_eq!(recorder.count(), 2);
    // An earlier one, which is the one that a session is opened with.
    let recorder = Recorder::new(earlier_but(unsupported(&["2025-03-26", "2025-06-18"])));
    let client = in_process(&recorder).build().unwrap();
    client.call_tool("t", ()).await.unwrap();
    assert_eq!(recorder.seen()[1].params()["protocolVersion"], "2025-06-18");
    // None that both speak.
    let recorder = Recorder::new(earlier_but(unsupported(&["2031-01-01"])));
    let client = in_process(&recorder).build().unwrap();
    let error = client.call_tool("t", ()).await.unwrap_err();
    assert!(
        error.to_string().contains("the server speaks 2031-01-01"),
        "{error}"
    );
    assert_eq!(recorder.count(), 1);
    // Nor does a client fall back that speaks one era only.
    let recorder = Recorder::new(earlier_but(unsupported(&["2025-11-25"])));
    let modern = in_process(&recorder)
        .era(EraChoice::Modern)
        .build()
        .unwrap();
    modern.call_tool("t", ()).await.unwrap_err();
    assert_eq!(recorder.count(), 1);
}

#[tokio::test]
async fn one_era_by_choice_is_the_only_one() {
    let recorder = Recorder::new(earlier_but(|| Reply::status(400)));
    let modern = in_process(&recorder)
        .era(EraChoice::Modern)
        .build()
        .unwrap();
    let error = modern.call_tool("t", ()).await.unwrap_err();
    assert!(matches!(error, CallError::Http { .. }), "{error}");
    assert_eq!(recorder.methods(), ["tools/call"]);
    let recorder = Recorder::new(earlier_but(|| Reply::status(400)));
    let earlier = in_process(&recorder)
        .era(EraChoice::Earlier)
        .build()
        .unwrap();
    earlier.call_tool("t", ()).await.unwrap();
    assert_eq!(
        recorder.methods(),
        ["initialize", "notifications/initialized", "tools/call"]
    );
    assert!(recorder.seen().iter().all(|seen| !seen.is_modern()));
}

/// A state is never taken to the other era.
#[tokio::test]
async fn case_195_a_rejected_state_does_not_lead_to_a_session() {
    for status in [200, 400] {
        let recorder = Recorder::new(session("2025-11-25", move |seen| match seen.what() {
            "tools/call" if seen.param("requestState").is_some() => Some(error(status, -32602)),
            "tools/call" => Some(asks("k", "S")),
            _ => None,
        }));
        // The state is resumed by a client that knows nothing of the server.
        let first = in_process(&recorder).on_form(yes).build().unwrap();
        let progress = first.begin("t", ()).await.unwrap();
        let mrtr_client::Progress::InputRequired(pending) = progress else {
            panic!("no round")
        };
        let fresh = in_process(&recorder).on_form(yes).build().unwrap();
        let error = fresh.finish(*pending).await.unwrap_err();
        assert!(matches!(error, CallError::Rpc { .. }), "{status}: {error}");
        assert_eq!(recorder.methods(), ["tools/call", "tools/call"], "{status}");
        let sent = recorder.seen()[1].params()["inputResponses"]["k"].clone();
        assert_eq!(sent, accepted());
    }
}

#[tokio::test]
async fn a_state_is_not_sent_into_a_session() {
    let recorder = Recorder::new(|_, _| asks("k", "S"));
    let client = in_process(&recorder).on_form(yes).build().unwrap();
    let progress = client.begin("t", ()).await.unwrap();
    let mrtr_client::Progress::InputRequired(pending) = progress else {
        panic!("no round")
    };
    let recorder = Recorder::new(earlier_but(|| Reply::status(400)));
    let earlier = in_process(&recorder)
        .on_form(yes)
        .era(EraChoice::Earlier)
        .build()
        .unwrap();
    let error = earlier.finish(*pending).await.unwrap_err();
    assert!(matches!(error, CallError::OtherServer { .. }), "{error}");
    assert!(!recorder.methods().contains(&"tools/call".to_owned()));
}

/// What is remembered may be wrong by now.
#[tokio::test]
async fn case_227_a_server_that_changed_its_era_is_probed_anew() {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, Ordering};
    let is_modern = Arc::new(AtomicBool::new(true));
    let now = Arc::clone(&is_modern);
    let old = earlier_but(|| Reply::status(400));
    let recorder = Recorder::new(move |n, seen| match now.load(Ordering::Relaxed) {
        true if seen.is_modern() => done("modern"),
        true if seen.what() == "initialize" => error(400, -32020),
        true => Reply::status(404),
        false => old(n, seen),
    });
    let client = in_process(&recorder).build().unwrap();
    let call = async || client.call_tool("t", ()).await.unwrap().joined_text();
    assert_eq!(call().await, "modern");
    is_modern.store(false, Ordering::Relaxed);
    assert_eq!(call().await, "in a session");
    is_modern.store(true, Ordering::Relaxed);
    // The session is gone, so this call is refused and not repeated by itself.
    let lost = client.call_tool("t", ()).await.unwrap_err();
    assert!(matches!(lost, CallError::SessionLost { .. }), "{lost}");
    assert_eq!(call().await, "modern");
    assert_eq!(client.era(), Some(Era::Modern));
}

#[tokio::test]
async fn the_better_error_is_told_when_neither_era_is_taken() {
    let modern_error = |initialize: fn() -> Reply| async move {
        let recorder = Recorder::new(move |_, seen| match seen.what() {
            "initialize" => initialize(),
            _ => Reply::status(404),
        });
        let client = in_process(&recorder).build().unwrap();
        let error = client.list_prompts().await.unwrap_err();
        (error.to_string(), recorder.count())
    };
    let (text, count) = modern_error(|| Reply::status(404)).await;
    assert!(
        text.contains("404") && text.contains("check the path"),
        "{text}"
    );
    assert_eq!(count, 2);
    let (text, _) = modern_error(|| error(404, -32601)).await;
    assert!(text.contains("404") && !text.contains("session"), "{text}");
    let version = || {
        Reply::Result(
            json!({"protocolVersion": "2024-11-05", "capabilities": {}, "serverInfo": {"name": "s", "version": "1"}}),
        )
    };
    let (text, _) = modern_error(version).await;
    assert!(text.contains("2024-11-05"), "{text}");
    let (text, _) = modern_error(|| Reply::status(500)).await;
    assert!(text.contains("404"), "{text}");
}

#[tokio::test]
async fn a_result_that_does_not_say_what_it_is_decides_nothing() {
    // A server of the earlier era without sessions may take a modern request for one of its own.
    let recorder = Recorder::new(|_, _| Reply::Result(text("x")));
    let client = in_process(&recorder).build().unwrap();
    client.call_tool("t", ()).await.unwrap();
    assert_eq!(client.era(), None);
    let recorder = Recorder::new(|_, _| done("x"));
    let client = in_process(&recorder).build().unwrap();
    client.call_tool("t", ()).await.unwrap();
    assert_eq!(client.era(), Some(Era::Modern));
}

#[tokio::test]
async fn who_the_server_is_can_be_asked_in_either_era() {
    let server = Server::start(earlier_but(|| Reply::status(400))).await;
    let client = server.client().build().unwrap();
    let info = client.server().await.unwrap();
    assert_eq!(info.era, Era::Earlier(EarlierRevision::V2025_11_25));
    assert_eq!(info.info.unwrap().name, "old");
    assert!(info.capabilities.tools.is_some());
    let error = client.discover().await.unwrap_err();
    assert!(
        matches!(
            error,
            RequestError::NotInThisEra {
                method: "server/discover",
                ..
            }
        ),
        "{error}"
    );
    client.ping().await.unwrap();
    let discover: Value = json!({"resultType": "complete", "supportedVersions": ["2026-07-28"], "capabilities": {"prompts": {}},
        "ttlMs": 0, "cacheScope": "private", "instructions": "Be kind.", "_meta": {"io.modelcontextprotocol/serverInfo": {"name": "new", "version": "2"}}});
    let server = Server::start(move |_, _| Reply::Result(discover.clone())).await;
    let client = server.client().build().unwrap();
    let info = client.server().await.unwrap();
    assert_eq!(
        (info.era, info.info.unwrap().name.as_str()),
        (Era::Modern, "new")
    );
    assert_eq!(info.instructions.as_deref(), Some("Be kind."));
    let error = client.ping().await.unwrap_err();
    assert!(matches!(
        error,
        RequestError::NotInThisEra {
            era: Era::Modern,
            ..
        }
    ));
    assert_eq!(
        server.recorder.methods(),
        ["server/discover"],
        "nothing is sent for a ping"
    );
}
