//! The project's own commands: `cargo xtask demo`, `test`, `tidy`, `ci`.

fn main() {}
