//! `cargo xtask demo`: builds the example servers and hands over to the driver, `examples/demo`.

use std::process::{Command, Stdio};

use crate::cargo::{self, Member, cargo};
use crate::chaos;
use crate::failure::Failure;

/// The package that plays the cases.
const DRIVER: &str = "demo";

/// Builds what the demo needs and runs it with the user's arguments; stdout is the driver's alone.
pub(crate) fn run(args: &[String]) -> Result<(), Failure> {
    cargo::hand_over(prepare(args)?)
}

/// Builds the examples and returns the driver's command, ready to start.
pub(crate) fn prepare(args: &[String]) -> Result<Command, Failure> {
    let metadata = cargo::metadata(false)?;
    let packages = servers(&cargo::members(&metadata))?;

    eprintln!("building the example servers: {}", packages.join(", "));
    let mut build = cargo(["build"]);
    for package in &packages {
        build.args(["-p", package]);
    }
    // Cargo reports on stderr; whatever else a build might print must not reach the driver's stdout.
    build.stdout(Stdio::null());
    cargo::run(build, "mend what the compiler reports above")?;

    let target = cargo::target(&metadata)?;
    let binaries = target.join("debug");
    let mut driver =
        Command::new(binaries.join(format!("{DRIVER}{}", std::env::consts::EXE_SUFFIX)));
    driver
        .args(args)
        .arg("--bin-dir")
        .arg(&binaries)
        .current_dir(cargo::root());
    cargo::without_run_variables(&mut driver);
    Ok(driver)
}

/// The examples that are programs, the driver among them, but for the one that has a command of its own.
fn servers(members: &[Member]) -> Result<Vec<String>, Failure> {
    let packages: Vec<String> = members
        .iter()
        .filter(|member| member.folder.starts_with("examples/") && member.has_binary)
        .filter(|member| member.name != chaos::PACKAGE)
        .map(|member| member.name.clone())
        .collect();
    if packages.iter().any(|name| name == DRIVER) {
        Ok(packages)
    } else {
        Err(Failure::failed(
            format!("the workspace has no package `{DRIVER}` with a binary under examples/"),
            "the demo's driver belongs into examples/demo; is the checkout complete?",
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn member(name: &str, folder: &str, has_binary: bool) -> Member {
        Member {
            name: name.to_owned(),
            folder: folder.to_owned(),
            has_binary,
        }
    }

    #[test]
    fn examples_with_a_binary_are_built_and_the_driver_must_be_there() {
        let mut members = vec![
            member("mrtr-server", "crates/mrtr-server", false),
            member("xtask", "xtask", true),
            member("expenses", "examples/expenses", true),
            member("shared", "examples/shared", false),
            member("chaos", "examples/chaos", true),
            member("demo", "examples/demo", true),
        ];
        assert_eq!(servers(&members).unwrap(), ["expenses", "demo"]);

        members.pop();
        assert!(matches!(servers(&members), Err(Failure::Failed { .. })));
    }
}
