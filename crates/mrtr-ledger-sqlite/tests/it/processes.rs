//! Several processes on one file, and processes that are killed.
//!
//! A child is this test binary again, running only [`child`], which takes its orders on standard input.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::Arc;

use mrtr_ledger::suite::TestClock;
use mrtr_ledger::{Claimed, Found, Ledger as _, Performed, Settled, Settlement};
use mrtr_ledger_sqlite::SqliteLedger;
use mrtr_state::{Clock as _, SystemClock};

use crate::bench::{LEASE, Place, paid, retry, round, settled};
use crate::effects::{insert, numbers, perform, step, table};

const PROCESSES: usize = 4;
const TASKS: usize = 64;
const ROUNDS: u64 = 200;

struct Process {
    child: Child,
    orders: ChildStdin,
    answers: BufReader<ChildStdout>,
}

impl Process {
    fn start(file: &Path) -> Self {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args([
                "--exact",
                "processes::child",
                "--ignored",
                "--nocapture",
                "--test-threads=1",
            ])
            .env("LEDGER_FILE", file)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let orders = child.stdin.take().unwrap();
        let answers = BufReader::new(child.stdout.take().unwrap());
        let mut process = Self {
            child,
            orders,
            answers,
        };
        assert_eq!(process.answer(), "ready");
        process
    }

    fn order(&mut self, order: &str) {
        writeln!(self.orders, "{order}").unwrap();
    }

    /// The next line of the child's own; the test harness prints others.
    fn answer(&mut self) -> String {
        for line in self.answers.by_ref().lines() {
            if let Some((_, answer)) = line.unwrap().split_once("child: ") {
                return answer.to_owned();
            }
        }
        panic!("the child process has ended");
    }

    fn ask(&mut self, order: &str) -> String {
        self.order(order);
        self.answer()
    }

