//! Cases 28 to 40: which keys and which variant open a state, on which server and for what.

use mrtr_server::{
    BuildError, Flow, Form, Principal, Server, StaticTokens, StoredCodec, prompt, resource, tool,
};
use mrtr_state::{Key, KeyRing};
use mrtr_state_aead::AeadCodec;
use mrtr_state_hmac::HmacCodec;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;

use super::fleet::Fleet;
use super::{Refusal, works};
use crate::bank::{Bank, Call, accept, codec};

const BAD_SIGNATURE: Refusal = Refusal::state("bad_signature");
const DIFFERENT_SERVER: Refusal = Refusal::state("different_server");
const DIFFERENT_REQUEST: Refusal = Refusal::state("different_request");

/// The first of these keys seals, all open. Key 1 is `K1`, key 2 is `K2`.
fn ring(numbers: &[u8]) -> KeyRing {
    let key = |number: u8| {
        let first = 32 * (number - 1);
        let bytes: Vec<u8> = (first..first + 32).collect();
        Key::from_bytes(&bytes).unwrap()
    };
    let (first, more) = numbers.split_first().unwrap();
    more.iter().fold(KeyRing::new(key(*first)), |ring, number| {
        ring.and_opens(key(*number)).unwrap()
    })
}

fn with_part(state: &str, at: usize, part: &str) -> String {
    let mut parts: Vec<&str> = state.split('.').collect();
    parts[at] = part;
    parts.join(".")
}

/// One key behind both, so that nothing but the codec tells their states apart.
#[tokio::test]
async fn case_028_the_token_does_not_choose_the_codec() {
    let fleet = Fleet::new();
    let sealed = fleet.instance(|builder| builder.codec(AeadCodec::new(ring(&[1])).unwrap()));
    let signed = fleet.instance(|builder| builder.codec(HmacCodec::new(ring(&[1])).unwrap()));
    for (ours, theirs) in [(&sealed, &signed), (&signed, &sealed)] {
        let (own, foreign) = (ours.open().await, theirs.open().await);
        let mut tries = vec![foreign.clone(), format!(".{own}"), own[6..].to_owned()];
        for state in [&own, &foreign] {
            for letter in ["h", "x", "H", "X", "n", "none", "hm1", "xc1", "v0", ""] {
                tries.push(with_part(state, 1, letter));
            }
            for version in ["mrtr0", "mrtr2", "MRTR1", "v0", "none", ""] {
                tries.push(with_part(state, 0, version));
            }
        }
        let own_parts: Vec<&str> = own.split('.').collect();
        let dressed = with_part(&foreign, 2, own_parts[2]);
        tries.push(with_part(&dressed, 1, own_parts[1]));
        tries.push(dressed);
        tries.retain(|state| *state != own);

        let before = (ours.effects.count(), ours.rows().await);
        for state in &tries {
            let reply = ours.send(&Call::retry(state)).await;
            assert!(
                matches!(reply.reason(), Some("malformed" | "bad_signature")),
                "{state}: {reply:?}"
            );
        }
        assert_eq!((ours.effects.count(), ours.rows().await), before);
        works("unchanged", ours, &own).await;
        works("where it belongs", theirs, &foreign).await;
    }
}

#[tokio::test]
async fn case_036_configured_keys_outlast_a_restart() {
    let fleet = Fleet::new();
    let state = fleet
        .instance(|builder| builder.codec(codec()))
        .open()
        .await;
    let restarted = fleet.instance(|builder| builder.codec(codec()));
    works("after a restart", &restarted, &state).await;

    // Keys that were drawn at the start are another instance's and gone with it.
    let drawn = || {
        let codec = HmacCodec::new(KeyRing::generate().unwrap()).unwrap();
        fleet.instance(|builder| builder.codec(codec))
    };
    let (one, other) = (drawn(), drawn());
    let state = one.open().await;
    BAD_SIGNATURE.check("another's", &other.send(&Call::retry(&state)).await);
    works("its own", &one, &state).await;
}

/// There are no keys by default, which would be a server's own and gone with it.
#[test]
fn case_036_a_server_without_keys_does_not_start() {
    let builder = || {
        Server::builder("s", "1")
            .audience("a")
            .allow_anonymous()
            .tool(tool("asks", asks))
    };
    let refused = builder().build().unwrap_err();
    assert!(matches!(&refused, BuildError::NoCodec { handler } if handler == "tool `asks`"));
    assert!(refused.to_string().contains(".codec(..)"), "{refused}");
    builder().codec(codec()).build().unwrap();
}

#[tokio::test]
async fn case_037_keys_rotate_in_three_phases() {
    let fleet = Fleet::new();
    let with = |numbers: &[u8]| {
        let codec = HmacCodec::new(ring(numbers)).unwrap();
        fleet.instance(|builder| builder.codec(codec))
    };
    let phases = [with(&[1]), with(&[1, 2]), with(&[2, 1]), with(&[2])];
    // While a phase is rolled out, some are in it and some in the one before; an honest flow goes from any to any.
    for pair in phases.windows(2) {
        for (starts, ends) in [(0, 0), (0, 1), (1, 0), (1, 1)] {
            let state = pair[starts].open().await;
            works("within two phases", &pair[ends], &state).await;
        }
    }
    let (old, new) = (&phases[1], &phases[3]);
    let state = old.open().await;
    BAD_SIGNATURE.check("its key has left", &new.send(&Call::retry(&state)).await);
    works("where it is still there", &phases[2], &state).await;

    // The wrong order: the new key seals before all can open it.
    let state = new.open().await;
    BAD_SIGNATURE.check("too early", &phases[0].send(&Call::retry(&state)).await);
    works("its own", new, &state).await;
}

