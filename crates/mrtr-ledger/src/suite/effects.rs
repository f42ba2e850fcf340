//! Effects in the ledger's own database: tests for every [`TransactionalLedger`](crate::TransactionalLedger).
//!
//! [`effects_suite!`](crate::effects_suite) makes `#[tokio::test]`s of them from a factory of [`Workshop`]s.

use std::sync::atomic::AtomicUsize;

use super::*;
use crate::{Conclusion, LedgerFuture, Performed};

/// Makes a `#[tokio::test]` of every test in [`effects`](crate::suite::effects).
///
/// The argument is an async closure from a [`Setup`](crate::suite::Setup) to a
/// [`Workshop`](crate::suite::effects::Workshop) with an empty ledger. The calling crate needs tokio's `macros` and
/// `rt-multi-thread`.
#[macro_export]
macro_rules! effects_suite {
    ($make:expr) => {
        $crate::__effects_suite_cases! { [$crate::__effects_suite_test] $make }
    };
}

/// Every case of the suite, handed to a macro of the form `name!(factory; case, ..)`.
#[doc(hidden)]
#[macro_export]
macro_rules! __effects_suite_cases {
    ([$($with:tt)+] $make:expr) => {
        $($with)+! { $make;
            effect_and_outcome_are_there_together,
            a_failed_effect_leaves_its_outcome_alone,
            a_released_step_leaves_nothing,
            a_panic_leaves_nothing_and_harms_nobody,
            an_effect_runs_only_if_the_claim_is_first,
            a_withdrawn_round_has_no_effect,
            the_same_token_goes_on,
            an_outcome_counts_like_any_other,
            the_row_of_a_failed_effect_counts,
            asking_tells_what_came_of_a_step_and_leaves_it,
            one_of_many_has_an_effect,
        }
    };
}

#[doc(hidden)]
#[macro_export]
macro_rules! __effects_suite_test {
    ($make:expr; $($case:ident,)+) => {
        $(
            #[tokio::test(flavor = "multi_thread", worker_threads = 4)]
            async fn $case() {
                let spawn = |task| -> $crate::suite::Task {
                    let task = tokio::spawn(task);
                    Box::pin(async move { task.await.expect("a task of the suite failed") })
                };
                let bench = $crate::suite::effects::Effects::new($make, spawn);
                $crate::suite::effects::$case(&bench).await;
            }
        )+
    };
}

/// How an effect of the suite ends, after it has written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum End {
    /// With this conclusion.
    Conclude(Conclusion),
    /// With a panic whose payload is the number.
    Panic,
}

/// A ledger, and a table of numbers in the same database.
pub trait Workshop: Send + Sync + 'static {
    /// The ledger.
    fn ledger(&self) -> Arc<dyn Ledger>;

    /// Performs a step whose effect adds this number to the table, ends so, and returns the number.
    fn perform(&self, claim: Claim, number: u32, end: End) -> LedgerFuture<'_, Performed<u32>>;

    /// [Asks](crate::TransactionalLedger::ask) what came of a step.
    fn ask(&self, claim: Claim) -> LedgerFuture<'_, Claimed>;

    /// The numbers in the table, read outside of any effect, in their order.
    fn numbers(&self) -> LedgerFuture<'_, Vec<u32>>;
}

type MakingWorkshop = Pin<Box<dyn Future<Output = Arc<dyn Workshop>>>>;

/// Where a test gets its workshops and its parallel tasks from.
pub struct Effects {
    make: Box<dyn Fn(Setup) -> MakingWorkshop>,
    spawn: Box<dyn Fn(Task) -> Task>,
}

impl std::fmt::Debug for Effects {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Effects").finish_non_exhaustive()
    }
}

