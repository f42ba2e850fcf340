//! The client's side: credentials for [`mrtr_client::Client`] by the specification's authorization flow (`basic/authorization`).
//!
//! ```no_run
//! use mrtr_auth::client::{ApplicationType, LoopbackReceiver, OAuth, Registration};
//! use mrtr_client::Client;
//!
//! # fn example() -> Result<(), Box<dyn std::error::Error>> {
//! let browser = LoopbackReceiver::new(|url| {
//!     println!("Please open {url}");
//!     Ok(())
//! });
//! let server = "https://mcp.example/mcp";
//! let oauth = OAuth::for_user(server, browser)
//!     .client_id_document("https://app.example/client.json")
//!     .registration(Registration::new("My application", ApplicationType::Native))
//!     .build()?;
//! let client = Client::builder(server).credentials(oauth).build()?;
//! # Ok(())
//! # }
//! ```
//!
//! # What it never does
//!
//! * It never sends a token to another origin than the MCP server's, a refresh token or a code to another authorization server than the one that
//!   issued it, or a client's secret to another issuer than the one that it is for.
//! * It never goes on with metadata of another resource or issuer, without PKCE, over plain HTTP beyond this machine, or with a redirect whose
//!   `state` or `iss` is not the expected one.
//! * It never follows a redirect, and where the MCP server is at a public address it never asks a private one.
//! * It never asks twice for scopes that were asked for in vain, nor for another login when the server refuses the token of the last one.
//! * It prints no token, secret, code, key or state.
//!
//! # Map
//!
//! | file | what | specification |
//! |---|---|---|
//! | `oauth` | what is done before a request, and after 401 and 403 | Authorization; Scope Selection Strategy; Step-Up Authorization Flow |
//! | `discovery` | where the documents are, and which are believed | Authorization Server Discovery |
//! | `clients`, `identity` | which client this is, and how it proves it | Client Registration; RFC 7591, RFC 7523 |
//! | `code`, `agent`, `loopback` | a person agrees: PKCE, state, issuer; the browser | Authorization Flow Steps; Authorization Response Validation |
//! | `grant` | nobody is asked: client credentials, workloads, enterprise-managed authorization | the authorization extensions |
//! | `token`, `keys` | the token endpoint; DPoP | OAuth 2.1, section 3.2; RFC 9449 |
//! | `store`, `secret` | what is kept, by issuer | Authorization Server Binding; Token Theft |
//! | `fetch` | requests with bounds | security best practices, "Server-Side Request Forgery" |
//!
//! # Why these crates
//!
//! URLs and forms are [`url`]'s, HTTP is [`reqwest`]'s, and what is signed is signed by `jsonwebtoken` on `aws-lc-rs`, which TLS brings along
//! already. The crate `oauth2` is not used: its types cover the code and the refresh, which are the small part here, and not the `resource`
//! parameter, RFC 9207, `private_key_jwt`, DPoP with its nonces, or identity assertion grants; all of those would go around it by extra
//! parameters, and bounds on answers would be the HTTP client's all the same.

mod agent;
mod builder;
mod clients;
mod code;
mod discovery;
mod error;
mod fetch;
mod grant;
mod identity;
mod keys;
mod loopback;
mod oauth;
mod secret;
mod store;
mod token;

pub use agent::{AgentFuture, Redirection, UserAgent};
pub use builder::OAuthBuilder;
pub use error::{AuthError, Refusal, ResponseProblem, What};
pub use grant::{AssertionFuture, AssertionRequest, AssertionSource, EnterpriseManaged};
pub use identity::{ApplicationType, ClientIdentity, Registration};
pub use keys::{DpopKey, PrivateKey, SigningAlgorithm};
pub use loopback::LoopbackReceiver;
pub use oauth::OAuth;
pub use secret::Secret;
pub use store::{CredentialStore, MemoryStore, RegisteredClient, StoreFuture, Tokens};

/// Whatever went wrong on the host's side.
pub type BoxError = Box<dyn std::error::Error + Send + Sync>;
