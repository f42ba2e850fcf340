#![forbid(unsafe_code)]
//! Sealed state with HMAC-SHA256. **Everything inside is readable** by whoever holds the token;
//! nobody without the key can make one or change one.
//!
//! The one item is [`HmacCodec`]. Hand it to [`mrtr_state::Envelope`], which binds a state to a
//! principal, a request, a server and a lifetime; the layout of a token is drawn in `codec.rs`,
//! the derivation of keys in `derive.rs`.
//!
//! # A cookie
//!
//! The whole of it, without MCP: seal on login, open on every request. Readable means that the
//! browser's user sees the visit counter, which is fine; sealed means that they cannot set it.
//!
//! ```
//! use std::time::Duration;
//!
//! use mrtr_state::{
//!     Binding, Clock, Draft, Envelope, KeyRing, Principal, Purpose, RawValue, RequestDigest,
//!     SystemClock,
//! };
//! use mrtr_state_hmac::HmacCodec;
//!
//! const VISITS: Purpose = Purpose::application("visits cookie");
//! const A_DAY: Duration = Duration::from_secs(24 * 60 * 60);
//!
//! let codec = HmacCodec::new(KeyRing::generate()?)?; // in earnest: configured keys
//! let cookies = Envelope::new(&codec, VISITS, "https://shop.example");
//!
//! // Bound to the session's user, and to the cookie's name as the "request".
//! let binding = Binding {
//!     principal: Principal::user("https://shop.example", "user-a"),
//!     request: RequestDigest::builder("cookie", "visits").finish(),
//! };
//!
//! let now = SystemClock.now();
//! let data = RawValue::from_string(r#"{"visits":7}"#.to_owned())?;
//! let cookie = cookies.seal(&binding, &Draft::single(now, A_DAY, &data)?)?;
//!
//! let state = cookies.open(&cookie, &binding, now, A_DAY, None)?;
//! assert_eq!(state.data().get(), r#"{"visits":7}"#);
//!
//! // Somebody else's cookie, or one kept for too long:
//! let other = Binding { principal: Principal::user("https://shop.example", "user-b"), ..binding.clone() };
//! assert!(cookies.open(&cookie, &other, now, A_DAY, None).is_err());
//! assert!(cookies.open(&cookie, &binding, now.saturating_add(A_DAY), A_DAY, None).is_err());
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! A sealed cookie can be copied and presented again until it expires, as any cookie can.

mod codec;
mod derive;

pub use codec::HmacCodec;

/// The README's code compiles.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
