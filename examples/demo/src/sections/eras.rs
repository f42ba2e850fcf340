//! The eras: one tool body, asked in the way of 2026-07-28 and in that of 2025-11-25, where the server waits while the
//! person thinks.

use std::time::Duration;

use serde_json::{Value, json};

use super::ticket::charged;
use super::{KEYS, confirmed, yes};
use crate::Fault;
use crate::board::{Case, Governed};
use crate::people::{Person, count, earlier_host};
use crate::servers::{Server, Stage};
use crate::session::{Call, Session};
use crate::wire::Wire;

const SECTION: &str = "eras";
/// A tool that asks once and then leaves one entry: the example that has it, its name and its arguments.
type Asking = (&'static str, &'static str, fn() -> Value);

const EXPENSE: Asking = (
    "expenses",
    "submit_expense",
    || json!({ "amount": 250, "memo": "train" }),
);
const VOUCHER: Asking = (
    "voucher",
    "redeem_voucher",
    || json!({ "code": "MAY-2026" }),
);
const WAITING: Governed = Governed::Not("shows where the waiting happens; nothing is attacked");
const HONEST: Governed =
    Governed::Not("an honest flow: nothing is altered, and nothing is presented twice");

/// Which way a tool is asked.
#[derive(Debug, Clone, Copy)]
enum Era {
    Modern,
    Earlier,
}

pub(crate) fn cases() -> Vec<Case> {
    let case = |what: &str, era: Era, expected: &str, play: fn(Stage, Era) -> Played| {
        let name = match era {
            Era::Modern => "modern",
            Era::Earlier => "earlier",
        };
        let what = format!("{what}, {name}");
        Case::new(SECTION, what, expected, WAITING, move |stage| {
            play(stage, era)
        })
    };
    let mut cases = Vec::new();
    for (era, waiting, elsewhere, after_death) in [
        (
            Era::Modern,
            "0",
            "completed, 1 entry",
            "finished on another, 1 entry",
        ),
        (
            Era::Earlier,
            "1",
            "refused, 0 entries",
            "call lost, 0 entries",
        ),
    ] {
        let thinking = "tasks and threads that wait in the server while the person thinks";
        cases.push(case(thinking, era, waiting, |stage, era| {
            Box::pin(parked(stage, era))
        }));
        let landing = "the answer lands on another instance";
        cases.push(case(landing, era, elsewhere, |stage, era| {
            Box::pin(at_another(stage, era))
        }));
        let dying = "the instance dies while it waits";
        cases.push(case(dying, era, after_death, |stage, era| {
            Box::pin(after_the_first(stage, era))
        }));
    }
    cases.push(Case::new(
        SECTION,
        "ticket quoted 190.00, the list price becomes 210.00 before the answer; with memo, earlier",
        "charged 190.00",
        HONEST,
        pinned,
    ));
    cases.push(Case::new(
        SECTION,
        "voucher, the same answer twice, earlier",
        "redeemed once; the second answer refused",
        HONEST,
        answered_twice,
    ));
    cases.extend(answered());
    cases
}

