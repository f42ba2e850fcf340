//! The operations on one connection.
//!
//! What happens most (a claim of a row that is not there, its owner's settlement, a beat) is one statement each. For all
//! else the rows are read and held in a transaction, and `rules` decides.

use std::sync::Arc;
use std::time::Duration;

use mrtr_ledger::rules::{self, Present, Row, Status, Write};
use mrtr_ledger::tally::{self, Use};
use mrtr_ledger::{
    Account, Claim, Claimed, Fingerprint, Found, Kept, Kind, Limits, Note, Owner, RowKey, Settled,
    Settlement, Token,
};
use mrtr_state::{Clock, Epoch, Timestamp};
use tokio::try_join;
use tokio_postgres::{Client, Statement};

use crate::fault::{Blob, Fault};
use crate::session::Manner;
use crate::sql::Statements;
use crate::totals::Totals;

type Result<T> = std::result::Result<T, Fault>;

/// How often a decision starts again because a row came or went under it. Each time somebody else has got on.
const ROUNDS: usize = 8;

/// The clock as the database's numbers hold it, with room for any lease on top.
const LATEST: i64 = i64::MAX / 2;

/// What the ledger is told to go by.
#[derive(Debug)]
pub(crate) struct Policy {
    /// Instead of the database's, in tests.
    pub(crate) clock: Option<Arc<dyn Clock>>,
    pub(crate) limits: Limits,
    pub(crate) retention: Duration,
    pub(crate) totals: Totals,
}

impl Policy {
    pub(crate) fn clock(&self) -> Option<i64> {
        self.clock
            .as_ref()
            .map(|clock| int(clock.now()).min(LATEST))
    }

    pub(crate) fn retention(&self) -> i64 {
        millis(self.retention)
    }
}

/// One operation's hold of a connection.
pub(crate) struct Books<'a> {
    pub(crate) client: &'a Client,
    pub(crate) statements: &'a Statements,
    pub(crate) policy: &'a Policy,
    pub(crate) manner: &'a Manner,
}

/// A row, and whose it is.
pub(crate) struct Entry {
    pub(crate) kind: Kind,
    pub(crate) row: Row,
    pub(crate) account: Account,
}

/// What a claim and a note have in common: a row that may be put where there is none.
struct New<'a> {
    kind: Kind,
    key: RowKey,
    epoch: Epoch,
    fingerprint: Fingerprint,
    account: Account,
    token: Token,
    under: Option<Owner>,
    limited: bool,
    lease: Duration,
    value: Option<&'a [u8]>,
}

