//! A server that misbehaves, for clients to be tried on. Written by hand on axum, because `mrtr-server` would not do this.
//!
//! * `forever` asks again in every round, up to 50;
//! * `odd_state` sends a state of quotes, backslashes, spaces and letters from everywhere, wants it back as it was, and then
//!   asks in a round without a state, and wants none;
//! * `number_state` sends a state that is a number, which no client may send back;
//! * `plain` answers at once.
//!
//! `GET /seen` returns every request body that has arrived, in order, as a JSON array of strings: what really crossed the
//! wire. Of the flags it takes `--listen` and `--until-stdin-closes`.
//!
//! ```sh
//! cargo run -p greedy -- --listen 127.0.0.1:3005
//! curl -s http://127.0.0.1:3005/mcp -H 'Content-Type: application/json' -d '{"jsonrpc":"2.0","id":1,
//!   "method":"tools/call","params":{"name":"forever","arguments":{}}}'
//! curl -s http://127.0.0.1:3005/seen
//! ```

use std::process::ExitCode;
use std::sync::{Arc, Mutex, PoisonError};

use axum::Router;
use axum::extract::State;
use axum::http::StatusCode;
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use mrtr_protocol::jsonrpc::{write_error, write_result};
use mrtr_protocol::{ErrorObject, Message, REVISION, Request, code, method};
use serde_json::{Value, json};
use stage::StartError;
use stage::arguments::Arguments;
use stage::process::Process;

/// How often `forever` asks before it gives in.
const FOREVER: u64 = 50;

/// A state as no reasonable server would write it, and as every client has to carry it.
const ODD: &str = " \"quoted\" and \\back\\slashed  two spaces, a\ttab, a\nline, caf\u{e9} cafe\u{301}, \u{6f22}\u{5b57}, \u{1f980} \u{2028}<&>\u{7f} ";

/// Every request body, in the order of arrival.
#[derive(Clone, Default)]
struct Seen(Arc<Mutex<Vec<String>>>);

async fn seen(State(Seen(bodies)): State<Seen>) -> Response {
    let bodies = bodies
        .lock()
        .unwrap_or_else(PoisonError::into_inner)
        .clone();
    answer(StatusCode::OK, json!(bodies).to_string().into_bytes())
}

async fn mcp(State(Seen(bodies)): State<Seen>, body: String) -> Response {
    let reply = match Message::parse(body.as_bytes()) {
        Ok(Message::Request(request)) => dispatch(&request),
        Ok(Message::Notification(_)) => return StatusCode::ACCEPTED.into_response(),
        Err(error) => {
            let error = error.to_error_object();
            answer(StatusCode::BAD_REQUEST, write_error(None, &error))
        }
    };
    bodies
        .lock()
        .unwrap_or_else(PoisonError::into_inner)
        .push(body);
    reply
}

fn dispatch(request: &Request<'_>) -> Response {
    let params: Value = request
        .params
        .and_then(|params| serde_json::from_str(params.get()).ok())
        .unwrap_or_default();
    let result = match &*request.method {
        method::DISCOVER => Some(discovered()),
        method::TOOLS_LIST => Some(tools()),
        method::TOOLS_CALL => call(&params),
        _ => None,
    };
    match result {
        Some(result) => answer(
            StatusCode::OK,
            write_result(&request.id, &result.to_string()),
        ),
        None => {
            let error = ErrorObject::new(code::METHOD_NOT_FOUND, "no such method or tool");
            answer(
                StatusCode::NOT_FOUND,
                write_error(Some(&request.id), &error),
            )
        }
    }
}

fn call(params: &Value) -> Option<Value> {
    let state = params.get("requestState");
    let answered = |key: &str| {
        params
            .get("inputResponses")
            .is_some_and(|answers| answers.get(key).is_some())
    };
    Some(match params.get("name")?.as_str()? {
        "forever" => {
            // The round is all that it remembers.
            let round = state
                .and_then(Value::as_str)
                .and_then(|state| state.parse().ok())
                .unwrap_or(0_u64);
            match round < FOREVER {
                true => ask(
                    &format!("more-{round}"),
                    Some(json!((round + 1).to_string())),
                ),
                false => done(&format!("{FOREVER} questions were answered."), false),
            }
        }
        "odd_state" => match state.map(Value::as_str) {
            None if answered("second") => {
                done("The state was carried as it was, and then dropped.", false)
            }
            None => ask("first", Some(json!(ODD))),
            Some(Some(ODD)) if !answered("second") => ask("second", None),
            Some(_) => done(
                &format!("This state was not sent in that round: {}", json!(state)),
                true,
            ),
        },
        "number_state" => match state {
            None if answered("number") => done("Only the answer came back.", false),
            None => ask("number", Some(json!(42))),
            Some(state) => done(
                &format!("A state that is no string came back: {state}"),
                true,
            ),
        },
        "plain" => done("Answered at once.", false),
        _ => return None,
    })
}

fn ask(key: &str, state: Option<Value>) -> Value {
    let mut result = json!({
        "resultType": "input_required",
        "inputRequests": { key: { "method": method::ELICITATION_CREATE, "params": {
            "mode": "form",
            "message": format!("One more thing ({key})?"),
            "requestedSchema": {
                "type": "object", "properties": { "ok": { "type": "boolean" } }, "required": ["ok"],
            },
        } } },
    });
    if let (Some(state), Some(result)) = (state, result.as_object_mut()) {
        result.insert("requestState".to_owned(), state);
    }
    result
}

fn done(text: &str, is_error: bool) -> Value {
    json!({ "resultType": "complete", "content": [{ "type": "text", "text": text }], "isError": is_error })
}

fn discovered() -> Value {
    json!({
        "resultType": "complete", "supportedVersions": [REVISION], "capabilities": { "tools": {} },
        "ttlMs": 0, "cacheScope": "private",
    })
}

fn tools() -> Value {
    let tools: Vec<Value> = ["forever", "odd_state", "number_state", "plain"]
        .iter()
        .map(|name| json!({ "name": name, "inputSchema": { "type": "object" } }))
        .collect();
    json!({ "resultType": "complete", "tools": tools, "ttlMs": 0, "cacheScope": "private" })
}

fn answer(status: StatusCode, body: Vec<u8>) -> Response {
    (status, [(CONTENT_TYPE, "application/json")], body).into_response()
}

#[tokio::main]
async fn main() -> ExitCode {
    stage::exit_code("greedy", serve().await)
}

async fn serve() -> Result<(), StartError> {
    let mut arguments = Arguments::of_this_process();
    let process = Process::take(&mut arguments)?;
    arguments.finish()?;
    let router = Router::new()
        .route("/mcp", post(mcp))
        .route("/seen", get(seen))
        .with_state(Seen::default());
    let listener = process.listen().await.map_err(StartError::Listener)?;
    axum::serve(listener, router)
        .with_graceful_shutdown(process.ended())
        .await
        .map_err(StartError::Listener)
}
