//! The ledger that forgets when the process ends.

use std::any::Any;
use std::collections::BTreeMap;
use std::convert::Infallible;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use mrtr_state::{Clock, Epoch, RandomError, Timestamp};

use crate::rules::{self, Present, Row, Status, Write};
use crate::tally::{self, Counted, Use};
use crate::{
    Account, Claim, Claimed, Fingerprint, Found, Kept, Kind, Ledger, LedgerError, LedgerFuture,
    Limits, MIN_RETENTION, Note, Owner, Purged, RETENTION, RowKey, Rows, Settled, Settlement,
    Token,
};

/// How many rows a claim may remove in passing, so that a ledger on which nobody calls `purge` stays bounded.
const SWEPT_PER_CLAIM: usize = 4;

/// How many rows a purge removes under one lock.
const PURGE_BATCH: usize = 1_000;

/// A ledger in this process's memory, with every rule of the contract but durability.
///
/// For tests, for stdio servers, and for servers whose keys are drawn at start, so that no state outlives the process.
/// **It forgets when the process ends, and other processes do not see it**: with configured keys a state that was
/// answered before a restart could be answered again after it. It is as private as the process's memory.
///
/// ```
/// use std::sync::Arc;
/// use mrtr_ledger::{Ledger as _, MemoryLedger};
/// use mrtr_state::SystemClock;
///
/// let ledger = MemoryLedger::new(Arc::new(SystemClock))?;
/// assert!(!ledger.survives_restart());
/// # Ok::<(), mrtr_state::RandomError>(())
/// ```
pub struct MemoryLedger {
    clock: Arc<dyn Clock>,
    limits: Limits,
    retention: Duration,
    // A plain mutex: it is held for one decision, and never across an await.
    books: Mutex<Books>,
}

impl MemoryLedger {
    /// An empty ledger, with a new epoch, that goes by this clock.
    ///
    /// # Errors
    /// The operating system's generator failed, so there is no epoch.
    pub fn new(clock: Arc<dyn Clock>) -> Result<Self, RandomError> {
        let books = Books {
            epoch: Epoch::generate()?,
            rounds: Shelf::default(),
            steps: Shelf::default(),
            notes: Shelf::default(),
            tally: BTreeMap::new(),
            forgotten: 0,
        };
        Ok(Self {
            clock,
            limits: Limits::default(),
            retention: RETENTION,
            books: Mutex::new(books),
        })
    }

    /// With other limits than the default.
    #[must_use]
    pub fn with_limits(self, limits: Limits) -> Self {
        Self { limits, ..self }
    }

    /// With another retention than ten minutes. Less than [`MIN_RETENTION`] counts as that.
    #[must_use]
    pub fn with_retention(self, retention: Duration) -> Self {
        Self {
            retention: retention.max(MIN_RETENTION),
            ..self
        }
    }

    /// A thread that panicked while it wrote may have left half a decision behind, so there is no word from then on.
    fn books(&self) -> Result<MutexGuard<'_, Books>, LedgerError> {
        self.books.lock().map_err(|_| LedgerError::Closed)
    }
}

/// Everything that the ledger knows.
struct Books {
    epoch: Epoch,
    rounds: Shelf,
    steps: Shelf,
    notes: Shelf,
    tally: BTreeMap<(Counted, u64), Use>,
    /// Buckets below this one were forgotten.
    forgotten: u64,
}

/// The rows of one kind, in the order in which they expire.
#[derive(Default)]
struct Shelf {
    rows: BTreeMap<RowKey, Entry>,
    mark: Option<Timestamp>,
}

struct Entry {
    row: Row,
    account: Account,
}

impl Books {
    fn shelf(&self, kind: Kind) -> &Shelf {
        match kind {
            Kind::Round => &self.rounds,
            Kind::Step => &self.steps,
            Kind::Note => &self.notes,
        }
    }

    fn shelf_mut(&mut self, kind: Kind) -> &mut Shelf {
        match kind {
            Kind::Round => &mut self.rounds,
            Kind::Step => &mut self.steps,
            Kind::Note => &mut self.notes,
        }
    }

