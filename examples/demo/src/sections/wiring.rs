//! Wiring: servers that lack something do not start, and say what.

use crate::board::{Case, Governed};
use crate::sections::KEYS;
use crate::servers::Plan;

pub(crate) fn cases() -> Vec<Case> {
    let refused = |case: &str,
                   example: &'static str,
                   flags: fn(Plan) -> Plan,
                   names: [&'static str; 2]| {
        let expected = format!("does not start; names {} and {}", names[0], names[1]);
        let governed = Governed::Not("decided before anything is served");
        Case::new(
            "wiring",
            case,
            expected,
            governed,
            move |stage| async move {
                let (status, stderr) = stage.fail_to_start(&flags(stage.plan(example)?)).await?;
                let missing: Vec<&str> = names
                    .into_iter()
                    .filter(|name| !stderr.contains(name))
                    .collect();
                Ok(match (status.success(), missing.as_slice()) {
                    (false, []) => format!("does not start; names {} and {}", names[0], names[1]),
                    (true, _) => "ended well".into(),
                    (false, _) => format!(
                        "does not start, without naming {}: {stderr}",
                        missing.join(" and ")
                    ),
                })
            },
        )
    };
    vec![
        refused(
            "a Flow handler without a codec",
            "voucher",
            |plan| plan.flag("--codec", "none").flag("--ledger", "none"),
            ["redeem_voucher", ".codec("],
        ),
        refused(
            "a DurableFlow handler without a ledger",
            "expenses",
            |plan| plan.flag("--ledger", "none"),
            ["submit_expense", ".ledger("],
        ),
        refused(
            "a StoredCodec without a ledger",
            "voucher",
            |plan| plan.flag("--ledger", "none").flag("--store-above", "2048"),
            ["StoredCodec", ".ledger("],
        ),
        refused(
            "lasting keys with a ledger in memory",
            "voucher",
            |plan| plan.flag("--ledger", "memory").flag("--keys", KEYS),
            ["keys", ".ledger("],
        ),
    ]
}
