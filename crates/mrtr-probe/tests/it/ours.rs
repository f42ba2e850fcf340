//! Our own server, which must hold every attack.

use std::net::Ipv4Addr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use mrtr_ledger::MemoryLedger;
use mrtr_probe::{Report, Target, Verdict};
use mrtr_server::{
    Answer, Args, Flow, Form, Principal, Server, ServerBuilder, State, StaticTokens, ToolError,
    prompt, tool,
};
use mrtr_state::{KeyRing, SystemClock};
use mrtr_state_hmac::HmacCodec;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;
use tokio::sync::oneshot;

/// How long a state lives.
pub(crate) const LIFETIME: Duration = Duration::from_secs(2);

/// How often the effect happened.
#[derive(Clone, Default)]
pub(crate) struct Effects(Arc<AtomicUsize>);

impl Effects {
    pub(crate) fn happen(&self) -> usize {
        self.0.fetch_add(1, Ordering::SeqCst) + 1
    }

    pub(crate) fn count(&self) -> usize {
        self.0.load(Ordering::SeqCst)
    }
}

#[derive(Deserialize, JsonSchema)]
struct Transfer {
    to: String,
    amount: i64,
}

#[derive(Deserialize, JsonSchema)]
struct Confirm {
    ok: bool,
}

async fn transfer(
    Args(transfer): Args<Transfer>,
    flow: Flow,
    State(effects): State<Effects>,
) -> Result<String, ToolError> {
    let question = format!("Transfer {} to {}?", transfer.amount, transfer.to);
    match flow.ask("confirm", Form::<Confirm>::new(question)).await {
        Answer::Accept(Confirm { ok: true }) => {
            Ok(format!("Transferred as number {}.", effects.happen()))
        }
        _ => Ok("Nothing was transferred.".into()),
    }
}

/// Two rounds, and the effect after the second.
async fn twice(
    Args(transfer): Args<Transfer>,
    flow: Flow,
    State(effects): State<Effects>,
) -> Result<String, ToolError> {
    for key in ["first", "second"] {
        let question = format!("{key}: {} to {}?", transfer.amount, transfer.to);
        let answer = flow.ask(key, Form::<Confirm>::new(question)).await;
        if !matches!(answer, Answer::Accept(Confirm { ok: true })) {
            return Ok("Nothing was transferred.".into());
        }
    }
    Ok(format!("Transferred as number {}.", effects.happen()))
}

async fn count(State(effects): State<Effects>) -> String {
    effects.count().to_string()
}

/// What a prompt is given is text.
#[derive(Deserialize, JsonSchema)]
struct Letter {
    to: String,
    amount: String,
}

async fn letter(Args(letter): Args<Letter>, flow: Flow) -> Result<String, ToolError> {
    let question = Form::<Confirm>::new(format!("A letter to {} of {}?", letter.to, letter.amount));
    match flow.ask("confirm", question).await {
        Answer::Accept(Confirm { ok: true }) => Ok(format!("Dear {}", letter.to)),
        _ => Ok("No letter.".into()),
    }
}

/// A server that runs until it is dropped.
pub(crate) struct Serving {
    pub(crate) url: String,
    pub(crate) effects: Effects,
    _end: oneshot::Sender<()>,
}

pub(crate) fn builder(effects: &Effects) -> ServerBuilder {
    let user = |subject| Principal::user("https://login.example", subject);
    let ledger = MemoryLedger::new(Arc::new(SystemClock)).unwrap();
    Server::builder("bank", "1.0.0")
        .audience("https://bank.example/mcp")
        .authenticator(
            StaticTokens::new()
                .token("token-of-alice", user("alice"))
                .token("token-of-bob", user("bob")),
        )
        .codec(HmacCodec::new(KeyRing::generate().unwrap()).unwrap())
        .ledger(ledger)
        .limits(|limits| limits.lifetime = LIFETIME)
        .state(effects.clone())
        .tool(tool("transfer", transfer))
        .tool(tool("transfer_after_two_questions", twice))
        .tool(tool("count", count))
}

