//! The operations, inside a transaction that holds the write lock.

mod sweep;

pub(crate) use sweep::Portion;

use std::time::Duration;

use mrtr_ledger::rules::{self, Present, Row, Status, Write};
use mrtr_ledger::tally::{Counted, Use};
use mrtr_ledger::{
    Account, Claim, Claimed, Fingerprint, Found, Kept, Kind, Limits, Note, Owner, RowKey, Settled,
    Settlement, Token,
};
use mrtr_state::{Clock, Epoch, Timestamp};
use rusqlite::{CachedStatement, Connection, OptionalExtension as _, params};

use crate::fault::Fault;
use crate::guard::Guard;
use crate::known::{Head, Known};

type Result<T> = std::result::Result<T, Fault>;

/// What the ledger is told to go by.
#[derive(Debug)]
pub(crate) struct Policy {
    pub(crate) clock: std::sync::Arc<dyn Clock>,
    pub(crate) limits: Limits,
    pub(crate) retention: Duration,
    pub(crate) guard: Guard,
}

/// The tables, read and written under one lock, so that what is decided from a row is written to that row.
pub(crate) struct Books<'a> {
    connection: &'a Connection,
    policy: &'a Policy,
    known: &'a Known,
}

struct Entry {
    kind: Kind,
    row: Row,
    account: Account,
}

impl<'a> Books<'a> {
    pub(crate) fn new(connection: &'a Connection, policy: &'a Policy, known: &'a Known) -> Self {
        Self {
            connection,
            policy,
            known,
        }
    }

    /// What was read before may have been rolled back.
    pub(crate) fn forget(&self) {
        self.known.forget();
    }

    /// Runs what is not the ledger's own on its connection.
    pub(crate) fn during_effect<T>(&self, effect: impl FnOnce(&Connection) -> T) -> T {
        self.policy.guard.during(|| effect(self.connection))
    }

    /// Whether the effect that ran last leaves a foreign key to the ledger's tables behind.
    pub(crate) fn finds_a_reference(&self) -> Result<bool> {
        Ok(self.policy.guard.finds_a_reference(self.connection)?)
    }

    /// Whether the transaction that the ledger has begun is over.
    pub(crate) fn has_lost_its_transaction(&self) -> bool {
        self.connection.is_autocommit()
    }

    /// Runs a statement of transactions and savepoints.
    pub(crate) fn control(&self, sql: &'static str) -> Result<()> {
        self.cached(sql)?.execute([])?;
        Ok(())
    }

    pub(crate) fn claim(&self, claim: &Claim) -> Result<Claimed> {
        let round = self.round(claim.under_round.as_ref())?;
        let present = self.present(claim.kind)?;
        let room = || self.room(claim.account, present.now);
        // Most claims are for rows that are not there. So it is decided as if there was none, and the insert says whether
        // that was so: one statement, and not two.
        let (claimed, write) = rules::claim(claim, None, round.as_ref(), present, room)?;
        if let Write::Insert { lease } = write
            && self.insert(claim, lease)?
        {
            self.count(claim.account, claim.key, Use { rows: 1, bytes: 0 });
            return Ok(claimed);
        }
        let Some(Entry { row, .. }) = self.read(claim.kind, &claim.key)? else {
            return match write {
                Write::Nothing => Ok(claimed),
                // It was not inserted because it is there, and it is not there.
                _ => Err(Fault::Corrupt),
            };
        };
        let room = || self.room(claim.account, present.now);
        let (claimed, write) = rules::claim(claim, Some(&row), round.as_ref(), present, room)?;
        match write {
            Write::Nothing => {}
            Write::Insert { .. } => return Err(Fault::Corrupt),
            Write::Own { lease, again } => {
                let status = Status::Owned { lease, again };
                self.write(claim.kind, &claim.key, &claim.token, &status)?;
            }
            // The token stays as it was: it names the owner that is withdrawn.
            Write::Abandon => {
                self.write(claim.kind, &claim.key, &row.token, &Status::Abandoned)?;
            }
        }
        Ok(claimed)
    }

