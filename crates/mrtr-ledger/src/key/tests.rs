use proptest::prelude::*;

use super::*;

const AUDIENCE: &str = "https://pay.example/mcp";

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Made once with Python's `hashlib`, over length-prefixed label and parts. Rows of a running ledger have these names,
/// so they never change.
#[test]
fn names_are_what_they_were() {
    let exp = Timestamp::from_millis(42);
    let round = RowKey::round(AUDIENCE, &Nonce::from_bytes([7; 16]), exp);
    assert_eq!(
        hex(&round.hash),
        "874c4f08506b9135d8c59b2180fb04539802cd8a89bbb361127ef1f8cd737e90"
    );
    let step = RowKey::step(AUDIENCE, &FlowId::from_bytes([9; 16]), "charge", exp);
    assert_eq!(
        hex(&step.hash),
        "fb65de3d78643f50b712227d750c8aec7a06b05e00dd6cb1b7995f6ad88aec92"
    );
    let memo = RowKey::memo(AUDIENCE, &FlowId::from_bytes([9; 16]), "charge", exp);
    assert_eq!(
        hex(&memo.hash),
        "6c557af4a8d7eda9e6cd44f70a5cf6724117878d4e6dc592cd6196c8773944ef"
    );
    let journal = RowKey::journal(AUDIENCE, &Nonce::from_bytes([7; 16]), exp);
    assert_eq!(
        hex(&journal.hash),
        "e17ddddbd78209df86f46b908e4873ce6e9c6621ac96a6001dc9f4adf3165691"
    );
    for key in [round, step, memo, journal] {
        assert_eq!(key.expiry, exp);
    }
}

#[test]
fn every_part_of_a_name_counts() {
    let exp = Timestamp::from_millis(42);
    let (nonce, other_nonce) = (Nonce::from_bytes([1; 16]), Nonce::from_bytes([2; 16]));
    let (flow, other_flow) = (FlowId::from_bytes([1; 16]), FlowId::from_bytes([2; 16]));
    let names = [
        RowKey::round("a", &nonce, exp),
        RowKey::round("b", &nonce, exp),
        RowKey::round("a", &other_nonce, exp),
        RowKey::step("a", &flow, "s", exp),
        RowKey::step("b", &flow, "s", exp),
        RowKey::step("a", &other_flow, "s", exp),
        RowKey::step("a", &flow, "t", exp),
        RowKey::step("a", &flow, "", exp),
        RowKey::memo("a", &flow, "s", exp),
        RowKey::memo("b", &flow, "s", exp),
        RowKey::memo("a", &other_flow, "s", exp),
        RowKey::memo("a", &flow, "t", exp),
        RowKey::journal("a", &nonce, exp),
        RowKey::journal("b", &nonce, exp),
        RowKey::journal("a", &other_nonce, exp),
    ];
    let different: std::collections::BTreeSet<_> = names.iter().map(|name| name.hash).collect();
    assert_eq!(different.len(), names.len());
    assert_eq!(RowKey::round("a", &nonce, exp), names[0]);
}

#[test]
fn every_part_of_a_fingerprint_counts() {
    let request = |tool: &str| RequestDigest::builder("tools/call", tool).finish();
    let (nonce, other) = (Nonce::from_bytes([1; 16]), Nonce::from_bytes([2; 16]));
    let (ana, ben) = (Principal::user("i", "ana"), Principal::user("i", "ben"));
    let prints = [
        Fingerprint::round(&nonce, &ana, &request("pay"), &[0; 32]),
        Fingerprint::round(&other, &ana, &request("pay"), &[0; 32]),
        Fingerprint::round(&nonce, &ben, &request("pay"), &[0; 32]),
        Fingerprint::round(&nonce, &ana, &request("see"), &[0; 32]),
        Fingerprint::round(&nonce, &ana, &request("pay"), &[1; 32]),
        Fingerprint::step(&[0; 32], &ana, &request("pay"), "charge"),
        Fingerprint::step(&[1; 32], &ana, &request("pay"), "charge"),
        Fingerprint::step(&[0; 32], &ben, &request("pay"), "charge"),
        Fingerprint::step(&[0; 32], &ana, &request("see"), "charge"),
        Fingerprint::step(&[0; 32], &ana, &request("pay"), "refund"),
        Fingerprint::memo(&[0; 32], &ana, &request("pay"), "charge"),
        Fingerprint::memo(&[1; 32], &ana, &request("pay"), "charge"),
        Fingerprint::memo(&[0; 32], &ben, &request("pay"), "charge"),
        Fingerprint::memo(&[0; 32], &ana, &request("see"), "charge"),
        Fingerprint::memo(&[0; 32], &ana, &request("pay"), "refund"),
        Fingerprint::journal(&nonce, &ana, &request("pay")),
        Fingerprint::journal(&other, &ana, &request("pay")),
        Fingerprint::journal(&nonce, &ben, &request("pay")),
        Fingerprint::journal(&nonce, &ana, &request("see")),
    ];
    let different: std::collections::BTreeSet<_> =
        prints.iter().map(|print| *print.as_bytes()).collect();
    assert_eq!(different.len(), prints.len());
    assert_eq!(
        Fingerprint::round(&nonce, &ana, &request("pay"), &[0; 32]),
        prints[0]
    );
    assert_ne!(prints[0], prints[1]);
}

