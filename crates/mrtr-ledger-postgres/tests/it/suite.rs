//! The contract, in a schema of each test's own; nothing where there is no server.

use mrtr_ledger::suite::{Bench, Setup, Task};
use mrtr_ledger_postgres::PostgresLedger;

use crate::bench::Place;

async fn make(setup: Setup) -> PostgresLedger {
    let place = Place::new().expect("asked before");
    place
        .builder()
        .test_clock(setup.clock)
        .limits(setup.limits)
        .retention(setup.retention)
        .open()
        .await
        .unwrap()
}

pub(crate) fn spawn(task: Task) -> Task {
    let task = tokio::spawn(task);
    Box::pin(async move { task.await.expect("a task of the suite failed") })
}

macro_rules! cases {
    ($make:expr; $($module:ident :: $case:ident,)+) => {
        $(
            #[tokio::test(flavor = "multi_thread", worker_threads = 4)]
            async fn $case() {
                if crate::server::shared().is_some() {
                    mrtr_ledger::suite::$module::$case(&Bench::new($make, spawn)).await;
                }
            }
        )+
    };
}

mrtr_ledger::__ledger_suite_cases!([cases] make);
