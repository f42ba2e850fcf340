//! What is to go wrong, and when: drawn from a seed before anything runs.
//!
//! The same seed and length draw the same plan. What the faults hit is not drawn: it depends on how fast the machine is.

use std::time::Duration;

use fastrand::Rng;

use crate::terms::{LEASE, LIFETIME, RETENTION, WAIT};

/// Something that goes wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    /// A server is killed as by a power cut, and started again after a while.
    Kill { slot: usize, down: Duration },
    /// A server is stopped in good order, and started again after a while.
    Stop { slot: usize, down: Duration },
    /// A server stands still: it is alive, and nothing in it moves.
    Pause { slot: usize, lasts: Duration },
    /// A server's clock is set to this many milliseconds from the host's, and set right after a while.
    Jump {
        slot: usize,
        offset: i64,
        lasts: Duration,
    },
    /// Nobody has a word from the ledger: somebody else holds the lock that claims need.
    Silence { lasts: Duration },
    /// Every server's connections to the ledger are cut, where it has any.
    Sever,
    /// The epoch is rotated: every flow that is open ends.
    Rotate,
}

/// What goes wrong, in order of time from the start.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Plan(pub(crate) Vec<(Duration, Fault)>);

/// How often each kind of fault comes, as the mean time between two.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Tempers {
    kill: Duration,
    stop: Duration,
    pause: Duration,
    jump: Duration,
    silence: Duration,
    sever: Duration,
    rotate: Duration,
}

impl Tempers {
    /// Everything.
    pub(crate) const WILD: Tempers = Tempers {
        kill: Duration::from_millis(1_500),
        stop: Duration::from_secs(7),
        pause: Duration::from_secs(9),
        jump: Duration::from_millis(3_500),
        silence: Duration::from_secs(11),
        sever: Duration::from_millis(2_500),
        rotate: Duration::from_secs(40),
    };

    /// Clocks above all, for ledgers that go wrong by them.
    pub(crate) const UNTIMELY: Tempers = Tempers {
        jump: Duration::from_millis(1_200),
        rotate: Duration::MAX,
        ..Tempers::WILD
    };
}

impl Plan {
    /// Draws the faults of a run of this length on this many servers.
    pub(crate) fn draw(seed: u64, length: Duration, slots: usize, tempers: Tempers) -> Self {
        let mut rng = Rng::with_seed(seed);
        let mut faults = Vec::new();
        let mut kind = |mean: Duration, draw: fn(&mut Rng, usize) -> Fault| {
            // Each kind from a generator of its own, so that more of one does not change another.
            let mut rng = rng.fork();
            if mean > length * 3 {
                return;
            }
            let mut at = between(&mut rng, mean / 3, mean);
            while at < length {
                faults.push((at, draw(&mut rng, slots)));
                at += between(&mut rng, mean / 2, mean * 3 / 2);
            }
        };
        kind(tempers.kill, |rng, slots| Fault::Kill {
            slot: rng.usize(..slots),
            down: between(rng, Duration::from_millis(20), Duration::from_millis(800)),
        });
        kind(tempers.stop, |rng, slots| Fault::Stop {
            slot: rng.usize(..slots),
            down: between(rng, Duration::from_millis(20), Duration::from_millis(500)),
        });
        kind(tempers.pause, |rng, slots| Fault::Pause {
            slot: rng.usize(..slots),
            lasts: between(rng, LEASE / 4, LEASE * 2),
        });
        kind(tempers.jump, |rng, slots| Fault::Jump {
            slot: rng.usize(..slots),
            offset: offset(rng),
            lasts: between(rng, Duration::from_millis(300), Duration::from_secs(4)),
        });
        kind(tempers.silence, |rng, _| Fault::Silence {
            lasts: between(rng, WAIT / 2, WAIT * 3),
        });
        kind(tempers.rotate, |_, _| Fault::Rotate);
        kind(tempers.sever, |_, _| Fault::Sever);
        faults.sort_by_key(|(at, _)| *at);
        Self(faults)
    }
}

/// How far a clock is off: over a lease, over a state's lifetime, over the retention, forwards and backwards.
fn offset(rng: &mut Rng) -> i64 {
    let ahead = match rng.u32(..10) {
        0..=3 => between(rng, LEASE * 3 / 2, LIFETIME / 2),
        4..=6 => between(rng, LIFETIME, LIFETIME * 3),
        // Beyond the retention by so much that what is still alive is removed too, and its mark locks no others out for
        // longer than a state lives.
        7 => between(rng, RETENTION, RETENTION + LIFETIME),
        _ => return -millis(between(rng, LEASE, LIFETIME * 3)),
    };
    millis(ahead)
}

fn millis(duration: Duration) -> i64 {
    i64::try_from(duration.as_millis()).unwrap_or(i64::MAX)
}

fn between(rng: &mut Rng, least: Duration, most: Duration) -> Duration {
    least + (most - least).mul_f64(rng.f64())
}

#[cfg(test)]
mod tests {
    use super::*;

    const LENGTH: Duration = Duration::from_secs(120);

    fn draw(seed: u64) -> Plan {
        Plan::draw(seed, LENGTH, 4, Tempers::WILD)
    }

    #[test]
    fn the_same_seed_draws_the_same_plan_and_another_one_does_not() {
        assert_eq!(draw(7), draw(7));
        assert_ne!(draw(7), draw(8));
    }

    #[test]
    fn every_kind_comes_within_the_time_and_in_order() {
        for seed in 0..20 {
            let Plan(faults) = draw(seed);
            assert!(faults.is_sorted_by_key(|(at, _)| *at));
            assert!(faults.iter().all(|(at, _)| *at < LENGTH));
            let has = |kind: fn(&Fault) -> bool| faults.iter().any(|(_, fault)| kind(fault));
            assert!(has(|fault| matches!(fault, Fault::Kill { .. })));
            assert!(has(|fault| matches!(fault, Fault::Stop { .. })));
            assert!(has(|fault| matches!(fault, Fault::Silence { .. })));
            assert!(has(|fault| matches!(fault, Fault::Rotate)));
            assert!(has(|fault| matches!(fault, Fault::Sever)));
            assert!(has(
                |fault| matches!(fault, Fault::Pause { lasts, .. } if *lasts > LEASE)
            ));
            let jump = |beyond: i64| {
                faults.iter().any(|(_, fault)| match fault {
                    Fault::Jump { offset, .. } if beyond < 0 => *offset < beyond,
                    Fault::Jump { offset, .. } => *offset > beyond,
                    _ => false,
                })
            };
            assert!(jump(millis(LEASE)) && jump(millis(LIFETIME)) && jump(-millis(LEASE)));
        }
    }

    #[test]
    fn more_of_one_kind_does_not_change_another() {
        let calm = Tempers {
            kill: LENGTH * 2,
            ..Tempers::WILD
        };
        let without_kills = |plan: Plan| -> Vec<_> {
            let rest = plan.0.into_iter();
            rest.filter(|(_, fault)| !matches!(fault, Fault::Kill { .. }))
                .collect()
        };
        assert_eq!(
            without_kills(Plan::draw(3, LENGTH, 4, calm)),
            without_kills(draw(3))
        );
    }
}
