//! Two ledgers on one file: what one of them knows of it ends when the other commits.

use std::time::Duration;

use mrtr_ledger::{
    Claim, Claimed, Ledger as _, Limits, MIN_RETENTION, RowKey, Settled, Settlement,
};
use mrtr_state::Timestamp;

use crate::bench::{Place, START, round};

/// Rows and bytes that one has added, the other one counts, at once and to the last.
#[tokio::test]
async fn limits_are_kept_together() {
    let place = Place::new();
    let limits = Limits {
        rows_per_account: 5,
        bytes_per_account: 20,
        ..Limits::NONE
    };
    let open = || place.builder().limits(limits).open().unwrap();
    let (one, other) = (open(), open());
    let epoch = one.epoch().await.unwrap();
    let mut number = 0;
    for ledger in [&one, &other, &one, &other, &one] {
        number += 1;
        assert_eq!(
            ledger.claim(round(epoch, number)).await.unwrap(),
            Claimed::First
        );
    }
    for ledger in [&one, &other] {
        let claimed = ledger.claim(round(epoch, 9)).await.unwrap();
        assert_eq!(claimed, Claimed::Full, "five rows are there");
    }

    let place = Place::new();
    let limits = Limits {
        rows_per_account: 100,
        ..limits
    };
    let open = || place.builder().limits(limits).open().unwrap();
    let (one, other) = (open(), open());
    let epoch = one.epoch().await.unwrap();
    for (number, ledger) in (1..).zip([&one, &other]) {
        let claim = round(epoch, number);
        assert_eq!(ledger.claim(claim.clone()).await.unwrap(), Claimed::First);
        let settled = ledger
            .settle(claim.key, claim.token, Settlement::Outcome(vec![0; 10]))
            .await
            .unwrap();
        assert_eq!(settled, Settled::Stored);
    }
    for ledger in [&one, &other] {
        let claimed = ledger.claim(round(epoch, 9)).await.unwrap();
        assert_eq!(claimed, Claimed::Full, "twenty bytes are there");
    }
}

/// A mark that one has raised, the other one goes by.
#[tokio::test]
async fn marks_are_kept_together() {
    let place = Place::new();
    let (one, other) = (place.open(), place.open());
    let epoch = one.epoch().await.unwrap();
    let soon = |number| -> Claim {
        let mut claim = round(epoch, number);
        let expiry = Timestamp::from_millis(START + 1_000);
        claim.key = RowKey {
            expiry,
            ..claim.key
        };
        claim.lease = Duration::ZERO;
        claim
    };
    // Both have read epoch and marks.
    for (number, ledger) in (1..).zip([&one, &other]) {
        assert_eq!(ledger.claim(soon(number)).await.unwrap(), Claimed::First);
    }
    place.clock.advance(MIN_RETENTION * 20);
    assert_eq!(one.purge().await.unwrap().rounds, 2);
    place.clock.set(Timestamp::from_millis(START));
    for ledger in [&other, &one] {
        assert_eq!(ledger.claim(soon(1)).await.unwrap(), Claimed::Expired);
    }
}
