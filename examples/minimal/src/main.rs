//! Placeholder until the server exists.

fn main() {}
