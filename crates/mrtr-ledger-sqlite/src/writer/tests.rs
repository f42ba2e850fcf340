//! Faults that cannot be had from outside without being root or filling a disk.

use std::sync::Arc;
use std::time::Duration;

use mrtr_ledger::suite::TestClock;
use mrtr_ledger::{
    Account, Claim, Claimed, Fingerprint, Limits, MIN_RETENTION, RowKey, Settled, Settlement, Token,
};
use mrtr_state::{Epoch, Timestamp};

use super::*;
use crate::file;
use crate::guard::Guard;
use crate::job::job;

struct Desk {
    writer: Writer,
    epoch: Epoch,
    clock: Arc<TestClock>,
    folder: tempfile::TempDir,
}

impl Desk {
    fn new() -> Self {
        Self::with(Limits::default())
    }

    fn with(limits: Limits) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let clock = Arc::new(TestClock::at(1_000_000));
        let policy = Policy {
            clock: clock.clone(),
            limits,
            retention: MIN_RETENTION,
            guard: Guard::default(),
        };
        let path = file::resolve(&folder.path().join("ledger.sqlite")).unwrap();
        let mut storage = Storage::create(path, Duration::from_millis(50), &policy).unwrap();
        let epoch = storage.read(&policy, |books| books.epoch()).unwrap();
        Self {
            writer: Writer::new(policy, storage),
            epoch,
            clock,
            folder,
        }
    }

    fn sql(&self, sql: &str) {
        self.writer
            .storage
            .open
            .as_ref()
            .unwrap()
            .connection
            .execute_batch(sql)
            .unwrap();
    }

    fn round(&self, number: u8) -> Claim {
        let key = RowKey {
            expiry: Timestamp::from_millis(9_000_000),
            hash: [number; 32],
        };
        let (print, account) = (
            Fingerprint::from_bytes([0; 32]),
            Account::from_bytes([0; 32]),
        );
        Claim::round(
            key,
            self.epoch,
            print,
            account,
            Token::generate().unwrap(),
            Duration::from_secs(30),
        )
    }

    fn claim(&mut self, claim: &Claim) -> Result<Claimed, LedgerError> {
        let claim = claim.clone();
        self.together(vec![Box::new(move |books| books.claim(&claim))])
            .remove(0)
    }

    /// Commits operations in one batch.
    fn together<T: Send + 'static>(&mut self, work: Vec<Work<T>>) -> Vec<Result<T, LedgerError>> {
        let (jobs, answers): (Vec<_>, Vec<_>) = work.into_iter().map(job).unzip();
        self.writer.commit(jobs);
        answers
            .into_iter()
            .map(|mut answer| answer.try_recv().unwrap())
            .collect()
    }
}

