#![forbid(unsafe_code)]
//! The replay ledger in one SQLite file: durable, fail closed, shared by processes
