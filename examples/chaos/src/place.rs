//! Where the ledger of a run is, as its driver tells its servers.

use std::path::{Path, PathBuf};

use stage::arguments::{Arguments, UsageError};

/// A ledger's place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    /// A file in the run's folder.
    Sqlite(PathBuf),
    /// A schema of a database.
    Postgres { connection: String, schema: String },
}

impl Place {
    /// A file in this folder.
    pub(crate) fn file_in(folder: &Path) -> Self {
        Self::Sqlite(folder.join("ledger.sqlite"))
    }

    /// A schema that no other run has.
    pub(crate) fn schema_at(connection: &str) -> Self {
        Self::Postgres {
            connection: connection.to_owned(),
            schema: format!("chaos_{}_{:08x}", std::process::id(), fastrand::u32(..)),
        }
    }

    /// The table beside the ledger's own.
    pub(crate) fn table(&self) -> String {
        match self {
            Self::Sqlite(_) => "booked".to_owned(),
            Self::Postgres { schema, .. } => format!("{schema}.booked"),
        }
    }

    /// The flags that say so.
    pub(crate) fn to_flags(&self) -> Vec<String> {
        match self {
            Self::Sqlite(file) => vec![format!("--file={}", file.display())],
            Self::Postgres { connection, schema } => vec![
                format!("--connection={connection}"),
                format!("--schema={schema}"),
            ],
        }
    }

    pub(crate) fn take(arguments: &mut Arguments) -> Result<Self, UsageError> {
        let file = arguments.value("--file")?.map(Self::Sqlite);
        let connection = arguments.text("--connection")?;
        let schema = arguments.text("--schema")?;
        let postgres = connection
            .zip(schema)
            .map(|(connection, schema)| Self::Postgres { connection, schema });
        file.or(postgres).ok_or(UsageError::NoValue("--file"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_is_told_in_flags() {
        for place in [
            Place::file_in(Path::new("/tmp/a run")),
            Place::schema_at("host=/tmp/a user='x y'"),
        ] {
            let mut arguments = Arguments::of(place.to_flags());
            assert_eq!(Place::take(&mut arguments), Ok(place));
            arguments.finish().unwrap();
        }
        assert!(Place::take(&mut Arguments::of(["--schema=s"])).is_err());
    }
}
