//! Every statement that is prepared, with the schema's name in its place.
//!
//! Table names are always qualified, so that no `search_path` leads anywhere else. The parts that several statements
//! share are functions here.

use tokio_postgres::{Client, Error, Statement};

/// How many rows one account's use of a minute is spread over. A count is a row that is locked from a claim until its
/// commit, so claims of one account would otherwise follow one another; more lanes would make every claim read more.
const ACCOUNT_LANES: u32 = 16;

/// The same for the use of all, which is read far less often (see `totals.rs`).
const TOTAL_LANES: u32 = 64;

/// The account under which all use is counted.
const ALL: &str = "''::bytea";

/// What [`Statement`]s are made from.
#[derive(Debug)]
pub(crate) struct Texts {
    schema: String,
}

/// Prepared once for each connection.
pub(crate) struct Statements {
    pub(crate) fresh: Statement,
    pub(crate) fresh_under: Statement,
    pub(crate) head: Statement,
    pub(crate) head_now: Statement,
    pub(crate) head_to_hold: Statement,
    pub(crate) whole: Statement,
    pub(crate) moment: Statement,
    pub(crate) row: Statement,
    pub(crate) row_to_change: Statement,
    pub(crate) round_to_hold: Statement,
    pub(crate) owned: Statement,
    pub(crate) used: Statement,
    pub(crate) insert: Statement,
    pub(crate) count: Statement,
    pub(crate) write: Statement,
    pub(crate) settle: Statement,
    pub(crate) beat: Statement,
    pub(crate) epoch: Statement,
    pub(crate) rotate: Statement,
    pub(crate) oldest: Statement,
    pub(crate) raise: Statement,
    pub(crate) sweep: Statement,
    pub(crate) sweep_counts: Statement,
}

impl Texts {
    /// The name has been checked: it is an identifier without quotes or anything that needs them.
    pub(crate) fn new(schema: &str) -> Self {
        Self {
            schema: format!("\"{schema}\""),
        }
    }

    pub(crate) fn schema(&self) -> &str {
        &self.schema
    }

    /// One round trip: the server gets all of them at once.
    pub(crate) async fn prepare(&self, client: &Client) -> Result<Statements, Error> {
        let prepare = async |text: String| client.prepare(&text).await;
        let (fresh, fresh_under, head, moment, row, row_to_change, round_to_hold) = tokio::try_join!(
            prepare(self.fresh(false)),
            prepare(self.fresh(true)),
            prepare(self.head()),
            prepare(self.moment()),
            prepare(self.row("")),
            prepare(self.row("FOR UPDATE")),
            prepare(self.row("FOR SHARE")),
        )?;
        let (owned, used, insert, count, write, settle, beat) = tokio::try_join!(
            prepare(self.owned()),
            prepare(self.used()),
            prepare(self.insert()),
            prepare(self.count()),
            prepare(self.write()),
            prepare(self.settle()),
            prepare(self.beat()),
        )?;
        let (epoch, rotate, oldest, raise, sweep, sweep_counts) = tokio::try_join!(
            prepare(self.epoch()),
            prepare(self.rotate()),
            prepare(self.oldest()),
            prepare(self.raise()),
            prepare(self.sweep()),
            prepare(self.sweep_counts()),
        )?;
        let (head_now, head_to_hold, whole) = tokio::try_join!(
            prepare(self.head_now("")),
            prepare(self.head_now("FOR SHARE")),
            prepare(Self::whole()),
        )?;
        Ok(Statements {
            fresh,
            fresh_under,
            head,
            head_now,
            head_to_hold,
            whole,
            moment,
            row,
            row_to_change,
            round_to_hold,
            owned,
            used,
            insert,
            count,
            write,
            settle,
            beat,
            epoch,
            rotate,
            oldest,
            raise,
            sweep,
            sweep_counts,
        })
    }

