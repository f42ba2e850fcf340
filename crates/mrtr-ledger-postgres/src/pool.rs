//! A few connections, and who waits for one.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use mrtr_ledger::LedgerError;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{Instant, timeout_at};
use tokio_postgres::Config;

use crate::OpenError;
use crate::fault::Fault;
use crate::metrics;
use crate::session::{Connect, Manner, Session};

/// Connections that rest, and the right to have one.
///
/// A connection comes back only from an operation that has seen its end; one of which that is not known is closed, and
/// the server takes back what was open on it.
pub(crate) struct Pool {
    config: Config,
    connect: Box<dyn Connect>,
    pub(crate) manner: Manner,
    permits: Arc<Semaphore>,
    // Effects hold a connection for as long as they take. One is left for claims, settlements and beats.
    effects: Arc<Semaphore>,
    // The last one that came back goes out first, so that the others can be seen to be idle.
    resting: Mutex<Vec<Session>>,
}

/// A connection in use. Dropped without [`Lent::give_back`] it is closed.
pub(crate) struct Lent {
    session: Option<Session>,
    pool: Arc<Pool>,
    _permit: OwnedSemaphorePermit,
}

impl Pool {
    pub(crate) fn new(
        config: Config,
        connect: Box<dyn Connect>,
        manner: Manner,
        connections: usize,
    ) -> Self {
        Self {
            config,
            connect,
            manner,
            permits: Arc::new(Semaphore::new(connections)),
            effects: Arc::new(Semaphore::new(connections.saturating_sub(1).max(1))),
            resting: Mutex::new(Vec::new()),
        }
    }

    /// Waits for a turn, in the order of asking, and connects if none rests.
    pub(crate) async fn lend(self: &Arc<Self>, until: Instant) -> Result<Lent, Fault> {
        let asked = Instant::now();
        let permit = timeout_at(until, Arc::clone(&self.permits).acquire_owned()).await;
        let permit = permit.map_err(|_| Fault::Busy)?.map_err(|_| Fault::Busy)?;
        metrics::lent(asked.elapsed());
        let mut session = loop {
            let rested = self
                .resting
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .pop();
            match rested {
                Some(session) if session.is_closed() => {}
                Some(session) => break session,
                None => break self.open(until).await?,
            }
        };
        session.begin_use();
        Ok(Lent {
            session: Some(session),
            pool: Arc::clone(self),
            _permit: permit,
        })
    }

    /// A turn among the effects, to be had before a connection is lent for one, and kept as long as that.
    pub(crate) async fn effect(&self, until: Instant) -> Result<OwnedSemaphorePermit, Fault> {
        let turn = timeout_at(until, Arc::clone(&self.effects).acquire_owned()).await;
        turn.map_err(|_| Fault::Busy)?.map_err(|_| Fault::Busy)
    }

    /// Connects for the first time, and says in full why not.
    pub(crate) async fn first(self: &Arc<Self>) -> Result<Lent, OpenError> {
        let permit = Arc::clone(&self.permits).acquire_owned().await;
        let permit = permit.map_err(|_| OpenError::Ledger(LedgerError::Closed))?;
        Ok(Lent {
            session: Some(self.connect().await?),
            pool: Arc::clone(self),
            _permit: permit,
        })
    }

    async fn open(&self, until: Instant) -> Result<Session, Fault> {
        // A little time even where all of it was spent on waiting: connecting takes milliseconds, or fails at once.
        let until = until.max(Instant::now() + Duration::from_millis(250));
        match timeout_at(until, self.connect()).await {
            Ok(opened) => opened.map_err(Fault::from),
            Err(elapsed) => Err(Fault::Disconnected(Box::new(elapsed))),
        }
    }

    async fn connect(&self) -> Result<Session, OpenError> {
        let session = Session::open(&*self.connect, &self.config, &self.manner).await?;
        metrics::connected();
        Ok(session)
    }

    /// How many connections rest, and how many more may be made or lent.
    pub(crate) fn resting(&self) -> usize {
        self.resting
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .len()
    }
}

impl Lent {
    pub(crate) fn session(&mut self) -> Option<&mut Session> {
        self.session.as_mut()
    }

    /// Its operation has come to its end, and no transaction is open.
    pub(crate) fn give_back(mut self) {
        if let Some(mut session) = self.session.take()
            && !session.is_closed()
        {
            session.end_use();
            self.pool
                .resting
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .push(session);
        }
    }
}

impl fmt::Debug for Pool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pool")
            .field("resting", &self.resting())
            .field("free", &self.permits.available_permits())
            .finish_non_exhaustive()
    }
}
