//! Calls in this process, without a socket: what grows, and with what.

use bytes::Bytes;
use http::Request;
use http_body_util::{BodyExt as _, Full};
use mrtr_bench::KEY;
use mrtr_server::{Answer, Args, Flow, Form, Server, tool};
use mrtr_state::{Key, KeyRing};
use mrtr_state_hmac::HmacCodec;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};
use tower_service::Service as _;

use crate::report::{Bound, Report, median};
use crate::timing::{nanos_each, shown};
use crate::{Options, Outcome};

const ROUNDS: [u32; 5] = [1, 2, 4, 8, 16];

#[derive(Deserialize, JsonSchema)]
struct Many {
    questions: u32,
}

#[derive(Deserialize, JsonSchema)]
struct Text {
    text: String,
}

async fn many(Args(Many { questions }): Args<Many>, flow: Flow) -> String {
    let mut length = 0;
    for number in 0..questions {
        let question = Form::<Text>::new(format!("Question {number}?"));
        if let Answer::Accept(Text { text }) =
            flow.ask(format!("question-{number}"), question).await
        {
            length += text.len();
        }
    }
    length.to_string()
}

fn server() -> Result<Server, Box<dyn std::error::Error + Send + Sync>> {
    Ok(Server::builder("bench", "0.0.0")
        .audience("http://bench.example/mcp")
        .codec(HmacCodec::new(KeyRing::new(Key::from_bytes(&KEY)?))?)
        .allow_anonymous()
        .limits(|limits| limits.rounds = 17)
        .tool(tool("many", many).description("Asks as often as it is told."))
        .build()?)
}

/// What a round costs, by how many answers its journal holds. Without a ledger a state can be sent again, so one round is
/// measured alone.
pub(crate) fn journal_growth(options: &Options, report: &mut Report) -> Outcome {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    let mut server = server()?;
    let mut states = vec![None];
    for _ in 0..ROUNDS[ROUNDS.len() - 1] {
        let number = states.len();
        let state = states.last().cloned().flatten();
        let answer = runtime.block_on(call(&mut server, &body(number, state.as_deref())))?;
        let state = answer["result"]["requestState"]
            .as_str()
            .ok_or("a round without a state")?;
        states.push(Some(state.to_owned()));
    }
    let mut costs: [Vec<f64>; ROUNDS.len()] = Default::default();
    for _ in 0..options.turns {
        for (round, costs) in ROUNDS.iter().zip(&mut costs) {
            let index = *round as usize;
            let body = body(index + 1, states[index].as_deref());
            let mut work = || {
                runtime
                    .block_on(call(&mut server, &body))
                    .map_or(0, |answer| answer.to_string().len())
            };
            costs.push(nanos_each(&mut work, options.turn / 8));
        }
    }
    // From 8 answers to 16 twice as much may be added as from 4 to 8. Of medians: a turn's differences are as small as its noise.
    let [_, _, four, eight, sixteen] = costs.each_ref().map(|costs| median(costs));
    let ratios = vec![(sixteen - eight) / (2.0 * (eight - four))];
    let each: Vec<String> = ROUNDS
        .iter()
        .zip(&costs)
        .map(|(round, costs)| format!("{round}: {}", shown(median(costs))))
        .collect();
    report.add(
        "a round's cost by the answers before it",
        ("from 8 to 16 answers", "twice from 4 to 8"),
        ratios,
        each.join(", "),
        Some(Bound::AtMost(1.5)),
    );
    Ok(())
}

fn body(number: usize, state: Option<&str>) -> Value {
    let mut params = json!({
        "name": "many", "arguments": { "questions": 17 },
        "_meta": {
            "io.modelcontextprotocol/protocolVersion": "2026-07-28",
            "io.modelcontextprotocol/clientCapabilities": { "elicitation": { "form": {} } }
        }
    });
    if let Some(state) = state {
        let key = format!("question-{}", number - 2);
        params["requestState"] = json!(state);
        params["inputResponses"] = json!({ key: { "action": "accept", "content": { "text": "an answer of some thirty letters" } } });
    }
    json!({ "jsonrpc": "2.0", "id": number, "method": "tools/call", "params": params })
}

async fn call(
    server: &mut Server,
    body: &Value,
) -> Result<Value, Box<dyn std::error::Error + Send + Sync>> {
    let request = Request::post("/mcp")
        .header("Host", "127.0.0.1")
        .header("Content-Type", "application/json")
        .header("Accept", "application/json, text/event-stream")
        .header("MCP-Protocol-Version", "2026-07-28")
        .header("Mcp-Method", "tools/call")
        .header("Mcp-Name", "many")
        .body(Full::new(Bytes::from(body.to_string())))?;
    let answer = server.call(request).await?;
    let bytes = answer.into_body().collect().await?.to_bytes();
    Ok(serde_json::from_slice(&bytes)?)
}
