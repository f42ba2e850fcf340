//! Looking at all rows, for operators: on one snapshot, without holding up claims.

mod stats;
mod verify;

use std::sync::Arc;
use std::time::Duration;

use mrtr_ledger::Rows;

use crate::books::{Books, Result};
use crate::columns::unsigned;
use crate::fault::Fault;
use crate::ledger::{Inner, Work};

pub use stats::Stats;
pub use verify::{Finding, Verified};

/// How long that may take. It reads every row.
const LONG: Duration = Duration::from_secs(3_600);

impl Inner {
    pub(crate) async fn rows(self: &Arc<Self>) -> Result<Rows> {
        self.look(|books| Box::pin(books.rows())).await
    }

    pub(crate) async fn stats(self: &Arc<Self>) -> Result<Stats> {
        self.look(|books| Box::pin(books.stats())).await
    }

    pub(crate) async fn verify(self: &Arc<Self>) -> Result<Verified> {
        self.look(|books| Box::pin(books.verify())).await
    }

    async fn look<T: Send + 'static>(
        self: &Arc<Self>,
        look: for<'a> fn(&'a Books<'a>) -> Work<'a, T>,
    ) -> Result<T> {
        self.attempt_for(LONG, move |books| {
            Box::pin(async move {
                let begin = "BEGIN ISOLATION LEVEL REPEATABLE READ, READ ONLY; SET LOCAL statement_timeout = 0";
                books.client.batch_execute(begin).await?;
                let seen = look(books).await?;
                books.roll_back().await?;
                Ok(seen)
            })
        })
        .await
    }
}

impl Books<'_> {
    async fn rows(&self) -> Result<Rows> {
        let counts = self.named(
            "SELECT kind, count(*), count(*) FILTER (WHERE status = 2) FROM {s}.rows GROUP BY kind",
        );
        let mut rows = Rows::default();
        for row in self.client.query(&counts, &[]).await? {
            let (all, settled) = (unsigned(row.try_get(1)?), unsigned(row.try_get(2)?));
            match row.try_get::<_, i16>(0)? {
                0 => (rows.rounds, rows.settled_rounds) = (all, settled),
                1 => (rows.steps, rows.settled_steps) = (all, settled),
                2 => rows.notes = all,
                _ => return Err(Fault::Corrupt),
            }
        }
        Ok(rows)
    }

    /// With the schema's name in its place.
    fn named(&self, sql: &str) -> String {
        sql.replace("{s}", self.manner.texts.schema())
    }
}
