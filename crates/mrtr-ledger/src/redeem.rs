//! From a verified state to a redeemed one: the round's claim, as a type.

use std::fmt;
use std::time::Duration;

use mrtr_state::VerifiedState;

use crate::{Account, Claim, Claimed, Fingerprint, Ledger, LedgerError, Owner, RowKey, Token};

/// How often a claim that gets no word is made, with the same token. A ledger waits for its storage by itself, so more
/// would only keep the caller waiting.
const ATTEMPTS: u32 = 3;

/// What a round's claim needs besides the state.
#[derive(Clone, Debug)]
pub struct RoundClaim<'a> {
    /// The server's identity, as it was sealed.
    pub audience: &'a str,
    /// Of principal, request and answers: [`Fingerprint::round`].
    pub fingerprint: Fingerprint,
    /// Whose limits the round counts towards.
    pub account: Account,
    /// Drawn for this run. The caller keeps it to beat, settle and release with.
    pub token: Token,
    /// See [`Claim::lease`].
    pub lease: Duration,
    /// See [`Claim::run_again`].
    pub run_again: bool,
}

/// A state whose round this process owns: the right to run the body once.
///
/// It can only be had from [`redeem`], so a function that takes one runs after the claim or not at all. It is neither
/// `Clone` nor `Copy`. It does not promise that the round is *still* owned: its lease may lapse while it is held.
#[derive(Debug)]
pub struct RedeemedState {
    state: VerifiedState,
    owner: Owner,
}

impl RedeemedState {
    /// The verified state.
    #[must_use]
    pub fn state(&self) -> &VerifiedState {
        &self.state
    }

    /// The round's row and token: what its steps are claimed [under](Claim::under).
    #[must_use]
    pub fn owner(&self) -> Owner {
        self.owner
    }
}

/// What became of a redemption. See [`Claimed`].
#[non_exhaustive]
pub enum Redemption {
    /// Run it.
    Redeemed(RedeemedState),
    /// Another retry runs it.
    InProgress {
        /// When to ask again. A hint.
        retry_after: Duration,
    },
    /// It has run, with this outcome.
    Settled(Vec<u8>),
    /// The state was answered before, with another answer (`already_used`).
    Conflict,
    /// The outcome is unknown; nothing runs again.
    Abandoned,
    /// By the ledger's clock or mark the state has expired. A lookup tells whether it was answered before.
    Expired,
    /// The state's flow opened under another epoch, on another ledger, or without one.
    StaleEpoch,
    /// No room; retryable.
    Full,
}

// By hand: an outcome is what a tool answered, so its length is all that prints.
impl fmt::Debug for Redemption {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Redeemed(state) => f.debug_tuple("Redeemed").field(state).finish(),
            Self::InProgress { retry_after } => write!(f, "InProgress({retry_after:?})"),
            Self::Settled(outcome) => write!(f, "Settled({} bytes)", outcome.len()),
            Self::Conflict => f.write_str("Conflict"),
            Self::Abandoned => f.write_str("Abandoned"),
            Self::Expired => f.write_str("Expired"),
            Self::StaleEpoch => f.write_str("StaleEpoch"),
            Self::Full => f.write_str("Full"),
        }
    }
}

/// Claims the round of a verified state. To be called once everything else about the request holds, as the last step
/// before the body.
///
/// A claim that gets no word is repeated with the same token, which is safe: whichever attempt was recorded, they all
/// mean this run.
///
/// # Errors
/// No word at all. Nothing may run. The round may have been claimed by the last attempt, so release it with the same
/// token when the ledger speaks again; otherwise the retry is told *unknown* once the lease has lapsed.
pub async fn redeem(
    ledger: &dyn Ledger,
    state: VerifiedState,
    claim: RoundClaim<'_>,
) -> Result<Redemption, LedgerError> {
    let Some(epoch) = state.epoch() else {
        return Ok(Redemption::StaleEpoch);
    };
    let key = RowKey::round(claim.audience, &state.nonce(), state.exp());
    let RoundClaim {
        fingerprint,
        account,
        token,
        lease,
        run_again,
        ..
    } = claim;
    let claim = Claim {
        run_again,
        ..Claim::round(key, epoch, fingerprint, account, token, lease)
    };

    let mut attempt = 1;
    let claimed = loop {
        match ledger.claim(claim.clone()).await {
            Ok(claimed) => break claimed,
            Err(error) if error.is_final() || attempt == ATTEMPTS => return Err(error),
            Err(_) => attempt += 1,
        }
    };
    // An attempt without a word may have been granted; that another one is refused (the time is over by now, say) does not undo it.
    if attempt > 1 && claimed != Claimed::First {
        drop(ledger.release(key, token).await);
    }
    Ok(match claimed {
        Claimed::First => Redemption::Redeemed(RedeemedState {
            state,
            owner: Owner { key, token },
        }),
        Claimed::InProgress { retry_after } => Redemption::InProgress { retry_after },
        Claimed::Settled(outcome) => Redemption::Settled(outcome),
        Claimed::Conflict => Redemption::Conflict,
        // A round names no owner above it, so this does not come; if it does, nobody may run.
        Claimed::Abandoned | Claimed::StaleOwner => Redemption::Abandoned,
        Claimed::Expired => Redemption::Expired,
        Claimed::StaleEpoch => Redemption::StaleEpoch,
        Claimed::Full => Redemption::Full,
    })
}
