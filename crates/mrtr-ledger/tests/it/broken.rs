//! Ledgers that break a rule must fail the suite, or the suite is worth nothing.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use mrtr_ledger::suite::{Bench, Setup, Task};
use mrtr_ledger::{
    Claim, Claimed, Fingerprint, Found, Kept, Kind, Ledger, LedgerFuture, Limits, MemoryLedger,
    Note, Purged, RowKey, Rows, Settled, Settlement, Token,
};
use mrtr_state::{Clock, Epoch, Timestamp};

/// What is broken.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Fault {
    None,
    AlwaysFirst,
    FailsOpen,
    NoFingerprint,
    NoEpoch,
    NoOwner,
    NoToken,
    NoLimits,
    LimitsOnEverything,
    FrozenClock,
    NoPurge,
    NoRelease,
    NoBeat,
    SettlesNothing,
    ForgetsOutcomes,
    LookupClaims,
    NothingIsAbandoned,
    NeverRunsAgain,
    AlwaysRunsAgain,
    KeepsNothing,
    KeepsWithoutOwner,
    KeepsWithoutEpoch,
    /// No fault of the contract's: it says of itself that it outlives the process.
    Lasts,
}

#[derive(Debug)]
struct Broken {
    inner: MemoryLedger,
    fault: Fault,
}

#[derive(Debug)]
struct Frozen(Timestamp);

impl Clock for Frozen {
    fn now(&self) -> Timestamp {
        self.0
    }
}

impl Broken {
    fn new(setup: Setup, fault: Fault) -> Self {
        let clock = if fault == Fault::FrozenClock {
            Arc::new(Frozen(setup.clock.now()))
        } else {
            setup.clock
        };
        let limits = if fault == Fault::NoLimits {
            Limits::NONE
        } else {
            setup.limits
        };
        let inner = MemoryLedger::new(clock)
            .unwrap()
            .with_limits(limits)
            .with_retention(setup.retention);
        Self { inner, fault }
    }
}

fn now<T: Send + 'static>(value: T) -> LedgerFuture<'static, T> {
    Box::pin(std::future::ready(Ok(value)))
}

impl Ledger for Broken {
    fn claim(&self, mut claim: Claim) -> LedgerFuture<'_, Claimed> {
        Box::pin(async move {
            match self.fault {
                Fault::AlwaysFirst => return Ok(Claimed::First),
                Fault::NoFingerprint => claim.fingerprint = Fingerprint::from_bytes([0; 32]),
                Fault::NoEpoch => claim.epoch = self.inner.epoch().await?,
                Fault::NoOwner => claim.under_round = None,
                Fault::NeverRunsAgain => claim.run_again = false,
                Fault::AlwaysRunsAgain => claim.run_again = true,
                Fault::NoToken => claim.token = Token::generate()?,
                Fault::LimitsOnEverything => claim.checks_limits = true,
                _ => {}
            }
            let claimed = self.inner.claim(claim).await?;
            Ok(match (self.fault, claimed) {
                (Fault::FailsOpen, Claimed::Full | Claimed::Expired | Claimed::StaleEpoch) => {
                    Claimed::First
                }
                (Fault::NothingIsAbandoned, Claimed::Abandoned) => Claimed::First,
                (Fault::ForgetsOutcomes, Claimed::Settled(_)) => Claimed::Settled(Vec::new()),
                (_, claimed) => claimed,
            })
        })
    }

    fn settle(
        &self,
        key: RowKey,
        token: Token,
        settlement: Settlement,
    ) -> LedgerFuture<'_, Settled> {
        match self.fault {
            Fault::SettlesNothing => now(Settled::Stored),
            _ => self.inner.settle(key, token, settlement),
        }
    }

    fn beat(&self, key: RowKey, token: Token, lease: Duration) -> LedgerFuture<'_, bool> {
        match self.fault {
            Fault::NoBeat => now(true),
            _ => self.inner.beat(key, token, lease),
        }
    }

    fn release(&self, key: RowKey, token: Token) -> LedgerFuture<'_, bool> {
        match self.fault {
            Fault::NoRelease => now(true),
            _ => self.inner.release(key, token),
        }
    }

    fn keep(&self, mut note: Note) -> LedgerFuture<'_, Kept> {
        Box::pin(async move {
            match self.fault {
                Fault::KeepsNothing => return Ok(Kept::Stored),
                Fault::KeepsWithoutOwner => note.under_round = None,
                Fault::KeepsWithoutEpoch => note.epoch = self.inner.epoch().await?,
                _ => {}
            }
            self.inner.keep(note).await
        })
    }

    fn lookup(&self, kind: Kind, key: RowKey, fingerprint: Fingerprint) -> LedgerFuture<'_, Found> {
        Box::pin(async move {
            let fingerprint = if self.fault == Fault::NoFingerprint {
                Fingerprint::from_bytes([0; 32])
            } else {
                fingerprint
            };
            if self.fault == Fault::LookupClaims {
                let (epoch, token) = (self.inner.epoch().await?, Token::generate()?);
                let account = mrtr_ledger::Account::from_bytes([0; 32]);
                let claim = match kind {
                    Kind::Round => {
                        Claim::round(key, epoch, fingerprint, account, token, Duration::ZERO)
                    }
                    Kind::Step | Kind::Note => {
                        Claim::step(key, epoch, fingerprint, account, token, Duration::ZERO)
                    }
                };
                self.inner.claim(claim).await?;
            }
            self.inner.lookup(kind, key, fingerprint).await
        })
    }

    fn purge(&self) -> LedgerFuture<'_, Purged> {
        match self.fault {
            Fault::NoPurge => now(Purged::default()),
            _ => self.inner.purge(),
        }
    }

    fn epoch(&self) -> LedgerFuture<'_, Epoch> {
        self.inner.epoch()
    }

    fn rotate_epoch(&self) -> LedgerFuture<'_, Epoch> {
        self.inner.rotate_epoch()
    }

    fn rows(&self) -> LedgerFuture<'_, Rows> {
        self.inner.rows()
    }

    fn survives_restart(&self) -> bool {
        self.fault == Fault::Lasts
    }

    fn as_any(&self) -> &dyn std::any::Any {
        self
    }
}

