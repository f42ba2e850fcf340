//! The ledger's face: operations become jobs of the writer's thread.

use std::any::Any;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use mrtr_ledger::{
    Claim, Claimed, Conclusion, Fingerprint, Found, Kept, Kind, Ledger, LedgerError, LedgerFuture,
    Note, Performed, Purged, RowKey, Rows, Settled, Settlement, Token, TransactionalLedger,
};
use mrtr_state::{Clock, Epoch};
use rusqlite::Connection;
use tokio::sync::{mpsc, oneshot};

use crate::books::Books;
use crate::effect;
use crate::fault::Fault;
use crate::inspect;
use crate::job::{Job, Task, job};
use crate::schema;
use crate::{Builder, OpenError, Stats, Verified};

/// A ledger in one SQLite file.
///
/// **Guaranteed**: an answer is given only after the commit that it rests on has been written through to the disk
/// (`synchronous = FULL`), so that what was acknowledged survives a crash of the process, and of the machine as far as
/// the disk keeps its word. Any number of processes on one machine may use the file. When the file is locked for too
/// long, full, read-only, damaged or gone there is no word, and never a `First`; the ledger finds its way back without
/// a restart when the file does.
///
/// **Not guaranteed**: anything on a network file system; anything after the file was restored or copied, unless the
/// epoch is rotated; privacy of what is stored, beyond the file's mode. See the [crate](crate).
///
/// All work happens on threads of the ledger's own (one for claims, one for the log), which end when the ledger is dropped.
/// It must be opened after a process has forked, not before.
pub struct SqliteLedger {
    path: PathBuf,
    wait: Duration,
    clock: Arc<dyn Clock>,
    retention: Duration,
    queue: mpsc::Sender<Task>,
}

impl SqliteLedger {
    /// The version of the files that this crate writes, SQLite's `user_version`. A file of an earlier version is brought up
    /// to it when it is opened, and is then refused by programs of the earlier one; a file of a later version is refused.
    pub const FILE_VERSION: i32 = schema::VERSION;

    /// Opens a file with the default settings, or creates it. It blocks; see [`Builder::open`].
    ///
    /// # Errors
    /// See [`OpenError`].
    pub fn open(path: impl AsRef<Path>) -> Result<Self, OpenError> {
        Self::builder(path).open()
    }

    /// Settings other than the default.
    pub fn builder(path: impl AsRef<Path>) -> Builder {
        Builder::new(path.as_ref())
    }

    pub(crate) fn new(
        path: PathBuf,
        wait: Duration,
        clock: Arc<dyn Clock>,
        retention: Duration,
        queue: mpsc::Sender<Task>,
    ) -> Self {
        Self {
            path,
            wait,
            clock,
            retention,
            queue,
        }
    }

    fn read<T: Send + 'static>(
        &self,
        work: impl Fn(&Books<'_>) -> Result<T, Fault> + Send + 'static,
    ) -> LedgerFuture<'_, T> {
        self.ask(Task::Read, work)
    }

    fn write<T: Send + 'static>(
        &self,
        work: impl Fn(&Books<'_>) -> Result<T, Fault> + Send + 'static,
    ) -> LedgerFuture<'_, T> {
        self.ask(Task::Write, work)
    }

    fn ask<T: Send + 'static>(
        &self,
        task: fn(Box<dyn Job>) -> Task,
        work: impl Fn(&Books<'_>) -> Result<T, Fault> + Send + 'static,
    ) -> LedgerFuture<'_, T> {
        Box::pin(async move {
            let (job, answer) = job(work);
            self.send(task(job)).await?;
            answer.await.unwrap_or(Err(LedgerError::Closed))
        })
    }

    /// Runs work of the author's own in a transaction on the ledger's connection: to make the tables that effects write
    /// to, say. `Ok` is committed, durably before this returns, and `Err` rolled back.
    ///
    /// What it may do is what an effect may do; see the [crate](crate#effects-in-the-same-file). It holds the lock on the
    /// file and every other operation of the ledger waits for it, so let it be short.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let folder = tempfile::tempdir()?;
    /// # let path = folder.path().join("ledger.sqlite");
    /// # let ledger = mrtr_ledger_sqlite::SqliteLedger::open(path)?;
    /// ledger
    ///     .transact(|db| {
    ///         db.execute_batch(
    ///             "CREATE TABLE IF NOT EXISTS payments (id INTEGER PRIMARY KEY, cents INTEGER NOT NULL) STRICT",
    ///         )
    ///     })
    ///     .await??;
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// The outer one: no word; the transaction may or may not have been committed. The inner one: what the work returned.
    ///
    /// # Panics
    /// If the work does, after everything was rolled back.
    pub async fn transact<T, E, F>(&self, work: F) -> Result<Result<T, E>, LedgerError>
    where
        T: Send + 'static,
        E: Send + 'static,
        F: FnOnce(&Connection) -> Result<T, E> + Send + 'static,
    {
        let (job, answer) = effect::set_up(work);
        self.send(Task::Write(job)).await?;
        match answer.await.unwrap_or(Err(LedgerError::Closed))? {
            Ok(came) => Ok(came),
            Err(panic) => std::panic::resume_unwind(panic),
        }
    }

    /// What the file holds, in numbers. It reads every row, on a thread of its own, and claims go on meanwhile.
    ///
    /// # Errors
    /// No word.
    pub async fn stats(&self) -> Result<Stats, LedgerError> {
        let (path, now, retention) = (self.path.clone(), self.clock.now(), self.retention);
        inspect::look(self.path.clone(), self.wait, move |snapshot| {
            inspect::stats(snapshot, &path, now, retention)
        })
        .await
    }

    /// Whether the file is what a ledger would have written: SQLite's own integrity check, the tables' forms, marks
    /// beside rows, and every count made anew.
    ///
    /// **Not found** is what leaves a file well-formed: rows that are missing because a backup was restored, say. It reads
    /// everything several times, on a thread of its own; claims go on meanwhile, and the log grows.
    ///
    /// # Errors
    /// No word: the file could not be read at all. What was read and is not in order is in the answer.
    pub async fn verify(&self) -> Result<Verified, LedgerError> {
        let (now, retention) = (self.clock.now(), self.retention);
        inspect::look(self.path.clone(), self.wait, move |snapshot| {
            inspect::verify(snapshot, now, retention)
        })
        .await
    }

    async fn send(&self, task: Task) -> Result<(), LedgerError> {
        self.queue.send(task).await.map_err(|_| LedgerError::Closed)
    }
}

