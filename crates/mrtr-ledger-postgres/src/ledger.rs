//! The ledger's face: each operation is a task of its own, tried again while that may help.

use std::any::Any;
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use mrtr_ledger::{
    Claim, Claimed, Fingerprint, Found, Kept, Kind, Ledger, LedgerError, LedgerFuture, Note,
    Purged, RowKey, Rows, Settled, Settlement, Token,
};
use mrtr_state::Epoch;
use tokio::time::{Instant, sleep, timeout};
use tokio_postgres::Config;

use crate::books::{Books, Policy};
use crate::fault::Fault;
use crate::pool::{Lent, Pool};
use crate::{Builder, OpenError, Stats, Verified, metrics};

/// Between two attempts, at first and at last.
pub(crate) const PAUSE: (Duration, Duration) =
    (Duration::from_millis(5), Duration::from_millis(200));

/// After how many rows that this process added it purges, so that a ledger on which nobody calls `purge` stays bounded.
const ROWS_PER_PURGE: u64 = 1_000;

/// What an operation does with a connection. It may be called several times.
pub(crate) type Work<'a, T> = Pin<Box<dyn Future<Output = Result<T, Fault>> + Send + 'a>>;

/// A ledger in a PostgreSQL database.
///
/// **Guaranteed**: an answer is given only after the commit that it rests on is durable on the server, and on the
/// standbys that it waits for. Any number of processes on any number of machines may use one database; one statement or
/// transaction decides each claim. When the server is busy, full, read-only or gone there is no word, and never a
/// `First`; connections that fail are replaced, and nothing needs a restart.
///
/// **Not guaranteed**: anything after a failover to a server that had not all that was acknowledged, or after a restore,
/// unless the epoch is rotated (which the ledger does by itself where it can tell); privacy of what is stored from those
/// who may read the database. See the [crate](crate).
///
/// It is used within a tokio runtime with I/O and time. An operation whose future is dropped is carried to its end.
pub struct PostgresLedger {
    inner: Arc<Inner>,
}

pub(crate) struct Inner {
    pub(crate) pool: Arc<Pool>,
    pub(crate) policy: Policy,
    added: AtomicU64,
    purging: AtomicBool,
    purge_is_due: AtomicBool,
}

impl PostgresLedger {
    /// Opens the database that a connection string names (`host=db user=pay dbname=pay`, or a URL) with the default
    /// settings, without TLS.
    ///
    /// # Errors
    /// See [`OpenError`].
    pub async fn open(connection: &str) -> Result<Self, OpenError> {
        Self::builder(connection.parse()?).open().await
    }

    /// Settings other than the default.
    pub fn builder(config: Config) -> Builder {
        Builder::new(config)
    }

    /// What the tables hold, in numbers. It reads every row, on one snapshot; claims go on meanwhile.
    ///
    /// # Errors
    /// No word.
    pub async fn stats(&self) -> Result<Stats, LedgerError> {
        let inner = Arc::clone(&self.inner);
        carried(async move { inner.stats().await }).await
    }

    /// Whether the tables are what a ledger would have written: their forms, marks beside rows, and every count made
    /// anew.
    ///
    /// **Not found** is what leaves tables well-formed: rows that are missing because a backup was restored, say; nor what
    /// only PostgreSQL can see (`pg_amcheck` looks for that). It reads everything several times, on one snapshot; claims go
    /// on meanwhile, and dead rows cannot be cleared away until it ends.
    ///
    /// # Errors
    /// No word. What was read and is not in order is in the answer.
    pub async fn verify(&self) -> Result<Verified, LedgerError> {
        let inner = Arc::clone(&self.inner);
        carried(async move { inner.verify().await }).await
    }

    pub(crate) fn new(pool: Arc<Pool>, policy: Policy) -> Self {
        let inner = Inner {
            pool,
            policy,
            added: AtomicU64::new(0),
            purging: AtomicBool::new(false),
            purge_is_due: AtomicBool::new(false),
        };
        Self {
            inner: Arc::new(inner),
        }
    }

    pub(crate) fn inner(&self) -> &Arc<Inner> {
        &self.inner
    }

    fn ask<T, W>(&self, work: W) -> LedgerFuture<'_, T>
    where
        T: Send + 'static,
        W: for<'a> Fn(&'a Books<'a>) -> Work<'a, T> + Send + Sync + 'static,
    {
        let inner = Arc::clone(&self.inner);
        carried(async move { inner.attempt(work).await })
    }
}

