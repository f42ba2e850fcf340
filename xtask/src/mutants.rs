//! `cargo xtask mutants`: changes the code in small ways, one at a time, and sees whether a test notices.
//!
//! What may survive stands in mutants.json with a reason each. A survivor outside that list fails, and so does an entry whose
//! mutant is noticed by now or no longer exists.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fs;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::{Value, json};

use crate::cargo::{self, array, cargo, text};
use crate::failure::Failure;
use crate::heading;

/// The crates in which a fault that no test sees would cost the most.
const PACKAGES: [&str; 3] = ["mrtr-ledger", "mrtr-ledger-sqlite", "mrtr-ledger-postgres"];

/// The version of the tool that makes the mutants. Another one makes others.
const VERSION: &str = "27.1.0";

const LIST: &str = "mutants.json";

const HELP: &str = "\
cargo xtask mutants [--json] [PACKAGE]..

  Changes the code of each PACKAGE in small ways, one at a time, and runs that package's tests: one of them must fail.
  Without a PACKAGE: the ledger's crates. It takes long: from minutes to hours.

    --json    one JSON object for all packages on stdout, nothing else there

  Survivors that are known stand in mutants.json, with a reason each. The tool (cargo-mutants) is installed into
  target/tools on first use.
";

/// Runs the packages and compares what survived with the list.
pub(crate) fn run(args: &[String]) -> Result<(), Failure> {
    let mut packages = Vec::new();
    let mut as_json = false;
    for arg in args {
        match arg.as_str() {
            "-h" | "--help" => {
                return Ok(io::stdout().write_all(HELP.as_bytes())?);
            }
            "--json" => as_json = true,
            option if option.starts_with('-') => {
                return Err(Failure::usage(format!(
                    "`mutants` knows no option `{option}`; `cargo xtask mutants --help` shows what there is"
                )));
            }
            package => packages.push(package.to_owned()),
        }
    }
    let members = cargo::members(&cargo::metadata(false)?);
    let folder_of = |package: &str| {
        let member = members.iter().find(|member| member.name == package);
        member.map(|member| member.folder.clone())
    };
    if packages.is_empty() {
        packages = PACKAGES.map(str::to_owned).to_vec();
    }
    let listed = read_list(&fs::read_to_string(cargo::root().join(LIST))?)
        .map_err(|problem| Failure::failed(format!("{LIST}: {problem}"), "mend the list"))?;

    let tool = tool()?;
    let mut reports = Vec::new();
    for package in &packages {
        let Some(folder) = folder_of(package) else {
            return Err(Failure::usage(format!(
                "the workspace has no package `{package}`"
            )));
        };
        heading(package);
        let found = hunt(&tool, package)?;
        let listed = listed
            .iter()
            .filter(|known| known.starts_with(&format!("{folder}/")));
        reports.push((package.as_str(), found.against(listed)));
    }

    if as_json {
        let all: serde_json::Map<String, Value> = reports
            .iter()
            .map(|(package, report)| ((*package).to_owned(), report.to_json()))
            .collect();
        writeln!(io::stdout(), "{}", Value::Object(all))?;
    }
    heading("summary");
    let mut bad = 0;
    for (package, report) in &reports {
        eprint!("{}", report.shown(package));
        bad += report.unexpected.len() + report.outdated.len();
    }
    if bad == 0 {
        Ok(())
    } else {
        Err(Failure::failed(
            format!("{bad} lines above are not as {LIST} says"),
            format!(
                "write a test that notices the change, or list it in {LIST} with the reason why none can"
            ),
        ))
    }
}

/// The tool, installed into target/tools if it is not there.
fn tool() -> Result<PathBuf, Failure> {
    let folder = cargo::root().join("target/tools");
    let program = folder
        .join("bin")
        .join(format!("cargo-mutants{}", std::env::consts::EXE_SUFFIX));
    if is_version(&program) {
        return Ok(program);
    }
    let on_path = PathBuf::from("cargo-mutants");
    if is_version(&on_path) {
        return Ok(on_path);
    }
    heading(&format!("installing cargo-mutants {VERSION}"));
    let mut install = cargo(["install", "cargo-mutants", "--locked", "--version", VERSION]);
    install.arg("--root").arg(&folder);
    cargo::run(install, "can the registry be reached?")?;
    Ok(program)
}

fn is_version(program: &Path) -> bool {
    let output = Command::new(program)
        .args(["mutants", "--version"])
        .stderr(Stdio::null())
        .output();
    output.is_ok_and(|output| String::from_utf8_lossy(&output.stdout).contains(VERSION))
}

/// What became of a package's mutants. Each is named by its file and what was changed, without the line, which moves.
#[derive(Debug, Default, PartialEq, Eq)]
struct Found {
    caught: usize,
    unviable: usize,
    survived: BTreeSet<String>,
}

