//! The file behind the ledger: opened, watched, opened again when it is not what it was.

use std::path::PathBuf;
use std::time::Duration;

use mrtr_state::Epoch;
use rusqlite::Connection;

use crate::OpenError;
use crate::books::{Books, Policy};
use crate::checkpoint::Checkpoints;
use crate::fault::Fault;
use crate::file::{self, Identity};
use crate::known::Known;
use crate::schema::{self, Patience};

/// The file as long as it is what it was, and a new look at it when it is not.
pub(crate) struct Storage {
    path: PathBuf,
    wait: Duration,
    pub(crate) open: Option<Open>,
    /// The file that was open last, and its epoch.
    known: Option<(Identity, Epoch)>,
    /// The log was taken away while the file was open, and with it perhaps what was acknowledged.
    lost_its_log: bool,
}

pub(crate) struct Open {
    // First, so that it ends before the connection is closed.
    pub(crate) checkpoints: Checkpoints,
    pub(crate) connection: Connection,
    known: Known,
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
            storage.connect(policy)?;
        }
        storage
            .adopt(policy)
            .map_err(|fault| OpenError::Ledger(fault.into()))?;
        Ok(storage)
    }

    pub(crate) fn read<T>(
        &mut self,
        policy: &Policy,
        mut work: impl FnMut(&Books<'_>) -> Result<T, Fault>,
    ) -> Result<T, Fault> {
        let wait = self.wait;
        let connection = self.connection(policy)?;
        let result =
            Patience::new(wait).retry(|| work(&Books::new(connection, policy, &Known::default())));
        self.keep_if_good(result)
    }

    /// Runs `work` under the write lock and commits. `Ok` says that the commit is durable, in the file that others see
    /// under the same name.
    pub(crate) fn transact<T>(
        &mut self,
        policy: &Policy,
        work: impl FnOnce(&Connection, &Books<'_>) -> Result<T, Fault>,
    ) -> Result<T, Fault> {
        let wait = self.wait;
        self.connection(policy)?;
        let open = self.open.as_ref().ok_or(Fault::Vanished)?;
        let result = transact(open, wait, policy, work);
        let result = result.and_then(|value| {
            if self.is_in_place() {
                Ok(value)
            } else {
                Err(Fault::Vanished)
            }
        });
        self.keep_if_good(result)
    }

    /// Looks after the log, between two commits.
    pub(crate) fn look_after_the_log(&mut self) {
        if let Some(Open {
            checkpoints,
            connection,
            ..
        }) = &mut self.open
        {
            checkpoints.look(connection);
        }
    }

    pub(crate) fn connection(&mut self, policy: &Policy) -> Result<&Connection, Fault> {
        if !self.is_in_place() {
            // Closing does not touch what has come under the file's name: SQLite looks whether it was moved.
            self.open = None;
            {
                let _opening = file::opening();
                self.connect(policy)?;
            }
            let adopted = self.adopt(policy);
            self.keep_if_good(adopted)?;
        }
        self.open
            .as_ref()
            .map(|open| &open.connection)
            .ok_or(Fault::Vanished)
    }

    fn connect(&mut self, policy: &Policy) -> Result<(), OpenError> {
        let mut connection = schema::connect(&self.path, self.wait, &policy.guard)?;
        let checkpoints = Checkpoints::start(&mut connection, &self.path)
            .map_err(|fault| OpenError::Ledger(fault.into()))?;
        let identity = Identity::of(&self.path)?;
        self.open = Some(Open {
            checkpoints,
            connection,
            known: Known::default(),
            identity,
        });
        Ok(())
    }

    /// Takes note of what was opened. Another file with the epoch of the one before is a copy of it: an older state of
    /// the ledger, or one that will go on without the original. And a file whose log was taken away may have forgotten
    /// what was acknowledged. Either way the flows that are open must not be claimed, so they get a stale epoch.
    fn adopt(&mut self, policy: &Policy) -> Result<(), Fault> {
        let open = self.open.as_ref().ok_or(Fault::Vanished)?;
        let identity = open.identity;
        let mut epoch = Patience::new(self.wait)
            .retry(|| Books::new(&open.connection, policy, &Known::default()).epoch())?;
        let is_copy = self
            .known
            .is_some_and(|(known, before)| before == epoch && !known.is_same_file(identity));
        if is_copy || self.lost_its_log {
            tracing::warn!(
                is_copy,
                self.lost_its_log,
                "the ledger's file is not what it was; rotating its epoch"
            );
            epoch = transact(open, self.wait, policy, |_, books| books.rotate_epoch())?;
        }
        self.lost_its_log = false;
        self.known = Some((identity, epoch));
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
    open: &Open,
    wait: Duration,
    policy: &Policy,
    work: impl FnOnce(&Connection, &Books<'_>) -> Result<T, Fault>,
) -> Result<T, Fault> {
    let Open {
        connection, known, ..
    } = open;
    // IMMEDIATE: a transaction that reads first and then asks for the lock can be refused in a way that no waiting cures.
    Patience::new(wait).retry(|| run(connection, "BEGIN IMMEDIATE"))?;
    let attempt = || {
        known.refresh(connection)?;
        let books = Books::new(connection, policy, known);
        let value = work(connection, &books)?;
        books.write_counts()?;
        Patience::new(wait).retry(|| run(connection, "COMMIT"))?;
        Ok(value)
    };
    let result = attempt();
    if result.is_err() {
        known.forget();
        if !connection.is_autocommit() {
            // If this fails too, closing the connection will do it.
            run(connection, "ROLLBACK").map_err(|_| Fault::Corrupt)?;
        }
    }
    result
}

pub(crate) fn run(connection: &Connection, sql: &'static str) -> Result<(), Fault> {
    connection.prepare_cached(sql)?.execute([])?;
    Ok(())
}
