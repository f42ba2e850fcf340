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
        for op in evidence.ops_on(row).iter().filter(|op| is_grant(op)) {
            for before in &owners {
                if let Some(what) = still_owned(evidence, *before, op) {
                    findings.broken(Promise::OneOwner, flow, what);
                }
            }
        }
    }
}

fn is_grant(op: &Op) -> bool {
    matches!(op.question, Question::Claim { .. })
        && matches!(op.answer(), Some(Answer::First | Answer::Ran))
}

/// That a row was granted while another token still owned it, if it was.
fn still_owned(evidence: &Evidence<'_>, before: Owner, op: &Op) -> Option<String> {
    let Question::Claim { token, again, .. } = &op.question else {
        return None;
    };
    let granted = evidence
        .ops_of(before)
        .find(|first| is_grant(first) && first.till() < op.asked)?;
    if before.token == *token {
        return None;
    }
    let gave_back = evidence.ops_of(before).any(|first| {
        matches!(first.question, Question::Release { .. }) && first.asked <= op.till()
    });
    let lost = *again && evidence.may_have_been_lost(before, op);
    (!gave_back && !lost).then(|| {
        format!(
            "{} was granted {:?} at {}, and {} owned it since {}",
            op.by,
            before.row,
            op.till(),
            before.by,
            granted.till(),
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
        let told = self
            .ops_on(owner.row)
            .iter()
            .any(|other| other.answer() == Some(&Answer::Abandoned) && other.asked <= op.till());
        gave_up || told || self.may_have_lapsed(owner, op)
    }
}
