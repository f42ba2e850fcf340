//! The kitchen: what the server kept about an exchange with the model, and what a forger makes of it.

use mrtr_testkit::guards::Guard;
use serde_json::{Value, json};

use super::ticket::forge;
use crate::Fault;
use crate::board::{Case, Governed};
use crate::people::{Model, count, host};
use crate::servers::{Server, Stage};
use crate::wire::{Answer, Wire};

const SECTION: &str = "kitchen";

/// What the model says, in the first round and in the second.
fn said(text: &str) -> Value {
    json!({ "role": "assistant", "model": "m", "content": { "type": "text", "text": text } })
}

/// `3 read`, from the kitchen's own record; `nothing read` where there is none.
fn jars_read(server: &Server) -> Result<String, Fault> {
    let record = server.record()?;
    let jars: Vec<String> = record
        .iter()
        .map(|entry| entry.value["jars"].to_string())
        .collect();
    Ok(match jars.is_empty() {
        true => "nothing read".into(),
        false => format!("{} read", jars.join(" and ")),
    })
}

/// A server of this codec in its second round: its wire, and the state that remembers three jars.
async fn second_round(stage: &Stage, codec: &str) -> Result<(Server, Wire, String), Fault> {
    let server = stage
        .start(&stage.plan("kitchen")?.flag("--codec", codec))
        .await?;
    let wire = server.wire().declaring(json!({ "sampling": {} }));
    let first = wire.call("bake", &json!({})).await?;
    let focus = json!({ "focus": said("breakfast") });
    let second = wire
        .retry("bake", &json!({}), &focus, first.state()?)
        .await?;
    let state = second.state()?.to_owned();
    Ok((server, wire, state))
}

async fn finish(wire: &Wire, state: &str) -> Result<Answer, Fault> {
    let jars = json!({ "jars": said("plum and quince") });
    wire.retry("bake", &json!({}), &jars, state).await
}

pub(crate) fn cases() -> Vec<Case> {
    let forged = |case: &str, codec: &'static str, expected: &str, governed: Governed| {
        Case::new(SECTION, case, expected, governed, move |stage| async move {
            let (server, wire, state) = second_round(&stage, codec).await?;
            let richer = forge(&state, r#""jars":3,"#, r#""jars":300,"#)?;
            let words = finish(&wire, &richer).await?.in_words();
            let measured = format!("{words}, {}", jars_read(&server)?);
            // What was not forged is good on the same server.
            finish(&wire, &state).await?;
            match server.record()?.last() {
                Some(last) if last.value["jars"] == 3 => Ok(measured),
                last => Err(Fault(format!("the state itself led to {last:?}"))),
            }
        })
    };
    vec![
        Case::new(
            SECTION,
            "two rounds by sampling",
            "completed, 2 questions to the model, 3 read",
            Governed::Not("nothing is attacked"),
            |stage| async move {
                let server = stage.start(&stage.plan("kitchen")?).await?;
                let says = json!({ "focus": "Breakfast.", "jars": "The plum and the quince." });
                let model = Model::saying(says);
                let (client, _) = host(&server.url, |builder| builder.on_sampling(model.clone()))?;
                let result = client.call_tool("bake", json!({})).await?;
                let completed = match result.joined_text().as_str() {
                    "Baked with 2 of 3 jars, as entry 1." => "completed",
                    other => other,
                }
                .to_owned();
                let told = count(model.told().len(), "question", "questions");
                let read = jars_read(&server)?;
                Ok(format!("{completed}, {told} to the model, {read}"))
            },
        ),
        forged(
            "jars 3 became 300, codec that seals nothing",
            "unsealed",
            "accepted, 300 read",
            Governed::Not("shows what a state is worth that nobody seals"),
        ),
        forged(
            "the same, sealed server",
            "hmac",
            "bad signature, nothing read",
            Governed::By(Guard::Sealing),
        ),
        forged(
            "the same, sealed by a codec whose signatures nobody checks",
            "unchecked",
            "accepted, 300 read",
            Governed::Not("shows what a signature is worth that nobody checks"),
        ),
    ]
}
