//! Memory: what a large state makes a server hold (case 22), and what people who think do.
//!
//! The high-water mark belongs to a process, and tests share theirs; so it is read in a child, which is this test binary again.

use std::convert::Infallible;
use std::fs;
use std::process::Command;

use axum::body::Body;
use futures_util::stream;

use serde_json::json;

use super::works;
use crate::bank::{Bank, Call};
use crate::session::{Session, everything};

const FRAME: usize = 16 << 10;

#[test]
fn case_022_a_large_state_takes_less_than_twice_its_body() {
    in_a_process_of_its_own("cases::memory::child");
}

/// The modern era parks nothing: 10,000 people think, and the server holds what it held before. The earlier era shows that the
/// measure would see it.
#[test]
fn case_130_ten_thousand_people_who_think_take_no_memory() {
    in_a_process_of_its_own("cases::memory::thinking");
}

#[expect(clippy::print_stdout, reason = "it says what is skipped")]
fn in_a_process_of_its_own(test: &str) {
    if !cfg!(target_os = "linux") {
        println!("skipped: memory is read from /proc, which only Linux has");
        return;
    }
    let child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", test, "--ignored", "--nocapture"])
        .output()
        .unwrap();
    let printed = String::from_utf8_lossy(&child.stdout);
    assert!(
        child.status.success() && printed.contains("1 passed"),
        "{printed}{}",
        String::from_utf8_lossy(&child.stderr)
    );
}

#[tokio::test]
#[ignore = "a child process of `case_022_a_large_state_takes_less_than_twice_its_body`"]
async fn child() {
    let bank = Bank::new();
    let state = bank.open().await;
    // What the first refusal allocates once for all is not the state's.
    send(&bank, "", FRAME).await;

    // The kernel counts in batches, so the mark is a little behind.
    let held = growth(async || drop(std::hint::black_box(vec![b'A'; 8 << 20]))).await;
    assert!(
        held > 7 << 20,
        "the mark does not show what was held: {held}"
    );

    // One escape, and the string can no longer be borrowed from the body.
    for (start, size) in [("", 1 << 20), ("\\u0041", 3 << 20)] {
        let grown = growth(async || {
            assert_eq!(send(&bank, start, size).await, (200, Some(-32602)));
        })
        .await;
        println!("{size} bytes: {grown}");
        assert!(grown < 2 * size, "a body of {size} bytes took {grown}");
    }
    let grown = growth(async || {
        assert_eq!(send(&bank, "", 64 << 20).await, (413, Some(-32600)));
    })
    .await;
    println!("64 MiB: {grown}");
    assert!(grown < 8 << 20, "a body beyond the limit took {grown}");
    works("after every size", &bank, &state).await;
}

#[tokio::test]
#[ignore = "a child process of `case_130_ten_thousand_people_who_think_take_no_memory`"]
async fn thinking() {
    const PEOPLE: usize = 10_000;
    // Less than a pointer for each person.
    const BOUND: usize = PEOPLE * size_of::<usize>();
    const PARKED: usize = 500;

    let bank = Bank::new();
    for _ in 0..1_000 {
        bank.open().await;
    }
    // What is held for people grows every time; the allocator's noise does not.
    let mut least = usize::MAX;
    for _ in 0..3 {
        let before = resident();
        for _ in 0..PEOPLE {
            bank.open().await;
        }
        least = least.min(resident().saturating_sub(before));
        if least < BOUND {
            break;
        }
    }
    println!("modern: {PEOPLE} people, {least} bytes");
    assert!(least < BOUND, "{PEOPLE} first rounds left {least} bytes");
    assert_eq!(bank.rows().await, (0, 0));

    let bank = Bank::with(|builder| {
        builder.limits(|limits| {
            limits.sessions_per_principal = PARKED;
            limits.running_per_principal = PARKED;
        })
    });
    let before = resident();
    let mut parked = Vec::new();
    for _ in 0..PARKED {
        let session = Session::open(&bank.server, everything()).await;
        let arguments = json!({ "to": "acct-7", "amount": 100 });
        let mut call = session.call(1, "transfer", arguments).await;
        call.message().await;
        parked.push(call);
    }
    let earlier = resident().saturating_sub(before);
    println!("earlier: {PARKED} people, {} bytes each", earlier / PARKED);
    assert!(
        earlier / PARKED > 1_000,
        "the measure sees nothing: {earlier}"
    );
}

/// What the process holds now.
fn resident() -> usize {
    status("VmRSS:")
}

/// Status and code of the answer to a retry whose state has that start and that many bytes more; they arrive in frames that nobody else holds.
async fn send(bank: &Bank, start: &str, size: usize) -> (u16, Option<i64>) {
    let call = Call::retry("@");
    let text = call.body.to_string();
    let (before, after) = text.split_once('@').unwrap();
    let (before, after) = (
        format!("{before}{start}").into_bytes(),
        after.to_owned().into_bytes(),
    );
    let frames = std::iter::once(before)
        .chain(std::iter::repeat_with(|| vec![b'A'; FRAME]).take(size / FRAME))
        .chain(std::iter::once(after))
        .map(Ok::<_, Infallible>);
    let body = Body::from_stream(stream::iter(frames));
    let reply = bank.send_raw(call.with_body(body)).await;
    (reply.status.as_u16(), reply.code())
}

/// By how many bytes the process's high-water mark rose above what it held before.
async fn growth(work: impl AsyncFnOnce()) -> usize {
    fs::write("/proc/self/clear_refs", "5").unwrap();
    let before = mark();
    work().await;
    mark() - before
}

fn mark() -> usize {
    status("VmHWM:")
}

/// A line of the process's status, in bytes.
fn status(name: &str) -> usize {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix(name))
        .unwrap();
    let kib: usize = line.trim().trim_end_matches(" kB").parse().unwrap();
    kib << 10
}