/// In a task of its own: a caller that goes away must not leave half an operation on a connection.
pub(crate) fn carried<T: Send + 'static>(
    work: impl Future<Output = Result<T, Fault>> + Send + 'static,
) -> LedgerFuture<'static, T> {
    Box::pin(async move {
        let ended = tokio::spawn(work).await;
        let answer = ended.unwrap_or_else(|cut| Err(Fault::Cut(Box::new(cut))));
        answer.map_err(|fault| {
            tracing::warn!(fault = %Causes(&fault), "the ledger gives no word");
            LedgerError::from(fault)
        })
    })
}

impl Inner {
    /// Tries until there is a word or the time is over.
    pub(crate) async fn attempt<T, W>(self: &Arc<Self>, work: W) -> Result<T, Fault>
    where
        W: for<'a> Fn(&'a Books<'a>) -> Work<'a, T>,
    {
        // The server gives up after `wait`; a server that is not heard of any more does not.
        let longest = self.pool.manner.wait + Duration::from_secs(1);
        self.attempt_for(longest, work).await
    }

    /// The same, where one attempt may take longer than there is time to begin another.
    pub(crate) async fn attempt_for<T, W>(
        self: &Arc<Self>,
        longest: Duration,
        work: W,
    ) -> Result<T, Fault>
    where
        W: for<'a> Fn(&'a Books<'a>) -> Work<'a, T>,
    {
        let until = Instant::now() + self.pool.manner.wait;
        let mut pause = PAUSE.0;
        loop {
            let fault = match self.pool.lend(until).await {
                Ok(lent) => match self.once(lent, longest, &work).await {
                    Ok(value) => return Ok(value),
                    Err(fault) => fault,
                },
                Err(fault) => fault,
            };
            metrics::failed(&fault);
            if !fault.is_passing() || Instant::now() + pause >= until {
                return Err(fault);
            }
            tracing::debug!(fault = %Causes(&fault), "trying again");
            sleep(pause).await;
            pause = (pause * 2).min(PAUSE.1);
        }
    }

    async fn once<T, W>(&self, mut lent: Lent, longest: Duration, work: &W) -> Result<T, Fault>
    where
        W: for<'a> Fn(&'a Books<'a>) -> Work<'a, T>,
    {
        let Some(session) = lent.session() else {
            return Err(Fault::Busy);
        };
        let books = Books {
            client: &session.client,
            statements: &session.statements,
            policy: &self.policy,
            manner: &self.pool.manner,
        };
        let start = Instant::now();
        let result = match timeout(longest, work(&books)).await {
            Ok(result) => result,
            Err(elapsed) => return Err(Fault::Disconnected(Box::new(elapsed))),
        };
        match result {
            Ok(value) => {
                session.warnings.vouch()?;
                metrics::done(start.elapsed());
                lent.give_back();
                Ok(value)
            }
            Err(fault) => {
                // A connection on which the server has said what is wrong is as good as before, once nothing is open.
                let spoke = matches!(fault, Fault::Busy | Fault::TakenBack(_) | Fault::Full);
                if spoke
                    && timeout(PAUSE.1, books.roll_back())
                        .await
                        .is_ok_and(|ended| ended.is_ok())
                {
                    lent.give_back();
                }
                Err(fault)
            }
        }
    }

    /// Removes what may go. Each batch is an operation of its own, so that it takes its turn among the others.
    pub(crate) async fn purge(self: &Arc<Self>) -> Result<Purged, Fault> {
        let mut purged = Purged::default();
        for kind in [Kind::Round, Kind::Step, Kind::Note] {
            let mut next = self
                .attempt(move |books| Box::pin(books.prepare_sweep(kind)))
                .await?;
            while let Some(sweeping) = next {
                let step = self.attempt(move |books| {
                    Box::pin(async move {
                        let mut gone = Purged::default();
                        Ok((books.sweep(sweeping, &mut gone).await?, gone))
                    })
                });
                let (more, gone) = step.await?;
                metrics::purged(&gone);
                purged.rounds += gone.rounds;
                purged.steps += gone.steps;
                purged.notes += gone.notes;
                next = more;
            }
        }
        while self.attempt(|books| Box::pin(books.sweep_counts())).await? {}
        Ok(purged)
    }