    pub(crate) fn keep(&self, note: &Note) -> Result<Kept> {
        let row = self.read(Kind::Note, &note.key)?.map(|entry| entry.row);
        let round = self.round(note.under_round.as_ref())?;
        let present = self.present(Kind::Note)?;
        let room = || self.room(note.account, present.now);
        let (kept, write) = rules::keep(note, row.as_ref(), round.as_ref(), present, room)?;
        if write {
            self.insert_note(note)?;
            let bytes = note.value.len() as u64;
            self.count(note.account, note.key, Use { rows: 1, bytes });
        }
        Ok(kept)
    }

    fn round(&self, owner: Option<&Owner>) -> Result<Option<Row>> {
        let Some(Owner { key, .. }) = owner else {
            return Ok(None);
        };
        Ok(self.read(Kind::Round, key)?.map(|entry| entry.row))
    }

    /// The clock is read under the lock: what counts is when something is decided, not when it was sent.
    fn present(&self, kind: Kind) -> Result<Present> {
        let head = self.head()?;
        Ok(Present {
            now: self.policy.clock.now(),
            epoch: head.epoch,
            mark: head.mark(kind),
        })
    }

    fn room(&self, account: Account, now: Timestamp) -> Result<bool> {
        let account = self.used(Counted::Account(account), now)?;
        let all = self.used(Counted::All, now)?;
        Ok(self.policy.limits.leave_room(account, all))
    }

    pub(crate) fn settle(
        &self,
        key: &RowKey,
        token: &Token,
        settlement: &Settlement,
    ) -> Result<Settled> {
        let Some(entry) = self.owned(key, token)? else {
            return Ok(Settled::Refused);
        };
        let (settled, status) = rules::settle(Some(&entry.row), token, settlement);
        if let Some(status) = status {
            self.write(entry.kind, key, token, &status)?;
            let bytes = status.bytes();
            if bytes > 0 {
                self.count(entry.account, *key, Use { rows: 0, bytes });
            }
        }
        Ok(settled)
    }

    pub(crate) fn beat(&self, key: &RowKey, token: &Token, lease: Duration) -> Result<bool> {
        let Some(entry) = self.owned(key, token)? else {
            return Ok(false);
        };
        let now = self.policy.clock.now();
        let Some(status) = rules::beat(Some(&entry.row), token, lease, now) else {
            return Ok(false);
        };
        self.write(entry.kind, key, token, &status)?;
        Ok(true)
    }

    pub(crate) fn release(&self, key: &RowKey, token: &Token) -> Result<bool> {
        let Some(entry) = self.owned(key, token)? else {
            return Ok(false);
        };
        let (released, status) = rules::release(Some(&entry.row), token);
        if let Some(status) = status {
            self.write(entry.kind, key, token, &status)?;
        }
        Ok(released)
    }

    pub(crate) fn lookup(
        &self,
        kind: Kind,
        key: &RowKey,
        fingerprint: &Fingerprint,
    ) -> Result<Found> {
        let row = self.read(kind, key)?.map(|entry| entry.row);
        let (found, abandon) =
            rules::lookup(kind, fingerprint, row.as_ref(), self.policy.clock.now());
        if let Some(row) = row.filter(|_| abandon) {
            self.write(kind, key, &row.token, &Status::Abandoned)?;
        }
        Ok(found)
    }

    pub(crate) fn epoch(&self) -> Result<Epoch> {
        Ok(self.head()?.epoch)
    }

    pub(crate) fn rotate_epoch(&self) -> Result<Epoch> {
        let epoch = Epoch::generate()?;
        self.known.set_head(None);
        // What the marks guard belonged to flows of the epoch that ends.
        self.cached(
            "UPDATE ledger SET epoch = ?1, rounds_mark = NULL, steps_mark = NULL, notes_mark = NULL",
        )?
        .execute(params![epoch.as_bytes()])?;
        Ok(epoch)
    }

    /// What expired before this may go: `expiry + retention < now`.
    fn too_old(&self, now: Timestamp) -> Option<Timestamp> {
        let retention = u64::try_from(self.policy.retention.as_millis()).ok()?;
        now.as_millis()
            .checked_sub(retention)
            .map(Timestamp::from_millis)
    }

