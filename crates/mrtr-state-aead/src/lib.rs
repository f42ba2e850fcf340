#![forbid(unsafe_code)]
//! Sealed state with XChaCha20-Poly1305: whoever lacks the key can neither read a token, nor
//! make one, nor change one.
//!
//! The one item is [`AeadCodec`]. Hand it to [`mrtr_state::Envelope`], which binds a state to a
//! principal, a request, a server and a lifetime; the layout of a token is drawn in `codec.rs`,
//! the derivation of keys in `derive.rs`.
//!
//! # An OAuth `state` parameter
//!
//! The whole of it, without MCP. The parameter travels through the authorization server and the
//! browser, so the PKCE verifier inside must not be readable.
//!
//! ```
//! use std::time::Duration;
//!
//! use mrtr_state::{
//!     Binding, Clock, Draft, Envelope, KeyRing, Principal, Purpose, RawValue, Reason,
//!     RequestDigest, SystemClock,
//! };
//! use mrtr_state_aead::AeadCodec;
//!
//! const LOGIN: Purpose = Purpose::application("oauth state");
//! const TEN_MINUTES: Duration = Duration::from_secs(600);
//!
//! let codec = AeadCodec::new(KeyRing::generate()?)?; // in earnest: configured keys
//! let states = Envelope::new(&codec, LOGIN, "https://app.example/callback");
//!
//! // The one who comes back must be the one who left: their pre-login session is the principal,
//! // the authorization server that they were sent to the request.
//! let binding = |session: &str, issuer| Binding {
//!     principal: Principal::user("https://app.example", session),
//!     request: RequestDigest::builder("authorize", issuer).finish(),
//! };
//!
//! let now = SystemClock.now();
//! let left = binding("session-1", "https://as.example");
//! let data = RawValue::from_string(r#"{"verifier":"dBjftJeZ4CVP","next":"/cart"}"#.to_owned())?;
//! let state = states.seal(&left, &Draft::single(now, TEN_MINUTES, &data)?)?;
//! assert!(state.bytes().all(|c| c.is_ascii_alphanumeric() || b"-_.".contains(&c))); // fits a URL
//!
//! let back = states.open(&state, &left, now, TEN_MINUTES, None)?;
//! assert_eq!(back.data().get(), data.get());
//!
//! // Planted in another browser; sent back by another authorization server:
//! let planted = states.open(&state, &binding("session-2", "https://as.example"), now, TEN_MINUTES, None);
//! assert_eq!(planted.unwrap_err().reason(), Reason::DifferentPrincipal);
//! let mixed_up = states.open(&state, &binding("session-1", "https://evil.example"), now, TEN_MINUTES, None);
//! assert_eq!(mixed_up.unwrap_err().reason(), Reason::DifferentRequest);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! One authorization code for one state is for the authorization server to enforce: until it
//! expires, the envelope opens a state as often as it is presented.

mod codec;
mod derive;

pub use codec::AeadCodec;

/// The README's code compiles.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
