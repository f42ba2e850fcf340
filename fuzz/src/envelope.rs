//! What is read can be written and reads the same; ids keep their type and their digits.

use mrtr_protocol::jsonrpc::{
    is_batch, parse_batch, write_error, write_notification, write_request, write_result,
};
use mrtr_protocol::{EnvelopeError, Incoming, Message, Response, code};

use crate::json::{self, Json};

/// How many messages a batch may hold.
const BATCH: usize = 8;

/// Bytes that may be a message.
pub fn run(data: &[u8]) {
    let read = Incoming::parse(data);
    assert_eq!(
        Message::parse(data).is_ok(),
        matches!(read, Ok(Incoming::Request(_) | Incoming::Notification(_)))
    );
    assert_eq!(
        Response::parse(data).is_ok(),
        matches!(read, Ok(Incoming::Response(_)))
    );
    match &read {
        Ok(message) => taken(data, message),
        Err(error) => refused(data, error),
    }
    batch(data);
}

fn taken(data: &[u8], message: &Incoming<'_>) {
    let text = std::str::from_utf8(data).expect("a message is text");
    // What holds names twice further down is for the strict pass to find.
    if let Some(value) = json::read(text) {
        assert_eq!(value.get("jsonrpc").and_then(Json::text), Some("2.0"));
        let method = value.get("method").and_then(Json::text);
        match message {
            Incoming::Request(request) => {
                assert_eq!(method, Some(&*request.method));
                assert!(value.get("id").is_some());
            }
            Incoming::Notification(notification) => {
                assert_eq!(method, Some(&*notification.method));
                assert!(value.get("id").is_none());
            }
            Incoming::Response(response) => {
                assert!(method.is_none());
                assert_eq!(response.outcome.is_ok(), value.get("result").is_some());
                assert_ne!(value.get("result").is_some(), value.get("error").is_some());
            }
        }
    }
    let written = written(message);
    let again = Incoming::parse(&written).expect("what was written reads");
    assert_eq!(shown(&again), shown(message));
}

/// The message, written anew. What a client or server may not leave out is an empty object.
fn written(message: &Incoming<'_>) -> Vec<u8> {
    let empty = serde_json::value::RawValue::from_string("{}".to_owned()).expect("JSON");
    match message {
        Incoming::Request(request) => {
            let params = request.params.unwrap_or(&empty);
            write_request(&request.id, &request.method, params).expect("JSON")
        }
        Incoming::Notification(notification) => {
            let params = notification.params.unwrap_or(&empty);
            write_notification(&notification.method, params).expect("JSON")
        }
        Incoming::Response(response) => match (&response.outcome, &response.id) {
            (Ok(result), Some(id)) => write_result(id, result.get()),
            (Ok(_), None) => panic!("a result without an id"),
            (Err(error), id) => write_error(id.as_ref(), error),
        },
    }
}

/// Everything that a reader sees of it, absent params and empty ones alike.
fn shown(message: &Incoming<'_>) -> String {
    let params = |params: Option<&serde_json::value::RawValue>| {
        params.map_or("{}", |raw| raw.get()).to_owned()
    };
    match message {
        Incoming::Request(request) => format!(
            "{:?} {} {}",
            request.id,
            request.method,
            params(request.params)
        ),
        Incoming::Notification(notification) => {
            format!("{} {}", notification.method, params(notification.params))
        }
        Incoming::Response(response) => match &response.outcome {
            Ok(result) => format!("{:?} {}", response.id, result.get()),
            Err(error) => format!(
                "{:?} {}",
                response.id,
                serde_json::to_string(error).expect("JSON")
            ),
        },
    }
}

fn refused(data: &[u8], error: &EnvelopeError) {
    let object = error.to_error_object();
    let is_json = std::str::from_utf8(data)
        .is_ok_and(|text| serde_json::from_str::<serde::de::IgnoredAny>(text).is_ok());
    let expected = if is_json {
        code::INVALID_REQUEST
    } else {
        code::PARSE_ERROR
    };
    assert_eq!(object.code, expected, "{error}");
    assert!(
        object.message.len() < 200,
        "words of the sender in an error"
    );
    let answer = write_error(error.id(), &object);
    let text = std::str::from_utf8(&answer).expect("an answer is text");
    let answer = json::read(text).expect("an answer is JSON");
    assert_ne!(
        answer.get("id"),
        Some(&Json::Null),
        "an id that could not be read is absent"
    );
    // The id of the answer is the id of the message, digit by digit.
    let value = std::str::from_utf8(data).ok().and_then(json::read);
    if let (Some(id), Some(value)) = (answer.get("id"), value) {
        assert_eq!(value.get("id"), Some(id));
    }
}

fn batch(data: &[u8]) {
    let Ok(messages) = parse_batch(data, BATCH) else {
        return;
    };
    assert!(is_batch(data) && (1..=BATCH).contains(&messages.len()));
    for message in messages.iter().flatten() {
        let again = written(message);
        assert!(Incoming::parse(&again).is_ok());
    }
}
