//! The memory ledger passes the suite, and stays bounded on its own.

use mrtr_ledger::MemoryLedger;
use mrtr_ledger::suite::Setup;

mrtr_ledger::ledger_suite!(async |setup: Setup| {
    MemoryLedger::new(setup.clock)
        .unwrap()
        .with_limits(setup.limits)
        .with_retention(setup.retention)
});
