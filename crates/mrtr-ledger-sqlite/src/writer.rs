//! The one thread that writes: it commits together what waits together, and answers only after the commit.

use std::collections::VecDeque;
use std::time::Instant;

use mrtr_ledger::{Kind, LedgerError, Purged};
use rusqlite::Connection;
use tokio::sync::{mpsc, oneshot};

use crate::books::{Books, Policy, Portion};
use crate::fault::Fault;
use crate::intake::Intake;
use crate::job::{Job, Task};
use crate::metrics;
use crate::storage::Storage;

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
    pub(crate) fn run(mut self, queue: mpsc::Receiver<Task>) {
        let mut intake = Intake::new(queue);
        // While a purge has something left to do, nothing is waited for.
        while let Some(tasks) = intake.next(self.purges.is_empty()) {
            let portion = if tasks.is_empty() {
                Portion::Large
            } else {
                Portion::Middle
            };
            let mut jobs = Vec::with_capacity(tasks.len());
            let mut writes = false;
            for task in tasks {
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
            self.purge_some(portion);
            self.storage.look_after_the_log();
        }
    }

    fn read(&mut self, jobs: Vec<Box<dyn Job>>) {
        for mut job in jobs {
            let fate = self.storage.read(&self.policy, |books| job.run(books));
            job.answer(fate);
        }
    }

    /// One transaction for all of them. If it fails, nobody has had a word.
    fn commit(&mut self, mut jobs: Vec<Box<dyn Job>>) {
        // An operation hardly ever fails on its own account, so that it is not worth a savepoint for each. Only what cannot
        // be done again must not be taken back with the others.
        let mut alone = jobs.iter().any(|job| job.is_effect());
        while !jobs.is_empty() {
            jobs = self.commit_once(jobs, alone);
            alone = true;
        }
    }

    /// Returns what is to be tried again. With `alone`, what fails on its own account is taken back alone.
    fn commit_once(&mut self, jobs: Vec<Box<dyn Job>>, alone: bool) -> Vec<Box<dyn Job>> {
        let mut done: Vec<Box<dyn Job>> = Vec::with_capacity(jobs.len());
        let mut rest = jobs.into_iter();
        let start = Instant::now();
        let fate = self.storage.transact(&self.policy, |connection, books| {
            for mut job in rest.by_ref() {
                let result = if alone {
                    run_alone(&mut *job, books)
                } else {
                    job.run(books)
                };
                match result {
                    Ok(()) => done.push(job),
                    Err(fault) if alone && fault.concerns_one() && take_back(connection, books) => {
                        job.answer(Err(fault));
                    }
                    Err(fault) => {
                        done.push(job);
                        return Err(fault);
                    }
                }
            }
            books.pay()
        });
        if let Err(fault) = &fate {
            // An effect has ended the transaction, or left something in it that SQLite refuses to commit (a deferred
            // foreign key, say): the operations that were rolled back with it go again without it. Or one operation has
            // failed on its own account, and nobody knows whether the others would.
            let effects = matches!(fault, Fault::Ended) || fault.concerns_one();
            let again = effects && (!alone || done.iter().any(|job| job.has_run()));
            metrics::failed(fault);
            tracing::warn!(operations = done.len(), again, %fault, "a commit of the ledger has failed");
            if again {
                let (gone, again): (Vec<_>, Vec<_>) =
                    done.into_iter().partition(|job| job.has_run());
                for job in gone {
                    job.answer(fate.clone());
                }
                return again.into_iter().chain(rest).collect();
            }
        } else {
            metrics::committed(done.len(), start.elapsed());
        }
        for job in done.into_iter().chain(rest) {
            job.answer(fate.clone());
        }
        Vec::new()
    }

    /// A portion for the first purge that waits.
    fn purge_some(&mut self, portion: Portion) {
        let Some(mut purge) = self.purges.pop_front() else {
            return;
        };
        let swept = self.storage.transact(&self.policy, |_, books| {
            let rounds = books.sweep(Kind::Round, portion)?;
            let steps = books.sweep(Kind::Step, portion)?;
            let notes = books.sweep(Kind::Note, portion)?;
            let counts = books.sweep_counts(portion)?;
            Ok((rounds, steps, notes, counts))
        });
        match swept {
            Ok((rounds, steps, notes, counts)) => {
                purge.purged.rounds += rounds;
                purge.purged.steps += steps;
                purge.purged.notes += notes;
                metrics::purged(rounds, steps, notes);
                if rounds.max(steps).max(notes).max(counts) >= portion.rows() {
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

/// Runs an operation so that it can be taken back.
fn run_alone(job: &mut dyn Job, books: &Books<'_>) -> Result<(), Fault> {
    books.control("SAVEPOINT mrtr_operation")?;
    job.run(books)?;
    // Counts that wait to be written would not be taken back with the rest.
    books.write_counts()?;
    books.control("RELEASE mrtr_operation")
}

/// Whether what the operation did is undone, and the transaction still there for the others.
fn take_back(connection: &Connection, books: &Books<'_>) -> bool {
    books.forget();
    !connection.is_autocommit()
        && books.control("ROLLBACK TO mrtr_operation").is_ok()
        && books.control("RELEASE mrtr_operation").is_ok()
}

#[cfg(test)]
#[cfg(target_os = "linux")]
mod power;
#[cfg(test)]
mod tests;
