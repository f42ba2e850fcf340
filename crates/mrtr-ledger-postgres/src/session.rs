//! One connection: how it is made, and what must hold before it is used.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tokio::task::AbortHandle;
use tokio_postgres::tls::{MakeTlsConnect, TlsConnect};
use tokio_postgres::{AsyncMessage, Client, Config, Connection, Socket};

use crate::fault::Fault;
use crate::sql::{Statements, Texts};
use crate::{OpenError, schema};

/// The oldest version that has all that is used here.
const OLDEST: i32 = 120_000;

/// How long a transaction of ours may wait for its client. Longer, and the client has gone without a word.
const IDLE: &str = "60s";

type Connected<'a> = Pin<Box<dyn Future<Output = Result<Raw, tokio_postgres::Error>> + Send + 'a>>;

/// Opens connections, with or without TLS.
pub(crate) trait Connect: Send + Sync {
    fn connect<'a>(&'a self, config: &'a Config) -> Connected<'a>;
}

/// Through whatever TLS the user has chosen.
pub(crate) struct Through<T>(pub(crate) T);

impl<T> Connect for Through<T>
where
    T: MakeTlsConnect<Socket> + Clone + Send + Sync + 'static,
    T::TlsConnect: Send,
    T::Stream: Send,
    <T::TlsConnect as TlsConnect<Socket>>::Future: Send,
{
    fn connect<'a>(&'a self, config: &'a Config) -> Connected<'a> {
        Box::pin(async move {
            let (client, connection) = config.connect(self.0.clone()).await?;
            Ok(Raw::drive(client, connection))
        })
    }
}

/// Whether the server has warned of something.
#[derive(Debug, Default)]
pub(crate) struct Warnings(AtomicBool);

impl Warnings {
    /// Warnings from now on are those of what follows.
    pub(crate) fn listen(&self) {
        self.0.store(false, Ordering::SeqCst);
    }

    /// Nothing was warned of since. The server sends a warning before the answer that it belongs to.
    pub(crate) fn vouch(&self) -> Result<(), Fault> {
        if self.0.load(Ordering::SeqCst) {
            return Err(Fault::Doubtful);
        }
        Ok(())
    }
}

/// A connection of which nothing is known yet.
pub(crate) struct Raw {
    client: Client,
    driver: AbortHandle,
    warnings: Arc<Warnings>,
}

impl Raw {
    fn drive<S, T>(client: Client, mut connection: Connection<S, T>) -> Self
    where
        S: tokio::io::AsyncRead + tokio::io::AsyncWrite + Unpin + Send + 'static,
        T: tokio::io::AsyncRead + tokio::io::AsyncWrite + Unpin + Send + 'static,
    {
        let warnings = Arc::new(Warnings::default());
        let heard = Arc::clone(&warnings);
        let driver = tokio::spawn(async move {
            while let Some(message) = std::future::poll_fn(|cx| connection.poll_message(cx)).await {
                match message {
                    Ok(AsyncMessage::Notice(notice)) => {
                        tracing::debug!(
                            severity = notice.severity(),
                            code = notice.code().code(),
                            "{}",
                            notice.message()
                        );
                        // A commit whose wait for a standby was cancelled is a warning and a success.
                        heard.0.store(true, Ordering::SeqCst);
                    }
                    Ok(_) => {}
                    Err(error) => {
                        tracing::debug!(%error, "a connection to the ledger's database has ended");
                        return;
                    }
                }
            }
        });
        Self {
            client,
            driver: driver.abort_handle(),
            warnings,
        }
    }
}

/// What every session is set up with.
#[derive(Clone, Debug)]
pub(crate) struct Manner {
    pub(crate) texts: Arc<Texts>,
    pub(crate) wait: Duration,
    pub(crate) accepts_no_fsync: bool,
    pub(crate) failover_keeps_all: bool,
}

/// A connection that is fit for the ledger.
pub(crate) struct Session {
    pub(crate) client: Client,
    pub(crate) statements: Statements,
    pub(crate) warnings: Arc<Warnings>,
    driver: AbortHandle,
    /// Something is under way whose end nobody has seen.
    in_use: bool,
}

