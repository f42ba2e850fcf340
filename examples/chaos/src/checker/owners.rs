//! Until a row expires, exactly one token owns it: told from the claims that were granted.

use std::collections::BTreeSet;

use crate::checker::evidence::Evidence;
use crate::checker::leases::Owner;
use crate::checker::{Findings, Promise};
use crate::history::Op;
use crate::trace::{Answer, Question, RowId};

pub(crate) fn check(evidence: &Evidence<'_>, findings: &mut Findings) {
    let rows: BTreeSet<(u64, RowId)> = evidence.rows().collect();
    for (flow, row) in rows {
        let owners = evidence.owners(row);
        let mut grants: Vec<&Op> = evidence.ops_on(row).to_vec();
        grants.retain(|op| is_grant(op));
        // In the order in which they were heard of.
        grants.sort_by_key(|op| op.till());
        for pair in grants.windows(2) {
            if let [first, second] = pair
                && let Some(what) = still_owned(evidence, &owners, first, second)
            {
                findings.broken(Promise::OneOwner, flow, what);
            }
        }
    }
}

fn is_grant(op: &Op) -> bool {
    matches!(op.question, Question::Claim { .. })
        && matches!(op.answer(), Some(Answer::First | Answer::Ran))
}

/// That a row was granted while the token that had it before still owned it, if it was.
fn still_owned(
    evidence: &Evidence<'_>,
    owners: &[Owner],
    first: &Op,
    second: &Op,
) -> Option<String> {
    let (
        Question::Claim {
            row, token: before, ..
        },
        Question::Claim { token, again, .. },
    ) = (&first.question, &second.question)
    else {
        return None;
    };
    if before == token {
        return None;
    }
    let owner = owners.iter().find(|owner| owner.token == *before);
    let given_up = owner.is_some_and(|owner| {
        let gave_back = evidence
            .ops_of(*owner)
            .any(|op| matches!(op.question, Question::Release { .. }) && op.asked <= second.till());
        gave_back || (*again && evidence.may_have_been_lost(*owner, second))
    });
    (!given_up).then(|| {
        format!(
            "{} was granted {row:?} at {}, which {} had been granted at {}",
            second.by,
            second.till(),
            first.by,
            first.till(),
        )
    })
}

impl Evidence<'_> {
    /// Whether a round's owner may have been lost when somebody took the round over: its lease had lapsed, or it had given
    /// the round up.
    fn may_have_been_lost(&self, owner: Owner, op: &Op) -> bool {
        let gave_up = self.ops_of(owner).any(|settles| {
            matches!(
                settles.question,
                Question::Settle {
                    abandoned: true,
                    ..
                }
            ) && settles.asked <= op.till()
        });
        // Whoever took it over, or somebody who found it lapsed before, whether that one heard so or not.
        let mut finders = self.ops_on(owner.row).iter();
        gave_up
            || finders.any(|finder| {
                finder.asked <= op.till()
                    && finder.withdraws(owner)
                    && self.may_have_lapsed(owner, finder)
            })
    }
}
