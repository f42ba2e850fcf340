//! When a row ends, and why nothing is claimed twice although rows go.

use super::*;

/// `now < expiry` is the rule for claims; a lookup still tells what there is.
pub async fn a_row_expires_when_its_time_has_come(bench: &Bench) {
    let desk = bench.desk().await;
    for (live, dead) in [(desk.round(1), desk.round(2)), (desk.step(1), desk.step(2))] {
        desk.clock
            .set(Timestamp::from_millis(live.key.expiry.as_millis() - 1));
        let live = desk.own(live).await;
        assert_eq!(desk.settle(&live, b"just in time").await, Settled::Stored);
        desk.clock.set(live.key.expiry);
        assert_eq!(desk.claim(&dead).await, Claimed::Expired);
        assert_eq!(desk.lookup(&dead).await, Found::Absent);
        assert_eq!(desk.claim(&live.retry()).await, Claimed::Expired);
        assert_eq!(desk.lookup(&live).await, found(b"just in time"));
        desk.clock.set(Timestamp::from_millis(START));
    }
}

/// Purged at every moment around expiry and retention, a state is never claimed twice, not even on a clock that is
/// behind by the retention; and the row goes when both have passed.
pub async fn case_082_rows_stay_through_the_retention(bench: &Bench) {
    let desk = bench.desk().await;
    let stored = |claim: Claim| async {
        let claim = desk.own(claim).await;
        assert_eq!(desk.settle(&claim, b"paid").await, Settled::Stored);
        claim
    };
    for claim in [stored(desk.round(1)).await, stored(desk.step(1)).await] {
        let expiry = claim.key.expiry;
        let behind = |now: Timestamp| Timestamp::from_millis(now.as_millis() - 60_000);
        assert_eq!(MIN_RETENTION, Duration::from_millis(60_000));
        let before = Timestamp::from_millis(expiry.as_millis() - 1);
        let last = expiry.saturating_add(MIN_RETENTION);
        for now in [
            before,
            expiry,
            Timestamp::from_millis(last.as_millis() - 1),
            last,
        ] {
            desk.clock.set(now);
            desk.purge().await;
            assert_eq!(
                desk.lookup(&claim).await,
                found(b"paid"),
                "at expiry {expiry:?}, purged {now:?}"
            );
            desk.clock.set(behind(now));
            let again = desk.claim(&claim.retry()).await;
            assert!(
                again == settled(b"paid") || again == Claimed::Expired,
                "{again:?}"
            );
        }
        desk.clock.set(last.saturating_add(MS));
        desk.purge().await;
        assert_eq!(desk.lookup(&claim).await, Found::Absent);
        desk.clock.set(behind(desk.clock.now()));
        assert_eq!(desk.claim(&claim.retry()).await, Claimed::Expired);
        desk.clock.set(Timestamp::from_millis(START));
    }
    assert_eq!(desk.count().await, (0, 0));
}

/// Whatever the clock says by then.
pub async fn a_removed_row_is_not_claimed_again(bench: &Bench) {
    let desk = bench.desk().await;
    for claim in [desk.round(1), desk.step(1)] {
        let claim = desk.own(claim).await;
        assert_eq!(desk.settle(&claim, b"paid").await, Settled::Stored);
        desk.clock
            .set(claim.key.expiry.saturating_add(MIN_RETENTION + MS));
        desk.purge().await;
        assert_eq!(desk.lookup(&claim).await, Found::Absent);
        desk.clock.set(Timestamp::from_millis(START));
        assert_eq!(desk.claim(&claim.retry()).await, Claimed::Expired);
        assert_eq!(desk.claim(&claim).await, Claimed::Expired);
        assert_eq!(desk.claim(&claim.forked()).await, Claimed::Expired);
    }
}

