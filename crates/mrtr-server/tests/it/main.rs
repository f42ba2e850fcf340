//! The server from outside: whole HTTP requests in, whole HTTP responses out, no socket between.

#![allow(
    clippy::indexing_slicing,
    clippy::unwrap_used,
    clippy::missing_panics_doc,
    reason = "in a test, what panics has failed"
)]

mod abuse;
mod bank;
mod by_hand;
mod cases;
mod completion;
#[cfg(unix)]
mod crash;
mod durable;
mod earlier;
mod flow;
mod in_database;
mod listing;
mod lists;
mod log;
mod meta;
mod notices;
mod output;
mod pages;
mod param_headers;
mod repeat;
mod rules;
mod run_again;
mod scopes;
mod serve;
mod session;
mod stored;
mod streams;
mod subscriptions;
mod surfaces;
mod tap;
mod wire;
mod without_state;
