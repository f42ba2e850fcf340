//! The same rules when many ask at once.

use std::sync::atomic::AtomicUsize;

use super::*;

const TASKS: usize = 64;
const ROUNDS: u32 = 200;

/// 64 tasks claim one state, 200 times over: one of them runs it, and the others are told to wait or what came of it.
pub async fn one_of_many_wins(bench: &Bench) {
    let desk = Arc::new(bench.desk().await);
    for number in 0..ROUNDS {
        let state = if number % 2 == 0 {
            desk.round(number)
        } else {
            desk.step(number)
        };
        let (ran, told) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
        let tasks: Vec<Task> = (0..TASKS)
            .map(|_| {
                let (desk, claim) = (Arc::clone(&desk), state.retry());
                let (ran, told) = (Arc::clone(&ran), Arc::clone(&told));
                (bench.spawn)(Box::pin(async move {
                    match desk.claim(&claim).await {
                        Claimed::First => {
                            ran.fetch_add(1, Ordering::SeqCst);
                            assert_eq!(desk.settle(&claim, b"ran").await, Settled::Stored);
                        }
                        Claimed::InProgress { .. } => _ = told.fetch_add(1, Ordering::SeqCst),
                        answer => {
                            assert_eq!(answer, settled(b"ran"));
                            told.fetch_add(1, Ordering::SeqCst);
                        }
                    }
                }))
            })
            .collect();
        for task in tasks {
            task.await;
        }
        assert_eq!(
            (ran.load(Ordering::SeqCst), told.load(Ordering::SeqCst)),
            (1, TASKS - 1)
        );
        assert_eq!(desk.claim(&state).await, settled(b"ran"));
    }
}

/// An owner whose lease has lapsed settles while others ask. Either its settlement counts and nobody was told
/// *unknown*, or somebody was and it does not count.
pub async fn withdrawal_and_settlement_never_both_happen(bench: &Bench) {
    let desk = Arc::new(bench.desk().await);
    for number in 0..ROUNDS {
        let owner = desk
            .own(Claim {
                lease: Duration::ZERO,
                ..desk.round(number)
            })
            .await;
        let (stored, unknown) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
        let settles = (bench.spawn)(Box::pin({
            let (desk, owner, stored) = (Arc::clone(&desk), owner.clone(), Arc::clone(&stored));
            async move {
                if desk.settle(&owner, b"late").await == Settled::Stored {
                    stored.fetch_add(1, Ordering::SeqCst);
                }
            }
        }));
        let asks = (0..4).map(|which| {
            let (desk, retry, unknown) = (Arc::clone(&desk), owner.retry(), Arc::clone(&unknown));
            (bench.spawn)(Box::pin(async move {
                let was_told = if which % 2 == 0 {
                    desk.claim(&retry).await == Claimed::Abandoned
                } else {
                    desk.lookup(&retry).await == Found::Abandoned
                };
                if was_told {
                    unknown.fetch_add(1, Ordering::SeqCst);
                }
            }))
        });
        let asks: Vec<Task> = asks.collect();
        settles.await;
        for ask in asks {
            ask.await;
        }
        let (stored, unknown) = (
            stored.load(Ordering::SeqCst),
            unknown.load(Ordering::SeqCst),
        );
        assert!(
            stored == 1 && unknown == 0 || stored == 0 && unknown == 4,
            "{stored} stored, {unknown} told unknown"
        );
    }
}

/// A lapsed owner starts step after step while somebody is told *unknown*. No step that it asks for after that word
/// is its to run.
pub async fn a_step_never_starts_after_its_round_was_withdrawn(bench: &Bench) {
    let desk = Arc::new(bench.desk().await);
    for number in 0..50 {
        let owner = desk
            .own(Claim {
                lease: Duration::ZERO,
                ..desk.round(number)
            })
            .await;
        let told = Arc::new(AtomicUsize::new(0));
        let asks = (bench.spawn)(Box::pin({
            let (desk, owner, told) = (Arc::clone(&desk), owner.clone(), Arc::clone(&told));
            async move {
                assert_eq!(desk.lookup(&owner).await, Found::Abandoned);
                told.store(1, Ordering::SeqCst);
            }
        }));
        for step in 0..1_000 {
            let was_told = told.load(Ordering::SeqCst) == 1;
            let claimed = desk
                .claim(&desk.step(number * 1_000 + step).under(owner.owner()))
                .await;
            if was_told {
                assert_eq!(claimed, Claimed::StaleOwner);
                break;
            }
            assert!(
                claimed == Claimed::First || claimed == Claimed::StaleOwner,
                "{claimed:?}"
            );
        }
        asks.await;
        assert_eq!(
            desk.claim(&desk.step(number * 1_000 + 999).under(owner.owner()))
                .await,
            Claimed::StaleOwner
        );
    }
}
