//! Counts over all rows, for operators.

use std::sync::Arc;
use std::time::Duration;

use mrtr_ledger::Rows;

use crate::books::Books;
use crate::columns::unsigned;
use crate::fault::Fault;
use crate::ledger::Inner;

/// How long a count may take. It reads every row.
const LONG: Duration = Duration::from_secs(3_600);

impl Inner {
    pub(crate) async fn rows(self: &Arc<Self>) -> Result<Rows, Fault> {
        self.attempt_for(LONG, |books| Box::pin(books.rows())).await
    }
}

impl Books<'_> {
    async fn rows(&self) -> Result<Rows, Fault> {
        let client = self.client;
        client
            .batch_execute(
                "BEGIN ISOLATION LEVEL READ COMMITTED, READ ONLY; SET LOCAL statement_timeout = 0",
            )
            .await?;
        let counts = format!(
            "SELECT kind, count(*), count(*) FILTER (WHERE status = 2) FROM {}.rows GROUP BY kind",
            self.manner.texts.schema()
        );
        let mut rows = Rows::default();
        for row in client.query(&counts, &[]).await? {
            let (all, settled) = (unsigned(row.try_get(1)?), unsigned(row.try_get(2)?));
            match row.try_get::<_, i16>(0)? {
                0 => (rows.rounds, rows.settled_rounds) = (all, settled),
                1 => (rows.steps, rows.settled_steps) = (all, settled),
                2 => rows.notes = all,
                _ => return Err(Fault::Corrupt),
            }
        }
        self.roll_back().await?;
        Ok(rows)
    }
}
