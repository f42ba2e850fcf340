//! Removing what may go, and excluding claims for the moment in which the mark is raised.

use std::time::Duration;

use mrtr_ledger::tally;
use mrtr_ledger::{Kind, Purged};
use mrtr_state::{Epoch, Timestamp};

use crate::books::{Books, Result};
use crate::columns::{int, number, signed, unsigned};
use crate::fault::{Blob, Fault};

/// How many rows go in one statement. Claims go on meanwhile: nothing that they want is held.
const BATCH: i64 = 1_000;

/// How long the gate's queue is joined at a time. Claims that come later wait behind whoever excludes them, so a claim
/// that waits long for its row must not make all others wait with it.
const PATIENCE: &str = "100ms";

/// Between two tries.
const PAUSE: Duration = Duration::from_millis(50);

/// How many tries there are: about five seconds.
const TRIES: usize = 35;

/// A change of what claims are decided by.
enum Change<'a> {
    Mark { kind: Kind, expiry: i64 },
    Epoch(&'a Epoch),
}

/// A purge of one kind, from batch to batch.
#[derive(Clone, Copy)]
pub(crate) struct Sweeping {
    kind: Kind,
    now: i64,
    from: i64,
    to: i64,
}

impl Books<'_> {
    /// Finds what may go and raises the mark over it. `None`: nothing may.
    pub(crate) async fn prepare_sweep(&self, kind: Kind) -> Result<Option<Sweeping>> {
        let now = int(self.moment().await?.now);
        // What expired before this may go: `expiry + retention < now`.
        let old = now.saturating_sub(self.policy.retention());
        let oldest = &self.statements.oldest;
        let last = self
            .client
            .query_opt(oldest, &[&number(kind), &old, &now])
            .await?;
        let Some(last) = last else {
            return Ok(None);
        };
        let to = last.try_get(0)?;
        self.change(&Change::Mark { kind, expiry: to }).await?;
        Ok(Some(Sweeping {
            kind,
            now,
            from: 0,
            to,
        }))
    }

    /// Removes a batch. `None`: it was the last one.
    pub(crate) async fn sweep(
        &self,
        sweeping: Sweeping,
        purged: &mut Purged,
    ) -> Result<Option<Sweeping>> {
        let Sweeping {
            kind,
            now,
            from,
            to,
        } = sweeping;
        let sweep = &self.statements.sweep;
        let row = self
            .client
            .query_one(sweep, &[&number(kind), &from, &to, &now, &BATCH])
            .await?;
        let gone: i64 = row.try_get(0)?;
        let count = match kind {
            Kind::Round => &mut purged.rounds,
            Kind::Step => &mut purged.steps,
            Kind::Note => &mut purged.notes,
        };
        *count += unsigned(gone);
        if gone < BATCH {
            return Ok(None);
        }
        // What was removed is still in the index until a vacuum; the next batch starts behind it.
        let from = row.try_get::<_, Option<i64>>(1)?.unwrap_or(from);
        Ok(Some(Sweeping { from, ..sweeping }))
    }

    /// Forgets a batch of counts that no claim reads any more, one retention late, in case the clock goes back. True:
    /// there may be more.
    pub(crate) async fn sweep_counts(&self) -> Result<bool> {
        let now = int(self.moment().await?.now);
        let old = Timestamp::from_millis(unsigned(now.saturating_sub(self.policy.retention())));
        let bucket = signed(tally::first_counted(old));
        let sweep = &self.statements.sweep_counts;
        let gone = self.client.execute(sweep, &[&bucket, &BATCH]).await?;
        Ok(gone >= unsigned(BATCH))
    }

    pub(crate) async fn rotate_epoch(&self) -> Result<Epoch> {
        let epoch = Epoch::generate()?;
        self.change(&Change::Epoch(&epoch)).await?;
        Ok(epoch)
    }

    /// Waits for the claims that are being decided, keeps others from starting, changes what they go by, and commits.
    async fn change(&self, change: &Change<'_>) -> Result<()> {
        let gate = format!(
            "BEGIN ISOLATION LEVEL READ COMMITTED; SET LOCAL lock_timeout = '{PATIENCE}'; \
             LOCK TABLE {}.gate IN EXCLUSIVE MODE",
            self.manner.texts.schema()
        );
        for _ in 0..TRIES {
            // The gate, or the row behind it, which an effect's commit may hold.
            let changed = async {
                self.client.batch_execute(&gate).await?;
                self.write_change(change).await
            };
            match changed.await {
                Ok(()) => return self.commit().await,
                Err(Fault::Busy) => {
                    self.roll_back().await?;
                    tokio::time::sleep(PAUSE).await;
                }
                Err(fault) => return Err(fault),
            }
        }
        Err(Fault::Busy)
    }

    async fn write_change(&self, change: &Change<'_>) -> Result<()> {
        let (client, statements) = (self.client, self.statements);
        let changed = match change {
            Change::Mark { kind, expiry } => {
                client
                    .execute(&statements.raise, &[&number(*kind), expiry])
                    .await?
            }
            Change::Epoch(epoch) => {
                client
                    .execute(&statements.rotate, &[&Blob(epoch.as_bytes())])
                    .await?
            }
        };
        if changed == 1 {
            Ok(())
        } else {
            Err(Fault::Corrupt)
        }
    }
}
