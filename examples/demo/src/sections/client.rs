//! The client: a courier before a server that misbehaves.

use mrtr_client::{Abandoned, CallError};
use serde_json::{Value, json};

use crate::Fault;
use crate::board::{Case, Governed};
use crate::people::{Desk, Person};

const SECTION: &str = "client";
const COURIER: Governed =
    Governed::Not("a rule of the client's; the server's guards are not asked");

/// The request bodies that the server saw.
async fn seen(url: &str) -> Result<Vec<Value>, Fault> {
    let bodies: Vec<String> = serde_json::from_slice(
        &reqwest::get(url.replace("/mcp", "/seen"))
            .await?
            .bytes()
            .await?,
    )?;
    bodies
        .iter()
        .map(|body| Ok(serde_json::from_str(body)?))
        .collect()
}

fn carries(request: &Value, member: &str) -> bool {
    request["params"].get(member).is_some()
}

pub(crate) fn cases() -> Vec<Case> {
    vec![
        Case::new(
            SECTION,
            "a server that wants 50 rounds, limit 3",
            "abandoned: too many rounds; at most 4 requests",
            COURIER,
            |stage| async move {
                let server = stage.start(&stage.plan("greedy")?).await?;
                let desk = Desk::with_limit(&server.url, Person::says_yes(), 3)?;
                let outcome = desk.client.call_tool("forever", json!({})).await;
                let requests = seen(&server.url).await?.len();
                let outcome = match outcome {
                    Err(CallError::Abandoned {
                        why: Abandoned::TooManyRounds { limit: 3 },
                        ..
                    }) => "abandoned: too many rounds".into(),
                    other => format!("{other:?}"),
                };
                let requests = if requests <= 4 {
                    "at most 4 requests".into()
                } else {
                    format!("{requests} requests")
                };
                Ok(format!("{outcome}; {requests}"))
            },
        ),
        Case::new(
            SECTION,
            "the host refuses",
            "abandoned, nothing sent for it",
            COURIER,
            |stage| async move {
                let server = stage.start(&stage.plan("greedy")?).await?;
                let desk = Desk::new(&server.url, Person::is_not_asked_by_the_host())?;
                let outcome = desk.client.call_tool("forever", json!({})).await;
                let abandoned = matches!(
                    outcome,
                    Err(CallError::Abandoned {
                        why: Abandoned::Refused { .. },
                        ..
                    })
                );
                let seen = seen(&server.url).await?;
                let sent = seen.len() != 1
                    || seen
                        .iter()
                        .any(|request| carries(request, "inputResponses"));
                Ok(match (abandoned, sent) {
                    (true, false) => "abandoned, nothing sent for it".into(),
                    (abandoned, sent) => format!("abandoned: {abandoned}, sent: {sent}"),
                })
            },
        ),
        Case::new(
            SECTION,
            "a state with quotes, spaces, non-ASCII",
            "byte-equal",
            COURIER,
            |stage| async move {
                let server = stage.start(&stage.plan("greedy")?).await?;
                let desk = Desk::new(&server.url, Person::says_yes())?;
                desk.call("odd_state", json!({})).await?;
                let sent = desk
                    .exchanges()
                    .first()
                    .map(|exchange| exchange.answer["result"]["requestState"].clone());
                let returned = seen(&server.url)
                    .await?
                    .get(1)
                    .map(|request| request["params"]["requestState"].clone());
                Ok(match (sent, returned) {
                    (Some(sent), Some(returned)) if sent.is_string() && sent == returned => {
                        "byte-equal".into()
                    }
                    (sent, returned) => format!("{sent:?} became {returned:?}"),
                })
            },
        ),
        Case::new(
            SECTION,
            "no state in the next round",
            "absent",
            COURIER,
            |stage| async move {
                let server = stage.start(&stage.plan("greedy")?).await?;
                let desk = Desk::new(&server.url, Person::says_yes())?;
                desk.call("odd_state", json!({})).await?;
                let seen = seen(&server.url).await?;
                let last = seen
                    .get(2)
                    .ok_or_else(|| Fault(format!("{} requests, not 3", seen.len())))?;
                Ok(if carries(last, "requestState") {
                    "present".into()
                } else {
                    "absent".into()
                })
            },
        ),
        Case::new(
            SECTION,
            "an unrelated call during a round",
            "carries neither field",
            COURIER,
            |stage| async move {
                let server = stage.start(&stage.plan("greedy")?).await?;
                let desk = Desk::new(&server.url, Person::says_yes())?;
                let pending = match desk.client.begin("forever", json!({})).await {
                    Ok(mrtr_client::Progress::InputRequired(pending)) => pending,
                    other => return Err(Fault(format!("no round came: {other:?}"))),
                };
                desk.call("plain", json!({})).await?;
                let seen = seen(&server.url).await?;
                let unrelated = seen
                    .last()
                    .ok_or_else(|| Fault("nothing was seen".into()))?;
                drop(pending);
                Ok(
                    match (
                        carries(unrelated, "requestState"),
                        carries(unrelated, "inputResponses"),
                    ) {
                        (false, false) => "carries neither field".into(),
                        (state, answers) => format!("state: {state}, answers: {answers}"),
                    },
                )
            },
        ),
        Case::new(
            SECTION,
            "a server's state that is not a string",
            "never sent back",
            COURIER,
            |stage| async move {
                let server = stage.start(&stage.plan("greedy")?).await?;
                let desk = Desk::new(&server.url, Person::says_yes())?;
                let outcome = desk.client.call_tool("number_state", json!({})).await;
                let back = seen(&server.url)
                    .await?
                    .iter()
                    .any(|request| carries(request, "requestState"));
                Ok(match (outcome, back) {
                    (Err(CallError::Protocol(_)), false) => "never sent back".into(),
                    (outcome, back) => format!("{outcome:?}, sent back: {back}"),
                })
            },
        ),
    ]
}