pub(crate) async fn serve(effects: Effects, builder: ServerBuilder) -> Serving {
    let server = builder.build().unwrap();
    let listener = tokio::net::TcpListener::bind((Ipv4Addr::LOCALHOST, 0))
        .await
        .unwrap();
    let url = format!("http://{}/mcp", listener.local_addr().unwrap());
    let (end, ended) = oneshot::channel::<()>();
    tokio::spawn(async move {
        let ended = async {
            let _ = ended.await;
        };
        server.serve(listener, ended).await
    });
    Serving {
        url,
        effects,
        _end: end,
    }
}

/// What is known of such a server.
pub(crate) fn target(url: &str) -> Target {
    let mut target = Target::new(url, "transfer");
    target.arguments = json!({ "to": "bob", "amount": 100 });
    target.answer = json!({ "ok": true });
    target.token = Some("token-of-alice".into());
    target.other_token = Some("token-of-bob".into());
    target.effect_tool = Some("count".into());
    target.other_tool = Some("transfer_after_two_questions".into());
    target.lifetime = Some(LIFETIME);
    target
}

/// The names of the rows with this verdict.
pub(crate) fn rows(report: &Report, verdict: Verdict) -> Vec<&'static str> {
    let rows = report.rows.iter().filter(|row| row.verdict == verdict);
    rows.map(|row| row.id).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn case_263_our_server_holds_every_attack() {
    let effects = Effects::default();
    let builder = builder(&effects).prompt(prompt("transfer", letter));
    let server = serve(effects, builder).await;
    let mut seen = 0;
    let report = mrtr_probe::run(&target(&server.url), |_| seen += 1)
        .await
        .unwrap();
    assert!(rows(&report, Verdict::Unsafe).is_empty(), "{report}");
    assert!(rows(&report, Verdict::Unknown).is_empty(), "{report}");
    assert!(rows(&report, Verdict::NotApplicable).is_empty(), "{report}");
    assert_eq!(seen, report.rows.len());
    assert!(server.effects.count() > 10);
    assert_eq!(report.rows[0].id, "good-path");
    for text in [
        report.to_string(),
        serde_json::to_string(&report).unwrap(),
        report.to_sarif().to_string(),
    ] {
        assert!(!text.contains("token-of-"), "{text}");
        assert!(!text.contains("mrtr1.h.") || text.contains('…'), "{text}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_last_of_several_rounds_is_attacked() {
    let effects = Effects::default();
    let builder = builder(&effects);
    let server = serve(effects, builder).await;
    let mut target = target(&server.url);
    target.tool = "transfer_after_two_questions".into();
    target.other_tool = Some("transfer".into());
    let report = mrtr_probe::run(&target, |_| {}).await.unwrap();
    assert!(report.rows[0].note.contains("asked 2×"), "{report}");
    assert!(rows(&report, Verdict::Unsafe).is_empty(), "{report}");
    assert!(rows(&report, Verdict::Unknown).is_empty(), "{report}");
    assert_eq!(
        rows(&report, Verdict::NotApplicable),
        ["other-method"],
        "{report}"
    );
}

/// Without a count of effects, the flag of a stored result tells that nothing ran.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn flagged_results_are_safe_without_a_count() {
    let effects = Effects::default();
    let builder = builder(&effects);
    let server = serve(effects, builder).await;
    let mut target = target(&server.url);
    target.effect_tool = None;
    let report = mrtr_probe::run(&target, |_| {}).await.unwrap();
    assert!(rows(&report, Verdict::Unsafe).is_empty(), "{report}");
    for id in [
        "replay",
        "concurrent-replay",
        "fork",
        "decline-then-accept",
        "changed-character",
    ] {
        assert_eq!(report.row(id).unwrap().verdict, Verdict::Safe, "{report}");
    }
    let unknown = rows(&report, Verdict::Unknown);
    assert!(!unknown.is_empty());
    for id in unknown {
        assert!(
            report.row(id).unwrap().note.contains("--effect-tool"),
            "{report}"
        );
    }
}
