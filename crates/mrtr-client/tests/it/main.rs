//! The client against servers that follow a script, over real HTTP and in process.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    reason = "helpers of tests panic"
)]

mod cache;
mod calls;
mod cases;
mod completion;
mod credentials;
mod earlier;
mod eras;
mod listen;
mod lists;
mod pages;
mod param_headers;
mod pending;
mod roots;
mod rounds;
mod rules;
mod sampling;
mod script;
mod stdio;
mod streaming;
mod targets;
mod wire;
