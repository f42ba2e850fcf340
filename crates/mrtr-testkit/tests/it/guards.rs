//! For each guard: the good path, the attack with the guard on, the same attack with it off.

use mrtr_state::token;
use mrtr_testkit::guards::Guard;
use serde_json::Value;

use crate::shop::{LIFETIME, Shop};

fn reason(reply: &Value) -> &str {
    reply["error"]["data"]["reason"].as_str().unwrap_or("none")
}

/// The good path, with this guard off or none: one question, one answer, one sale.
async fn good_path(without: Option<Guard>) {
    let shop = Shop::open(without);
    let state = shop.ask("alice", 2).await;
    let reply = shop.confirm("alice", 2, &state).await;
    assert_eq!(reply["result"]["content"][0]["text"], "2 at 190", "{reply}");
    assert_eq!(shop.sold(), ["2 at 190"]);
}

#[tokio::test]
async fn without_any_one_guard_the_good_path_is_the_same() {
    good_path(None).await;
    for guard in Guard::ALL {
        good_path(Some(guard)).await;
    }
}

/// Changes the discount that the state remembers, and puts any seal under it.
fn forged(state: &str) -> String {
    let mut segments: Vec<String> = state.split('.').map(str::to_owned).collect();
    let claims = String::from_utf8(token::decode(&segments[3]).unwrap()).unwrap();
    let cheaper = claims
        .replace("\"discount\",0", "\"discount\",189")
        .replace("\"discount\":0", "\"discount\":189");
    assert_ne!(claims, cheaper, "the discount is in {claims}");
    segments[3] = token::encode(cheaper.as_bytes());
    segments.join(".")
}

#[tokio::test]
async fn sealing_stops_a_forged_state() {
    let shop = Shop::open(None);
    let state = shop.ask("alice", 2).await;
    let reply = shop.confirm("alice", 2, &forged(&state)).await;
    assert_eq!(reason(&reply), "bad_signature", "{reply}");
    assert!(shop.sold().is_empty());
    // The state itself is still good.
    shop.confirm("alice", 2, &state).await;
    assert_eq!(shop.sold(), ["2 at 190"]);

    let shop = Shop::open(Some(Guard::Sealing));
    let state = shop.ask("alice", 2).await;
    let reply = shop.confirm("alice", 2, &forged(&state)).await;
    // The question names the price, so it is put again, at the forged one.
    let again = reply["result"]["requestState"].as_str().unwrap();
    shop.confirm("alice", 2, again).await;
    assert_eq!(shop.sold(), ["2 at 1"]);
}

#[tokio::test]
async fn the_principal_stops_somebody_elses_state() {
    let shop = Shop::open(None);
    let state = shop.ask("alice", 2).await;
    let reply = shop.confirm("bob", 2, &state).await;
    assert_eq!(reason(&reply), "different_principal", "{reply}");
    assert!(shop.sold().is_empty());
    shop.confirm("alice", 2, &state).await;
    assert_eq!(shop.sold(), ["2 at 190"]);

    let shop = Shop::open(Some(Guard::Principal));
    let state = shop.ask("alice", 2).await;
    shop.confirm("bob", 2, &state).await;
    assert_eq!(shop.sold(), ["2 at 190"]);
}

#[tokio::test]
async fn the_request_stops_other_arguments() {
    let shop = Shop::open(None);
    let state = shop.ask("alice", 2).await;
    let reply = shop.confirm("alice", 20, &state).await;
    assert_eq!(reason(&reply), "different_request", "{reply}");
    assert!(shop.sold().is_empty());
    shop.confirm("alice", 2, &state).await;
    assert_eq!(shop.sold(), ["2 at 190"]);

    let shop = Shop::open(Some(Guard::Request));
    let state = shop.ask("alice", 2).await;
    shop.confirm("alice", 20, &state).await;
    assert_eq!(shop.sold(), ["20 at 190"]);
}

#[tokio::test]
async fn the_lifetime_stops_an_old_state() {
    let shop = Shop::open(None);
    let early = shop.ask("alice", 2).await;
    shop.clock
        .advance(LIFETIME - std::time::Duration::from_millis(1));
    shop.confirm("alice", 2, &early).await;
    assert_eq!(shop.sold(), ["2 at 190"]);
    let late = shop.ask("alice", 3).await;
    shop.clock.advance(LIFETIME);
    let reply = shop.confirm("alice", 3, &late).await;
    assert_eq!(reason(&reply), "expired", "{reply}");
    assert_eq!(shop.sold(), ["2 at 190"]);

    let shop = Shop::open(Some(Guard::Lifetime));
    let late = shop.ask("alice", 3).await;
    shop.clock.advance(LIFETIME * 1000);
    shop.confirm("alice", 3, &late).await;
    assert_eq!(shop.sold(), ["3 at 190"]);
}

#[tokio::test]
async fn the_question_stops_an_answer_to_another() {
    let shop = Shop::open(None);
    let state = shop.ask("alice", 2).await;
    shop.set_price(210);
    let reply = shop.confirm("alice", 2, &state).await;
    assert_eq!(reply["result"]["resultType"], "input_required", "{reply}");
    assert!(shop.sold().is_empty());
    let again = reply["result"]["requestState"].as_str().unwrap();
    shop.confirm("alice", 2, again).await;
    assert_eq!(shop.sold(), ["2 at 210"]);

    let shop = Shop::open(Some(Guard::Question));
    let state = shop.ask("alice", 2).await;
    shop.set_price(210);
    shop.confirm("alice", 2, &state).await;
    assert_eq!(shop.sold(), ["2 at 210"], "charged what nobody was asked");
}

#[tokio::test]
async fn the_ledger_stops_a_state_that_was_answered() {
    let shop = Shop::open(None);
    let state = shop.ask("alice", 2).await;
    shop.confirm("alice", 2, &state).await;
    let reply = shop.confirm("alice", 2, &state).await;
    assert_eq!(reply["result"]["_meta"]["mrtr/replayed"], true, "{reply}");
    assert_eq!(shop.sold(), ["2 at 190"]);

    let shop = Shop::open(Some(Guard::Ledger));
    let state = shop.ask("alice", 2).await;
    shop.confirm("alice", 2, &state).await;
    shop.confirm("alice", 2, &state).await;
    assert_eq!(shop.sold(), ["2 at 190", "2 at 190"]);
}
