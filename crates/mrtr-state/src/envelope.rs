//! The envelope: claims around an application's data, sealed, bound and checked.

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use serde_json::value::RawValue;

use crate::claims::{self, Claims};
use crate::codec::{Kid, SealError, Sealer, Slot, StateCodec, Tag, WireState};
use crate::digest::RequestDigest;
use crate::ids::{Epoch, FlowId, Nonce};
use crate::principal::Principal;
use crate::purpose::Purpose;
use crate::random::{RandomError, random};
use crate::reason::Reason;
use crate::time::Timestamp;

/// Whom and what a state belongs to. A state opens for the binding that it was sealed for, and
/// for no other.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Binding {
    /// On whose behalf the request comes.
    pub principal: Principal,
    /// The originating request.
    pub request: RequestDigest,
}

/// Limits of an envelope. The defaults, with their reasons:
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Limits {
    /// The longest token, in bytes, in both directions: 32 KiB. A state comes back in a request,
    /// which has a limit of its own, and is worked on before it is known to be genuine. The
    /// sealer keeps to the same limit, so that no token is made which nobody can redeem.
    pub max_len: usize,
    /// How far ahead of this host's clock a token may have been issued: 60 seconds, enough for
    /// hosts that keep time at all. It never lengthens a life: [`Timestamp`]s are compared
    /// `now < exp` without it.
    pub skew: Duration,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            max_len: 32 * 1024,
            skew: Duration::from_secs(60),
        }
    }
}

/// Seals and opens the states of one purpose for one audience.
///
/// What [`open`](Envelope::open) returns was sealed under a key of the ring, for this purpose
/// and audience, this principal and this request, and its time is not over. **Not** guaranteed:
/// that it is presented for the first time. A state can be repeated until it expires; only a
/// record on the server's side can prevent that.
///
/// Cheap to clone; made once, not for every request.
///
/// ```
/// use std::time::Duration;
///
/// use mrtr_state::{
///     Binding, Draft, Envelope, KeyRing, Principal, Purpose, Reason, RequestDigest, Timestamp,
///     to_raw_value,
/// };
/// use mrtr_state_hmac::HmacCodec;
///
/// let codec = HmacCodec::new(KeyRing::generate()?)?;
/// let envelope = Envelope::new(&codec, Purpose::REQUEST_STATE, "https://server.example/mcp");
/// let request = |amount: &str| {
///     RequestDigest::builder("tools/call", "transfer").json("arguments", amount)
/// };
/// let binding = Binding {
///     principal: Principal::user("https://as.example", "user-a"),
///     request: request(r#"{"amount":100}"#)?.finish(),
/// };
///
/// let (now, ten_minutes) = (Timestamp::from_millis(1_800_000_000_000), Duration::from_secs(600));
/// let data = to_raw_value("what was asked")?;
/// let token = envelope.seal(&binding, &Draft::single(now, ten_minutes, &data)?)?;
///
/// let state = envelope.open(&token, &binding, now, ten_minutes, None)?;
/// assert_eq!(state.data().get(), r#""what was asked""#);
///
/// let changed = Binding { request: request(r#"{"amount":1000}"#)?.finish(), ..binding };
/// let rejected = envelope.open(&token, &changed, now, ten_minutes, None).unwrap_err();
/// assert_eq!(rejected.reason(), Reason::DifferentRequest);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct Envelope {
    sealer: Arc<dyn Sealer>,
    audience: Arc<str>,
    limits: Limits,
}

/// What goes into a state.
///
/// For a state of one round, such as a cookie, [`Draft::single`] fills in the rest.
#[derive(Clone, Copy)]
pub struct Draft<'a> {
    /// What makes this state different from every other. Draw it anew for each.
    pub nonce: Nonce,
    /// The flow that the state belongs to.
    pub flow: FlowId,
    /// When the flow ends: fixed when it opens. No state outlives it.
    pub flow_exp: Timestamp,
    /// Which round of the flow this is.
    pub round: u32,
    /// The replay ledger's epoch when the flow opened, where there is a ledger.
    pub epoch: Option<Epoch>,
    /// When the state expires: it is good while `now < exp`.
    pub exp: Timestamp,
    /// When the state is issued: now.
    pub iat: Timestamp,
    /// The application's own data. Readable by whoever holds the token, unless the codec
    /// encrypts.
    pub data: &'a RawValue,
}

impl<'a> Draft<'a> {
    /// A state that stands alone: a flow of its own that ends with it, round 1, no ledger.
    ///
    /// # Errors
    ///
    /// [`RandomError`] where the operating system gives no random bytes.
    pub fn single(
        now: Timestamp,
        lifetime: Duration,
        data: &'a RawValue,
    ) -> Result<Draft<'a>, RandomError> {
        let exp = now.saturating_add(lifetime);
        let [nonce, flow] = halves(random()?);
        Ok(Draft {
            nonce: Nonce::from_bytes(nonce),
            flow: FlowId::from_bytes(flow),
            flow_exp: exp,
            round: 1,
            epoch: None,
            exp,
            iat: now,
            data,
        })
    }
}

