//! What decisions are made from, and how they are written.

use std::time::Duration;

use mrtr_ledger::rules::{Present, Row, Status};
use mrtr_ledger::tally::{self, Use};
use mrtr_ledger::{Account, Claim, Fingerprint, Kind, Limits, Note, Owner, RowKey, Token};
use mrtr_state::{Epoch, Timestamp};
use tokio::try_join;
use tokio_postgres::Statement;
use tokio_postgres::types::ToSql;

use crate::books::{Books, Result};
use crate::columns::{Entry, columns, entry, int, number, present, signed, time, unsigned};
use crate::fault::{Blob, Fault};

/// What a claim and a note have in common: a row that may be put where there is none.
pub(crate) struct New<'a> {
    pub(crate) kind: Kind,
    pub(crate) key: RowKey,
    pub(crate) epoch: Epoch,
    pub(crate) fingerprint: Fingerprint,
    pub(crate) account: Account,
    pub(crate) token: Token,
    pub(crate) under: Option<Owner>,
    pub(crate) limited: bool,
    pub(crate) lease: Duration,
    pub(crate) value: Option<&'a [u8]>,
}

impl Books<'_> {
    /// Opens a transaction and reads, holding all of it, what a decision is about. The order is that of every operation
    /// (the ledger, a round, then the row), so that none waits for another in a circle.
    pub(crate) async fn look(&self, new: &New<'_>) -> Result<Seen> {
        let statements = self.statements;
        let (_, head, round, row, moment) = try_join!(
            biased;
            self.begin(),
            self.head(&statements.head, new.kind),
            self.round(&statements.round_to_hold, new.under.as_ref()),
            self.row(&statements.row_to_change, new.kind, &new.key),
            self.moment(),
        )?;
        self.seen(new, &head, round, row, moment).await
    }

    /// The same in a transaction that is open, holding the row alone.
    pub(crate) async fn glance(&self, new: &New<'_>) -> Result<Seen> {
        let statements = self.statements;
        let (head, round, row, moment) = try_join!(
            biased;
            self.head(&statements.head_now, new.kind),
            self.round(&statements.row, new.under.as_ref()),
            self.row(&statements.row_to_change, new.kind, &new.key),
            self.moment(),
        )?;
        self.seen(new, &head, round, row, moment).await
    }

    pub(crate) async fn seen(
        &self,
        new: &New<'_>,
        head: &tokio_postgres::Row,
        round: Option<Row>,
        row: Option<Entry>,
        moment: Moment,
    ) -> Result<Seen> {
        let now = moment.now;
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
            moment,
        })
    }

    pub(crate) async fn head(
        &self,
        statement: &Statement,
        kind: Kind,
    ) -> Result<tokio_postgres::Row> {
        self.client
            .query_opt(statement, &[&number(kind)])
            .await?
            .ok_or(Fault::Corrupt)
    }

    pub(crate) async fn round(
        &self,
        statement: &Statement,
        owner: Option<&Owner>,
    ) -> Result<Option<Row>> {
        match owner {
            Some(owner) => Ok(self
                .row(statement, Kind::Round, &owner.key)
                .await?
                .map(|entry| entry.row)),
            None => Ok(None),
        }
    }

    /// Whether all accounts together leave room, as far as it must be known before the row is looked at.
    pub(crate) async fn all_have_room(&self, limited: bool) -> Result<bool> {
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
        let now = self.moment().await?.now;
        let all = self.used(None, now).await?;
        totals.learn(all);
        Ok(leaves_room(all))
    }

    /// By an account, or by all.
    pub(crate) async fn used(&self, account: Option<&Account>, now: Timestamp) -> Result<Use> {
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

    pub(crate) async fn hold_owned(
        &self,
        key: &RowKey,
        token: &Token,
    ) -> Result<(Option<Entry>, Moment)> {
        let owned = async {
            let parameters: [&(dyn ToSql + Sync); 3] =
                [&int(key.expiry), &Blob(&key.hash), &Blob(token.as_bytes())];
            let row = self
                .client
                .query_opt(&self.statements.owned, &parameters)
                .await?;
            row.map(|row| entry(&row)).transpose()
        };
        let (_, entry, moment) = try_join!(biased; self.begin(), owned, self.moment())?;
        Ok((entry, moment))
    }

    pub(crate) async fn row(
        &self,
        statement: &Statement,
        kind: Kind,
        key: &RowKey,
    ) -> Result<Option<Entry>> {
        let client = self.client;
        let row = client
            .query_opt(
                statement,
                &[&number(kind), &int(key.expiry), &Blob(&key.hash)],
            )
            .await?;
        row.map(|row| entry(&row)).transpose()
    }

    pub(crate) async fn moment(&self) -> Result<Moment> {
        let row = self
            .client
            .query_one(&self.statements.moment, &[&self.policy.clock()])
            .await?;
        Ok(Moment {
            now: time(row.try_get(0)?),
            waits: row.try_get(1)?,
        })
    }

    /// False: there is a row, and nothing is changed.
    pub(crate) async fn insert(&self, new: &New<'_>, status: &Status) -> Result<bool> {
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

    pub(crate) async fn count(&self, account: &Account, key: &RowKey, more: Use) -> Result<()> {
        if more == Use::default() {
            return Ok(());
        }
        let (rows, bytes) = (signed(more.rows), signed(more.bytes));
        let count = &self.statements.count;
        let parameters: [&(dyn ToSql + Sync); 4] =
            [&Blob(account.as_bytes()), &int(key.expiry), &rows, &bytes];
        self.client.execute(count, &parameters).await?;
        Ok(())
    }

    pub(crate) async fn write(
        &self,
        kind: Kind,
        key: &RowKey,
        token: &Token,
        status: &Status,
    ) -> Result<()> {
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

    pub(crate) async fn whole(&self) -> Result<(i64, String)> {
        let row = self.client.query_one(&self.statements.whole, &[]).await?;
        Ok((row.try_get(0)?, row.try_get(1)?))
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
    pub(crate) async fn durable(&self) -> Result<()> {
        let (_, synchronous_commit) = self.whole().await?;
        self.is_durable(&synchronous_commit)
    }

    /// Ends a transaction that has read and written nothing, before what it read is told.
    ///
    /// A row is seen when its commit has been written through here. Where standbys are waited for it may be seen sooner
    /// than they have it: a wait that is cancelled ends like one that is over. So this one waits too; it holds the row, and
    /// its commit comes after the row's.
    pub(crate) async fn end_reading(&self, moment: Moment) -> Result<()> {
        if moment.waits {
            self.commit().await
        } else {
            self.roll_back().await
        }
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

/// What the server says of the moment in which something is decided.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Moment {
    pub(crate) now: Timestamp,
    /// Commits wait for standbys.
    pub(crate) waits: bool,
}

/// What a decision is made from.
pub(crate) struct Seen {
    pub(crate) row: Option<Row>,
    pub(crate) round: Option<Row>,
    pub(crate) present: Present,
    pub(crate) room: bool,
    pub(crate) moment: Moment,
}

impl<'a> New<'a> {
    pub(crate) fn of_claim(claim: &Claim) -> Self {
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

    pub(crate) fn of_note(note: &'a Note) -> Self {
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

    pub(crate) fn weight(&self) -> Use {
        let bytes = self.value.map_or(0, <[u8]>::len) as u64;
        Use { rows: 1, bytes }
    }
}
