//! Who may read the file, what is taken for a ledger, and what stays when it is opened again.

use std::fs;
use std::time::Duration;

use mrtr_ledger::{
    Account, Claim, Claimed, Fingerprint, Found, Kind, Ledger as _, LedgerError, RowKey, Token,
};
use mrtr_ledger::{MIN_RETENTION, Settlement};
use mrtr_ledger_sqlite::{OpenError, SqliteLedger};
use mrtr_state::{Nonce, Principal, RequestDigest, Timestamp};
use rusqlite::Connection;

use crate::bench::{FAR, LEASE, Place, START, paid, retry, round, settled};

#[cfg(unix)]
fn mode(path: &std::path::Path) -> u32 {
    use std::os::unix::fs::PermissionsExt as _;
    fs::metadata(path).unwrap().permissions().mode() & 0o777
}

#[cfg(unix)]
fn set_mode(path: &std::path::Path, mode: u32) {
    use std::os::unix::fs::PermissionsExt as _;
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
}

/// The file, its log and the log's index are for their owner alone.
#[cfg(unix)]
#[tokio::test]
async fn case_104_all_files_are_private() {
    let place = Place::new();
    let ledger = place.open();
    paid(&ledger, 1).await;
    for file in place.files() {
        assert_eq!(mode(&file), 0o600, "{}", file.display());
    }
}

/// A file that others may read is refused until somebody has decided about it.
#[cfg(unix)]
#[tokio::test]
async fn case_104_a_file_that_others_may_touch_is_refused() {
    let place = Place::new();
    let ledger = place.open();
    let claim = paid(&ledger, 1).await;
    for (file, looser) in place
        .files()
        .into_iter()
        .flat_map(|file| [(file.clone(), 0o640), (file, 0o602)])
    {
        set_mode(&file, looser);
        let Err(OpenError::Permissions { path, mode }) = place.builder().open() else {
            panic!("{} is open to others", file.display());
        };
        assert_eq!((path.file_name(), mode), (file.file_name(), looser));
        set_mode(&file, 0o600);
    }
    assert_eq!(place.open().claim(retry(&claim)).await.unwrap(), settled());
}

#[cfg(unix)]
#[test]
fn case_104_a_symbolic_link_or_a_folder_is_refused() {
    let place = Place::new();
    drop(place.open());
    let link = place.named("link.sqlite");
    std::os::unix::fs::symlink(place.file(), &link).unwrap();
    assert!(matches!(SqliteLedger::open(link), Err(OpenError::Symlink)));
    let folder = place.named("folder");
    fs::create_dir(&folder).unwrap();
    assert!(matches!(
        SqliteLedger::open(folder),
        Err(OpenError::NotAFile)
    ));
    assert!(matches!(SqliteLedger::open("/"), Err(OpenError::NotAFile)));
    assert!(matches!(
        SqliteLedger::open(place.named("none").join("ledger.sqlite")),
        Err(OpenError::Io(_))
    ));
}

/// Another program's database is not taken over, and not touched.
#[test]
fn another_programs_database_is_refused_unchanged() {
    let place = Place::new();
    let foreign = Connection::open(place.file()).unwrap();
    foreign
        .execute_batch("CREATE TABLE notes (text TEXT); INSERT INTO notes VALUES ('mine');")
        .unwrap();
    drop(foreign);
    #[cfg(unix)]
    set_mode(&place.file(), 0o600);
    let before = fs::read(place.file()).unwrap();
    assert!(matches!(place.builder().open(), Err(OpenError::Foreign)));
    assert_eq!(fs::read(place.file()).unwrap(), before);
}

/// A file of a later version is refused by this one.
#[tokio::test]
async fn case_106_a_later_version_is_refused() {
    let place = Place::new();
    paid(&place.open(), 1).await;
    let file = Connection::open(place.file()).unwrap();
    file.pragma_update(None, "user_version", 3).unwrap();
    assert!(matches!(
        place.builder().open(),
        Err(OpenError::Version { found: 3, known: 2 })
    ));
    file.pragma_update(None, "user_version", 2).unwrap();
    place.open();
}

/// Bytes that are no database are refused, and stay as they are for whoever wants to look.
#[cfg(unix)]
#[test]
fn a_file_of_rubbish_is_refused_unchanged() {
    let place = Place::new();
    let rubbish = b"not a database at all, and longer than the header of one. ".repeat(200);
    fs::write(place.file(), &rubbish).unwrap();
    set_mode(&place.file(), 0o600);
    assert!(matches!(
        place.builder().open(),
        Err(OpenError::Ledger(LedgerError::Corrupt))
    ));
    assert_eq!(fs::read(place.file()).unwrap(), rubbish);
}

/// What other programs see: a write-ahead log, this application's id and version, and tables in the order of expiry.
#[tokio::test]
async fn the_file_says_what_it_is() {
    let place = Place::new();
    let _ledger = place.open();
    let file = Connection::open(place.file()).unwrap();
    let text = |sql: &str| {
        file.query_row(sql, [], |row| row.get::<_, String>(0))
            .unwrap()
    };
    let number = |sql: &str| file.query_row(sql, [], |row| row.get::<_, i64>(0)).unwrap();
    assert_eq!(text("PRAGMA journal_mode"), "wal");
    assert_eq!(number("PRAGMA application_id"), 0x4d52_5452);
    assert_eq!(number("PRAGMA user_version"), 2);
    for table in ["rounds", "steps", "notes", "tally"] {
        let flags = format!("SELECT wr * 2 + strict FROM pragma_table_list WHERE name = '{table}'");
        assert_eq!(number(&flags), 3, "{table} is WITHOUT ROWID and STRICT");
    }
    for (place, column) in [(0, "expiry"), (1, "hash")] {
        let at = format!("SELECT pk FROM pragma_table_info('rounds') WHERE name = '{column}'");
        assert_eq!(number(&at), place + 1);
    }
}

