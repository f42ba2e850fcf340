#![forbid(unsafe_code)]
//! Sealed state without an algorithm: what a server must remember, carried by somebody else.
//!
//! A server that keeps nothing between two requests hands what it must remember to its client
//! and gets it back as a string that anybody may have written. [`Envelope`] makes such strings
//! and reads them again: bound to a principal, to the request they belong to, to one server and
//! to a lifetime. How they are sealed is for a codec crate to say:
//!
//! * `mrtr-state-hmac`: whole, but **readable** by whoever holds the token;
//! * `mrtr-state-aead`: whole and private.
//!
//! Both seal cookies or an OAuth `state` parameter as well as the `requestState` of the Model
//! Context Protocol: their front pages show it.
//!
//! # What is guaranteed, and what is not
//!
//! A [`VerifiedState`] was sealed under a key of the ring for this purpose, audience, principal
//! and request, and `now < exp`. **It may have been presented before**: that a state is good
//! for one answer only takes a record on the server's side (`mrtr-ledger`). Nor does a state
//! say that a person agreed to anything: it says what the server wrote, and when.
//!
//! # Map
//!
//! | to | see |
//! |---|---|
//! | seal and open | [`Envelope`], [`Draft`], [`Binding`], [`VerifiedState`] |
//! | say on whose behalf, for which request | [`Principal`], [`RequestDigest`] |
//! | put data in | [`to_raw_value`] |
//! | answer for a rejection | [`Rejected`], [`Reason`], [`LateState`] |
//! | configure and rotate keys | [`Key`], [`KeyRing`] |
//! | tell the time, in tests too | [`Clock`], [`Timestamp`] |
//! | write a codec | [`StateCodec`], [`Sealer`], [`token`], [`codec_suite!`] |
//!
//! The layout of a token is drawn in [`token`], the claims in `claims.rs`, the canonical bytes
//! of a JSON text in `canonical.rs`. The specification asks for all this in "Multi Round-Trip
//! Requests", under the server's requirements: integrity, and that state is bound to principal,
//! time and request (basic/patterns/mrtr, revision 2026-07-28).
//!
//! # Limits, and why
//!
//! | limit | default | reason |
//! |---|---|---|
//! | token | 32 KiB, both ways | it is worked on before it is known to be genuine, and travels in a request that has a limit too |
//! | skew | 60 s | hosts that keep time at all are within it; it never lengthens a life |
//! | lifetime | none: you say | how long a question may stay open differs from tool to tool |
//! | nesting of JSON that is digested | 128 | as deep as `serde_json` reads |
//! | key | 32 bytes or more | fewer weaken HMAC-SHA256 (RFC 2104, section 3) |

mod canonical;
mod claims;
mod codec;
mod data;
mod digest;
mod envelope;
mod ids;
mod key;
mod principal;
mod purpose;
mod random;
mod reason;
pub mod suite;
mod time;
pub mod token;

pub use canonical::{DigestError, MAX_DEPTH, walk_json};
pub use codec::{Kid, Opened, SealError, Sealer, Slot, StateCodec, Tag, WireState};
pub use data::{DataError, to_raw_value};
pub use digest::{DigestBuilder, JsonDigest, RequestDigest};
pub use envelope::{Binding, Draft, Envelope, LateState, Limits, Rejected, VerifiedState};
pub use ids::{Epoch, FlowId, Nonce};
pub use key::{Key, KeyError, KeyRing};
pub use principal::{Principal, User};
pub use purpose::{Purpose, Variant};
pub use random::{RandomError, random};
pub use reason::{Consequence, Reason};
pub use time::{Clock, SystemClock, Timestamp};

/// JSON text, passed on as it is.
pub use serde_json::value::RawValue;

/// The README's code compiles.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