/// A clock that jumps ten years ahead and is put right shuts nobody out: what was not removed may be claimed. And
/// rounds' marks say nothing about steps.
pub async fn case_084_the_mark_is_what_was_removed_and_never_the_clock(bench: &Bench) {
    let desk = bench.desk().await;
    let years = Duration::from_secs(10 * 365 * 86_400);
    let round = desk.own(desk.round(1)).await;
    desk.clock.advance(years);
    assert_eq!(desk.purge().await, (1, 0));
    desk.clock.set(Timestamp::from_millis(START));

    let expiry = round.key.expiry;
    assert_eq!(
        desk.claim(&desk.round(2).expiring(expiry)).await,
        Claimed::Expired,
        "at the mark"
    );
    let earlier = Timestamp::from_millis(expiry.as_millis() - 1);
    assert_eq!(
        desk.claim(&desk.round(2).expiring(earlier)).await,
        Claimed::Expired,
        "below the mark"
    );
    let later = desk
        .own(desk.round(2).expiring(expiry.saturating_add(MS)))
        .await;
    assert_eq!(desk.settle(&later, b"paid").await, Settled::Stored);

    let step = desk.own(desk.step(1).expiring(earlier)).await;
    desk.clock.advance(years);
    assert_eq!(desk.purge().await, (1, 1));
    desk.clock.set(Timestamp::from_millis(START));
    assert_eq!(desk.claim(&step.retry()).await, Claimed::Expired);
    desk.own(desk.step(2).expiring(expiry)).await;
    desk.own(desk.round(3).expiring(expiry.saturating_add(MS * 2)))
        .await;
    // Nothing to remove moves no mark.
    assert_eq!(desk.purge().await, (0, 0));
    desk.own(desk.round(4).expiring(expiry.saturating_add(MS * 2)))
        .await;
}

/// Removing an older row that a lease had kept does not open what was closed.
pub async fn the_mark_never_falls(bench: &Bench) {
    let desk = bench.desk().await;
    let at = |minutes: u64| Timestamp::from_millis(START + minutes * 60_000);
    let day = Duration::from_secs(86_400);
    for (old, young) in [(desk.round(1), desk.round(2)), (desk.step(1), desk.step(2))] {
        let old = desk.own(Claim { lease: day, ..old }.expiring(at(1))).await;
        let young = desk.own(young.expiring(at(2))).await;
        assert_eq!(desk.settle(&young, b"paid").await, Settled::Stored);
        desk.clock.set(at(10));
        desk.purge().await;
        assert_eq!(desk.lookup(&young).await, Found::Absent);
        assert!(matches!(desk.lookup(&old).await, Found::InProgress { .. }));
        desk.clock.advance(day);
        desk.purge().await;
        assert_eq!(desk.lookup(&old).await, Found::Absent);
        desk.clock.set(at(0));
        assert_eq!(desk.claim(&young.retry()).await, Claimed::Expired);
        assert_eq!(desk.claim(&old.retry()).await, Claimed::Expired);
    }
}

/// What runs is not removed under its owner, however long ago it expired; the row goes when the lease has lapsed.
pub async fn case_100_a_running_lease_keeps_its_row(bench: &Bench) {
    let desk = bench.desk().await;
    for (runs, lapses) in [(desk.round(1), desk.round(2)), (desk.step(1), desk.step(2))] {
        let expiry = runs.key.expiry;
        let runs = desk
            .own(Claim {
                lease: LIFETIME * 12,
                ..runs
            })
            .await;
        let lapses = desk.own(lapses).await;
        desk.clock.set(expiry.saturating_add(MIN_RETENTION + MS));
        desk.purge().await;
        assert!(matches!(desk.lookup(&runs).await, Found::InProgress { .. }));
        assert_eq!(desk.lookup(&lapses).await, Found::Absent);
        assert_eq!(desk.settle(&lapses, b"too late").await, Settled::Refused);
        if runs.kind == Kind::Round {
            // Its owner may still start steps: it is the row that says so, not the clock.
            desk.own(desk.step(9).under(runs.owner())).await;
        }
        assert_eq!(desk.settle(&runs, b"paid").await, Settled::Stored);
        assert_eq!(desk.lookup(&runs).await, found(b"paid"));
        desk.purge().await;
        assert_eq!(desk.lookup(&runs).await, Found::Absent);
        desk.clock.set(Timestamp::from_millis(START));
    }
}

/// More rows than any batch holds, all gone after one call, and nothing else.
pub async fn case_100_a_purge_takes_as_many_batches_as_it_needs(bench: &Bench) {
    const MANY: u32 = 2_500;
    let desk = bench.desk().await;
    for number in 0..MANY {
        // Some share an expiry and some do not.
        let expiry = Timestamp::from_millis(START + 1_000 + u64::from(number / 7));
        desk.own(desk.round(number).expiring(expiry)).await;
    }
    desk.own(desk.round(MANY)).await;
    desk.own(desk.step(1)).await;
    assert_eq!(desk.count().await, (u64::from(MANY) + 1, 1));
    desk.clock.advance(Duration::from_secs(120));
    assert_eq!(desk.purge().await, (u64::from(MANY), 0));
    assert_eq!(desk.count().await, (1, 1));
    assert_eq!(desk.purge().await, (0, 0));
}