impl Effects {
    /// `spawn` starts a task beside the caller and returns a future of its end.
    pub fn new<M, W>(make: M, spawn: impl Fn(Task) -> Task + 'static) -> Self
    where
        M: AsyncFn(Setup) -> W + 'static,
        W: Workshop,
    {
        let make = Arc::new(make);
        let make = move |setup| -> MakingWorkshop {
            let make = Arc::clone(&make);
            Box::pin(async move { Arc::new(make(setup).await) as Arc<dyn Workshop> })
        };
        Self {
            make: Box::new(make),
            spawn: Box::new(spawn),
        }
    }

    async fn place(&self, limits: Limits) -> Place {
        let clock = Arc::new(TestClock::at(START));
        let workshop = (self.make)(Setup {
            clock: clock.clone(),
            limits,
            retention: MIN_RETENTION,
        })
        .await;
        let ledger = workshop.ledger();
        let epoch = ledger.epoch().await.expect("an epoch");
        let desk = Desk {
            ledger,
            clock,
            epoch,
            _kept: Alongside(None),
        };
        Place { desk, workshop }
    }
}

struct Place {
    desk: Desk,
    workshop: Arc<dyn Workshop>,
}

impl Place {
    async fn perform(&self, claim: &Claim, number: u32, end: End) -> Performed<u32> {
        self.workshop
            .perform(claim.clone(), number, end)
            .await
            .expect("word on a step")
    }

    async fn numbers(&self) -> Vec<u32> {
        self.workshop.numbers().await.expect("the numbers")
    }

