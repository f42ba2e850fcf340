//! Servers that run as child processes: started, read, ended, and started again.

use std::path::Path;
use std::process::Command;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use mrtr_client::{CallError, Change, Client, Ended, Era, ServerProcess, Stderr};
use mrtr_protocol::SubscriptionFilter;
use serde_json::json;

/// What answers the probe and every call, in POSIX shell; `$before` runs before a call is answered.
fn server(before: &str, at_end: &str) -> ServerProcess {
    let script = format!(
        r#"
        while IFS= read -r line; do
            id=$(printf '%s' "$line" | sed -n 's/^{{"jsonrpc":"2.0","id":\([0-9]*\),.*/\1/p')
            case "$line" in
                *'"server/discover"'*)
                    printf '{{"jsonrpc":"2.0","id":%s,"result":{{"resultType":"complete","supportedVersions":["2026-07-28"],"capabilities":{{}},"ttlMs":0,"cacheScope":"private"}}}}\n' "$id" ;;
                *'"subscriptions/listen"'*)
                    printf '{{"jsonrpc":"2.0","method":"notifications/subscriptions/acknowledged","params":{{"_meta":{{"io.modelcontextprotocol/subscriptionId":%s}},"notifications":{{"toolsListChanged":true}}}}}}\n' "$id"
                    printf '{{"jsonrpc":"2.0","method":"notifications/tools/list_changed","params":{{"_meta":{{"io.modelcontextprotocol/subscriptionId":%s}}}}}}\n' "$id" ;;
                *'"tools/call"'*)
                    {before}
                    printf '{{"jsonrpc":"2.0","id":%s,"result":{{"resultType":"complete","content":[{{"type":"text","text":"%s"}}]}}}}\n' "$id" "$$" ;;
            esac
        done
        {at_end}
        "#
    );
    ServerProcess::new("sh")
        .args(["-c", &script])
        .grace(Duration::from_millis(300))
}

async fn pid(client: &Client) -> u32 {
    client
        .call_tool("t", ())
        .await
        .unwrap()
        .joined_text()
        .parse()
        .unwrap()
}

/// Whether there is such a process, a dead one that nobody waited for included.
fn is_there(pid: u32) -> bool {
    Path::new(&format!("/proc/{pid}")).exists()
        || (!Path::new("/proc/self").exists()
            && Command::new("kill")
                .args(["-0", &pid.to_string()])
                .status()
                .unwrap()
                .success())
}