/// The rows of expense and charges again, in the earlier era: the effects are those of the modern one, but where the body
/// of the modern one runs again.
fn answered() -> Vec<Case> {
    let row = |what: &str, of: Asking, person: fn() -> Person, expected: &str| {
        let play = move |stage| asked_in_session(stage, of, person());
        Case::new(SECTION, format!("{what}, earlier"), expected, HONEST, play)
    };
    let small: Asking = (
        "expenses",
        "submit_expense",
        || json!({ "amount": 50, "memo": "train" }),
    );
    let charge: fn(&'static str) -> Asking = |tool| ("charges", tool, || json!({ "amount": 30 }));
    let yes = Person::says_yes;
    let no = Person::declines;
    vec![
        row(
            "expense of 50",
            small,
            yes,
            "0 prompts, 1 entry; told: Submitted",
        ),
        row(
            "expense of 250, the person says yes",
            EXPENSE,
            yes,
            "1 prompt, 1 entry; told: Submitted",
        ),
        row(
            "expense of 250, the person declines",
            EXPENSE,
            no,
            "1 prompt, 0 entries; told: Do not ask again for this",
        ),
        row(
            "expense of 250, the question is dismissed",
            EXPENSE,
            Person::dismisses,
            "1 prompt, 0 entries; told: Ask again later",
        ),
        row(
            "expense of 250, accepted with the box unticked",
            EXPENSE,
            Person::leaves_the_box,
            "1 prompt, 0 entries; told: the box was not ticked",
        ),
        row(
            "charge_bad: charges, then asks; confirmed; its body does not run again",
            charge("charge_bad"),
            yes,
            "1 prompt, 1 entry; told: Charged",
        ),
        row(
            "charge_bad: charges, then asks; declined",
            charge("charge_bad"),
            no,
            "1 prompt, 1 entry; told: although the person said no",
        ),
        row(
            "charge_good: asks, then charges; confirmed",
            charge("charge_good"),
            yes,
            "1 prompt, 1 entry; told: Charged",
        ),
        row(
            "charge_good: asks, then charges; declined",
            charge("charge_good"),
            no,
            "1 prompt, 0 entries; told: Do not ask again for this",
        ),
        row(
            "charge_once: charges inside once, then asks; confirmed",
            charge("charge_once"),
            yes,
            "1 prompt, 1 entry; told: Charged",
        ),
        row(
            "charge_once: charges inside once, then asks; declined",
            charge("charge_once"),
            no,
            "1 prompt, 1 entry; told: the person said no",
        ),
        row(
            "voucher, the person declines",
            VOUCHER,
            no,
            "1 prompt, 0 entries; told: Do not ask again for this",
        ),
    ]
}

/// What a model can be told, the more particular first.
const TOLD: [&str; 7] = [
    "although the person said no",
    "Do not ask again for this",
    "the box was not ticked",
    "the person said no",
    "Ask again later",
    "Submitted",
    "Charged",
];

/// How often the person was asked, what was recorded, and what the model reads.
async fn asked_in_session(stage: Stage, of: Asking, person: Person) -> Result<String, Fault> {
    let (example, tool, arguments) = of;
    let server = stage.start(&stage.plan(example)?).await?;
    let client = earlier_host(&server.url, |builder| builder.on_form(person.clone()))?;
    let result = client.call_tool(tool, arguments()).await?;
    client.close().await;
    let text = result.joined_text();
    let told = TOLD.into_iter().find(|told| text.contains(told));
    Ok(format!(
        "{}, {}; told: {}",
        count(person.prompts(), "prompt", "prompts"),
        entries(&server)?,
        told.unwrap_or(&text)
    ))
}

type Played = std::pin::Pin<Box<dyn Future<Output = Result<String, Fault>> + Send>>;

fn entries(server: &Server) -> Result<String, Fault> {
    Ok(count(server.record()?.len(), "entry", "entries"))
}

/// A question that was put and not answered.
enum Open {
    Modern {
        of: Asking,
        state: String,
    },
    Earlier {
        session: Session,
        question: Value,
        call: Option<Box<Call>>,
    },
}

impl Open {
    async fn put(server: &Server, era: Era, of: Asking) -> Result<Self, Fault> {
        let (_, tool, arguments) = of;
        Ok(match era {
            Era::Modern => {
                let asked = server.wire().call(tool, &arguments()).await?;
                let state = asked.state()?.to_owned();
                Self::Modern { of, state }
            }
            Era::Earlier => {
                let session = Session::open(&server.url).await?;
                let mut call = session.call(tool, &arguments()).await?;
                let question = call.question().await?;
                Self::Earlier {
                    session,
                    question,
                    call: Some(Box::new(call)),
                }
            }
        })
    }

    /// The same without a connection: nothing is left of it but what the server keeps.
    fn hung_up(mut self) -> Self {
        if let Self::Earlier { call, .. } = &mut self {
            *call = None;
        }
        self
    }

    /// Whether the call's stream has ended without a result. A state has no stream to lose.
    async fn is_lost(&mut self) -> bool {
        match self {
            Self::Modern { .. } | Self::Earlier { call: None, .. } => false,
            Self::Earlier {
                call: Some(call), ..
            } => call.next().await.is_err(),
        }
    }

    /// Answers with yes, at this server, and says what is said to that.
    async fn answer(&self, url: &str) -> Result<String, Fault> {
        match self {
            Self::Modern { of, state } => {
                let (_, tool, arguments) = of;
                let wire = Wire::new(url);
                let answer = wire.retry(tool, &arguments(), &confirmed(), state).await?;
                Ok(answer.in_words())
            }
            Self::Earlier {
                session, question, ..
            } => {
                let status = session.at(url).answer(question, &yes()).await?;
                Ok(match status.is_client_error() {
                    true => "refused".to_owned(),
                    false => format!("HTTP {status}"),
                })
            }
        }
    }

    /// Answers with yes, and waits until there are so many entries.
    async fn finish(&self, server: &Server, entries: usize) -> Result<(), Fault> {
        self.answer(&server.url).await?;
        for _ in 0..200 {
            if server.record()?.len() >= entries {
                return Ok(());
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        Err(Fault(format!("no entry {entries} came of the answer")))
    }
}

/// What is there while the question is open, and was not before. The client's connections are closed both times.
async fn parked(stage: Stage, era: Era) -> Result<String, Fault> {
    let server = stage.start(&stage.plan(VOUCHER.0)?).await?;
    // The first call starts threads that stay.
    let warming = Open::put(&server, era, VOUCHER).await?;
    warming.finish(&server, 1).await?;
    let before = server.census().await?;
    let open = Open::put(&server, era, VOUCHER).await?.hung_up();
    let meanwhile = server.census().await?;
    // What waited is what finishes the call.
    open.finish(&server, 2).await?;
    let waiting = meanwhile.tasks.saturating_sub(before.tasks)
        + meanwhile.threads.saturating_sub(before.threads);
    Ok(waiting.to_string())
}

/// Two instances of one service: one key ring, one ledger, one audience.
async fn two_instances(stage: &Stage) -> Result<(Server, Server), Fault> {
    let plan = stage.plan(EXPENSE.0)?;
    let ledger = plan.path("ledger.sqlite");
    let plan = plan.flag("--keys", KEYS).flag("--ledger", &ledger);
    Ok((stage.start(&plan).await?, stage.start(&plan).await?))
}

async fn at_another(stage: Stage, era: Era) -> Result<String, Fault> {
    let (first, second) = two_instances(&stage).await?;
    let open = Open::put(&first, era, EXPENSE).await?;
    let measured = match open.answer(&second.url).await?.as_str() {
        "accepted" => format!("completed, {}", entries(&second)?),
        other => format!("{other}, {}", entries(&second)?),
    };
    // Whatever the other said, the very same answer is good where the question was put, and there is one entry then.
    open.finish(&first, 1).await?;
    match first.record()?.len() {
        1 => Ok(measured),
        entries => Err(Fault(format!("{measured}, and {entries} entries later"))),
    }
}

async fn after_the_first(stage: Stage, era: Era) -> Result<String, Fault> {
    let (mut first, second) = two_instances(&stage).await?;
    let mut open = Open::put(&first, era, EXPENSE).await?;
    first.kill().await?;
    let lost = open.is_lost().await;
    let what = match (open.answer(&second.url).await?.as_str(), lost) {
        ("accepted", false) => "finished on another".to_owned(),
        ("refused", true) => "call lost".to_owned(),
        (other, lost) => format!("{other}, lost: {lost}"),
    };
    Ok(format!("{what}, {}", entries(&second)?))
}

async fn pinned(stage: Stage) -> Result<String, Fault> {
    let server = stage.start(&stage.plan("tickets")?).await?;
    let session = Session::open(&server.url).await?;
    let mut call = session
        .call("buy_ticket", &json!({ "quantity": 1 }))
        .await?;
    let question = call.question().await?;
    let dearer = json!({ "price": 210.0 });
    server.wire().call("set_list_price", &dearer).await?;
    session.answer(&question, &yes()).await?;
    call.text().await?;
    charged(&server)
}

async fn answered_twice(stage: Stage) -> Result<String, Fault> {
    let server = stage.start(&stage.plan("voucher")?).await?;
    let session = Session::open(&server.url).await?;
    let voucher = json!({ "code": "MAY-2026" });
    let mut call = session.call("redeem_voucher", &voucher).await?;
    let question = call.question().await?;
    session.answer(&question, &yes()).await?;
    call.text().await?;
    let second = match session.answer(&question, &yes()).await? {
        status if status.is_client_error() => "refused".to_owned(),
        status => format!("taken with HTTP {status}"),
    };
    let redeemed = match server.record()?.len() {
        1 => "redeemed once".to_owned(),
        times => format!("redeemed {times} times"),
    };
    Ok(format!("{redeemed}; the second answer {second}"))
}
