//! The published example messages, read and written again.

mod examples;
