//! `cargo xtask model`: builds the model of rounds and steps as fast as it can be, and hands over to it.

use std::process::{Command, Stdio};

use crate::cargo::{self, cargo};
use crate::failure::Failure;

/// The package that is the model.
const PACKAGE: &str = "model";

/// Runs it with the user's arguments; stdout is its own.
pub(crate) fn run(args: &[String]) -> Result<(), Failure> {
    let metadata = cargo::metadata(false)?;
    // Without optimisations it takes twenty times as long.
    let mut build = cargo(["build", "--quiet", "--release", "-p", PACKAGE]);
    build.stdout(Stdio::null());
    cargo::run(build, "mend what the compiler reports above")?;
    let name = format!("{PACKAGE}{}", std::env::consts::EXE_SUFFIX);
    let mut model = Command::new(cargo::target(&metadata)?.join("release").join(name));
    model.args(args).current_dir(cargo::root());
    cargo::without_run_variables(&mut model);
    cargo::hand_over(model)
}