    /// What was told instead of an effect.
    async fn refused(&self, claim: &Claim) -> Claimed {
        match self.perform(claim, 99, commit(b"refused")).await {
            Performed::Not(claimed) => claimed,
            other => panic!("{other:?}, and nothing was to be performed"),
        }
    }
}

fn commit(outcome: &[u8]) -> End {
    End::Conclude(Conclusion::Commit(outcome.to_vec()))
}

fn ran(performed: &Performed<u32>, number: u32) -> bool {
    matches!(performed, Performed::Ran(value) if *value == number)
}

/// And neither happens a second time.
pub async fn effect_and_outcome_are_there_together(bench: &Effects) {
    let place = bench.place(Limits::default()).await;
    let step = place.desk.step(1);
    let performed = place.perform(&step, 1, commit(b"sent")).await;
    assert!(ran(&performed, 1), "{performed:?}");
    assert_eq!(place.numbers().await, [1]);
    assert_eq!(place.desk.lookup(&step).await, found(b"sent"));
    assert_eq!(place.refused(&step.retry()).await, settled(b"sent"));
    assert_eq!(place.refused(&step).await, settled(b"sent"), "its own too");
    assert_eq!(place.desk.claim(&step.retry()).await, settled(b"sent"));
    assert_eq!(place.numbers().await, [1]);
    assert_eq!(place.desk.count().await, (0, 1));
}

/// An error is an outcome: what was written is taken back, and the step does not run again.
pub async fn a_failed_effect_leaves_its_outcome_alone(bench: &Effects) {
    let place = bench.place(Limits::default()).await;
    let step = place.desk.step(1);
    let end = End::Conclude(Conclusion::RollBack(b"declined".to_vec()));
    let performed = place.perform(&step, 1, end).await;
    assert!(ran(&performed, 1), "{performed:?}");
    assert!(place.numbers().await.is_empty());
    assert_eq!(place.desk.lookup(&step).await, found(b"declined"));
    assert_eq!(place.refused(&step.retry()).await, settled(b"declined"));
}

/// Nothing was done, so the next one may do it.
pub async fn a_released_step_leaves_nothing(bench: &Effects) {
    let place = bench.place(Limits::default()).await;
    let step = place.desk.step(1);
    let end = End::Conclude(Conclusion::Release);
    let performed = place.perform(&step, 1, end).await;
    assert!(ran(&performed, 1), "{performed:?}");
    assert!(place.numbers().await.is_empty());
    assert_eq!(place.desk.lookup(&step).await, Found::Absent);
    let performed = place.perform(&step.retry(), 2, commit(b"sent")).await;
    assert!(ran(&performed, 2), "{performed:?}");
    assert_eq!(place.numbers().await, [2]);
}

/// Not the step, not the ledger, not what is asked at the same time.
pub async fn a_panic_leaves_nothing_and_harms_nobody(bench: &Effects) {
    let place = Arc::new(bench.place(Limits::default()).await);
    let steps: Vec<Claim> = (0..20).map(|number| place.desk.step(number)).collect();
    let tasks: Vec<Task> = (0..20)
        .zip(&steps)
        .map(|(number, step)| {
            let (place, step) = (Arc::clone(&place), step.clone());
            (bench.spawn)(Box::pin(async move {
                if number % 2 == 0 {
                    match place.perform(&step, number, End::Panic).await {
                        Performed::Panicked(payload) => {
                            assert_eq!(payload.downcast_ref::<u32>(), Some(&number));
                        }
                        other => panic!("{other:?} after a panic"),
                    }
                } else {
                    let performed = place.perform(&step, number, commit(b"sent")).await;
                    assert!(ran(&performed, number), "{performed:?}");
                }
                let round = place.desk.round(number);
                assert_eq!(place.desk.claim(&round).await, Claimed::First);
            }))
        })
        .collect();
    for task in tasks {
        task.await;
    }
    let odd: Vec<u32> = (0..20).filter(|number| number % 2 == 1).collect();
    assert_eq!(place.numbers().await, odd);
    for (number, step) in (0..20).zip(&steps) {
        if number % 2 == 0 {
            assert_eq!(place.desk.lookup(step).await, Found::Absent, "{number}");
            let performed = place.perform(&step.retry(), number, commit(b"sent")).await;
            assert!(ran(&performed, number), "{performed:?}");
        } else {
            assert_eq!(place.refused(&step.retry()).await, settled(b"sent"));
        }
    }
    assert_eq!(place.numbers().await.len(), 20);
}

/// Whatever else a claim may be told, nothing is written.
pub async fn an_effect_runs_only_if_the_claim_is_first(bench: &Effects) {
    let place = bench.place(Limits::default()).await;
    let owned = place.desk.own(place.desk.step(1)).await;
    assert!(is_in_progress(&place.refused(&owned.retry()).await));
    assert_eq!(place.refused(&owned.forked()).await, Claimed::Conflict);
    place.desk.clock.advance(LEASE);
    assert_eq!(place.refused(&owned.retry()).await, Claimed::Abandoned);

    let other_epoch = Claim {
        epoch: Epoch::from_bytes([0; 16]),
        ..place.desk.step(2)
    };
    assert_eq!(place.refused(&other_epoch).await, Claimed::StaleEpoch);
    let over = place.desk.step(3).expiring(place.desk.clock.now());
    assert_eq!(place.refused(&over).await, Claimed::Expired);
    assert!(place.numbers().await.is_empty());
    assert_eq!(place.desk.count().await, (0, 1), "refusals leave no row");

    let place = bench
        .place(Limits {
            rows_per_account: 1,
            ..Limits::NONE
        })
        .await;
    place.desk.own(place.desk.round(1)).await;
    assert_eq!(place.refused(&place.desk.step(1)).await, Claimed::Full);
    assert!(place.numbers().await.is_empty());
}

/// The round in which the step is reached is looked at in the same transaction.
pub async fn a_withdrawn_round_has_no_effect(bench: &Effects) {
    let place = bench.place(Limits::default()).await;
    let round = place.desk.own(place.desk.round(1)).await;
    let step = |number| place.desk.step(number).under(round.owner());
    let performed = place.perform(&step(1), 1, commit(b"sent")).await;
    assert!(ran(&performed, 1), "{performed:?}");
    place.desk.clock.advance(LEASE);
    assert_eq!(place.desk.lookup(&round).await, Found::Abandoned);
    assert_eq!(place.refused(&step(2)).await, Claimed::StaleOwner);
    assert_eq!(place.numbers().await, [1]);
    assert_eq!(place.desk.count().await, (1, 1));
}

/// A step that was claimed without word is performed under the same token.
pub async fn the_same_token_goes_on(bench: &Effects) {
    let place = bench.place(Limits::default()).await;
    let step = place.desk.own(place.desk.step(1)).await;
    let performed = place.perform(&step, 1, commit(b"sent")).await;
    assert!(ran(&performed, 1), "{performed:?}");
    assert_eq!(place.desk.lookup(&step).await, found(b"sent"));
    assert_eq!(place.numbers().await, [1]);
}

/// Towards the limits; and what was taken back does not.
pub async fn an_outcome_counts_like_any_other(bench: &Effects) {
    let limits = Limits {
        rows_per_account: 100,
        bytes_per_account: 10,
        ..Limits::NONE
    };
    let place = bench.place(limits).await;
    for number in 0..5 {
        let end = End::Conclude(Conclusion::Release);
        place.perform(&place.desk.step(number), number, end).await;
        let step = place.desk.step(number + 10);
        place.perform(&step, number, End::Panic).await;
    }
    let outcome = commit(&[1; 10]);
    let performed = place.perform(&place.desk.step(20), 20, outcome).await;
    assert!(ran(&performed, 20), "{performed:?}");
    assert_eq!(place.refused(&place.desk.step(21)).await, Claimed::Full);
    assert_eq!(place.numbers().await, [20]);
}

/// Only what the effect wrote is taken back when it fails; its row stays, with its outcome, and counts.
pub async fn the_row_of_a_failed_effect_counts(bench: &Effects) {
    let limits = Limits {
        rows_per_account: 3,
        ..Limits::NONE
    };
    let place = bench.place(limits).await;
    for number in 0..3 {
        let end = End::Conclude(Conclusion::RollBack(b"refused".to_vec()));
        let performed = place.perform(&place.desk.step(number), number, end).await;
        assert!(ran(&performed, number), "{performed:?}");
    }
    assert_eq!(place.desk.count().await, (0, 3));
    assert_eq!(place.refused(&place.desk.step(3)).await, Claimed::Full);
    assert_eq!(place.desk.claim(&place.desk.round(1)).await, Claimed::Full);
    // A step that was given back may keep a row or not. What it keeps, it is counted for.
    let release = End::Conclude(Conclusion::Release);
    let place = bench.place(limits).await;
    for number in 0..20 {
        let end = match number % 2 {
            0 => release.clone(),
            _ => End::Panic,
        };
        let performed = place.perform(&place.desk.step(number), number, end).await;
        if let Performed::Not(claimed) = performed {
            assert_eq!(claimed, Claimed::Full);
        }
    }
    let (_, steps) = place.desk.count().await;
    assert!(steps <= 3, "{steps} rows, and three are the limit");
    assert!(place.numbers().await.is_empty());
}

/// Whatever came of it; and a step of which nothing came is as free as before.
pub async fn asking_tells_what_came_of_a_step_and_leaves_it(bench: &Effects) {
    let place = bench.place(Limits::default()).await;
    let step = place.desk.step(1);
    let ask = async |step: &Claim| {
        let asked = place.workshop.ask(step.retry()).await;
        asked.expect("word on a step")
    };
    for _ in 0..2 {
        assert_eq!(ask(&step).await, Claimed::First);
        assert_eq!(place.desk.lookup(&step).await, Found::Absent);
    }
    let performed = place.perform(&step, 1, commit(b"sent")).await;
    assert!(ran(&performed, 1), "{performed:?}");
    assert_eq!(ask(&step).await, settled(b"sent"));
    assert_eq!(ask(&step.forked()).await, Claimed::Conflict);
    let owned = place.desk.own(place.desk.step(2)).await;
    assert!(is_in_progress(&ask(&owned).await));
    assert_eq!(place.desk.settle(&owned, b"done").await, Settled::Stored);
    assert_eq!(place.numbers().await, [1]);
}

/// As for claims, with the effects' own table as the witness.
pub async fn one_of_many_has_an_effect(bench: &Effects) {
    const TASKS: usize = 32;
    let place = Arc::new(bench.place(Limits::default()).await);
    for number in 0..50 {
        let step = place.desk.step(number);
        let effects = Arc::new(AtomicUsize::new(0));
        let tasks: Vec<Task> = (0..TASKS)
            .map(|_| {
                let (place, step) = (Arc::clone(&place), step.retry());
                let effects = Arc::clone(&effects);
                (bench.spawn)(Box::pin(async move {
                    match place.perform(&step, number, commit(b"sent")).await {
                        Performed::Ran(value) => {
                            assert_eq!(value, number);
                            effects.fetch_add(1, Ordering::SeqCst);
                        }
                        // The transaction of the other one may still be open where several run at a time.
                        Performed::Not(claimed) => assert!(
                            claimed == settled(b"sent") || is_in_progress(&claimed),
                            "{claimed:?}"
                        ),
                        Performed::Panicked(_) => panic!("nobody panics here"),
                    }
                }))
            })
            .collect();
        for task in tasks {
            task.await;
        }
        assert_eq!(effects.load(Ordering::SeqCst), 1);
    }
    assert_eq!(place.numbers().await, (0..50).collect::<Vec<_>>());
}
