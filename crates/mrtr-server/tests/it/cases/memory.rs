//! Case 22's memory: what a large state makes a server hold.
//!
//! The high-water mark belongs to a process, and tests share theirs; so it is read in a child, which is this test binary again.

use std::convert::Infallible;
use std::fs;
use std::process::Command;

use axum::body::Body;
use futures_util::stream;

use super::works;
use crate::bank::{Bank, Call};

const FRAME: usize = 16 << 10;

#[test]
fn case_022_a_large_state_takes_less_than_twice_its_body() {
    if !cfg!(target_os = "linux") {
        println!("skipped: the high-water mark is read from /proc, which only Linux has");
        return;
    }
    let child = Command::new(std::env::current_exe().unwrap())
        .args([
            "--exact",
            "cases::memory::child",
            "--ignored",
            "--nocapture",
        ])
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
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("VmHWM:"))
        .unwrap();
    let kib: usize = line.trim().trim_end_matches(" kB").parse().unwrap();
    kib << 10
}
