//! What the driver does to the ledger under all servers, past all of them.

mod postgres;
mod sqlite;

use std::time::Duration;

use mrtr_ledger::{Ledger, Rows};

use crate::driver::Failure;
use crate::driver::store::postgres::Postgres;
use crate::driver::store::sqlite::Sqlite;
use crate::history::{Recorder, What};
use crate::place::Place;
use crate::trace::{self, Effect};

/// How long the driver's own operations wait: no fault lasts that long.
const PATIENCE: Duration = Duration::from_secs(20);

/// The ledger of a run.
#[derive(Debug)]
pub(crate) enum Store {
    Sqlite(Sqlite),
    Postgres(Box<Postgres>),
}

impl Store {
    /// Creates it.
    pub(crate) async fn create(place: &Place) -> Result<Self, Failure> {
        let table = place.table();
        Ok(match place {
            Place::Sqlite(file) => Self::Sqlite(Sqlite::create(file, &table).await?),
            Place::Postgres { connection, schema } => {
                let postgres = Postgres::create(connection, schema, &table).await?;
                Self::Postgres(Box::new(postgres))
            }
        })
    }

    /// The effects that were steps in its database.
    pub(crate) async fn booked(&self, place: &Place) -> Result<Vec<Effect>, Failure> {
        match self {
            Self::Sqlite(sqlite) => sqlite.booked(&place.table()).await,
            Self::Postgres(postgres) => postgres.booked(&place.table()).await,
        }
    }

    fn ledger(&self) -> &dyn Ledger {
        match self {
            Self::Sqlite(sqlite) => &sqlite.ledger,
            Self::Postgres(postgres) => &postgres.ledger,
        }
    }

    pub(crate) async fn rotate(&self, seen: &Recorder) -> Result<(), Failure> {
        let from = trace::now();
        self.ledger().rotate_epoch().await?;
        seen.incident(What::Rotated, from);
        Ok(())
    }

    /// Takes the lock that all claims need, and gives it back after a while.
    pub(crate) async fn silence(&self, lasts: Duration, seen: &Recorder) -> Result<(), Failure> {
        let from = trace::now();
        match self {
            Self::Sqlite(sqlite) => sqlite.hold(lasts).await?,
            Self::Postgres(postgres) => postgres.hold(lasts).await?,
        }
        seen.incident(What::Silenced, from);
        Ok(())
    }

    /// Cuts every server's connections to the ledger, where it has any.
    pub(crate) async fn sever(&self, seen: &Recorder) -> Result<(), Failure> {
        let from = trace::now();
        match self {
            Self::Sqlite(_) => return Ok(()),
            Self::Postgres(postgres) => postgres.sever().await?,
        }
        seen.incident(What::Severed, from);
        Ok(())
    }

    /// What is left in it.
    pub(crate) async fn rows(&self) -> Result<Rows, Failure> {
        Ok(self.ledger().rows().await?)
    }

    /// Clears away what is not in the run's folder.
    pub(crate) async fn clear(&self) -> Result<(), Failure> {
        match self {
            Self::Sqlite(_) => Ok(()),
            Self::Postgres(postgres) => postgres.clear().await,
        }
    }
}
