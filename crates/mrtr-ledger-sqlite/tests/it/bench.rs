//! What the tests share: a folder with a ledger, and claims on it.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use mrtr_ledger::suite::TestClock;
use mrtr_ledger::{
    Account, Claim, Claimed, Fingerprint, Ledger as _, RowKey, Settled, Settlement, Token,
};
use mrtr_ledger_sqlite::{Builder, SqliteLedger};
use mrtr_state::{Epoch, Timestamp};

pub(crate) const START: u64 = 1_700_000_000_000;
pub(crate) const LEASE: Duration = Duration::from_secs(30);

/// Beyond every clock of these tests, the host's included.
pub(crate) const FAR: Timestamp = Timestamp::from_millis(32_503_680_000_000);

pub(crate) struct Place {
    folder: tempfile::TempDir,
    pub(crate) clock: Arc<TestClock>,
}

impl Place {
    pub(crate) fn new() -> Self {
        Self {
            folder: tempfile::tempdir().unwrap(),
            clock: Arc::new(TestClock::at(START)),
        }
    }

    pub(crate) fn file(&self) -> PathBuf {
        self.named("ledger.sqlite")
    }

    pub(crate) fn named(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// The file, its log, and the log's index.
    pub(crate) fn files(&self) -> [PathBuf; 3] {
        ["ledger.sqlite", "ledger.sqlite-wal", "ledger.sqlite-shm"].map(|name| self.named(name))
    }

    pub(crate) fn builder(&self) -> Builder {
        SqliteLedger::builder(self.file()).clock(self.clock.clone())
    }

    pub(crate) fn open(&self) -> SqliteLedger {
        self.builder().open().unwrap()
    }
}

pub(crate) fn round(epoch: Epoch, number: u64) -> Claim {
    let mut hash = [7; 32];
    hash[..8].copy_from_slice(&number.to_be_bytes());
    let key = RowKey { expiry: FAR, hash };
    let fingerprint = Fingerprint::from_bytes([1; 32]);
    Claim::round(
        key,
        epoch,
        fingerprint,
        Account::from_bytes([2; 32]),
        Token::generate().unwrap(),
        LEASE,
    )
}

/// The same request, by another run.
pub(crate) fn retry(claim: &Claim) -> Claim {
    Claim::round(
        claim.key,
        claim.epoch,
        claim.fingerprint,
        claim.account,
        Token::generate().unwrap(),
        claim.lease,
    )
}

/// Claims a round of the present epoch and settles it.
pub(crate) async fn paid(ledger: &SqliteLedger, number: u64) -> Claim {
    let claim = round(ledger.epoch().await.unwrap(), number);
    assert_eq!(ledger.claim(claim.clone()).await.unwrap(), Claimed::First);
    let settlement = Settlement::Outcome(b"paid".to_vec());
    assert_eq!(
        ledger
            .settle(claim.key, claim.token, settlement)
            .await
            .unwrap(),
        Settled::Stored
    );
    claim
}

pub(crate) fn settled() -> Claimed {
    Claimed::Settled(b"paid".to_vec())
}
