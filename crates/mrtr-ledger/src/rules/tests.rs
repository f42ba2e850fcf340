use std::convert::Infallible;

use super::*;
use crate::{Account, Owner};

const NOW: Timestamp = Timestamp::from_millis(1_000_000);
const LEASE: Duration = Duration::from_secs(30);

fn a_claim(kind: Kind) -> Claim {
    let key = RowKey {
        expiry: Timestamp::from_millis(2_000_000),
        hash: [0; 32],
    };
    let (epoch, print) = (Epoch::from_bytes([1; 16]), Fingerprint::from_bytes([1; 32]));
    let (account, token) = (Account::from_bytes([1; 32]), Token::from_bytes([1; 16]));
    match kind {
        Kind::Round => Claim::round(key, epoch, print, account, token, LEASE),
        Kind::Step | Kind::Note => Claim::step(key, epoch, print, account, token, LEASE),
    }
}

fn present() -> Present {
    Present {
        now: NOW,
        epoch: Epoch::from_bytes([1; 16]),
        mark: None,
    }
}

fn decide(
    asked: &Claim,
    row: Option<&Row>,
    round: Option<&Row>,
    present: Present,
    room: bool,
) -> (Claimed, Write) {
    let Ok(decided) = claim(asked, row, round, present, || Ok::<_, Infallible>(room));
    decided
}

fn row(status: Status) -> Row {
    Row {
        fingerprint: Fingerprint::from_bytes([1; 32]),
        token: Token::from_bytes([2; 16]),
        status,
    }
}

fn owned(lease: Timestamp) -> Status {
    Status::Owned {
        lease,
        again: false,
    }
}

fn owned_again(lease: Timestamp) -> Status {
    Status::Owned { lease, again: true }
}

/// Every reason to refuse at once, then one taken away after another: the order in which they are told.
#[test]
fn refusals_come_in_their_order() {
    let owner = Owner {
        key: RowKey {
            expiry: NOW,
            hash: [9; 32],
        },
        token: Token::from_bytes([9; 16]),
    };
    let mut asked = a_claim(Kind::Step).under(owner);
    asked.fingerprint = Fingerprint::from_bytes([3; 32]);
    let mut now = Present {
        now: asked.key.expiry,
        epoch: Epoch::from_bytes([3; 16]),
        mark: Some(asked.key.expiry),
    };
    let there = row(Status::Settled(b"paid".to_vec()));
    let told = |asked: &Claim, round: Option<&Row>, now| {
        let (claimed, write) = decide(asked, Some(&there), round, now, false);
        assert_eq!(write, Write::Nothing);
        claimed
    };
    assert_eq!(told(&asked, None, now), Claimed::Conflict);
    asked.fingerprint = there.fingerprint;
    assert_eq!(told(&asked, None, now), Claimed::StaleEpoch);
    now.epoch = asked.epoch;
    assert_eq!(told(&asked, None, now), Claimed::StaleOwner);
    let round = Row {
        token: owner.token,
        ..row(owned(Timestamp::from_millis(0)))
    };
    assert_eq!(told(&asked, Some(&round), now), Claimed::Expired);
    now.now = NOW;
    assert_eq!(told(&asked, Some(&round), now), Claimed::Expired);
    now.mark = Some(NOW);
    assert_eq!(
        told(&asked, Some(&round), now),
        Claimed::Settled(b"paid".to_vec())
    );
    let (claimed, write) = decide(&asked, None, Some(&round), now, false);
    assert_eq!(
        (claimed, write),
        (
            Claimed::First,
            Write::Insert {
                lease: NOW.saturating_add(LEASE)
            }
        )
    );
}

/// Room is asked for where work begins and a row would be added, and nowhere else.
#[test]
fn room_is_asked_for_where_work_begins() {
    let owner = Owner {
        key: a_claim(Kind::Round).key,
        token: Token::from_bytes([2; 16]),
    };
    let round = row(owned(NOW));
    for (asked, limited) in [
        (a_claim(Kind::Round), true),
        (a_claim(Kind::Round).later(), true),
        (a_claim(Kind::Step), true),
        (a_claim(Kind::Step).later(), false),
        (a_claim(Kind::Step).under(owner), false),
    ] {
        let (claimed, write) = decide(&asked, None, Some(&round), present(), false);
        let expected = if limited {
            Claimed::Full
        } else {
            Claimed::First
        };
        assert_eq!(claimed, expected, "{asked:?}");
        assert_eq!(write == Write::Nothing, limited);
        let (claimed, _) = decide(&asked, None, Some(&round), present(), true);
        assert_eq!(claimed, Claimed::First);
        let (claimed, _) = decide(
            &asked,
            Some(&row(Status::Released)),
            Some(&round),
            present(),
            false,
        );
        assert_eq!(claimed, Claimed::First, "no row is added");
    }
    let failed = claim(&a_claim(Kind::Round), None, None, present(), || {
        Err("no word")
    });
    assert_eq!(failed, Err("no word"));
}

