//! The one thread that writes: it commits together what waits together, and answers only after the commit.

use std::collections::VecDeque;
use std::path::PathBuf;
use std::time::Duration;

use mrtr_ledger::{Kind, LedgerError, Purged};
use mrtr_state::Epoch;
use rusqlite::Connection;
use tokio::sync::{mpsc, oneshot};

use crate::OpenError;
use crate::books::{Books, Policy};
use crate::fault::Fault;
use crate::file::{self, Identity};
use crate::schema::{self, Patience};

/// How many operations share a commit at most. More would make the first of them wait for the last.
const BATCH: usize = 512;

/// How many rows of a kind a purge removes in one transaction, between which claims go on.
const PURGE_BATCH: usize = 500;

/// How many rows of a kind a batch removes in passing for each row that it adds, so that a ledger on which nobody
/// calls `purge` stays bounded.
const SWEPT_PER_ROW: usize = 2;

/// What the thread is sent.
pub(crate) enum Task {
    /// Reads one value; it waits for no lock.
    Read(Box<dyn Job>),
    /// Reads and writes under the write lock.
    Write(Box<dyn Job>),
    /// Removes what may go, in as many transactions as it takes.
    Purge(oneshot::Sender<Result<Purged, LedgerError>>),
}

/// An operation, and whoever waits for its answer.
pub(crate) trait Job: Send {
    /// Does it, and keeps the answer.
    fn run(&mut self, books: &Books<'_>) -> Result<(), Fault>;
    /// Gives the answer, once it is durable, or says that there is none.
    fn answer(self: Box<Self>, fate: Result<(), Fault>);
}

struct Asked<T, F> {
    work: F,
    value: Option<T>,
    reply: oneshot::Sender<Result<T, LedgerError>>,
}

impl<T, F> Job for Asked<T, F>
where
    T: Send,
    F: Fn(&Books<'_>) -> Result<T, Fault> + Send,
{
    fn run(&mut self, books: &Books<'_>) -> Result<(), Fault> {
        self.value = Some((self.work)(books)?);
        Ok(())
    }

    fn answer(self: Box<Self>, fate: Result<(), Fault>) {
        let answer = match (fate, self.value) {
            (Ok(()), Some(value)) => Ok(value),
            (Ok(()), None) => Err(LedgerError::Closed),
            (Err(fault), _) => Err(fault.into()),
        };
        // Whoever asked may have gone. What was committed stays so.
        _ = self.reply.send(answer);
    }
}

/// An operation to send to the thread, and where its answer arrives.
pub(crate) fn job<T, F>(work: F) -> (Box<dyn Job>, oneshot::Receiver<Result<T, LedgerError>>)
where
    T: Send + 'static,
    F: Fn(&Books<'_>) -> Result<T, Fault> + Send + 'static,
{
    let (reply, answer) = oneshot::channel();
    (
        Box::new(Asked {
            work,
            value: None,
            reply,
        }),
        answer,
    )
}

/// The thread's state.
pub(crate) struct Writer {
    policy: Policy,
    storage: Storage,
    purges: VecDeque<Purging>,
}

struct Purging {
    purged: Purged,
    reply: oneshot::Sender<Result<Purged, LedgerError>>,
}

impl Writer {
    pub(crate) fn new(policy: Policy, storage: Storage) -> Self {
        Self {
            policy,
            storage,
            purges: VecDeque::new(),
        }
    }

    /// Runs until the ledger is dropped.
    pub(crate) fn run(mut self, mut queue: mpsc::Receiver<Task>) {
        loop {
            // While a purge has batches left, nothing is waited for.
            let first = if self.purges.is_empty() {
                match queue.blocking_recv() {
                    Some(task) => Some(task),
                    None => return,
                }
            } else {
                match queue.try_recv() {
                    Ok(task) => Some(task),
                    Err(mpsc::error::TryRecvError::Empty) => None,
                    Err(mpsc::error::TryRecvError::Disconnected) => return,
                }
            };
            let waiting = first
                .into_iter()
                .chain(std::iter::from_fn(|| queue.try_recv().ok()))
                .take(BATCH);
            let mut jobs = Vec::new();
            let mut writes = false;
            for task in waiting {
                match task {
                    Task::Read(job) => jobs.push(job),
                    Task::Write(job) => {
                        writes = true;
                        jobs.push(job);
                    }
                    Task::Purge(reply) => self.purges.push_back(Purging {
                        purged: Purged::default(),
                        reply,
                    }),
                }
            }
            if writes {
                self.commit(jobs);
            } else {
                self.read(jobs);
            }
            self.purge_some();
        }
    }

    fn read(&mut self, jobs: Vec<Box<dyn Job>>) {
        for mut job in jobs {
            let fate = self.storage.read(&self.policy, |books| job.run(books));
            job.answer(fate);
        }
    }

    /// One transaction for all of them. An operation that fails on its own account is taken back alone; if the
    /// transaction fails nobody has had a word.
    fn commit(&mut self, jobs: Vec<Box<dyn Job>>) {
        let mut done: Vec<Box<dyn Job>> = Vec::with_capacity(jobs.len());
        let mut rest = jobs.into_iter();
        let fate = self.storage.transact(&self.policy, |connection, books| {
            for mut job in rest.by_ref() {
                let result = run(connection, "SAVEPOINT operation").and_then(|()| job.run(books));
                match result {
                    Ok(()) => done.push(job),
                    Err(fault) if fault.concerns_one() && take_back(connection) => {
                        books.forget();
                        job.answer(Err(fault));
                    }
                    Err(fault) => {
                        done.push(job);
                        return Err(fault);
                    }
                }
                run(connection, "RELEASE operation")?;
            }
            // What a claim added pays for what may go. A settlement removes nothing, least of all its own row.
            let most = books.added().saturating_mul(SWEPT_PER_ROW);
            if most > 0 {
                books.sweep(Kind::Round, most)?;
                books.sweep(Kind::Step, most)?;
                books.sweep(Kind::Note, most)?;
                books.sweep_counts(most)?;
            }
            Ok(())
        });
        if let Err(fault) = &fate {
            tracing::warn!(operations = done.len(), %fault, "the ledger gives no word");
        } else {
            tracing::trace!(operations = done.len(), "committed");
        }
        for job in done.into_iter().chain(rest) {
            job.answer(fate.clone());
        }
    }

    /// One batch of the first purge that waits.
    fn purge_some(&mut self) {
        let Some(mut purge) = self.purges.pop_front() else {
            return;
        };
        let swept = self.storage.transact(&self.policy, |_, books| {
            let rounds = books.sweep(Kind::Round, PURGE_BATCH)?;
            let steps = books.sweep(Kind::Step, PURGE_BATCH)?;
            let notes = books.sweep(Kind::Note, PURGE_BATCH)?;
            let counts = books.sweep_counts(PURGE_BATCH)?;
            Ok((rounds, steps, notes, counts))
        });
        match swept {
            Ok((rounds, steps, notes, counts)) => {
                purge.purged.rounds += rounds;
                purge.purged.steps += steps;
                purge.purged.notes += notes;
                if rounds.max(steps).max(notes).max(counts) >= PURGE_BATCH as u64 {
                    self.purges.push_front(purge);
                } else {
                    _ = purge.reply.send(Ok(purge.purged));
                }
            }
            Err(fault) => {
                tracing::warn!(%fault, "the ledger could not be purged");
                _ = purge.reply.send(Err(fault.into()));
            }
        }
    }
}

/// The file as long as it is what it was, and a new look at it when it is not.
pub(crate) struct Storage {
    path: PathBuf,
    wait: Duration,
    open: Option<Open>,
    /// The file that was open last, and its epoch.
    known: Option<(Identity, Epoch)>,
    /// The log was taken away while the file was open, and with it perhaps what was acknowledged.
    lost_its_log: bool,
}

struct Open {
    connection: Connection,
    identity: Identity,
}

impl Storage {
    /// Opens the file, creating it if there is none.
    pub(crate) fn create(
        path: PathBuf,
        wait: Duration,
        policy: &Policy,
    ) -> Result<Self, OpenError> {
        let mut storage = Self {
            path,
            wait,
            open: None,
            known: None,
            lost_its_log: false,
        };
        {
            let _opening = file::opening();
            file::create(&storage.path)?;
            storage.connect()?;
        }
        storage
            .adopt(policy)
            .map_err(|fault| OpenError::Ledger(fault.into()))?;
        Ok(storage)
    }

    fn read<T>(
        &mut self,
        policy: &Policy,
        mut work: impl FnMut(&Books<'_>) -> Result<T, Fault>,
    ) -> Result<T, Fault> {
        let wait = self.wait;
        let connection = self.connection(policy)?;
        let result = Patience::new(wait).retry(|| work(&Books::new(connection, policy)));
        self.keep_if_good(result)
    }

    /// Runs `work` under the write lock and commits. `Ok` says that the commit is durable, in the file that others see
    /// under the same name.
    fn transact<T>(
        &mut self,
        policy: &Policy,
        work: impl FnOnce(&Connection, &Books<'_>) -> Result<T, Fault>,
    ) -> Result<T, Fault> {
        let wait = self.wait;
        let connection = self.connection(policy)?;
        let result = transact(connection, wait, policy, work);
        let result = result.and_then(|value| {
            if self.is_in_place() {
                Ok(value)
            } else {
                Err(Fault::Vanished)
            }
        });
        self.keep_if_good(result)
    }

    fn connection(&mut self, policy: &Policy) -> Result<&Connection, Fault> {
        if !self.is_in_place() {
            // Closing does not touch what has come under the file's name: SQLite looks whether it was moved.
            self.open = None;
            {
                let _opening = file::opening();
                self.connect()?;
            }
            let adopted = self.adopt(policy);
            self.keep_if_good(adopted)?;
        }
        self.open
            .as_ref()
            .map(|open| &open.connection)
            .ok_or(Fault::Vanished)
    }

    fn connect(&mut self) -> Result<(), OpenError> {
        let connection = schema::connect(&self.path, self.wait)?;
        let identity = Identity::of(&self.path)?;
        self.open = Some(Open {
            connection,
            identity,
        });
        Ok(())
    }

    /// Takes note of what was opened. Another file with the epoch of the one before is a copy of it: an older state of
    /// the ledger, or one that will go on without the original. And a file whose log was taken away may have forgotten
    /// what was acknowledged. Either way the flows that are open must not be claimed, so they get a stale epoch.
    fn adopt(&mut self, policy: &Policy) -> Result<(), Fault> {
        let Some(Open {
            connection,
            identity,
        }) = &self.open
        else {
            return Err(Fault::Vanished);
        };
        let mut epoch =
            Patience::new(self.wait).retry(|| Books::new(connection, policy).epoch())?;
        let is_copy = self
            .known
            .is_some_and(|(known, before)| before == epoch && !known.is_same_file(*identity));
        if is_copy || self.lost_its_log {
            tracing::warn!(
                is_copy,
                self.lost_its_log,
                "the ledger's file is not what it was; rotating its epoch"
            );
            epoch = transact(connection, self.wait, policy, |_, books| {
                books.rotate_epoch()
            })?;
        }
        self.lost_its_log = false;
        self.known = Some((*identity, epoch));
        Ok(())
    }

    fn is_in_place(&mut self) -> bool {
        let Some(open) = &mut self.open else {
            return false;
        };
        let Ok(now) = Identity::of(&self.path) else {
            return false;
        };
        if !open.identity.is_same_file(now) {
            return false;
        }
        if !open.identity.keeps_its_log(now) {
            self.lost_its_log = true;
            return false;
        }
        open.identity = now;
        true
    }

    /// Another look at the file may help where the connection has failed.
    fn keep_if_good<T>(&mut self, result: Result<T, Fault>) -> Result<T, Fault> {
        if let Err(fault) = &result
            && !fault.is_passing()
        {
            self.open = None;
        }
        result
    }
}

fn transact<T>(
    connection: &Connection,
    wait: Duration,
    policy: &Policy,
    work: impl FnOnce(&Connection, &Books<'_>) -> Result<T, Fault>,
) -> Result<T, Fault> {
    // IMMEDIATE: a transaction that reads first and then asks for the lock can be refused in a way that no waiting cures.
    Patience::new(wait).retry(|| run(connection, "BEGIN IMMEDIATE"))?;
    let result = work(connection, &Books::new(connection, policy)).and_then(|value| {
        Patience::new(wait)
            .retry(|| run(connection, "COMMIT"))
            .map(|()| value)
    });
    if result.is_err() && !connection.is_autocommit() {
        // If this fails too, closing the connection will do it.
        run(connection, "ROLLBACK").map_err(|_| Fault::Corrupt)?;
    }
    result
}

/// Whether what the operation did is undone, and the transaction still there for the others.
fn take_back(connection: &Connection) -> bool {
    !connection.is_autocommit() && run(connection, "ROLLBACK TO operation").is_ok()
}

fn run(connection: &Connection, sql: &'static str) -> Result<(), Fault> {
    connection.prepare_cached(sql)?.execute([])?;
    Ok(())
}

#[cfg(test)]
mod tests;
