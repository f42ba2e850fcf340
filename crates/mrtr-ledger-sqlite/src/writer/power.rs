//! The power goes: what was acknowledged is there afterwards, and nothing in halves.
//!
//! A child process (this test binary again) works on a ledger and prints what was acknowledged. In it, the library in
//! `tests/power/power_cut.c` stands between SQLite and the disk: it keeps what was synced apart from what was written, and at a
//! write or sync that is drawn by lot it puts the files back to what was synced, with a random part of what was written
//! since, and ends the process. Then the files are looked at without it.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

use mrtr_ledger::{
    Account, Claim, Claimed, Conclusion, Fingerprint, Found, Ledger as _, Limits, MIN_RETENTION,
    Performed, RowKey, Settled, Settlement, Token,
};
use mrtr_state::{SystemClock, Timestamp};

use super::*;
use crate::guard::Guard;
use crate::job::job;
use crate::{SqliteLedger, effect, file};

/// How many batches a child commits if its power stays on.
const BATCHES: u64 = 120;

/// The exit code that says that the power was cut.
const CUT: i32 = 77;

/// About how many writes and syncs a child makes.
const EVENTS: u64 = 17_000;

/// Beyond every clock.
const FAR: Timestamp = Timestamp::from_millis(32_503_680_000_000);

fn claim(kind: Kind, epoch: mrtr_state::Epoch, number: u64) -> Claim {
    let mut hash = [3; 32];
    hash[..8].copy_from_slice(&number.to_be_bytes());
    let make = match kind {
        Kind::Step => Claim::step,
        _ => Claim::round,
    };
    make(
        RowKey { expiry: FAR, hash },
        epoch,
        Fingerprint::from_bytes([1; 32]),
        Account::from_bytes([2; 32]),
        Token::generate().unwrap(),
        std::time::Duration::from_secs(3_600),
    )
}

/// Large enough that the log is copied into the file, and begins anew, while the child works.
fn outcome(number: u64) -> Vec<u8> {
    vec![number.to_be_bytes()[7]; 40_000]
}

fn policy() -> Policy {
    Policy {
        clock: std::sync::Arc::new(SystemClock),
        limits: Limits::NONE,
        retention: MIN_RETENTION,
        guard: Guard::default(),
    }
}

#[test]
#[ignore = "the other tests run it, as a process of its own"]
#[allow(clippy::print_stdout, reason = "it answers on its standard output")]
fn child() {
    let path = PathBuf::from(std::env::var_os("LEDGER_FILE").expect("run by another test"));
    let policy = policy();
    let wait = std::time::Duration::from_secs(10);
    let storage = Storage::create(file::resolve(&path).unwrap(), wait, &policy).unwrap();
    let connection = &storage.open.as_ref().unwrap().connection;
    if let Ok(synchronous) = std::env::var("SYNCHRONOUS") {
        let sql = format!("PRAGMA synchronous = {synchronous}");
        connection.execute_batch(&sql).unwrap();
    }
    let mut writer = Writer::new(policy, storage);
    let run = |writer: &mut Writer, jobs: Vec<Box<dyn Job>>, undisturbed: bool| {
        writer.commit(jobs);
        writer.storage.look_after_the_log();
        // Undisturbed the thread comes to the log's end, and it begins anew by itself. In the first third of the child's life
        // commits go on meanwhile, and the writer ends it.
        let open = writer.storage.open.as_ref().unwrap();
        while undisturbed && open.checkpoints.is_busy() {
            std::thread::yield_now();
        }
    };
    let (made, mut told) = effect::set_up(|db| {
        db.execute_batch("CREATE TABLE effects (number INTEGER NOT NULL) STRICT")
    });
    run(&mut writer, vec![made], false);
    told.try_recv().unwrap().unwrap().unwrap().unwrap();
    println!("power: set up");
    let (asked, mut told) = job(|books| books.epoch());
    run(&mut writer, vec![asked], false);
    let epoch = told.try_recv().unwrap().unwrap();

    for batch in 0..BATCHES {
        // Three rounds and a step, settled in a later batch, and a step with its effect.
        let first = batch * 4;
        let rounds: Vec<Claim> = (first..first + 3)
            .map(|number| claim(Kind::Round, epoch, number))
            .collect();
        let (claims, told): (Vec<_>, Vec<_>) = rounds
            .iter()
            .cloned()
            .map(|claim| job(move |books| books.claim(&claim)))
            .unzip();
        let effect_of = move |db: &Connection| {
            let number = i64::try_from(first).unwrap();
            db.execute("INSERT INTO effects VALUES (?1)", [number])
                .unwrap()
        };
        let (step, mut performed) =
            effect::step(claim(Kind::Step, epoch, first), effect_of, move |_| {
                (Conclusion::Commit(outcome(first)), ())
            });
        let undisturbed = batch > BATCHES / 3;
        run(
            &mut writer,
            claims.into_iter().chain([step]).collect(),
            undisturbed,
        );
        for (number, mut told) in (first..).zip(told) {
            assert_eq!(told.try_recv().unwrap().unwrap(), Claimed::First);
            println!("power: claimed {number}");
        }
        let performed = performed.try_recv().unwrap().unwrap();
        assert!(matches!(performed, Performed::Ran(())), "{performed:?}");
        println!("power: performed {first}");

        let (settlements, told): (Vec<_>, Vec<_>) = (first..)
            .zip(rounds)
            .map(|(number, Claim { key, token, .. })| {
                let settlement = Settlement::Outcome(outcome(number));
                job(move |books| books.settle(&key, &token, &settlement))
            })
            .unzip();
        run(&mut writer, settlements, undisturbed);
        for (number, mut told) in (first..).zip(told) {
            assert_eq!(told.try_recv().unwrap().unwrap(), Settled::Stored);
            println!("power: settled {number}");
        }
    }
}

