//! Rounds that may run again: what is taken over, from whom, and what never is.

use super::*;

/// The lapsed lease is not enough, and the word is not: it takes both.
pub async fn a_lost_round_runs_again_where_that_was_said(bench: &Bench) {
    let desk = bench.desk().await;
    let (one, two) = (desk.own(desk.round(1)).await, desk.own(desk.round(2)).await);
    desk.clock.advance(LEASE);
    assert_eq!(desk.claim(&one.retry()).await, Claimed::Abandoned);
    let again = desk.own(two.retry().run_again()).await;
    assert_eq!(desk.settle(&again, b"paid").await, Settled::Stored);
    assert_eq!(desk.claim(&two.retry().run_again()).await, settled(b"paid"));
    assert_eq!(desk.claim(&two.retry()).await, settled(b"paid"));
    assert_eq!(desk.rows().await.rounds, 2);
}

/// As long as its lease runs an owner is not lost, and a take-over begins a lease of its own.
pub async fn a_running_round_is_not_taken_over(bench: &Bench) {
    let desk = bench.desk().await;
    let owner = desk.own(desk.round(1)).await;
    desk.clock.advance(LEASE - MS);
    let early = desk.claim(&owner.retry().run_again()).await;
    assert!(is_in_progress(&early));
    desk.clock.advance(MS);
    let second = desk.own(owner.retry().run_again()).await;
    desk.clock.advance(LEASE - MS);
    let early = desk.claim(&owner.retry().run_again()).await;
    assert!(is_in_progress(&early));
    assert!(desk.beat(&second, LEASE).await);
    desk.clock.advance(LEASE - MS);
    let early = desk.claim(&owner.retry().run_again()).await;
    assert!(is_in_progress(&early));
}

/// Who wakes up after its round was taken over settles nothing, beats nothing, starts no step and takes no note; what
/// it was doing is told by the row.
pub async fn the_owner_that_was_lost_is_withdrawn(bench: &Bench) {
    let desk = bench.desk().await;
    let lost = desk.own(desk.round(1)).await;
    let before = desk.own(desk.step(1).under(lost.owner())).await;
    desk.clock.advance(LEASE);
    let owner = desk.own(lost.retry().run_again()).await;

    assert_eq!(desk.settle(&lost, b"lost").await, Settled::Refused);
    assert_eq!(desk.abandon(&lost).await, Settled::Refused);
    assert!(!desk.beat(&lost, LEASE).await);
    assert!(!desk.release(&lost).await);
    let step = desk.step(2).under(lost.owner());
    assert_eq!(desk.claim(&step).await, Claimed::StaleOwner);
    let note = desk.note(1, b"lost").under(lost.owner());
    assert_eq!(desk.keep(&note).await, Kept::StaleOwner);
    assert!(matches!(desk.lookup(&lost).await, Found::InProgress { .. }));
    // Even its claim, repeated, is another run's now.
    assert!(is_in_progress(&desk.claim(&lost).await));

    // A step that it had begun is its own to the end, and then everybody's.
    assert_eq!(desk.settle(&before, b"sent").await, Settled::Stored);
    let same = desk.step(1).under(owner.owner());
    assert_eq!(desk.claim(&same).await, settled(b"sent"));
    desk.own(desk.step(2).under(owner.owner())).await;
    assert_eq!(desk.settle(&owner, b"paid").await, Settled::Stored);
}

/// A body that was cut off, or a round that somebody was told *unknown* of, runs again too.
pub async fn an_abandoned_round_runs_again(bench: &Bench) {
    let desk = bench.desk().await;
    let cut_off = desk.own(desk.round(1)).await;
    assert_eq!(desk.abandon(&cut_off).await, Settled::Stored);
    let told = desk.own(desk.round(2)).await;
    desk.clock.advance(LEASE);
    assert_eq!(desk.lookup(&told).await, Found::Abandoned);
    for lost in [cut_off, told] {
        assert_eq!(desk.claim(&lost.retry()).await, Claimed::Abandoned);
        let owner = desk.own(lost.retry().run_again()).await;
        assert_eq!(desk.settle(&lost, b"lost").await, Settled::Refused);
        assert_eq!(desk.settle(&owner, b"paid").await, Settled::Stored);
        assert_eq!(desk.lookup(&lost).await, found(b"paid"));
    }
}

