//! A bank whose tools charge in every order, and report it.

use std::sync::Arc;

use mrtr_ledger::MemoryLedger;
use mrtr_server::{
    Answer, Args, DurableFlow, Flow, Form, Principal, Server, ServerBuilder, State, StaticTokens,
    ToolError, tool,
};
use mrtr_state::{KeyRing, StateCodec, Timestamp};
use mrtr_state_hmac::HmacCodec;
use mrtr_testkit::{Effects, Harness, ManualClock};
use schemars::JsonSchema;
use serde::Deserialize;

#[derive(Deserialize, JsonSchema)]
pub(crate) struct Charge {
    amount: u32,
}

#[derive(Deserialize, JsonSchema)]
struct Confirm {
    ok: bool,
}

fn question(charge: &Charge) -> Form<Confirm> {
    Form::new(format!("Charge {}?", charge.amount))
}

fn agreed(answer: &Answer<Confirm>) -> bool {
    matches!(answer, Answer::Accept(Confirm { ok: true }))
}

/// Charges, then asks.
async fn charge_bad(
    Args(charge): Args<Charge>,
    flow: Flow,
    State(effects): State<Effects>,
) -> String {
    effects.happened("charge");
    let answer = flow.ask("confirm", question(&charge)).await;
    format!("charged {}, agreed: {}", charge.amount, agreed(&answer))
}

/// Asks, then charges.
async fn charge_good(
    Args(charge): Args<Charge>,
    flow: Flow,
    State(effects): State<Effects>,
) -> String {
    if !agreed(&flow.ask("confirm", question(&charge)).await) {
        return "nothing".to_owned();
    }
    effects.happened("charge");
    format!("charged {}", charge.amount)
}

/// The bad order, inside `once`.
async fn charge_once(
    Args(charge): Args<Charge>,
    flow: DurableFlow,
    State(effects): State<Effects>,
) -> Result<String, ToolError> {
    flow.once("charge", async || {
        effects.happened("charge");
        Ok::<_, ToolError>(())
    })
    .await?;
    let answer = flow.ask("confirm", question(&charge)).await;
    Ok(format!(
        "charged {}, agreed: {}",
        charge.amount,
        agreed(&answer)
    ))
}

/// Good in its first two rounds; the mail between the questions goes out again in the third.
async fn mail_between(flow: Flow, State(effects): State<Effects>) -> &'static str {
    let _ = flow.ask("a", Form::<Confirm>::new("First?")).await;
    effects.happened("mail");
    let _ = flow.ask("b", Form::<Confirm>::new("Second?")).await;
    effects.happened("charge");
    "done"
}

/// Charges twice in its last round.
async fn charge_twice(flow: Flow, State(effects): State<Effects>) -> &'static str {
    let _ = flow.ask("confirm", Form::<Confirm>::new("Twice?")).await;
    effects.happened("charge");
    effects.happened("charge");
    "done"
}

/// Reports nothing.
async fn silent(flow: Flow) -> &'static str {
    let _ = flow.ask("confirm", Form::<Confirm>::new("Sure?")).await;
    "done"
}

async fn plain(State(effects): State<Effects>) -> &'static str {
    effects.happened("charge");
    "done"
}

/// A question that never comes to an end.
async fn endless(flow: Flow) -> &'static str {
    for n in 0.. {
        let _ = flow
            .ask(format!("q{n}"), Form::<Confirm>::new(format!("{n}?")))
            .await;
    }
    "never"
}

/// Takes its time after the question.
async fn charge_slowly(flow: Flow, State(effects): State<Effects>) -> &'static str {
    if !agreed(&flow.ask("confirm", Form::new("Slowly?")).await) {
        return "nothing";
    }
    effects.happened("charge");
    for _ in 0..200 {
        tokio::task::yield_now().await;
    }
    "charged"
}

/// Never ends.
async fn stuck(State(effects): State<Effects>) -> &'static str {
    effects.happened("begun");
    std::future::pending().await
}

/// Two questions in one round.
async fn two(flow: Flow) -> String {
    let (b, a) = tokio::join!(
        flow.ask("b", Form::<Confirm>::new("B?")),
        flow.ask("a", Form::<Confirm>::new("A?"))
    );
    format!("{} {}", agreed(&b), agreed(&a))
}

pub(crate) struct Bank {
    pub(crate) harness: Harness,
    pub(crate) effects: Effects,
}

impl Bank {
    /// With a ledger.
    pub(crate) fn open() -> Bank {
        Bank::with(hmac(), |server, clock| {
            let ledger = MemoryLedger::new(Arc::new(clock)).unwrap();
            server.ledger(ledger).tool(tool("charge_once", charge_once))
        })
    }

    pub(crate) fn without_ledger() -> Bank {
        Bank::with(hmac(), |server, _| server)
    }

    pub(crate) fn with(
        codec: impl StateCodec,
        change: impl FnOnce(ServerBuilder, ManualClock) -> ServerBuilder,
    ) -> Bank {
        let effects = Effects::new();
        let server = server(codec, &effects, change);
        Bank {
            harness: Harness::new(server).by("alice"),
            effects,
        }
    }
}

pub(crate) fn hmac() -> HmacCodec {
    HmacCodec::new(KeyRing::generate().unwrap()).unwrap()
}

pub(crate) fn server(
    codec: impl StateCodec,
    effects: &Effects,
    change: impl FnOnce(ServerBuilder, ManualClock) -> ServerBuilder,
) -> Server {
    let clock = ManualClock::at(Timestamp::from_millis(1_800_000_000_000));
    let user = |name| Principal::user("https://login.example", name);
    let builder = Server::builder("bank", "1.0.0")
        .audience("https://bank.example/mcp")
        .codec(codec)
        .clock(clock.clone())
        .authenticator(
            StaticTokens::new()
                .token("alice", user("alice"))
                .token("bob", user("bob")),
        )
        .limits(|limits| limits.rounds = 1000)
        .state(effects.clone())
        .tool(tool("charge_bad", charge_bad))
        .tool(tool("charge_good", charge_good))
        .tool(tool("mail_between", mail_between))
        .tool(tool("charge_twice", charge_twice))
        .tool(tool("charge_slowly", charge_slowly))
        .tool(tool("stuck", stuck))
        .tool(tool("silent", silent))
        .tool(tool("plain", plain))
        .tool(tool("endless", endless))
        .tool(tool("two", two));
    change(builder, clock).build().unwrap()
}
