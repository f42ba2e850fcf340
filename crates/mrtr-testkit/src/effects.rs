//! What happened, and in which round.

use std::sync::{Arc, Mutex, MutexGuard};

use crate::harness::lock;

/// Where a test double reports what it was told to do. Clones are the same list: give one to the double, keep another.
///
/// ```
/// # use mrtr_testkit::Effects;
/// #[derive(Clone)]
/// struct Bank(Effects);
///
/// impl Bank {
///     async fn charge(&self, amount: u32) {
///         self.0.happened("charge");
///     }
/// }
/// ```
///
/// A name stands for one effect. What may rightly happen several times in a call gets a name for each time:
/// `effects.happened(format!("mail to {address}"))`.
#[derive(Clone, Debug, Default)]
pub struct Effects(Arc<Mutex<Log>>);

#[derive(Debug, Default)]
struct Log {
    /// The round that a check is at.
    round: usize,
    events: Vec<(String, usize)>,
}

impl Effects {
    /// An empty list.
    #[must_use]
    pub fn new() -> Effects {
        Effects::default()
    }

    /// The effect happened, now.
    pub fn happened(&self, effect: impl Into<String>) {
        let mut log = self.log();
        let round = log.round;
        log.events.push((effect.into(), round));
    }

    /// How often this effect happened, whoever caused it.
    #[must_use]
    pub fn count(&self, effect: &str) -> usize {
        let log = self.log();
        log.events.iter().filter(|(own, _)| own == effect).count()
    }

    /// Everything that happened, in order.
    #[must_use]
    pub fn all(&self) -> Vec<String> {
        let log = self.log();
        log.events
            .iter()
            .map(|(effect, _)| effect.clone())
            .collect()
    }

    fn log(&self) -> MutexGuard<'_, Log> {
        lock(&self.0)
    }

    /// From here on effects belong to this round. Gives the number of those before.
    pub(crate) fn enter(&self, round: usize) -> usize {
        let mut log = self.log();
        log.round = round;
        log.events.len()
    }

    /// The effects of this round that lie behind the first `before`.
    pub(crate) fn of_round(&self, round: usize, before: usize) -> Vec<String> {
        let log = self.log();
        let since = log.events.iter().skip(before);
        since
            .filter(|(_, own)| *own == round)
            .map(|(effect, _)| effect.clone())
            .collect()
    }
}
