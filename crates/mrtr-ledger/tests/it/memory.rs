//! The memory ledger passes the suite, and stays bounded on its own.

use std::sync::Arc;
use std::time::Duration;

use mrtr_ledger::suite::{Setup, TestClock};
use mrtr_ledger::{
    Account, Claim, Claimed, Fingerprint, Ledger as _, MIN_RETENTION, MemoryLedger, RowKey, Token,
};
use mrtr_state::Clock as _;

mrtr_ledger::ledger_suite!(async |setup: Setup| {
    MemoryLedger::new(setup.clock)
        .unwrap()
        .with_limits(setup.limits)
        .with_retention(setup.retention)
});

/// Without a single call of `purge`, what has expired goes as new claims come.
#[tokio::test]
async fn case_101_a_ledger_that_nobody_purges_stays_bounded() {
    let clock = Arc::new(TestClock::at(1_700_000_000_000));
    let ledger = MemoryLedger::new(clock.clone())
        .unwrap()
        .with_retention(MIN_RETENTION);
    let epoch = ledger.epoch().await.unwrap();
    let mut most = 0;
    for number in 0..5_000_u64 {
        clock.advance(Duration::from_millis(500));
        let mut hash = [0; 32];
        hash[..8].copy_from_slice(&number.to_be_bytes());
        let key = RowKey {
            expiry: clock.now().saturating_add(Duration::from_secs(1)),
            hash,
        };
        let (print, account) = (
            Fingerprint::from_bytes([0; 32]),
            Account::from_bytes([0; 32]),
        );
        let claim = Claim::round(
            key,
            epoch,
            print,
            account,
            Token::generate().unwrap(),
            Duration::from_secs(1),
        );
        assert_eq!(ledger.claim(claim).await.unwrap(), Claimed::First);
        most = most.max(ledger.rows().await.unwrap().rounds);
    }
    // One a half second, kept for a second and a minute.
    assert!((100..=130).contains(&most), "{most} rows");
}

/// A retention below the skew would let a server whose clock is behind miss a row.
#[tokio::test]
async fn a_retention_below_the_skew_counts_as_the_skew() {
    let clock = Arc::new(TestClock::at(1_700_000_000_000));
    let ledger = MemoryLedger::new(clock.clone())
        .unwrap()
        .with_retention(Duration::ZERO);
    let key = RowKey {
        expiry: clock.now().saturating_add(Duration::from_secs(1)),
        hash: [0; 32],
    };
    let (print, account) = (
        Fingerprint::from_bytes([0; 32]),
        Account::from_bytes([0; 32]),
    );
    let epoch = ledger.epoch().await.unwrap();
    let claim = Claim::round(
        key,
        epoch,
        print,
        account,
        Token::generate().unwrap(),
        Duration::ZERO,
    );
    assert_eq!(ledger.claim(claim).await.unwrap(), Claimed::First);
    clock.set(key.expiry.saturating_add(MIN_RETENTION));
    assert_eq!(ledger.purge().await.unwrap().rounds, 0);
    clock.advance(Duration::from_millis(1));
    assert_eq!(ledger.purge().await.unwrap().rounds, 1);
}
