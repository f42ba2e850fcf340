//! The probe over stdio (*stdio, Backward Compatibility*).

use std::time::Duration;

use mrtr_client::{CallError, Era, EraChoice, ProtocolError, RequestError};
use mrtr_protocol::earlier::EarlierRevision;
use serde_json::{Value, json};

use super::peer::{Peer, Said, discovered, error, initialized, modern, result, text};

/// A peer that answers the probe so, and serves the earlier era.
fn probed(
    answer: impl Fn(&Value) -> Vec<Said> + Send + 'static,
) -> (mrtr_client::ClientBuilder, Peer) {
    Peer::start(move |message| match message["method"].as_str() {
        Some("server/discover") => answer(message),
        Some("initialize") => {
            let wanted = message["params"]["protocolVersion"].as_str().unwrap();
            vec![initialized(message, wanted)]
        }
        Some("tools/call") => vec![text(message, "x")],
        _ => Vec::new(),
    })
}

#[tokio::test]
async fn a_modern_server_is_probed_once_and_has_no_headers() {
    let (client, peer) = modern(|message| vec![text(message, "x")]);
    let client = client.build().unwrap();
    assert_eq!(client.era(), None);
    client.call_tool("t", json!({"a": 1})).await.unwrap();
    client.call_tool("t", ()).await.unwrap();
    assert_eq!(client.era(), Some(Era::Modern));
    assert_eq!(
        peer.methods(),
        ["server/discover", "tools/call", "tools/call"]
    );
    for seen in peer.seen() {
        let meta = &seen["params"]["_meta"];
        assert_eq!(
            meta["io.modelcontextprotocol/protocolVersion"],
            "2026-07-28"
        );
        assert!(meta["io.modelcontextprotocol/clientCapabilities"].is_object());
        assert_eq!(
            meta["io.modelcontextprotocol/clientInfo"]["name"],
            "mrtr-client"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn case_225_any_other_error_and_silence_lead_to_initialize() {
    let junk = |message: &Value| vec![result(message, json!({"tools": []}))];
    type Answer = Box<dyn Fn(&Value) -> Vec<Said> + Send>;
    let answers: Vec<Answer> = vec![
        Box::new(|message| vec![error(message, -32601)]),
        Box::new(|message| vec![error(message, -32602)]),
        Box::new(|message| vec![error(message, -32600)]),
        Box::new(|message| vec![error(message, -32000)]),
        Box::new(|message| vec![error(message, -32603)]),
        Box::new(|message| vec![error(message, 7)]),
        Box::new(junk),
        Box::new(|message| vec![discovered(message, &["2025-11-25"])]),
        Box::new(|message| vec![Said::Raw(b"noise\n".to_vec()), error(message, -32601)]),
        Box::new(|_| Vec::new()),
    ];
    for answer in answers {
        let (client, peer) = probed(answer);
        let client = client.build().unwrap();
        client.call_tool("t", ()).await.unwrap();
        let handshake = [
            "server/discover",
            "initialize",
            "notifications/initialized",
            "tools/call",
        ];
        assert_eq!(peer.methods(), handshake);
        assert_eq!(
            client.era(),
            Some(Era::Earlier(EarlierRevision::V2025_11_25))
        );
        // The session's requests carry nothing of the other era.
        assert!(peer.seen()[3]["params"].get("_meta").is_none());
        client.call_tool("t", ()).await.unwrap();
        assert_eq!(peer.methods().len(), 5);
    }
}

#[tokio::test]
async fn case_225_a_recognised_modern_error_never_leads_to_initialize() {
    let unsupported = |supported: &'static [&'static str]| {
        move |message: &Value| {
            let data = json!({"supported": supported, "requested": "2026-07-28"});
            let error = json!({"code": -32022, "message": "no", "data": data});
            vec![Said::Line(
                json!({"jsonrpc": "2.0", "id": message["id"], "error": error}),
            )]
        }
    };
    for code in [-32020, -32021] {
        let (client, peer) = probed(move |message| vec![error(message, code)]);
        let failed = client
            .build()
            .unwrap()
            .call_tool("t", ())
            .await
            .unwrap_err();
        assert!(matches!(failed, CallError::NotSent { .. }), "{failed}");
        assert_eq!(peer.methods(), ["server/discover"]);
    }
    let (client, peer) = probed(unsupported(&["2031-01-01"]));
    let failed = client
        .build()
        .unwrap()
        .call_tool("t", ())
        .await
        .unwrap_err();
    assert!(failed.to_string().contains("2031-01-01"), "{failed}");
    assert_eq!(peer.methods(), ["server/discover"]);
    // Its own version again: it is spoken.
    let (client, peer) = probed(unsupported(&["2026-07-28"]));
    client.build().unwrap().call_tool("t", ()).await.unwrap();
    assert_eq!(peer.methods(), ["server/discover", "tools/call"]);
    // A version that is spoken in sessions only.
    let (client, peer) = probed(unsupported(&["2025-06-18"]));
    client.build().unwrap().call_tool("t", ()).await.unwrap();
    assert_eq!(peer.seen()[1]["params"]["protocolVersion"], "2025-06-18");
}

#[tokio::test(start_paused = true)]
async fn a_modern_server_that_is_slow_to_start_stays_modern() {
    let (client, peer) = Peer::start(|message| match message["method"].as_str() {
        Some("tools/call") => vec![text(message, "x")],
        _ => Vec::new(),
    });
    let client = client.build().unwrap();
    let call = tokio::spawn({
        let client = client.clone();
        async move { client.call_tool("t", ()).await }
    });
    // It reads both, and answers both when it is up.
    let initialize = peer.until("initialize", 1).await;
    let discover = peer.until("server/discover", 1).await;
    tokio::time::sleep(Duration::from_secs(20)).await;
    for said in [
        discovered(&discover, &["2026-07-28"]),
        error(&initialize, -32601),
    ] {
        let Said::Line(line) = said else { panic!() };
        peer.say(&line);
    }
    call.await.unwrap().unwrap();
    assert_eq!(client.era(), Some(Era::Modern));
    assert_eq!(
        peer.methods(),
        ["server/discover", "initialize", "tools/call"]
    );
}

#[tokio::test]
async fn case_225_a_server_that_ends_during_the_probe_is_an_error_of_no_era() {
    let (client, peer) = Peer::start(|_| Vec::new());
    let client = client.build().unwrap();
    let call = tokio::spawn(async move { client.call_tool("t", ()).await });
    peer.until("server/discover", 1).await;
    peer.hang_up();
    let failed = call.await.unwrap().unwrap_err();
    assert!(matches!(failed, CallError::NotSent { .. }), "{failed}");
    assert!(!peer.methods().contains(&"initialize".to_owned()));
}

#[tokio::test]
async fn one_era_by_choice_is_the_only_one() {
    let (client, peer) = probed(|message| vec![error(message, -32601)]);
    let client = client.era(EraChoice::Modern).build().unwrap();
    let failed = client.call_tool("t", ()).await.unwrap_err();
    assert!(matches!(failed, CallError::NotSent { .. }), "{failed}");
    assert_eq!(
        peer.methods(),
        ["server/discover"],
        "no call for a server of another era"
    );
    let (client, peer) = probed(|_| panic!("probed"));
    let client = client.era(EraChoice::Earlier).build().unwrap();
    client.call_tool("t", ()).await.unwrap();
    assert_eq!(
        peer.methods(),
        ["initialize", "notifications/initialized", "tools/call"]
    );
    let (client, _peer) = probed(|message| vec![discovered(message, &["2025-11-25"])]);
    let client = client.era(EraChoice::Modern).build().unwrap();
    let failed = client.call_tool("t", ()).await.unwrap_err();
    assert!(failed.to_string().contains("2025-11-25"), "{failed}");
}

#[tokio::test]
async fn one_handshake_serves_all_who_call_first() {
    let (client, peer) = probed(|message| vec![error(message, -32601)]);
    let client = client.build().unwrap();
    let calls = (0..20).map(|_| client.call_tool("t", ()));
    futures_util::future::try_join_all(calls).await.unwrap();
    let count = |what: &str| peer.methods().iter().filter(|own| *own == what).count();
    assert_eq!((count("server/discover"), count("initialize")), (1, 1));
}

#[tokio::test]
async fn a_foreign_version_ends_the_handshake() {
    let (client, peer) = Peer::start(|message| match message["method"].as_str() {
        Some("initialize") => vec![initialized(message, "2024-11-05")],
        _ => vec![error(message, -32601)],
    });
    let failed = client.build().unwrap().list_tools().await.unwrap_err();
    let RequestError::Handshake(source) = failed else {
        panic!("{failed}")
    };
    assert!(matches!(
        *source,
        RequestError::Protocol(ProtocolError::Revision { .. })
    ));
    assert!(
        !peer
            .methods()
            .contains(&"notifications/initialized".to_owned())
    );
}
