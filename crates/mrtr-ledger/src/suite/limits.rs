//! How much is held, for whom, and what is refused beyond it.

use super::*;

/// Rows are counted per account, of both kinds together; another account is not touched, and nothing is claimed.
pub async fn an_account_has_a_limit_of_rows(bench: &Bench) {
    let desk = bench
        .desk_with(
            Limits {
                rows_per_account: 3,
                ..Limits::NONE
            },
            MIN_RETENTION,
        )
        .await;
    desk.own(desk.round(1)).await;
    desk.own(desk.round(2)).await;
    desk.own(desk.step(1)).await;
    assert_eq!(desk.claim(&desk.round(3)).await, Claimed::Full);
    assert_eq!(desk.claim(&desk.step(3)).await, Claimed::Full);
    assert_eq!(desk.count().await, (2, 1));
    assert_eq!(desk.lookup(&desk.round(3)).await, Found::Absent);
    desk.own(desk.round(3).by(1)).await;
}

/// Bytes are those of stored outcomes. A settlement is stored however full it is.
pub async fn an_account_has_a_limit_of_bytes(bench: &Bench) {
    let desk = bench
        .desk_with(
            Limits {
                bytes_per_account: 10,
                ..Limits::NONE
            },
            MIN_RETENTION,
        )
        .await;
    let (one, two) = (desk.own(desk.round(1)).await, desk.own(desk.round(2)).await);
    assert_eq!(desk.settle(&one, &[1; 9]).await, Settled::Stored);
    let three = desk.own(desk.round(3)).await;
    assert_eq!(desk.settle(&two, &[2; 1]).await, Settled::Stored);
    assert_eq!(desk.claim(&desk.round(4)).await, Claimed::Full);
    assert_eq!(desk.claim(&desk.step(4)).await, Claimed::Full);
    assert_eq!(desk.settle(&three, &[3; 100]).await, Settled::Stored);
    assert_eq!(desk.claim(&three.retry()).await, settled(&[3; 100]));
    desk.own(desk.round(4).by(1)).await;
}

/// The whole ledger's limits hold for all accounts together.
pub async fn the_ledger_has_limits_of_its_own(bench: &Bench) {
    let desk = bench
        .desk_with(
            Limits {
                rows: 2,
                ..Limits::NONE
            },
            MIN_RETENTION,
        )
        .await;
    desk.own(desk.round(1).by(1)).await;
    desk.own(desk.step(1).by(2)).await;
    assert_eq!(desk.claim(&desk.round(2).by(3)).await, Claimed::Full);

    let desk = bench
        .desk_with(
            Limits {
                bytes: 10,
                ..Limits::NONE
            },
            MIN_RETENTION,
        )
        .await;
    let (one, two) = (
        desk.own(desk.round(1).by(1)).await,
        desk.own(desk.step(1).by(2)).await,
    );
    assert_eq!(desk.settle(&one, &[1; 5]).await, Settled::Stored);
    desk.own(desk.round(2).by(3)).await;
    assert_eq!(desk.settle(&two, &[2; 5]).await, Settled::Stored);
    assert_eq!(desk.claim(&desk.round(3).by(3)).await, Claimed::Full);
}

/// A round that was admitted finds room for its steps, and so does a first call after its first step.
pub async fn what_has_begun_is_never_refused(bench: &Bench) {
    let limits = Limits {
        rows_per_account: 1,
        bytes_per_account: 1,
        rows: 1,
        bytes: 1,
    };
    let desk = bench.desk_with(limits, MIN_RETENTION).await;
    let round = desk.own(desk.round(1)).await;
    for number in 1..5 {
        let step = desk.own(desk.step(number).under(round.owner())).await;
        assert_eq!(desk.settle(&step, b"done").await, Settled::Stored);
    }
    desk.own(desk.step(6).later()).await;
    assert_eq!(desk.claim(&desk.step(7)).await, Claimed::Full);
    // The room is not asked for again: not by a repeated claim, and not by one of a row that was given back.
    assert_eq!(desk.claim(&round).await, Claimed::First);
    assert!(desk.release(&round).await);
    let again = desk.own(round.retry()).await;
    assert_eq!(desk.settle(&again, b"done").await, Settled::Stored);
    assert_eq!(desk.claim(&again.retry()).await, settled(b"done"));
    // A round cannot be claimed as something that has begun.
    assert_eq!(desk.claim(&desk.round(2).later()).await, Claimed::Full);
}

/// Rows count until they expire (a minute later at most), not until they are removed.
pub async fn expired_rows_do_not_count(bench: &Bench) {
    let retention = LIFETIME * 100;
    let limits = Limits {
        rows_per_account: 1,
        bytes_per_account: 1,
        rows: 1,
        bytes: 1,
    };
    let desk = bench.desk_with(limits, retention).await;
    let old = desk.own(desk.round(1)).await;
    assert_eq!(desk.settle(&old, b"done").await, Settled::Stored);
    let next = desk
        .round(2)
        .expiring(old.key.expiry.saturating_add(LIFETIME));
    desk.clock
        .set(Timestamp::from_millis(old.key.expiry.as_millis() - 1));
    assert_eq!(desk.claim(&next).await, Claimed::Full);
    desk.clock
        .set(old.key.expiry.saturating_add(Duration::from_secs(60)));
    desk.own(next).await;
    assert_eq!(desk.lookup(&old).await, found(b"done"), "it is still there");
}

/// Who floods a ledger is refused, and pushes nobody's row out.
pub async fn case_080_a_full_ledger_forgets_nothing(bench: &Bench) {
    let limits = Limits {
        rows_per_account: 50,
        rows: 60,
        ..Limits::NONE
    };
    let desk = bench.desk_with(limits, MIN_RETENTION).await;
    let honest = desk.own(desk.round(0)).await;
    assert_eq!(desk.settle(&honest, b"paid").await, Settled::Stored);
    let mut taken = 0;
    for number in 1..=200 {
        match desk.claim(&desk.round(number).by(9)).await {
            Claimed::First => taken += 1,
            answer => assert_eq!(answer, Claimed::Full),
        }
    }
    assert_eq!(taken, 50);
    assert_eq!(desk.claim(&honest.retry()).await, settled(b"paid"));
    desk.own(desk.round(1_000)).await;
}
