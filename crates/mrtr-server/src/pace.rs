//! How often somebody may ask.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use mrtr_ledger::Account;
use mrtr_state::Timestamp;

/// For each account the moment, in microseconds, at which it has used up what it was given. Whoever is behind it has a clean
/// slate, and no entry.
#[derive(Debug, Default)]
pub(crate) struct Pace(Mutex<Slates>);

#[derive(Debug, Default)]
struct Slates {
    used_until: HashMap<Account, u64>,
    /// Clean slates are thrown away when there are this many.
    sweep_at: usize,
}

/// Slates that are kept without looking at them.
const FEW: usize = 1024;

const SECOND: u64 = 1_000_000;

impl Pace {
    /// Whether this account may ask once more: `per_second` times, and as many at once.
    pub(crate) fn permits(&self, account: Account, per_second: u32, now: Timestamp) -> bool {
        let now = now.as_millis().saturating_mul(1000);
        let cost = SECOND / u64::from(per_second.max(1));
        let mut slates = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if slates.used_until.len() >= slates.sweep_at.max(FEW) {
            slates.used_until.retain(|_, until| *until > now);
            slates.sweep_at = slates.used_until.len() * 2;
        }
        let until = slates.used_until.entry(account).or_insert(now);
        let used = (*until).max(now) + cost;
        let permitted = used <= now + SECOND;
        if permitted {
            *until = used;
        }
        permitted
    }
}

#[cfg(test)]
mod tests {
    use mrtr_state::Principal;

    use super::*;

    #[test]
    fn a_burst_and_then_one_by_one() {
        let pace = Pace::default();
        let [a, b] = ["a", "b"].map(|name| Account::of(&Principal::user("i", name)));
        let at = Timestamp::from_millis;
        let permitted = |account, now| {
            (0..100)
                .filter(|_| pace.permits(account, 10, at(now)))
                .count()
        };
        assert_eq!(permitted(a, 1_000_000), 10);
        assert_eq!(permitted(b, 1_000_000), 10, "another's is another's");
        assert_eq!(permitted(a, 1_000_099), 0);
        assert_eq!(permitted(a, 1_000_100), 1);
        assert_eq!(permitted(a, 1_000_600), 5);
        assert_eq!(permitted(a, 9_000_000), 10);
        assert_eq!(
            permitted(a, 8_000_000),
            0,
            "a clock that goes back gives nothing away"
        );
    }

    #[test]
    fn slates_do_not_pile_up() {
        let pace = Pace::default();
        for second in 0..20_u64 {
            for n in 0..1000_u64 {
                let account = Account::anonymous_at(&format!("{second}.{n}"));
                assert!(pace.permits(account, 10, Timestamp::from_millis(second * 10_000)));
            }
        }
        assert!(pace.0.lock().unwrap().used_until.len() <= 3 * FEW);
    }
}
