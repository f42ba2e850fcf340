//! What reaches the log: enough for an operator, and nothing that is somebody's secret.

use std::collections::HashSet;
use std::io::Write;
use std::sync::{Arc, Mutex};

use serde_json::json;
use tracing_subscriber::fmt::MakeWriter;

use crate::bank::{Bank, Call, accept};

/// Everything that one thread logs, spans and their ends too.
#[derive(Clone, Default)]
pub(crate) struct Log(Arc<Mutex<Vec<u8>>>);

impl Log {
    /// Listens to this thread until what comes with it is dropped.
    pub(crate) fn listen() -> (Self, Listening) {
        let log = Self::default();
        let subscriber = tracing_subscriber::fmt()
            .with_max_level(tracing::Level::TRACE)
            .with_span_events(tracing_subscriber::fmt::format::FmtSpan::FULL)
            .with_ansi(false)
            .with_writer(log.clone())
            .finish();
        let listening = Listening {
            _guard: tracing::subscriber::set_default(subscriber),
            _second: tracing::Dispatch::new(tracing::subscriber::NoSubscriber::default()),
        };
        (log, listening)
    }

    pub(crate) fn text(&self) -> String {
        String::from_utf8(self.0.lock().unwrap().clone()).unwrap()
    }
}

/// Ends the listening when it is dropped.
pub(crate) struct Listening {
    _guard: tracing::subscriber::DefaultGuard,
    // With one subscriber alone, tracing asks the thread that comes to a span first whether anybody wants it, and keeps the
    // answer for all; that thread may be another test's. With two it asks the subscribers.
    _second: tracing::Dispatch,
}

impl Write for Log {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().write(bytes)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

impl MakeWriter<'_> for Log {
    type Writer = Self;

    fn make_writer(&self) -> Self {
        self.clone()
    }
}

/// Every record and span of the server's own, from one thread.
#[tokio::test]
async fn case_266_the_log_tells_flows_apart_and_holds_no_state_key_answer_or_argument() {
    let (log, _listening) = Log::listen();
    let bank = Bank::new();
    let asked = |memo: &str| Call::first().argument("memo", memo);
    let state = bank
        .send(&asked("an argument of mine"))
        .await
        .state()
        .to_owned();
    let retry = || Call::retry(&state).argument("memo", "an argument of mine");
    bank.send(&retry().answer("confirm", accept(json!({ "ok": "an answer of mine" }))))
        .await;
    bank.send(&retry()).await;
    bank.send(&retry().by("user-b")).await;
    bank.send(&retry().by("a token of mine")).await;
    bank.send(&Call::retry(&format!("{state}x"))).await;
    bank.send(&asked("an argument of mine").declaring(json!({})))
        .await;

    let traced = Call::of("plain", json!({}))
        .meta(
            "traceparent",
            "00-0af7651916cd43dd8448eb211c80319c-00f067aa0ba902b7-01",
        )
        .meta("tracestate", "rojo=a-state-of-mine")
        .meta("baggage", "user=baggage-of-mine")
        .meta("com.example/x", "an entry of mine");
    bank.send(&traced).await;
    bank.send(&Call::of("plain", json!({})).meta("traceparent", "a parent of mine"))
        .await;

    let text = log.text();
    assert!(
        text.contains("tools/call") && text.contains("transfer"),
        "{text}"
    );
    assert!(text.contains("flow="), "a hash of the flow's id: {text}");
    assert!(
        text.contains("different_principal") && text.contains("already_used"),
        "reasons: {text}"
    );
    assert!(
        text.contains("trace_id=\"0af7651916cd43dd8448eb211c80319c\"")
            && text.contains("parent_id=\"00f067aa0ba902b7\""),
        "the client's trace: {text}"
    );
    for number in [
        "mrtr::metrics",
        "monotonic_counter.mrtr.states.rejected=1",
        "monotonic_counter.mrtr.ledger.claims=1",
        "kind=\"round\" answer=\"first\"",
        "kind=\"round\" answer=\"conflict\"",
        "monotonic_counter.mrtr.ledger.settlements=1 answer=\"stored\"",
        "histogram.mrtr.ledger.duration=",
        "operation=\"claim\"",
    ] {
        assert!(text.contains(number), "{number}: {text}");
    }
    let middle = &state[state.len() / 2..state.len() / 2 + 24];
    for secret in [
        middle, "of mine", "of-mine", "acct-7", "user-a", "user-b", "app-1",
    ] {
        assert!(!text.contains(secret), "{secret:?} is in the log: {text}");
    }
}

#[tokio::test]
async fn case_266_one_hash_links_the_rounds_of_a_flow_and_numbers_count_them() {
    let (log, _listening) = Log::listen();
    let bank = Bank::new();
    let call = |id: i64| Call::of("steps", json!({})).id(id);
    let yes = || accept(json!({ "ok": true }));
    let first = bank.send(&call(1)).await;
    let second = call(2).state(first.state()).answer("a", yes());
    let second = bank.send(&second).await;
    let last = call(3).state(second.state()).answer("b", yes());
    assert_eq!(bank.send(&last).await.text(), "done");
    assert!(bank.send(&last).await.is_replayed());
    bank.send(&call(4).state("nonsense")).await;

    let text = log.text();
    let flows = |text: &str| -> HashSet<String> {
        let named = text.split("flow=").skip(1);
        named
            .map(|rest| rest.split([' ', '}']).next().unwrap().to_owned())
            .collect()
    };
    assert_eq!(flows(&text).len(), 1, "{text}");
    for (number, count) in [
        ("mrtr.states.sealed=1", 2),
        ("kind=\"round\" answer=\"first\"", 2),
        ("kind=\"round\" answer=\"settled\"", 1),
        ("mrtr.states.rejected=1 reason=\"malformed\"", 1),
        ("operation=\"claim\"", 3),
    ] {
        let lines = text.lines().filter(|line| line.contains(number)).count();
        assert_eq!(lines, count, "{number}: {text}");
    }
    bank.open().await;
    assert_eq!(flows(&log.text()).len(), 2, "another flow has another hash");
}