impl Books<'_> {
    pub(crate) async fn claim(&self, claim: &Claim) -> Result<Claimed> {
        let new = New::of_claim(claim);
        if new.kind == Kind::Note {
            // Notes are kept, not claimed.
            return Ok(Claimed::Conflict);
        }
        let room = self.all_have_room(new.limited).await?;
        if room && self.put(&new).await? {
            return Ok(Claimed::First);
        }
        for _ in 0..ROUNDS {
            if let Some(claimed) = self.decide_claim(claim, &new).await? {
                return Ok(claimed);
            }
        }
        Err(Fault::Busy)
    }

    pub(crate) async fn keep(&self, note: &Note) -> Result<Kept> {
        let new = New::of_note(note);
        let room = self.all_have_room(new.limited).await?;
        if room && self.put(&new).await? {
            return Ok(Kept::Stored);
        }
        for _ in 0..ROUNDS {
            if let Some(kept) = self.decide_note(note, &new).await? {
                return Ok(kept);
            }
        }
        Err(Fault::Busy)
    }

    /// The one statement that decides most claims. True: the row is there, durably. False says nothing yet.
    async fn put(&self, new: &New<'_>) -> Result<bool> {
        let kind = number(new.kind);
        let (expiry, lease) = (int(new.key.expiry), millis(new.lease));
        let (hash, print, account) = (Blob(&new.key.hash), new.fingerprint, new.account);
        let (print, account) = (Blob(print.as_bytes()), Blob(account.as_bytes()));
        let (token, epoch) = (Blob(new.token.as_bytes()), Blob(new.epoch.as_bytes()));
        let (clock, value) = (self.policy.clock(), new.value.map(Blob));
        let status: i16 = if new.value.is_some() { 2 } else { 0 };
        let Limits {
            rows_per_account,
            bytes_per_account,
            ..
        } = self.policy.limits;
        let (rows, bytes) = (signed(rows_per_account), signed(bytes_per_account));
        let owner = new.under.as_ref().map(|owner| {
            (
                int(owner.key.expiry),
                owner.key.hash,
                *owner.token.as_bytes(),
            )
        });
        let client = self.client;
        let answer = match &owner {
            None => {
                client
                    .query_opt(
                        &self.statements.fresh,
                        &[
                            &kind,
                            &expiry,
                            &hash,
                            &print,
                            &account,
                            &token,
                            &lease,
                            &epoch,
                            &clock,
                            &status,
                            &value,
                            &new.limited,
                            &rows,
                            &bytes,
                        ],
                    )
                    .await?
            }
            Some((owner_expiry, owner_hash, owner_token)) => {
                client
                    .query_opt(
                        &self.statements.fresh_under,
                        &[
                            &kind,
                            &expiry,
                            &hash,
                            &print,
                            &account,
                            &token,
                            &lease,
                            &epoch,
                            &clock,
                            &status,
                            &value,
                            &new.limited,
                            &rows,
                            &bytes,
                            owner_expiry,
                            &Blob(owner_hash),
                            &Blob(owner_token),
                        ],
                    )
                    .await?
            }
        };
        let Some(row) = answer else {
            return Ok(false);
        };
        self.is_durable(row.try_get(0)?)?;
        self.policy.totals.add(new.weight());
        Ok(true)
    }

    /// `None`: a row came between the look and the write. Look again.
    async fn decide_claim(&self, claim: &Claim, new: &New<'_>) -> Result<Option<Claimed>> {
        let seen = self.look(new).await?;
        let room = || Ok::<_, Fault>(seen.room);
        let (claimed, write) = rules::claim(
            claim,
            seen.row.as_ref(),
            seen.round.as_ref(),
            seen.present,
            room,
        )?;
        match write {
            Write::Nothing => {
                self.roll_back().await?;
                return Ok(Some(claimed));
            }
            Write::Insert { lease } => {
                let status = Status::Owned {
                    lease,
                    again: false,
                };
                if !self.insert(new, &status).await? {
                    self.roll_back().await?;
                    return Ok(None);
                }
                self.count(&new.account, &new.key, new.weight()).await?;
            }
            Write::Own { lease, again } => {
                let status = Status::Owned { lease, again };
                self.write(claim.kind, &claim.key, &claim.token, &status)
                    .await?;
            }
            Write::Abandon => {
                // The token stays as it was: it names the owner that is withdrawn.
                let token = seen.row.as_ref().map_or(claim.token, |row| row.token);
                self.write(claim.kind, &claim.key, &token, &Status::Abandoned)
                    .await?;
            }
        }
        self.commit().await?;
        if matches!(write, Write::Insert { .. }) {
            self.policy.totals.add(new.weight());
        }
        Ok(Some(claimed))
    }

    async fn decide_note(&self, note: &Note, new: &New<'_>) -> Result<Option<Kept>> {
        let seen = self.look(new).await?;
        let room = || Ok::<_, Fault>(seen.room);
        let (kept, write) = rules::keep(
            note,
            seen.row.as_ref(),
            seen.round.as_ref(),
            seen.present,
            room,
        )?;
        if !write {
            self.roll_back().await?;
            return Ok(Some(kept));
        }
        if !self
            .insert(new, &Status::Settled(note.value.clone()))
            .await?
        {
            self.roll_back().await?;
            return Ok(None);
        }
        self.count(&new.account, &new.key, new.weight()).await?;
        self.commit().await?;
        self.policy.totals.add(new.weight());
        Ok(Some(kept))
    }

    /// Decides a claim inside a transaction in which an effect is to follow. Nothing is held but the row.
    pub(crate) async fn take(&self, claim: &Claim) -> Result<Taken> {
        let new = New::of_claim(claim);
        if new.kind == Kind::Note {
            return Ok(Taken::Not(Claimed::Conflict));
        }
        for _ in 0..ROUNDS {
            let seen = self.glance(&new).await?;
            let room = || Ok::<_, Fault>(seen.room);
            let (claimed, write) = rules::claim(
                claim,
                seen.row.as_ref(),
                seen.round.as_ref(),
                seen.present,
                room,
            )?;
            let inserted = match write {
                Write::Nothing => return Ok(Taken::Not(claimed)),
                Write::Insert { lease } => {
                    // Waits for whoever is about to put the same row there.
                    if !self
                        .insert(
                            &new,
                            &Status::Owned {
                                lease,
                                again: false,
                            },
                        )
                        .await?
                    {
                        continue;
                    }
                    true
                }
                Write::Own { lease, again } => {
                    self.write(
                        claim.kind,
                        &claim.key,
                        &claim.token,
                        &Status::Owned { lease, again },
                    )
                    .await?;
                    false
                }
                Write::Abandon => {
                    let token = seen.row.as_ref().map_or(claim.token, |row| row.token);
                    self.write(claim.kind, &claim.key, &token, &Status::Abandoned)
                        .await?;
                    self.durable().await?;
                    return Ok(Taken::Told(claimed));
                }
            };
            let (transaction, _) = self.whole().await?;
            return Ok(Taken::Ours(Taking {
                inserted,
                now: seen.present.now,
                transaction,
            }));
        }
        Err(Fault::Busy)
    }

    /// Looks again at what [`Books::take`] went by, holds it, and writes how the step ends. What comes back is why that
    /// may not be committed.
    pub(crate) async fn conclude(
        &self,
        claim: &Claim,
        taking: &Taking,
        status: &Status,
    ) -> Result<Option<Claimed>> {
        let head = self.head(&self.statements.head_to_hold, claim.kind);
        let round = self.round(&self.statements.round_to_hold, claim.under_round.as_ref());
        let (head, round, (transaction, _)) = try_join!(biased; head, round, self.whole())?;
        if transaction != taking.transaction {
            return Err(Fault::Ended);
        }
        // The row is ours since the claim; what the clock said then still counts.
        let lease = taking.now.saturating_add(claim.lease);
        let row = Row {
            fingerprint: claim.fingerprint,
            token: claim.token,
            status: Status::Owned {
                lease,
                again: false,
            },
        };
        let present = present(&head, taking.now)?;
        let (claimed, _) = rules::claim(claim, Some(&row), round.as_ref(), present, || {
            Ok::<_, Fault>(true)
        })?;
        if claimed != Claimed::First {
            return Ok(Some(claimed));
        }
        self.write(claim.kind, &claim.key, &claim.token, status)
            .await?;
        self.count(&claim.account, &claim.key, taking.weight(status))
            .await?;
        self.durable().await?;
        Ok(None)
    }

    async fn whole(&self) -> Result<(i64, String)> {
        let row = self.client.query_one(&self.statements.whole, &[]).await?;
        Ok((row.try_get(0)?, row.try_get(1)?))
    }

    pub(crate) async fn settle(
        &self,
        key: &RowKey,
        token: &Token,
        settlement: &Settlement,
    ) -> Result<Settled> {
        let (status, outcome) = match settlement {
            Settlement::Outcome(outcome) => (2_i16, Some(Blob(outcome))),
            Settlement::Abandoned => (3, None),
        };
        let bytes = outcome.map_or(0, |outcome| outcome.0.len() as u64);
        let won = self
            .client
            .query_opt(
                &self.statements.settle,
                &[
                    &int(key.expiry),
                    &Blob(&key.hash),
                    &Blob(token.as_bytes()),
                    &status,
                    &outcome,
                ],
            )
            .await?;
        if let Some(row) = won {
            self.is_durable(row.try_get(0)?)?;
            self.policy.totals.add(Use { rows: 0, bytes });
            return Ok(Settled::Stored);
        }
        let entry = self.hold_owned(key, token).await?;
        let (settled, status) =
            rules::settle(entry.as_ref().map(|entry| &entry.row), token, settlement);
        match (entry, status) {
            (Some(entry), Some(status)) => {
                self.write(entry.kind, key, token, &status).await?;
                self.count(&entry.account, key, Use { rows: 0, bytes })
                    .await?;
                self.commit().await?;
                self.policy.totals.add(Use { rows: 0, bytes });
            }
            _ => self.roll_back().await?,
        }
        Ok(settled)
    }

    /// The rule of `rules::beat`, in one statement.
    pub(crate) async fn beat(&self, key: &RowKey, token: &Token, lease: Duration) -> Result<bool> {
        let beat = &self.statements.beat;
        let row = self
            .client
            .query_opt(
                beat,
                &[
                    &int(key.expiry),
                    &Blob(&key.hash),
                    &Blob(token.as_bytes()),
                    &millis(lease),
                    &self.policy.clock(),
                ],
            )
            .await?;
        Ok(row.is_some())
    }

    pub(crate) async fn release(&self, key: &RowKey, token: &Token) -> Result<bool> {
        let entry = self.hold_owned(key, token).await?;
        let (released, status) = rules::release(entry.as_ref().map(|entry| &entry.row), token);
        match (entry, status) {
            (Some(entry), Some(status)) => {
                self.write(entry.kind, key, token, &status).await?;
                self.commit().await?;
            }
            _ => self.roll_back().await?,
        }
        Ok(released)
    }

    /// Reads without a lock first: what is told of a row that is committed is as good as it gets, unless telling it would
    /// withdraw somebody.
    pub(crate) async fn lookup(
        &self,
        kind: Kind,
        key: &RowKey,
        fingerprint: &Fingerprint,
    ) -> Result<Found> {
        let (moment, row) =
            try_join!(biased; self.moment(), self.row(&self.statements.row, kind, key))?;
        let (found, abandon) = rules::lookup(
            kind,
            fingerprint,
            row.as_ref().map(|entry| &entry.row),
            moment,
        );
        if !abandon {
            return Ok(found);
        }
        let (_, row, now) = try_join!(biased; self.begin(), self.row(&self.statements.row_to_change, kind, key), self.moment())?;
        let (found, abandon) =
            rules::lookup(kind, fingerprint, row.as_ref().map(|entry| &entry.row), now);
        match row {
            Some(entry) if abandon => {
                self.write(kind, key, &entry.row.token, &Status::Abandoned)
                    .await?;
                self.commit().await?;
            }
            _ => self.roll_back().await?,
        }
        Ok(found)
    }

    pub(crate) async fn epoch(&self) -> Result<Epoch> {
        let row = self.client.query_opt(&self.statements.epoch, &[]).await?;
        Ok(Epoch::from_bytes(bytes(&row.ok_or(Fault::Corrupt)?, 0)?))
    }

    /// Opens a transaction and reads, holding all of it, what a decision is about. The order is that of every operation
    /// (the ledger, a round, then the row), so that none waits for another in a circle.
    async fn look(&self, new: &New<'_>) -> Result<Seen> {
        let statements = self.statements;
        let (_, head, round, row, now) = try_join!(
            biased;
            self.begin(),
            self.head(&statements.head, new.kind),
            self.round(&statements.round_to_hold, new.under.as_ref()),
            self.row(&statements.row_to_change, new.kind, &new.key),
            self.moment(),
        )?;
        self.seen(new, &head, round, row, now).await
    }

    /// The same in a transaction that is open, holding the row alone.
    async fn glance(&self, new: &New<'_>) -> Result<Seen> {
        let statements = self.statements;
        let (head, round, row, now) = try_join!(
            biased;
            self.head(&statements.head_now, new.kind),
            self.round(&statements.row, new.under.as_ref()),
            self.row(&statements.row_to_change, new.kind, &new.key),
            self.moment(),
        )?;
        self.seen(new, &head, round, row, now).await
    }

    async fn seen(
        &self,
        new: &New<'_>,
        head: &tokio_postgres::Row,
        round: Option<Row>,
        row: Option<Entry>,
        now: Timestamp,
    ) -> Result<Seen> {
        let room = match row {
            None if new.limited => {
                let account = self.used(Some(&new.account), now).await?;
                let all = self.used(None, now).await?;
                self.policy.limits.leave_room(account, all)
            }
            _ => true,
        };
        Ok(Seen {
            row: row.map(|entry| entry.row),
            round,
            present: present(head, now)?,
            room,
        })
    }

    async fn head(&self, statement: &Statement, kind: Kind) -> Result<tokio_postgres::Row> {
        self.client
            .query_opt(statement, &[&number(kind)])
            .await?
            .ok_or(Fault::Corrupt)
    }

    async fn round(&self, statement: &Statement, owner: Option<&Owner>) -> Result<Option<Row>> {
        match owner {
            Some(owner) => Ok(self
                .row(statement, Kind::Round, &owner.key)
                .await?
                .map(|entry| entry.row)),
            None => Ok(None),
        }
    }

    /// Whether all accounts together leave room, as far as it must be known before the row is looked at.
    async fn all_have_room(&self, limited: bool) -> Result<bool> {
        let totals = &self.policy.totals;
        let Limits { rows, bytes, .. } = self.policy.limits;
        if !limited || (rows == u64::MAX && bytes == u64::MAX) {
            return Ok(true);
        }
        let leaves_room = |all| self.policy.limits.leave_room(Use::default(), all);
        if totals.known().is_some_and(leaves_room) {
            return Ok(true);
        }
        // Not known well enough, or full by what was known: rows expire, too.
        totals.begin();
        let now = self.moment().await?;
        let all = self.used(None, now).await?;
        totals.learn(all);
        Ok(leaves_room(all))
    }

    /// By an account, or by all.
    async fn used(&self, account: Option<&Account>, now: Timestamp) -> Result<Use> {
        let account = account.map_or(&[][..], |account| account.as_bytes());
        let from = signed(tally::first_counted(now));
        let row = self
            .client
            .query_one(&self.statements.used, &[&Blob(account), &from])
            .await?;
        Ok(Use {
            rows: unsigned(row.try_get(0)?),
            bytes: unsigned(row.try_get(1)?),
        })
    }

    async fn hold_owned(&self, key: &RowKey, token: &Token) -> Result<Option<Entry>> {
        let owned = async {
            let parameters: [&(dyn tokio_postgres::types::ToSql + Sync); 3] =
                [&int(key.expiry), &Blob(&key.hash), &Blob(token.as_bytes())];
            let row = self
                .client
                .query_opt(&self.statements.owned, &parameters)
                .await?;
            row.map(|row| entry(&row)).transpose()
        };
        let (_, entry) = try_join!(biased; self.begin(), owned)?;
        Ok(entry)
    }

    async fn row(&self, statement: &Statement, kind: Kind, key: &RowKey) -> Result<Option<Entry>> {
        let client = self.client;
        let row = client
            .query_opt(
                statement,
                &[&number(kind), &int(key.expiry), &Blob(&key.hash)],
            )
            .await?;
        row.map(|row| entry(&row)).transpose()
    }

    pub(crate) async fn moment(&self) -> Result<Timestamp> {
        let row = self
            .client
            .query_one(&self.statements.moment, &[&self.policy.clock()])
            .await?;
        Ok(time(row.try_get(0)?))
    }

    /// False: there is a row, and nothing is changed.
    async fn insert(&self, new: &New<'_>, status: &Status) -> Result<bool> {
        let (number_of_status, lease, outcome, _) = columns(status);
        let inserted = self
            .client
            .execute(
                &self.statements.insert,
                &[
                    &number(new.kind),
                    &int(new.key.expiry),
                    &Blob(&new.key.hash),
                    &Blob(new.fingerprint.as_bytes()),
                    &Blob(new.account.as_bytes()),
                    &Blob(new.token.as_bytes()),
                    &number_of_status,
                    &lease,
                    &outcome,
                ],
            )
            .await?;
        Ok(inserted == 1)
    }

    async fn count(&self, account: &Account, key: &RowKey, more: Use) -> Result<()> {
        if more == Use::default() {
            return Ok(());
        }
        let (rows, bytes) = (signed(more.rows), signed(more.bytes));
        let count = &self.statements.count;
        let parameters: [&(dyn tokio_postgres::types::ToSql + Sync); 4] =
            [&Blob(account.as_bytes()), &int(key.expiry), &rows, &bytes];
        self.client.execute(count, &parameters).await?;
        Ok(())
    }

    async fn write(&self, kind: Kind, key: &RowKey, token: &Token, status: &Status) -> Result<()> {
        let (number_of_status, lease, outcome, again) = columns(status);
        let written = self
            .client
            .execute(
                &self.statements.write,
                &[
                    &number(kind),
                    &int(key.expiry),
                    &Blob(&key.hash),
                    &Blob(token.as_bytes()),
                    &number_of_status,
                    &again,
                    &lease,
                    &outcome,
                ],
            )
            .await?;
        // It was read under a lock that still holds. If it is not there, the tables are not what they should be.
        if written == 1 {
            Ok(())
        } else {
            Err(Fault::Corrupt)
        }
    }

    pub(crate) async fn begin(&self) -> Result<()> {
        Ok(self
            .client
            .batch_execute("BEGIN ISOLATION LEVEL READ COMMITTED")
            .await?)
    }

    /// Commits what was written, if that will be durable. It is asked last: a trigger may have changed it.
    pub(crate) async fn commit(&self) -> Result<()> {
        self.durable().await?;
        Ok(self.client.batch_execute("COMMIT").await?)
    }

    /// The transaction that is open will wait for the disk.
    async fn durable(&self) -> Result<()> {
        let (_, synchronous_commit) = self.whole().await?;
        self.is_durable(&synchronous_commit)
    }

    pub(crate) async fn roll_back(&self) -> Result<()> {
        Ok(self.client.batch_execute("ROLLBACK").await?)
    }

    /// `on` waits for the disk, and for the standbys that are named; `remote_apply` for more than that. All other words
    /// wait for less, and are nobody's but somebody's who changed what the session was set up with.
    pub(crate) fn is_durable(&self, synchronous_commit: &str) -> Result<()> {
        match synchronous_commit {
            "on" | "remote_apply" => Ok(()),
            other => Err(Fault::NotDurable(other.to_owned())),
        }
    }
}