type Work<T> = Box<dyn Fn(&Books<'_>) -> Result<T, Fault> + Send>;

/// No room for another page: no word, and nothing half-written. With room again it goes on, on the same connection.
#[test]
fn a_full_disk_gives_no_word_and_heals() {
    let mut desk = Desk::new();
    let owner = desk.round(1);
    assert_eq!(desk.claim(&owner).unwrap(), Claimed::First);
    desk.sql("PRAGMA max_page_count = 1");
    let settle = |settlement: Settlement| -> Work<Settled> {
        let (key, token) = (owner.key, owner.token);
        Box::new(move |books| books.settle(&key, &token, &settlement))
    };
    let large = Settlement::Outcome(vec![1; 64 << 10]);
    let answers = desk.together(vec![settle(large.clone())]);
    assert!(
        matches!(answers[..], [Err(LedgerError::StorageFull)]),
        "{answers:?}"
    );
    desk.sql("PRAGMA max_page_count = 1000000");
    let answers = desk.together(vec![settle(large)]);
    assert!(matches!(answers[..], [Ok(Settled::Stored)]), "{answers:?}");
    assert_eq!(
        desk.claim(&owner).unwrap(),
        Claimed::Settled(vec![1; 64 << 10])
    );
}

/// A connection that may not write gives no word; the next look at the file does.
#[test]
fn a_read_only_file_gives_no_word_and_heals() {
    let mut desk = Desk::new();
    desk.sql("PRAGMA query_only = ON");
    let claim = desk.round(1);
    assert!(matches!(desk.claim(&claim), Err(LedgerError::ReadOnly)));
    // The connection was given up, and a new one may write.
    assert!(desk.writer.storage.open.is_none());
    assert_eq!(desk.claim(&claim).unwrap(), Claimed::First);
}

/// One transaction, one fate: if the commit fails, nobody of the batch has had a word, and nothing of it is there.
#[test]
fn a_batch_that_is_not_committed_answers_nobody() {
    let mut desk = Desk::new();
    let (one, two) = (desk.round(1), desk.round(2));
    let claim = |claim: &Claim| -> Work<Claimed> {
        let claim = claim.clone();
        Box::new(move |books| books.claim(&claim))
    };
    let breaks: Work<Claimed> = Box::new(|_| Err(Fault::Corrupt));
    let answers = desk.together(vec![claim(&one), breaks, claim(&two)]);
    assert!(
        answers
            .iter()
            .all(|answer| matches!(answer, Err(LedgerError::Corrupt))),
        "{answers:?}"
    );
    let answers = desk.together(vec![claim(&desk.round(1)), claim(&desk.round(2))]);
    assert!(
        answers
            .iter()
            .all(|answer| matches!(answer, Ok(Claimed::First))),
        "{answers:?}"
    );
}

/// An operation that fails on its own account leaves the others of its batch alone, and nothing of itself.
#[test]
fn an_operation_that_fails_alone_is_taken_back_alone() {
    let mut desk = Desk::new();
    let (one, two, three) = (desk.round(1), desk.round(2), desk.round(3));
    let claim = |claim: &Claim| -> Work<Claimed> {
        let claim = claim.clone();
        Box::new(move |books| books.claim(&claim))
    };
    let breaks: Work<Claimed> = Box::new(move |books| {
        assert_eq!(books.claim(&two)?, Claimed::First);
        books.rotate_epoch()?;
        assert_eq!(books.claim(&two)?, Claimed::StaleEpoch);
        Err(Fault::Other(Arc::new(std::io::Error::other(
            "on its own account",
        ))))
    });
    let answers = desk.together(vec![claim(&one), breaks, claim(&three)]);
    assert!(matches!(answers[0], Ok(Claimed::First)), "{answers:?}");
    assert!(
        matches!(answers[1], Err(LedgerError::Unavailable(_))),
        "{answers:?}"
    );
    assert!(
        matches!(answers[2], Ok(Claimed::First)),
        "the epoch was taken back too: {answers:?}"
    );
    assert_eq!(desk.claim(&desk.round(2)).unwrap(), Claimed::First);
}

/// What was taken back is not counted, and what was not is.
#[test]
fn what_is_taken_back_does_not_count() {
    let mut desk = Desk::with(Limits {
        rows_per_account: 3,
        ..Limits::NONE
    });
    let claims: Vec<Claim> = (0..6).map(|number| desk.round(number)).collect();
    let claim = |number: usize| -> Work<Claimed> {
        let claim = claims[number].clone();
        Box::new(move |books| books.claim(&claim))
    };
    let fails = |number: usize| -> Work<Claimed> {
        let claim = claims[number].clone();
        Box::new(move |books| {
            books.claim(&claim)?;
            Err(Fault::Other(Arc::new(std::io::Error::other("alone"))))
        })
    };
    let answers = desk.together(vec![fails(0), claim(1), fails(2), claim(3), fails(4)]);
    assert!(matches!(
        answers[..],
        [
            Err(_),
            Ok(Claimed::First),
            Err(_),
            Ok(Claimed::First),
            Err(_)
        ]
    ));
    assert_eq!(desk.claim(&claims[5]).unwrap(), Claimed::First);
    assert_eq!(desk.claim(&claims[0]).unwrap(), Claimed::Full);
    // A commit that fails takes all of it back.
    let mut desk = Desk::with(Limits {
        rows_per_account: 1,
        ..Limits::NONE
    });
    let first = desk.round(0);
    let breaks: Work<Claimed> = Box::new(|_| Err(Fault::Busy));
    let claims: Work<Claimed> = Box::new({
        let first = first.clone();
        move |books| books.claim(&first)
    });
    assert!(
        desk.together(vec![claims, breaks])
            .iter()
            .all(Result::is_err)
    );
    assert_eq!(desk.claim(&desk.round(1)).unwrap(), Claimed::First);
    assert_eq!(desk.claim(&first).unwrap(), Claimed::Full);
}

/// What an operation of a batch adds, the next one counts: rows, bytes, and no longer when their minute is over.
#[test]
fn a_batch_counts_what_it_adds() {
    let mut desk = Desk::with(Limits {
        rows_per_account: 3,
        bytes_per_account: 10,
        ..Limits::NONE
    });
    let rounds: Vec<Claim> = (0..5).map(|number| desk.round(number)).collect();
    let claim = |number: usize| -> Work<Claimed> {
        let claim = rounds[number].clone();
        Box::new(move |books| books.claim(&claim))
    };
    let answers = desk.together(vec![claim(0), claim(1), claim(2), claim(3)]);
    let answers: Vec<Claimed> = answers.into_iter().map(Result::unwrap).collect();
    let (first, full) = (Claimed::First, Claimed::Full);
    assert_eq!(
        answers,
        [first.clone(), first.clone(), first.clone(), full.clone()]
    );

    let mut desk = Desk::with(Limits {
        bytes_per_account: 10,
        ..Limits::NONE
    });
    let (one, two, clock) = (desk.round(0), desk.round(1), desk.clock.clone());
    let later = RowKey {
        expiry: Timestamp::from_millis(20_000_000),
        ..two.key
    };
    let settle = {
        let one = one.clone();
        move |books: &Books<'_>| {
            books.settle(&one.key, &one.token, &Settlement::Outcome(vec![1; 10]))
        }
    };
    let answers = desk.together::<Claimed>(vec![Box::new(move |books| {
        assert_eq!(books.claim(&one)?, Claimed::First);
        assert_eq!(settle(books)?, Settled::Stored);
        assert_eq!(books.claim(&two)?, Claimed::Full);
        clock.set(Timestamp::from_millis(10_000_000));
        let mut two = two.clone();
        two.key = later;
        books.claim(&two)
    })]);
    assert_eq!(
        answers.into_iter().map(Result::unwrap).collect::<Vec<_>>(),
        [first]
    );
}

