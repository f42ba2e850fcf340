//! `cargo xtask chaos`: builds the driver, which is its own server too, and hands over to it.

use std::process::{Command, Stdio};

use crate::cargo::{self, cargo};
use crate::failure::Failure;

/// The package that makes the trouble and judges it.
pub(crate) const PACKAGE: &str = "chaos";

/// Runs it with the user's arguments; stdout is its own.
pub(crate) fn run(args: &[String]) -> Result<(), Failure> {
    cargo::hand_over(prepare(args)?)
}

/// Builds it and returns its command, ready to start.
fn prepare(args: &[String]) -> Result<Command, Failure> {
    let metadata = cargo::metadata(false)?;
    let mut build = cargo(["build", "--quiet", "-p", PACKAGE]);
    // Cargo reports on stderr; whatever else a build might print must not reach the driver's stdout.
    build.stdout(Stdio::null());
    cargo::run(build, "mend what the compiler reports above")?;
    let name = format!("{PACKAGE}{}", std::env::consts::EXE_SUFFIX);
    let mut driver = Command::new(cargo::target(&metadata)?.join("debug").join(name));
    driver.args(args).current_dir(cargo::root());
    cargo::without_run_variables(&mut driver);
    Ok(driver)
}
