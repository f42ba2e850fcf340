//! Why a state is rejected, and what the caller is told to do next.

/// Why a state is rejected.
///
/// [`as_str`](Reason::as_str) is the word for programs and logs, [`in_words`](Reason::in_words)
/// the words for a message, [`advice`](Reason::advice) what the caller should do next.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[non_exhaustive]
pub enum Reason {
    /// Not a token of the configured kind, or its claims are not what they must be.
    Malformed,
    /// Longer than the limit.
    TooLarge,
    /// The seal does not hold, or its key is unknown.
    BadSignature,
    /// Its time is over.
    Expired,
    /// From an earlier life of the replay ledger, or of another ledger.
    StaleEpoch,
    /// From the future, by more than the permitted skew.
    NotYetValid,
    /// Sealed by a server with another identity.
    DifferentServer,
    /// Sealed for another principal.
    DifferentPrincipal,
    /// Sealed for another request.
    DifferentRequest,
    /// Redeemed before, with another answer.
    AlreadyUsed,
    /// It names something that the server was to keep, and that is not there (any more), or not as it was.
    NotKept,
}

/// Whether an earlier retry with a rejected state may have had an effect that the caller did
/// not hear of.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Consequence {
    /// No replay ledger: nothing is remembered, and the advice is to start again.
    WithoutLedger,
    /// A replay ledger: an earlier retry may have taken effect, and a blind repetition could
    /// do it twice.
    WithLedger,
}

impl Reason {
    /// All reasons.
    pub const ALL: [Reason; 11] = [
        Reason::Malformed,
        Reason::TooLarge,
        Reason::BadSignature,
        Reason::Expired,
        Reason::StaleEpoch,
        Reason::NotYetValid,
        Reason::DifferentServer,
        Reason::DifferentPrincipal,
        Reason::DifferentRequest,
        Reason::AlreadyUsed,
        Reason::NotKept,
    ];

    /// The stable word, for `data.reason` and for logs.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Reason::Malformed => "malformed",
            Reason::TooLarge => "too_large",
            Reason::BadSignature => "bad_signature",
            Reason::Expired => "expired",
            Reason::StaleEpoch => "stale_epoch",
            Reason::NotYetValid => "not_yet_valid",
            Reason::DifferentServer => "different_server",
            Reason::DifferentPrincipal => "different_principal",
            Reason::DifferentRequest => "different_request",
            Reason::AlreadyUsed => "already_used",
            Reason::NotKept => "not_kept",
        }
    }

    /// The reason in words, to stand inside a sentence.
    #[must_use]
    pub const fn in_words(self) -> &'static str {
        match self {
            Reason::Malformed => "malformed state",
            Reason::TooLarge => "state too large",
            Reason::BadSignature => "bad signature",
            Reason::Expired => "expired",
            Reason::StaleEpoch => "from before the ledger was reset",
            Reason::NotYetValid => "not valid yet",
            Reason::DifferentServer => "issued by a different server",
            Reason::DifferentPrincipal => "issued to a different principal",
            Reason::DifferentRequest => "belongs to a different request",
            Reason::AlreadyUsed => "already used",
            Reason::NotKept => "what it stands for is not kept any more",
        }
    }

    /// What the caller should do next, as a sentence.
    ///
    /// Starting again is safe advice only where nothing can have happened yet. With a replay
    /// ledger, an expired state may be the repetition of a retry whose response was lost, and so may one whose rows are lost.
    ///
    /// ```
    /// use mrtr_state::{Consequence, Reason};
    ///
    /// let blind = Reason::Expired.advice(Consequence::WithoutLedger);
    /// assert_eq!(blind, "Start the request again without it.");
    /// assert_ne!(blind, Reason::Expired.advice(Consequence::WithLedger));
    /// ```
    #[must_use]
    pub const fn advice(self, consequence: Consequence) -> &'static str {
        match (self, consequence) {
            (Reason::AlreadyUsed, _) => {
                "The first answer stands. Start the request again only if it should happen a second time."
            }
            (Reason::Expired | Reason::StaleEpoch | Reason::NotKept, Consequence::WithLedger) => {
                "An earlier retry may have taken effect. Check before you start the request again."
            }
            _ => "Start the request again without it.",
        }
    }
}

impl std::fmt::Display for Reason {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.in_words())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_and_advice() {
        let again = "Start the request again without it.";
        let check =
            "An earlier retry may have taken effect. Check before you start the request again.";
        let stands = "The first answer stands. Start the request again only if it should happen a second time.";
        let table = [
            ("malformed", "malformed state", again, again),
            ("too_large", "state too large", again, again),
            ("bad_signature", "bad signature", again, again),
            ("expired", "expired", again, check),
            (
                "stale_epoch",
                "from before the ledger was reset",
                again,
                check,
            ),
            ("not_yet_valid", "not valid yet", again, again),
            (
                "different_server",
                "issued by a different server",
                again,
                again,
            ),
            (
                "different_principal",
                "issued to a different principal",
                again,
                again,
            ),
            (
                "different_request",
                "belongs to a different request",
                again,
                again,
            ),
            ("already_used", "already used", stands, stands),
            (
                "not_kept",
                "what it stands for is not kept any more",
                again,
                check,
            ),
        ];
        let actual = Reason::ALL.map(|reason| {
            (
                reason.as_str(),
                reason.in_words(),
                reason.advice(Consequence::WithoutLedger),
                reason.advice(Consequence::WithLedger),
            )
        });
        assert_eq!(actual, table);
        assert_eq!(Reason::Expired.to_string(), "expired");
    }
}
