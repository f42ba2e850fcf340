//! A step belongs to the round in which it is reached.

use super::*;

/// Under the round's own token it runs; under another token, another round or none it does not.
pub async fn a_step_needs_its_round(bench: &Bench) {
    let desk = bench.desk().await;
    let round = desk.own(desk.round(1)).await;
    let other = desk.own(desk.round(2)).await;
    let wrong_token = Owner {
        token: other.token,
        ..round.owner()
    };
    let wrong_round = Owner {
        key: other.key,
        ..round.owner()
    };
    let no_round = Owner {
        key: desk.round(3).key,
        ..round.owner()
    };
    for owner in [wrong_token, wrong_round, no_round] {
        assert_eq!(
            desk.claim(&desk.step(1).under(owner)).await,
            Claimed::StaleOwner
        );
    }
    // A step's row is no round.
    let step = desk.own(desk.step(2)).await;
    assert_eq!(
        desk.claim(&desk.step(1).under(step.owner())).await,
        Claimed::StaleOwner
    );
    desk.own(desk.step(1).under(round.owner())).await;
}

/// The lease's end alone does not stop the owner.
pub async fn a_step_of_a_lapsed_round_runs_until_somebody_is_told(bench: &Bench) {
    let desk = bench.desk().await;
    let round = desk.own(desk.round(1)).await;
    desk.clock.advance(LEASE);
    desk.own(desk.step(1).under(round.owner())).await;
    assert_eq!(desk.claim(&round.retry()).await, Claimed::Abandoned);
    assert_eq!(
        desk.claim(&desk.step(2).under(round.owner())).await,
        Claimed::StaleOwner
    );
}

/// Once somebody was told *unknown*, by claim or by lookup, no step starts, and none is told about.
pub async fn a_step_of_a_withdrawn_round_is_refused(bench: &Bench) {
    let desk = bench.desk().await;
    for (number, by_claim) in [(1, true), (2, false)] {
        let round = desk.own(desk.round(number)).await;
        let step = desk.own(desk.step(number).under(round.owner())).await;
        assert_eq!(desk.claim(&step).await, Claimed::First);
        desk.clock.advance(LEASE);
        if by_claim {
            assert_eq!(desk.claim(&round.retry()).await, Claimed::Abandoned);
        } else {
            assert_eq!(desk.lookup(&round).await, Found::Abandoned);
        }
        assert_eq!(desk.claim(&step).await, Claimed::StaleOwner);
        assert_eq!(desk.claim(&step.retry()).await, Claimed::StaleOwner);
        assert_eq!(
            desk.claim(&desk.step(number + 10).under(round.owner()))
                .await,
            Claimed::StaleOwner
        );
        // The step that is under way is carried to its settling.
        assert_eq!(desk.settle(&step, b"done").await, Settled::Stored);
    }
}

/// A round that has settled, was cut off or was given back starts no step.
pub async fn a_step_of_a_finished_round_is_refused(bench: &Bench) {
    let desk = bench.desk().await;
    let stored = desk.own(desk.round(1)).await;
    desk.own(desk.step(1).under(stored.owner())).await;
    assert_eq!(desk.settle(&stored, b"done").await, Settled::Stored);
    let cut_off = desk.own(desk.round(2)).await;
    assert_eq!(desk.abandon(&cut_off).await, Settled::Stored);
    let released = desk.own(desk.round(3)).await;
    assert!(desk.release(&released).await);
    for round in [stored, cut_off, released] {
        assert_eq!(
            desk.claim(&desk.step(9).under(round.owner())).await,
            Claimed::StaleOwner
        );
    }
    assert_eq!(desk.count().await, (3, 1));
}

/// The refused claim has taken nothing: the round that does own may run the step.
pub async fn a_stale_owner_leaves_no_row(bench: &Bench) {
    let desk = bench.desk().await;
    let round = desk.own(desk.round(1)).await;
    let stale = Owner {
        token: token(),
        ..round.owner()
    };
    assert_eq!(
        desk.claim(&desk.step(1).under(stale)).await,
        Claimed::StaleOwner
    );
    assert_eq!(desk.lookup(&desk.step(1)).await, Found::Absent);
    assert_eq!(desk.count().await, (1, 0));
    desk.own(desk.step(1).under(round.owner())).await;
}

/// Two rounds of a flow, forked or following, reach one row.
pub async fn a_step_is_one_step_in_every_round(bench: &Bench) {
    let desk = bench.desk().await;
    let (one, two) = (desk.own(desk.round(1)).await, desk.own(desk.round(2)).await);
    let step = desk.own(desk.step(1).under(one.owner())).await;
    let again = desk.step(1).under(two.owner());
    assert!(is_in_progress(&desk.claim(&again).await));
    assert_eq!(desk.settle(&step, b"charged").await, Settled::Stored);
    assert_eq!(desk.claim(&again).await, settled(b"charged"));
}