/// That this run has done nothing does not say that nothing was done.
pub async fn a_released_take_over_is_not_free_again(bench: &Bench) {
    let desk = bench.desk().await;
    let lost = desk.own(desk.round(1)).await;
    desk.clock.advance(LEASE);
    let owner = desk.own(lost.retry().run_again()).await;
    // Neither a beat nor the same claim once more makes the round a fresh one.
    assert!(desk.beat(&owner, LEASE).await);
    assert_eq!(desk.claim(&owner).await, Claimed::First);
    assert!(desk.release(&owner).await);
    assert_eq!(desk.lookup(&lost).await, Found::Abandoned);
    assert_eq!(desk.claim(&lost.retry()).await, Claimed::Abandoned);
    let third = desk.own(lost.retry().run_again()).await;
    assert_eq!(desk.settle(&third, b"paid").await, Settled::Stored);
}

/// Its effect may have happened, whoever asks.
pub async fn a_step_is_never_taken_over(bench: &Bench) {
    let desk = bench.desk().await;
    let lost = desk.own(desk.round(1)).await;
    let step = desk.own(desk.step(1).under(lost.owner())).await;
    desk.clock.advance(LEASE);
    let owner = desk.own(lost.retry().run_again()).await;
    let same = desk.step(1).under(owner.owner()).run_again();
    assert_eq!(desk.claim(&same).await, Claimed::Abandoned);
    assert_eq!(desk.settle(&step, b"sent").await, Settled::Stored);
    assert_eq!(desk.claim(&same).await, settled(b"sent"));
}

/// Of many that want to take over one does, and the others wait for it.
pub async fn a_take_over_has_one_winner(bench: &Bench) {
    let desk = bench.desk().await;
    for number in 0..10 {
        let lost = desk.own(desk.round(number)).await;
        desk.clock.advance(LEASE);
        let ledger = &desk.ledger;
        let all = (0..16).map(|_| ledger.claim(lost.retry().run_again()));
        let mut winners = 0;
        for claimed in at_once(all).await {
            match claimed.expect("word on a claim") {
                Claimed::First => winners += 1,
                claimed => assert!(is_in_progress(&claimed), "{claimed:?}"),
            }
        }
        assert_eq!(winners, 1);
        desk.clock.set(Timestamp::from_millis(START));
    }
}

/// To run again is no way round any other rule.
pub async fn a_take_over_minds_epoch_expiry_and_answer(bench: &Bench) {
    let mut desk = bench.desk().await;
    let lost = desk.own(desk.round(1)).await;
    desk.clock.advance(LEASE);
    let again = lost.retry().run_again();
    let other_answer = lost.forked().run_again();
    assert_eq!(desk.claim(&other_answer).await, Claimed::Conflict);
    let other_epoch = Claim {
        epoch: Epoch::from_bytes([0; 16]),
        ..again.clone()
    };
    assert_eq!(desk.claim(&other_epoch).await, Claimed::StaleEpoch);
    let now = desk.clock.now();
    desk.clock.set(lost.key.expiry);
    assert_eq!(desk.claim(&again).await, Claimed::Expired);
    desk.clock.set(now);
    desk.epoch = desk.ledger.rotate_epoch().await.expect("a new epoch");
    assert_eq!(desk.claim(&again).await, Claimed::StaleEpoch);
    // Still its first owner's, whose lease has merely lapsed.
    assert_eq!(desk.settle(&lost, b"paid").await, Settled::Stored);
}

/// All of them, begun before the first is waited for.
async fn at_once<F: Future + Unpin>(futures: impl Iterator<Item = F>) -> Vec<F::Output> {
    let mut waiting: Vec<F> = futures.collect();
    let mut done = Vec::new();
    std::future::poll_fn(|cx| {
        waiting.retain_mut(|future| match Pin::new(future).poll(cx) {
            std::task::Poll::Ready(output) => {
                done.push(output);
                false
            }
            std::task::Poll::Pending => true,
        });
        if waiting.is_empty() {
            std::task::Poll::Ready(())
        } else {
            std::task::Poll::Pending
        }
    })
    .await;
    done
}
