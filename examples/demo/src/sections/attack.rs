//! The attacks: one state of a tool that asks, presented by somebody who should not, or changed.

use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use mrtr_testkit::guards::Guard;
use serde_json::{Value, json};

use super::confirmed;
use super::ticket::{charged, forge};
use crate::Fault;
use crate::board::{Case, Governed};
use crate::servers::{Server, Stage};
use crate::wire::Answer;

const SECTION: &str = "attack";
const TOOL: &str = "buy_ticket";

/// A server of this codec that has asked; its state is the prey.
struct Prey {
    server: Server,
    state: String,
}

fn two() -> Value {
    json!({ "quantity": 2 })
}

impl Prey {
    async fn hunt(stage: &Stage, codec: &'static str) -> Result<Self, Fault> {
        Self::with(stage, codec, None).await
    }

    async fn with(
        stage: &Stage,
        codec: &'static str,
        lifetime: Option<Duration>,
    ) -> Result<Self, Fault> {
        let mut plan = stage.plan("tickets")?.flag("--codec", codec);
        if let Some(lifetime) = lifetime {
            plan = plan.flag("--lifetime", lifetime.as_millis().to_string());
        }
        let server = stage.start(&plan).await?;
        let state = server.wire().call(TOOL, &two()).await?.state()?.to_owned();
        Ok(Self { server, state })
    }

    /// Presents a state with everything else as it was.
    async fn present(&self, state: &str) -> Result<Answer, Fault> {
        self.server
            .wire()
            .retry(TOOL, &two(), &confirmed(), state)
            .await
    }

    /// What was answered; a refusal must have charged nothing, and an acceptance must have charged.
    fn outcome(&self, answer: &Answer) -> Result<String, Fault> {
        let (words, charged) = (answer.in_words(), charged(&self.server)?);
        let consistent = (words == "accepted") != (charged == "charged nothing");
        Ok(if consistent {
            words
        } else {
            format!("{words}, but {charged}")
        })
    }

    /// The segment that holds claims or ciphertext, and where it begins.
    fn payload(&self) -> Result<(usize, &str), Fault> {
        let prefix: usize = self
            .state
            .split('.')
            .take(3)
            .map(|segment| segment.len() + 1)
            .sum();
        let payload = self
            .state
            .get(prefix..)
            .and_then(|rest| rest.split('.').next());
        Ok((
            prefix,
            payload.ok_or_else(|| Fault("the state has no payload".into()))?,
        ))
    }

    fn with_byte(&self, at: usize, byte: u8) -> Result<String, Fault> {
        let mut bytes = self.state.clone().into_bytes();
        *bytes
            .get_mut(at)
            .ok_or_else(|| Fault("the state is too short".into()))? = byte;
        Ok(String::from_utf8(bytes)?)
    }

    /// One character in the middle of the payload changed to another of the alphabet: still canonical.
    fn one_character_changed(&self) -> Result<String, Fault> {
        let (start, payload) = self.payload()?;
        let at = start + payload.len() / 2;
        let other = if self.state.as_bytes().get(at) == Some(&b'A') {
            b'B'
        } else {
            b'A'
        };
        self.with_byte(at, other)
    }

    /// Other texts that a careless decoder reads as the same bytes.
    fn other_spellings(&self) -> Result<Vec<String>, Fault> {
        let mut spellings = vec![
            format!("{}=", self.state),
            format!("{}\n", self.state),
            format!("{} ", self.state),
        ];
        // The last character carries unused bits, unless its segment is a multiple of three bytes long.
        let segment = self.state.rsplit('.').next().unwrap_or_default();
        let bytes = URL_SAFE_NO_PAD.decode(segment)?;
        if bytes.len() % 3 != 0 {
            let last = self.state.len() - 1;
            let next = self
                .state
                .as_bytes()
                .get(last)
                .map_or(b'B', |byte| if *byte == b'9' { b'-' } else { byte + 1 });
            spellings.push(self.with_byte(last, next)?);
        }
        let other_alphabet = self.state.replace('-', "+").replace('_', "/");
        if other_alphabet != self.state {
            spellings.push(other_alphabet);
        }
        Ok(spellings)
    }
}

pub(crate) fn cases() -> Vec<Case> {
    [("HMAC", "hmac"), ("AEAD", "aead")]
        .into_iter()
        .flat_map(|(name, codec)| of_codec(name, codec))
        .collect()
}