    fn row(&self, kind: Kind, key: &RowKey) -> Option<&Row> {
        self.shelf(kind).rows.get(key).map(|entry| &entry.row)
    }

    /// The row that the token names, whichever kind it is of.
    fn owned(&mut self, key: &RowKey, token: &Token) -> Option<&mut Entry> {
        let Self { rounds, steps, .. } = self;
        let shelves = [rounds, steps].into_iter();
        shelves
            .filter_map(|shelf| shelf.rows.get_mut(key))
            .find(|entry| entry.row.token == *token)
    }

    fn claim(&mut self, claim: &Claim, limits: &Limits, now: Timestamp) -> Claimed {
        let row = self.row(claim.kind, &claim.key);
        let round = self.round(claim.under_round.as_ref());
        let room = || self.room(claim.account, limits, now);
        let Ok((claimed, write)) =
            rules::claim(claim, row, round, self.present(claim.kind, now), room);

        match write {
            Write::Nothing => {}
            Write::Insert { lease } => {
                let row = Row {
                    fingerprint: claim.fingerprint,
                    token: claim.token,
                    status: Status::Owned {
                        lease,
                        again: false,
                    },
                };
                self.add(claim.kind, claim.key, row, claim.account);
            }
            Write::Own { lease, again } => self.rewrite(claim.kind, &claim.key, |row| {
                row.token = claim.token;
                row.status = Status::Owned { lease, again };
            }),
            Write::Abandon => {
                self.rewrite(claim.kind, &claim.key, |row| row.status = Status::Abandoned)
            }
        }
        claimed
    }

    fn keep(&mut self, note: Note, limits: &Limits, now: Timestamp) -> Kept {
        let row = self.row(Kind::Note, &note.key);
        let round = self.round(note.under_round.as_ref());
        let room = || self.room(note.account, limits, now);
        let Ok((kept, write)) = rules::keep(&note, row, round, self.present(Kind::Note, now), room);
        if write {
            let row = Row::of_note(note.fingerprint, note.value);
            self.add(Kind::Note, note.key, row, note.account);
        }
        kept
    }

    fn round(&self, owner: Option<&Owner>) -> Option<&Row> {
        self.row(Kind::Round, &owner?.key)
    }

    fn present(&self, kind: Kind, now: Timestamp) -> Present {
        Present {
            now,
            epoch: self.epoch,
            mark: self.shelf(kind).mark,
        }
    }

    fn room(&self, account: Account, limits: &Limits, now: Timestamp) -> Result<bool, Infallible> {
        let account = self.used(Counted::Account(account), now);
        Ok(limits.leave_room(account, self.used(Counted::All, now)))
    }

    fn add(&mut self, kind: Kind, key: RowKey, row: Row, account: Account) {
        let bytes = row.status.bytes();
        let entry = Entry { row, account };
        self.shelf_mut(kind).rows.insert(key, entry);
        self.count(account, key, Use { rows: 1, bytes });
    }

    fn rewrite(&mut self, kind: Kind, key: &RowKey, change: impl FnOnce(&mut Row)) {
        if let Some(entry) = self.shelf_mut(kind).rows.get_mut(key) {
            change(&mut entry.row);
        }
    }

    fn used(&self, counted: Counted, now: Timestamp) -> Use {
        let counts = self
            .tally
            .range((counted, tally::first_counted(now))..=(counted, u64::MAX));
        counts.fold(Use::default(), |sum, (_, used)| sum.plus(*used))
    }

    fn count(&mut self, account: Account, key: RowKey, more: Use) {
        for counted in [Counted::All, Counted::Account(account)] {
            let used = self
                .tally
                .entry((counted, tally::bucket(key.expiry)))
                .or_default();
            *used = used.plus(more);
        }
    }

