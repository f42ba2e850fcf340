#![forbid(unsafe_code)]
//! Sealed state without an algorithm: codec contract, claims, bindings, request digest, clock,
//! rejections.

mod canonical;
mod claims;
mod codec;
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
pub use digest::{DigestBuilder, JsonDigest, RequestDigest};
pub use envelope::{Binding, Draft, Envelope, LateState, Limits, Rejected, VerifiedState};
pub use ids::{Epoch, FlowId, Nonce};
pub use key::{Key, KeyError, KeyRing};
pub use principal::{Principal, User};
pub use purpose::{Purpose, Variant};
pub use random::{RandomError, random};
pub use reason::{Consequence, Reason};
pub use time::{Clock, SystemClock, Timestamp};

/// Plain JSON text that is passed on as it is.
pub use serde_json::value::RawValue;
