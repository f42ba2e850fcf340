//! Several instances of one service.

use std::sync::Arc;

use mrtr_ledger::MemoryLedger;
use mrtr_server::ServerBuilder;
use mrtr_state::Timestamp;
use mrtr_testkit::ManualClock;

use crate::bank::{Bank, Effects, T0};

/// What the instances share: the ledger and its clock, and what the effects are done to.
pub(crate) struct Fleet {
    pub(crate) clock: ManualClock,
    ledger: Arc<MemoryLedger>,
    effects: Effects,
}

impl Fleet {
    pub(crate) fn new() -> Self {
        Self::at(Timestamp::from_millis(T0))
    }

    pub(crate) fn at(now: Timestamp) -> Self {
        let clock = ManualClock::at(now);
        Self {
            ledger: Arc::new(MemoryLedger::new(Arc::new(clock.clone())).unwrap()),
            effects: Effects::default(),
            clock,
        }
    }

    /// One more instance, by the fleet's clock unless it is changed.
    pub(crate) fn instance(&self, change: impl FnOnce(ServerBuilder) -> ServerBuilder) -> Bank {
        let mut bank = Bank::with(|builder| {
            change(
                builder
                    .clock(self.clock.clone())
                    .ledger(Arc::clone(&self.ledger))
                    .state(self.effects.clone()),
            )
        });
        bank.clock = self.clock.clone();
        bank.effects = self.effects.clone();
        bank.ledger = Some(Arc::<MemoryLedger>::clone(&self.ledger));
        bank
    }
}
