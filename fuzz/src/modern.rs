//! The whole boundary of the modern era, with a ledger behind it.

use std::sync::LazyLock;

use crate::play::{Eras, play};

/// A script of requests; see `script.rs`.
pub fn run(data: &[u8]) {
    LazyLock::force(&GOOD);
    play(data, Eras::Modern);
}

/// The good path has its effect, so that a run in which nothing ever happens does not pass for one without findings.
static GOOD: LazyLock<()> = LazyLock::new(|| {
    let good = include_bytes!("../seeds/modern/transfer");
    assert_eq!(play(good, Eras::Modern), 1, "the good path");
});
