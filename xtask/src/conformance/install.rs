//! The suite from npm, and a Node that can run it.

use std::path::PathBuf;

use crate::cargo;
use crate::failure::Failure;
use crate::npm::{Node, Packages};

const SUITE: &str = "@modelcontextprotocol/conformance";

/// The suite, ready to be started.
#[derive(Debug)]
pub(super) struct Suite {
    /// Its version, as it is pinned.
    pub(super) version: String,
    pub(super) node: Node,
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
    let packages = Packages {
        what: "the conformance suite",
        folder: "conformance",
        tree: folder().join("suite"),
        min_node: 22,
    };
    let Some(node) = packages.install()? else {
        return Ok(Installed::NoNpm);
    };
    let script = packages.package(SUITE).join("dist/index.js");
    if !script.is_file() {
        return Err(Failure::failed(
            format!("{SUITE} has no dist/index.js"),
            "remove target/conformance and start again; if it stays so, the package has changed its shape",
        ));
    }
    Ok(Installed::Suite(Suite {
        version: packages.version(SUITE)?,
        node,
        script,
    }))
}
