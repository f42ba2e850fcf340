//! The ticket: the price that the person saw, and what becomes of it.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use mrtr_testkit::guards::Guard;
use serde_json::{Value, json};

use super::{confirmed, yes};
use crate::Fault;
use crate::board::{Case, Governed};
use crate::servers::Server;
use crate::wire::{Answer, Wire};

const SECTION: &str = "ticket";

/// `charged 190.00`, from the office's own record; `charged nothing` where there is none.
pub(crate) fn charged(server: &Server) -> Result<String, Fault> {
    let prices: Vec<String> = server
        .record()?
        .iter()
        .map(|entry| {
            entry.value["price"]
                .as_str()
                .unwrap_or("an unknown price")
                .to_owned()
        })
        .collect();
    Ok(if prices.is_empty() {
        "charged nothing".into()
    } else {
        format!("charged {}", prices.join(" and "))
    })
}

async fn set_price(wire: &Wire, price: f64) -> Result<(), Fault> {
    wire.call("set_list_price", &json!({ "price": price }))
        .await
        .map(drop)
}

fn one() -> Value {
    json!({ "quantity": 1 })
}

/// Reads the claims of a state that is not encrypted, changes their text, and writes them back without a new seal.
pub(crate) fn forge(state: &str, from: &str, to: &str) -> Result<String, Fault> {
    let mut segments: Vec<String> = state.split('.').map(str::to_owned).collect();
    let claims = segments
        .get_mut(3)
        .ok_or_else(|| Fault("the state has no claims to edit".into()))?;
    let text = String::from_utf8(URL_SAFE_NO_PAD.decode(claims.as_bytes())?)?;
    if !text.contains(from) {
        return Err(Fault(format!("the claims do not hold {from:?}")));
    }
    *claims = URL_SAFE_NO_PAD.encode(text.replace(from, to));
    Ok(segments.join("."))
}

/// Presents a forged state, and answers whatever is asked after it, as a forger would.
async fn cash_in(wire: &Wire, tool: &str, forged: &str) -> Result<Answer, Fault> {
    let mut answer = wire.retry(tool, &one(), &confirmed(), forged).await?;
    if answer.asks() {
        let state = answer.state()?.to_owned();
        answer = wire.retry(tool, &one(), &confirmed(), &state).await?;
    }
    Ok(answer)
}

/// A state of a server that seals nothing, with the price in it changed to 1.00.
async fn forged_state(stage: &crate::servers::Stage) -> Result<(Server, String), Fault> {
    let open = stage
        .start(&stage.plan("tickets")?.flag("--codec", "unsealed"))
        .await?;
    let asked = open.wire().call("buy_ticket", &one()).await?;
    let forged = forge(asked.state()?, "190.00", "1.00")?;
    Ok((open, forged))
}

pub(crate) fn cases() -> Vec<Case> {
    vec![
        Case::new(
            SECTION,
            "quoted 190.00, the list price becomes 210.00 before the answer; with memo",
            "charged 190.00",
            Governed::Not("the memo pins the price; nothing is attacked"),
            |stage| async move {
                let server = stage.start(&stage.plan("tickets")?).await?;
                let wire = server.wire();
                let asked = wire.call("buy_ticket", &one()).await?;
                set_price(&wire, 210.0).await?;
                wire.retry("buy_ticket", &one(), &confirmed(), asked.state()?)
                    .await?;
                charged(&server)
            },
        ),
        Case::new(
            SECTION,
            "the same without memo",
            "asked again at 210.00, charged nothing",
            Governed::By(Guard::Question),
            |stage| async move {
                let server = stage.start(&stage.plan("tickets")?).await?;
                let wire = server.wire();
                let asked = wire.call("buy_ticket_unpinned", &one()).await?;
                set_price(&wire, 210.0).await?;
                let again = wire
                    .retry("buy_ticket_unpinned", &one(), &confirmed(), asked.state()?)
                    .await?;
                let asked_again = match again.question("confirm").contains("210.00") {
                    true => "asked again at 210.00",
                    false => "not asked again",
                };
                Ok(format!("{asked_again}, {}", charged(&server)?))
            },
        ),
        Case::new(
            SECTION,
            "two questions, the first accepted at 190.00, then 210.00; without memo",
            "the first is put again at 210.00, charged nothing",
            Governed::By(Guard::Question),
            |stage| async move {
                let server = stage.start(&stage.plan("tickets")?).await?;
                let wire = server.wire();
                let none = json!({});
                let first = wire.call("buy_pair", &none).await?;
                let second = wire
                    .retry(
                        "buy_pair",
                        &none,
                        &json!({ "first": yes() }),
                        first.state()?,
                    )
                    .await?;
                if second.question("second").is_empty() {
                    return Err(Fault(format!(
                        "the second question was not put: {}",
                        second.in_words()
                    )));
                }
                set_price(&wire, 210.0).await?;
                let again = wire
                    .retry(
                        "buy_pair",
                        &none,
                        &json!({ "second": yes() }),
                        second.state()?,
                    )
                    .await?;
                let put = match again.question("first").contains("210.00") {
                    true => "the first is put again at 210.00",
                    false => "the first is not put again",
                };
                Ok(format!("{put}, {}", charged(&server)?))
            },
        ),
        Case::new(
            SECTION,
            "forged state saying 1.00, codec that seals nothing",
            "charged 1.00",
            Governed::Not("shows what a state is worth that nobody seals"),
            |stage| async move {
                let (open, forged) = forged_state(&stage).await?;
                cash_in(&open.wire(), "buy_ticket", &forged).await?;
                charged(&open)
            },
        ),
        Case::new(
            SECTION,
            "the same forgery, sealed server",
            "malformed state, charged nothing",
            Governed::By(Guard::Sealing),
            |stage| async move {
                let (_open, forged) = forged_state(&stage).await?;
                let sealed = stage
                    .start(&stage.plan("tickets")?.flag("--codec", "aead"))
                    .await?;
                let refused = cash_in(&sealed.wire(), "buy_ticket", &forged).await?;
                Ok(format!("{}, {}", refused.in_words(), charged(&sealed)?))
            },
        ),
    ]
}