impl Ledger for SqliteLedger {
    fn claim(&self, claim: Claim) -> LedgerFuture<'_, Claimed> {
        self.write(move |books| books.claim(&claim))
    }

    fn settle(
        &self,
        key: RowKey,
        token: Token,
        settlement: Settlement,
    ) -> LedgerFuture<'_, Settled> {
        self.write(move |books| books.settle(&key, &token, &settlement))
    }

    fn beat(&self, key: RowKey, token: Token, lease: Duration) -> LedgerFuture<'_, bool> {
        self.write(move |books| books.beat(&key, &token, lease))
    }

    fn release(&self, key: RowKey, token: Token) -> LedgerFuture<'_, bool> {
        self.write(move |books| books.release(&key, &token))
    }

    fn keep(&self, note: Note) -> LedgerFuture<'_, Kept> {
        self.write(move |books| books.keep(&note))
    }

    // Under the write lock: what it tells may withdraw a token.
    fn lookup(&self, kind: Kind, key: RowKey, fingerprint: Fingerprint) -> LedgerFuture<'_, Found> {
        self.write(move |books| books.lookup(kind, &key, &fingerprint))
    }

    fn purge(&self) -> LedgerFuture<'_, Purged> {
        Box::pin(async move {
            let (reply, answer) = oneshot::channel();
            self.send(Task::Purge(reply)).await?;
            answer.await.unwrap_or(Err(LedgerError::Closed))
        })
    }

    // Read anew each time: another process may have rotated it.
    fn epoch(&self) -> LedgerFuture<'_, Epoch> {
        self.read(|books| books.epoch())
    }

    fn rotate_epoch(&self) -> LedgerFuture<'_, Epoch> {
        self.write(|books| books.rotate_epoch())
    }

    // On a thread and connection of its own: a count reads every row, and claims do not wait for it.
    fn rows(&self) -> LedgerFuture<'_, Rows> {
        Box::pin(inspect::look(self.path.clone(), self.wait, inspect::rows))
    }

    fn survives_restart(&self) -> bool {
        true
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}

/// An effect runs on the ledger's thread, with the ledger's connection, in the transaction of its claim.
///
/// What it may not do there is refused by SQLite when a statement is prepared; see the
/// [crate](crate#effects-in-the-same-file).
impl TransactionalLedger for SqliteLedger {
    type Tx<'t> = Connection;
    type Work<'t, O: Send + 'static> = O;

    fn done<'t, O: Send + 'static>(outcome: O) -> Self::Work<'t, O> {
        outcome
    }

    fn perform<O, R, F, C>(
        &self,
        claim: Claim,
        effect: F,
        conclude: C,
    ) -> LedgerFuture<'_, Performed<R>>
    where
        O: Send + 'static,
        R: Send + 'static,
        F: for<'t> FnOnce(&'t Connection) -> O + Send + 'static,
        C: FnOnce(O) -> (Conclusion, R) + Send + 'static,
    {
        Box::pin(async move {
            let (job, answer) = effect::step(claim, effect, conclude);
            self.send(Task::Write(job)).await?;
            answer.await.unwrap_or(Err(LedgerError::Closed))
        })
    }
}

impl fmt::Debug for SqliteLedger {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SqliteLedger")
            .field("path", &self.path)
            .finish_non_exhaustive()
    }
}
