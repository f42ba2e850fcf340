//! Several processes on one ledger, and processes that are killed.
//!
//! A child is this test binary again, running only [`child`], which takes its orders on standard input.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use mrtr_ledger::suite::TestClock;
use mrtr_ledger::{Claimed, Found, Ledger as _, Settled, Settlement};
use mrtr_ledger_postgres::PostgresLedger;
use mrtr_state::{Clock as _, SystemClock};

use crate::bench::{LEASE, Place, paid, retry, round, settled};

const PROCESSES: usize = 4;
const TASKS: usize = 16;
const ROUNDS: u64 = 200;

struct Process {
    child: Child,
    orders: ChildStdin,
    answers: BufReader<ChildStdout>,
}

impl Process {
    fn start(place: &Place) -> Self {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args([
                "--exact",
                "processes::child",
                "--ignored",
                "--nocapture",
                "--test-threads=1",
            ])
            .env("LEDGER_CONNECTION", &place.connection)
            .env("LEDGER_SCHEMA", &place.schema)
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
    let Ok(connection) = std::env::var("LEDGER_CONNECTION") else {
        return;
    };
    let schema = std::env::var("LEDGER_SCHEMA").unwrap();
    println!("child: ready");
    let mut ledger = None;
    for order in std::io::stdin().lines() {
        let order = order.unwrap();
        let (order, number) = order.split_once(' ').unwrap_or((&order, "0"));
        let number: u64 = number.parse().unwrap();
        if order == "open" {
            let opened = PostgresLedger::builder(connection.parse().unwrap())
                .schema(&schema)
                .open()
                .await
                .unwrap();
            ledger = Some(Arc::new(opened));
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
            "claim" => println!(
                "child: {:?}",
                ledger.claim(round(epoch, number)).await.unwrap()
            ),
            "pay" => {
                paid(ledger, number).await;
                println!("child: paid");
            }
            "rotate" => println!("child: {}", ledger.rotate_epoch().await.unwrap().to_text()),
            other => panic!("{other} is no order"),
        }
    }
}

/// Sixteen tasks claim one round. How many ran it, and how many were told to wait or what came of it.
async fn race(ledger: &Arc<PostgresLedger>, number: u64) -> String {
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

/// Four processes start where there are no tables, at one instant, and then race for 200 states.
#[tokio::test]
async fn case_076_one_of_many_processes_wins() {
    let Some(place) = Place::new() else { return };
    let mut processes: Vec<Process> = (0..PROCESSES).map(|_| Process::start(&place)).collect();
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
        let won = answers.iter().filter(|answer| *answer == "1 of 16").count();
        let lost = answers.iter().filter(|answer| *answer == "0 of 16").count();
        assert_eq!(
            (won, lost),
            (1, PROCESSES - 1),
            "round {number}: {answers:?}"
        );
    }
    let rows = place.open().await.rows().await.unwrap();
    assert_eq!((rows.rounds, rows.settled_rounds), (ROUNDS, ROUNDS));
}

/// The tables alone, over and over: the race is at its narrowest where there are none.
#[tokio::test]
async fn many_processes_create_one_ledger() {
    if Place::new().is_none() {
        return;
    }
    for _ in 0..8 {
        let place = Place::new().unwrap();
        let mut processes: Vec<Process> = (0..PROCESSES).map(|_| Process::start(&place)).collect();
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
    let Some(place) = Place::new() else { return };
    let mut process = Process::start(&place);
    let epoch = process.ask("open");
    assert_eq!(process.ask("pay 1"), "paid");
    process.kill();

    let ledger = place.open().await;
    let now = ledger.epoch().await.unwrap();
    assert_eq!(now.to_text(), epoch, "a restart keeps the epoch");
    assert_eq!(ledger.claim(round(now, 1)).await.unwrap(), settled());
    assert_eq!(ledger.claim(round(now, 2)).await.unwrap(), Claimed::First);
}

/// Killed between claim and settlement: in progress while the lease runs, and unknown from then on, without any clock
/// of the dead process.
#[tokio::test]
async fn a_killed_owner_leaves_an_unknown_outcome() {
    let Some(place) = Place::new() else { return };
    let mut process = Process::start(&place);
    process.ask("open");
    assert_eq!(process.ask("claim 1"), "First");
    process.kill();

    let clock = Arc::new(TestClock::at(SystemClock.now().as_millis() - 10_000));
    let ledger = place
        .builder()
        .test_clock(clock.clone())
        .open()
        .await
        .unwrap();
    let claim = round(ledger.epoch().await.unwrap(), 1);
    assert!(matches!(
        ledger.claim(claim.clone()).await.unwrap(),
        Claimed::InProgress { .. }
    ));
    clock.advance(LEASE + Duration::from_secs(60));
    assert_eq!(
        ledger.claim(claim.clone()).await.unwrap(),
        Claimed::Abandoned
    );
    let found = ledger
        .lookup(claim.kind, claim.key, claim.fingerprint)
        .await
        .unwrap();
    assert_eq!(found, Found::Abandoned);
}

/// What another process rotates, this one's next claim sees.
#[tokio::test]
async fn an_epoch_rotated_elsewhere_is_seen() {
    let Some(place) = Place::new() else { return };
    let ledger = place.open().await;
    let before = ledger.epoch().await.unwrap();
    assert_eq!(
        ledger.claim(round(before, 1)).await.unwrap(),
        Claimed::First
    );

    let mut process = Process::start(&place);
    assert_eq!(process.ask("open"), before.to_text());
    let after = process.ask("rotate");
    assert_eq!(
        ledger.claim(round(before, 2)).await.unwrap(),
        Claimed::StaleEpoch
    );
    let now = ledger.epoch().await.unwrap();
    assert_eq!(now.to_text(), after);
    assert_eq!(ledger.claim(round(now, 3)).await.unwrap(), Claimed::First);
}
