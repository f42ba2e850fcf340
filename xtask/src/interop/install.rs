//! The SDKs: TypeScript's from npm, Python's from PyPI, each as its lockfile pins it.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::{Value, json};

use super::matrix::Peer;
use crate::cargo;
use crate::failure::Failure;
use crate::npm::{Node, Packages};

const TYPESCRIPT: &str = "interop/typescript";
const PYTHON: &str = "interop/python";

/// What the scripts import.
const TYPESCRIPT_SCRIPTS: [&str; 2] = ["server.mjs", "client.mjs"];

/// The first Python for which the lockfile was made.
const MIN_PYTHON: (u64, u64) = (3, 11);

/// Where the environment is complete, and for which lockfile.
const STAMP: &str = "installed";

/// Both SDKs, ready to be started.
#[derive(Debug)]
pub(super) struct Sdks {
    node: Node,
    typescript: PathBuf,
    typescript_versions: Value,
    /// The environment's own.
    python: PathBuf,
    python_version: String,
    mcp: String,
}

/// What became of the installation.
#[derive(Debug)]
pub(super) enum Installed {
    Sdks(Sdks),
    /// A program is not on this machine.
    Missing(String),
}

/// target/interop, where everything of this command goes.
pub(super) fn folder() -> PathBuf {
    cargo::root().join("target/interop")
}

pub(super) fn install() -> Result<Installed, Failure> {
    let packages = Packages {
        what: "the TypeScript SDK",
        folder: TYPESCRIPT,
        tree: folder().join("typescript"),
        min_node: 20,
    };
    let Some(node) = packages.install()? else {
        return Ok(Installed::Missing("npm is not on the path".to_owned()));
    };
    // A script imports from the tree that it lies in.
    for name in TYPESCRIPT_SCRIPTS {
        let script = cargo::root().join(TYPESCRIPT).join(name);
        fs::copy(script, packages.tree.join(name))?;
    }
    let python_version = match machine_python() {
        Ok(version) => version,
        Err(why) => return Ok(Installed::Missing(why)),
    };
    let python = environment(&python_version)?;
    let lock = fs::read_to_string(cargo::root().join(PYTHON).join("requirements.txt"))?;
    Ok(Installed::Sdks(Sdks {
        node,
        typescript_versions: json!({
            "client": packages.version("@modelcontextprotocol/client")?,
            "server": packages.version("@modelcontextprotocol/server")?,
        }),
        typescript: packages.tree,
        python,
        python_version,
        mcp: pinned(&lock, "mcp").unwrap_or_default().to_owned(),
    }))
}

/// The version of the machine's Python, if it will do.
fn machine_python() -> Result<String, String> {
    let script = "import sys, venv, ensurepip; print('.'.join(map(str, sys.version_info[:3])))";
    let output = Command::new("python3")
        .args(["-c", script])
        .stderr(Stdio::null())
        .output();
    let (major, minor) = MIN_PYTHON;
    match output {
        Err(_) => Err("python3 is not on the path".to_owned()),
        Ok(output) if !output.status.success() => {
            Err("python3 has no module venv, or none with pip".to_owned())
        }
        Ok(output) => {
            let version = String::from_utf8_lossy(&output.stdout).trim().to_owned();
            match is_enough(&version) {
                true => Ok(version),
                false => Err(format!(
                    "python3 is {version}, and {major}.{minor} is needed"
                )),
            }
        }
    }
}

fn is_enough(version: &str) -> bool {
    let mut parts = version.split('.').map(str::parse::<u64>);
    match (parts.next(), parts.next()) {
        (Some(Ok(major)), Some(Ok(minor))) => (major, minor) >= MIN_PYTHON,
        _ => false,
    }
}

/// An environment with what the lockfile pins, and its Python.
fn environment(version: &str) -> Result<PathBuf, Failure> {
    let lock = cargo::root().join(PYTHON).join("requirements.txt");
    let wanted = format!("{version}\n{}", fs::read_to_string(&lock)?);
    let environment = folder().join("python");
    let python = environment.join("bin/python");
    let stamp = environment.join(STAMP);
    if fs::read_to_string(&stamp).is_ok_and(|installed| installed == wanted) {
        return Ok(python);
    }
    eprintln!("installing the Python SDK from PyPI");
    match fs::remove_dir_all(&environment) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error.into()),
        _ => {}
    }
    let mut venv = Command::new("python3");
    venv.args(["-m", "venv"]).arg(&environment);
    venv.stdout(Stdio::null());
    cargo::run(
        venv,
        "does `python3 -m venv` work? on Debian it is in python3-venv",
    )?;
    let mut pip = Command::new(&python);
    pip.args([
        "-m",
        "pip",
        "install",
        "--quiet",
        "--disable-pip-version-check",
    ]);
    pip.args(["--require-hashes", "-r"]).arg(&lock);
    pip.stdout(Stdio::null());
    cargo::run(
        pip,
        "can PyPI be reached? after a change of interop/python/requirements.in, write its lockfile anew",
    )?;
    fs::write(&stamp, wanted)?;
    Ok(python)
}

/// The version that a lockfile pins a package to.
fn pinned<'a>(lock: &'a str, package: &str) -> Option<&'a str> {
    lock.lines().find_map(|line| {
        let version = line.strip_prefix(package)?.strip_prefix("==")?;
        version.split_whitespace().next()
    })
}

impl Sdks {
    /// What a peer's script is started with: `server` or `client`.
    pub(super) fn command(&self, peer: Peer, script: &str) -> Vec<String> {
        let (program, script) = match peer {
            Peer::TypeScript => (
                &self.node.program,
                self.typescript.join(format!("{script}.mjs")),
            ),
            Peer::Python => (
                &self.python,
                cargo::root().join(PYTHON).join(format!("{script}.py")),
            ),
        };
        vec![shown(program), shown(&script)]
    }

    pub(super) fn versions(&self) -> Value {
        json!({
            "node": self.node.version,
            "typescript": self.typescript_versions,
            "python": self.python_version,
            "mcp": self.mcp,
        })
    }
}

fn shown(path: &Path) -> String {
    path.to_string_lossy().into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn old_pythons_are_told_from_new_ones() {
        for enough in ["3.11.0", "3.13.1", "4.0.0"] {
            assert!(is_enough(enough), "{enough}");
        }
        for not in ["3.10.13", "2.7.18", "", "3", "three.eleven"] {
            assert!(!is_enough(not), "{not}");
        }
    }

    #[test]
    fn the_lockfile_pins_everything_by_hash_and_names_no_host() {
        let lock = cargo::root().join(PYTHON).join("requirements.txt");
        let lock = fs::read_to_string(lock).unwrap();
        assert_eq!(pinned(&lock, "mcp"), Some("2.3.0"));
        assert_eq!(pinned(&lock, "absent"), None);
        let mut packages = 0;
        for line in lock.lines() {
            assert!(!line.contains("://"), "{line}");
            if !line.starts_with([' ', '#']) && !line.is_empty() {
                assert!(line.contains("==") && line.ends_with('\\'), "{line}");
                packages += 1;
            }
        }
        assert!(packages > 20, "{packages}");
        assert!(lock.matches("--hash=sha256:").count() >= packages);
    }
}
