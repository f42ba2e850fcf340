//! The tests that every ledger passes: [`ledger_suite!`](crate::ledger_suite) turns them into `#[tokio::test]`s.
//!
//! Each test is also an async function, in the module of its subject, to be called by hand. They all start from an
//! empty ledger made by a factory from a [`Setup`], go by its [`TestClock`], and never sleep. A rule of the contract
//! that is turned around makes at least one of them fail.

#![allow(
    clippy::missing_panics_doc,
    reason = "they are tests: they panic when the ledger breaks the contract"
)]
#![allow(
    clippy::indexing_slicing,
    reason = "an index that is out of range is a failed test"
)]

use std::any::Any;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use mrtr_state::{Clock, Epoch, Timestamp};

use crate::{
    Account, Claim, Claimed, Fingerprint, Found, Kept, Kind, Ledger, Limits, MIN_RETENTION, Note,
    Owner, RowKey, Rows, Settled, Settlement, Token,
};

pub mod claims;
pub mod effects;
pub mod epochs;
pub mod leases;
pub mod limits;
pub mod notes;
pub mod purges;
pub mod races;
pub mod steps;
pub mod takeovers;
pub mod walks;

/// Makes a `#[tokio::test]` of every test in the [suite](crate::suite).
///
/// The argument is a factory: an async closure from a [`Setup`](crate::suite::Setup) to an **empty** ledger, or to a
/// [`Made`](crate::suite::Made) that keeps something beside it (a temporary directory). The calling crate needs tokio's
/// `macros` and `rt-multi-thread`.
///
/// ```
/// mod memory {
///     use mrtr_ledger::{MemoryLedger, suite::Setup};
///
///     mrtr_ledger::ledger_suite!(async |setup: Setup| {
///         MemoryLedger::new(setup.clock).unwrap().with_limits(setup.limits).with_retention(setup.retention)
///     });
/// }
/// # fn main() {}
/// ```
#[macro_export]
macro_rules! ledger_suite {
    ($make:expr) => {
        $crate::__ledger_suite_cases! { [$crate::__ledger_suite_test] $make }
    };
}

/// Every case of the suite, handed to a macro of the form `name!(factory; module::case, ..)`.
#[doc(hidden)]
#[macro_export]
macro_rules! __ledger_suite_cases {
    ([$($with:tt)+] $make:expr) => {
        $($with)+! { $make;
            claims::a_second_claim_is_in_progress,
            claims::an_outcome_is_told_to_every_retry,
            claims::an_outcome_may_be_empty_or_large,
            claims::the_same_token_is_first_again,
            claims::another_fingerprint_conflicts_in_every_status,
            claims::rounds_and_steps_do_not_share_rows,
            claims::only_the_owner_settles,
            claims::case_098_the_first_claim_stands,
            claims::case_098_the_first_settlement_stands,
            claims::an_abandoned_row_stays_abandoned,
            claims::a_released_row_is_for_the_same_retry,
            claims::only_the_owner_releases,
            claims::a_lookup_does_not_claim,
            leases::a_lapsed_lease_alone_withdraws_nothing,
            leases::a_claim_that_tells_unknown_withdraws_the_round,
            leases::a_lookup_that_tells_unknown_withdraws_the_round,
            leases::a_lease_lapses_at_its_end_and_not_before,
            leases::a_beat_renews_and_never_shortens,
            leases::a_step_is_told_unknown_and_settles_late,
            takeovers::a_lost_round_runs_again_where_that_was_said,
            takeovers::a_running_round_is_not_taken_over,
            takeovers::the_owner_that_was_lost_is_withdrawn,
            takeovers::an_abandoned_round_runs_again,
            takeovers::a_released_take_over_is_not_free_again,
            takeovers::a_step_is_never_taken_over,
            takeovers::a_take_over_has_one_winner,
            takeovers::a_take_over_minds_epoch_expiry_and_answer,
            steps::a_step_needs_its_round,
            steps::a_step_of_a_lapsed_round_runs_until_somebody_is_told,
            steps::a_step_of_a_withdrawn_round_is_refused,
            steps::a_step_of_a_finished_round_is_refused,
            steps::a_stale_owner_leaves_no_row,
            steps::a_step_is_one_step_in_every_round,
            epochs::another_epoch_is_stale,
            epochs::a_rotated_epoch_ends_what_was_open,
            epochs::a_rotated_epoch_forgets_the_marks,
            epochs::case_108_two_ledgers_have_two_epochs,
            purges::a_row_expires_when_its_time_has_come,
            purges::case_082_rows_stay_through_the_retention,
            purges::a_removed_row_is_not_claimed_again,
            purges::case_084_the_mark_is_what_was_removed_and_never_the_clock,
            purges::the_mark_never_falls,
            purges::case_100_a_running_lease_keeps_its_row,
            purges::case_100_a_purge_takes_as_many_batches_as_it_needs,
            limits::an_account_has_a_limit_of_rows,
            limits::an_account_has_a_limit_of_bytes,
            limits::the_ledger_has_limits_of_its_own,
            limits::what_has_begun_is_never_refused,
            limits::expired_rows_do_not_count,
            limits::case_080_a_full_ledger_forgets_nothing,
            notes::a_note_is_read_by_whoever_matches,
            notes::the_first_value_stands,
            notes::a_note_needs_its_round,
            notes::a_note_is_refused_when_its_time_is_over,
            notes::a_note_of_another_epoch_is_stale,
            notes::notes_count_and_are_purged,
            notes::a_note_is_never_claimed,
            notes::notes_share_no_row_and_no_mark_with_others,
            races::one_of_many_wins,
            races::withdrawal_and_settlement_never_both_happen,
            races::a_step_never_starts_after_its_round_was_withdrawn,
            walks::no_walk_breaks_a_promise,
        }
    };
}