/// What came of a claim before an effect.
pub(crate) enum Taken {
    /// The row is this caller's, as long as the transaction lasts.
    Ours(Taking),
    /// It is not, and nothing was written.
    Not(Claimed),
    /// It is not, and that was written.
    Told(Claimed),
}

/// What must still be so when the transaction is committed.
pub(crate) struct Taking {
    /// The row was not there before.
    pub(crate) inserted: bool,
    now: Timestamp,
    transaction: i64,
}

impl Taking {
    pub(crate) fn weight(&self, status: &Status) -> Use {
        Use {
            rows: u64::from(self.inserted),
            bytes: status.bytes(),
        }
    }
}

/// What a decision is made from.
struct Seen {
    row: Option<Row>,
    round: Option<Row>,
    present: Present,
    room: bool,
}

impl<'a> New<'a> {
    fn of_claim(claim: &Claim) -> Self {
        Self {
            kind: claim.kind,
            key: claim.key,
            epoch: claim.epoch,
            fingerprint: claim.fingerprint,
            account: claim.account,
            token: claim.token,
            under: claim.under_round,
            limited: claim.kind == Kind::Round || claim.checks_limits,
            lease: claim.lease,
            value: None,
        }
    }

    fn of_note(note: &'a Note) -> Self {
        Self {
            kind: Kind::Note,
            key: note.key,
            epoch: note.epoch,
            fingerprint: note.fingerprint,
            account: note.account,
            token: Token::from_bytes([0; 16]),
            under: note.under_round,
            limited: note.checks_limits,
            lease: Duration::ZERO,
            value: Some(&note.value),
        }
    }

