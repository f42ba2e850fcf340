//! What becomes of an owner that is lost, and of one that only seemed so.

use super::*;

/// Nobody was told, so nothing is withdrawn: the owner still settles, beats and claims again.
pub async fn a_lapsed_lease_alone_withdraws_nothing(bench: &Bench) {
    let desk = bench.desk().await;
    let settles = desk.own(desk.round(1)).await;
    let beats = desk.own(desk.round(2)).await;
    let claims = desk.own(desk.round(3)).await;
    desk.clock.advance(LEASE * 2);
    assert_eq!(desk.settle(&settles, b"late").await, Settled::Stored);
    assert_eq!(desk.claim(&settles.retry()).await, settled(b"late"));
    assert!(desk.beat(&beats, LEASE).await);
    assert!(is_in_progress(&desk.claim(&beats.retry()).await));
    assert_eq!(desk.claim(&claims).await, Claimed::First);
    assert!(
        is_in_progress(&desk.claim(&claims.retry()).await),
        "the lease starts anew"
    );
}

/// Who was told *unknown* may rely on it: the owner settles nothing any more.
pub async fn a_claim_that_tells_unknown_withdraws_the_round(bench: &Bench) {
    let desk = bench.desk().await;
    let owner = desk.own(desk.round(1)).await;
    desk.clock.advance(LEASE);
    assert_eq!(desk.claim(&owner.retry()).await, Claimed::Abandoned);
    is_withdrawn(&desk, &owner).await;
}

/// The same by a lookup.
pub async fn a_lookup_that_tells_unknown_withdraws_the_round(bench: &Bench) {
    let desk = bench.desk().await;
    let owner = desk.own(desk.round(1)).await;
    desk.clock.advance(LEASE);
    assert_eq!(desk.lookup(&owner).await, Found::Abandoned);
    is_withdrawn(&desk, &owner).await;
}

async fn is_withdrawn(desk: &Desk, owner: &Claim) {
    // The clock going back does not bring the lease to life again.
    let now = desk.clock.now();
    desk.clock.set(Timestamp::from_millis(START));
    assert_eq!(desk.settle(owner, b"too late").await, Settled::Refused);
    assert!(!desk.beat(owner, LEASE).await);
    assert!(!desk.release(owner).await);
    desk.clock.set(now);
    assert_eq!(desk.claim(owner).await, Claimed::Abandoned);
    assert_eq!(desk.claim(&owner.retry()).await, Claimed::Abandoned);
    assert_eq!(desk.lookup(owner).await, Found::Abandoned);
    assert_eq!(desk.rows().await.settled_rounds, 0);
}

/// `now < lease` means that it runs.
pub async fn a_lease_lapses_at_its_end_and_not_before(bench: &Bench) {
    let desk = bench.desk().await;
    for claim in [desk.round(1), desk.step(1)] {
        let start = desk.clock.now();
        let owner = desk.own(claim).await;
        desk.clock.set(start.saturating_add(LEASE - MS));
        assert!(is_in_progress(&desk.claim(&owner.retry()).await));
        assert!(matches!(
            desk.lookup(&owner).await,
            Found::InProgress { .. }
        ));
        desk.clock.set(start.saturating_add(LEASE));
        assert_eq!(desk.claim(&owner.retry()).await, Claimed::Abandoned);
        desk.clock.set(start);
    }
}

/// A beat moves the lease's end, and an impatient one does not move it back.
pub async fn a_beat_renews_and_never_shortens(bench: &Bench) {
    let desk = bench.desk().await;
    for claim in [desk.round(1), desk.step(1)] {
        let start = desk.clock.now();
        let owner = desk.own(claim).await;
        desk.clock.set(start.saturating_add(LEASE - MS));
        assert!(desk.beat(&owner, LEASE).await);
        assert!(desk.beat(&owner, MS).await);
        desk.clock.set(start.saturating_add(LEASE * 2 - MS * 2));
        assert!(is_in_progress(&desk.claim(&owner.retry()).await));
        desk.clock.set(start.saturating_add(LEASE * 2 - MS));
        assert_eq!(desk.claim(&owner.retry()).await, Claimed::Abandoned);
        desk.clock.set(start);
    }
}

/// A step is never taken over. Until its owner settles it is unknown, and then it is settled for all.
pub async fn a_step_is_told_unknown_and_settles_late(bench: &Bench) {
    let desk = bench.desk().await;
    let owner = desk.own(desk.step(1)).await;
    desk.clock.advance(LEASE);
    for _ in 0..3 {
        assert_eq!(desk.claim(&owner.retry()).await, Claimed::Abandoned);
        assert_eq!(desk.lookup(&owner).await, Found::Abandoned);
    }
    assert!(desk.beat(&owner, LEASE).await);
    assert!(is_in_progress(&desk.claim(&owner.retry()).await));
    desk.clock.advance(LEASE);
    assert_eq!(desk.claim(&owner.retry()).await, Claimed::Abandoned);
    assert_eq!(
        desk.settle(&owner, b"done after all").await,
        Settled::Stored
    );
    assert_eq!(desk.claim(&owner.retry()).await, settled(b"done after all"));
    assert_eq!(desk.lookup(&owner).await, found(b"done after all"));
}
