//! Notes: written once, read by whoever matches, gone with their expiry.

use super::*;

/// And by nobody else.
pub async fn a_note_is_read_by_whoever_matches(bench: &Bench) {
    let desk = bench.desk().await;
    for (number, value) in [(1, &b"a price"[..]), (2, b""), (3, &[0xff; 200_000])] {
        let note = desk.note(number, value);
        assert_eq!(desk.read(&note).await, Found::Absent);
        assert_eq!(desk.keep(&note).await, Kept::Stored);
        assert_eq!(desk.read(&note).await, found(value));
        let stranger = Note {
            fingerprint: fingerprint(1),
            ..note.clone()
        };
        assert_eq!(desk.read(&stranger).await, Found::Conflict);
        assert_eq!(desk.keep(&stranger).await, Kept::Conflict);
        assert_eq!(desk.read(&note).await, found(value));
    }
    assert_eq!(desk.rows().await.notes, 3);
}

/// Whoever writes later reads the first value, and so do both of two that write at once.
pub async fn the_first_value_stands(bench: &Bench) {
    let desk = bench.desk().await;
    assert_eq!(desk.keep(&desk.note(1, b"first")).await, Kept::Stored);
    let before = Kept::Before(b"first".to_vec());
    assert_eq!(desk.keep(&desk.note(1, b"second")).await, before);
    assert_eq!(desk.keep(&desk.note(1, b"first")).await, before);
    assert_eq!(desk.read(&desk.note(1, b"")).await, found(b"first"));
    assert_eq!(desk.rows().await.notes, 1);
}

/// A round that was withdrawn or has ended writes nothing.
pub async fn a_note_needs_its_round(bench: &Bench) {
    let desk = bench.desk().await;
    let round = desk.own(desk.round(1)).await;
    let note = |number| desk.note(number, b"a price").under(round.owner());
    assert_eq!(desk.keep(&note(1)).await, Kept::Stored);
    let nobodys = desk.note(2, b"x").under(desk.round(9).owner());
    assert_eq!(desk.keep(&nobodys).await, Kept::StaleOwner);
    let others = desk.note(2, b"x").under(round.retry().owner());
    assert_eq!(desk.keep(&others).await, Kept::StaleOwner);
    desk.clock.advance(LEASE);
    assert_eq!(desk.keep(&note(3)).await, Kept::Stored, "nobody was told");
    assert_eq!(desk.claim(&round.retry()).await, Claimed::Abandoned);
    assert_eq!(desk.keep(&note(4)).await, Kept::StaleOwner);
    assert_eq!(desk.rows().await.notes, 2);
}

/// `now < expiry` is the rule for writing; what was written is read until it is purged, and never written again.
pub async fn a_note_is_refused_when_its_time_is_over(bench: &Bench) {
    let desk = bench.desk().await;
    let (one, two) = (desk.note(1, b"one"), desk.note(2, b"two"));
    let expiry = one.key.expiry;
    desk.clock
        .set(Timestamp::from_millis(expiry.as_millis() - 1));
    assert_eq!(desk.keep(&one).await, Kept::Stored);
    desk.clock.set(expiry);
    assert_eq!(desk.keep(&two).await, Kept::Expired);
    assert_eq!(desk.read(&one).await, found(b"one"));
    desk.clock.set(expiry.saturating_add(MIN_RETENTION + MS));
    desk.purge().await;
    assert_eq!(desk.read(&one).await, Found::Absent);
    desk.clock.set(Timestamp::from_millis(START));
    assert_eq!(
        desk.keep(&one).await,
        Kept::Expired,
        "the mark remembers, whatever the clock says"
    );
}

/// As for claims: compared in the statement that writes.
pub async fn a_note_of_another_epoch_is_stale(bench: &Bench) {
    let mut desk = bench.desk().await;
    let note = desk.note(1, b"a price");
    let epoch = desk.ledger.rotate_epoch().await.expect("a new epoch");
    assert_eq!(desk.keep(&note).await, Kept::StaleEpoch);
    assert_eq!(desk.read(&note).await, Found::Absent);
    desk.epoch = epoch;
    assert_eq!(desk.keep(&desk.note(1, b"a price")).await, Kept::Stored);
}

