//! A schema of a database.

use std::time::Duration;

use mrtr_ledger_postgres::PostgresLedger;
use mrtr_ledger_postgres::tokio_postgres::{Client, Config, NoTls};
use tokio::time::sleep;

use super::PATIENCE;
use crate::driver::Failure;
use crate::server::shelf::COLUMNS;
use crate::trace::Effect;

#[derive(Debug)]
pub(crate) struct Postgres {
    config: Config,
    schema: String,
    pub(super) ledger: PostgresLedger,
}

impl Postgres {
    pub(super) async fn create(
        connection: &str,
        schema: &str,
        table: &str,
    ) -> Result<Self, Failure> {
        let config: Config = connection.parse()?;
        let ledger = PostgresLedger::builder(config.clone())
            .schema(schema)
            .connections(2)
            .wait(PATIENCE)
            .open()
            .await?;
        let postgres = Self {
            config,
            schema: schema.to_owned(),
            ledger,
        };
        let create = format!("CREATE TABLE {table} {COLUMNS}");
        postgres.client().await?.batch_execute(&create).await?;
        Ok(postgres)
    }

    /// What steps have written.
    pub(super) async fn booked(&self, table: &str) -> Result<Vec<Effect>, Failure> {
        let query = format!("SELECT * FROM {table}");
        let rows = self.client().await?.query(&query, &[]).await?;
        rows.iter()
            .map(|row| {
                let number = |at: usize| -> Result<Option<u32>, Failure> {
                    let number: Option<i64> = row.try_get(at)?;
                    Ok(number.map(u32::try_from).transpose()?)
                };
                Ok(Effect {
                    flow: row.try_get::<_, i64>(0)?.cast_unsigned(),
                    step: row.try_get(1)?,
                    entry: row.try_get(2)?,
                    pick: number(3)?,
                    price: number(4)?,
                    at: row.try_get::<_, i64>(5)?.cast_unsigned(),
                })
            })
            .collect()
    }

    async fn client(&self) -> Result<Client, Failure> {
        let (client, connection) = self.config.connect(NoTls).await?;
        // It ends when the client is dropped, and says nothing that the client does not.
        tokio::spawn(connection);
        Ok(client)
    }

    /// Holds the table that every claim writes to.
    pub(super) async fn hold(&self, lasts: Duration) -> Result<(), Failure> {
        let client = self.client().await?;
        let lock = format!("BEGIN; LOCK TABLE {}.rows", self.schema);
        client.batch_execute(&lock).await?;
        sleep(lasts).await;
        Ok(client.batch_execute("ROLLBACK").await?)
    }

    /// Ends the servers' sessions, as an administrator would.
    pub(super) async fn sever(&self) -> Result<(), Failure> {
        let client = self.client().await?;
        let end =
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = $1";
        client.execute(end, &[&self.schema]).await?;
        Ok(())
    }

    pub(super) async fn clear(&self) -> Result<(), Failure> {
        let client = self.client().await?;
        let drop = format!("DROP SCHEMA {} CASCADE", self.schema);
        Ok(client.batch_execute(&drop).await?)
    }
}