    fn weight(&self) -> Use {
        let bytes = self.value.map_or(0, <[u8]>::len) as u64;
        Use { rows: 1, bytes }
    }
}

fn entry(row: &tokio_postgres::Row) -> Result<Entry> {
    let kind = match row.try_get::<_, i16>(0)? {
        0 => Kind::Round,
        1 => Kind::Step,
        2 => Kind::Note,
        _ => return Err(Fault::Corrupt),
    };
    let status = match row.try_get::<_, i16>(4)? {
        0 => Status::Owned {
            lease: time(row.try_get(6)?),
            again: row.try_get(5)?,
        },
        1 => Status::Released,
        2 => Status::Settled(row.try_get(7)?),
        3 => Status::Abandoned,
        _ => return Err(Fault::Corrupt),
    };
    Ok(Entry {
        kind,
        account: Account::from_bytes(bytes(row, 2)?),
        row: Row {
            fingerprint: Fingerprint::from_bytes(bytes(row, 1)?),
            token: Token::from_bytes(bytes(row, 3)?),
            status,
        },
    })
}

fn present(head: &tokio_postgres::Row, now: Timestamp) -> Result<Present> {
    Ok(Present {
        now,
        epoch: Epoch::from_bytes(bytes(head, 0)?),
        mark: head.try_get::<_, Option<i64>>(1)?.map(time),
    })
}

