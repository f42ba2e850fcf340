//! Cases 18 to 64 that are about what is sealed, what of it is shown, and what becomes of a call whose state cannot be sealed.

use std::sync::Arc;
use std::time::Duration;

use mrtr_server::{
    Answer, DurableFlow, Flow, Form, InputRequired, Resumed, ServerBuilder, ToolError, Turn, tool,
};
use mrtr_state::{
    Key, KeyRing, Kid, Opened, Purpose, Reason, SealError, Sealer, Slot, StateCodec, Tag, Variant,
    WireState,
};
use mrtr_state_aead::AeadCodec;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::{Refusal, works};
use crate::bank::{Bank, Call, Reply, accept, codec};
use crate::log::Log;

const BAD_SIGNATURE: Refusal = Refusal::state("bad_signature");
const MALFORMED: Refusal = Refusal::state("malformed");

/// One rejection for each reason that a client can bring about, with the reason.
async fn every_rejection(bank: &Bank) -> Vec<(&'static str, Reply)> {
    let state = bank.open().await;
    let used = bank.open().await;
    works("the good path", bank, &used).await;
    let no = json!({ "action": "decline" });
    let mut unknown_kid: Vec<&str> = state.split('.').collect();
    unknown_kid[2] = "AAAAAAAAAAA";
    let calls = [
        ("malformed", Call::retry("hello")),
        ("malformed", Call::retry(&state).param("requestState", 7)),
        ("too_large", Call::retry(&"A".repeat(40_000))),
        (
            "bad_signature",
            Call::retry(&format!("{}AAAA", &state[..state.len() - 4])),
        ),
        ("bad_signature", Call::retry(&unknown_kid.join("."))),
        ("different_principal", Call::retry(&state).by("user-b")),
        ("different_principal", Call::retry(&used).by("user-b")),
        (
            "different_request",
            Call::retry(&state).argument("amount", 1),
        ),
        ("different_request", Call::retry(&state).named("two")),
        ("already_used", Call::retry(&used).answer("confirm", no)),
    ];
    let mut replies = Vec::new();
    for (reason, call) in calls {
        replies.push((reason, bank.send(&call).await));
    }
    let foreign = Bank::with(|builder| builder.audience("https://other.example"))
        .open()
        .await;
    replies.push(("different_server", bank.send(&Call::retry(&foreign)).await));
    bank.advance(Duration::from_secs(600));
    replies.push(("expired", bank.send(&Call::retry(&state)).await));
    bank.ledger.as_ref().unwrap().rotate_epoch().await.unwrap();
    replies.push(("stale_epoch", bank.send(&Call::retry(&state)).await));
    replies
}

#[tokio::test]
async fn case_018_opaque_rejections_are_the_same_to_the_byte() {
    let told = every_rejection(&Bank::new()).await;
    for (reason, reply) in &told {
        Refusal::state(reason).check(reason, reply);
    }
    let (log, _listening) = Log::listen();
    let opaque = every_rejection(&Bank::with(ServerBuilder::opaque_rejections)).await;
    assert_eq!(opaque.len(), told.len());
    for (reason, reply) in &opaque {
        Refusal::params().check(reason, reply);
        assert_eq!(reply.body, opaque[0].1.body, "{reason}");
        assert_eq!(
            (reply.status, reply.headers.get("content-type")),
            (opaque[0].1.status, opaque[0].1.headers.get("content-type")),
            "{reason}"
        );
        assert!(!reply.body.to_string().contains(reason), "{reply:?}");
        assert!(log.text().contains(reason), "the log says {reason}");
    }
    for secret in ["acct-7", "user-a", "user-b", "mrtr1."] {
        assert!(!log.text().contains(secret), "{secret} is in the log");
    }
}

#[derive(Deserialize, Serialize, JsonSchema)]
struct Said {
    text: String,
}

/// Asks fifty times.
async fn talkative(flow: Flow) -> String {
    let mut heard = 0;
    for n in 0..50 {
        let question = Form::<Said>::new("And then?");
        if let Answer::Accept(said) = flow.ask(format!("q{n}"), question).await {
            heard += said.text.len();
        }
    }
    format!("heard {heard}")
}