    /// Removes up to `most` rows of a kind. The mark and the rows change under one lock, so no claim comes between.
    fn sweep(&mut self, kind: Kind, retention: Duration, now: Timestamp, most: usize) -> u64 {
        let shelf = self.shelf_mut(kind);
        let ripe = |key: &RowKey, entry: &Entry| {
            rules::is_removable(*key, &entry.row.status, retention, now)
        };
        // Rows are in order of expiry, so the first that is too young ends the search.
        let old = shelf
            .rows
            .iter()
            .take_while(|(key, _)| key.expiry.saturating_add(retention) < now);
        let gone: Vec<RowKey> = old
            .filter(|(key, entry)| ripe(key, entry))
            .map(|(key, _)| *key)
            .take(most)
            .collect();
        shelf.mark = shelf.mark.max(gone.last().map(|key| key.expiry));
        for key in &gone {
            shelf.rows.remove(key);
        }
        gone.len() as u64
    }

    /// Forgets counts that no claim reads any more, one retention late, in case the clock goes back.
    fn forget_counts(&mut self, retention: Duration, now: Timestamp) {
        let retention = u64::try_from(retention.as_millis()).unwrap_or(u64::MAX);
        let over = tally::first_counted(Timestamp::from_millis(
            now.as_millis().saturating_sub(retention),
        ));
        // It looks at every count, so once a minute is enough.
        if over > self.forgotten {
            self.tally.retain(|(_, bucket), _| *bucket >= over);
            self.forgotten = over;
        }
    }
}

impl Ledger for MemoryLedger {
    fn claim(&self, claim: Claim) -> LedgerFuture<'_, Claimed> {
        Box::pin(async move {
            let mut books = self.books()?;
            let now = self.clock.now();
            books.sweep(claim.kind, self.retention, now, SWEPT_PER_CLAIM);
            books.forget_counts(self.retention, now);
            Ok(books.claim(&claim, &self.limits, now))
        })
    }

    fn settle(
        &self,
        key: RowKey,
        token: Token,
        settlement: Settlement,
    ) -> LedgerFuture<'_, Settled> {
        Box::pin(async move {
            let mut books = self.books()?;
            let Some(entry) = books.owned(&key, &token) else {
                return Ok(Settled::Refused);
            };
            let (settled, status) = rules::settle(Some(&entry.row), &token, &settlement);
            if let Some(status) = status {
                let bytes = status.bytes();
                let account = entry.account;
                entry.row.status = status;
                books.count(account, key, Use { rows: 0, bytes });
            }
            Ok(settled)
        })
    }

    fn beat(&self, key: RowKey, token: Token, lease: Duration) -> LedgerFuture<'_, bool> {
        Box::pin(async move {
            let mut books = self.books()?;
            let now = self.clock.now();
            let Some(entry) = books.owned(&key, &token) else {
                return Ok(false);
            };
            let Some(status) = rules::beat(Some(&entry.row), &token, lease, now) else {
                return Ok(false);
            };
            entry.row.status = status;
            Ok(true)
        })
    }

    fn release(&self, key: RowKey, token: Token) -> LedgerFuture<'_, bool> {
        Box::pin(async move {
            let mut books = self.books()?;
            let Some(entry) = books.owned(&key, &token) else {
                return Ok(false);
            };
            let (released, status) = rules::release(Some(&entry.row), &token);
            if let Some(status) = status {
                entry.row.status = status;
            }
            Ok(released)
        })
    }

    fn keep(&self, note: Note) -> LedgerFuture<'_, Kept> {
        Box::pin(async move {
            let mut books = self.books()?;
            let now = self.clock.now();
            books.sweep(Kind::Note, self.retention, now, SWEPT_PER_CLAIM);
            books.forget_counts(self.retention, now);
            Ok(books.keep(note, &self.limits, now))
        })
    }

    fn lookup(&self, kind: Kind, key: RowKey, fingerprint: Fingerprint) -> LedgerFuture<'_, Found> {
        Box::pin(async move {
            let mut books = self.books()?;
            let (found, abandon) =
                rules::lookup(kind, &fingerprint, books.row(kind, &key), self.clock.now());
            if abandon {
                books.rewrite(kind, &key, |row| row.status = Status::Abandoned);
            }
            Ok(found)
        })
    }

    fn purge(&self) -> LedgerFuture<'_, Purged> {
        Box::pin(async move {
            let now = self.clock.now();
            let mut purged = Purged::default();
            for kind in [Kind::Round, Kind::Step, Kind::Note] {
                loop {
                    // The lock is taken anew for each batch, so that claims come between.
                    let gone = self.books()?.sweep(kind, self.retention, now, PURGE_BATCH);
                    match kind {
                        Kind::Round => purged.rounds += gone,
                        Kind::Step => purged.steps += gone,
                        Kind::Note => purged.notes += gone,
                    }
                    if gone == 0 {
                        break;
                    }
                }
            }
            self.books()?.forget_counts(self.retention, now);
            Ok(purged)
        })
    }

    fn epoch(&self) -> LedgerFuture<'_, Epoch> {
        Box::pin(async move { Ok(self.books()?.epoch) })
    }

    fn rotate_epoch(&self) -> LedgerFuture<'_, Epoch> {
        Box::pin(async move {
            let epoch = Epoch::generate()?;
            let mut books = self.books()?;
            books.epoch = epoch;
            // What the marks guard belonged to flows of the epoch that ends.
            for kind in [Kind::Round, Kind::Step, Kind::Note] {
                books.shelf_mut(kind).mark = None;
            }
            Ok(epoch)
        })
    }

    fn rows(&self) -> LedgerFuture<'_, Rows> {
        Box::pin(async move {
            let books = self.books()?;
            let settled = |shelf: &Shelf| {
                let statuses = shelf.rows.values().map(|entry| &entry.row.status);
                statuses
                    .filter(|status| matches!(status, Status::Settled(_)))
                    .count() as u64
            };
            Ok(Rows {
                rounds: books.rounds.rows.len() as u64,
                steps: books.steps.rows.len() as u64,
                settled_rounds: settled(&books.rounds),
                settled_steps: settled(&books.steps),
                notes: books.notes.rows.len() as u64,
            })
        })
    }

    fn survives_restart(&self) -> bool {
        false
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}