/// Status, lease, outcome, again.
fn columns(status: &Status) -> (i16, i64, Option<Blob<'_>>, bool) {
    match status {
        Status::Owned { lease, again } => (0, int(*lease), None, *again),
        Status::Released => (1, 0, None, false),
        Status::Settled(outcome) => (2, 0, Some(Blob(outcome)), false),
        Status::Abandoned => (3, 0, None, false),
    }
}

pub(crate) fn bytes<const N: usize>(row: &tokio_postgres::Row, column: usize) -> Result<[u8; N]> {
    let bytes: &[u8] = row.try_get(column)?;
    bytes.try_into().map_err(|_| Fault::Corrupt)
}

pub(crate) const fn number(kind: Kind) -> i16 {
    match kind {
        Kind::Round => 0,
        Kind::Step => 1,
        Kind::Note => 2,
    }
}

/// A column holds signed numbers, and no state expires after year 292,277,026.
pub(crate) fn int(time: Timestamp) -> i64 {
    signed(time.as_millis())
}

pub(crate) fn time(millis: i64) -> Timestamp {
    Timestamp::from_millis(unsigned(millis))
}

pub(crate) fn signed(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

pub(crate) fn unsigned(number: i64) -> u64 {
    u64::try_from(number).unwrap_or(0)
}

/// A time span, short enough to be added to a clock.
fn millis(span: Duration) -> i64 {
    i64::try_from(span.as_millis())
        .unwrap_or(i64::MAX)
        .min(LATEST)
}
