//! Authorization of the Model Context Protocol over HTTP, for both sides.
//!
//! | Module | Feature | Specification (revision 2026-07-28) |
//! |---|---|---|
//! | [`metadata`] | | `basic/authorization/authorization-server-discovery`; RFC 9728, RFC 8414 |
//! | [`challenge`] | | `basic/authorization`, "Scope Challenge Handling"; RFC 9110, RFC 6750 |
//! | `server` | `server` | `basic/authorization`, "Token Handling" |
//! | `client` | `client` | `basic/authorization`, `basic/authorization/client-registration` |
//!
//! Nothing here is an authorization server. Tokens and secrets are in no `Debug`, error or log line.

pub mod challenge;
#[cfg(feature = "client")]
pub mod client;
pub mod metadata;
#[cfg(feature = "server")]
pub mod server;

pub use challenge::BearerChallenge;
pub use metadata::{AuthorizationServerMetadata, ProtectedResourceMetadata};
