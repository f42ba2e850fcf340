//! Who runs, what is kept, and what a row is compared with.

use super::*;

/// One claim wins; another of the same retry is told to wait, and for how long.
pub async fn a_second_claim_is_in_progress(bench: &Bench) {
    let desk = bench.desk().await;
    for claim in [desk.round(1), desk.step(1)] {
        let first = desk.own(claim).await;
        for _ in 0..3 {
            let Claimed::InProgress { retry_after } = desk.claim(&first.retry()).await else {
                panic!("a second claim is in progress");
            };
            assert!(
                retry_after > Duration::ZERO && retry_after <= LEASE,
                "{retry_after:?} is no useful hint"
            );
            assert!(matches!(
                desk.lookup(&first).await,
                Found::InProgress { .. }
            ));
        }
    }
    assert_eq!(desk.count().await, (1, 1));
}

/// The stored outcome is every later claim's answer, the owner's own included, and never changes.
pub async fn an_outcome_is_told_to_every_retry(bench: &Bench) {
    let desk = bench.desk().await;
    for claim in [desk.round(1), desk.step(1)] {
        let first = desk.own(claim).await;
        assert_eq!(desk.settle(&first, b"paid").await, Settled::Stored);
        for _ in 0..3 {
            assert_eq!(desk.claim(&first.retry()).await, settled(b"paid"));
            assert_eq!(desk.claim(&first).await, settled(b"paid"));
            assert_eq!(desk.lookup(&first).await, found(b"paid"));
        }
    }
    let rows = desk.rows().await;
    assert_eq!((rows.settled_rounds, rows.settled_steps), (1, 1));
}

/// Outcomes are bytes: none, all values, and the largest that a server stores by default.
pub async fn an_outcome_may_be_empty_or_large(bench: &Bench) {
    let desk = bench.desk().await;
    let large: Vec<u8> = (0..=255).cycle().take(64 << 10).collect();
    for (number, outcome) in [(1, &[][..]), (2, &[0, 255][..]), (3, &large)] {
        let first = desk.own(desk.round(number)).await;
        assert_eq!(desk.settle(&first, outcome).await, Settled::Stored);
        assert_eq!(desk.claim(&first.retry()).await, settled(outcome));
    }
}

/// A claim whose answer was lost is made again with its token, and a retry in between changes nothing.
pub async fn the_same_token_is_first_again(bench: &Bench) {
    let desk = bench.desk().await;
    for claim in [desk.round(1), desk.step(1)] {
        let first = desk.own(claim).await;
        assert_eq!(desk.claim(&first).await, Claimed::First);
        assert!(is_in_progress(&desk.claim(&first.retry()).await));
        assert_eq!(desk.claim(&first).await, Claimed::First);
    }
    assert_eq!(desk.count().await, (1, 1));
}

/// The fingerprint is compared before anything is told, and a conflict neither tells nor changes anything.
pub async fn another_fingerprint_conflicts_in_every_status(bench: &Bench) {
    let desk = bench.desk().await;
    let conflicts = async |claim: &Claim| {
        assert_eq!(desk.claim(&claim.forked()).await, Claimed::Conflict);
        // The owner's token does not help it.
        let own_token = Claim {
            token: claim.token,
            ..claim.forked()
        };
        assert_eq!(desk.claim(&own_token).await, Claimed::Conflict);
        assert_eq!(desk.lookup(&claim.forked()).await, Found::Conflict);
    };

    for (owned, released, stored, abandoned) in [
        (desk.round(1), desk.round(2), desk.round(3), desk.round(4)),
        (desk.step(1), desk.step(2), desk.step(3), desk.step(4)),
    ] {
        let owned = desk.own(owned).await;
        conflicts(&owned).await;

        let released = desk.own(released).await;
        assert!(desk.release(&released).await);
        conflicts(&released).await;

        let stored = desk.own(stored).await;
        assert_eq!(desk.settle(&stored, b"paid").await, Settled::Stored);
        conflicts(&stored).await;
        assert_eq!(desk.claim(&stored.retry()).await, settled(b"paid"));

        let abandoned = desk.own(abandoned).await;
        assert_eq!(desk.abandon(&abandoned).await, Settled::Stored);
        conflicts(&abandoned).await;

        // Lapsed: who asks with another fingerprint is not told unknown, so the owner keeps its row.
        let before = desk.clock.now();
        desk.clock.advance(LEASE);
        conflicts(&owned).await;
        assert_eq!(desk.settle(&owned, b"late").await, Settled::Stored);
        desk.clock.set(before);
    }
    // Expired, but not yet purged.
    let round = desk.round(3);
    desk.clock.set(round.key.expiry);
    assert_eq!(desk.claim(&round).await, Claimed::Expired);
    conflicts(&round).await;
}

/// A round and a step are two rows even under one key.
pub async fn rounds_and_steps_do_not_share_rows(bench: &Bench) {
    let desk = bench.desk().await;
    let round = desk.own(desk.round(1)).await;
    let step = desk
        .own(Claim {
            kind: Kind::Step,
            ..round.retry()
        })
        .await;
    assert_eq!(desk.settle(&round, b"of the round").await, Settled::Stored);
    assert!(is_in_progress(&desk.claim(&step.retry()).await));
    assert_eq!(desk.settle(&step, b"of the step").await, Settled::Stored);
    assert_eq!(desk.claim(&round.retry()).await, settled(b"of the round"));
    assert_eq!(desk.claim(&step.retry()).await, settled(b"of the step"));
}

