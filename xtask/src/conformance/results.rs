//! The suite's result files: a folder for each scenario, with `checks.json` in it.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::cargo::text;
use crate::failure::Failure;

/// What the client prints last, when nothing went wrong.
///
/// The suite does not score exit codes where it runs all scenarios, so that a client which fails after its last check
/// would look like one that does not.
const CLIENT_DONE: &str = "done";

/// What the suite found in one scenario.
#[derive(Debug, Default)]
pub(super) struct Outcome {
    /// How many checks succeeded.
    pub(super) success: u64,
    /// Checks that failed, each with the suite's message.
    pub(super) failures: Vec<String>,
    /// Checks that warn, each with the suite's message.
    pub(super) warnings: Vec<String>,
    /// The names of checks that were skipped.
    pub(super) skipped: Vec<String>,
    /// Whether the client came to its end and said so. No server's run has a client of ours.
    pub(super) client_done: bool,
    /// The result file.
    pub(super) file: PathBuf,
}

/// Reads every result under a folder, by the scenario's name.
pub(super) fn read(folder: &Path) -> Result<BTreeMap<String, Outcome>, Failure> {
    let mut outcomes = BTreeMap::new();
    walk(folder, folder, &mut outcomes)?;
    Ok(outcomes)
}

fn walk(
    root: &Path,
    folder: &Path,
    outcomes: &mut BTreeMap<String, Outcome>,
) -> Result<(), Failure> {
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if !path.is_dir() {
            continue;
        }
        let file = path.join("checks.json");
        if !file.is_file() {
            walk(root, &path, outcomes)?;
            continue;
        }
        let relative = path.strip_prefix(root).unwrap_or(&path);
        let name = scenario(&relative.to_string_lossy());
        let not_as_promised = |problem: &str| {
            Failure::failed(
                format!("{}: {problem}", file.display()),
                "the suite writes something else than it did; was its version changed?",
            )
        };
        let mut outcome =
            outcome(&fs::read_to_string(&file)?).map_err(|problem| not_as_promised(&problem))?;
        outcome.client_done = client_done(&path);
        outcome.file.clone_from(&file);
        if outcomes.insert(name.clone(), outcome).is_some() {
            return Err(not_as_promised(&format!("a second result of {name}")));
        }
    }
    Ok(())
}

/// A scenario's name, from its folder: `server-ping-2026-11-30T21-58-57-634Z`, `auth/basic-cimd-2026-..`.
fn scenario(folder: &str) -> String {
    let folder = folder.replace('\\', "/");
    let stamp = "-2026-11-30T21-58-57-634Z".len();
    let name = folder
        .len()
        .checked_sub(stamp)
        .and_then(|end| folder.get(..end))
        .unwrap_or(&folder);
    // Scenarios of the server have names that begin so, too: only the suite's own prefix goes.
    name.strip_prefix("server-").unwrap_or(name).to_owned()
}

fn outcome(json: &str) -> Result<Outcome, String> {
    let checks: Value = serde_json::from_str(json).map_err(|error| error.to_string())?;
    let checks = checks.as_array().ok_or("not an array of checks")?;
    let mut outcome = Outcome::default();
    for check in checks {
        let name = text(check, "name").ok_or_else(|| format!("a check without a name: {check}"))?;
        let status = text(check, "status").unwrap_or_default();
        match status {
            "SUCCESS" => outcome.success += 1,
            "FAILURE" => outcome.failures.push(message(check, name)),
            "WARNING" => outcome.warnings.push(message(check, name)),
            "SKIPPED" => outcome.skipped.push(name.to_owned()),
            // A note about what was seen; nothing was judged.
            "INFO" => {}
            other => return Err(format!("a check with the status `{other}`: {check}")),
        }
    }
    Ok(outcome)
}

/// The suite's own words: which check, what it wants, what it saw.
fn message(check: &Value, name: &str) -> String {
    let id = text(check, "id").unwrap_or_default();
    let mut line = format!("{name} ({id})");
    for member in ["description", "errorMessage"] {
        if let Some(words) = text(check, member) {
            line.push_str(": ");
            line.push_str(words);
        }
    }
    if text(check, "errorMessage").is_none()
        && let Some(details) = check.get("details")
    {
        line.push_str(": ");
        line.push_str(&details.to_string());
    }
    line
}

fn client_done(folder: &Path) -> bool {
    fs::read_to_string(folder.join("stdout.txt"))
        .is_ok_and(|stdout| stdout.lines().next_back() == Some(CLIENT_DONE))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folders_are_named_after_their_scenarios() {
        for (folder, name) in [
            ("server-ping-2026-11-30T21-58-57-634Z", "ping"),
            (
                "server-server-stateless-2026-11-30T21-58-57-634Z",
                "server-stateless",
            ),
            (
                "auth/basic-cimd-2026-11-30T21-58-57-634Z",
                "auth/basic-cimd",
            ),
            (
                "json-schema-2020-12-preservation-2026-11-30T21-58-57-634Z",
                "json-schema-2020-12-preservation",
            ),
            ("short", "short"),
        ] {
            assert_eq!(scenario(folder), name);
        }
    }

    #[test]
    fn checks_are_counted_by_their_status() {
        let outcome = outcome(
            r#"[{"id":"a","name":"A","status":"SUCCESS"},{"id":"b","name":"B","status":"SUCCESS"},
                {"id":"c","name":"C","description":"must be red","status":"FAILURE","errorMessage":"is blue"},
                {"id":"d","name":"D","status":"WARNING","details":{"seen":1}},
                {"id":"e","name":"E","status":"SKIPPED"},{"id":"f","name":"F","status":"INFO"}]"#,
        )
        .unwrap();
        assert_eq!(outcome.success, 2);
        assert_eq!(outcome.failures, ["C (c): must be red: is blue"]);
        assert_eq!(outcome.warnings, [r#"D (d): {"seen":1}"#]);
        assert_eq!(outcome.skipped, ["E"]);
    }

    #[test]
    fn a_status_that_is_not_known_is_refused() {
        for json in [
            "",
            "{}",
            r#"[{"id":"a","name":"A","status":"GREAT"}]"#,
            r#"[{"id":"a","name":"A"}]"#,
            r#"[{"id":"a","status":"SUCCESS"}]"#,
        ] {
            assert!(outcome(json).is_err(), "{json}");
        }
    }
}