    /// A claim or note whose row is not there, decided in one statement: a row comes back if and only if it was inserted.
    /// Whatever else may be the case is left to `rules`, with the rows in hand.
    ///
    /// `FOR SHARE` reads the newest version of epoch and mark, and not that of the statement's snapshot: a mark that was
    /// raised after the snapshot is seen, and none is raised before the commit. `gate` is empty; being read `FOR SHARE`
    /// puts the statement in a fair queue with whoever excludes claims (see `sweep.rs`). The owner's row is held the same
    /// way, so that nobody is told *unknown* of a round between the look at it and the commit. The clock is read when all
    /// of that is held.
    ///
    /// The setting comes from the transaction that is about to commit, not from what the session was told to begin with.
    fn fresh(&self, under: bool) -> String {
        let s = &self.schema;
        let (owner, and_owner) = if under {
            (
                format!(
                    "owner AS MATERIALIZED (
                        SELECT 1 FROM {s}.rows
                        WHERE kind = 0 AND expiry = $15 AND hash = $16 AND token = $17 AND status = 0 FOR SHARE
                    ),"
                ),
                "CROSS JOIN owner",
            )
        } else {
            (String::new(), "")
        };
        let bytes = "coalesce(octet_length($11::bytea), 0)";
        let count = self.counting("put.account", "$2::bigint", "1", bytes, "put");
        let (mark, now) = (mark("$1"), now("$9"));
        format!(
            "WITH head AS MATERIALIZED (
                SELECT epoch, {mark} AS mark FROM {s}.ledger FOR SHARE
            ),
            {owner}
            moment AS MATERIALIZED (
                SELECT head.epoch, head.mark, {now} AS now
                FROM head {and_owner} LEFT JOIN (SELECT 1 FROM {s}.gate FOR SHARE) AS gate ON true
            ),
            put AS (
                INSERT INTO {s}.rows (kind, expiry, hash, fingerprint, account, token, status, again, lease, outcome)
                SELECT $1, $2, $3, $4, $5, $6, $10::smallint, false,
                    CASE $10::smallint WHEN 0 THEN now + $7 ELSE 0 END, $11
                FROM moment
                WHERE epoch = $8 AND (mark IS NULL OR mark < $2) AND now < $2
                    AND (NOT $12::boolean OR (
                        SELECT coalesce(sum(rows), 0) < $13::bigint AND coalesce(sum(bytes), 0) < $14::bigint FROM {s}.tally
                        WHERE account = $5 AND bucket >= (moment.now + 1) / 60000
                    ))
                ON CONFLICT (kind, expiry, hash) DO NOTHING
                RETURNING account
            ),
            counted AS ({count})
            SELECT current_setting('synchronous_commit') FROM put"
        )
    }

    /// Adds to the counts of an account and of all: `from` gives one row or none.
    fn counting(&self, account: &str, expiry: &str, rows: &str, bytes: &str, from: &str) -> String {
        let s = &self.schema;
        format!(
            "INSERT INTO {s}.tally AS t (account, bucket, lane, rows, bytes)
            SELECT counted.account, {expiry} / 60000, counted.lane, {rows}, {bytes}
            FROM {from} CROSS JOIN LATERAL (VALUES
                ({account}, pg_backend_pid() % {ACCOUNT_LANES}), ({ALL}, pg_backend_pid() % {TOTAL_LANES})
            ) AS counted (account, lane)
            ON CONFLICT (account, bucket, lane)
                DO UPDATE SET rows = t.rows + excluded.rows, bytes = t.bytes + excluded.bytes"
        )
    }

    /// Epoch and mark, held against whoever would change them.
    fn head(&self) -> String {
        let (s, mark) = (&self.schema, mark("$1"));
        format!(
            "SELECT epoch, {mark} FROM {s}.ledger LEFT JOIN (SELECT 1 FROM {s}.gate FOR SHARE) AS gate ON true
            FOR SHARE OF ledger"
        )
    }

    /// Epoch and mark, for a transaction that looks again before it commits.
    fn head_now(&self, lock: &str) -> String {
        let (s, mark) = (&self.schema, mark("$1"));
        format!("SELECT epoch, {mark} FROM {s}.ledger {lock}")
    }

    /// Which transaction this is, and whether its commit will be durable.
    fn whole() -> String {
        "SELECT txid_current(), current_setting('synchronous_commit')".to_owned()
    }

    fn moment(&self) -> String {
        format!(
            "SELECT {}, current_setting('synchronous_standby_names') <> ''",
            now("$1")
        )
    }

    fn row(&self, lock: &str) -> String {
        let s = &self.schema;
        format!(
            "SELECT kind, fingerprint, account, token, status, again, lease, outcome FROM {s}.rows
            WHERE kind = $1 AND expiry = $2 AND hash = $3 {lock}"
        )
    }

    /// The row that a token names, whichever kind it is of. No token names a note.
    fn owned(&self) -> String {
        let s = &self.schema;
        format!(
            "SELECT kind, fingerprint, account, token, status, again, lease, outcome FROM {s}.rows
            WHERE kind IN (0, 1) AND expiry = $1 AND hash = $2 AND token = $3 FOR UPDATE"
        )
    }

    /// The use by one account (empty: by all) of what has not expired. Here, and where rows are removed, the clock has
    /// been read before: an index finds where a range ends if that does not change while it looks.
    fn used(&self) -> String {
        let s = &self.schema;
        format!(
            "SELECT coalesce(sum(rows), 0)::bigint, coalesce(sum(bytes), 0)::bigint FROM {s}.tally
            WHERE account = $1 AND bucket >= $2"
        )
    }

    fn insert(&self) -> String {
        let s = &self.schema;
        format!(
            "INSERT INTO {s}.rows (kind, expiry, hash, fingerprint, account, token, status, again, lease, outcome)
            VALUES ($1, $2, $3, $4, $5, $6, $7, false, $8, $9)
            ON CONFLICT (kind, expiry, hash) DO NOTHING"
        )
    }

    fn count(&self) -> String {
        self.counting(
            "$1::bytea",
            "$2::bigint",
            "$3::bigint",
            "$4::bigint",
            "(SELECT 1) AS one",
        )
    }

    fn write(&self) -> String {
        let s = &self.schema;
        format!(
            "UPDATE {s}.rows SET token = $4, status = $5, again = $6, lease = $7, outcome = $8
            WHERE kind = $1 AND expiry = $2 AND hash = $3"
        )
    }

    /// A settlement by the token that owns the row; what else may be the case is left to `rules`.
    fn settle(&self) -> String {
        let s = &self.schema;
        let stored = "(SELECT account FROM won WHERE octet_length($5::bytea) > 0) AS stored";
        let bytes = "octet_length($5::bytea)";
        let count = self.counting("stored.account", "$1::bigint", "0", bytes, stored);
        format!(
            "WITH won AS (
                UPDATE {s}.rows SET status = $4, outcome = $5, again = false, lease = 0
                WHERE kind IN (0, 1) AND expiry = $1 AND hash = $2 AND token = $3 AND status = 0
                RETURNING account
            ),
            counted AS ({count})
            SELECT current_setting('synchronous_commit') FROM won"
        )
    }

    fn beat(&self) -> String {
        let (s, now) = (&self.schema, now("$5"));
        format!(
            "UPDATE {s}.rows SET lease = greatest(lease, {now} + $4)
            WHERE kind IN (0, 1) AND expiry = $1 AND hash = $2 AND token = $3 AND status = 0
            RETURNING 1"
        )
    }

    fn epoch(&self) -> String {
        format!("SELECT epoch FROM {}.ledger", self.schema)
    }

    /// What the marks guard belonged to flows of the epoch that ends.
    fn rotate(&self) -> String {
        let s = &self.schema;
        format!(
            "UPDATE {s}.ledger SET epoch = $1, rounds_mark = NULL, steps_mark = NULL, notes_mark = NULL"
        )
    }

    /// The largest expiry that may be removed: the last one, because all before it go with it.
    fn oldest(&self) -> String {
        let s = &self.schema;
        format!(
            "SELECT expiry FROM {s}.rows
            WHERE kind = $1 AND expiry < $2 AND NOT (status = 0 AND lease > $3) ORDER BY expiry DESC LIMIT 1"
        )
    }

    fn raise(&self) -> String {
        let s = &self.schema;
        format!(
            "UPDATE {s}.ledger SET
                rounds_mark = CASE $1::smallint WHEN 0 THEN greatest(rounds_mark, $2) ELSE rounds_mark END,
                steps_mark = CASE $1::smallint WHEN 1 THEN greatest(steps_mark, $2) ELSE steps_mark END,
                notes_mark = CASE $1::smallint WHEN 2 THEN greatest(notes_mark, $2) ELSE notes_mark END"
        )
    }

    /// One batch from one expiry to another, and up to where it came. What another transaction holds is left for the
    /// next purge.
    ///
    /// Nothing goes unless the mark is above it in the same snapshot: a rotation forgets the marks, and whatever is
    /// claimed after it may expire before the mark that was raised.
    fn sweep(&self) -> String {
        let (s, mark) = (&self.schema, mark("$1"));
        format!(
            "WITH gone AS (
                DELETE FROM {s}.rows WHERE ctid = ANY (ARRAY(
                    SELECT ctid FROM {s}.rows
                    WHERE kind = $1 AND expiry >= $2 AND expiry <= $3 AND NOT (status = 0 AND lease > $4)
                        AND $3 <= (SELECT {mark} FROM {s}.ledger)
                    ORDER BY expiry, hash LIMIT $5 FOR UPDATE SKIP LOCKED
                )) RETURNING expiry
            )
            SELECT count(*), max(expiry) FROM gone"
        )
    }

    fn sweep_counts(&self) -> String {
        let s = &self.schema;
        format!(
            "DELETE FROM {s}.tally WHERE ctid = ANY (ARRAY(
                SELECT ctid FROM {s}.tally WHERE bucket < $1 LIMIT $2 FOR UPDATE SKIP LOCKED
            ))"
        )
    }
}

/// The mark of a kind.
fn mark(kind: &str) -> String {
    format!(
        "CASE {kind}::smallint WHEN 0 THEN rounds_mark WHEN 1 THEN steps_mark ELSE notes_mark END"
    )
}

/// Milliseconds since the Unix epoch by the database's clock, unless a test says otherwise.
fn now(instead: &str) -> String {
    format!(
        "coalesce({instead}::bigint, floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint)"
    )
}