    fn head(&self) -> Result<Head> {
        if let Some(head) = self.known.head() {
            return Ok(head);
        }
        let head = self
            .cached("SELECT epoch, rounds_mark, steps_mark, notes_mark FROM ledger")?
            .query_row([], |row| {
                let mark = |mark: Option<i64>| mark.map(time);
                Ok(Head {
                    epoch: Epoch::from_bytes(row.get(0)?),
                    rounds_mark: mark(row.get(1)?),
                    steps_mark: mark(row.get(2)?),
                    notes_mark: mark(row.get(3)?),
                })
            })?;
        self.known.set_head(Some(head));
        Ok(head)
    }

    /// The row that the token names, whichever kind it is of.
    fn owned(&self, key: &RowKey, token: &Token) -> Result<Option<Entry>> {
        for kind in [Kind::Round, Kind::Step] {
            if let Some(entry) = self
                .read(kind, key)?
                .filter(|entry| entry.row.token == *token)
            {
                return Ok(Some(entry));
            }
        }
        Ok(None)
    }

    fn read(&self, kind: Kind, key: &RowKey) -> Result<Option<Entry>> {
        let mut select = self.cached(match kind {
            Kind::Round => {
                "SELECT fingerprint, account, token, status, lease, outcome, again FROM rounds WHERE expiry = ?1 AND hash = ?2"
            }
            Kind::Step => {
                "SELECT fingerprint, account, token, status, lease, outcome, 0 FROM steps WHERE expiry = ?1 AND hash = ?2"
            }
            Kind::Note => "SELECT fingerprint, account, value FROM notes WHERE expiry = ?1 AND hash = ?2",
        })?;
        let entry = select.query_row(params![int(key.expiry), key.hash], |row| {
            let fingerprint = Fingerprint::from_bytes(row.get(0)?);
            let account = Account::from_bytes(row.get(1)?);
            let row = match kind {
                Kind::Note => Row::of_note(fingerprint, row.get(2)?),
                Kind::Round | Kind::Step => Row {
                    fingerprint,
                    token: Token::from_bytes(row.get(2)?),
                    status: match row.get::<_, i64>(3)? {
                        0 => Status::Owned {
                            lease: time(row.get(4)?),
                            again: row.get::<_, i64>(6)? != 0,
                        },
                        1 => Status::Released,
                        2 => Status::Settled(row.get(5)?),
                        3 => Status::Abandoned,
                        other => return Err(rusqlite::Error::IntegralValueOutOfRange(3, other)),
                    },
                },
            };
            Ok(Entry { kind, row, account })
        });
        Ok(entry.optional()?)
    }

    fn insert_note(&self, note: &Note) -> Result<()> {
        let mut insert = self.cached(
            "INSERT INTO notes (expiry, hash, fingerprint, account, value) VALUES (?1, ?2, ?3, ?4, ?5)",
        )?;
        insert.execute(params![
            int(note.key.expiry),
            note.key.hash,
            note.fingerprint.as_bytes(),
            note.account.as_bytes(),
            note.value
        ])?;
        Ok(())
    }

    /// Inserts the row of a claim, or says that there is one.
    fn insert(&self, claim: &Claim, lease: Timestamp) -> Result<bool> {
        let mut insert = self.cached(match claim.kind {
            Kind::Round => {
                "INSERT INTO rounds (expiry, hash, fingerprint, account, token, status, lease)
                 VALUES (?1, ?2, ?3, ?4, ?5, 0, ?6) ON CONFLICT (expiry, hash) DO NOTHING"
            }
            Kind::Step => {
                "INSERT INTO steps (expiry, hash, fingerprint, account, token, status, lease)
                 VALUES (?1, ?2, ?3, ?4, ?5, 0, ?6) ON CONFLICT (expiry, hash) DO NOTHING"
            }
            Kind::Note => return Err(Fault::Corrupt),
        })?;
        let Claim {
            key,
            fingerprint,
            account,
            token,
            ..
        } = claim;
        let inserted = insert.execute(params![
            int(key.expiry),
            key.hash,
            fingerprint.as_bytes(),
            account.as_bytes(),
            token.as_bytes(),
            int(lease)
        ])?;
        Ok(inserted == 1)
    }