type Case = (
    &'static str,
    fn(Bench) -> std::pin::Pin<Box<dyn Future<Output = ()>>>,
);

macro_rules! cases {
    ($make:expr; $($module:ident :: $case:ident,)+) => {
        &[$((stringify!($case), |bench| Box::pin(async move { mrtr_ledger::suite::$module::$case(&bench).await })),)+]
    };
}

static CASES: &[Case] = mrtr_ledger::__ledger_suite_cases!([cases]());

/// The cases that a broken ledger fails.
async fn failed(fault: Fault) -> BTreeSet<&'static str> {
    let tasks = tokio::task::LocalSet::new();
    let mut failed = BTreeSet::new();
    for (name, case) in CASES {
        let spawn = |task: Task| -> Task {
            let task = tokio::spawn(task);
            Box::pin(async move { task.await.expect("a task of the suite failed") })
        };
        let bench = Bench::new(async move |setup: Setup| Broken::new(setup, fault), spawn);
        let case = tasks.spawn_local(case(bench));
        if tasks.run_until(case).await.is_err() {
            failed.insert(*name);
        }
    }
    failed
}

async fn fails(fault: Fault, cases: &[&str]) {
    let failed = failed(fault).await;
    for case in cases {
        assert!(
            failed.contains(case),
            "{case} passes with {fault:?}; what fails is {failed:?}"
        );
    }
}

/// The same wrapper without a fault passes, so that what follows is about the faults.
#[tokio::test(flavor = "multi_thread")]
async fn a_ledger_without_a_fault_passes() {
    assert_eq!(failed(Fault::None).await, BTreeSet::new());
    assert!(CASES.len() > 40);
}

/// The ledger that lets everybody run fails whatever expects one winner, one outcome or a refusal.
#[tokio::test(flavor = "multi_thread")]
async fn a_ledger_that_always_says_first_fails() {
    let must_fail = [
        "a_second_claim_is_in_progress",
        "an_outcome_is_told_to_every_retry",
        "another_fingerprint_conflicts_in_every_status",
        "an_abandoned_row_stays_abandoned",
        "a_claim_that_tells_unknown_withdraws_the_round",
        "a_step_is_told_unknown_and_settles_late",
        "a_step_needs_its_round",
        "a_step_of_a_withdrawn_round_is_refused",
        "a_step_is_one_step_in_every_round",
        "another_epoch_is_stale",
        "case_108_two_ledgers_have_two_epochs",
        "a_row_expires_when_its_time_has_come",
        "a_removed_row_is_not_claimed_again",
        "the_mark_never_falls",
        "an_account_has_a_limit_of_rows",
        "case_080_a_full_ledger_forgets_nothing",
        "one_of_many_wins",
        "no_walk_breaks_a_promise",
    ];
    fails(Fault::AlwaysFirst, &must_fail).await;
    // It can only pass by luck: nothing but a case that refuses nothing.
    let passed = CASES.len() - failed(Fault::AlwaysFirst).await.len();
    assert!(
        // Two of rounds and steps, and those that are about notes alone.
        passed <= 6,
        "{passed} cases pass with a ledger that always says First"
    );
}

