//! A claim whose step is performed in the same transaction: what it goes by is looked at before the effect, and again,
//! and held, before the commit.

use mrtr_ledger::rules::{self, Row, Status, Write};
use mrtr_ledger::tally::Use;
use mrtr_ledger::{Claim, Claimed, Kind};
use mrtr_state::Timestamp;
use tokio::try_join;

use crate::books::{Books, ROUNDS, Result};
use crate::columns::present;
use crate::fault::Fault;
use crate::rows::New;

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

impl Books<'_> {
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
}