/// The library, compiled; or why there is none.
fn library(folder: &Path) -> Option<PathBuf> {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/power/power_cut.c");
    let library = folder.join("power_cut.so");
    let compiled = Command::new("cc")
        .args(["-O1", "-shared", "-fPIC", "-o"])
        .args([&library, &source])
        .args(["-ldl", "-lpthread"])
        .status();
    match compiled {
        Ok(status) => {
            assert!(status.success(), "tests/power/power_cut.c does not compile");
            Some(library)
        }
        // What builds SQLite has a compiler, so that this is for machines that were given a library.
        Err(error) if std::env::var_os("CI").is_none() => {
            eprintln!("skipped: no C compiler for tests/power/power_cut.c ({error})");
            None
        }
        Err(error) => panic!("no C compiler for tests/power/power_cut.c: {error}"),
    }
}

/// What the child was told before its power went, by number: the last word on each.
struct Told {
    rounds: BTreeMap<u64, String>,
    steps: Vec<u64>,
    is_set_up: bool,
    was_cut: bool,
}

fn work(library: &Path, ledger: &Path, cut_at: u64, synchronous: Option<&str>) -> Told {
    let mut child = Command::new(std::env::current_exe().unwrap());
    child
        .args([
            "--exact",
            "writer::power::child",
            "--ignored",
            "--nocapture",
            "--test-threads=1",
        ])
        .env("LEDGER_FILE", ledger)
        .env("LD_PRELOAD", library)
        .env("POWER_CUT_FOLDER", ledger.parent().unwrap())
        .env("POWER_CUT_AT", cut_at.to_string())
        .env("POWER_CUT_SEED", cut_at.to_string());
    if let Some(synchronous) = synchronous {
        child.env("SYNCHRONOUS", synchronous);
    }
    let output = child.output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    let was_cut = output.status.code() == Some(CUT);
    assert!(
        was_cut || output.status.success(),
        "{text}\n{}",
        String::from_utf8_lossy(&output.stderr)
    );
    let mut told = Told {
        rounds: BTreeMap::new(),
        steps: Vec::new(),
        is_set_up: false,
        was_cut,
    };
    for line in text.lines() {
        let Some((_, said)) = line.split_once("power: ") else {
            continue;
        };
        match said.split_once(' ').unwrap() {
            ("set", "up") => told.is_set_up = true,
            ("performed", number) => told.steps.push(number.parse().unwrap()),
            (word, number) => _ = told.rounds.insert(number.parse().unwrap(), word.to_owned()),
        }
    }
    told
}

