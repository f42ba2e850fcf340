//! Files that earlier versions of this crate have made. They are never made again.
//!
//! `tests/golden/version-1.sqlite` was written by the last commit whose files have version 1: at 1,700,000,000,000 ms a round
//! that expires a second later was abandoned and, 62 seconds later, purged; then, with the clock set back, four rounds (keys of
//! 32 times 10 to 13) and four steps (20 to 23) were claimed under tokens of 16 times the same number, and the first of each
//! settled with `outcome N`, the second abandoned, the third released, the fourth left as it was.

use std::fs;
use std::time::Duration;

use mrtr_ledger::{
    Account, Claim, Claimed, Fingerprint, Found, Kept, Kind, Ledger as _, Limits, MIN_RETENTION,
    Note, RowKey, Settled, Settlement, Token,
};
use mrtr_ledger_sqlite::{OpenError, SqliteLedger};
use mrtr_state::{Epoch, Timestamp};
use rusqlite::Connection;

use crate::bench::{FAR, LEASE, Place, START};

const EPOCH: &str = "5ARh8VXLPx-ieFllzXH_CQ";

/// A place with a copy of a golden file.
pub(crate) fn place(name: &str) -> Place {
    let place = Place::new();
    let golden = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/golden/");
    // Written and not copied, so that it has the mode of a file of ours wherever the sources came from.
    fs::write(place.file(), fs::read(format!("{golden}{name}")).unwrap()).unwrap();
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt as _;
        fs::set_permissions(place.file(), fs::Permissions::from_mode(0o600)).unwrap();
    }
    place
}

fn claim(kind: Kind, number: u8, expiry: Timestamp) -> Claim {
    let make = match kind {
        Kind::Step => Claim::step,
        _ => Claim::round,
    };
    make(
        RowKey {
            expiry,
            hash: [number; 32],
        },
        Epoch::from_text(EPOCH).unwrap(),
        Fingerprint::from_bytes([1; 32]),
        Account::from_bytes([2; 32]),
        Token::generate().unwrap(),
        LEASE,
    )
}

fn open(place: &Place) -> SqliteLedger {
    place.builder().retention(MIN_RETENTION).open().unwrap()
}

fn version(place: &Place) -> i64 {
    Connection::open(place.file())
        .unwrap()
        .query_row("PRAGMA user_version", [], |row| row.get(0))
        .unwrap()
}

/// Every row answers as it did, the purge's mark holds, what was counted counts, and there is room for what is new.
#[tokio::test]
async fn case_106_a_file_of_version_1_keeps_its_rows() {
    let place = place("version-1.sqlite");
    assert_eq!(version(&place), 1);
    let ledger = open(&place);
    assert_eq!(version(&place), 2);
    assert_eq!(ledger.epoch().await.unwrap().to_text(), EPOCH);

    for (kind, first) in [(Kind::Round, 10), (Kind::Step, 20)] {
        let of = |which: u8| claim(kind, first + which, FAR);
        let settled = format!("outcome {first}").into_bytes();
        assert_eq!(
            ledger.claim(of(0)).await.unwrap(),
            Claimed::Settled(settled)
        );
        assert_eq!(ledger.claim(of(1)).await.unwrap(), Claimed::Abandoned);
        assert!(matches!(
            ledger.claim(of(3)).await.unwrap(),
            Claimed::InProgress { .. }
        ));
        assert_eq!(ledger.claim(of(2)).await.unwrap(), Claimed::First);
        // The owner of then ends its run now.
        let token = Token::from_bytes([first + 3; 16]);
        let late = Settlement::Outcome(b"late".to_vec());
        let settled = ledger.settle(of(3).key, token, late).await.unwrap();
        assert_eq!(settled, Settled::Stored);
    }
    let gone = claim(Kind::Round, 1, Timestamp::from_millis(START + 1_000));
    assert_eq!(ledger.claim(gone).await.unwrap(), Claimed::Expired);

    let rows = ledger.rows().await.unwrap();
    assert_eq!(
        (rows.rounds, rows.steps, rows.settled_rounds, rows.notes),
        (4, 4, 2, 0)
    );
    // What version 2 has, it has here too: a note, and a round that is taken over.
    let Claim {
        key,
        epoch,
        fingerprint,
        account,
        ..
    } = claim(Kind::Step, 30, FAR);
    let note = Note::new(key, epoch, fingerprint, account, b"a price".to_vec());
    assert_eq!(ledger.keep(note).await.unwrap(), Kept::Stored);
    let again = claim(Kind::Round, 11, FAR).run_again();
    assert_eq!(ledger.claim(again).await.unwrap(), Claimed::First);
    // Past the time at which the purge was.
    place.clock.advance(Duration::from_secs(62));
    let verified = ledger.verify().await.unwrap();
    assert!(verified.is_sound(), "{:?}", verified.findings);
    drop(ledger);

    let ledger = open(&place);
    let found = ledger.lookup(Kind::Note, key, fingerprint).await.unwrap();
    assert_eq!(found, Found::Settled(b"a price".to_vec()));
}

#[tokio::test]
async fn what_version_1_counted_counts() {
    let place = place("version-1.sqlite");
    let limits = |rows_per_account| Limits {
        rows_per_account,
        ..Limits::NONE
    };
    let open = |most| place.builder().limits(limits(most)).open().unwrap();
    // Eight rows that are there, and one that was purged in a minute that is not over.
    let (full, room) = (open(9), open(10));
    let new = claim(Kind::Round, 40, FAR);
    assert_eq!(full.claim(new.clone()).await.unwrap(), Claimed::Full);
    assert_eq!(room.claim(new).await.unwrap(), Claimed::First);
}

/// Locked by a program of the other version while it is brought up to date: an error, and a whole file afterwards.
#[tokio::test]
async fn a_file_that_cannot_be_brought_up_to_date_stays_as_it_is() {
    let place = place("version-1.sqlite");
    let other = Connection::open(place.file()).unwrap();
    other.execute_batch("BEGIN IMMEDIATE").unwrap();
    let refused = place.builder().wait(Duration::from_millis(50)).open();
    assert!(
        matches!(
            refused,
            Err(OpenError::Ledger(mrtr_ledger::LedgerError::Busy))
        ),
        "{refused:?}"
    );
    other.execute_batch("ROLLBACK").unwrap();
    assert_eq!(version(&place), 1);
    open(&place);
    assert_eq!(version(&place), 2);
}
