//! A shop in this process: one tool that asks, one effect, every guard on but those that are taken off.

use std::sync::{Arc, Mutex};

use http::{Request, StatusCode};
use http_body_util::{BodyExt as _, Full};
use mrtr_ledger::MemoryLedger;
use mrtr_server::{
    Answer, Args, Flow, Form, Principal, Server, State, StaticTokens, ToolError, tool,
};
use mrtr_state::{KeyRing, StateCodec, Timestamp};
use mrtr_state_hmac::HmacCodec;
use mrtr_testkit::ManualClock;
use mrtr_testkit::guards::{
    AlwaysFirst, AnyPrincipal, AnyRequest, Guard, StoppedClock, UnsealedCodec,
};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};
use tower_service::Service as _;

/// How long a state of the shop may be answered.
pub(crate) const LIFETIME: std::time::Duration = std::time::Duration::from_secs(600);

#[derive(Deserialize, JsonSchema)]
struct Order {
    quantity: u32,
}

#[derive(Deserialize, JsonSchema)]
struct Confirm {
    ok: bool,
}

/// What the shop has sold, at which price, and the price that it asks now.
#[derive(Clone)]
struct Till {
    price: Arc<Mutex<u32>>,
    sold: Arc<Mutex<Vec<String>>>,
}

async fn buy(
    Args(order): Args<Order>,
    flow: Flow,
    State(till): State<Till>,
) -> Result<String, ToolError> {
    let pinned = flow.memo("discount", async || 0_u32).await;
    let price = *till.price.lock().unwrap() - pinned;
    // The quantity is left out on purpose: what keeps it from being changed is the request, not the question.
    let question = Form::<Confirm>::new(format!("Buy for {price} each?"));
    match flow.ask("confirm", question).await {
        Answer::Accept(Confirm { ok: true }) => {
            let sold = format!("{} at {price}", order.quantity);
            till.sold.lock().unwrap().push(sold.clone());
            Ok(sold)
        }
        _ => Ok("nothing".into()),
    }
}

pub(crate) struct Shop {
    server: Server,
    till: Till,
    pub(crate) clock: ManualClock,
}

impl Shop {
    pub(crate) fn open(without: Option<Guard>) -> Shop {
        let off = |guard| without == Some(guard);
        let clock = ManualClock::at(Timestamp::from_millis(1_800_000_000_000));
        let till = Till {
            price: Arc::new(Mutex::new(190)),
            sold: Arc::default(),
        };
        let sealed = HmacCodec::new(KeyRing::generate().unwrap()).unwrap();
        let mut codec: Arc<dyn StateCodec> = Arc::new(sealed);
        if off(Guard::Sealing) {
            codec = Arc::new(UnsealedCodec::in_place_of(&codec));
        }
        if off(Guard::Principal) {
            codec = Arc::new(AnyPrincipal::new(codec));
        }
        if off(Guard::Request) {
            codec = Arc::new(AnyRequest::new(codec));
        }
        let time: Arc<dyn mrtr_state::Clock> = if off(Guard::Lifetime) {
            Arc::new(StoppedClock::new(&clock))
        } else {
            Arc::new(clock.clone())
        };
        let ledger = MemoryLedger::new(Arc::clone(&time)).unwrap();
        let user = |name| Principal::user("https://login.example", name);
        let mut builder = Server::builder("shop", "1.0.0")
            .audience("https://shop.example/mcp")
            .codec(codec)
            .clock(time)
            .authenticator(
                StaticTokens::new()
                    .token("alice", user("alice"))
                    .token("bob", user("bob")),
            )
            .limits(|limits| limits.lifetime = LIFETIME)
            .state(till.clone())
            .tool(tool("buy", buy));
        builder = if off(Guard::Ledger) {
            builder.ledger(AlwaysFirst::new(ledger))
        } else {
            builder.ledger(ledger)
        };
        if off(Guard::Question) {
            builder = builder.dangerous().ignore_question_digest();
        }
        Shop {
            server: builder.build().unwrap(),
            till,
            clock,
        }
    }

    pub(crate) fn sold(&self) -> Vec<String> {
        self.till.sold.lock().unwrap().clone()
    }

    pub(crate) fn set_price(&self, price: u32) {
        *self.till.price.lock().unwrap() = price;
    }

    /// The first round: the state that came with the question.
    pub(crate) async fn ask(&self, who: &str, quantity: u32) -> String {
        let reply = self
            .post(
                who,
                json!({ "name": "buy", "arguments": { "quantity": quantity } }),
            )
            .await;
        assert_eq!(reply["result"]["resultType"], "input_required", "{reply}");
        reply["result"]["requestState"].as_str().unwrap().to_owned()
    }

    /// The retry that confirms.
    pub(crate) async fn confirm(&self, who: &str, quantity: u32, state: &str) -> Value {
        let params = json!({
            "name": "buy",
            "arguments": { "quantity": quantity },
            "requestState": state,
            "inputResponses": { "confirm": { "action": "accept", "content": { "ok": true } } },
        });
        self.post(who, params).await
    }

    async fn post(&self, who: &str, mut params: Value) -> Value {
        params["_meta"] = json!({
            "io.modelcontextprotocol/protocolVersion": "2026-07-28",
            "io.modelcontextprotocol/clientCapabilities": { "elicitation": { "form": {} } },
        });
        let body = json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params });
        let request = Request::post("http://localhost/mcp")
            .header("host", "localhost")
            .header("content-type", "application/json")
            .header("accept", "application/json, text/event-stream")
            .header("authorization", format!("Bearer {who}"))
            .header("mcp-protocol-version", "2026-07-28")
            .header("mcp-method", "tools/call")
            .header("mcp-name", "buy")
            .body(Full::new(bytes::Bytes::from(body.to_string())))
            .unwrap();
        let reply = self.server.clone().call(request).await.unwrap();
        let status = reply.status();
        let bytes = reply.into_body().collect().await.unwrap().to_bytes();
        assert_eq!(status, StatusCode::OK, "{bytes:?}");
        serde_json::from_slice(&bytes).unwrap()
    }
}
