//! Why there is no word, and whether asking again may help.

use std::fmt;

use bytes::BytesMut;
use mrtr_ledger::LedgerError;
use mrtr_state::RandomError;
use tokio_postgres::error::SqlState;
use tokio_postgres::types::{IsNull, ToSql, Type, to_sql_checked};

use crate::OpenError;

/// What went wrong with one attempt at an operation.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Fault {
    /// Others held what was needed for longer than this waits, or every connection was in use.
    #[error("busy")]
    Busy,
    /// The server took the transaction back for another's sake. It will not do so every time.
    #[error("taken back by the server")]
    TakenBack(#[source] tokio_postgres::Error),
    /// A statement that was prepared is not there, or not fit for what is.
    #[error(
        "the server does not know what was prepared on this connection; is there a pooler that shares it out by transactions?"
    )]
    Unprepared(#[source] tokio_postgres::Error),
    /// There is no server, or the connection to it ended.
    #[error("no connection")]
    Disconnected(#[source] Box<dyn std::error::Error + Send + Sync>),
    /// The server warned while it committed: the commit may not be everywhere where it was to be.
    #[error("the server did not say that the commit is durable")]
    Doubtful,
    /// The transaction was about to commit without waiting for the disk.
    #[error("synchronous_commit is {0}; let it be on for this role and database")]
    NotDurable(String),
    /// An effect has ended the transaction that it was in, and may have begun another.
    #[error("the effect has ended its transaction; leave that to the ledger")]
    Ended,
    /// No room on the server's disk.
    #[error("no room")]
    Full,
    /// A standby, or a database that takes no writes.
    #[error("read-only")]
    ReadOnly,
    /// Damaged, or not a ledger.
    #[error("damaged, or not a ledger")]
    Corrupt,
    /// The tables are not there.
    #[error("vanished")]
    Vanished,
    #[error(transparent)]
    Random(#[from] RandomError),
    #[error(transparent)]
    Refused(Box<OpenError>),
    #[error(transparent)]
    Other(tokio_postgres::Error),
    /// An operation's task came to no end.
    #[error("the operation did not come to its end")]
    Cut(#[source] Box<dyn std::error::Error + Send + Sync>),
}

impl Fault {
    /// One word, for counting.
    pub(crate) fn word(&self) -> &'static str {
        match self {
            Fault::Busy => "busy",
            Fault::TakenBack(_) => "taken_back",
            Fault::Unprepared(_) => "unprepared",
            Fault::Disconnected(_) => "disconnected",
            Fault::Doubtful | Fault::NotDurable(_) => "not_durable",
            Fault::Ended => "effect",
            Fault::Full => "full",
            Fault::ReadOnly => "read_only",
            Fault::Corrupt => "corrupt",
            Fault::Vanished => "vanished",
            Fault::Random(_) => "random",
            Fault::Refused(_) | Fault::Other(_) | Fault::Cut(_) => "other",
        }
    }

    /// Whether another attempt may come out otherwise, soon.
    pub(crate) fn is_passing(&self) -> bool {
        matches!(
            self,
            Fault::TakenBack(_) | Fault::Unprepared(_) | Fault::Disconnected(_) | Fault::Doubtful
        )
    }
}

/// The five characters by which PostgreSQL names an error.
pub(crate) fn code(error: &tokio_postgres::Error) -> Option<&str> {
    error.code().map(SqlState::code)
}

impl From<tokio_postgres::Error> for Fault {
    fn from(error: tokio_postgres::Error) -> Self {
        let Some(state) = code(&error) else {
            // Without a code the server has said nothing: the connection failed, or what it brought makes no sense.
            return if error.is_closed() || is_io(&error) {
                Fault::Disconnected(Box::new(error))
            } else {
                Fault::Other(error)
            };
        };
        match state {
            "40001" | "40P01" => Fault::TakenBack(error),
            // Prepared for what was there before, or on another connection than this one seemed to be.
            "0A000" | "26000" => Fault::Unprepared(error),
            "55P03" | "57014" => Fault::Busy,
            "53100" => Fault::Full,
            "25006" => Fault::ReadOnly,
            "XX001" | "XX002" | "42703" | "42883" | "42804" => Fault::Corrupt,
            "42P01" | "3F000" | "3D000" => Fault::Vanished,
            // Shut down, not up yet, too many connections, out of memory, or the connection is at its end.
            "57P01" | "57P02" | "57P03" | "57P05" | "53300" | "53200" | "25P03" => {
                Fault::Disconnected(Box::new(error))
            }
            _ if state.starts_with("08") => Fault::Disconnected(Box::new(error)),
            _ => Fault::Other(error),
        }
    }
}

/// Whether the network is at fault.
fn is_io(error: &(dyn std::error::Error + 'static)) -> bool {
    let mut cause = Some(error);
    while let Some(error) = cause {
        if error.is::<std::io::Error>() {
            return true;
        }
        cause = error.source();
    }
    false
}

impl From<OpenError> for Fault {
    fn from(error: OpenError) -> Self {
        match error {
            OpenError::Postgres(error) => error.into(),
            error => Fault::Refused(Box::new(error)),
        }
    }
}

impl From<Fault> for LedgerError {
    fn from(fault: Fault) -> Self {
        match fault {
            Fault::Busy | Fault::TakenBack(_) => LedgerError::Busy,
            Fault::Full => LedgerError::StorageFull,
            Fault::ReadOnly => LedgerError::ReadOnly,
            Fault::Corrupt => LedgerError::Corrupt,
            Fault::Vanished => LedgerError::Vanished,
            Fault::Random(error) => LedgerError::Random(error),
            other => LedgerError::Unavailable(Box::new(other)),
        }
    }
}

/// Bytes as a parameter. The driver logs parameters at its `debug` level, and these are tokens, fingerprints and what
/// tools answered, so only their number prints.
#[derive(Clone, Copy)]
pub(crate) struct Blob<'a>(pub(crate) &'a [u8]);

impl fmt::Debug for Blob<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} bytes", self.0.len())
    }
}

impl ToSql for Blob<'_> {
    fn to_sql(
        &self,
        ty: &Type,
        out: &mut BytesMut,
    ) -> Result<IsNull, Box<dyn std::error::Error + Sync + Send>> {
        self.0.to_sql(ty, out)
    }

    fn accepts(ty: &Type) -> bool {
        <&[u8] as ToSql>::accepts(ty)
    }

    to_sql_checked!();
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_do_not_print() {
        let secret = Blob(b"what a tool answered");
        assert_eq!(format!("{secret:?}"), "20 bytes");
        let parameters: [&(dyn ToSql + Sync); 2] = [&secret, &Some(secret)];
        assert!(!format!("{parameters:?}").contains("97"), "{parameters:?}");
    }
}
