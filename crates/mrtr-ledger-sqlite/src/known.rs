//! What a connection knows of its file from one transaction to the next, so that it is not read again each time.
//!
//! It holds as long as nobody else commits, which `PRAGMA data_version` tells: it changes when another connection has
//! changed the file, of this process or of another. It is asked for under the write lock, when nobody else can.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, HashMap};

use mrtr_ledger::tally::{self, Counted, Use};
use mrtr_ledger::{Kind, RowKey};
use mrtr_state::{Epoch, Timestamp};
use rusqlite::Connection;

use crate::fault::Fault;

/// How many accounts' sums are kept at most.
const SUMS: usize = 10_000;

/// Epoch and marks, counts, and how much sweeping is due.
#[derive(Default)]
pub(crate) struct Known {
    version: Cell<Option<i64>>,
    head: Cell<Option<Head>>,
    counts: RefCell<Counts>,
    /// Rows that were added and have not paid for what may go.
    due: Cell<usize>,
}

/// The one row of the ledger as a whole.
#[derive(Clone, Copy)]
pub(crate) struct Head {
    pub(crate) epoch: Epoch,
    pub(crate) rounds_mark: Option<Timestamp>,
    pub(crate) steps_mark: Option<Timestamp>,
    pub(crate) notes_mark: Option<Timestamp>,
}

impl Head {
    pub(crate) fn mark(&self, kind: Kind) -> Option<Timestamp> {
        match kind {
            Kind::Round => self.rounds_mark,
            Kind::Step => self.steps_mark,
            Kind::Note => self.notes_mark,
        }
    }
}

#[derive(Default)]
struct Counts {
    /// The first bucket that counts. The sums are those from it on.
    first: u64,
    /// What is used, what this transaction has added included.
    sums: HashMap<Counted, Use>,
    /// What this transaction has added and not written yet, by bucket.
    added: BTreeMap<(Counted, u64), Use>,
}

impl Known {
    /// At the beginning of a transaction, under the write lock: forgets what somebody else may have changed.
    pub(crate) fn refresh(&self, connection: &Connection) -> Result<(), Fault> {
        let version = connection
            .prepare_cached("PRAGMA data_version")?
            .query_row([], |row| row.get(0))?;
        if self.version.replace(Some(version)) != Some(version) {
            self.forget();
        }
        Ok(())
    }

    /// What is known may have been rolled back, or changed by others.
    pub(crate) fn forget(&self) {
        self.head.set(None);
        let mut counts = self.counts.borrow_mut();
        counts.sums.clear();
        counts.added.clear();
    }

    pub(crate) fn head(&self) -> Option<Head> {
        self.head.get()
    }

    pub(crate) fn set_head(&self, head: Option<Head>) {
        self.head.set(head);
    }

    /// What is used from the bucket `first` on; `read` reads it from the file, without what was added and not written.
    pub(crate) fn used(
        &self,
        counted: Counted,
        now: Timestamp,
        read: impl FnOnce(u64) -> Result<Use, Fault>,
    ) -> Result<Use, Fault> {
        let first = tally::first_counted(now);
        let mut counts = self.counts.borrow_mut();
        if counts.first != first || counts.sums.len() >= SUMS {
            counts.first = first;
            counts.sums.clear();
        }
        if let Some(sum) = counts.sums.get(&counted) {
            return Ok(*sum);
        }
        let added = counts
            .added
            .range((counted, first)..=(counted, u64::MAX))
            .fold(Use::default(), |sum, (_, more)| sum.plus(*more));
        let sum = read(first)?.plus(added);
        counts.sums.insert(counted, sum);
        Ok(sum)
    }

    /// Counts what a transaction adds, for the account and for all.
    pub(crate) fn add(&self, account: Counted, key: RowKey, more: Use) {
        let bucket = tally::bucket(key.expiry);
        let mut counts = self.counts.borrow_mut();
        let first = counts.first;
        for counted in [account, Counted::All] {
            let added = counts.added.entry((counted, bucket)).or_default();
            *added = added.plus(more);
            if bucket >= first
                && let Some(sum) = counts.sums.get_mut(&counted)
            {
                *sum = sum.plus(more);
            }
        }
    }

    /// What was added since the last call, to be written before the commit.
    pub(crate) fn take_added(&self) -> BTreeMap<(Counted, u64), Use> {
        std::mem::take(&mut self.counts.borrow_mut().added)
    }

    /// A row was added.
    pub(crate) fn owe(&self) {
        self.due.set(self.due.get() + 1);
    }

    /// How many rows have not paid yet.
    pub(crate) fn due(&self) -> usize {
        self.due.get()
    }

    pub(crate) fn set_due(&self, due: usize) {
        self.due.set(due);
    }
}
