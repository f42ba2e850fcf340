//! `cargo xtask probe`: the examples `voucher` and `expenses` under `mrtr-probe`, with two people and states that live for two
//! seconds. No row may be unsafe, and none unknown.

use std::fs;
use std::io::{self, BufRead as _, BufReader, Write as _};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use serde_json::{Value, json};

use crate::cargo::{self, array, cargo, text};
use crate::failure::Failure;
use crate::interop::{self, PeerServer};

const HELP: &str = "\
cargo xtask probe [--peers] [--json]

Builds mrtr-probe and the examples `voucher` and `expenses`, starts each with two bearer tokens and a lifetime of 2 s, and plays
every attack on it. No row may be unsafe, and none unknown; what an example lacks is not applicable, with the reason.

  --peers   and the servers of interop/ on the official SDKs, installed as `cargo xtask interop` does: there it must find what
            those are known to let through, the replay first
  --json    one JSON object with all reports on stdout, nothing else there
";

/// How long a state lives, in seconds.
const LIFETIME: u64 = 2;

/// An example, and what of it is attacked.
struct Example {
    name: &'static str,
    arguments: &'static [&'static str],
}

const EXAMPLES: [Example; 2] = [
    Example {
        name: "voucher",
        arguments: &[
            "--tool",
            "redeem_voucher",
            "--other-tool",
            "redeem_slowly",
            "--effect-tool",
            "vouchers_redeemed",
            "--arguments",
            // The slow one wants to know how slow.
            r#"{"code":"SPRING","millis":0}"#,
        ],
    },
    Example {
        name: "expenses",
        arguments: &[
            "--tool",
            "submit_expense",
            "--effect-tool",
            "expenses_submitted",
            "--arguments",
            r#"{"amount":250,"memo":"chairs"}"#,
        ],
    },
];

/// Plays the attacks. Tables, or one JSON object, go to stdout.
pub(crate) fn run(args: &[String]) -> Result<(), Failure> {
    let (mut json, mut peers) = (false, false);
    for arg in args {
        match arg.as_str() {
            "--json" => json = true,
            "--peers" => peers = true,
            "--help" | "-h" => return Ok(io::stdout().write_all(HELP.as_bytes())?),
            _ => {
                return Err(Failure::usage(format!(
                    "`probe` does not know `{arg}`; `probe --help` says more"
                )));
            }
        }
    }
    let metadata = cargo::metadata(false)?;
    let mut build = cargo(["build", "--quiet", "-p", "mrtr-probe"]);
    for example in &EXAMPLES {
        build.args(["-p", example.name]);
    }
    build.stdout(Stdio::null());
    cargo::run(build, "mend what the compiler reports above")?;
    let target = cargo::target(&metadata)?;

    let mut reports = Vec::new();
    let mut findings = Vec::new();
    for example in &EXAMPLES {
        eprintln!("{}", example.name);
        let report = probed(example, &target)?;
        findings.extend(self::findings(&report));
        reports.push((example.name, report));
    }
    let servers = match peers {
        true => peer_servers()?,
        false => Vec::new(),
    };
    for (name, words) in servers {
        eprintln!("{name}");
        let report = peer_probed(name, &words, &target)?;
        findings.extend(not_found(name, &report));
        reports.push((name, report));
    }
    if json {
        let reports: Vec<&Value> = reports.iter().map(|(_, report)| report).collect();
        writeln!(io::stdout(), "{}", json!({ "reports": reports }))?;
    } else {
        for (name, report) in &reports {
            writeln!(io::stdout(), "{}", summary(name, report))?;
        }
    }
    if findings.is_empty() {
        return Ok(());
    }
    Err(Failure::failed(
        findings.join("\n       "),
        "target/probe has the reports, with what was sent and what came back",
    ))
}

