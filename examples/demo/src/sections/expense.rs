//! The expense: a person is asked above 100.

use serde_json::json;

use crate::board::{Case, Governed};
use crate::people::{Desk, Person, count};

const SECTION: &str = "expense";
const HONEST: Governed =
    Governed::Not("an honest flow: nothing is altered, and nothing is presented twice");

pub(crate) fn cases() -> Vec<Case> {
    let submitted = |case: &str, amount: u32, expected: &str| {
        Case::new(SECTION, case, expected, HONEST, move |stage| async move {
            let server = stage.start(&stage.plan("expenses")?).await?;
            let desk = Desk::new(&server.url, Person::says_yes())?;
            desk.call(
                "submit_expense",
                json!({ "amount": amount, "memo": "train" }),
            )
            .await?;
            let entries = server.record()?.len();
            let (prompts, entries) = (
                count(desk.person.prompts(), "prompt", "prompts"),
                count(entries, "entry", "entries"),
            );
            Ok(format!(
                "{}, {prompts}, {entries}",
                desk.requests_in_words()
            ))
        })
    };
    let refused = |case: &str, person: fn() -> Person, advice: &'static str, expected: &str| {
        Case::new(SECTION, case, expected, HONEST, move |stage| async move {
            let server = stage.start(&stage.plan("expenses")?).await?;
            let desk = Desk::new(&server.url, person())?;
            let text = desk
                .call("submit_expense", json!({ "amount": 250, "memo": "train" }))
                .await?;
            let advised = text.contains("Nothing was submitted") && text.contains(advice);
            let told = if advised {
                format!("told: {advice}")
            } else {
                format!("told: {text}")
            };
            Ok(format!(
                "{}; {told}",
                count(server.record()?.len(), "entry", "entries")
            ))
        })
    };
    vec![
        submitted("50", 50, "1 request, 0 prompts, 1 entry"),
        submitted(
            "250, the person says yes",
            250,
            "2 requests with different ids, 1 prompt, 1 entry",
        ),
        refused(
            "250, the person declines",
            Person::declines,
            "Do not ask again for this",
            "0 entries; told: Do not ask again for this",
        ),
        refused(
            "250, the question is dismissed",
            Person::dismisses,
            "Ask again later",
            "0 entries; told: Ask again later",
        ),
        refused(
            "250, accepted with the box unticked",
            Person::leaves_the_box,
            "the box was not ticked",
            "0 entries; told: the box was not ticked",
        ),
    ]
}
