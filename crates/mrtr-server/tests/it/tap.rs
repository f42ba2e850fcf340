//! A ledger that can be made to misbehave.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use mrtr_ledger::{
    Claim, Claimed, Fingerprint, Found, Kept, Kind, Ledger, LedgerError, LedgerFuture,
    MemoryLedger, Note, Purged, RowKey, Rows, Settled, Settlement, Token,
};
use mrtr_server::ServerBuilder;
use mrtr_state::Epoch;

use crate::bank::Bank;

/// A bank on a ledger that can be made to misbehave.
pub(crate) fn tapped(change: impl FnOnce(ServerBuilder) -> ServerBuilder) -> (Bank, Arc<Tap>) {
    let mut tap = None;
    let clock = Bank::new().clock;
    let mut bank = Bank::with(|builder| {
        let ledger = Tap::new(clock.clone());
        tap = Some(Arc::clone(&ledger));
        change(builder.clock(clock.clone()).ledger(ledger))
    });
    bank.clock = clock;
    (bank, tap.unwrap())
}

/// How a part of a [`Tap`] behaves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mode {
    Speaks,
    /// Does nothing and gives no word.
    Silent,
    /// Does it and gives no word.
    LosesItsWord,
    Closed,
    /// Does nothing, and has this the matter.
    Fails(Broken),
}

/// What can be the matter with a ledger.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Broken {
    Busy,
    StorageFull,
    ReadOnly,
    Corrupt,
    Vanished,
    Closed,
    Unavailable,
}

impl Broken {
    pub(crate) const ALL: [Self; 7] = [
        Self::Busy,
        Self::StorageFull,
        Self::ReadOnly,
        Self::Corrupt,
        Self::Vanished,
        Self::Closed,
        Self::Unavailable,
    ];

    fn error(self) -> LedgerError {
        match self {
            Self::Busy => LedgerError::Busy,
            Self::StorageFull => LedgerError::StorageFull,
            Self::ReadOnly => LedgerError::ReadOnly,
            Self::Corrupt => LedgerError::Corrupt,
            Self::Vanished => LedgerError::Vanished,
            Self::Closed => LedgerError::Closed,
            Self::Unavailable => LedgerError::Unavailable("a fault of its own".into()),
        }
    }
}

/// A mode that can change after a number of calls.
#[derive(Debug)]
pub(crate) struct Switch(Mutex<(Mode, Option<(usize, Mode)>)>);

impl Switch {
    fn new() -> Self {
        Self(Mutex::new((Mode::Speaks, None)))
    }

    pub(crate) fn set(&self, mode: Mode) {
        *self.0.lock().unwrap() = (mode, None);
    }

    /// From the call after the next `calls` on.
    pub(crate) fn after(&self, calls: usize, mode: Mode) {
        self.0.lock().unwrap().1 = Some((calls, mode));
    }

    fn next(&self) -> Mode {
        let mut switch = self.0.lock().unwrap();
        if let Some((left, mode)) = switch.1 {
            match left {
                0 => *switch = (mode, None),
                left => switch.1 = Some((left - 1, mode)),
            }
        }
        switch.0
    }

    async fn pass<T>(&self, operation: LedgerFuture<'_, T>) -> Result<T, LedgerError> {
        match self.next() {
            Mode::Speaks => operation.await,
            Mode::Silent => Err(LedgerError::Busy),
            Mode::LosesItsWord => operation.await.and(Err(LedgerError::Busy)),
            Mode::Closed => Err(LedgerError::Closed),
            Mode::Fails(broken) => Err(broken.error()),
        }
    }
}