impl fmt::Debug for MemoryLedger {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MemoryLedger")
            .field("limits", &self.limits)
            .field("retention", &self.retention)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::suite::TestClock;

    #[test]
    fn it_says_that_it_forgets_and_shows_no_rows() {
        let clock = Arc::new(TestClock::at(1_700_000_000_000));
        let ledger = MemoryLedger::new(clock).unwrap();
        assert!(!ledger.survives_restart());
        let shown = format!("{ledger:?}");
        assert!(shown.starts_with("MemoryLedger { limits: "), "{shown}");
        assert!(!shown.contains("epoch"), "{shown}");
    }

    /// Counts go as rows do, without a call of `purge`: 1,000 accounts in 1,000 minutes leave those of the last few.
    #[tokio::test]
    async fn counts_are_forgotten() {
        let clock = Arc::new(TestClock::at(1_700_000_000_000));
        let ledger = MemoryLedger::new(clock.clone())
            .unwrap()
            .with_retention(MIN_RETENTION);
        let epoch = ledger.epoch().await.unwrap();
        for minute in 0..1_000_u32 {
            clock.advance(Duration::from_secs(60));
            let key = RowKey {
                expiry: clock.now().saturating_add(Duration::from_secs(60)),
                hash: [0; 32],
            };
            let account = Account::anonymous_at(&minute.to_string());
            let print = Fingerprint::from_bytes([0; 32]);
            let claim = Claim::round(
                key,
                epoch,
                print,
                account,
                Token::generate().unwrap(),
                Duration::ZERO,
            );
            assert_eq!(ledger.claim(claim).await.unwrap(), Claimed::First);
        }
        let counts = ledger.books().unwrap().tally.len();
        assert!((2..=8).contains(&counts), "{counts} counts");
    }
}