impl Envelope {
    /// An envelope for `purpose`, whose states name `audience` as the only server that may open
    /// them. The audience is that server's identity, the same on all its replicas; compared
    /// byte by byte.
    #[must_use]
    pub fn new(codec: &dyn StateCodec, purpose: Purpose, audience: impl Into<Arc<str>>) -> Self {
        Envelope {
            sealer: codec.sealer(&purpose),
            audience: audience.into(),
            limits: Limits::default(),
        }
    }

    /// The envelope with other limits.
    #[must_use]
    pub fn with_limits(self, limits: Limits) -> Self {
        Envelope { limits, ..self }
    }

    /// The limits that apply.
    #[must_use]
    pub const fn limits(&self) -> Limits {
        self.limits
    }

    /// The server that the states name.
    #[must_use]
    pub fn audience(&self) -> &str {
        &self.audience
    }

    /// Seals a draft for `binding`.
    ///
    /// # Errors
    ///
    /// [`SealError::Lifetime`] unless `iat < exp <= flow_exp`, [`SealError::TooLarge`] for a
    /// token above the limit, and the codec's own.
    pub fn seal(&self, binding: &Binding, draft: &Draft<'_>) -> Result<String, SealError> {
        if draft.exp <= draft.iat || draft.flow_exp < draft.exp {
            return Err(SealError::Lifetime);
        }
        let (sub, dig) = self
            .tags(self.sealer.kid(), binding)
            .ok_or(SealError::Codec)?;
        let claims = Claims {
            v: claims::VERSION,
            iat: draft.iat,
            exp: draft.exp,
            aud: Cow::Borrowed(&self.audience),
            sub,
            dig,
            nonce: draft.nonce,
            flow: draft.flow,
            flow_exp: draft.flow_exp,
            round: draft.round,
            epoch: draft.epoch,
            data: draft.data,
        };
        let token = self.sealer.seal(claims.to_json().as_bytes())?;
        if token.len() > self.limits.max_len {
            return Err(SealError::TooLarge {
                len: token.len(),
                limit: self.limits.max_len,
            });
        }
        Ok(token)
    }

    /// Opens a token from the wire and checks everything that can be checked without a ledger,
    /// in this order: size, shape, key, seal; claims, version, audience, epoch, times; principal;
    /// request. Nothing is parsed before the seal holds.
    ///
    /// `lifetime` is the longest that a state of this kind may live; one that was given a longer life has expired,
    /// so that a limit can be lowered while states are out. `epoch` is the ledger's, where there is one.
    ///
    /// # Errors
    ///
    /// [`Rejected`] with the first reason in that order. Of a state whose only fault is that it
    /// expired, [`Rejected::into_late`] gives what it held.
    pub fn open(
        &self,
        token: &str,
        binding: &Binding,
        now: Timestamp,
        lifetime: Duration,
        epoch: Option<Epoch>,
    ) -> Result<VerifiedState, Rejected> {
        if token.len() > self.limits.max_len {
            return Err(Reason::TooLarge.into());
        }
        let opened = self.sealer.open(WireState::new(token))?;
        let claims = Claims::from_json(&opened.payload).ok_or(Reason::Malformed)?;

        if claims.v != claims::VERSION {
            return Err(Reason::Malformed.into());
        }
        if *claims.aud != *self.audience {
            return Err(Reason::DifferentServer.into());
        }
        if claims.epoch != epoch {
            return Err(Reason::StaleEpoch.into());
        }
        if claims.iat > now.saturating_add(self.limits.skew) {
            return Err(Reason::NotYetValid.into());
        }
        if !(claims.iat < claims.exp && claims.exp <= claims.flow_exp) {
            return Err(Reason::Malformed.into());
        }
        // A life that is longer than is allowed is over: it was given under other rules, and what came of the state may
        // still be told.
        let too_long = claims.exp.saturating_since(claims.iat) > lifetime;
        let expired = too_long || claims.exp <= now;

        let (sub, dig) = self.tags(opened.kid, binding).ok_or(Reason::BadSignature)?;
        let binding_holds = if claims.sub != sub {
            Err(Reason::DifferentPrincipal)
        } else if claims.dig != dig {
            Err(Reason::DifferentRequest)
        } else {
            Ok(())
        };

        if expired {
            return Err(Rejected {
                reason: Reason::Expired,
                late: binding_holds
                    .is_ok()
                    .then(|| Box::new(LateState(Contents::of(&claims)))),
            });
        }
        binding_holds?;
        Ok(VerifiedState(Contents::of(&claims)))
    }

