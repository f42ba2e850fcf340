//! Effects: what happens to a charge before a question, after it, and inside `once`.

use serde_json::json;

use crate::board::{Case, Governed};
use crate::people::{Desk, Person};
use mrtr_testkit::guards::Guard;

const SECTION: &str = "effects";

pub(crate) fn cases() -> Vec<Case> {
    let charges = |tool: &'static str,
                   person: fn() -> Person,
                   how: &str,
                   expected: u32,
                   governed: Governed| {
        Case::new(
            SECTION,
            format!("{tool}: {how}"),
            expected.to_string(),
            governed,
            move |stage| async move {
                let server = stage.start(&stage.plan("charges")?).await?;
                let desk = Desk::new(&server.url, person())?;
                desk.call(tool, json!({ "amount": 30 })).await?;
                Ok(server.record()?.len().to_string())
            },
        )
    };
    let unguarded = Governed::Not("shows what an unguarded effect before a question does");
    let in_order = Governed::Not("the handler asks first and acts last; no guard is needed");
    let once = Governed::By(Guard::Ledger);
    vec![
        charges(
            "charge_bad",
            Person::says_yes,
            "charges, then asks; confirmed",
            2,
            unguarded,
        ),
        charges(
            "charge_bad",
            Person::declines,
            "charges, then asks; declined",
            2,
            unguarded,
        ),
        charges(
            "charge_good",
            Person::says_yes,
            "asks, then charges; confirmed",
            1,
            in_order,
        ),
        charges(
            "charge_good",
            Person::declines,
            "asks, then charges; declined",
            0,
            in_order,
        ),
        charges(
            "charge_once",
            Person::says_yes,
            "charges inside once, then asks; confirmed",
            1,
            once,
        ),
        charges(
            "charge_once",
            Person::declines,
            "charges inside once, then asks; declined",
            1,
            once,
        ),
    ]
}
