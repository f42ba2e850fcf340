//! Tests that every codec has to pass: this project's, and yours.
//!
//! [`codec_suite!`](crate::codec_suite) makes a `#[test]` of each function here. The functions
//! panic where the codec is at fault, as tests do; each proves that the untouched token opens
//! before it expects another to be refused.
//!
//! ```
//! mod my_codec {
//!     // use my_crate::MyCodec;
//!     # use mrtr_state_hmac::HmacCodec as MyCodec;
//!     mrtr_state::codec_suite!(|ring| MyCodec::new(ring).unwrap());
//! }
//! # fn main() {}
//! ```
//!
//! What the suite cannot see: whether the algorithm is a good one, whether comparisons take
//! constant time, whether keys are wiped.

#![expect(
    clippy::missing_panics_doc,
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::cast_possible_truncation,
    reason = "these are tests, and panic to say so"
)]

use std::sync::Arc;
use std::time::Duration;

use serde_json::value::RawValue;

use crate::codec::{Kid, Sealer, Slot, StateCodec, WireState};
use crate::digest::RequestDigest;
use crate::envelope::{Binding, Draft, Envelope, VerifiedState};
use crate::ids::{Epoch, FlowId, Nonce};
use crate::key::{Key, KeyRing};
use crate::principal::Principal;
use crate::purpose::Purpose;
use crate::reason::Reason;
use crate::time::Timestamp;
use crate::token;

mod claims;
mod envelope;
mod sealer;

pub use claims::*;
pub use envelope::*;
pub use sealer::*;

/// Makes a codec from a ring, for as many rings as a test needs.
pub type Make<'a> = &'a dyn Fn(KeyRing) -> Arc<dyn StateCodec>;

/// Turns a constructor into what the functions here take.
pub fn make<C: StateCodec>(
    construct: impl Fn(KeyRing) -> C,
) -> impl Fn(KeyRing) -> Arc<dyn StateCodec> {
    move |ring| Arc::new(construct(ring))
}

/// Makes a `#[test]` of each function of [`suite`](crate::suite), for the codec that the given
/// expression constructs from a [`KeyRing`](crate::KeyRing). Put it into a module of its own.
#[macro_export]
macro_rules! codec_suite {
    // The one list. What is done with it comes first.
    (@each $what:ident $($construct:expr)?) => {
        $crate::codec_suite! { @$what $($construct)?;
            opens_what_it_sealed,
            refuses_every_other_character,
            refuses_removed_doubled_and_swapped_characters,
            refuses_other_spellings,
            refuses_segments_of_other_lengths,
            refuses_a_wrong_seal_whatever_is_under_it,
            refuses_segments_of_two_tokens_mixed,
            refuses_other_versions_and_variants,
            refuses_other_keys,
            rotates_keys_in_three_phases,
            keeps_purposes_apart,
            keeps_tags_apart,
            survives_any_string,
            debug_does_not_leak_key,
            knows_whether_keys_last,
            gives_back_all_claims,
            keeps_states_through_a_rotation,
            refuses_changed_states,
            binds_the_principal,
            binds_the_request,
            binds_the_audience,
            binds_the_epoch,
            expires_to_the_millisecond,
            gives_a_late_state_only_where_all_else_holds,
            allows_for_skew,
            bounds_lifetimes,
            keeps_the_size_limit_in_both_directions,
            reads_claims_strictly,
            refuses_sealed_nonsense,
        }
    };
    (@tests $construct:expr; $($name:ident,)*) => {
        $(
            #[test]
            fn $name() {
                $crate::suite::$name(&$crate::suite::make($construct));
            }
        )*
    };
    (@table; $($name:ident,)*) => {
        &[$((stringify!($name), $name)),*]
    };
    ($construct:expr) => {
        $crate::codec_suite! { @each tests $construct }
    };
}

/// A function of this module.
pub type Test = fn(Make<'_>);

/// Every function of the suite with its name, for those who drive it otherwise than by
/// [`codec_suite!`](crate::codec_suite).
pub const ALL: &[(&str, Test)] = codec_suite! { @each table };

const PURPOSE: Purpose = Purpose::application("codec suite");
const AUDIENCE: &str = "https://server.example/mcp";
const T0: Timestamp = Timestamp::from_millis(1_800_000_000_000);
const LIFETIME: Duration = Duration::from_secs(600);

/// Bytes `first`, `first + 1` and so on.
fn key(first: u8) -> Key {
    let bytes: Vec<u8> = (0..32).map(|n| first.wrapping_add(n)).collect();
    Key::from_bytes(&bytes).unwrap()
}

fn ring(first: u8) -> KeyRing {
    KeyRing::new(key(first))
}

fn sealer(make: Make<'_>) -> Arc<dyn Sealer> {
    make(ring(0)).sealer(&PURPOSE)
}

fn opens(sealer: &dyn Sealer, token: &str, payload: &[u8]) {
    let opened = sealer.open(WireState::new(token));
    assert_eq!(
        opened.map(|opened| opened.payload).as_deref(),
        Ok(payload),
        "the untouched token must open"
    );
}

fn refuses(sealer: &dyn Sealer, token: &str) -> Reason {
    match sealer.open(WireState::new(token)) {
        Err(reason) => reason,
        Ok(_) => panic!("opened a token that was not sealed: {token:?}"),
    }
}

/// The token with another segment in place of number `index`.
fn with_segment(token: &str, index: usize, segment: &str) -> String {
    let mut segments: Vec<&str> = token.split('.').collect();
    segments[index] = segment;
    segments.join(".")
}

/// The first segment behind the kid: what is sealed, as it is or encrypted.
const PAYLOAD_SEGMENT: usize = 3;

/// The segments of a token that are not its prefix: kid and what follows.
fn encoded_segments(token: &str) -> impl Iterator<Item = (usize, &str)> {
    token.split('.').enumerate().skip(2)
}