#[doc(hidden)]
#[macro_export]
macro_rules! __ledger_suite_test {
    ($make:expr; $($module:ident :: $case:ident,)+) => {
        $(
            #[tokio::test(flavor = "multi_thread", worker_threads = 4)]
            async fn $case() {
                let spawn = |task| -> $crate::suite::Task {
                    let task = tokio::spawn(task);
                    Box::pin(async move { task.await.expect("a task of the suite failed") })
                };
                $crate::suite::$module::$case(&$crate::suite::Bench::new($make, spawn)).await;
            }
        )+
    };
}

/// What a factory makes a ledger from.
#[derive(Clone, Debug)]
pub struct Setup {
    /// The clock to go by.
    pub clock: Arc<dyn Clock>,
    /// The limits to keep.
    pub limits: Limits,
    /// The retention to keep. At least [`MIN_RETENTION`].
    pub retention: Duration,
}

/// A ledger for one test, and what must live as long as it.
#[derive(Debug)]
pub struct Made {
    ledger: Arc<dyn Ledger>,
    kept: Alongside,
}

struct Alongside(Option<Box<dyn Any + Send + Sync>>);

impl std::fmt::Debug for Alongside {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Alongside({})", self.0.is_some())
    }
}

impl Made {
    /// This ledger, and something that is dropped after it.
    pub fn keeping(ledger: impl Ledger, kept: impl Any + Send + Sync) -> Self {
        Self {
            ledger: Arc::new(ledger),
            kept: Alongside(Some(Box::new(kept))),
        }
    }
}

impl<L: Ledger> From<L> for Made {
    fn from(ledger: L) -> Self {
        Self {
            ledger: Arc::new(ledger),
            kept: Alongside(None),
        }
    }
}

/// A clock that is set by hand.
#[derive(Debug)]
pub struct TestClock(AtomicU64);

impl TestClock {
    /// Stands at this many milliseconds since the Unix epoch.
    #[must_use]
    pub const fn at(millis: u64) -> Self {
        Self(AtomicU64::new(millis))
    }

    /// Sets it, forwards or back.
    pub fn set(&self, now: Timestamp) {
        self.0.store(now.as_millis(), Ordering::SeqCst);
    }

    /// Moves it forwards.
    pub fn advance(&self, by: Duration) {
        self.set(self.now().saturating_add(by));
    }
}

impl Clock for TestClock {
    fn now(&self) -> Timestamp {
        Timestamp::from_millis(self.0.load(Ordering::SeqCst))
    }
}

/// A task that was spawned, or is to be.
pub type Task = Pin<Box<dyn Future<Output = ()> + Send>>;

type Making = Pin<Box<dyn Future<Output = Made>>>;

/// Where a test gets its ledgers and its parallel tasks from.
pub struct Bench {
    make: Box<dyn Fn(Setup) -> Making>,
    spawn: Box<dyn Fn(Task) -> Task>,
}

impl std::fmt::Debug for Bench {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Bench").finish_non_exhaustive()
    }
}

impl Bench {
    /// `spawn` starts a task beside the caller and returns a future of its end.
    pub fn new<M, L>(make: M, spawn: impl Fn(Task) -> Task + 'static) -> Self
    where
        M: AsyncFn(Setup) -> L + 'static,
        L: Into<Made> + 'static,
    {
        let make = Arc::new(make);
        let make = move |setup| -> Making {
            let make = Arc::clone(&make);
            Box::pin(async move { make(setup).await.into() })
        };
        Self {
            make: Box::new(make),
            spawn: Box::new(spawn),
        }
    }

    async fn desk(&self) -> Desk {
        self.desk_with(Limits::default(), MIN_RETENTION).await
    }

    async fn desk_with(&self, limits: Limits, retention: Duration) -> Desk {
        let clock = Arc::new(TestClock::at(START));
        let made = (self.make)(Setup {
            clock: clock.clone(),
            limits,
            retention,
        })
        .await;
        let epoch = made.ledger.epoch().await.expect("an epoch");
        Desk {
            ledger: made.ledger,
            clock,
            epoch,
            _kept: made.kept,
        }
    }
}

const START: u64 = 1_700_000_000_000;
const LEASE: Duration = Duration::from_secs(30);
const LIFETIME: Duration = Duration::from_secs(600);
const MS: Duration = Duration::from_millis(1);

/// One ledger, its clock, and short names for what tests do with it.
struct Desk {
    ledger: Arc<dyn Ledger>,
    clock: Arc<TestClock>,
    epoch: Epoch,
    // Dropped last.
    _kept: Alongside,
}

impl Desk {
    /// A round that expires ten minutes after the start; the number tells rounds apart.
    fn round(&self, number: u32) -> Claim {
        let expiry = Timestamp::from_millis(START).saturating_add(LIFETIME);
        Claim::round(
            key(expiry, number),
            self.epoch,
            fingerprint(0),
            account(0),
            token(),
            LEASE,
        )
    }