/// Rows and bytes of notes count like those of outcomes, and what is under a round finds room.
pub async fn notes_count_and_are_purged(bench: &Bench) {
    let limits = Limits {
        rows_per_account: 3,
        bytes_per_account: 10,
        ..Limits::NONE
    };
    let desk = bench.desk_with(limits, MIN_RETENTION).await;
    let round = desk.own(desk.round(1)).await;
    assert_eq!(desk.keep(&desk.note(1, &[1; 10])).await, Kept::Stored);
    assert_eq!(desk.keep(&desk.note(2, b"")).await, Kept::Full, "bytes");
    assert_eq!(desk.claim(&desk.round(2)).await, Claimed::Full);
    let under = desk.note(3, b"x").under(round.owner());
    assert_eq!(desk.keep(&under).await, Kept::Stored);
    let other = Note {
        account: account(1),
        ..desk.note(4, b"x")
    };
    assert_eq!(desk.keep(&other).await, Kept::Stored);
    assert_eq!(desk.rows().await.notes, 3);

    let expiry = other.key.expiry;
    desk.clock.set(expiry.saturating_add(MIN_RETENTION));
    let purged = desk.ledger.purge().await.expect("word on a purge");
    assert_eq!((purged.rounds, purged.notes), (1, 0));
    desk.clock.set(expiry.saturating_add(MIN_RETENTION + MS));
    let purged = desk.ledger.purge().await.expect("word on a purge");
    assert_eq!(purged.notes, 3);
    assert_eq!(desk.rows().await.notes, 0);
    let later = expiry.saturating_add(LIFETIME);
    let next = Note {
        key: key(later, 9),
        ..desk.note(9, b"x")
    };
    assert_eq!(desk.keep(&next).await, Kept::Stored, "there is room again");
}

/// Nobody owns one, so a claim of one is refused, whether it is there or not, and changes nothing.
pub async fn a_note_is_never_claimed(bench: &Bench) {
    let desk = bench.desk().await;
    let claim = |number| Claim {
        kind: Kind::Note,
        ..desk.step(number)
    };
    assert_eq!(desk.keep(&desk.note(1, b"a price")).await, Kept::Stored);
    for number in [1, 2] {
        assert_eq!(desk.claim(&claim(number)).await, Claimed::Conflict);
    }
    assert_eq!(desk.read(&desk.note(1, b"")).await, found(b"a price"));
    assert_eq!(desk.keep(&desk.note(2, b"later")).await, Kept::Stored);
    assert_eq!(desk.rows().await.notes, 2);
    // What is asked for beside it does not suffer.
    desk.own(desk.round(1)).await;
}

/// One key names a round, a step and a note, and the mark of one kind says nothing of another.
pub async fn notes_share_no_row_and_no_mark_with_others(bench: &Bench) {
    let desk = bench.desk().await;
    let note = desk.note(1, b"a price");
    let step = desk.own(desk.step(1)).await;
    assert_eq!(step.key, note.key);
    assert_eq!(desk.read(&note).await, Found::Absent);
    assert_eq!(desk.keep(&note).await, Kept::Stored);
    assert_eq!(desk.settle(&step, b"sent").await, Settled::Stored);
    assert_eq!(desk.read(&note).await, found(b"a price"));
    assert_eq!(desk.lookup(&step).await, found(b"sent"));
    // Nobody owns a note, so nobody can change it.
    let zero = Token::from_bytes([0; 16]);
    let note_only = desk.note(2, b"a price");
    assert_eq!(desk.keep(&note_only).await, Kept::Stored);
    let settlement = Settlement::Outcome(b"another".to_vec());
    let settled = desk.ledger.settle(note_only.key, zero, settlement).await;
    assert_eq!(settled.expect("word"), Settled::Refused);
    let released = desk.ledger.release(note_only.key, zero).await;
    assert!(!released.expect("word"));
    assert_eq!(desk.read(&note_only).await, found(b"a price"));

    let desk = bench.desk().await;
    let note = desk.note(1, b"a price");
    assert_eq!(desk.keep(&note).await, Kept::Stored);
    let gone = note.key.expiry.saturating_add(MIN_RETENTION + MS);
    desk.clock.set(gone);
    desk.purge().await;
    desk.clock.set(Timestamp::from_millis(START));
    assert_eq!(desk.keep(&note).await, Kept::Expired);
    desk.own(desk.step(1)).await;
    desk.own(desk.round(1).expiring(note.key.expiry)).await;
}
