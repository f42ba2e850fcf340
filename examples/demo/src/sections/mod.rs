//! The story, section by section.

mod answers;
mod attack;
mod authorized;
mod client;
mod effects;
mod eras;
mod expense;
mod handlers;
mod kinds;
mod kitchen;
mod large;
mod privacy;
mod replay;
mod ticket;
mod url;
mod wiring;

use serde_json::{Value, json};

use crate::board::Case;

/// Every row, in the order of the story.
pub(crate) fn all() -> Vec<Case> {
    let sections = [
        expense::cases(),
        effects::cases(),
        ticket::cases(),
        attack::cases(),
        authorized::cases(),
        replay::cases(),
        privacy::cases(),
        large::cases(),
        client::cases(),
        answers::cases(),
        kinds::cases(),
        url::cases(),
        kitchen::cases(),
        eras::cases(),
        handlers::cases(),
        wiring::cases(),
    ];
    sections.into_iter().flatten().collect()
}

/// The key ring of servers that must survive a restart or share a flow.
const KEYS: &str = "000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f";

/// An accepted form with its box ticked.
fn yes() -> Value {
    json!({ "action": "accept", "content": { "ok": true } })
}

/// Yes to the question under `confirm`.
fn confirmed() -> Value {
    json!({ "confirm": yes() })
}
