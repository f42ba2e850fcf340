//! The operations on one connection.
//!
//! What happens most (a claim of a row that is not there, its owner's settlement, a beat) is one statement each. For all
//! else the rows are read and held in a transaction, and `rules` decides.

use std::sync::Arc;
use std::time::Duration;

use mrtr_ledger::rules::{self, Status, Write};
use mrtr_ledger::tally::Use;
use mrtr_ledger::{
    Claim, Claimed, Fingerprint, Found, Kept, Kind, Limits, Note, RowKey, Settled, Settlement,
    Token,
};
use mrtr_state::{Clock, Epoch};
use tokio::try_join;
use tokio_postgres::Client;

use crate::columns::{LATEST, bytes, int, millis, number, signed};
use crate::fault::{Blob, Fault};
use crate::rows::New;
use crate::session::Manner;
use crate::sql::Statements;
use crate::totals::Totals;

pub(crate) type Result<T> = std::result::Result<T, Fault>;

/// How often a decision starts again because a row came or went under it. Each time somebody else has got on.
pub(crate) const ROUNDS: usize = 8;

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
                self.end_reading(seen.moment).await?;
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
            self.end_reading(seen.moment).await?;
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
        let (entry, moment) = self.hold_owned(key, token).await?;
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
            // Also where the same settlement stands already: whoever made it may have had no word.
            _ => self.end_reading(moment).await?,
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
        let (entry, moment) = self.hold_owned(key, token).await?;
        let (released, status) = rules::release(entry.as_ref().map(|entry| &entry.row), token);
        match (entry, status) {
            (Some(entry), Some(status)) => {
                self.write(entry.kind, key, token, &status).await?;
                self.commit().await?;
            }
            _ => self.end_reading(moment).await?,
        }
        Ok(released)
    }

    /// Reads without a lock first, which is enough unless telling what is there would withdraw somebody, or rests on a
    /// commit that standbys may not have.
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
            moment.now,
        );
        let is_final = matches!(found, Found::Settled(_) | Found::Abandoned);
        let look_again = abandon || (is_final && moment.waits);
        if !look_again {
            return Ok(found);
        }
        let row = self.row(&self.statements.row_to_change, kind, key);
        let (_, row, moment) = try_join!(biased; self.begin(), row, self.moment())?;
        let (found, abandon) = rules::lookup(
            kind,
            fingerprint,
            row.as_ref().map(|entry| &entry.row),
            moment.now,
        );
        match row {
            Some(entry) if abandon => {
                self.write(kind, key, &entry.row.token, &Status::Abandoned)
                    .await?;
                self.commit().await?;
            }
            _ => self.end_reading(moment).await?,
        }
        Ok(found)
    }

    pub(crate) async fn epoch(&self) -> Result<Epoch> {
        let row = self.client.query_opt(&self.statements.epoch, &[]).await?;
        Ok(Epoch::from_bytes(bytes(&row.ok_or(Fault::Corrupt)?, 0)?))
    }
}