/// Starts an example, attacks it, ends it.
fn probed(example: &Example, target: &Path) -> Result<Value, Failure> {
    let folder = target.join("probe").join(example.name);
    if folder.exists() {
        fs::remove_dir_all(&folder)?;
    }
    fs::create_dir_all(&folder)?;
    let binary = |name: &str| {
        let name = format!("{name}{}", std::env::consts::EXE_SUFFIX);
        target.join("debug").join(name)
    };
    let mut server = Command::new(binary(example.name));
    server
        .args(["--until-stdin-closes", "--lifetime"])
        .arg((LIFETIME * 1000).to_string())
        .arg("--data")
        .arg(&folder)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null());
    cargo::without_run_variables(&mut server);
    let mut server = Running(server.spawn()?);
    let url = server.url(example.name)?;

    let mut probe = probe(target, &url);
    probe
        .args(example.arguments)
        .args(["--answer", r#"{"ok":true}"#])
        .args(["--lifetime", &LIFETIME.to_string()])
        // Demonstration tokens, which stand in the examples' help.
        .env("MRTR_PROBE_TOKEN", "alice-token")
        .env("MRTR_PROBE_OTHER_TOKEN", "bob-token");
    reported(probe, example.name, target)
}

/// Every SDK's states are good again and again, whoever writes the tool: nothing of theirs keeps what was used.
const REPLAYS: [&str; 6] = [
    "replay",
    "lost-response",
    "fork",
    "decline-then-accept",
    "cancel-then-accept",
    "concurrent-replay",
];

/// The servers of the official SDKs; none where they cannot be installed, which in CI is a failure.
fn peer_servers() -> Result<Vec<PeerServer>, Failure> {
    match interop::peer_servers()? {
        Ok(servers) => Ok(servers),
        Err(what) if interop::in_ci() => Err(Failure::failed(
            format!("{what}, so that the SDKs cannot be installed"),
            "install it (on Debian: nodejs, npm, python3 and python3-venv)",
        )),
        Err(what) => {
            eprintln!("the peers are skipped: {what}");
            Ok(Vec::new())
        }
    }
}

/// Starts a peer's server, attacks its tool `order`, ends it.
fn peer_probed(name: &str, words: &[String], target: &Path) -> Result<Value, Failure> {
    let (program, arguments) = words.split_first().ok_or_else(|| {
        Failure::failed("there is no program to start", "this is a fault of xtask")
    })?;
    fs::create_dir_all(target.join("probe"))?;
    let log = fs::File::create(target.join("probe").join(format!("{name}.log")))?;
    let mut server = Command::new(program);
    server
        .args(arguments)
        .env("NO_COLOR", "1")
        .env("PYTHONDONTWRITEBYTECODE", "1")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(log);
    cargo::without_run_variables(&mut server);
    let mut server = Running(server.spawn()?);
    let url = server.url(name)?;
    let mut probe = probe(target, &url);
    probe
        .args([
            "--tool",
            "order",
            "--arguments",
            r#"{"label":"a","item":"tea"}"#,
        ])
        .args(["--answer", r#"{"quantity":2,"gift":false}"#])
        .args([
            "--effect-tool",
            "effects",
            "--effect-arguments",
            r#"{"label":"a"}"#,
        ])
        .args(["--other-tool", "travel"]);
    reported(probe, name, target)
}

/// What a peer is known to let through, and the probe did not find.
fn not_found(name: &str, report: &Value) -> Vec<String> {
    let is_unsafe = |id: &str| {
        array(report.get("rows"))
            .any(|row| text(row, "id") == Some(id) && text(row, "verdict") == Some("unsafe"))
    };
    let missing = REPLAYS.iter().filter(|id| !is_unsafe(id));
    missing
        .map(|id| format!("{name}: `{id}` is not unsafe: has the SDK been mended, or does the probe not see it any more?"))
        .collect()
}

/// The probe's command.
fn probe(target: &Path, url: &str) -> Command {
    let name = format!("mrtr-probe{}", std::env::consts::EXE_SUFFIX);
    let mut probe = Command::new(target.join("debug").join(name));
    probe.arg(url).arg("--json");
    for name in ["MRTR_PROBE_TOKEN", "MRTR_PROBE_OTHER_TOKEN"] {
        probe.env_remove(name);
    }
    cargo::without_run_variables(&mut probe);
    probe
}

/// Runs the probe, and keeps its report.
fn reported(probe: Command, name: &str, target: &Path) -> Result<Value, Failure> {
    let (status, report) = cargo::output(probe, "run `cargo xtask probe` again to see its lines")?;
    let kept = target.join("probe").join(format!("{name}.json"));
    fs::write(kept, &report)?;
    if !matches!(status.code(), Some(0 | 1)) {
        return Err(Failure::failed(
            format!("mrtr-probe came to no report on {name} ({status})"),
            "its own words stand above",
        ));
    }
    serde_json::from_str(&report).map_err(|error| {
        Failure::failed(
            format!("mrtr-probe wrote no JSON: {error}"),
            "the program promises one object on stdout with --json",
        )
    })
}

/// A server that is ended when it is dropped.
struct Running(Child);

impl Running {
    fn url(&mut self, name: &str) -> Result<String, Failure> {
        let mut line = String::new();
        if let Some(stdout) = self.0.stdout.take() {
            BufReader::new(stdout).read_line(&mut line)?;
        }
        let url = line.trim().strip_prefix("listening on ");
        url.map(str::to_owned).ok_or_else(|| {
            Failure::failed(
                format!("{name} did not say where it listens"),
                format!("run it by hand: cargo run -p {name}"),
            )
        })
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // It ends by itself when its input does; whoever is slow about that is killed.
        drop(self.0.stdin.take());
        for _ in 0..50 {
            if matches!(self.0.try_wait(), Ok(Some(_))) {
                return;
            }
            std::thread::sleep(std::time::Duration::from_millis(20));
        }
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The rows that must not be, in a line each.
fn findings(report: &Value) -> Vec<String> {
    let tool = text(report, "tool").unwrap_or("?");
    let rows: Vec<&Value> = array(report.get("rows")).collect();
    if rows.is_empty() {
        return vec![format!("{tool}: a report without rows")];
    }
    let bad = rows
        .into_iter()
        .filter(|row| !matches!(text(row, "verdict"), Some("safe" | "not_applicable")));
    bad.map(|row| {
        let word = |name| text(row, name).unwrap_or("?");
        format!(
            "{tool}: {}: {}: {}",
            word("verdict"),
            word("title"),
            word("note")
        )
    })
    .collect()
}

fn summary(name: &str, report: &Value) -> String {
    let count = |verdict: &str| {
        let total = report.pointer(&format!("/totals/{verdict}"));
        total.and_then(Value::as_u64).unwrap_or_default()
    };
    let lacks =
        array(report.get("rows")).filter(|row| text(row, "verdict") == Some("not_applicable"));
    let lacks: Vec<&str> = lacks.filter_map(|row| text(row, "note")).collect();
    let mut line = format!(
        "{name:<10} {} unsafe, {} unknown, {} safe",
        count("unsafe"),
        count("unknown"),
        count("safe")
    );
    if !lacks.is_empty() {
        line.push_str(&format!(
            ", {} not applicable: {}",
            lacks.len(),
            lacks.join("; ")
        ));
    }
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_safe_is_named_and_a_report_without_rows_is_no_report() {
        let row = |verdict: &str| json!({ "verdict": verdict, "title": "t", "note": "n" });
        let report = json!({
            "tool": "pay",
            "totals": { "unsafe": 1, "unknown": 1, "safe": 1, "notApplicable": 1 },
            "rows": [row("safe"), row("unsafe"), row("unknown"), row("not_applicable")],
        });
        assert_eq!(
            findings(&report),
            ["pay: unsafe: t: n", "pay: unknown: t: n"]
        );
        assert_eq!(
            summary("shop", &report),
            "shop       1 unsafe, 1 unknown, 1 safe, 1 not applicable: n"
        );
        assert_eq!(findings(&json!({ "tool": "pay", "rows": [] })).len(), 1);
        assert_eq!(findings(&json!({})).len(), 1);
    }

    #[test]
    fn what_is_not_found_on_a_peer_is_named() {
        let row = |id: &str, verdict: &str| json!({ "id": id, "verdict": verdict });
        let mut rows: Vec<Value> = REPLAYS.iter().map(|id| row(id, "unsafe")).collect();
        assert!(not_found("p", &json!({ "rows": rows })).is_empty());
        rows[0] = row(REPLAYS[0], "safe");
        let missing = not_found("p", &json!({ "rows": rows }));
        assert_eq!(missing.len(), 1);
        assert!(
            missing[0].starts_with("p: `replay` is not unsafe"),
            "{missing:?}"
        );
        assert_eq!(not_found("p", &json!({})).len(), REPLAYS.len());
    }

    #[test]
    fn nothing_but_json_and_help_is_understood() {
        let refused = run(&["--fast".to_owned()]);
        assert!(matches!(refused, Err(Failure::Usage(_))));
    }
}