/// What is missing of what was acknowledged, or is not as it was.
async fn missing(ledger: &Path, told: &Told) -> Vec<String> {
    let mut missing = Vec::new();
    // The log's index is shared memory, which no power cut leaves behind.
    _ = std::fs::remove_file(file::beside(ledger, "-shm"));
    let opened = match SqliteLedger::open(ledger) {
        Ok(opened) => opened,
        Err(error) => return vec![error.to_string()],
    };
    let verified = opened.verify().await.unwrap();
    missing.extend(verified.findings.iter().map(ToString::to_string));
    if !missing.is_empty() {
        return missing;
    }
    let epoch = opened.epoch().await.unwrap();
    for (number, word) in &told.rounds {
        let Claim {
            key, fingerprint, ..
        } = claim(Kind::Round, epoch, *number);
        let found = opened.lookup(Kind::Round, key, fingerprint).await.unwrap();
        let is_there = match (word.as_str(), &found) {
            ("claimed", Found::InProgress { .. }) => true,
            (_, Found::Settled(stored)) => *stored == outcome(*number),
            _ => false,
        };
        if !is_there {
            missing.push(format!("round {number} was {word} and is {found:?}"));
        }
    }
    let db = Connection::open(ledger).unwrap();
    let effects: Vec<u64> = match db.prepare("SELECT number FROM effects") {
        Ok(mut select) => select
            .query_map([], |row| row.get::<_, i64>(0))
            .unwrap()
            .map(|number| number.unwrap().unsigned_abs())
            .collect(),
        Err(_) if told.is_set_up => {
            missing.push("the table of effects".to_owned());
            Vec::new()
        }
        Err(_) => Vec::new(),
    };
    for number in &told.steps {
        if !effects.contains(number) {
            missing.push(format!("effect {number}"));
        }
    }
    // Effect and outcome came together, or neither did.
    for number in (0..BATCHES).map(|batch| batch * 4) {
        let Claim {
            key, fingerprint, ..
        } = claim(Kind::Step, epoch, number);
        let found = opened.lookup(Kind::Step, key, fingerprint).await.unwrap();
        let (has_effect, has_outcome) = (
            effects.contains(&number),
            found == Found::Settled(outcome(number)),
        );
        if has_effect != has_outcome || !has_outcome && found != Found::Absent {
            missing.push(format!("effect {number}: {has_effect}, outcome: {found:?}"));
        }
    }
    missing
}

/// Spread over the child's life, the same in every run.
fn cuts(number: u64) -> impl Iterator<Item = u64> {
    (1..=number).map(|one| 1 + one.wrapping_mul(0x9e37_79b9_7f4a_7c15) % EVENTS)
}

#[tokio::test]
async fn case_087_a_power_cut_loses_nothing_that_was_acknowledged() {
    let folder = tempfile::tempdir().unwrap();
    let Some(library) = library(folder.path()) else {
        return;
    };
    let (mut were_cut, mut acknowledged) = (0, 0);
    for cut in cuts(24) {
        let place = tempfile::tempdir().unwrap();
        let ledger = place.path().join("ledger.sqlite");
        let told = work(&library, &ledger, cut, None);
        let missing = missing(&ledger, &told).await;
        assert!(missing.is_empty(), "cut at {cut}: {missing:?}");
        were_cut += usize::from(told.was_cut);
        acknowledged += told.rounds.len() + told.steps.len();
    }
    assert!(were_cut > 20, "{were_cut} power cuts");
    assert!(acknowledged > 1_000, "{acknowledged} acknowledged");
}

/// The same with commits that are not synced, so that the test above is known to see what is lost.
#[tokio::test]
async fn without_syncs_a_power_cut_loses_something() {
    let folder = tempfile::tempdir().unwrap();
    let Some(library) = library(folder.path()) else {
        return;
    };
    for synchronous in ["NORMAL", "OFF"] {
        let mut lost = 0;
        for cut in cuts(6) {
            let place = tempfile::tempdir().unwrap();
            let ledger = place.path().join("ledger.sqlite");
            let told = work(&library, &ledger, cut, Some(synchronous));
            lost += missing(&ledger, &told).await.len();
        }
        assert!(lost > 0, "synchronous = {synchronous} lost nothing");
    }
}
