//! Why there is no word, in a form that can be told to every operation of a batch.

use std::sync::Arc;

use mrtr_ledger::LedgerError;
use mrtr_state::RandomError;
use rusqlite::ErrorCode;

use crate::OpenError;

/// A failed batch tells each of its operations, so this is [`LedgerError`] that can be cloned.
#[derive(Clone, Debug, thiserror::Error)]
pub(crate) enum Fault {
    #[error("locked by another process")]
    Busy,
    #[error("no room")]
    Full,
    #[error("read-only")]
    ReadOnly,
    #[error("damaged, or not a ledger")]
    Corrupt,
    #[error("vanished or replaced")]
    Vanished,
    /// What ran inside the transaction has ended it, or SQLite has on its account.
    #[error("an effect ended the ledger's transaction, which only the ledger may")]
    Ended,
    #[error("an effect made a table with a foreign key to one of the ledger's own; leave it out")]
    Reference,
    #[error(transparent)]
    Random(#[from] RandomError),
    #[error("{0}")]
    Other(#[source] Arc<dyn std::error::Error + Send + Sync>),
}

impl Fault {
    /// One word, for counting.
    pub(crate) fn word(&self) -> &'static str {
        match self {
            Fault::Busy => "busy",
            Fault::Full => "full",
            Fault::ReadOnly => "read_only",
            Fault::Corrupt => "corrupt",
            Fault::Vanished => "vanished",
            Fault::Ended | Fault::Reference => "effect",
            Fault::Random(_) => "random",
            Fault::Other(_) => "other",
        }
    }

    /// Whether the connection may be kept: the file is as good as it was.
    pub(crate) fn is_passing(&self) -> bool {
        matches!(
            self,
            Fault::Busy | Fault::Full | Fault::Ended | Fault::Reference | Fault::Random(_)
        )
    }

    /// Whether the operation alone is at fault (its outcome is larger than SQLite takes, say), and not what all of its
    /// batch depend on.
    pub(crate) fn concerns_one(&self) -> bool {
        matches!(self, Fault::Reference | Fault::Random(_) | Fault::Other(_))
    }
}

impl From<rusqlite::Error> for Fault {
    fn from(error: rusqlite::Error) -> Self {
        match error.sqlite_error_code() {
            Some(
                ErrorCode::DatabaseBusy
                | ErrorCode::DatabaseLocked
                | ErrorCode::FileLockingProtocolFailed,
            ) => Fault::Busy,
            Some(ErrorCode::DiskFull) => Fault::Full,
            Some(ErrorCode::ReadOnly | ErrorCode::PermissionDenied) => Fault::ReadOnly,
            Some(
                ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase | ErrorCode::SchemaChanged,
            ) => Fault::Corrupt,
            // A value that does not have its column's form: whoever wrote it was not a ledger.
            None if !matches!(error, rusqlite::Error::SqliteFailure(..)) => Fault::Corrupt,
            _ => Fault::Other(Arc::new(error)),
        }
    }
}

impl From<OpenError> for Fault {
    fn from(error: OpenError) -> Self {
        match error {
            OpenError::Ledger(fault) => fault.into(),
            OpenError::Foreign => Fault::Corrupt,
            OpenError::Missing => Fault::Vanished,
            error => Fault::Other(Arc::new(error)),
        }
    }
}

impl From<LedgerError> for Fault {
    fn from(error: LedgerError) -> Self {
        match error {
            LedgerError::Busy => Fault::Busy,
            LedgerError::StorageFull => Fault::Full,
            LedgerError::ReadOnly => Fault::ReadOnly,
            LedgerError::Corrupt => Fault::Corrupt,
            LedgerError::Vanished => Fault::Vanished,
            LedgerError::Random(error) => Fault::Random(error),
            error => Fault::Other(Arc::new(error)),
        }
    }
}

impl From<Fault> for LedgerError {
    fn from(fault: Fault) -> Self {
        match fault {
            Fault::Busy => LedgerError::Busy,
            Fault::Full => LedgerError::StorageFull,
            Fault::ReadOnly => LedgerError::ReadOnly,
            Fault::Corrupt => LedgerError::Corrupt,
            Fault::Vanished => LedgerError::Vanished,
            Fault::Random(error) => LedgerError::Random(error),
            fault @ (Fault::Ended | Fault::Reference) => LedgerError::Unavailable(Box::new(fault)),
            Fault::Other(error) => LedgerError::Unavailable(Box::new(Shared(error))),
        }
    }
}

/// An error of a batch, as each of its operations gets it.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
struct Shared(#[source] Arc<dyn std::error::Error + Send + Sync>);

impl From<rusqlite::Error> for OpenError {
    fn from(error: rusqlite::Error) -> Self {
        OpenError::Ledger(Fault::from(error).into())
    }
}

#[cfg(test)]
mod tests {
    use rusqlite::ffi;

    use super::*;

    fn told(code: std::ffi::c_int) -> LedgerError {
        Fault::from(rusqlite::Error::SqliteFailure(ffi::Error::new(code), None)).into()
    }

    #[test]
    fn case_112_each_class_of_failure_has_its_word() {
        assert!(matches!(told(ffi::SQLITE_BUSY), LedgerError::Busy));
        assert!(matches!(told(ffi::SQLITE_BUSY_SNAPSHOT), LedgerError::Busy));
        assert!(matches!(told(ffi::SQLITE_BUSY_RECOVERY), LedgerError::Busy));
        assert!(matches!(told(ffi::SQLITE_PROTOCOL), LedgerError::Busy));
        assert!(matches!(told(ffi::SQLITE_FULL), LedgerError::StorageFull));
        assert!(matches!(told(ffi::SQLITE_READONLY), LedgerError::ReadOnly));
        assert!(matches!(
            told(ffi::SQLITE_READONLY_DBMOVED),
            LedgerError::ReadOnly
        ));
        assert!(matches!(told(ffi::SQLITE_CORRUPT), LedgerError::Corrupt));
        assert!(matches!(told(ffi::SQLITE_NOTADB), LedgerError::Corrupt));
        assert!(matches!(
            told(ffi::SQLITE_IOERR_FSYNC),
            LedgerError::Unavailable(_)
        ));
        assert!(matches!(
            told(ffi::SQLITE_CANTOPEN),
            LedgerError::Unavailable(_)
        ));
        assert!(matches!(
            Fault::from(rusqlite::Error::QueryReturnedNoRows),
            Fault::Corrupt
        ));
    }

    #[test]
    fn the_source_of_an_unnamed_failure_is_told() {
        let LedgerError::Unavailable(source) = told(ffi::SQLITE_IOERR) else {
            panic!("an I/O error has no name")
        };
        assert!(source.to_string().contains("I/O"), "{source}");
    }
}