    fn write(&self, kind: Kind, key: &RowKey, token: &Token, status: &Status) -> Result<()> {
        let (number, lease, outcome, again) = match status {
            Status::Owned { lease, again } => (0, int(*lease), None, *again),
            Status::Released => (1, 0, None, false),
            Status::Settled(outcome) => (2, 0, Some(outcome), false),
            Status::Abandoned => (3, 0, None, false),
        };
        let mut update = self.cached(match kind {
            Kind::Round => {
                "UPDATE rounds SET token = ?3, status = ?4, lease = ?5, outcome = ?6, again = ?7 WHERE expiry = ?1 AND hash = ?2"
            }
            // A step is never taken over, and the last parameter is false.
            Kind::Step => {
                "UPDATE steps SET token = ?3, status = ?4, lease = ?5, outcome = ?6 WHERE expiry = ?1 AND hash = ?2 AND NOT ?7"
            }
            Kind::Note => return Err(Fault::Corrupt),
        })?;
        let changed = update.execute(params![
            int(key.expiry),
            key.hash,
            token.as_bytes(),
            number,
            lease,
            outcome,
            again
        ])?;
        // It was read under the same lock. If it is not there, the file does not do what SQLite says.
        if changed == 1 {
            Ok(())
        } else {
            Err(Fault::Corrupt)
        }
    }

    fn used(&self, counted: Counted, now: Timestamp) -> Result<Use> {
        self.known.used(counted, now, |first| {
            let mut sum = self.cached(
                "SELECT coalesce(sum(rows), 0), coalesce(sum(bytes), 0) FROM tally WHERE account = ?1 AND bucket >= ?2",
            )?;
            let sum = sum.query_row(params![account_bytes(&counted), signed(first)], |row| {
                Ok(Use {
                    rows: unsigned(row.get(0)?),
                    bytes: unsigned(row.get(1)?),
                })
            })?;
            Ok(sum)
        })
    }

    /// A row, or bytes of its outcome, were added.
    fn count(&self, account: Account, key: RowKey, more: Use) {
        if more.rows > 0 {
            self.known.owe();
        }
        self.known.add(Counted::Account(account), key, more);
    }

    /// Writes what was counted: once for each account and minute, and not once for each row.
    pub(crate) fn write_counts(&self) -> Result<()> {
        let added = self.known.take_added();
        if added.is_empty() {
            return Ok(());
        }
        let mut add = self.cached(
            "INSERT INTO tally (account, bucket, rows, bytes) VALUES (?1, ?2, ?3, ?4)
             ON CONFLICT (account, bucket) DO UPDATE SET rows = rows + excluded.rows, bytes = bytes + excluded.bytes",
        )?;
        for ((counted, bucket), more) in &added {
            add.execute(params![
                account_bytes(counted),
                signed(*bucket),
                signed(more.rows),
                signed(more.bytes)
            ])?;
        }
        Ok(())
    }

    fn cached(&self, sql: &'static str) -> Result<CachedStatement<'a>> {
        Ok(self.connection.prepare_cached(sql)?)
    }
}

fn account_bytes(counted: &Counted) -> &[u8] {
    match counted {
        Counted::All => &[],
        Counted::Account(account) => account.as_bytes(),
    }
}

/// SQLite's integers are signed. A time beyond their end is as good as their end.
pub(crate) fn int(time: Timestamp) -> i64 {
    signed(time.as_millis())
}

pub(crate) fn time(millis: i64) -> Timestamp {
    // What says "never" on the way in says "never" on the way out.
    if millis == i64::MAX {
        Timestamp::MAX
    } else {
        Timestamp::from_millis(unsigned(millis))
    }
}

fn signed(value: u64) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}

fn unsigned(value: i64) -> u64 {
    u64::try_from(value).unwrap_or(0)
}