/// What one operation of a batch changes, the next one sees: an epoch, and a mark.
#[test]
fn a_batch_sees_its_own_changes() {
    let mut desk = Desk::new();
    let (one, two) = (desk.round(1), desk.round(2));
    let answers = desk.together::<Claimed>(vec![
        Box::new({
            let one = one.clone();
            move |books| books.claim(&one)
        }),
        Box::new(move |books| {
            books
                .settle(&one.key, &one.token, &Settlement::Abandoned)
                .map(|_| Claimed::Abandoned)
        }),
        Box::new({
            let (two, clock) = (two.clone(), desk.clock.clone());
            move |books| {
                // Ten hours on, a purge; and the clock put right.
                clock.advance(Duration::from_secs(36_000));
                assert_eq!(books.sweep(Kind::Round, Portion::Small)?, 1);
                clock.set(Timestamp::from_millis(1_000_000));
                books.claim(&two)
            }
        }),
        Box::new(move |books| {
            books.rotate_epoch()?;
            books.claim(&two)
        }),
    ]);
    let answers: Vec<Claimed> = answers.into_iter().map(Result::unwrap).collect();
    assert_eq!(
        answers,
        [
            Claimed::First,
            Claimed::Abandoned,
            Claimed::Expired,
            Claimed::StaleEpoch
        ]
    );
}

/// The file is replaced between the decision and the commit's answer: no word, since what was committed is not in the
/// file that others see.
#[test]
fn a_file_that_vanishes_under_a_commit_gives_no_word() {
    let mut desk = Desk::new();
    let (claim, path) = (desk.round(1), desk.folder.path().join("ledger.sqlite"));
    let away = desk.folder.path().join("away.sqlite");
    let work: Work<Claimed> = Box::new({
        let (path, away, claim) = (path.clone(), away.clone(), claim.clone());
        move |books| {
            let claimed = books.claim(&claim);
            std::fs::rename(&path, &away).unwrap();
            claimed
        }
    });
    let answers = desk.together(vec![work]);
    assert!(
        matches!(answers[..], [Err(LedgerError::Vanished)]),
        "{answers:?}"
    );
    std::fs::rename(away, path).unwrap();
    // It had been committed, as it happens. The caller that had no word asks again with its token.
    assert_eq!(desk.claim(&claim).unwrap(), Claimed::First);
    assert!(matches!(
        desk.claim(&desk.round(1)).unwrap(),
        Claimed::InProgress { .. }
    ));
}

