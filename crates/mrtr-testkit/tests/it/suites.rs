//! What takes a guard off fails the suite of what it stands in for: a suite that cannot fail checks nothing.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use mrtr_ledger::suite::{Bench, Setup, Task};
use mrtr_ledger::{Ledger, MemoryLedger};
use mrtr_state::StateCodec;
use mrtr_state::suite::{self, Make};
use mrtr_state_aead::AeadCodec;
use mrtr_state_hmac::HmacCodec;
use mrtr_testkit::guards::{AlwaysFirst, AnyPrincipal, AnyRequest, UnsealedCodec};

fn failed_of_codec(make: Make<'_>) -> Vec<&'static str> {
    suite::ALL
        .iter()
        .filter(|(_, test)| catch_unwind(AssertUnwindSafe(|| test(make))).is_err())
        .map(|(name, _)| *name)
        .collect()
}

#[test]
fn the_codecs_that_are_wrapped_pass() {
    let none: [&str; 0] = [];
    let hmac = |ring| HmacCodec::new(ring).unwrap();
    let aead = |ring| AeadCodec::new(ring).unwrap();
    assert_eq!(failed_of_codec(&suite::make(hmac)), none);
    assert_eq!(failed_of_codec(&suite::make(aead)), none);
}

#[test]
fn the_codec_that_seals_nothing_fails() {
    let make = |ring| UnsealedCodec::in_place_of(&HmacCodec::new(ring).unwrap());
    let failed = failed_of_codec(&suite::make(make));
    for name in [
        "refuses_every_other_character",
        "refuses_other_spellings",
        "refuses_a_wrong_seal_whatever_is_under_it",
        "refuses_segments_of_two_tokens_mixed",
        "refuses_other_versions_and_variants",
        "refuses_other_keys",
        "keeps_purposes_apart",
        "refuses_changed_states",
    ] {
        assert!(failed.contains(&name), "{name} must fail: {failed:?}");
    }
    // What does not depend on a seal still works, so that the other guards can be looked at by themselves.
    for name in [
        "opens_what_it_sealed",
        "gives_back_all_claims",
        "binds_the_principal",
        "binds_the_request",
        "binds_the_audience",
        "expires_to_the_millisecond",
    ] {
        assert!(!failed.contains(&name), "{name} must pass");
    }
}

#[test]
fn a_codec_without_a_binding_fails_where_that_binding_counts() {
    fn failed<C: StateCodec>(wrap: impl Fn(Arc<dyn StateCodec>) -> C) -> Vec<&'static str> {
        let hmac = failed_of_codec(&suite::make(|ring| {
            wrap(Arc::new(HmacCodec::new(ring).unwrap()))
        }));
        let aead = failed_of_codec(&suite::make(|ring| {
            wrap(Arc::new(AeadCodec::new(ring).unwrap()))
        }));
        assert_eq!(hmac, aead);
        hmac
    }
    let any_principal = failed(AnyPrincipal::new);
    assert!(any_principal.contains(&"binds_the_principal"));
    assert!(!any_principal.contains(&"binds_the_request"));
    let any_request = failed(AnyRequest::new);
    assert!(any_request.contains(&"binds_the_request"));
    assert!(!any_request.contains(&"binds_the_principal"));
    // The seal and the times are whole in both.
    for name in [
        "refuses_every_other_character",
        "refuses_other_keys",
        "expires_to_the_millisecond",
    ] {
        assert!(!any_principal.contains(&name), "{name} must pass");
        assert!(!any_request.contains(&name), "{name} must pass");
    }
}

/// Names each case of the ledger suite that fails for what `$make` makes, and each that passes.
macro_rules! verdicts {
    ($make:expr; $($module:ident :: $case:ident,)+) => {{
        let mut failed: Vec<&str> = Vec::new();
        let mut passed: Vec<&str> = Vec::new();
        $(
            let verdict = std::thread::spawn(|| {
                let runtime = tokio::runtime::Builder::new_multi_thread()
                    .worker_threads(2)
                    .enable_time()
                    .build()
                    .unwrap();
                let spawn = |task| -> Task {
                    let task = tokio::spawn(task);
                    Box::pin(async move { task.await.expect("a task of the suite failed") })
                };
                runtime.block_on(mrtr_ledger::suite::$module::$case(&Bench::new($make, spawn)));
            });
            match verdict.join() {
                Ok(()) => passed.push(stringify!($case)),
                Err(_) => failed.push(stringify!($case)),
            }
        )+
        (passed, failed)
    }};
}

fn memory(setup: Setup) -> impl Ledger {
    MemoryLedger::new(setup.clock)
        .unwrap()
        .with_limits(setup.limits)
        .with_retention(setup.retention)
}

#[test]
fn the_ledger_that_always_says_first_fails() {
    let (_, failed) =
        mrtr_ledger::__ledger_suite_cases!([verdicts] async |setup: Setup| memory(setup));
    assert!(failed.is_empty(), "the ledger inside must pass: {failed:?}");

    let (passed, failed) = mrtr_ledger::__ledger_suite_cases!([verdicts] async |setup: Setup| {
        AlwaysFirst::new(memory(setup))
    });
    for name in [
        "a_second_claim_is_in_progress",
        "an_outcome_is_told_to_every_retry",
        "another_fingerprint_conflicts_in_every_status",
        "a_step_is_one_step_in_every_round",
        "a_row_expires_when_its_time_has_come",
        "one_of_many_wins",
    ] {
        assert!(failed.contains(&name), "{name} must fail: {failed:?}");
    }
    // What passes is what a ledger without a memory gets right by chance, and what is about notes alone, which it keeps.
    let by_chance = passed.iter().filter(|name| !name.contains("note"));
    assert!(by_chance.count() < 4, "{passed:?}");
}