/// A memory ledger that misbehaves when it is told to, and notes what passes it.
#[derive(Debug)]
pub(crate) struct Tap {
    pub(crate) inner: MemoryLedger,
    pub(crate) claims: Switch,
    pub(crate) settlings: Switch,
    pub(crate) releases: Switch,
    pub(crate) notes: Switch,
    pub(crate) lookups: Switch,
    /// Milliseconds.
    pub(crate) claim_takes: AtomicUsize,
    pub(crate) beat_takes: AtomicUsize,
    pub(crate) beats: AtomicUsize,
    pub(crate) claims_begun: AtomicUsize,
    /// A beat is a panic, as of a ledger that has a fault of its own.
    pub(crate) beats_panic: AtomicBool,
    /// What is looked up cannot be read.
    pub(crate) garbles: AtomicBool,
    /// What is looked up was changed to this.
    pub(crate) instead: Mutex<Option<Vec<u8>>>,
    pub(crate) seen: Mutex<Vec<u8>>,
}

impl Tap {
    pub(crate) fn new(clock: mrtr_testkit::ManualClock) -> Arc<Self> {
        Arc::new(Self {
            inner: MemoryLedger::new(Arc::new(clock)).unwrap(),
            claims: Switch::new(),
            settlings: Switch::new(),
            releases: Switch::new(),
            notes: Switch::new(),
            lookups: Switch::new(),
            claim_takes: AtomicUsize::new(0),
            beat_takes: AtomicUsize::new(0),
            beats: AtomicUsize::new(0),
            claims_begun: AtomicUsize::new(0),
            beats_panic: AtomicBool::new(false),
            garbles: AtomicBool::new(false),
            instead: Mutex::default(),
            seen: Mutex::default(),
        })
    }
}

async fn takes(millis: &AtomicUsize) {
    match millis.load(Ordering::SeqCst) {
        0 => {}
        millis => tokio::time::sleep(Duration::from_millis(millis as u64)).await,
    }
}

impl Ledger for Tap {
    fn claim(&self, claim: Claim) -> LedgerFuture<'_, Claimed> {
        self.claims_begun.fetch_add(1, Ordering::SeqCst);
        Box::pin(async {
            takes(&self.claim_takes).await;
            self.claims.pass(self.inner.claim(claim)).await
        })
    }
    fn settle(
        &self,
        key: RowKey,
        token: Token,
        settlement: Settlement,
    ) -> LedgerFuture<'_, Settled> {
        if let Settlement::Outcome(bytes) = &settlement {
            self.seen.lock().unwrap().extend_from_slice(bytes);
        }
        Box::pin(
            self.settlings
                .pass(self.inner.settle(key, token, settlement)),
        )
    }
    fn beat(&self, key: RowKey, token: Token, lease: Duration) -> LedgerFuture<'_, bool> {
        self.beats.fetch_add(1, Ordering::SeqCst);
        Box::pin(async move {
            takes(&self.beat_takes).await;
            assert!(
                !self.beats_panic.load(Ordering::SeqCst),
                "a ledger with a fault"
            );
            self.inner.beat(key, token, lease).await
        })
    }
    fn release(&self, key: RowKey, token: Token) -> LedgerFuture<'_, bool> {
        Box::pin(self.releases.pass(self.inner.release(key, token)))
    }
    fn keep(&self, note: Note) -> LedgerFuture<'_, Kept> {
        self.seen.lock().unwrap().extend_from_slice(&note.value);
        Box::pin(self.notes.pass(self.inner.keep(note)))
    }
    fn lookup(&self, kind: Kind, key: RowKey, fingerprint: Fingerprint) -> LedgerFuture<'_, Found> {
        Box::pin(async move {
            let found = self.inner.lookup(kind, key, fingerprint);
            match self.lookups.pass(found).await? {
                Found::Settled(_) if self.garbles.load(Ordering::SeqCst) => {
                    Ok(Found::Settled(b"?".to_vec()))
                }
                Found::Settled(value) => {
                    let instead = self.instead.lock().unwrap().clone();
                    Ok(Found::Settled(instead.unwrap_or(value)))
                }
                found => Ok(found),
            }
        })
    }
    fn purge(&self) -> LedgerFuture<'_, Purged> {
        self.inner.purge()
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
        false
    }
    fn as_any(&self) -> &dyn std::any::Any {
        self
    }
}
