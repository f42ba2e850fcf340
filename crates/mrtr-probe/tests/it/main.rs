//! Integration tests.

mod bounds;
mod ours;
mod program;
mod sabotage;
mod weak;
