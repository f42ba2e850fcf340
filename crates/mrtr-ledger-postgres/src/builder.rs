//! How a ledger is opened, and why it is not.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use mrtr_ledger::{LedgerError, Limits, MIN_RETENTION, RETENTION};
use mrtr_state::Clock;
use tokio_postgres::tls::{MakeTlsConnect, TlsConnect};
use tokio_postgres::{Config, NoTls, Socket};

use crate::PostgresLedger;
use crate::books::Policy;
use crate::fault::code;
use crate::pool::Pool;
use crate::session::{Connect, Manner, Through};
use crate::sql::Texts;
use crate::totals::Totals;

/// Settings of a [`PostgresLedger`]. Every one has a default.
#[must_use = "nothing is opened before `open`"]
pub struct Builder {
    config: Config,
    connect: Box<dyn Connect>,
    schema: String,
    connections: usize,
    limits: Limits,
    retention: Duration,
    wait: Duration,
    clock: Option<Arc<dyn Clock>>,
    accepts_no_fsync: bool,
    failover_keeps_all: bool,
}

impl Builder {
    pub(crate) fn new(config: Config) -> Self {
        Self {
            config,
            connect: Box::new(Through(NoTls)),
            schema: "mrtr_ledger".to_owned(),
            connections: 8,
            limits: Limits::default(),
            retention: RETENTION,
            wait: Duration::from_secs(5),
            clock: None,
            accepts_no_fsync: false,
            failover_keeps_all: false,
        }
    }

    /// Connects through TLS. Without it connections are in the clear, fit for a socket on the same machine; with
    /// `sslmode=require` in the configuration nothing else than TLS is spoken.
    ///
    /// Whether the server's certificate is looked at is the connector's business.
    pub fn tls<T>(self, connector: T) -> Self
    where
        T: MakeTlsConnect<Socket> + Clone + Send + Sync + 'static,
        T::TlsConnect: Send,
        T::Stream: Send,
        <T::TlsConnect as TlsConnect<Socket>>::Future: Send,
    {
        Self {
            connect: Box::new(Through(connector)),
            ..self
        }
    }

    /// The schema that holds the ledger's tables; `mrtr_ledger` by default. Servers that share keys share it. Lower-case
    /// letters, digits and underscores.
    pub fn schema(self, name: impl Into<String>) -> Self {
        Self {
            schema: name.into(),
            ..self
        }
    }

    /// How many connections this process opens at most. Eight by default, opened as they are needed: an operation holds
    /// one for about a commit, so eight serve many more callers, and a dozen servers fit below PostgreSQL's usual limit
    /// of a hundred. None counts as one.
    ///
    /// An effect in the ledger's transaction holds one for as long as it takes. All but one are for effects, if there are
    /// several; what waits longer than [`Builder::wait`] is told that there is no word.
    pub fn connections(self, most: usize) -> Self {
        Self {
            connections: most.max(1),
            ..self
        }
    }

    /// How much is held before new work is refused. See [`Limits`] for the defaults. Every process goes by its own, and
    /// they count together; what is claimed at the same moment does not see each other, so a limit can be exceeded by as
    /// many rows as there are connections, and the limits of all by what other processes admit within a second.
    pub fn limits(self, limits: Limits) -> Self {
        Self { limits, ..self }
    }

    /// How long rows are kept after they expire. Ten minutes by default; less than [`MIN_RETENTION`] counts as that.
    pub fn retention(self, retention: Duration) -> Self {
        Self {
            retention: retention.max(MIN_RETENTION),
            ..self
        }
    }

    /// How long an operation goes on trying before there is no word from the ledger: for a connection, a lock, a server
    /// that is starting. Five seconds by default: longer than most restarts, and shorter than callers wait. What has been
    /// sent by then is given the same time once more to be answered.
    pub fn wait(self, wait: Duration) -> Self {
        // A day is for ever as far as an answer goes, and no clock runs over on the way there.
        Self {
            wait: wait.min(Duration::from_secs(86_400)),
            ..self
        }
    }

    /// **For tests alone**: goes by this clock and not by the database's. Servers that go by clocks of their own disagree
    /// on what has expired.
    pub fn test_clock(self, clock: Arc<dyn Clock>) -> Self {
        Self {
            clock: Some(clock),
            ..self
        }
    }

    /// **Not for effects that matter**: accepts a server with `fsync = off`, which forgets what it acknowledged when its
    /// machine stops.
    pub fn accept_fsync_off(self) -> Self {
        Self {
            accepts_no_fsync: true,
            ..self
        }
    }