    /// `kill -9`.
    fn kill(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        _ = self.child.kill();
        _ = self.child.wait();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
#[ignore = "the other tests run it, as a process of its own"]
async fn child() {
    let file = std::env::var_os("LEDGER_FILE").expect("run by another test");
    println!("child: ready");
    let mut ledger = None;
    for order in std::io::stdin().lines() {
        let order = order.unwrap();
        let (order, number) = order.split_once(' ').unwrap_or((&order, "0"));
        let number: u64 = number.parse().unwrap();
        if order == "open" {
            ledger = Some(Arc::new(SqliteLedger::open(&file).unwrap()));
            println!(
                "child: {}",
                ledger.as_ref().unwrap().epoch().await.unwrap().to_text()
            );
            continue;
        }
        let ledger = ledger.as_ref().expect("opened");
        let epoch = ledger.epoch().await.unwrap();
        match order {
            "race" => println!("child: {}", race(ledger, number).await),
            "race-effects" => println!("child: {}", race_effects(ledger, number).await),
            "claim" => println!(
                "child: {:?}",
                ledger.claim(round(epoch, number)).await.unwrap()
            ),
            "pay" => {
                paid(ledger, number).await;
                println!("child: paid");
            }
            "table" => {
                table(ledger).await;
                println!("child: made");
            }
            "perform" => {
                let performed = perform(
                    ledger,
                    step(epoch, u32::try_from(number).unwrap()),
                    move |db| insert(db, number),
                )
                .await;
                println!("child: {performed:?}");
            }
            // It writes, and is gone before the ledger can commit.
            "die" => {
                let dies = perform(
                    ledger,
                    step(epoch, u32::try_from(number).unwrap()),
                    move |db| {
                        insert(db, number);
                        std::process::abort()
                    },
                );
                _ = dies.await;
            }
            "rotate" => println!("child: {}", ledger.rotate_epoch().await.unwrap().to_text()),
            other => panic!("{other} is no order"),
        }
    }
}

/// Many tasks claim one round. How many ran it, and how many were told to wait or what came of it.
async fn race(ledger: &Arc<SqliteLedger>, number: u64) -> String {
    let claim = round(ledger.epoch().await.unwrap(), number);
    let tasks: Vec<_> = (0..TASKS)
        .map(|_| {
            let (ledger, claim) = (Arc::clone(ledger), retry(&claim));
            tokio::spawn(async move {
                match ledger.claim(claim.clone()).await.unwrap() {
                    Claimed::First => {
                        let settlement = Settlement::Outcome(b"paid".to_vec());
                        let stored = ledger
                            .settle(claim.key, claim.token, settlement)
                            .await
                            .unwrap();
                        assert_eq!(stored, Settled::Stored);
                        true
                    }
                    Claimed::InProgress { .. } => false,
                    other => {
                        assert_eq!(other, settled());
                        false
                    }
                }
            })
        })
        .collect();
    let mut ran = 0;
    for task in tasks {
        ran += usize::from(task.await.unwrap());
    }
    format!("{ran} of {TASKS}")
}

/// Many tasks perform one step. How many had the effect, and how many were told what came of it.
async fn race_effects(ledger: &Arc<SqliteLedger>, number: u64) -> String {
    let claim = step(
        ledger.epoch().await.unwrap(),
        u32::try_from(number).unwrap(),
    );
    let tasks: Vec<_> = (0..TASKS)
        .map(|_| {
            let (ledger, mut claim) = (Arc::clone(ledger), claim.clone());
            claim.token = mrtr_ledger::Token::generate().unwrap();
            tokio::spawn(async move {
                match perform(&ledger, claim, move |db| insert(db, number)).await {
                    Ok(Performed::Ran(())) => true,
                    Ok(Performed::Not(told)) => {
                        assert_eq!(told, Claimed::Settled(b"sent".to_vec()));
                        false
                    }
                    other => panic!("{other:?}"),
                }
            })
        })
        .collect();
    let mut ran = 0;
    for task in tasks {
        ran += usize::from(task.await.unwrap());
    }
    format!("{ran} of {TASKS}")
}

/// Four processes start on a file that does not exist, at one instant, and then race for 200 states.
#[tokio::test]
async fn case_076_one_of_many_processes_wins() {
    let place = Place::new();
    let mut processes: Vec<Process> = (0..PROCESSES)
        .map(|_| Process::start(&place.file()))
        .collect();

    assert!(!place.file().exists());
    processes
        .iter_mut()
        .for_each(|process| process.order("open"));
    let epochs: Vec<String> = processes.iter_mut().map(Process::answer).collect();
    assert!(
        epochs.iter().all(|epoch| *epoch == epochs[0]),
        "one ledger, so one epoch"
    );

    for number in 0..ROUNDS {
        processes
            .iter_mut()
            .for_each(|process| process.order(&format!("race {number}")));
        let answers: Vec<String> = processes.iter_mut().map(Process::answer).collect();
        let won = answers.iter().filter(|answer| *answer == "1 of 64").count();
        let lost = answers.iter().filter(|answer| *answer == "0 of 64").count();
        assert_eq!(
            (won, lost),
            (1, PROCESSES - 1),
            "round {number}: {answers:?}"
        );
    }
    let ledger = place.open();
    let rows = ledger.rows().await.unwrap();
    assert_eq!((rows.rounds, rows.settled_rounds), (ROUNDS, ROUNDS));
    let verified = ledger.verify().await.unwrap();
    assert!(verified.is_sound(), "{:?}", verified.findings);
}

/// The same for steps with their effects in the file: one row for each.
#[tokio::test]
async fn one_of_many_processes_has_the_effect() {
    let place = Place::new();
    let mut processes: Vec<Process> = (0..PROCESSES)
        .map(|_| Process::start(&place.file()))
        .collect();
    processes
        .iter_mut()
        .for_each(|process| _ = process.ask("open"));
    processes[0].ask("table");
    for number in 0..ROUNDS / 4 {
        processes
            .iter_mut()
            .for_each(|process| process.order(&format!("race-effects {number}")));
        let answers: Vec<String> = processes.iter_mut().map(Process::answer).collect();
        let won = answers.iter().filter(|answer| *answer == "1 of 64").count();
        let lost = answers.iter().filter(|answer| *answer == "0 of 64").count();
        assert_eq!(
            (won, lost),
            (1, PROCESSES - 1),
            "round {number}: {answers:?}"
        );
    }
    let db = rusqlite::Connection::open(place.file()).unwrap();
    let all: Vec<u32> = (0..u32::try_from(ROUNDS / 4).unwrap()).collect();
    assert_eq!(numbers(&db), all);
}

/// Four processes find a file of an older version at one instant. One of them brings it up to date.
#[tokio::test]
async fn many_processes_bring_one_file_up_to_date() {
    for _ in 0..5 {
        let place = crate::golden::place("version-1.sqlite");
        let mut processes: Vec<Process> = (0..PROCESSES)
            .map(|_| Process::start(&place.file()))
            .collect();
        processes
            .iter_mut()
            .for_each(|process| process.order("open"));
        let epochs: Vec<String> = processes.iter_mut().map(Process::answer).collect();
        assert!(
            epochs.iter().all(|epoch| *epoch == epochs[0]),
            "one ledger, so one epoch"
        );
        assert_eq!(processes[0].ask("claim 1"), "First");
        assert!(processes[1].ask("claim 1").starts_with("InProgress"));
    }
}

/// The schema alone, over and over: the race is at its narrowest on a new file.
#[tokio::test]
async fn many_processes_create_one_ledger() {
    let mut processes: Vec<Process>;
    for _ in 0..25 {
        let place = Place::new();
        processes = (0..PROCESSES)
            .map(|_| Process::start(&place.file()))
            .collect();
        processes
            .iter_mut()
            .for_each(|process| process.order("open"));
        let epochs: Vec<String> = processes.iter_mut().map(Process::answer).collect();
        assert!(
            epochs.iter().all(|epoch| *epoch == epochs[0]),
            "one ledger, so one epoch"
        );
        assert_eq!(processes[0].ask("claim 1"), "First");
        assert!(processes[1].ask("claim 1").starts_with("InProgress"));
    }
}

/// Killed after the settlement was acknowledged: the outcome is there.
#[tokio::test]
async fn an_acknowledged_outcome_survives_a_kill() {
    let place = Place::new();
    let mut process = Process::start(&place.file());
    let epoch = process.ask("open");
    assert_eq!(process.ask("pay 1"), "paid");
    process.kill();

    let ledger = SqliteLedger::open(place.file()).unwrap();
    let now = ledger.epoch().await.unwrap();
    assert_eq!(now.to_text(), epoch, "a restart keeps the epoch");
    assert_eq!(ledger.claim(round(now, 1)).await.unwrap(), settled());
    assert_eq!(ledger.claim(round(now, 2)).await.unwrap(), Claimed::First);
}

/// Killed between claim and settlement: in progress while the lease runs, and unknown from then on, without any clock
/// of the dead process.
#[tokio::test]
async fn a_killed_owner_leaves_an_unknown_outcome() {
    let place = Place::new();
    let mut process = Process::start(&place.file());
    process.ask("open");
    assert_eq!(process.ask("claim 1"), "First");
    process.kill();

    let clock = Arc::new(TestClock::at(SystemClock.now().as_millis()));
    let ledger = SqliteLedger::builder(place.file())
        .clock(clock.clone())
        .open()
        .unwrap();
    let claim = round(ledger.epoch().await.unwrap(), 1);
    clock.set(mrtr_state::Timestamp::from_millis(
        clock.now().as_millis() - 10_000,
    ));
    assert!(matches!(
        ledger.claim(claim.clone()).await.unwrap(),
        Claimed::InProgress { .. }
    ));
    clock.advance(LEASE + std::time::Duration::from_secs(60));
    assert_eq!(
        ledger.claim(claim.clone()).await.unwrap(),
        Claimed::Abandoned
    );
    assert_eq!(
        ledger
            .lookup(claim.kind, claim.key, claim.fingerprint)
            .await
            .unwrap(),
        Found::Abandoned
    );
}

/// The process dies inside an effect: claim and effect are gone together, and the step is free. It dies after the answer:
/// effect and outcome are there together.
#[tokio::test]
async fn a_crash_leaves_effect_and_outcome_or_neither() {
    let place = Place::new();
    let mut process = Process::start(&place.file());
    process.ask("open");
    process.ask("table");
    for number in 0..10 {
        assert_eq!(process.ask(&format!("perform {number}")), "Ok(Ran(..))");
        process.order(&format!("die {}", 100 + number));
        process.child.wait().unwrap();
        process = Process::start(&place.file());
        process.ask("open");
    }
    let ledger = SqliteLedger::open(place.file()).unwrap();
    let epoch = ledger.epoch().await.unwrap();
    let db = rusqlite::Connection::open(place.file()).unwrap();
    assert_eq!(numbers(&db), (0..10).collect::<Vec<_>>());
    for number in 0..10 {
        assert_eq!(
            ledger.claim(step(epoch, number)).await.unwrap(),
            Claimed::Settled(b"sent".to_vec())
        );
        let performed = perform(&ledger, step(epoch, 100 + number), move |db| {
            insert(db, 100 + u64::from(number))
        })
        .await;
        assert!(matches!(performed, Ok(Performed::Ran(()))), "{performed:?}");
    }
    assert_eq!(numbers(&db).len(), 20);
}

/// What another process rotates, this one's next claim sees.
#[tokio::test]
async fn an_epoch_rotated_elsewhere_is_seen() {
    let place = Place::new();
    let ledger = place.open();
    let before = ledger.epoch().await.unwrap();
    assert_eq!(
        ledger.claim(round(before, 1)).await.unwrap(),
        Claimed::First
    );

    let mut process = Process::start(&place.file());
    assert_eq!(process.ask("open"), before.to_text());
    let after = process.ask("rotate");
    assert_eq!(
        ledger.claim(round(before, 2)).await.unwrap(),
        Claimed::StaleEpoch
    );
    assert_eq!(ledger.epoch().await.unwrap().to_text(), after);
    assert_eq!(
        ledger
            .claim(round(ledger.epoch().await.unwrap(), 3))
            .await
            .unwrap(),
        Claimed::First
    );
}