    /// The keyed tags of the binding's two halves; `None` for a kid out of the ring.
    fn tags(&self, kid: Kid, binding: &Binding) -> Option<(Tag, Tag)> {
        let principal = binding.principal.canonical_bytes();
        let request = binding.request.as_bytes();
        Some((
            self.sealer.tag(kid, Slot::Principal, &principal)?,
            self.sealer.tag(kid, Slot::Request, request)?,
        ))
    }
}

/// What a state held.
#[derive(Clone)]
struct Contents {
    nonce: Nonce,
    flow: FlowId,
    flow_exp: Timestamp,
    round: u32,
    iat: Timestamp,
    exp: Timestamp,
    epoch: Option<Epoch>,
    data: Box<RawValue>,
}

impl Contents {
    fn of(claims: &Claims<'_>) -> Contents {
        Contents {
            nonce: claims.nonce,
            flow: claims.flow,
            flow_exp: claims.flow_exp,
            round: claims.round,
            iat: claims.iat,
            exp: claims.exp,
            epoch: claims.epoch,
            data: claims.data.to_owned(),
        }
    }
}

/// A state that [`Envelope::open`] found genuine, in time and in place. There is no other way
/// to get one.
///
/// It may have been presented before. `Debug` leaves the data out.
#[derive(Clone)]
pub struct VerifiedState(Contents);

/// A state whose only fault is that its time is over.
///
/// It permits nothing. Its use is to look up what an earlier retry with it came to, so that a
/// late repetition of a lost response can be answered. `Debug` leaves the data out.
#[derive(Clone)]
pub struct LateState(Contents);

macro_rules! accessors {
    ($name:ident) => {
        impl $name {
            /// What makes this state different from every other.
            #[must_use]
            pub const fn nonce(&self) -> Nonce {
                self.0.nonce
            }

            /// The flow that it belongs to.
            #[must_use]
            pub const fn flow(&self) -> FlowId {
                self.0.flow
            }

            /// When the flow ends.
            #[must_use]
            pub const fn flow_exp(&self) -> Timestamp {
                self.0.flow_exp
            }

            /// Which round of the flow it belongs to.
            #[must_use]
            pub const fn round(&self) -> u32 {
                self.0.round
            }

            /// When it was issued.
            #[must_use]
            pub const fn iat(&self) -> Timestamp {
                self.0.iat
            }

            /// When it expires.
            #[must_use]
            pub const fn exp(&self) -> Timestamp {
                self.0.exp
            }

            /// The ledger's epoch when the flow opened, where there was a ledger.
            #[must_use]
            pub const fn epoch(&self) -> Option<Epoch> {
                self.0.epoch
            }

            /// The application's data, as it was sealed.
            #[must_use]
            pub fn data(&self) -> &RawValue {
                &self.0.data
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.debug_struct(stringify!($name))
                    .field("nonce", &self.0.nonce)
                    .field("flow", &self.0.flow)
                    .field("flow_exp", &self.0.flow_exp)
                    .field("round", &self.0.round)
                    .field("iat", &self.0.iat)
                    .field("exp", &self.0.exp)
                    .field("epoch", &self.0.epoch)
                    .finish_non_exhaustive()
            }
        }
    };
}

accessors!(VerifiedState);
accessors!(LateState);

/// A state was rejected.
#[derive(Debug, Clone, thiserror::Error)]
#[error("{reason}")]
pub struct Rejected {
    reason: Reason,
    late: Option<Box<LateState>>,
}

impl Rejected {
    /// Why.
    #[must_use]
    pub const fn reason(&self) -> Reason {
        self.reason
    }

    /// The state, where its only fault is that its time is over. How late is too late to look
    /// anything up is for the caller to say: see [`LateState::exp`].
    #[must_use]
    pub fn into_late(self) -> Option<LateState> {
        self.late.map(|late| *late)
    }
}

impl From<Reason> for Rejected {
    fn from(reason: Reason) -> Rejected {
        Rejected { reason, late: None }
    }
}

impl fmt::Debug for Draft<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Draft")
            .field("nonce", &self.nonce)
            .field("flow", &self.flow)
            .field("flow_exp", &self.flow_exp)
            .field("round", &self.round)
            .field("epoch", &self.epoch)
            .field("exp", &self.exp)
            .field("iat", &self.iat)
            .finish_non_exhaustive()
    }
}

/// One draw from the generator, cut in two.
fn halves(bytes: [u8; 32]) -> [[u8; 16]; 2] {
    let mut halves = [[0; 16]; 2];
    halves.as_flattened_mut().copy_from_slice(&bytes);
    halves
}
