//! The one thread that writes: it commits together what waits together, and answers only after the commit.

use std::collections::VecDeque;

use mrtr_ledger::{Kind, LedgerError, Purged};
use rusqlite::Connection;
use tokio::sync::{mpsc, oneshot};

use crate::books::{Books, Policy};
use crate::fault::Fault;
use crate::job::{Job, Task};
use crate::storage::Storage;

/// How many operations share a commit at most. More would make the first of them wait for the last.
const BATCH: usize = 512;

/// How many rows of a kind a purge removes in one transaction, between which claims go on.
const PURGE_BATCH: usize = 500;

/// How many rows of a kind a batch removes in passing for each row that it adds, so that a ledger on which nobody
/// calls `purge` stays bounded.
const SWEPT_PER_ROW: usize = 2;

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

    /// One transaction for all of them, and another one for those that an effect has taken along in its fall.
    fn commit(&mut self, mut jobs: Vec<Box<dyn Job>>) {
        while !jobs.is_empty() {
            jobs = self.commit_once(jobs);
        }
    }

    /// An operation that fails on its own account is taken back alone; if the transaction fails nobody has had a word.
    /// Returns what is to be tried again.
    fn commit_once(&mut self, jobs: Vec<Box<dyn Job>>) -> Vec<Box<dyn Job>> {
        let mut done: Vec<Box<dyn Job>> = Vec::with_capacity(jobs.len());
        let mut rest = jobs.into_iter();
        let fate = self.storage.transact(&self.policy, |connection, books| {
            for mut job in rest.by_ref() {
                let result = books
                    .control("SAVEPOINT mrtr_operation")
                    .and_then(|()| job.run(books));
                match result {
                    Ok(()) => done.push(job),
                    Err(fault) if fault.concerns_one() && take_back(connection, books) => {
                        job.answer(Err(fault));
                    }
                    Err(fault) => {
                        done.push(job);
                        return Err(fault);
                    }
                }
                books.control("RELEASE mrtr_operation")?;
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
        let effects = done.iter().any(|job| job.has_run());
        if let Err(fault) = &fate
            && effects
            && (matches!(fault, Fault::Ended) || fault.concerns_one())
        {
            // An effect has ended the transaction, or left something in it that SQLite refuses to commit (a deferred
            // foreign key, say). The operations that were rolled back with it go again without it.
            let (gone, again): (Vec<_>, Vec<_>) = done.into_iter().partition(|job| job.has_run());
            for job in gone {
                job.answer(fate.clone());
            }
            return again.into_iter().chain(rest).collect();
        }
        for job in done.into_iter().chain(rest) {
            job.answer(fate.clone());
        }
        Vec::new()
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

/// Whether what the operation did is undone, and the transaction still there for the others.
fn take_back(connection: &Connection, books: &Books<'_>) -> bool {
    books.forget();
    !connection.is_autocommit() && books.control("ROLLBACK TO mrtr_operation").is_ok()
}

#[cfg(test)]
mod tests;
