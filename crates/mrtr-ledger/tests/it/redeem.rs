//! From a sealed state to a redeemed one.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use mrtr_ledger::suite::TestClock;
use mrtr_ledger::{
    Account, Claim, Claimed, Fingerprint, Found, Kept, Kind, Ledger, LedgerError, LedgerFuture,
    MemoryLedger, Note, Owner, Purged, Redemption, RoundClaim, RowKey, Rows, Settled, Settlement,
    Token, redeem,
};
use mrtr_state::{
    Binding, Draft, Envelope, Epoch, FlowId, KeyRing, Nonce, Principal, Purpose, RawValue,
    RequestDigest, Timestamp, VerifiedState,
};
use mrtr_state_hmac::HmacCodec;

const AUDIENCE: &str = "https://pay.example/mcp";
const NOW: Timestamp = Timestamp::from_millis(1_700_000_000_000);
const EXP: Timestamp = Timestamp::from_millis(1_700_000_600_000);

/// A state that went out and came back.
fn state(nonce: Nonce, epoch: Option<Epoch>) -> VerifiedState {
    let codec = HmacCodec::new(KeyRing::generate().unwrap()).unwrap();
    let envelope = Envelope::new(&codec, Purpose::REQUEST_STATE, AUDIENCE);
    let request = RequestDigest::builder("tools/call", "pay").finish();
    let binding = Binding {
        principal: Principal::user("i", "ana"),
        request,
    };
    let data = RawValue::from_string("{}".to_owned()).unwrap();
    let flow = FlowId::from_bytes([1; 16]);
    let draft = Draft {
        nonce,
        flow,
        flow_exp: EXP,
        round: 1,
        epoch,
        exp: EXP,
        iat: NOW,
        data: &data,
    };
    let token = envelope.seal(&binding, &draft).unwrap();
    envelope
        .open(&token, &binding, NOW, Duration::from_secs(600), epoch)
        .unwrap()
}

fn answers(which: u8) -> RoundClaim<'static> {
    RoundClaim {
        audience: AUDIENCE,
        fingerprint: Fingerprint::from_bytes([which; 32]),
        account: Account::of(&Principal::user("i", "ana")),
        token: Token::generate().unwrap(),
        lease: Duration::from_secs(30),
        run_again: false,
    }
}

fn memory() -> MemoryLedger {
    MemoryLedger::new(Arc::new(TestClock::at(NOW.as_millis()))).unwrap()
}

#[tokio::test]
async fn one_state_is_redeemed_once() {
    let ledger = memory();
    let epoch = Some(ledger.epoch().await.unwrap());
    let nonce = Nonce::from_bytes([5; 16]);
    let claim = answers(1);
    let token = claim.token;
    let redemption = redeem(&ledger, state(nonce, epoch), claim).await.unwrap();
    let Redemption::Redeemed(redeemed) = redemption else {
        panic!("{redemption:?}")
    };
    let owner = redeemed.owner();
    assert_eq!(
        (owner.key, owner.token),
        (RowKey::round(AUDIENCE, &nonce, EXP), token)
    );
    assert_eq!(redeemed.state().nonce(), nonce);

    let again = |which| redeem(&ledger, state(nonce, epoch), answers(which));
    assert!(matches!(
        again(1).await.unwrap(),
        Redemption::InProgress { .. }
    ));
    assert!(matches!(again(2).await.unwrap(), Redemption::Conflict));
    let settlement = Settlement::Outcome(b"SECRET-4711".to_vec());
    assert_eq!(
        ledger
            .settle(owner.key, owner.token, settlement)
            .await
            .unwrap(),
        Settled::Stored
    );
    let Redemption::Settled(outcome) = again(1).await.unwrap() else {
        panic!("it is settled")
    };
    assert_eq!(outcome, b"SECRET-4711");
    assert_eq!(
        format!("{:?}", again(1).await.unwrap()),
        "Settled(11 bytes)"
    );

    // Another state of the same flow is another round.
    let other = redeem(
        &ledger,
        state(Nonce::from_bytes([6; 16]), epoch),
        answers(1),
    )
    .await
    .unwrap();
    assert!(matches!(other, Redemption::Redeemed(_)));
}

/// Whether a lost round runs again is said with the redemption, and nowhere else.
#[tokio::test]
async fn a_lost_round_is_redeemed_again_where_that_was_said() {
    let ledger = memory();
    let epoch = Some(ledger.epoch().await.unwrap());
    let nonce = Nonce::from_bytes([5; 16]);
    let redeemed = |run_again| {
        let claim = RoundClaim {
            run_again,
            ..answers(1)
        };
        redeem(&ledger, state(nonce, epoch), claim)
    };
    let Redemption::Redeemed(first) = redeemed(false).await.unwrap() else {
        panic!("it is the first")
    };
    let Owner { key, token } = first.owner();
    let cut_off = ledger.settle(key, token, Settlement::Abandoned).await;
    assert_eq!(cut_off.unwrap(), Settled::Stored);
    assert!(matches!(
        redeemed(false).await.unwrap(),
        Redemption::Abandoned
    ));
    assert!(matches!(
        redeemed(true).await.unwrap(),
        Redemption::Redeemed(_)
    ));
}