/// What is written for each status, by kind, to the owner and to others.
#[test]
fn each_status_has_one_answer() {
    let (past, future) = (NOW, Timestamp::from_millis(NOW.as_millis() + 10_000));
    let own = |again| Write::Own {
        lease: NOW.saturating_add(LEASE),
        again,
    };
    let renewed = own(false);
    for kind in [Kind::Round, Kind::Step] {
        let owner = Claim {
            token: Token::from_bytes([2; 16]),
            ..a_claim(kind)
        };
        let other = a_claim(kind);
        let told = |asked: &Claim, status: &Status| {
            decide(asked, Some(&row(status.clone())), None, present(), true)
        };

        let lapsed = owned(past);
        let runs = owned(future);
        assert_eq!(told(&owner, &runs), (Claimed::First, renewed.clone()));
        assert_eq!(told(&owner, &lapsed), (Claimed::First, renewed.clone()));
        assert_eq!(
            told(&other, &Status::Released),
            (Claimed::First, renewed.clone())
        );
        let wait = Claimed::InProgress {
            retry_after: Duration::from_secs(1),
        };
        assert_eq!(told(&other, &runs), (wait, Write::Nothing));
        let withdraws = if kind == Kind::Round {
            Write::Abandon
        } else {
            Write::Nothing
        };
        assert_eq!(told(&other, &lapsed), (Claimed::Abandoned, withdraws));
        for asked in [&owner, &other] {
            assert_eq!(
                told(asked, &Status::Abandoned),
                (Claimed::Abandoned, Write::Nothing)
            );
            let settled = Status::Settled(b"x".to_vec());
            assert_eq!(
                told(asked, &settled),
                (Claimed::Settled(b"x".to_vec()), Write::Nothing)
            );
        }
    }
}

/// What a claim that runs again is told, and writes. A step is told what it always is.
#[test]
fn what_is_unknown_runs_again_where_that_was_said() {
    let (past, future) = (NOW, Timestamp::from_millis(NOW.as_millis() + 10_000));
    let takes_over = Write::Own {
        lease: NOW.saturating_add(LEASE),
        again: true,
    };
    let round = a_claim(Kind::Round).run_again();
    let told =
        |asked: &Claim, status: Status| decide(asked, Some(&row(status)), None, present(), true);
    for lost in [owned(past), owned_again(past), Status::Abandoned] {
        assert_eq!(
            told(&round, lost.clone()),
            (Claimed::First, takes_over.clone()),
            "{lost:?}"
        );
        let plain = a_claim(Kind::Round);
        assert_eq!(told(&plain, lost.clone()).0, Claimed::Abandoned, "{lost:?}");
        let step = a_claim(Kind::Step).run_again();
        assert_eq!(
            told(&step, lost.clone()),
            (Claimed::Abandoned, Write::Nothing),
            "{lost:?}"
        );
    }
    assert!(matches!(
        told(&round, owned(future)),
        (Claimed::InProgress { .. }, Write::Nothing)
    ));
    let settled = Status::Settled(b"x".to_vec());
    assert_eq!(
        told(&round, settled),
        (Claimed::Settled(b"x".to_vec()), Write::Nothing)
    );
    let (_, fresh) = told(&round, Status::Released);
    assert_eq!(
        fresh,
        Write::Own {
            lease: NOW.saturating_add(LEASE),
            again: false
        },
        "nothing has run"
    );
    // An owner that claims once more, or beats, does not forget that something ran before it.
    let owner = Claim {
        token: Token::from_bytes([2; 16]),
        ..a_claim(Kind::Round)
    };
    assert_eq!(told(&owner, owned_again(past)).1, takes_over);
    let owned_row = row(owned_again(NOW));
    assert_eq!(
        beat(Some(&owned_row), &owner.token, LEASE, NOW),
        Some(owned_again(NOW.saturating_add(LEASE)))
    );
    assert_eq!(
        release(Some(&owned_row), &owner.token),
        (true, Some(Status::Abandoned))
    );
}