fn hunt(tool: &Path, package: &str) -> Result<Found, Failure> {
    let folder = cargo::root().join("target/mutants").join(package);
    fs::create_dir_all(&folder)?;
    let mut command = Command::new(tool);
    command
        .args([
            "mutants",
            "--package",
            package,
            "--no-shuffle",
            "--jobs",
            "1",
        ])
        // A mutant that makes a test wait for ever is noticed by that; three times the usual is for ever.
        .args(["--timeout-multiplier", "3", "--minimum-test-timeout", "30"])
        .args(["--colors", "never", "--output"])
        .arg(&folder)
        .current_dir(cargo::root())
        .stdout(Stdio::from(io::stderr()))
        .env(
            "CARGO",
            std::env::var_os("CARGO").unwrap_or_else(|| OsString::from("cargo")),
        );
    cargo::without_run_variables(&mut command);
    let status = command.status()?;
    // 2: some survived; 3: some were noticed by a time-out. Everything else is not about mutants.
    if !matches!(status.code(), Some(0 | 2 | 3)) {
        return Err(Failure::failed(
            format!("the mutants of {package} were not all tried ({status})"),
            format!("see {}/mutants.out/log", folder.display()),
        ));
    }
    let lines = |name: &str| -> Result<Vec<String>, Failure> {
        let text = fs::read_to_string(folder.join("mutants.out").join(name))?;
        Ok(text.lines().map(str::to_owned).collect())
    };
    Ok(Found {
        caught: lines("caught.txt")?.len() + lines("timeout.txt")?.len(),
        unviable: lines("unviable.txt")?.len(),
        survived: lines("missed.txt")?
            .iter()
            .map(|line| named(line))
            .collect(),
    })
}

/// `file:12:34: what` is `file: what`.
fn named(line: &str) -> String {
    let mut parts = line.splitn(4, ':');
    match (parts.next(), parts.next(), parts.next(), parts.next()) {
        (Some(file), Some(_), Some(_), Some(what)) => format!("{file}:{what}"),
        _ => line.to_owned(),
    }
}

/// The mutants that may survive, by name. Each has a reason.
fn read_list(list: &str) -> Result<BTreeSet<String>, String> {
    let list: Value = serde_json::from_str(list).map_err(|error| error.to_string())?;
    let mut names = BTreeSet::new();
    for entry in array(list.get("survivors")) {
        let of = |name| text(entry, name).filter(|text| !text.trim().is_empty());
        let (Some(mutant), Some(_)) = (of("mutant"), of("reason")) else {
            return Err(format!("an entry without `mutant` or `reason`: {entry}"));
        };
        if !names.insert(mutant.to_owned()) {
            return Err(format!("listed twice: {mutant}"));
        }
    }
    if list.get("survivors").and_then(Value::as_array).is_none() {
        return Err("no list `survivors`".to_owned());
    }
    Ok(names)
}

/// A package's mutants beside the list.
#[derive(Debug, PartialEq, Eq)]
struct Report {
    caught: usize,
    unviable: usize,
    known: usize,
    /// Survivors that are not listed.
    unexpected: Vec<String>,
    /// Listed, and not a survivor.
    outdated: Vec<String>,
}

impl Found {
    fn against<'a>(&self, listed: impl Iterator<Item = &'a String>) -> Report {
        let listed: BTreeSet<&String> = listed.collect();
        let unexpected = self.survived.iter().filter(|name| !listed.contains(name));
        let outdated = listed.iter().filter(|name| !self.survived.contains(**name));
        Report {
            caught: self.caught,
            unviable: self.unviable,
            known: self
                .survived
                .iter()
                .filter(|name| listed.contains(name))
                .count(),
            unexpected: unexpected.cloned().collect(),
            outdated: outdated.map(|name| (*name).clone()).collect(),
        }
    }
}

impl Report {
    fn shown(&self, package: &str) -> String {
        let mut text = format!(
            "{package:<24} {:>4} noticed, {:>3} survive with a reason, {:>3} survive without, {:>3} do not compile\n",
            self.caught,
            self.known,
            self.unexpected.len(),
            self.unviable
        );
        for name in &self.unexpected {
            text.push_str(&format!("  nobody notices: {name}\n"));
        }
        for name in &self.outdated {
            text.push_str(&format!("  listed, and no survivor: {name}\n"));
        }
        text
    }

    fn to_json(&self) -> Value {
        json!({
            "noticed": self.caught,
            "doNotCompile": self.unviable,
            "surviveWithReason": self.known,
            "surviveWithout": self.unexpected,
            "listedAndNoSurvivor": self.outdated,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(names: &[&str]) -> BTreeSet<String> {
        names.iter().map(|name| (*name).to_owned()).collect()
    }

    #[test]
    fn a_mutant_is_named_without_its_line() {
        let line = "crates/a/src/b.rs:12:34: replace Row::is_owned -> bool with true";
        assert_eq!(
            named(line),
            "crates/a/src/b.rs: replace Row::is_owned -> bool with true"
        );
        assert_eq!(named("something else"), "something else");
    }

    #[test]
    fn survivors_are_compared_with_the_list() {
        let found = Found {
            caught: 7,
            unviable: 1,
            survived: set(&["a: x", "b: y"]),
        };
        let report = found.against(set(&["b: y", "c: z"]).iter());
        assert_eq!(report.known, 1);
        assert_eq!(report.unexpected, ["a: x"]);
        assert_eq!(report.outdated, ["c: z"]);
        let shown = report.shown("p");
        assert!(shown.contains("nobody notices: a: x"), "{shown}");
        assert!(shown.contains("no survivor: c: z"), "{shown}");
    }

    #[test]
    fn an_entry_needs_a_reason() {
        let good = r#"{"survivors":[{"mutant":"a: x","reason":"the same either way"}]}"#;
        assert_eq!(read_list(good).unwrap(), set(&["a: x"]));
        for bad in [
            "",
            "{}",
            r#"{"survivors":[{"mutant":"a: x"}]}"#,
            r#"{"survivors":[{"mutant":"a: x","reason":" "}]}"#,
            r#"{"survivors":[{"mutant":"a","reason":"r"},{"mutant":"a","reason":"r"}]}"#,
        ] {
            assert!(read_list(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn the_list_of_this_project_can_be_read() {
        let list = fs::read_to_string(cargo::root().join(LIST)).unwrap();
        read_list(&list).unwrap();
    }
}