#[tokio::test]
async fn a_state_without_this_ledgers_epoch_is_stale() {
    let ledger = memory();
    let nonce = Nonce::from_bytes([5; 16]);
    for epoch in [None, Some(Epoch::from_bytes([0; 16]))] {
        let redemption = redeem(&ledger, state(nonce, epoch), answers(1))
            .await
            .unwrap();
        assert!(matches!(redemption, Redemption::StaleEpoch));
    }
    assert_eq!(ledger.rows().await.unwrap(), Rows::default());
    let epoch = Some(ledger.epoch().await.unwrap());
    let redemption = redeem(&ledger, state(nonce, epoch), answers(1))
        .await
        .unwrap();
    assert!(matches!(redemption, Redemption::Redeemed(_)));
}

/// A ledger whose answers are lost: the claim is recorded, or not, and there is no word.
#[derive(Debug)]
struct Lossy {
    inner: MemoryLedger,
    /// For each claim: no word before it is recorded, or after; then words.
    losses: Mutex<VecDeque<Loss>>,
    tokens: Mutex<Vec<Token>>,
}

#[derive(Debug, Clone, Copy)]
enum Loss {
    Before,
    After,
    Closed,
}

impl Ledger for Lossy {
    fn claim(&self, claim: Claim) -> LedgerFuture<'_, Claimed> {
        Box::pin(async move {
            self.tokens.lock().unwrap().push(claim.token);
            let loss = self.losses.lock().unwrap().pop_front();
            match loss {
                None => self.inner.claim(claim).await,
                Some(Loss::Before) => Err(LedgerError::Busy),
                Some(Loss::After) => {
                    self.inner.claim(claim).await?;
                    Err(LedgerError::Vanished)
                }
                Some(Loss::Closed) => Err(LedgerError::Closed),
            }
        })
    }

    fn settle(
        &self,
        key: RowKey,
        token: Token,
        settlement: Settlement,
    ) -> LedgerFuture<'_, Settled> {
        self.inner.settle(key, token, settlement)
    }

    fn beat(&self, key: RowKey, token: Token, lease: Duration) -> LedgerFuture<'_, bool> {
        self.inner.beat(key, token, lease)
    }

    fn release(&self, key: RowKey, token: Token) -> LedgerFuture<'_, bool> {
        self.inner.release(key, token)
    }

    fn keep(&self, note: Note) -> LedgerFuture<'_, Kept> {
        self.inner.keep(note)
    }

    fn lookup(&self, kind: Kind, key: RowKey, fingerprint: Fingerprint) -> LedgerFuture<'_, Found> {
        self.inner.lookup(kind, key, fingerprint)
    }

    fn purge(&self) -> LedgerFuture<'_, Purged> {
        self.inner.purge()
    }

    fn epoch(&self) -> LedgerFuture<'_, Epoch> {
        self.inner.epoch()
    }

    fn rotate_epoch(&self) -> LedgerFuture<'_, Epoch> {
        self.inner.rotate_epoch()
    }

    fn rows(&self) -> LedgerFuture<'_, Rows> {
        self.inner.rows()
    }

    fn survives_restart(&self) -> bool {
        false
    }

    fn as_any(&self) -> &dyn std::any::Any {
        self
    }
}

async fn redeemed_through(
    losses: &[Loss],
) -> (Result<Redemption, LedgerError>, Vec<Token>, Token, Rows) {
    let losses = Mutex::new(losses.iter().copied().collect());
    let ledger = Lossy {
        inner: memory(),
        losses,
        tokens: Mutex::default(),
    };
    let epoch = Some(ledger.epoch().await.unwrap());
    let claim = answers(1);
    let token = claim.token;
    let redemption = redeem(&ledger, state(Nonce::from_bytes([5; 16]), epoch), claim).await;
    let tokens = ledger.tokens.lock().unwrap().clone();
    (redemption, tokens, token, ledger.rows().await.unwrap())
}

/// An answer that was lost is asked for again with the same token, whether or not the claim was recorded.
#[tokio::test]
async fn a_lost_answer_is_asked_for_again() {
    for losses in [
        &[][..],
        &[Loss::Before],
        &[Loss::After],
        &[Loss::After, Loss::Before],
        &[Loss::After, Loss::After],
    ] {
        let (redemption, tokens, token, rows) = redeemed_through(losses).await;
        assert!(
            matches!(redemption, Ok(Redemption::Redeemed(_))),
            "{losses:?}: {redemption:?}"
        );
        assert_eq!(tokens, vec![token; losses.len() + 1]);
        assert_eq!(rows.rounds, 1);
    }
}

/// No word at all is an error, and never a redemption.
#[tokio::test]
async fn no_word_redeems_nothing() {
    let (redemption, tokens, ..) = redeemed_through(&[Loss::Before; 3]).await;
    assert!(matches!(redemption, Err(LedgerError::Busy)));
    assert_eq!(tokens.len(), 3);
    let (redemption, ..) = redeemed_through(&[Loss::After; 3]).await;
    assert!(matches!(redemption, Err(LedgerError::Vanished)));
    // A ledger that has shut down does not come back.
    let (redemption, tokens, ..) = redeemed_through(&[Loss::Closed; 3]).await;
    assert!(matches!(redemption, Err(LedgerError::Closed)));
    assert_eq!(tokens.len(), 1);
}