/// Every look at the file is on a connection whose commits reach the disk.
#[test]
fn case_087_every_connection_is_durable() {
    let mut desk = Desk::new();
    for _ in 0..2 {
        let connection = desk.writer.storage.connection(&desk.writer.policy).unwrap();
        let number = |pragma: &str| {
            connection
                .query_row(pragma, [], |row| row.get::<_, i64>(0))
                .unwrap()
        };
        assert_eq!(number("PRAGMA synchronous"), 2);
        let journal: String = connection
            .query_row("PRAGMA journal_mode", [], |row| row.get(0))
            .unwrap();
        assert_eq!(journal, "wal");
        desk.writer.storage.open = None;
    }
}

/// A transaction that reads first is refused the lock at once if somebody committed meanwhile, however long it would wait
/// (`SQLITE_BUSY_SNAPSHOT`). Here the lock comes before anything is read, so nobody commits between two statements.
#[test]
fn case_077_nobody_commits_between_our_statements() {
    const WRITE: &str = "UPDATE ledger SET only_row = only_row";
    let mut desk = Desk::new();
    let path = desk.folder.path().join("ledger.sqlite");
    let [reader, other, later] = [(); 3].map(|()| Connection::open(&path).unwrap());
    let code = |connection: &Connection| {
        connection.busy_timeout(Duration::ZERO).unwrap();
        let refused = connection.execute_batch(WRITE).unwrap_err();
        refused.sqlite_error().unwrap().extended_code
    };
    reader
        .execute_batch("BEGIN; SELECT epoch FROM ledger")
        .unwrap();
    other.execute_batch(WRITE).unwrap();
    assert_eq!(code(&reader), rusqlite::ffi::SQLITE_BUSY_SNAPSHOT);
    drop(reader);

    let (one, two) = (desk.round(1), desk.round(2));
    let again = two.clone();
    let work: Work<Claimed> = Box::new(move |books| {
        assert_eq!(books.claim(&one)?, Claimed::First);
        assert_eq!(code(&other), rusqlite::ffi::SQLITE_BUSY);
        books.claim(&two)
    });
    let answers = desk.together(vec![work]);
    assert!(matches!(answers[..], [Ok(Claimed::First)]), "{answers:?}");
    // Between transactions anybody may commit, and nothing comes of it.
    later.execute_batch(WRITE).unwrap();
    assert_eq!(desk.claim(&again).unwrap(), Claimed::First);
}

/// A purge finds what may go by the order of the rows, and a claim its row by key.
#[test]
fn case_100_queries_use_the_order_of_rows() {
    let desk = Desk::new();
    let connection = &desk.writer.storage.open.as_ref().unwrap().connection;
    let plan = |sql: &str| -> String {
        let mut explain = connection
            .prepare(&format!("EXPLAIN QUERY PLAN {sql}"))
            .unwrap();
        let lines = explain
            .query_map([], |row| row.get::<_, String>(3))
            .unwrap();
        lines.map(Result::unwrap).collect::<Vec<_>>().join("; ")
    };
    for table in ["rounds", "steps"] {
        let purge = plan(&format!(
            "SELECT expiry FROM {table} WHERE expiry < 1 AND NOT (status = 0 AND lease > 2) ORDER BY expiry, hash LIMIT 3"
        ));
        assert!(
            purge.contains("SEARCH")
                && purge.contains("expiry<?")
                && !purge.contains("TEMP B-TREE"),
            "{purge}"
        );
        let read = plan(&format!(
            "SELECT status FROM {table} WHERE expiry = 1 AND hash = x''"
        ));
        assert!(read.contains("expiry=? AND hash=?"), "{read}");
    }
    let used = plan("SELECT sum(rows) FROM tally WHERE account = x'' AND bucket >= 1");
    assert!(used.contains("account=? AND bucket>?"), "{used}");
}

