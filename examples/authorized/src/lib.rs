#![forbid(unsafe_code)]
//! What `cargo run -p authorized` is made of: an authorization server of its own, for tests and study. **Never for
//! production**: its people and passwords stand in code, it keeps everything in memory, and it speaks plain HTTP on loopback.
//!
//! | module | what is in it |
//! |---|---|
//! | [`issuer`] | the authorization server: authorization code with PKCE, refresh, introspection, registration, keys |

pub mod issuer;