#[test]
fn accounts_tell_callers_apart() {
    let ana = Principal::user("i", "ana");
    let accounts = [
        Account::of(&ana),
        Account::of(&ana.clone().with_client("c")),
        Account::of(&Principal::Anonymous),
        Account::anonymous_at("192.0.2.1"),
        Account::anonymous_at("192.0.2.2"),
    ];
    let different: std::collections::BTreeSet<_> = accounts.iter().collect();
    assert_eq!(different.len(), accounts.len());
    assert_eq!(Account::of(&ana), accounts[0]);
}

#[test]
fn debug_does_not_leak() {
    let token = Token::from_bytes([0xab; 16]);
    let print = Fingerprint::from_bytes([0xcd; 32]);
    let key = RowKey {
        expiry: Timestamp::from_millis(42),
        hash: [0xef; 32],
    };
    assert_eq!(format!("{token:?} {print:?}"), "Token(..) Fingerprint(..)");
    assert_eq!(format!("{key:?}"), "RowKey(42 efefefef..)");
    let settled = crate::Claimed::Settled(b"SECRET-4711".to_vec());
    let found = crate::Found::Settled(b"SECRET-4711".to_vec());
    let settlement = crate::Settlement::Outcome(b"SECRET-4711".to_vec());
    let status = crate::rules::Status::Settled(b"SECRET-4711".to_vec());
    assert_eq!(
        format!("{settled:?} {found:?}"),
        "Settled(11 bytes) Settled(11 bytes)"
    );
    let kept = crate::Kept::Before(b"SECRET-4711".to_vec());
    let note = crate::Note::new(
        key,
        mrtr_state::Epoch::from_bytes([0; 16]),
        print,
        Account::from_bytes([0; 32]),
        b"SECRET-4711".to_vec(),
    );
    assert_eq!(
        format!("{note:?}"),
        "Note { key: RowKey(42 efefefef..), under_round: None, bytes: 11, .. }"
    );
    let conclusion = crate::Conclusion::Commit(b"SECRET-4711".to_vec());
    assert_eq!(
        format!("{kept:?} {conclusion:?}"),
        "Before(11 bytes) Commit(11 bytes)"
    );
    assert_eq!(
        format!("{settlement:?} {status:?}"),
        "Outcome(11 bytes) Settled(11 bytes)"
    );
}

#[test]
fn tokens_are_random_and_compare() {
    let tokens: Vec<Token> = (0..1_000).map(|_| Token::generate().unwrap()).collect();
    let different: std::collections::BTreeSet<_> =
        tokens.iter().map(|token| *token.as_bytes()).collect();
    assert_eq!(different.len(), tokens.len());
    assert_eq!(Token::from_bytes(*tokens[0].as_bytes()), tokens[0]);
    assert_ne!(tokens[0], tokens[1]);
}

proptest! {
    /// Parts are length-prefixed, so text cannot wander from one into the next.
    #[test]
    fn parts_do_not_run_together(parts in proptest::collection::vec(".{0,6}", 0..4), others in proptest::collection::vec(".{0,6}", 0..4)) {
        let of = |parts: &[String]| hash(b"label", &parts.iter().map(String::as_bytes).collect::<Vec<_>>());
        prop_assert_eq!(of(&parts) == of(&others), parts == others);
        prop_assert_ne!(of(&parts), hash(b"other label", &parts.iter().map(String::as_bytes).collect::<Vec<_>>()));
    }
}