    /// A step that expires with its flow, an hour after the start.
    fn step(&self, number: u32) -> Claim {
        let expiry = Timestamp::from_millis(START).saturating_add(LIFETIME * 6);
        Claim::step(
            key(expiry, number),
            self.epoch,
            fingerprint(0),
            account(0),
            token(),
            LEASE,
        )
    }

    /// A note that expires like a step.
    fn note(&self, number: u32, value: &[u8]) -> Note {
        let Claim {
            key,
            epoch,
            fingerprint,
            account,
            ..
        } = self.step(number);
        Note::new(key, epoch, fingerprint, account, value.to_vec())
    }

    async fn keep(&self, note: &Note) -> Kept {
        self.ledger
            .keep(note.clone())
            .await
            .expect("word on a note")
    }

    async fn read(&self, note: &Note) -> Found {
        self.ledger
            .lookup(Kind::Note, note.key, note.fingerprint)
            .await
            .expect("word on a lookup")
    }

    async fn claim(&self, claim: &Claim) -> Claimed {
        self.ledger
            .claim(claim.clone())
            .await
            .expect("word on a claim")
    }

    /// Claims, and proves that it was the first.
    async fn own(&self, claim: Claim) -> Claim {
        assert_eq!(self.claim(&claim).await, Claimed::First);
        claim
    }

    async fn settle(&self, claim: &Claim, outcome: &[u8]) -> Settled {
        let settlement = Settlement::Outcome(outcome.to_vec());
        self.ledger
            .settle(claim.key, claim.token, settlement)
            .await
            .expect("word on a settlement")
    }

    async fn abandon(&self, claim: &Claim) -> Settled {
        self.ledger
            .settle(claim.key, claim.token, Settlement::Abandoned)
            .await
            .expect("word on a settlement")
    }

    async fn beat(&self, claim: &Claim, lease: Duration) -> bool {
        self.ledger
            .beat(claim.key, claim.token, lease)
            .await
            .expect("word on a beat")
    }

    async fn release(&self, claim: &Claim) -> bool {
        self.ledger
            .release(claim.key, claim.token)
            .await
            .expect("word on a release")
    }

    async fn lookup(&self, claim: &Claim) -> Found {
        self.ledger
            .lookup(claim.kind, claim.key, claim.fingerprint)
            .await
            .expect("word on a lookup")
    }

    async fn purge(&self) -> (u64, u64) {
        let purged = self.ledger.purge().await.expect("word on a purge");
        (purged.rounds, purged.steps)
    }

    async fn rows(&self) -> Rows {
        self.ledger.rows().await.expect("a count")
    }

    async fn count(&self) -> (u64, u64) {
        let rows = self.rows().await;
        (rows.rounds, rows.steps)
    }
}

impl Claim {
    /// The same request and answers, by another run.
    fn retry(&self) -> Claim {
        Claim {
            token: token(),
            ..self.clone()
        }
    }

    /// The same state with another answer.
    fn forked(&self) -> Claim {
        Claim {
            fingerprint: fingerprint(1),
            ..self.retry()
        }
    }

    fn by(self, who: u8) -> Claim {
        Claim {
            account: account(who),
            ..self
        }
    }

    fn expiring(self, expiry: Timestamp) -> Claim {
        Claim {
            key: RowKey { expiry, ..self.key },
            ..self
        }
    }

    fn owner(&self) -> Owner {
        Owner {
            key: self.key,
            token: self.token,
        }
    }
}

fn key(expiry: Timestamp, number: u32) -> RowKey {
    let mut hash = [0x5a; 32];
    let (head, _) = hash.split_at_mut(4);
    head.copy_from_slice(&number.to_be_bytes());
    RowKey { expiry, hash }
}

fn fingerprint(which: u8) -> Fingerprint {
    Fingerprint::from_bytes([which; 32])
}

fn account(who: u8) -> Account {
    Account::from_bytes([who; 32])
}

fn token() -> Token {
    Token::generate().expect("random bytes")
}

fn settled(outcome: &[u8]) -> Claimed {
    Claimed::Settled(outcome.to_vec())
}

fn found(outcome: &[u8]) -> Found {
    Found::Settled(outcome.to_vec())
}

fn is_in_progress(claimed: &Claimed) -> bool {
    matches!(claimed, Claimed::InProgress { .. })
}
