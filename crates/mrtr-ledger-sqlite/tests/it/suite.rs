//! The contract, on a file of each test's own.

use mrtr_ledger::suite::{Made, Setup};
use mrtr_ledger_sqlite::SqliteLedger;

mrtr_ledger::ledger_suite!(async |setup: Setup| {
    let folder = tempfile::tempdir().unwrap();
    let ledger = SqliteLedger::builder(folder.path().join("ledger.sqlite"))
        .clock(setup.clock)
        .limits(setup.limits)
        .retention(setup.retention)
        .open()
        .unwrap();
    Made::keeping(ledger, folder)
});