async fn until_gone(pid: u32) {
    let begun = Instant::now();
    while is_there(pid) {
        assert!(
            begun.elapsed() < Duration::from_secs(30),
            "{pid} is still there"
        );
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

#[tokio::test]
async fn a_child_is_started_with_the_first_request_and_ends_with_its_input() {
    let client = Client::stdio("shell", server("", "")).build().unwrap();
    assert_eq!(client.era(), None);
    let child = pid(&client).await;
    assert_eq!(pid(&client).await, child);
    assert_eq!(client.era(), Some(Era::Modern));
    assert!(is_there(child));
    client.close().await;
    assert!(!is_there(child), "closing waits for the end");
    // The next request starts another.
    let next = pid(&client).await;
    assert_ne!(next, child);
    drop(client);
    until_gone(next).await;
}

#[tokio::test]
async fn a_child_that_ignores_the_end_of_its_input_is_terminated_and_then_killed() {
    let dir = std::env::temp_dir().join(format!("mrtr-client-term-{}", std::process::id()));
    std::fs::create_dir_all(&dir).unwrap();
    // It has the whole grace before it is told, and again before it is killed.
    for (then, least) in [("exit 0", 300), (":", 600)] {
        let told = dir.join(least.to_string());
        let trap = format!("echo told >{}; {then}", told.display());
        let forever = format!("trap '{trap}' TERM; while :; do sleep 0.05; done");
        let client = Client::stdio("shell", server("", &forever))
            .build()
            .unwrap();
        let child = pid(&client).await;
        let begun = Instant::now();
        client.close().await;
        assert!(!is_there(child), "{then}");
        // A kill alone would have ended it as well.
        assert!(told.exists(), "{then}: it was never told");
        let took = begun.elapsed();
        assert!(took >= Duration::from_millis(least), "{then}: {took:?}");
        assert!(took < Duration::from_secs(20), "{then}: {took:?}");
    }
    std::fs::remove_dir_all(&dir).unwrap();
}

#[tokio::test]
async fn what_a_child_started_itself_is_ended_with_it() {
    // It holds on to the streams too.
    let process = server(
        "",
        "sh -c 'trap \"\" TERM; while :; do sleep 0.05; done' & wait",
    );
    let listener: Arc<Mutex<Vec<String>>> = Arc::default();
    let into = Arc::clone(&listener);
    let process = process.stderr(Stderr::lines(move |line| {
        into.lock().unwrap().push(line.to_owned())
    }));
    let client = Client::stdio("shell", process).build().unwrap();
    let child = pid(&client).await;
    client.close().await;
    assert!(!is_there(child));
    let group = format!("-{child}");
    let begun = Instant::now();
    loop {
        let alive = Command::new("kill")
            .args(["-0", "--", &group])
            .output()
            .unwrap();
        if !alive.status.success() {
            break;
        }
        assert!(
            begun.elapsed() < Duration::from_secs(30),
            "its child is still there"
        );
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

#[tokio::test]
async fn case_252_a_child_that_dies_is_started_again_and_no_call_is_repeated() {
    let dir = std::env::temp_dir().join(format!("mrtr-client-{}", std::process::id()));
    std::fs::create_dir_all(&dir).unwrap();
    let count = dir.join("count");
    drop(std::fs::remove_file(&count));
    let before = r#"printf x >> "$COUNT"; case "$line" in *'"die":true'*) kill -9 $$ ;; esac"#;
    let process = server(before, "").env("COUNT", &count);
    let client = Client::stdio("shell", process).build().unwrap();
    let first = pid(&client).await;
    let error = client
        .call_tool("t", json!({"die": true}))
        .await
        .unwrap_err();
    assert!(matches!(error, CallError::OutcomeUnknown { .. }), "{error}");
    assert_ne!(pid(&client).await, first);
    assert_eq!(std::fs::read_to_string(&count).unwrap(), "xxx");
    until_gone(first).await;
    client.close().await;
    std::fs::remove_dir_all(&dir).unwrap();
}

/// A server holds nothing of a subscription when it is started again, so it is subscribed to anew.
#[tokio::test]
async fn a_subscription_breaks_with_its_process_and_is_opened_anew_with_the_next() {
    let before = r#"case "$line" in *'"die":true'*) kill -9 $$ ;; esac"#;
    let client = Client::stdio("shell", server(before, "")).build().unwrap();
    let filter = SubscriptionFilter {
        tools_list_changed: true,
        ..SubscriptionFilter::default()
    };
    for _ in 0..2 {
        let mut subscription = client.listen(filter.clone()).await.unwrap();
        assert_eq!(subscription.next().await.unwrap(), Change::ToolsList);
        client
            .call_tool("t", json!({"die": true}))
            .await
            .unwrap_err();
        assert!(matches!(subscription.next().await, Err(Ended::Broken(_))));
    }
    client.close().await;
}

#[tokio::test]
async fn a_program_that_does_not_exist_or_says_nothing_leaves_the_call_unsent() {
    let client = Client::stdio("none", ServerProcess::new("/nonexistent/mrtr"))
        .build()
        .unwrap();
    let error = client.call_tool("t", ()).await.unwrap_err();
    assert!(matches!(error, CallError::NotSent { .. }), "{error}");
    let client = Client::stdio("mute", ServerProcess::new("true"))
        .build()
        .unwrap();
    for _ in 0..3 {
        let error = client.call_tool("t", ()).await.unwrap_err();
        assert!(matches!(error, CallError::NotSent { .. }), "{error}");
    }
}

#[tokio::test]
async fn case_247_standard_error_is_read_and_handed_on() {
    let heard: Arc<Mutex<Vec<String>>> = Arc::default();
    let into = Arc::clone(&heard);
    // More than a mebibyte, of which a pipe holds a fraction, then a line of interest.
    let before = "i=0; while [ $i -lt 11000 ]; do printf '%0100d\\n' 0 >&2; i=$((i+1)); done; printf 'caf\\303\\251 \\377\\n' >&2";
    let process = server(before, "");
    let listening = process.clone().stderr(Stderr::lines(move |line| {
        into.lock().unwrap().push(line.to_owned())
    }));
    for (process, listens) in [(listening, true), (process.stderr(Stderr::Discard), false)] {
        let client = Client::stdio("shell", process).build().unwrap();
        pid(&client).await;
        let begun = Instant::now();
        while listens && heard.lock().unwrap().len() < 11_001 {
            assert!(begun.elapsed() < Duration::from_secs(30));
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        client.close().await;
    }
    assert_eq!(heard.lock().unwrap().last().unwrap(), "café \u{fffd}");
}

#[tokio::test]
async fn environment_and_directory_are_the_host_s_to_say() {
    let heard: Arc<Mutex<Vec<String>>> = Arc::default();
    let into = Arc::clone(&heard);
    let before = "printf '%s|%s|%s\\n' \"$SECRET\" \"${HOME-none}\" \"$(pwd)\" >&2";
    let path = std::env::var("PATH").unwrap();
    let process = server(before, "")
        .env_clear()
        .env("PATH", path)
        .env("SECRET", "s-4711")
        .env("GONE", "x")
        .env_remove("GONE")
        .current_dir("/")
        .stderr(Stderr::lines(move |line| {
            into.lock().unwrap().push(line.to_owned())
        }));
    let shown = format!("{process:?}");
    assert!(
        !shown.contains("4711") && !shown.contains("printf"),
        "{shown}"
    );
    let client = Client::stdio("shell", process).build().unwrap();
    pid(&client).await;
    client.close().await;
    assert_eq!(*heard.lock().unwrap(), ["s-4711|none|/"]);
}