/// A ledger that says `First` where it has no other word fails too.
#[tokio::test(flavor = "multi_thread")]
async fn a_ledger_that_fails_open_fails() {
    let must_fail = [
        "an_account_has_a_limit_of_rows",
        "a_row_expires_when_its_time_has_come",
        "another_epoch_is_stale",
    ];
    fails(Fault::FailsOpen, &must_fail).await;
    fails(
        Fault::NothingIsAbandoned,
        &[
            "an_abandoned_row_stays_abandoned",
            "no_walk_breaks_a_promise",
        ],
    )
    .await;
}

/// Each part of a claim counts.
#[tokio::test(flavor = "multi_thread")]
async fn a_ledger_that_ignores_a_part_of_the_claim_fails() {
    fails(
        Fault::NoFingerprint,
        &["another_fingerprint_conflicts_in_every_status"],
    )
    .await;
    fails(
        Fault::NoEpoch,
        &[
            "another_epoch_is_stale",
            "a_rotated_epoch_ends_what_was_open",
        ],
    )
    .await;
    let steps = [
        "a_step_needs_its_round",
        "a_step_of_a_finished_round_is_refused",
        "no_walk_breaks_a_promise",
    ];
    fails(Fault::NoOwner, &steps).await;
    fails(
        Fault::NoToken,
        &[
            "the_same_token_is_first_again",
            "case_098_the_first_settlement_stands",
        ],
    )
    .await;
    fails(
        Fault::NoLimits,
        &[
            "an_account_has_a_limit_of_bytes",
            "the_ledger_has_limits_of_its_own",
        ],
    )
    .await;
    fails(
        Fault::LimitsOnEverything,
        &["what_has_begun_is_never_refused"],
    )
    .await;
}

/// Each operation does what it says.
#[tokio::test(flavor = "multi_thread")]
async fn a_ledger_with_an_operation_that_does_nothing_fails() {
    fails(
        Fault::FrozenClock,
        &[
            "a_lease_lapses_at_its_end_and_not_before",
            "case_082_rows_stay_through_the_retention",
        ],
    )
    .await;
    fails(
        Fault::NoPurge,
        &[
            "case_100_a_purge_takes_as_many_batches_as_it_needs",
            "case_082_rows_stay_through_the_retention",
        ],
    )
    .await;
    fails(
        Fault::NoRelease,
        &[
            "a_released_row_is_for_the_same_retry",
            "only_the_owner_releases",
        ],
    )
    .await;
    fails(
        Fault::NoBeat,
        &["a_beat_renews_and_never_shortens", "only_the_owner_settles"],
    )
    .await;
    fails(
        Fault::SettlesNothing,
        &[
            "an_outcome_is_told_to_every_retry",
            "only_the_owner_settles",
        ],
    )
    .await;
    fails(
        Fault::ForgetsOutcomes,
        &["an_outcome_is_told_to_every_retry", "one_of_many_wins"],
    )
    .await;
    fails(Fault::LookupClaims, &["a_lookup_does_not_claim"]).await;
}

/// To run again is said by the claim, neither more nor less.
#[tokio::test(flavor = "multi_thread")]
async fn a_ledger_that_runs_again_as_it_likes_fails() {
    fails(
        Fault::NeverRunsAgain,
        &[
            "a_lost_round_runs_again_where_that_was_said",
            "an_abandoned_round_runs_again",
        ],
    )
    .await;
    fails(
        Fault::AlwaysRunsAgain,
        &[
            "a_claim_that_tells_unknown_withdraws_the_round",
            "a_released_take_over_is_not_free_again",
        ],
    )
    .await;
}

/// Notes keep every rule that claims keep.
#[tokio::test(flavor = "multi_thread")]
async fn a_ledger_that_keeps_notes_badly_fails() {
    fails(
        Fault::KeepsNothing,
        &[
            "a_note_is_read_by_whoever_matches",
            "the_first_value_stands",
        ],
    )
    .await;
    fails(
        Fault::KeepsWithoutOwner,
        &[
            "a_note_needs_its_round",
            "the_owner_that_was_lost_is_withdrawn",
        ],
    )
    .await;
    fails(
        Fault::KeepsWithoutEpoch,
        &["a_note_of_another_epoch_is_stale"],
    )
    .await;
}

/// Behind an `Arc` it is the same ledger, in what it says of itself too.
#[test]
fn a_shared_ledger_is_the_ledger() {
    for (fault, lasts) in [(Fault::Lasts, true), (Fault::None, false)] {
        let setup = Setup {
            clock: Arc::new(Frozen(Timestamp::from_millis(1))),
            limits: Limits::NONE,
            retention: Duration::from_secs(60),
        };
        let shared = Arc::new(Broken::new(setup, fault));
        let ledger: Box<dyn Ledger> = Box::new(Arc::clone(&shared));
        assert_eq!(ledger.survives_restart(), lasts);
        let inside = ledger.as_any().downcast_ref::<Broken>().unwrap();
        assert!(std::ptr::eq(inside, shared.as_ref()));
    }
}