    /// What this process adds pays for what may go.
    pub(crate) fn added(self: &Arc<Self>) {
        let added = self.added.fetch_add(1, Ordering::Relaxed) + 1;
        if !added.is_multiple_of(ROWS_PER_PURGE) {
            return;
        }
        self.purge_is_due.store(true, Ordering::SeqCst);
        if self.purging.swap(true, Ordering::SeqCst) {
            return;
        }
        let inner = Arc::clone(self);
        tokio::spawn(async move {
            loop {
                while inner.purge_is_due.swap(false, Ordering::SeqCst) {
                    if let Err(fault) = inner.purge().await {
                        tracing::warn!(fault = %Causes(&fault), "the ledger could not be purged");
                    }
                }
                inner.purging.store(false, Ordering::SeqCst);
                // One that became due in between found this one still at work.
                if !inner.purge_is_due.load(Ordering::SeqCst)
                    || inner.purging.swap(true, Ordering::SeqCst)
                {
                    return;
                }
            }
        });
    }
}

impl Ledger for PostgresLedger {
    fn claim(&self, claim: Claim) -> LedgerFuture<'_, Claimed> {
        let inner = Arc::clone(&self.inner);
        carried(async move {
            let claimed = inner
                .attempt(move |books| {
                    let claim = claim.clone();
                    Box::pin(async move { books.claim(&claim).await })
                })
                .await?;
            if claimed == Claimed::First {
                inner.added();
            }
            Ok(claimed)
        })
    }

    fn settle(
        &self,
        key: RowKey,
        token: Token,
        settlement: Settlement,
    ) -> LedgerFuture<'_, Settled> {
        let settlement = Arc::new(settlement);
        self.ask(move |books| {
            let settlement = Arc::clone(&settlement);
            Box::pin(async move { books.settle(&key, &token, &settlement).await })
        })
    }

    fn beat(&self, key: RowKey, token: Token, lease: Duration) -> LedgerFuture<'_, bool> {
        self.ask(move |books| Box::pin(async move { books.beat(&key, &token, lease).await }))
    }

    fn release(&self, key: RowKey, token: Token) -> LedgerFuture<'_, bool> {
        self.ask(move |books| Box::pin(async move { books.release(&key, &token).await }))
    }

    fn keep(&self, note: Note) -> LedgerFuture<'_, Kept> {
        let (inner, note) = (Arc::clone(&self.inner), Arc::new(note));
        carried(async move {
            let kept = inner
                .attempt(move |books| {
                    let note = Arc::clone(&note);
                    Box::pin(async move { books.keep(&note).await })
                })
                .await?;
            if kept == Kept::Stored {
                inner.added();
            }
            Ok(kept)
        })
    }

    fn lookup(&self, kind: Kind, key: RowKey, fingerprint: Fingerprint) -> LedgerFuture<'_, Found> {
        self.ask(move |books| Box::pin(async move { books.lookup(kind, &key, &fingerprint).await }))
    }

    fn purge(&self) -> LedgerFuture<'_, Purged> {
        let inner = Arc::clone(&self.inner);
        carried(async move { inner.purge().await })
    }

    // Read anew each time: another process may have rotated it.
    fn epoch(&self) -> LedgerFuture<'_, Epoch> {
        self.ask(|books| Box::pin(books.epoch()))
    }

    fn rotate_epoch(&self) -> LedgerFuture<'_, Epoch> {
        self.ask(|books| Box::pin(books.rotate_epoch()))
    }

    fn rows(&self) -> LedgerFuture<'_, Rows> {
        let inner = Arc::clone(&self.inner);
        carried(async move { inner.rows().await })
    }

    fn survives_restart(&self) -> bool {
        true
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}

impl fmt::Debug for PostgresLedger {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PostgresLedger")
            .field("pool", &self.inner.pool)
            .finish_non_exhaustive()
    }
}

/// An error and what it came from, in one line.
pub(crate) struct Causes<'a>(pub(crate) &'a (dyn std::error::Error + 'static));

impl fmt::Display for Causes<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)?;
        let mut cause = self.0.source();
        while let Some(error) = cause {
            write!(f, ": {error}")?;
            cause = error.source();
        }
        Ok(())
    }
}
