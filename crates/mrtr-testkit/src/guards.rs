//! The guards between an attacker and an effect, and an opt-out for each.
//!
//! A protection that was never seen missing may not be what protects. Everything here takes **one** guard off a server
//! and leaves the others on, so that a test can show that the attack which the guard stops then passes:
//!
//! | guard | stops | taken off by |
//! |---|---|---|
//! | [`Sealing`](Guard::Sealing) | a state that the client wrote or changed | [`UnsealedCodec`] as the codec |
//! | [`Principal`](Guard::Principal) | a state that was issued to somebody else | [`AnyPrincipal`] around the codec |
//! | [`Request`](Guard::Request) | a state of another request: other arguments, another tool | [`AnyRequest`] around the codec |
//! | [`Lifetime`](Guard::Lifetime) | a state whose time is over | [`StoppedClock`] as the clock of server and ledger |
//! | [`Question`](Guard::Question) | an answer to another question than the one that is asked | [`Dangerous::ignore_question_digest`](mrtr_server::Dangerous::ignore_question_digest) |
//! | [`Ledger`](Guard::Ledger) | a state that is answered twice, a step that runs twice | [`AlwaysFirst`] around the ledger |
//!
//! [`UncheckedCodec`] is beside them: a codec with real keys and real signatures that nobody checks.
//!
//! There is no builder call for any of them but the one in `dangerous()`: whoever wants to run without a guard has to
//! depend on this crate and write its name.

mod always_first;
mod any;
mod unchecked;
mod unsealed;

use std::fmt;
use std::str::FromStr;

pub use crate::clock::StoppedClock;
pub use always_first::AlwaysFirst;
pub use any::{AnyPrincipal, AnyRequest};
pub use unchecked::UncheckedCodec;
pub use unsealed::UnsealedCodec;

/// One thing that stands between an attacker and an effect. The [module](self) says what each stops.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Guard {
    /// What is in a state was written by the server.
    Sealing,
    /// A state is good for the principal that it was issued to.
    Principal,
    /// A state is good for the request that it was issued for.
    Request,
    /// A state is good until it expires.
    Lifetime,
    /// An accepted answer is good for the question that was put.
    Question,
    /// A state is good for one answer, and a step runs once.
    Ledger,
}

impl Guard {
    /// All guards.
    pub const ALL: [Guard; 6] = [
        Guard::Sealing,
        Guard::Principal,
        Guard::Request,
        Guard::Lifetime,
        Guard::Question,
        Guard::Ledger,
    ];

    /// Its name in tables and on command lines.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Guard::Sealing => "sealing",
            Guard::Principal => "principal",
            Guard::Request => "request",
            Guard::Lifetime => "lifetime",
            Guard::Question => "question",
            Guard::Ledger => "ledger",
        }
    }
}

impl fmt::Display for Guard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

/// No guard has this name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("no guard is called `{0}`: take sealing, principal, request, lifetime, question or ledger")]
pub struct UnknownGuard(String);

impl FromStr for Guard {
    type Err = UnknownGuard;

    fn from_str(name: &str) -> Result<Guard, UnknownGuard> {
        Guard::ALL
            .into_iter()
            .find(|guard| guard.as_str() == name)
            .ok_or_else(|| UnknownGuard(name.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_as_they_are_written() {
        for guard in Guard::ALL {
            assert_eq!(guard.to_string().parse(), Ok(guard));
        }
        let unknown = "Sealing".parse::<Guard>().unwrap_err();
        for guard in Guard::ALL {
            assert!(unknown.to_string().contains(guard.as_str()), "{guard}");
        }
    }
}
