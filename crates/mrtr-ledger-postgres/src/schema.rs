//! The tables, and how they come to be what this version needs.

use mrtr_state::Epoch;
use tokio_postgres::{Client, GenericClient};

use crate::OpenError;
use crate::fault::{Blob, code};

/// What each version adds to the one before, in order. What stands here is never changed: a database that has it would
/// not get the change. `{s}` is the schema's name.
///
/// An expiry, lease or mark is milliseconds since the Unix epoch. Kinds are 0 round, 1 step, 2 note; statuses 0 owned, 1
/// released, 2 settled, 3 abandoned.
///
/// A row is written when it is claimed and once more when it is settled, so half of each page is left free: the second
/// version then stands beside the first, and no index is touched. `tally` counts rows and bytes by the minute in which
/// they expire, for each account and, under the empty one, for all; `lane` spreads what is counted at the same time over
/// several rows. `gate` stays empty (see `sql.rs`). `home` says on which server the ledger was last.
pub(crate) const VERSIONS: &[&str] = &["
    CREATE TABLE {s}.ledger (
        only_row boolean PRIMARY KEY DEFAULT true CHECK (only_row),
        version integer NOT NULL,
        epoch bytea NOT NULL CHECK (octet_length(epoch) = 16),
        rounds_mark bigint,
        steps_mark bigint,
        notes_mark bigint,
        home text
    );

    CREATE TABLE {s}.gate (nothing boolean CHECK (false));

    CREATE TABLE {s}.rows (
        kind smallint NOT NULL CHECK (kind BETWEEN 0 AND 2),
        expiry bigint NOT NULL,
        hash bytea NOT NULL CHECK (octet_length(hash) = 32),
        fingerprint bytea NOT NULL CHECK (octet_length(fingerprint) = 32),
        account bytea NOT NULL CHECK (octet_length(account) = 32),
        token bytea NOT NULL CHECK (octet_length(token) = 16),
        status smallint NOT NULL CHECK (status BETWEEN 0 AND 3),
        again boolean NOT NULL,
        lease bigint NOT NULL,
        outcome bytea CHECK ((outcome IS NOT NULL) = (status = 2)),
        CHECK (kind <> 2 OR status = 2),
        PRIMARY KEY (kind, expiry, hash)
    ) WITH (fillfactor = 50);

    CREATE TABLE {s}.tally (
        account bytea NOT NULL CHECK (octet_length(account) IN (0, 32)),
        bucket bigint NOT NULL,
        lane integer NOT NULL,
        rows bigint NOT NULL,
        bytes bigint NOT NULL,
        PRIMARY KEY (account, bucket, lane)
    ) WITH (fillfactor = 50);

    CREATE INDEX tally_by_bucket ON {s}.tally (bucket);
"];

/// Sees that the tables are there and of this version; makes or extends them otherwise. Of several servers that start at
/// once one does it, and the others find it done.
pub(crate) async fn bring_up_to_date(
    client: &mut Client,
    schema: &str,
    versions: &[&str],
) -> Result<(), OpenError> {
    let wanted = i32::try_from(versions.len()).unwrap_or(i32::MAX);
    if found(client, schema).await? == Some(wanted) {
        return Ok(());
    }
    let transaction = client.transaction().await?;
    // Held to the end of the transaction. Whoever comes second waits here, and then sees what the first has done.
    let lock = "SELECT pg_advisory_xact_lock(hashtextextended($1, 7777777))";
    transaction.execute(lock, &[&schema]).await?;
    let from = match found(&transaction, schema).await? {
        Some(version) if version > wanted => {
            return Err(OpenError::Version {
                found: version,
                known: wanted,
            });
        }
        Some(version) => version,
        None => {
            // The schema may have been made by somebody who may do that, for a role that may not.
            let exists = transaction
                .query_opt(
                    "SELECT 1 FROM pg_namespace WHERE '\"' || nspname || '\"' = $1",
                    &[&schema],
                )
                .await?;
            if exists.is_none() {
                transaction
                    .batch_execute(&format!("CREATE SCHEMA {schema}"))
                    .await?;
            }
            0
        }
    };
    for text in versions.iter().skip(usize::try_from(from).unwrap_or(0)) {
        transaction
            .batch_execute(&text.replace("{s}", schema))
            .await?;
    }
    if from == 0 {
        let epoch = Epoch::generate().map_err(|error| OpenError::Ledger(error.into()))?;
        let insert = format!("INSERT INTO {schema}.ledger (version, epoch) VALUES ($1, $2)");
        transaction
            .execute(&insert, &[&wanted, &Blob(epoch.as_bytes())])
            .await?;
    } else {
        let update = format!("UPDATE {schema}.ledger SET version = $1");
        transaction.execute(&update, &[&wanted]).await?;
    }
    Ok(transaction.commit().await?)
}

/// The version of the tables that are there. `None`: there are none. A schema with other tables is refused by the
/// database when ours are made, because of their names, or stays as it is beside them.
async fn found(client: &impl GenericClient, schema: &str) -> Result<Option<i32>, OpenError> {
    // From the catalogue's own tables: names that are resolved (`to_regclass`) come from a cache, which does not hear at
    // once what another server has made.
    let exists = client
        .query_opt(
            "SELECT 1 FROM pg_class JOIN pg_namespace ON pg_namespace.oid = relnamespace
            WHERE relname = 'ledger' AND '\"' || nspname || '\"' = $1",
            &[&schema],
        )
        .await?;
    if exists.is_none() {
        return Ok(None);
    }
    let row = client
        .query_opt(&format!("SELECT version FROM {schema}.ledger"), &[])
        .await;
    match row {
        Ok(Some(row)) => Ok(Some(row.try_get(0)?)),
        Ok(None) => Err(OpenError::Foreign),
        // A table of that name without that column.
        Err(error) if code(&error) == Some("42703") => Err(OpenError::Foreign),
        Err(error) => Err(error.into()),
    }
}

/// Says so when the ledger is on another server, or another life of the same one, than it was last; then its epoch is
/// rotated, unless it is known that every failover keeps what was committed.
///
/// A server's identifier is drawn when its cluster is made, and its timeline counts promotions and restores to a point in
/// time. Where the role may not ask, or the server does not know, nothing is checked.
pub(crate) async fn settle_in(
    client: &mut Client,
    schema: &str,
    failover_keeps_all: bool,
) -> Result<(), OpenError> {
    let home = "SELECT (SELECT system_identifier::text FROM pg_control_system()) || '/' \
                || left(pg_walfile_name(pg_current_wal_lsn()), 8)";
    let home: String = match client.query_one(home, &[]).await {
        Ok(row) => row.try_get(0)?,
        // Not allowed, not known to this kind of server, or not possible now.
        Err(error) if matches!(code(&error), Some("42501" | "42883" | "0A000" | "55000")) => {
            return Ok(());
        }
        Err(error) => return Err(error.into()),
    };
    // Who trusts every failover leaves the note where it was, for those who do not.
    let at_home =
        format!("SELECT 1 FROM {schema}.ledger WHERE home = $1 OR (home IS NOT NULL AND $2)");
    if client
        .query_opt(&at_home, &[&home, &failover_keeps_all])
        .await?
        .is_some()
    {
        return Ok(());
    }
    let epoch = Epoch::generate().map_err(|error| OpenError::Ledger(error.into()))?;
    let transaction = client.transaction().await?;
    transaction
        .batch_execute(&format!("LOCK TABLE {schema}.gate IN EXCLUSIVE MODE"))
        .await?;
    // The first that connects is the first that notices: one statement decides who that is.
    let update = format!(
        "UPDATE {schema}.ledger SET home = $1, epoch = CASE WHEN home IS NULL THEN epoch ELSE $2 END
         WHERE home IS DISTINCT FROM $1 RETURNING epoch = $2"
    );
    let moved = transaction
        .query_opt(&update, &[&home, &Blob(epoch.as_bytes())])
        .await?;
    let moved = moved.is_some_and(|row| row.try_get(0).unwrap_or(false));
    if moved {
        let forget = format!(
            "UPDATE {schema}.ledger SET rounds_mark = NULL, steps_mark = NULL, notes_mark = NULL"
        );
        transaction.batch_execute(&forget).await?;
    }
    transaction.commit().await?;
    if moved {
        tracing::warn!(
            "the ledger is on another server than it was, which may not have all that was acknowledged; its epoch was \
             rotated"
        );
    }
    Ok(())
}

#[cfg(test)]
#[path = "../tests/it/server.rs"]
#[allow(dead_code, reason = "the integration tests use all of it")]
mod server;

#[cfg(test)]
mod tests {
    use tokio_postgres::{Client, NoTls};

    use super::*;

    const TWO: &[&str] = &[
        VERSIONS[0],
        "ALTER TABLE {s}.rows ADD COLUMN more integer NOT NULL DEFAULT 7",
    ];

    async fn client() -> Option<Client> {
        let (client, connection) = tokio_postgres::connect(server::shared()?, NoTls)
            .await
            .unwrap();
        tokio::spawn(connection);
        Some(client)
    }

    async fn number(client: &Client, sql: &str) -> i64 {
        client.query_one(sql, &[]).await.unwrap().get(0)
    }

    /// A version is added to what is there, once, and no row and no epoch is lost. Then the program of before is refused.
    #[tokio::test]
    async fn an_older_version_is_extended_in_place() {
        let Some(mut client) = client().await else {
            return;
        };
        let schema = format!("\"version_{}\"", std::process::id());
        bring_up_to_date(&mut client, &schema, &TWO[..1])
            .await
            .unwrap();
        let row = format!(
            "INSERT INTO {schema}.rows VALUES (0, 1, sha256('a'), sha256('b'), sha256('c'),
                 '\\x00000000000000000000000000000000', 3, false, 0, NULL)"
        );
        client.batch_execute(&row).await.unwrap();
        let epoch = format!("SELECT hashtext(encode(epoch, 'hex'))::bigint FROM {schema}.ledger");
        let before = number(&client, &epoch).await;
        for _ in 0..2 {
            bring_up_to_date(&mut client, &schema, TWO).await.unwrap();
            assert_eq!(
                number(
                    &client,
                    &format!("SELECT version::bigint FROM {schema}.ledger")
                )
                .await,
                2
            );
            assert_eq!(
                number(&client, &format!("SELECT sum(more) FROM {schema}.rows")).await,
                7
            );
            assert_eq!(number(&client, &epoch).await, before);
        }
        let refused = bring_up_to_date(&mut client, &schema, &TWO[..1])
            .await
            .unwrap_err();
        assert!(
            matches!(refused, OpenError::Version { found: 2, known: 1 }),
            "{refused:?}"
        );
    }

    /// A version that cannot be made leaves the one before.
    #[tokio::test]
    async fn a_version_that_fails_changes_nothing() {
        let Some(mut client) = client().await else {
            return;
        };
        let schema = format!("\"failed_{}\"", std::process::id());
        bring_up_to_date(&mut client, &schema, &TWO[..1])
            .await
            .unwrap();
        let broken = [VERSIONS[0], "DROP TABLE {s}.gate; SELECT 1 / 0"];
        bring_up_to_date(&mut client, &schema, &broken)
            .await
            .unwrap_err();
        assert_eq!(
            number(
                &client,
                &format!("SELECT version::bigint FROM {schema}.ledger")
            )
            .await,
            1
        );
        assert_eq!(
            number(&client, &format!("SELECT count(*) FROM {schema}.gate")).await,
            0
        );
        bring_up_to_date(&mut client, &schema, &TWO[..1])
            .await
            .unwrap();
    }
}
