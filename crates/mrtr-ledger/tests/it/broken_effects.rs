//! Ledgers that break the contract of effects must fail its suite.

use std::any::Any;
use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};

use mrtr_ledger::suite::effects::{Effects, End, Workshop};
use mrtr_ledger::suite::{Setup, Task};
use mrtr_ledger::{
    Claim, Claimed, Conclusion, Ledger, LedgerFuture, Limits, MemoryLedger, Performed, Settlement,
};

/// What is broken.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Fault {
    None,
    RunsWithoutFirst,
    KeepsWhatIsRolledBack,
    LosesWhatIsCommitted,
    SettlesWhatIsReleased,
    ReleasesWhatFailed,
    ForgetsTheOutcome,
    SwallowsThePanic,
    KeepsAfterAPanic,
    NoLimits,
}

/// Numbers on paper beside a ledger in memory: as good as a transaction as long as nobody crashes.
struct Paper {
    ledger: Arc<MemoryLedger>,
    numbers: Mutex<Vec<u32>>,
    /// One step at a time.
    pen: tokio::sync::Mutex<()>,
    fault: Fault,
}

impl Paper {
    fn new(setup: Setup, fault: Fault) -> Self {
        let limits = match fault {
            Fault::NoLimits => Limits::NONE,
            _ => setup.limits,
        };
        let ledger = MemoryLedger::new(setup.clock)
            .unwrap()
            .with_limits(limits)
            .with_retention(setup.retention);
        Self {
            ledger: Arc::new(ledger),
            numbers: Mutex::default(),
            pen: tokio::sync::Mutex::default(),
            fault,
        }
    }

    fn write(&self, number: u32) {
        let mut numbers = self.numbers.lock().unwrap();
        numbers.push(number);
        numbers.sort_unstable();
    }
}

impl Workshop for Paper {
    fn ledger(&self) -> Arc<dyn Ledger> {
        self.ledger.clone()
    }

    fn perform(&self, claim: Claim, number: u32, end: End) -> LedgerFuture<'_, Performed<u32>> {
        Box::pin(async move {
            let _pen = self.pen.lock().await;
            let (key, token) = (claim.key, claim.token);
            let claimed = self.ledger.claim(claim).await?;
            if claimed != Claimed::First && self.fault != Fault::RunsWithoutFirst {
                return Ok(Performed::Not(claimed));
            }
            let end = match (self.fault, end) {
                (Fault::SettlesWhatIsReleased, End::Conclude(Conclusion::Release)) => {
                    End::Conclude(Conclusion::RollBack(Vec::new()))
                }
                (Fault::ReleasesWhatFailed, End::Conclude(Conclusion::RollBack(_))) => {
                    End::Conclude(Conclusion::Release)
                }
                (_, end) => end,
            };
            let (outcome, is_kept) = match &end {
                End::Conclude(Conclusion::Commit(outcome)) => {
                    (Some(outcome), self.fault != Fault::LosesWhatIsCommitted)
                }
                End::Conclude(Conclusion::RollBack(outcome)) => {
                    (Some(outcome), self.fault == Fault::KeepsWhatIsRolledBack)
                }
                End::Conclude(Conclusion::Release) => (None, false),
                End::Panic => (None, self.fault == Fault::KeepsAfterAPanic),
            };
            if is_kept {
                self.write(number);
            }
            match outcome {
                Some(_) if self.fault == Fault::ForgetsTheOutcome => {}
                Some(outcome) => {
                    let settlement = Settlement::Outcome(outcome.clone());
                    _ = self.ledger.settle(key, token, settlement).await?;
                }
                None => _ = self.ledger.release(key, token).await?,
            }
            Ok(match end {
                End::Panic if self.fault != Fault::SwallowsThePanic => {
                    Performed::Panicked(Box::new(number) as Box<dyn Any + Send>)
                }
                _ => Performed::Ran(number),
            })
        })
    }

    fn ask(&self, claim: Claim) -> LedgerFuture<'_, Claimed> {
        Box::pin(async move {
            let end = End::Conclude(Conclusion::Release);
            Ok(match self.perform(claim, 0, end).await? {
                Performed::Not(claimed) => claimed,
                _ => Claimed::First,
            })
        })
    }

    fn numbers(&self) -> LedgerFuture<'_, Vec<u32>> {
        Box::pin(async { Ok(self.numbers.lock().unwrap().clone()) })
    }
}

type Case = (
    &'static str,
    fn(Effects) -> std::pin::Pin<Box<dyn Future<Output = ()>>>,
);

macro_rules! cases {
    ($make:expr; $($case:ident,)+) => {
        &[$((stringify!($case), |bench| Box::pin(async move { mrtr_ledger::suite::effects::$case(&bench).await })),)+]
    };
}

static CASES: &[Case] = mrtr_ledger::__effects_suite_cases!([cases]());

/// The cases that it fails.
async fn failed(fault: Fault) -> BTreeSet<&'static str> {
    let tasks = tokio::task::LocalSet::new();
    let mut failed = BTreeSet::new();
    for (name, case) in CASES {
        let spawn = |task: Task| -> Task {
            let task = tokio::spawn(task);
            Box::pin(async move { task.await.expect("a task of the suite failed") })
        };
        let bench = Effects::new(async move |setup: Setup| Paper::new(setup, fault), spawn);
        let case = tasks.spawn_local(case(bench));
        if tasks.run_until(case).await.is_err() {
            failed.insert(*name);
        }
    }
    failed
}

#[tokio::test(flavor = "multi_thread")]
async fn effects_without_a_fault_pass() {
    assert_eq!(failed(Fault::None).await, BTreeSet::new());
}

/// Each fault is noticed by the case that is about it.
#[tokio::test(flavor = "multi_thread")]
async fn effects_with_a_fault_fail() {
    for (fault, by) in [
        (
            Fault::RunsWithoutFirst,
            "an_effect_runs_only_if_the_claim_is_first",
        ),
        (
            Fault::KeepsWhatIsRolledBack,
            "a_failed_effect_leaves_its_outcome_alone",
        ),
        (
            Fault::LosesWhatIsCommitted,
            "effect_and_outcome_are_there_together",
        ),
        (
            Fault::SettlesWhatIsReleased,
            "a_released_step_leaves_nothing",
        ),
        (
            Fault::ReleasesWhatFailed,
            "a_failed_effect_leaves_its_outcome_alone",
        ),
        (
            Fault::ForgetsTheOutcome,
            "effect_and_outcome_are_there_together",
        ),
        (
            Fault::SwallowsThePanic,
            "a_panic_leaves_nothing_and_harms_nobody",
        ),
        (
            Fault::KeepsAfterAPanic,
            "a_panic_leaves_nothing_and_harms_nobody",
        ),
        (Fault::NoLimits, "the_row_of_a_failed_effect_counts"),
    ] {
        let failed = failed(fault).await;
        assert!(failed.contains(by), "{fault:?} fails {failed:?} only");
    }
}
