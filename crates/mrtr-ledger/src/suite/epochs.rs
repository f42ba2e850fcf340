//! A flow is claimed on the ledger on which it opened, and not after that one was reset.

use super::*;

/// Any other epoch is refused, and leaves nothing behind.
pub async fn another_epoch_is_stale(bench: &Bench) {
    let desk = bench.desk().await;
    assert_eq!(
        desk.ledger.epoch().await.expect("an epoch"),
        desk.epoch,
        "it stays until it is rotated"
    );
    let other = Epoch::from_bytes([0; 16]);
    for claim in [desk.round(1), desk.step(1)] {
        assert_eq!(
            desk.claim(&Claim {
                epoch: other,
                ..claim.clone()
            })
            .await,
            Claimed::StaleEpoch
        );
        desk.own(claim.clone()).await;
        // Neither with the owner's token nor for a retry.
        assert_eq!(
            desk.claim(&Claim {
                epoch: other,
                ..claim.clone()
            })
            .await,
            Claimed::StaleEpoch
        );
        assert_eq!(
            desk.claim(&Claim {
                epoch: other,
                ..claim.retry()
            })
            .await,
            Claimed::StaleEpoch
        );
    }
    assert_eq!(desk.count().await, (1, 1));
}

/// Flows that were open claim nothing more; what had begun may still be settled; new flows go on.
pub async fn a_rotated_epoch_ends_what_was_open(bench: &Bench) {
    let mut desk = bench.desk().await;
    let (round, later) = (desk.own(desk.round(1)).await, desk.round(2));
    let step = desk.own(desk.step(1).under(round.owner())).await;

    let epoch = desk.ledger.rotate_epoch().await.expect("a new epoch");
    assert_ne!(epoch, desk.epoch);
    assert_eq!(desk.ledger.epoch().await.expect("an epoch"), epoch);

    for claim in [
        &round,
        &round.retry(),
        &later,
        &step,
        &desk.step(2).under(round.owner()),
    ] {
        assert_eq!(desk.claim(claim).await, Claimed::StaleEpoch);
    }
    assert_eq!(desk.settle(&step, b"done").await, Settled::Stored);
    assert_eq!(desk.settle(&round, b"done").await, Settled::Stored);
    assert_eq!(desk.lookup(&round).await, found(b"done"));

    desk.epoch = epoch;
    desk.own(desk.round(3)).await;
    assert_ne!(
        desk.ledger.rotate_epoch().await.expect("a new epoch"),
        epoch
    );
}

/// A clock that ran ahead once has had rows removed that expire late, and from then on the mark refuses whatever expires
/// sooner. A rotation ends that: what was removed belonged to flows that are over with it.
pub async fn a_rotated_epoch_forgets_the_marks(bench: &Bench) {
    let mut desk = bench.desk().await;
    let late = Timestamp::from_millis(START).saturating_add(LIFETIME * 144);
    let (round, step) = (desk.round(1).expiring(late), desk.step(1).expiring(late));
    let note = Note {
        key: key(late, 1),
        ..desk.note(1, b"a price")
    };
    for claim in [&round, &step] {
        desk.own(claim.clone()).await;
        assert_eq!(desk.settle(claim, b"paid").await, Settled::Stored);
    }
    assert_eq!(desk.keep(&note).await, Kept::Stored);
    desk.clock.set(late.saturating_add(LIFETIME * 1_000));
    assert_eq!(desk.purge().await, (1, 1));
    desk.clock.set(Timestamp::from_millis(START));
    for claim in [desk.round(2), desk.step(2)] {
        assert_eq!(desk.claim(&claim).await, Claimed::Expired);
    }
    assert_eq!(desk.keep(&desk.note(2, b"")).await, Kept::Expired);

    let epoch = desk.ledger.rotate_epoch().await.expect("a new epoch");
    for claim in [round.retry(), step.retry(), desk.round(2)] {
        assert_eq!(desk.claim(&claim).await, Claimed::StaleEpoch, "{claim:?}");
    }
    assert_eq!(desk.keep(&note).await, Kept::StaleEpoch);
    desk.epoch = epoch;
    desk.own(desk.round(2)).await;
    desk.own(desk.step(2)).await;
    assert_eq!(desk.keep(&desk.note(2, b"")).await, Kept::Stored);
}

/// The epoch also names the ledger.
pub async fn case_108_two_ledgers_have_two_epochs(bench: &Bench) {
    let (one, two) = (bench.desk().await, bench.desk().await);
    assert_ne!(one.epoch, two.epoch);
    assert_eq!(two.claim(&one.round(1)).await, Claimed::StaleEpoch);
    one.own(one.round(1)).await;
}
