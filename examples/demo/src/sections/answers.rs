//! Answers: what counts as one.

use serde_json::{Value, json};

use super::{confirmed, yes};
use crate::Fault;
use crate::board::{Case, Governed};
use crate::people::count;
use crate::servers::Stage;
use crate::wire::Answer;

const SECTION: &str = "answers";
const JOURNAL: Governed = Governed::Not(
    "an answer counts only for a question that the state names as open; there is no switch",
);

fn expense() -> Value {
    json!({ "amount": 250, "memo": "train" })
}

/// What came back, and what happened: `asked, 0 entries`.
fn outcome(asked: &str, answer: &Answer, entries: usize) -> String {
    let words = if answer.asks() {
        asked.to_owned()
    } else {
        answer.in_words()
    };
    format!("{words}, {}", count(entries, "entry", "entries"))
}

pub(crate) fn cases() -> Vec<Case> {
    // A retry of the expense with these answers, on the state of a first round.
    let retried = |case: &str, answers: Value| {
        Case::new(
            SECTION,
            case,
            "asked again, 0 entries",
            JOURNAL,
            move |stage: Stage| {
                let answers = answers.clone();
                async move {
                    let server = stage.start(&stage.plan("expenses")?).await?;
                    let wire = server.wire();
                    let asked = wire.call("submit_expense", &expense()).await?;
                    let again = wire
                        .retry("submit_expense", &expense(), &answers, asked.state()?)
                        .await?;
                    let measured = outcome("asked again", &again, server.record()?.len());
                    // The same question can still be answered.
                    if again.asks() {
                        wire.retry("submit_expense", &expense(), &confirmed(), again.state()?)
                            .await?;
                        let entries = server.record()?.len();
                        if entries != 1 {
                            return Err(Fault(format!("{entries} entries after a good answer")));
                        }
                    }
                    Ok(measured)
                }
            },
        )
    };
    let insistent = |case: &str, action: &'static str, expected: &str| {
        Case::new(
            SECTION,
            case,
            expected,
            Governed::Not("the journal remembers what was declined; there is no switch"),
            move |stage: Stage| async move {
                let server = stage.start(&stage.plan("charges")?).await?;
                let (wire, amount) = (server.wire(), json!({ "amount": 30 }));
                let asked = wire.call("charge_insistent", &amount).await?;
                let no = json!({ "confirm": { "action": action } });
                let next = wire
                    .retry("charge_insistent", &amount, &no, asked.state()?)
                    .await?;
                Ok(match next.question("confirm_again") {
                    "" if next.asks() => format!("asked something else: {}", next.in_words()),
                    "" => "not put".into(),
                    _ => "put".into(),
                })
            },
        )
    };
    vec![
        Case::new(
            SECTION,
            "accept without a state on a first call",
            "asked, 0 entries",
            JOURNAL,
            |stage| async move {
                let server = stage.start(&stage.plan("expenses")?).await?;
                let answers = json!({ "inputResponses": confirmed() });
                let answer = server
                    .wire()
                    .send("submit_expense", &expense(), &answers)
                    .await?;
                Ok(outcome("asked", &answer, server.record()?.len()))
            },
        ),
        retried(
            "an answer to a question that is not open",
            json!({ "another": yes() }),
        ),
        retried(
            "\"yes\" for a boolean",
            json!({ "confirm": { "action": "accept", "content": { "ok": "yes" } } }),
        ),
        retried("a missing answer", json!({})),
        Case::new(
            SECTION,
            "a client that declares no elicitation",
            r#"-32021 requiring {"elicitation":{"form":{}}}, nothing asked"#,
            Governed::Not("the client declared nothing; there is no switch"),
            |stage| async move {
                let server = stage.start(&stage.plan("expenses")?).await?;
                let answer = server
                    .wire()
                    .declaring(json!({}))
                    .call("submit_expense", &expense())
                    .await?;
                Ok(answer.undeclared_in_words())
            },
        ),
        insistent(
            "the same question under another key, after a decline",
            "decline",
            "not put",
        ),
        insistent(
            "the same question under another key, after a dismissal",
            "cancel",
            "put",
        ),
    ]
}