fn of_codec(name: &'static str, codec: &'static str) -> Vec<Case> {
    let named = |case: &str| format!("{name}: {case}");
    let inside = if codec == "hmac" {
        "claims"
    } else {
        "ciphertext"
    };
    let mut cases = vec![
        Case::new(
            SECTION,
            named("untouched"),
            "accepted",
            Governed::Not("the honest retry"),
            move |stage| async move {
                let prey = Prey::hunt(&stage, codec).await?;
                prey.outcome(&prey.present(&prey.state).await?)
            },
        ),
        Case::new(
            SECTION,
            named(&format!(
                "one character inside the {inside} changed, still canonical"
            )),
            "bad signature",
            Governed::By(Guard::Sealing),
            move |stage| async move {
                let prey = Prey::hunt(&stage, codec).await?;
                let forged = prey.one_character_changed()?;
                prey.outcome(&prey.present(&forged).await?)
            },
        ),
        Case::new(
            SECTION,
            named("by another principal"),
            "issued to a different principal",
            Governed::By(Guard::Principal),
            move |stage| async move {
                let prey = Prey::hunt(&stage, codec).await?;
                let bob = prey.server.wire().by("bob-token");
                prey.outcome(&bob.retry(TOOL, &two(), &confirmed(), &prey.state).await?)
            },
        ),
        Case::new(
            SECTION,
            named("quantity 2 became 20"),
            "belongs to a different request",
            Governed::By(Guard::Request),
            move |stage| async move {
                let prey = Prey::hunt(&stage, codec).await?;
                let twenty = json!({ "quantity": 20 });
                let mut answer = prey
                    .server
                    .wire()
                    .retry(TOOL, &twenty, &confirmed(), &prey.state)
                    .await?;
                if answer.asks() {
                    // The question names the quantity, so a server without the guard asks again, of whoever is there.
                    let state = answer.state()?.to_owned();
                    answer = prey
                        .server
                        .wire()
                        .retry(TOOL, &twenty, &confirmed(), &state)
                        .await?;
                }
                prey.outcome(&answer)
            },
        ),
        Case::new(
            SECTION,
            named("after its lifetime of 1 s"),
            "expired",
            Governed::By(Guard::Lifetime),
            move |stage| async move {
                let prey = Prey::with(&stage, codec, Some(Duration::from_secs(1))).await?;
                tokio::time::sleep(Duration::from_millis(1_100)).await;
                prey.outcome(&prey.present(&prey.state).await?)
            },
        ),
        Case::new(
            SECTION,
            named("sealed with another key"),
            "bad signature",
            Governed::By(Guard::Sealing),
            move |stage| async move {
                let (prey, other) = (
                    Prey::hunt(&stage, codec).await?,
                    Prey::hunt(&stage, codec).await?,
                );
                prey.outcome(&prey.present(&other.state).await?)
            },
        ),
        Case::new(
            SECTION,
            named("the text `hello`"),
            "malformed state",
            Governed::Not("no codec takes it for a token, not even the one that seals nothing"),
            move |stage| async move {
                let prey = Prey::hunt(&stage, codec).await?;
                prey.outcome(&prey.present("hello").await?)
            },
        ),
        Case::new(
            SECTION,
            named("on another tool"),
            "belongs to a different request",
            Governed::By(Guard::Request),
            move |stage| async move {
                let prey = Prey::hunt(&stage, codec).await?;
                let other = "buy_ticket_unpinned";
                prey.outcome(
                    &prey
                        .server
                        .wire()
                        .retry(other, &two(), &confirmed(), &prey.state)
                        .await?,
                )
            },
        ),
        Case::new(
            SECTION,
            named("the same bytes in other spellings"),
            "rejected, each",
            Governed::By(Guard::Sealing),
            move |stage| async move {
                let prey = Prey::hunt(&stage, codec).await?;
                let spellings = prey.other_spellings()?;
                let mut accepted = 0;
                for spelling in &spellings {
                    accepted += usize::from(prey.present(spelling).await?.code() != Some(-32602));
                }
                let honest = prey.outcome(&prey.present(&prey.state).await?)?;
                Ok(match accepted {
                    0 if honest == "accepted" => "rejected, each".into(),
                    0 => format!("rejected, each; and the honest one: {honest}"),
                    some => format!("{some} of {} accepted", spellings.len()),
                })
            },
        ),
    ];
    if codec == "hmac" {
        cases.insert(
            2,
            Case::new(
                SECTION,
                named("price edited, old signature kept"),
                "bad signature",
                Governed::By(Guard::Sealing),
                move |stage| async move {
                    let prey = Prey::hunt(&stage, codec).await?;
                    let forged = forge(&prey.state, "190.00", "1.00")?;
                    prey.outcome(&prey.present(&forged).await?)
                },
            ),
        );
    }
    cases
}