impl Desk {
    /// Commits outcomes one after the other, so many pages of log in all, and returns the longest that the log has been.
    fn write(&mut self, pages: u32) -> u32 {
        let (mut written, mut longest) = (0, 0);
        while written < pages {
            let mut claim = self.round(0);
            claim.key.hash = Token::generate()
                .unwrap()
                .as_bytes()
                .repeat(2)
                .try_into()
                .unwrap();
            assert_eq!(self.claim(&claim).unwrap(), Claimed::First);
            let settlement = Settlement::Outcome(vec![7; 80_000]);
            let settle: Work<Settled> =
                Box::new(move |books| books.settle(&claim.key, &claim.token, &settlement));
            let settled = self.together(vec![settle]);
            assert!(matches!(settled[..], [Ok(Settled::Stored)]), "{settled:?}");
            self.writer.storage.look_after_the_log();
            longest = longest.max(self.log().0);
            written += 20;
        }
        longest
    }

    fn log(&self) -> (u32, u32) {
        let open = self.writer.storage.open.as_ref().unwrap();
        open.checkpoints.pages_and_turn()
    }
}

/// However long something is written without a pause, the log begins anew again and again.
#[test]
fn the_log_has_an_end_under_load() {
    let mut desk = Desk::with(Limits::NONE);
    // What is durable is not what this is about.
    desk.sql("PRAGMA synchronous = OFF");
    let longest = desk.write(30_000);
    assert!(longest < 16_000, "{longest} pages");
    assert!(
        desk.log().1 >= 2,
        "it has begun anew {} times",
        desk.log().1
    );
}

/// Somebody reads the file and does not end: commits go on, and the log grows. When the reader has gone it begins anew.
#[test]
fn a_reader_keeps_the_log_and_nobody_waits() {
    let mut desk = Desk::with(Limits::NONE);
    desk.sql("PRAGMA synchronous = OFF");
    desk.write(100);
    let reader = Connection::open(desk.folder.path().join("ledger.sqlite")).unwrap();
    reader
        .execute_batch("BEGIN; SELECT count(*) FROM rounds;")
        .unwrap();
    let longest = desk.write(9_000);
    assert!(longest > 8_000, "{longest} pages");
    assert_eq!(desk.log().1, 0, "the reader needs it");
    reader.execute_batch("COMMIT").unwrap();
    for _ in 0..40 {
        desk.write(1_000);
        if desk.log().1 > 0 {
            return;
        }
    }
    panic!("it does not begin anew when the reader has gone");
}

/// What is counted, as the fields that a metrics layer makes instruments of.
#[test]
fn commits_failures_and_purges_are_counted() {
    let log = Log::default();
    let subscriber = tracing_subscriber::fmt()
        .with_max_level(tracing::Level::TRACE)
        .with_ansi(false)
        .with_writer(log.clone())
        .finish();
    let mut desk = Desk::new();
    let claims: Vec<Work<Claimed>> = (0..3)
        .map(|number| -> Work<Claimed> {
            let mut claim = desk.round(number);
            claim.lease = Duration::ZERO;
            Box::new(move |books| books.claim(&claim))
        })
        .collect();
    tracing::subscriber::with_default(subscriber, || {
        // With a second subscriber each is asked anew; a record's place may have been met by a thread that had none.
        let _second = tracing::Dispatch::new(tracing::subscriber::NoSubscriber::default());
        desk.together(claims);
        desk.clock.advance(Duration::from_secs(36_000));
        let (reply, mut purged) = oneshot::channel();
        desk.writer.purges.push_back(Purging {
            purged: Purged::default(),
            reply,
        });
        desk.writer.purge_some(Portion::Large);
        assert_eq!(purged.try_recv().unwrap().unwrap().rounds, 3);
        let breaks: Work<Claimed> = Box::new(|_| Err(Fault::Full));
        assert!(desk.together(vec![breaks]).iter().all(Result::is_err));
    });
    let text = String::from_utf8(log.0.lock().unwrap().clone()).unwrap();
    for counted in [
        "mrtr::metrics: ",
        "histogram.mrtr.ledger.sqlite.batch=3 ",
        "histogram.mrtr.ledger.sqlite.commit.duration=",
        "monotonic_counter.mrtr.ledger.purged=3 kind=\"round\"",
        "monotonic_counter.mrtr.ledger.sqlite.failed=1 fault=\"full\"",
    ] {
        assert!(text.contains(counted), "{counted}: {text}");
    }
}

#[derive(Clone, Default)]
struct Log(Arc<std::sync::Mutex<Vec<u8>>>);

impl std::io::Write for Log {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().write(bytes)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

impl tracing_subscriber::fmt::MakeWriter<'_> for Log {
    type Writer = Self;

    fn make_writer(&self) -> Self {
        self.clone()
    }
}
