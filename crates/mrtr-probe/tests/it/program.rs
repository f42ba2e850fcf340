//! The program: exit codes, and what stands on stdout.

use std::process::{Command, Output};
use std::time::Duration;

use serde_json::Value;

use crate::weak::{Weak, serve};

async fn probe(arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_mrtr-probe"));
    command.args(arguments).env_remove("MRTR_PROBE_TOKEN");
    command.env("MRTR_PROBE_OTHER_TOKEN", "token-of-bob");
    tokio::task::spawn_blocking(move || command.output().unwrap())
        .await
        .unwrap()
}

async fn probe_weak(weak: Weak, more: &[&str]) -> Output {
    let url = serve(weak, Duration::from_secs(600)).await;
    let mut arguments = vec![
        url.as_str(),
        "--tool",
        "transfer",
        "--arguments",
        r#"{"to":"bob","amount":100}"#,
        "--answer",
        r#"{"ok":true}"#,
        "--token",
        "token-of-alice",
        "--effect-tool",
        "count",
        "--other-tool",
        "donate",
    ];
    arguments.extend_from_slice(more);
    probe(&arguments).await
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

#[tokio::test]
async fn a_table_for_people_and_exit_0_where_nothing_is_unsafe() {
    let output = probe_weak(Weak::Nowhere, &[]).await;
    let stdout = text(&output.stdout);
    assert_eq!(
        output.status.code(),
        Some(0),
        "{stdout}{}",
        text(&output.stderr)
    );
    assert!(stdout.contains("0 unsafe, 0 unknown"), "{stdout}");
    assert!(text(&output.stderr).contains("the honest call"), "progress");
    assert!(!format!("{stdout}{}", text(&output.stderr)).contains("token-of-"));
}

#[tokio::test]
async fn one_json_object_and_exit_1_where_a_row_is_unsafe() {
    let output = probe_weak(Weak::Arguments, &["--json"]).await;
    assert_eq!(output.status.code(), Some(1));
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(report["totals"]["unsafe"], 2);
    let rows = report["rows"].as_array().unwrap();
    let row = rows
        .iter()
        .find(|row| row["id"] == "other-arguments")
        .unwrap();
    assert_eq!(row["verdict"], "unsafe");
    for member in ["title", "rule", "note", "sent", "received"] {
        assert!(!row[member].as_str().unwrap().is_empty(), "{member}: {row}");
    }
    assert!(row["sent"].as_str().unwrap().contains('…'), "{row}");
    assert!(!text(&output.stdout).contains("token-of-"));
}

#[tokio::test]
async fn sarif_is_what_its_readers_expect() {
    let output = probe_weak(Weak::Arguments, &["--sarif"]).await;
    assert_eq!(output.status.code(), Some(1));
    let log: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(log["version"], "2.1.0");
    let runs = log["runs"].as_array().unwrap();
    assert_eq!(runs.len(), 1);
    let driver = &runs[0]["tool"]["driver"];
    assert_eq!(driver["name"], "mrtr-probe");
    let rules = driver["rules"].as_array().unwrap();
    let results = runs[0]["results"].as_array().unwrap();
    assert_eq!(rules.len(), results.len());
    for (index, result) in results.iter().enumerate() {
        // Section 3.27 of the standard: a rule and its index, a kind, and a level that is none but for failures.
        assert_eq!(result["ruleIndex"], index);
        assert_eq!(result["ruleId"], rules[index]["id"]);
        assert!(
            !rules[index]["shortDescription"]["text"]
                .as_str()
                .unwrap()
                .is_empty()
        );
        assert!(!result["message"]["text"].as_str().unwrap().is_empty());
        let (kind, level) = (
            result["kind"].as_str().unwrap(),
            result["level"].as_str().unwrap(),
        );
        assert!(
            ["fail", "open", "pass", "notApplicable"].contains(&kind),
            "{kind}"
        );
        assert_eq!(level, if kind == "fail" { "error" } else { "none" });
        let location = &result["locations"][0]["physicalLocation"]["artifactLocation"]["uri"];
        assert!(location.as_str().unwrap().starts_with("http://127.0.0.1:"));
    }
    let failed = results.iter().filter(|result| result["kind"] == "fail");
    let failed: Vec<&str> = failed
        .map(|result| result["ruleId"].as_str().unwrap())
        .collect();
    assert_eq!(failed, ["other-arguments", "used-other-arguments"]);
}

#[tokio::test]
async fn exit_2_for_a_command_line_and_3_without_a_good_path() {
    for line in [
        &["--tool", "transfer"][..],
        &["http://127.0.0.1:1/mcp", "--tool", "t", "--fast"],
    ] {
        assert_eq!(probe(line).await.status.code(), Some(2), "{line:?}");
    }
    let output = probe(&["http://192.0.2.1/mcp", "--tool", "t"]).await;
    assert_eq!(output.status.code(), Some(2));
    let output = probe_weak(Weak::Nowhere, &["--tool", "nothing"]).await;
    assert_eq!(output.status.code(), Some(3));
    assert!(output.stdout.is_empty());
    assert_eq!(probe(&["--help"]).await.status.code(), Some(0));
}