/// A settlement with another token, or for a row that is not there, is refused and changes nothing.
pub async fn only_the_owner_settles(bench: &Bench) {
    let desk = bench.desk().await;
    for claim in [desk.round(1), desk.step(1)] {
        let stranger = claim.retry();
        assert_eq!(
            desk.settle(&claim, b"nothing there").await,
            Settled::Refused
        );
        assert_eq!(desk.lookup(&claim).await, Found::Absent);
        let owner = desk.own(claim).await;
        assert_eq!(desk.settle(&stranger, b"not mine").await, Settled::Refused);
        assert_eq!(desk.abandon(&stranger).await, Settled::Refused);
        assert!(!desk.beat(&stranger, LEASE).await);
        assert!(is_in_progress(&desk.claim(&stranger).await));
        assert_eq!(desk.settle(&owner, b"mine").await, Settled::Stored);
        assert!(!desk.beat(&owner, LEASE).await);
        assert_eq!(desk.claim(&stranger).await, settled(b"mine"));
    }
}

/// A settlement whose answer was lost is made again; a different one comes too late.
pub async fn case_098_the_first_settlement_stands(bench: &Bench) {
    let desk = bench.desk().await;
    for claim in [desk.round(1), desk.step(1)] {
        let owner = desk.own(claim).await;
        assert_eq!(desk.settle(&owner, b"paid").await, Settled::Stored);
        assert_eq!(desk.settle(&owner, b"paid").await, Settled::Stored);
        assert_eq!(desk.settle(&owner, b"refunded").await, Settled::Refused);
        assert_eq!(desk.abandon(&owner).await, Settled::Refused);
        assert!(!desk.release(&owner).await);
        assert_eq!(desk.claim(&owner.retry()).await, settled(b"paid"));
    }
}

/// Whoever claims later changes nothing of a row: not its owner, not its fingerprint, not whose it is.
pub async fn case_098_the_first_claim_stands(bench: &Bench) {
    let limits = Limits {
        rows_per_account: 2,
        ..Limits::NONE
    };
    let desk = bench.desk_with(limits, MIN_RETENTION).await;
    for claim in [desk.round(1), desk.step(1)] {
        let owner = desk.own(claim).await;
        for later in [
            owner.forked(),
            owner.retry().by(9),
            Claim {
                lease: LIFETIME * 100,
                ..owner.retry()
            },
        ] {
            assert_ne!(desk.claim(&later).await, Claimed::First);
            assert_eq!(desk.settle(&later, b"stolen").await, Settled::Refused);
        }
        assert_eq!(desk.claim(&owner).await, Claimed::First, "still its own");
        assert_eq!(desk.settle(&owner, b"paid").await, Settled::Stored);
        assert_eq!(desk.claim(&owner.forked()).await, Claimed::Conflict);
    }
    assert_eq!(desk.count().await, (1, 1));
    assert_eq!(desk.claim(&desk.round(2)).await, Claimed::Full);
    desk.own(desk.round(2).by(9)).await;
    desk.own(desk.round(3).by(9)).await;
}

/// A body that was cut off leaves its row abandoned at once, for good.
pub async fn an_abandoned_row_stays_abandoned(bench: &Bench) {
    let desk = bench.desk().await;
    for claim in [desk.round(1), desk.step(1)] {
        let owner = desk.own(claim).await;
        assert_eq!(desk.abandon(&owner).await, Settled::Stored);
        assert_eq!(desk.abandon(&owner).await, Settled::Stored);
        assert_eq!(desk.settle(&owner, b"after all").await, Settled::Refused);
        assert!(!desk.release(&owner).await);
        assert!(!desk.beat(&owner, LEASE).await);
        for claim in [&owner, &owner.retry()] {
            assert_eq!(desk.claim(claim).await, Claimed::Abandoned);
            assert_eq!(desk.lookup(claim).await, Found::Abandoned);
        }
    }
}

/// Released, a row waits for the same retry under any token, and the old token has nothing left to say.
pub async fn a_released_row_is_for_the_same_retry(bench: &Bench) {
    let desk = bench.desk().await;
    for claim in [desk.round(1), desk.step(1)] {
        let early = desk.own(claim).await;
        assert!(desk.release(&early).await);
        assert!(
            desk.release(&early).await,
            "a release whose answer was lost is made again"
        );
        assert_eq!(desk.settle(&early, b"too early").await, Settled::Refused);
        assert!(!desk.beat(&early, LEASE).await);
        assert_eq!(desk.lookup(&early).await, Found::Absent);
        assert_eq!(desk.claim(&early.forked()).await, Claimed::Conflict);

        let next = desk.own(early.retry()).await;
        assert_eq!(desk.settle(&early, b"too early").await, Settled::Refused);
        assert!(!desk.release(&early).await);
        assert!(is_in_progress(&desk.claim(&early).await));
        assert_eq!(desk.settle(&next, b"paid").await, Settled::Stored);
        assert_eq!(desk.claim(&early).await, settled(b"paid"));
    }
    assert_eq!(desk.count().await, (1, 1));
}

/// A release with another token, or of a row that is not there, is false and changes nothing.
pub async fn only_the_owner_releases(bench: &Bench) {
    let desk = bench.desk().await;
    for claim in [desk.round(1), desk.step(1)] {
        assert!(!desk.release(&claim).await);
        let owner = desk.own(claim).await;
        assert!(!desk.release(&owner.retry()).await);
        assert!(is_in_progress(&desk.claim(&owner.retry()).await));
        assert!(desk.release(&owner).await);
    }
}

/// Looking is not claiming.
pub async fn a_lookup_does_not_claim(bench: &Bench) {
    let desk = bench.desk().await;
    for claim in [desk.round(1), desk.step(1)] {
        assert_eq!(desk.lookup(&claim).await, Found::Absent);
        assert_eq!(desk.lookup(&claim.forked()).await, Found::Absent);
    }
    assert_eq!(desk.count().await, (0, 0));
    desk.own(desk.round(1).forked()).await;
    desk.own(desk.step(1)).await;
}