/// Epoch, rows and marks are those of the file.
#[tokio::test]
async fn a_restart_keeps_everything() {
    let place = Place::new();
    let ledger = place.open();
    let epoch = ledger.epoch().await.unwrap();
    let (claim, owned) = (paid(&ledger, 1).await, round(epoch, 2));
    assert_eq!(ledger.claim(owned.clone()).await.unwrap(), Claimed::First);
    let short = Claim::round(
        RowKey {
            expiry: Timestamp::from_millis(START + 1_000),
            ..round(epoch, 3).key
        },
        epoch,
        claim.fingerprint,
        claim.account,
        Token::generate().unwrap(),
        Duration::from_millis(1),
    );
    assert_eq!(ledger.claim(short.clone()).await.unwrap(), Claimed::First);
    place.clock.advance(MIN_RETENTION * 20);
    assert_eq!(ledger.purge().await.unwrap().rounds, 1);
    place.clock.set(Timestamp::from_millis(START));
    drop(ledger);

    let ledger = place.open();
    assert_eq!(ledger.epoch().await.unwrap(), epoch);
    assert_eq!(ledger.claim(retry(&claim)).await.unwrap(), settled());
    assert_eq!(
        ledger.claim(owned.clone()).await.unwrap(),
        Claimed::First,
        "its owner may have restarted the ledger"
    );
    assert!(matches!(
        ledger.claim(retry(&owned)).await.unwrap(),
        Claimed::InProgress { .. }
    ));
    assert_eq!(
        ledger.claim(short).await.unwrap(),
        Claimed::Expired,
        "the mark"
    );
}

/// The thread ends and the file is closed, which is when SQLite takes the log away.
#[tokio::test]
async fn a_dropped_ledger_closes_its_file() {
    let place = Place::new();
    let ledger = place.open();
    paid(&ledger, 1).await;
    let [_, log, _] = place.files();
    assert!(log.exists());
    drop(ledger);
    for _ in 0..3_000 {
        if !log.exists() {
            return;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("the file is still open");
}

/// Nothing that names a person or an answer is in the file, unless it is in an outcome.
#[tokio::test]
async fn case_110_names_and_answers_are_not_in_the_file() {
    const SECRET: &str = "SECRET-4711";
    let place = Place::new();
    let ledger = place.open();
    let (nonce, who) = (
        Nonce::generate().unwrap(),
        Principal::user("https://id.example", SECRET),
    );
    let request = RequestDigest::builder("tools/call", SECRET)
        .json("arguments", "{\"to\":\"SECRET-4711\"}")
        .unwrap();
    let fingerprint = Fingerprint::round(&nonce, &who, &request.finish(), &[3; 32]);
    let key = RowKey::round(SECRET, &nonce, FAR);
    let (epoch, token) = (ledger.epoch().await.unwrap(), Token::generate().unwrap());
    let claim = Claim::round(key, epoch, fingerprint, Account::of(&who), token, LEASE);
    assert_eq!(ledger.claim(claim).await.unwrap(), Claimed::First);

    let is_in_the_files = || {
        let bytes = place.files().map(|file| fs::read(file).unwrap()).concat();
        assert!(
            bytes.windows(32).any(|window| window == key.hash),
            "the row is in the files"
        );
        bytes
            .windows(SECRET.len())
            .any(|window| window == SECRET.as_bytes())
    };
    assert!(!is_in_the_files());
    let settlement = Settlement::Outcome(SECRET.as_bytes().to_vec());
    _ = ledger.settle(key, token, settlement).await.unwrap();
    assert!(is_in_the_files(), "this is what the file's mode is for");
}

/// Without a single call of `purge`, what has expired goes as new claims come.
#[tokio::test]
async fn case_101_a_ledger_that_nobody_purges_stays_bounded() {
    let place = Place::new();
    let ledger = place.builder().retention(MIN_RETENTION).open().unwrap();
    let epoch = ledger.epoch().await.unwrap();
    let mut most = 0;
    for number in 0..3_000 {
        place.clock.advance(Duration::from_millis(500));
        let now = START + (number + 1) * 500;
        let claim = round(epoch, number);
        let key = RowKey {
            expiry: Timestamp::from_millis(now + 1_000),
            ..claim.key
        };
        let lease = Duration::from_secs(1);
        let claim = Claim::round(
            key,
            epoch,
            claim.fingerprint,
            claim.account,
            claim.token,
            lease,
        );
        assert_eq!(ledger.claim(claim).await.unwrap(), Claimed::First);
        if number % 100 == 0 {
            most = most.max(ledger.rows().await.unwrap().rounds);
        }
    }
    // One a half second, kept for a second and a minute.
    assert!((100..=130).contains(&most), "{most} rows");
    let tally = Connection::open(place.file()).unwrap();
    let counts: i64 = tally
        .query_row("SELECT count(*) FROM tally", [], |row| row.get(0))
        .unwrap();
    assert!(counts < 12, "{counts} counts");
    assert_eq!(
        ledger
            .lookup(
                Kind::Round,
                round(epoch, 0).key,
                Fingerprint::from_bytes([1; 32])
            )
            .await
            .unwrap(),
        Found::Absent
    );
}