/// Answers with a KiB each time: the lengths of the states, and what it came to.
async fn talk(bank: &Bank) -> (Vec<usize>, Reply) {
    let call = || Call::of("talkative", json!({}));
    let mut lengths = Vec::new();
    let mut reply = bank.send(&call()).await;
    while let Some(state) = reply.body["result"]["requestState"].as_str() {
        let said = accept(json!({ "text": "x".repeat(1 << 10) }));
        let retry = call()
            .id(2)
            .state(state)
            .answer(&format!("q{}", lengths.len()), said);
        lengths.push(state.len());
        reply = bank.send(&retry).await;
    }
    (lengths, reply)
}

#[tokio::test]
async fn case_023_a_state_grows_with_its_answers_and_no_faster() {
    let asking = |state: usize| {
        Bank::with(|builder| {
            builder.tool(tool("talkative", talkative)).limits(|limits| {
                limits.rounds = 60;
                limits.state = state;
            })
        })
    };
    // A KiB is 1,366 characters of base64; the rest of what a round adds is its key, its question's digest and punctuation.
    let (lengths, done) = talk(&asking(128 << 10)).await;
    assert_eq!((lengths.len(), done.text()), (50, "heard 51200"));
    for pair in lengths.windows(2) {
        let grown = pair[1] - pair[0];
        assert!(
            (1_366..1_666).contains(&grown),
            "{grown} a round: {lengths:?}"
        );
    }
    let limit = 32 << 10;
    let (lengths, stopped) = talk(&asking(limit)).await;
    assert!(lengths.iter().all(|length| *length <= limit), "{lengths:?}");
    assert!((20..25).contains(&lengths.len()), "{lengths:?}");
    let said = stopped.body.to_string();
    assert!(
        stopped.code() == Some(-32603) && said.contains("does not fit into a state"),
        "{said}"
    );
}

/// Hands out what it likes as its state.
async fn plain(resumed: Resumed) -> Result<Turn<String>, ToolError> {
    Ok(match resumed.state::<String>()? {
        Some(kept) => Turn::Complete(kept),
        None => InputRequired::new().state("plain").into(),
    })
}

#[tokio::test]
async fn case_042_a_state_by_hand_is_sealed_and_verified_like_others() {
    let call = || Call::of("by_hand", json!({}));
    let key = Key::from_bytes(&(0..32).collect::<Vec<u8>>()).unwrap();
    let aead = || AeadCodec::new(KeyRing::new(key.clone())).unwrap();
    let bank = Bank::with(|builder| builder.codec(aead()).tool(tool("by_hand", plain)));
    let text = bank.send_for_text(&call()).await;
    let plainly = mrtr_state::token::encode(b"plain");
    assert!(
        !text.contains("plain") && !text.contains(&plainly),
        "{text}"
    );
    let state = bank.send(&call()).await.state().to_owned();
    for forged in [
        "plain",
        "\"plain\"",
        &plainly,
        &format!("mrtr1.x.AAAAAAAAAAA.{plainly}"),
    ] {
        let reply = bank.send(&call().id(2).state(forged)).await;
        assert!(
            matches!(reply.reason(), Some("malformed" | "bad_signature")),
            "{forged}: {reply:?}"
        );
    }
    let mut bent = state.clone();
    bent.truncate(state.len() - 4);
    bent.push_str("AAAA");
    BAD_SIGNATURE.check("bent", &bank.send(&call().id(2).state(&bent)).await);
    MALFORMED.check("cut", &bank.send(&call().id(2).state(&state[..40])).await);
    let back = bank.send(&call().id(2).state(&state)).await;
    assert_eq!(back.text(), "plain", "given back once it holds");
}

/// Signs until it is told not to.
#[derive(Debug, Clone)]
struct Failing {
    codec: Arc<dyn StateCodec>,
    purpose: Purpose,
}

#[derive(Debug)]
struct FailingSealer(Arc<dyn Sealer>);