/// A note is refused for what a claim is refused for, in the same order, and written once.
#[test]
fn a_note_is_written_once() {
    let owner = Owner {
        key: a_claim(Kind::Round).key,
        token: Token::from_bytes([2; 16]),
    };
    let like = a_claim(Kind::Step);
    let (key, account) = (like.key, like.account);
    let note = |value: &[u8]| Note::new(key, like.epoch, like.fingerprint, account, value.to_vec());
    let decide = |note: &Note, there: Option<&Row>, round: Option<&Row>, present, room: bool| {
        let Ok(decided) = keep(note, there, round, present, || Ok::<_, Infallible>(room));
        decided
    };
    let round = row(owned(NOW));
    let there = Row::of_note(like.fingerprint, b"first".to_vec());

    let mut asked = note(b"second").under(owner);
    asked.fingerprint = Fingerprint::from_bytes([3; 32]);
    let mut now = Present {
        now: key.expiry,
        epoch: Epoch::from_bytes([3; 16]),
        mark: None,
    };
    let told = |asked: &Note, round, now| decide(asked, Some(&there), round, now, false);
    assert_eq!(told(&asked, None, now), (Kept::Conflict, false));
    asked.fingerprint = there.fingerprint;
    assert_eq!(told(&asked, None, now), (Kept::StaleEpoch, false));
    now.epoch = asked.epoch;
    assert_eq!(told(&asked, None, now), (Kept::StaleOwner, false));
    assert_eq!(told(&asked, Some(&round), now), (Kept::Expired, false));
    now.now = NOW;
    assert_eq!(
        told(&asked, Some(&round), now),
        (Kept::Before(b"first".to_vec()), false)
    );

    assert_eq!(
        decide(&asked, None, Some(&round), now, false),
        (Kept::Stored, true),
        "the round has room for what is under it"
    );
    assert_eq!(
        decide(&note(b"x"), None, None, now, false),
        (Kept::Full, false)
    );
    assert_eq!(
        decide(&note(b"x"), None, None, now, true),
        (Kept::Stored, true)
    );
    let alien = row(Status::Released);
    assert_eq!(
        decide(&note(b"x"), Some(&alien), None, now, true),
        (Kept::Conflict, false)
    );
    let full = keep(&note(b"x"), None, None, now, || Err("no word"));
    assert_eq!(full, Err("no word"));
}

#[test]
fn a_hint_is_between_soon_and_a_second() {
    assert_eq!(retry_hint(Duration::ZERO), Duration::from_millis(50));
    assert_eq!(
        retry_hint(Duration::from_millis(200)),
        Duration::from_millis(200)
    );
    assert_eq!(retry_hint(Duration::from_secs(60)), Duration::from_secs(1));
}

#[test]
fn a_row_may_go_only_after_expiry_and_retention_and_without_a_lease() {
    let key = RowKey {
        expiry: Timestamp::from_millis(1_000),
        hash: [0; 32],
    };
    let retention = Duration::from_millis(500);
    let at = Timestamp::from_millis;
    assert!(!is_removable(key, &Status::Abandoned, retention, at(1_500)));
    assert!(is_removable(key, &Status::Abandoned, retention, at(1_501)));
    assert!(!is_removable(key, &owned(at(1_502)), retention, at(1_501)));
    assert!(is_removable(key, &owned(at(1_501)), retention, at(1_501)));
    // No time is beyond the end of time.
    let never = RowKey {
        expiry: Timestamp::MAX,
        ..key
    };
    assert!(!is_removable(
        never,
        &Status::Abandoned,
        retention,
        Timestamp::MAX
    ));
}

/// Nobody but the owner changes a row, whatever the ledger hands in.
#[test]
fn another_token_changes_nothing() {
    let owned = row(owned(NOW));
    let (owner, other) = (owned.token, Token::from_bytes([7; 16]));
    let paid = Settlement::Outcome(b"paid".to_vec());
    assert_eq!(settle(Some(&owned), &owner, &paid).0, Settled::Stored);
    assert_eq!(
        settle(Some(&owned), &other, &paid),
        (Settled::Refused, None)
    );
    assert_eq!(settle(None, &owner, &paid), (Settled::Refused, None));
    assert_eq!(
        beat(Some(&owned), &owner, LEASE, NOW),
        Some(self::owned(NOW.saturating_add(LEASE)))
    );
    assert_eq!(beat(Some(&owned), &other, LEASE, NOW), None);
    assert_eq!(beat(None, &owner, LEASE, NOW), None);
    assert_eq!(
        release(Some(&owned), &owner),
        (true, Some(Status::Released))
    );
    assert_eq!(release(Some(&owned), &other), (false, None));
    assert_eq!(release(None, &owner), (false, None));
}