    /// Says that every failover is to a standby that had all that was acknowledged (`synchronous_standby_names` is set,
    /// and only standbys that it names are promoted). Without it the ledger rotates its epoch when it finds itself on
    /// another server, or after a promotion, so that open flows are refused as stale instead of being run twice.
    ///
    /// For all servers or none: one that does not say so rotates when it connects, whatever the others trust.
    pub fn failover_keeps_all(self) -> Self {
        Self {
            failover_keeps_all: true,
            ..self
        }
    }

    /// Connects, and makes the tables or brings them up to date.
    ///
    /// # Errors
    /// The server is not fit to hold a ledger, or cannot be reached.
    pub async fn open(self) -> Result<PostgresLedger, OpenError> {
        if !is_identifier(&self.schema) {
            return Err(OpenError::SchemaName { name: self.schema });
        }
        let manner = Manner {
            texts: Arc::new(Texts::new(&self.schema)),
            wait: self.wait,
            accepts_no_fsync: self.accepts_no_fsync,
            failover_keeps_all: self.failover_keeps_all,
        };
        let policy = Policy {
            clock: self.clock,
            limits: self.limits,
            retention: self.retention,
            totals: Totals::default(),
        };
        let pool = Arc::new(Pool::new(
            self.config,
            self.connect,
            manner,
            self.connections,
        ));
        pool.first().await?.give_back();
        Ok(PostgresLedger::new(pool, policy))
    }
}

/// What needs no quotes and no escapes, wherever it stands.
fn is_identifier(name: &str) -> bool {
    let starts = |first: char| first.is_ascii_lowercase() || first == '_';
    name.len() <= 63
        && name.starts_with(starts)
        && !name.starts_with("pg_")
        && name.chars().all(|c| starts(c) || c.is_ascii_digit())
}

// By hand: the configuration may hold a password.
impl fmt::Debug for Builder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Builder")
            .field("schema", &self.schema)
            .field("connections", &self.connections)
            .field("limits", &self.limits)
            .field("retention", &self.retention)
            .field("wait", &self.wait)
            .finish_non_exhaustive()
    }
}

/// Why a database was not opened as a ledger.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OpenError {
    /// The schema's name is not made of lower-case letters, digits and underscores, or is reserved.
    #[error(
        "`{name}` is no name for a schema: use lower-case letters, digits and underscores, and not pg_ in front"
    )]
    SchemaName {
        /// As it was given.
        name: String,
    },
    /// The server is older than what the ledger's statements need.
    #[error("the server is PostgreSQL {found}; the ledger needs 12 or newer")]
    TooOld {
        /// The server's major version.
        found: i32,
    },
    /// The server is a standby. It takes no writes.
    #[error(
        "the server is a standby; connect to the primary (target_session_attrs=read-write finds it)"
    )]
    Standby,
    /// The server does not write commits through to its disk.
    #[error(
        "the server has fsync = off and forgets acknowledged effects when its machine stops; turn it on"
    )]
    NoFsync,
    /// The tables were made by a later version of this crate.
    #[error("the ledger's tables have version {found}, and this program knows version {known}")]
    Version {
        /// The tables'.
        found: i32,
        /// This crate's.
        known: i32,
    },
    /// The schema has a table `ledger` that is not ours.
    #[error("the schema belongs to another program; give the ledger one of its own")]
    Foreign,
    /// The role may not make the schema, or not use what is in it.
    #[error(
        "the role may not make or use the ledger's tables; let a schema belong to it (CREATE SCHEMA .. AUTHORIZATION ..)"
    )]
    Permission(#[source] tokio_postgres::Error),
    /// PostgreSQL refused, or could not be reached; the source says why.
    #[error("the ledger's database could not be used")]
    Postgres(#[source] tokio_postgres::Error),
    /// There is no word from the ledger.
    #[error(transparent)]
    Ledger(LedgerError),
}

impl From<tokio_postgres::Error> for OpenError {
    fn from(error: tokio_postgres::Error) -> Self {
        match code(&error) {
            Some("42501") => Self::Permission(error),
            _ => Self::Postgres(error),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_schemas_need_no_quotes() {
        for good in ["mrtr_ledger", "_a", "a1"] {
            assert!(is_identifier(good), "{good}");
        }
        let long = "a".repeat(64);
        for bad in [
            "", "1a", "A", "a-b", "a\"b", "a.b", "a b", "pg_a", "ä", &long,
        ] {
            assert!(!is_identifier(bad), "{bad}");
        }
    }

    #[test]
    fn a_password_does_not_print() {
        let config: Config = "host=db user=pay password=hunter2".parse().unwrap();
        assert!(!format!("{:?}", Builder::new(config)).contains("hunter2"));
    }
}
