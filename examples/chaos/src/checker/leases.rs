//! Who owned a row, and until when: told from what owners asked, without looking into the ledger.

use crate::checker::evidence::Evidence;
use crate::history::Op;
use crate::server::goes_by_the_database;
use crate::terms::{LEASE, millis};
use crate::trace::{Answer, Millis, Process, Question, RowId, TokenId};

/// A run that owned a row, or may have.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Owner {
    pub(crate) by: Process,
    pub(crate) row: RowId,
    pub(crate) token: TokenId,
    /// When it first asked for the row.
    pub(crate) from: Millis,
    /// The round that it claimed a step under.
    pub(crate) under: Option<(RowId, TokenId)>,
}

impl Evidence<'_> {
    /// Those whose claim of a row was granted, and those who did not hear, or did not live to tell, what became of theirs.
    pub(crate) fn owners(&self, row: RowId) -> Vec<Owner> {
        let mut owners: Vec<Owner> = Vec::new();
        for op in self.ops_on(row) {
            // A step that is one transaction is owned by nobody before or after it.
            let Question::Claim {
                token,
                under,
                whole: false,
                ..
            } = &op.question
            else {
                continue;
            };
            let granted = matches!(op.answer(), None | Some(Answer::First | Answer::NoWord(_)));
            let known = owners.iter().any(|owner| owner.token == *token);
            if granted && !known {
                owners.push(Owner {
                    by: op.by,
                    row,
                    token: *token,
                    from: op.asked,
                    under: *under,
                });
            }
        }
        owners
    }

    /// What an owner asked about its row.
    pub(crate) fn ops_of(&self, owner: Owner) -> impl Iterator<Item = &Op> {
        self.ops_on(owner.row)
            .iter()
            .copied()
            .filter(move |op| match &op.question {
                Question::Claim { token, .. }
                | Question::Settle { token, .. }
                | Question::Beat { token, .. }
                | Question::Release { token, .. } => *token == owner.token,
                _ => false,
            })
    }

    /// The earliest moment at which the lease may lapse, by what was confirmed before `known`.
    fn lease_at_least(&self, owner: Owner, known: Millis) -> Millis {
        let renewed = self.ops_of(owner).filter(|op| {
            let confirmed = match &op.question {
                Question::Claim { .. } => op.answer() == Some(&Answer::First),
                Question::Beat { .. } => op.answer() == Some(&Answer::Yes),
                _ => false,
            };
            confirmed && op.till() <= known
        });
        let ends = renewed.map(|op| self.ledger_time(op.by, op.asked, op.till()).0);
        ends.max()
            .map_or(0, |from| from.saturating_add(millis(LEASE)))
    }

    /// The latest moment at which the lease may lapse, by what was asked before `known`.
    fn lease_at_most(&self, owner: Owner, known: Millis) -> Millis {
        let renewed = self.ops_of(owner).filter(|op| {
            let renews = matches!(op.question, Question::Claim { .. } | Question::Beat { .. });
            renews && op.asked <= known
        });
        let ends = renewed.map(|op| self.ledger_time(op.by, op.asked, op.till().min(known)).1);
        ends.max()
            .map_or(0, |from| from.saturating_add(millis(LEASE)))
    }

    /// Whether the lease may have lapsed for somebody who asked `op`.
    pub(crate) fn may_have_lapsed(&self, owner: Owner, op: &Op) -> bool {
        let (_, shown) = self.ledger_time(op.by, op.asked, self.end_of_op(op));
        self.lease_at_least(owner, op.asked) <= shown
    }

    /// Whether the lease may have run for somebody who asked `op`.
    pub(crate) fn may_have_run(&self, owner: Owner, op: &Op) -> bool {
        let (shown, _) = self.ledger_time(op.by, op.asked, self.end_of_op(op));
        shown < self.lease_at_most(owner, self.end_of_op(op))
    }

    /// An operation without an answer was over, one way or another, when its process was.
    pub(crate) fn end_of_op(&self, op: &Op) -> Millis {
        let end = || self.end_of(op.by).map_or(Millis::MAX, |end| end.till);
        op.answered.as_ref().map_or_else(end, |(at, _)| *at)
    }

    /// What the clock that decides may have shown in these moments: a process's own, or the database's.
    fn ledger_time(&self, by: Process, from: Millis, till: Millis) -> (Millis, Millis) {
        match self.history.has_database_clock && goes_by_the_database(by) {
            true => (from, till),
            false => self.shown(by, from, till),
        }
    }
}
