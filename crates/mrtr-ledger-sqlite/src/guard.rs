//! What an effect may not do with the ledger's connection.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use rusqlite::Connection;
use rusqlite::hooks::{AuthAction, AuthContext, Authorization};

/// Names that are the ledger's own in the file.
const OURS: [&str; 6] = [
    "ledger",
    "rounds",
    "steps",
    "notes",
    "tally",
    "tally_by_bucket",
];

/// Names with this beginning are kept for later versions of the ledger, and for its savepoints.
const RESERVED: &str = "mrtr_";

/// Pragmas that only tell something, or that concern nothing but the transaction that runs.
const HARMLESS: [&str; 13] = [
    "collation_list",
    "compile_options",
    "defer_foreign_keys",
    "foreign_key_check",
    "foreign_key_list",
    "function_list",
    "index_info",
    "index_list",
    "index_xinfo",
    // SQLite asks for it by itself when a column is added.
    "quick_check",
    "table_info",
    "table_list",
    "table_xinfo",
];

/// Stands between an effect and the connection: SQLite asks it about each statement that is prepared while an effect runs.
///
/// An effect has the ledger's own connection. What it refuses are the ways in which one could end the ledger's
/// transaction, change how durable it is, or touch the ledger's own tables without meaning to.
#[derive(Clone, Debug, Default)]
pub(crate) struct Guard {
    flags: Arc<Flags>,
}

#[derive(Debug, Default)]
struct Flags {
    /// An effect runs.
    effect: AtomicBool,
    /// It has made or altered a table.
    tables: AtomicBool,
}

impl Guard {
    /// Puts it before a connection, for as long as that lives.
    pub(crate) fn watch(&self, connection: &mut Connection) -> rusqlite::Result<()> {
        // SQLite ends a transaction by itself too (`ON CONFLICT ROLLBACK`, a full disk). An effect that does not look and
        // writes on would then commit each statement by itself, without its claim: every such commit is a rollback.
        let flags = Arc::clone(&self.flags);
        connection.commit_hook(Some(move || flags.effect.load(Ordering::Relaxed)))?;
        let flags = Arc::clone(&self.flags);
        connection.authorizer(Some(move |context: AuthContext<'_>| {
            // The ledger's own statements are known, and nobody else's run at any other time.
            if !flags.effect.load(Ordering::Relaxed) {
                return Authorization::Allow;
            }
            if !is_allowed(&context.action) {
                return Authorization::Deny;
            }
            if matches!(
                context.action,
                AuthAction::CreateTable { .. }
                    | AuthAction::CreateTempTable { .. }
                    | AuthAction::AlterTable { .. }
            ) {
                flags.tables.store(true, Ordering::Relaxed);
            }
            Authorization::Allow
        }))
    }

    /// Runs an effect.
    pub(crate) fn during<T>(&self, effect: impl FnOnce() -> T) -> T {
        let _over = Over(&self.flags.effect);
        self.flags.tables.store(false, Ordering::Relaxed);
        self.flags.effect.store(true, Ordering::Relaxed);
        effect()
    }

    /// Whether the effect that ran last leaves a table behind whose rows hold rows of the ledger in place. A purge could
    /// not remove those then, and every claim that removes some in passing would fail.
    pub(crate) fn finds_a_reference(&self, connection: &Connection) -> rusqlite::Result<bool> {
        if !self.flags.tables.load(Ordering::Relaxed) {
            return Ok(false);
        }
        references(connection)
    }
}

/// Whether any table has a foreign key to one of the ledger's.
pub(crate) fn references(connection: &Connection) -> rusqlite::Result<bool> {
    let mut parents = connection.prepare(
        "SELECT reference.\"table\" FROM sqlite_schema AS child, pragma_foreign_key_list(child.name) AS reference
         WHERE child.type = 'table'",
    )?;
    let mut rows = parents.query([])?;
    while let Some(row) = rows.next()? {
        if !is_theirs(row.get_ref(0)?.as_str()?) {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Sets the flag back, after a panic too.
struct Over<'a>(&'a AtomicBool);

impl Drop for Over<'_> {
    fn drop(&mut self) {
        self.0.store(false, Ordering::Relaxed);
    }
}

fn is_allowed(action: &AuthAction<'_>) -> bool {
    match *action {
        AuthAction::Select
        | AuthAction::Read { .. }
        | AuthAction::Recursive
        | AuthAction::Function { .. } => true,
        AuthAction::Insert { table_name }
        | AuthAction::Update { table_name, .. }
        | AuthAction::Delete { table_name }
        | AuthAction::Analyze { table_name }
        | AuthAction::CreateTable { table_name }
        | AuthAction::CreateTempTable { table_name }
        | AuthAction::DropTable { table_name }
        | AuthAction::DropTempTable { table_name }
        | AuthAction::CreateVtable { table_name, .. }
        | AuthAction::DropVtable { table_name, .. } => is_theirs(table_name),
        // The new name is not told, and a temporary table hides one of the same name in the file.
        AuthAction::AlterTable {
            database_name,
            table_name,
        } => !database_name.eq_ignore_ascii_case("temp") && is_theirs(table_name),
        AuthAction::CreateView { view_name }
        | AuthAction::CreateTempView { view_name }
        | AuthAction::DropView { view_name }
        | AuthAction::DropTempView { view_name } => is_theirs(view_name),
        AuthAction::CreateIndex {
            index_name: name,
            table_name,
        }
        | AuthAction::CreateTempIndex {
            index_name: name,
            table_name,
        }
        | AuthAction::DropIndex {
            index_name: name,
            table_name,
        }
        | AuthAction::DropTempIndex {
            index_name: name,
            table_name,
        }
        | AuthAction::CreateTrigger {
            trigger_name: name,
            table_name,
        }
        | AuthAction::CreateTempTrigger {
            trigger_name: name,
            table_name,
        }
        | AuthAction::DropTrigger {
            trigger_name: name,
            table_name,
        }
        | AuthAction::DropTempTrigger {
            trigger_name: name,
            table_name,
        } => is_theirs(name) && is_theirs(table_name),
        AuthAction::Reindex { index_name } => is_theirs(index_name),
        AuthAction::Savepoint { savepoint_name, .. } => is_theirs(savepoint_name),
        AuthAction::Pragma { pragma_name, .. } => HARMLESS
            .iter()
            .any(|harmless| pragma_name.eq_ignore_ascii_case(harmless)),
        // BEGIN, COMMIT and ROLLBACK would end what the ledger has begun; another file attached would be written to
        // without the ledger's durability. And what is not known here is not allowed.
        _ => false,
    }
}

fn is_theirs(name: &str) -> bool {
    let reserved = name
        .get(..RESERVED.len())
        .is_some_and(|start| start.eq_ignore_ascii_case(RESERVED));
    !reserved && !OURS.iter().any(|ours| name.eq_ignore_ascii_case(ours))
}
