//! The boundary of both eras: sessions, questions on a call's own stream, and modern requests between them.

use std::sync::LazyLock;

use crate::play::{Eras, play};

/// A script of requests; see `script.rs`.
pub fn run(data: &[u8]) {
    LazyLock::force(&GOOD);
    play(data, Eras::Both);
}

/// The good path has its effect, so that a run in which nothing ever happens does not pass for one without findings.
static GOOD: LazyLock<()> = LazyLock::new(|| {
    let good = include_bytes!("../seeds/earlier/transfer");
    assert_eq!(play(good, Eras::Both), 1, "the good path");
});