impl StateCodec for Failing {
    fn sealer(&self, purpose: &Purpose) -> Arc<dyn Sealer> {
        let sealer = self.codec.sealer(purpose);
        if *purpose == self.purpose {
            Arc::new(FailingSealer(sealer))
        } else {
            sealer
        }
    }

    fn keys_are_lasting(&self) -> bool {
        self.codec.keys_are_lasting()
    }
}

impl Sealer for FailingSealer {
    fn variant(&self) -> Variant {
        self.0.variant()
    }

    fn kid(&self) -> Kid {
        self.0.kid()
    }

    fn seal(&self, _: &[u8]) -> Result<String, SealError> {
        Err(SealError::Codec)
    }

    fn open(&self, token: WireState<'_>) -> Result<Opened, Reason> {
        self.0.open(token)
    }

    fn tag(&self, kid: Kid, slot: Slot, message: &[u8]) -> Option<Tag> {
        self.0.tag(kid, slot, message)
    }
}

#[tokio::test]
async fn case_049_no_seal_no_question() {
    let tools = |builder: ServerBuilder| builder.tool(tool("by_hand", plain));
    let bank = Bank::with(|builder| {
        tools(builder).codec(Failing {
            codec: Arc::new(codec()),
            purpose: Purpose::REQUEST_STATE,
        })
    });
    let sound = Bank::with(tools);
    for call in [
        Call::first(),
        Call::of("two", json!({})),
        Call::of("eager_once", json!({})),
        Call::of("by_hand", json!({})),
    ] {
        sound.send(&call).await.state();
        let text = bank.send_for_text(&call).await;
        assert!(text.contains("-32603"), "{text}");
        for word in ["requestState", "inputRequests", "input_required", "plain"] {
            assert!(!text.contains(word), "{word}: {text}");
        }
    }
    // What asks nothing needs no seal.
    assert_eq!(
        bank.send(&Call::of("plain", json!({}))).await.text(),
        "done"
    );
}

/// Keeps a number, in one way or another.
async fn keeps<const WAY: u8>(
    resumed: Resumed,
    flow: DurableFlow,
) -> Result<Turn<String>, ToolError> {
    #[derive(Serialize, Deserialize)]
    struct Quote {
        rate: f64,
    }
    let rate = [f64::NAN, f64::INFINITY, f64::NEG_INFINITY, 1.5][usize::from(WAY % 4)];
    if WAY < 4 {
        return Ok(match resumed.state::<Quote>()? {
            Some(quote) => Turn::Complete(quote.rate.to_string()),
            None => InputRequired::new().state(&Quote { rate }).into(),
        });
    }
    let kept = flow.memo("rate", async || rate).await;
    let _ = flow.ask("q", Form::<Said>::new("And then?")).await;
    Ok(Turn::Complete(kept.to_string()))
}

#[tokio::test]
async fn case_064_a_number_that_json_has_not_is_not_sealed_as_another() {
    let bank = Bank::with(|builder| {
        builder
            .tool(tool("0", keeps::<0>))
            .tool(tool("1", keeps::<1>))
            .tool(tool("2", keeps::<2>))
            .tool(tool("3", keeps::<3>))
            .tool(tool("4", keeps::<4>))
            .tool(tool("5", keeps::<5>))
            .tool(tool("6", keeps::<6>))
            .tool(tool("7", keeps::<7>))
    });
    let said = || accept(json!({ "text": "on" }));
    for good in ["3", "7"] {
        let call = || Call::of(good, json!({}));
        let asked = bank.send(&call()).await;
        let done = bank
            .send(&call().id(2).state(asked.state()).answer("q", said()))
            .await;
        assert_eq!(done.text(), "1.5");
    }
    for bad in ["0", "1", "2", "4", "5", "6"] {
        let text = bank.send_for_text(&Call::of(bad, json!({}))).await;
        assert!(text.contains("-32603"), "{bad}: {text}");
        assert!(
            !text.contains("requestState") && !text.contains("null"),
            "{bad}: {text}"
        );
    }
}
