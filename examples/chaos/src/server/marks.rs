//! The marks of purging, raised past the ledger: [`Sabotage::MarkByNow`](super::sabotage::Sabotage) alone does that.

use std::time::Duration;

use mrtr_ledger_postgres::tokio_postgres::{Config, NoTls};
use mrtr_state::Timestamp;
use rusqlite::{Connection, params};

use crate::driver::Failure;
use crate::place::Place;

/// The marks of the ledger at a place.
#[derive(Debug)]
pub(crate) struct Marks(pub(crate) Place);

impl Marks {
    /// Raises those of rounds and steps to this moment.
    pub(crate) async fn raise(&self, to: Timestamp) -> Result<(), Failure> {
        let to = i64::try_from(to.as_millis())?;
        match self.0.clone() {
            Place::Sqlite(file) => {
                tokio::task::spawn_blocking(move || {
                    let connection = Connection::open(file)?;
                    connection.busy_timeout(Duration::from_secs(1))?;
                    connection.execute(
                        "UPDATE ledger SET rounds_mark = max(coalesce(rounds_mark, ?1), ?1),
                             steps_mark = max(coalesce(steps_mark, ?1), ?1)",
                        params![to],
                    )
                })
                .await??;
            }
            Place::Postgres { connection, schema } => {
                let config: Config = connection.parse()?;
                let (client, connection) = config.connect(NoTls).await?;
                tokio::spawn(connection);
                let raise = format!(
                    "UPDATE {schema}.ledger SET rounds_mark = greatest(coalesce(rounds_mark, $1), $1),
                         steps_mark = greatest(coalesce(steps_mark, $1), $1)"
                );
                client.execute(&raise, &[&to]).await?;
            }
        }
        Ok(())
    }
}
