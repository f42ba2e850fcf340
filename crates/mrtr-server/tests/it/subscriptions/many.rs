//! What ten thousand open subscriptions cost.

use super::*;

const MANY: usize = 10_000;

/// Beside each request, in bytes.
const PADDING: usize = 8_000;

/// Resident memory, in bytes, where that can be told.
fn resident() -> Option<usize> {
    let status = std::fs::read_to_string("/proc/self/statm").ok()?;
    let pages: usize = status.split(' ').nth(1)?.parse().ok()?;
    Some(pages * 4_096)
}

#[tokio::test]
async fn ten_thousand_subscriptions_hold_no_task_and_hardly_any_memory() {
    let server = announcing(|limits| {
        limits.subscriptions = MANY;
        limits.subscriptions_per_principal = MANY;
    });
    let tasks = || {
        tokio::runtime::Handle::current()
            .metrics()
            .num_alive_tasks()
    };
    let (tasks_before, memory_before) = (tasks(), resident());
    let mut open = Vec::with_capacity(MANY);
    for n in 0..MANY {
        let call = listen(n, everything());
        // What is large of a request leaves nothing behind.
        let padded = call.body.to_string() + &" ".repeat(PADDING);
        open.push(Events::answering(&server, call.with_body(padded)).await);
    }
    assert_eq!(server.open_subscriptions(), MANY);
    assert_eq!(tasks(), tasks_before);
    for events in &mut open {
        events.message();
    }
    let memory = resident().zip(memory_before);
    if let Some((after, before)) = memory {
        let each = after.saturating_sub(before) / MANY;
        println!("{each} bytes for each subscription");
        // Other tests run beside this one, so this is far above what is measured alone.
        assert!(each < PADDING * 7 / 8, "{each} bytes for each subscription");
    }
    server.changes().tools();
    server.changes().resource("note://1");
    for (n, events) in open.iter_mut().enumerate() {
        assert_eq!(
            events.methods(&json!(n)),
            [
                "notifications/tools/list_changed",
                "notifications/resources/updated"
            ]
        );
    }
    drop(open);
    assert_eq!(server.open_subscriptions(), 0);
}
