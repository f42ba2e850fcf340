//! Sealed servers refuse every changed token; one that seals nothing does not.

use mrtr_state::{KeyRing, StateCodec};
use mrtr_state_aead::AeadCodec;
use mrtr_testkit::guards::UnsealedCodec;
use mrtr_testkit::{RawCall, tamper};
use serde_json::json;

use crate::bank::{Bank, hmac};

/// How many changed states of how many are accepted, and the good one beside them.
async fn accepted(codec: impl StateCodec) -> (usize, usize, Vec<String>) {
    let bank = Bank::with(codec, |server, _| server);
    let call = bank
        .harness
        .raw("charge_good")
        .arguments(json!({ "amount": 1 }));
    let asked = call.send().await;
    let retry: RawCall = call.accept("confirm", json!({ "ok": true }));
    let state = asked.expect_state();
    let good = retry.clone().state(state);
    assert_eq!(good.send().await.text(), Some("charged 1"));

    let (mut tried, mut taken) = (0, Vec::new());
    for tampered in tamper(state) {
        tried += 1;
        let reply = retry.clone().state(&tampered.token).send().await;
        match reply.reason() {
            Some("malformed" | "bad_signature") => {}
            _ => taken.push(format!("{tampered:?}: {reply:?}")),
        }
        bank.harness.forget_exchanges();
    }
    assert_eq!(good.send().await.text(), Some("charged 1"));
    (tried, bank.effects.count("charge"), taken)
}

#[tokio::test]
async fn case_267_sealed_states_survive_no_change() {
    for (tried, charges, taken) in [
        accepted(hmac()).await,
        accepted(AeadCodec::new(KeyRing::generate().unwrap()).unwrap()).await,
    ] {
        assert!(tried > 3_000, "{tried}");
        assert!(taken.is_empty(), "{taken:#?}");
        assert_eq!(charges, 2, "the good ones alone");
    }
}

#[tokio::test]
async fn a_codec_that_seals_nothing_is_found_out() {
    let (tried, charges, taken) = accepted(UnsealedCodec::new()).await;
    assert!(taken.len() > tried / 10, "{} of {tried}", taken.len());
    assert!(charges > 2);
    for how in ["padding behind", "a line feed inside", "segment 4 dropped"] {
        assert!(taken.iter().any(|one| one.contains(how)), "{how}");
    }
}