/// In no notation: not as text, as a list, in hexadecimal or in base64.
fn assert_not_printed(printed: &str, secret: &[u8]) {
    let squeezed = printed.to_lowercase().replace([' ', '\n'], "");
    for four in secret.windows(4) {
        let hex: String = four.iter().map(|byte| format!("{byte:02x}")).collect();
        let list: String = four.iter().map(|byte| format!("{byte},")).collect();
        let text = String::from_utf8_lossy(four).to_lowercase();
        for notation in [hex, list, text] {
            assert!(!squeezed.contains(&notation), "{notation}: {printed}");
        }
    }
    let encoded = mrtr_state::token::encode(secret);
    assert!(!printed.contains(&encoded[..6]), "{printed}");
}

#[test]
fn case_039_nothing_that_prints_has_a_key() {
    // Bytes that stand out in every notation.
    let secret: Vec<u8> = (0..32).map(|n| 0xa0 ^ (n * 7)).collect();
    let ring = || KeyRing::new(Key::from_bytes(&secret).unwrap());
    let signs = || HmacCodec::new(ring()).unwrap();
    let encrypts = || AeadCodec::new(ring()).unwrap();
    let builder = || {
        let tokens = StaticTokens::new().token("tk-9xq7", Principal::Anonymous);
        let builder = Server::builder("s", "1")
            .audience("a")
            .authenticator(tokens);
        builder.tool(tool("asks", asks))
    };
    let twice = builder().codec(signs()).tool(tool("asks", asks));
    let printed = [
        format!("{:?} {:#?}", ring(), ring()),
        format!(
            "{:?} {:#?} {:?} {:#?}",
            signs(),
            signs(),
            encrypts(),
            encrypts()
        ),
        format!(
            "{:?} {:#?}",
            builder().codec(signs()),
            builder().codec(encrypts())
        ),
        format!("{:?}", StoredCodec::above(1 << 10, encrypts())),
        format!("{:?}", builder().codec(signs()).build().unwrap()),
        format!("{:#?}", builder().codec(encrypts()).build().unwrap()),
        format!("{twice:?}"),
        format!("{:?}", twice.build().unwrap_err()),
    ];
    for printed in printed {
        assert_not_printed(&printed, &secret);
        assert!(!printed.contains("tk-9xq7"), "{printed}");
    }
}

#[derive(Deserialize, JsonSchema)]
struct Confirm {
    ok: bool,
}

async fn asks(flow: Flow) -> String {
    let answer = flow.ask("confirm", Form::<Confirm>::new("Sure?")).await;
    format!("{:?}", answer.accepted().map(|confirm| confirm.ok))
}

#[tokio::test]
async fn case_040_a_state_of_another_server_with_the_same_keys() {
    let fleet = Fleet::new();
    let named = |audience: &'static str| fleet.instance(|builder| builder.audience(audience));
    let ours = named("https://bank.example/mcp");
    for audience in [
        "https://staging.bank.example/mcp",
        "https://bank.example/mcp/",
        "https://BANK.example/mcp",
        "http://bank.example/mcp",
        "",
    ] {
        let theirs = named(audience);
        for (of, at) in [(&theirs, &ours), (&ours, &theirs)] {
            let state = of.open().await;
            let rows = at.rows().await;
            DIFFERENT_SERVER.check(audience, &at.send(&Call::retry(&state)).await);
            assert_eq!(at.rows().await, rows, "{audience}: nothing was claimed");
            works(audience, of, &state).await;
        }
    }
}

/// One handler under one name: nothing but what was called tells the states apart.
#[tokio::test]
async fn case_040_a_state_of_another_tool_prompt_or_resource() {
    let bank = Bank::with(|builder| {
        builder
            .tool(tool("asks", asks))
            .tool(tool("asks2", asks))
            .prompt(prompt("asks", asks))
            .resource(resource("uri:asks", asks))
            .resource(resource("uri:asks2", asks))
    });
    let calls = [
        Call::of("asks", json!({})),
        Call::of("asks2", json!({})),
        Call::prompt("asks", json!({})),
        Call::resource("uri:asks"),
        Call::resource("uri:asks2"),
    ];
    for (of, first) in calls.iter().enumerate() {
        let state = bank.send(first).await.state().to_owned();
        let retry = |call: &Call| {
            let call = call.clone().id(2).state(&state);
            call.answer("confirm", accept(json!({ "ok": true })))
        };
        let rows = bank.rows().await;
        for (by, other) in calls.iter().enumerate().filter(|(by, _)| *by != of) {
            let name = format!("of {of}, by {by}");
            DIFFERENT_REQUEST.check(&name, &bank.send(&retry(other)).await);
        }
        assert_eq!(bank.rows().await, rows, "nothing was claimed");
        let done = bank.send(&retry(first)).await;
        assert!(done.body.to_string().contains("Some(true)"), "{done:?}");
    }
}