impl Session {
    /// Connects, and looks whether the server keeps what it acknowledges.
    pub(crate) async fn open(
        connect: &dyn Connect,
        config: &Config,
        manner: &Manner,
    ) -> Result<Self, OpenError> {
        let raw = connect.connect(config).await?;
        // Whatever comes now, it ends with the connection if it does not come to its end.
        let mut guard = Unfinished(Some(raw.driver.clone()));
        let mut client = raw.client;
        Self::examine(&client, manner).await?;
        // Tables of an old version may take their time; from the end of this on, nothing does.
        client.batch_execute(&settings(manner)).await?;
        client.batch_execute("SET statement_timeout = 0").await?;
        schema::bring_up_to_date(&mut client, manner.texts.schema(), schema::VERSIONS).await?;
        schema::settle_in(
            &mut client,
            manner.texts.schema(),
            manner.failover_keeps_all,
        )
        .await?;
        let statements = manner.texts.prepare(&client).await?;
        client.batch_execute(&settings(manner)).await?;
        guard.0 = None;
        raw.warnings.listen();
        Ok(Self {
            client,
            statements,
            driver: raw.driver,
            warnings: raw.warnings,
            in_use: true,
        })
    }

    async fn examine(client: &Client, manner: &Manner) -> Result<(), OpenError> {
        let row = client
            .query_one(
                "SELECT current_setting('server_version_num')::integer, pg_is_in_recovery(), current_setting('fsync')",
                &[],
            )
            .await?;
        let version: i32 = row.try_get(0)?;
        if version < OLDEST {
            return Err(OpenError::TooOld {
                found: version / 10_000,
            });
        }
        if row.try_get(1)? {
            return Err(OpenError::Standby);
        }
        if row.try_get::<_, &str>(2)? != "on" && !manner.accepts_no_fsync {
            return Err(OpenError::NoFsync);
        }
        Ok(())
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.client.is_closed()
    }

    /// Whatever was set, locked or listened to by others than us is undone, and our settings are there again.
    pub(crate) async fn wash(&self, manner: &Manner) -> Result<(), Fault> {
        let wash = "RESET ALL; RESET SESSION AUTHORIZATION; CLOSE ALL; UNLISTEN *; SELECT pg_advisory_unlock_all(); \
                    DISCARD TEMP; DISCARD SEQUENCES;";
        self.client
            .batch_execute(&format!("{wash}{}", settings(manner)))
            .await?;
        Ok(())
    }

    pub(crate) fn begin_use(&mut self) {
        self.in_use = true;
        self.warnings.listen();
    }

    /// No transaction is open, and no answer is awaited.
    pub(crate) fn end_use(&mut self) {
        self.in_use = false;
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        // One that rests says goodbye as its client goes. Any other is cut, so that the server takes back what is open.
        if self.in_use {
            self.driver.abort();
        }
    }
}

struct Unfinished(Option<AbortHandle>);

impl Drop for Unfinished {
    fn drop(&mut self) {
        if let Some(driver) = &self.0 {
            driver.abort();
        }
    }
}

/// `remote_apply` waits for more than `on` does, so it stays. The rest is what the statements rely on, or what they do
/// without: each runs often, by its key, and needs no plan of its own.
fn settings(manner: &Manner) -> String {
    let wait = manner.wait.as_millis().clamp(1, 86_400_000);
    format!(
        "SELECT set_config('synchronous_commit', CASE current_setting('synchronous_commit')
             WHEN 'remote_apply' THEN 'remote_apply' ELSE 'on' END, false);
         SET default_transaction_isolation = 'read committed';
         SET default_transaction_deferrable = off;
         SET statement_timeout = {wait};
         SET lock_timeout = {wait};
         SET idle_in_transaction_session_timeout = '{IDLE}';
         SET plan_cache_mode = force_generic_plan;
         SET jit = off;
         SET client_min_messages = warning;
         SET bytea_output = hex;"
    )
}
