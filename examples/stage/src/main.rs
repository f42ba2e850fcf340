//! Prints the flags that every example server takes: `cargo run -p stage`.

use std::io::{self, Write};

fn main() -> io::Result<()> {
    io::stdout().write_all(stage::HELP.as_bytes())
}
