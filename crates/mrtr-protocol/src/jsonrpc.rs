//! The JSON-RPC 2.0 envelope as the specification narrows it (*Overview, Messages*).
//!
//! A message is one object. Params are an object or absent, an id is a string or an integer, there are no batches. Everything borrows
//! from the body.

use std::borrow::Cow;
use std::fmt;

use serde::de::{self, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::value::RawValue;

use crate::error::{ErrorObject, code};
use crate::id::RequestId;
use crate::object::{self, as_string, is_object};

/// A request: it has an id, and wants an answer.
#[derive(Debug, Clone)]
pub struct Request<'a> {
    /// Echoed in the answer.
    pub id: RequestId,
    /// The method.
    pub method: Cow<'a, str>,
    /// An object, or absent.
    pub params: Option<&'a RawValue>,
}

/// A notification: no id, no answer.
#[derive(Debug, Clone)]
pub struct Notification<'a> {
    /// The method.
    pub method: Cow<'a, str>,
    /// An object, or absent.
    pub params: Option<&'a RawValue>,
}

/// Whether a body is a batch: its first character is `[`. Revision 2025-03-26 alone has batches; [`parse_batch`] reads them.
#[must_use]
pub fn is_batch(body: &[u8]) -> bool {
    body.trim_ascii_start().first() == Some(&b'[')
}

/// Reads a batch of revision 2025-03-26: each message by itself, in order, so that one bad message spoils no other.
///
/// # Errors
///
/// [`EnvelopeError::Parse`] when the body is not JSON in UTF-8, [`EnvelopeError::Invalid`] when it is no array, is empty, or holds more
/// than `limit` messages. No more than `limit` are ever held.
pub fn parse_batch(
    body: &[u8],
    limit: usize,
) -> Result<Vec<Result<Incoming<'_>, EnvelopeError>>, EnvelopeError> {
    let text = std::str::from_utf8(body).map_err(|_| EnvelopeError::Parse)?;
    let mut reader = serde_json::Deserializer::from_str(text);
    let read = reader.deserialize_seq(BatchVisitor { limit });
    let items = match read.and_then(|items| reader.end().map(|()| items)) {
        Ok(items) => items,
        Err(_) => return Err(not_a_batch(text)),
    };
    if items.is_empty() {
        return Err(EnvelopeError::invalid(None, EnvelopeProblem::EmptyBatch));
    }
    Ok(items
        .into_iter()
        .map(|item| Incoming::parse(item.get().as_bytes()))
        .collect())
}

struct BatchVisitor {
    limit: usize,
}

impl<'de> Visitor<'de> for BatchVisitor {
    type Value = Vec<&'de RawValue>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "an array of at most {} messages", self.limit)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Self::Value, A::Error> {
        let mut out = Vec::new();
        while let Some(item) = items.next_element()? {
            if out.len() == self.limit {
                return Err(de::Error::invalid_length(self.limit + 1, &self));
            }
            out.push(item);
        }
        Ok(out)
    }
}

fn not_a_batch(text: &str) -> EnvelopeError {
    match serde_json::from_str::<IgnoredAny>(text) {
        Err(_) => EnvelopeError::Parse,
        Ok(_) if is_batch(text.as_bytes()) => {
            EnvelopeError::invalid(None, EnvelopeProblem::LargeBatch)
        }
        Ok(_) => EnvelopeError::invalid(None, EnvelopeProblem::NotABatch),
    }
}

/// Writes the answer to a batch: the responses to its requests, in any order. None means that the batch held no requests, and there is
/// nothing to answer.
#[must_use]
pub fn write_batch<'r>(responses: impl IntoIterator<Item = &'r [u8]>) -> Option<Vec<u8>> {
    let mut out = Vec::new();
    for response in responses {
        out.push(if out.is_empty() { b'[' } else { b',' });
        out.extend_from_slice(response);
    }
    (!out.is_empty()).then(|| {
        out.push(b']');
        out
    })
}

/// What a client may send.
#[derive(Debug, Clone)]
pub enum Message<'a> {
    /// With an id.
    Request(Request<'a>),
    /// Without one.
    Notification(Notification<'a>),
}

impl<'a> Message<'a> {
    /// Reads one message from a body.
    ///
    /// Not guaranteed: that params hold no duplicate names, are not too deep, or hold no lone surrogate; [`strict::check`] looks for
    /// those. Members that JSON-RPC does not know are ignored.
    ///
    /// ```
    /// use mrtr_protocol::Message;
    /// let Message::Request(request) = Message::parse(br#"{"jsonrpc":"2.0","id":1,"method":"tools/list"}"#)? else { panic!() };
    /// assert_eq!(request.method, "tools/list");
    /// # Ok::<(), mrtr_protocol::EnvelopeError>(())
    /// ```
    ///
    /// [`strict::check`]: crate::strict::check
    ///
    /// # Errors
    ///
    /// [`EnvelopeError::Parse`] when the body is not JSON in UTF-8, [`EnvelopeError::Invalid`] when it is JSON and no request or
    /// notification: a batch, a response, a `null` id, `params` that are no object, a member twice.
    pub fn parse(body: &'a [u8]) -> Result<Self, EnvelopeError> {
        match Incoming::parse(body)? {
            Incoming::Request(request) => Ok(Self::Request(request)),
            Incoming::Notification(notification) => Ok(Self::Notification(notification)),
            Incoming::Response(response) => Err(EnvelopeError::invalid(
                response.id,
                EnvelopeProblem::NoMethod,
            )),
        }
    }
}

/// A response: a result or an error, never both.
#[derive(Debug, Clone)]
pub struct Response<'a> {
    /// The request's id. Absent (or `null`, which some servers send) only beside an error, when the server could not read it.
    pub id: Option<RequestId>,
    /// The result, always an object, or the error.
    pub outcome: Result<&'a RawValue, ErrorObject>,
}

impl<'a> Response<'a> {
    /// Reads one response.
    ///
    /// # Errors
    ///
    /// [`EnvelopeError`] when the body is not a response: both or neither of `result` and `error`, a result without an id or that is no
    /// object.
    pub fn parse(body: &'a [u8]) -> Result<Self, EnvelopeError> {
        match Incoming::parse(body)? {
            Incoming::Response(response) => Ok(response),
            Incoming::Request(Request { id, .. }) => {
                Err(EnvelopeError::invalid(Some(id), EnvelopeProblem::NoOutcome))
            }
            Incoming::Notification(_) => {
                Err(EnvelopeError::invalid(None, EnvelopeProblem::NoOutcome))
            }
        }
    }
}

/// Any message, as it arrives on a stream.
#[derive(Debug, Clone)]
pub enum Incoming<'a> {
    /// Has a method and an id.
    Request(Request<'a>),
    /// Has a method and no id.
    Notification(Notification<'a>),
    /// Has a result or an error.
    Response(Response<'a>),
}

impl<'a> Incoming<'a> {
    /// Reads one message of any kind.
    ///
    /// # Errors
    ///
    /// As [`Message::parse`] and [`Response::parse`].
    pub fn parse(body: &'a [u8]) -> Result<Self, EnvelopeError> {
        let text = std::str::from_utf8(body).map_err(|_| EnvelopeError::Parse)?;
        match serde_json::from_str::<Envelope<'a>>(text) {
            Ok(envelope) => envelope.classify(),
            Err(_) => Err(not_an_object(text)),
        }
    }
}

/// serde_json stops at the first byte of the wrong type, so whether the rest is JSON at all is still open. Nor does its kind of error tell:
/// a number beyond the range of `f64` in place of an object is a syntax error, but where `arbitrary_precision` is on.
fn not_an_object(text: &str) -> EnvelopeError {
    match serde_json::from_str::<IgnoredAny>(text) {
        Err(_) => EnvelopeError::Parse,
        Ok(_) if text.trim_start().starts_with('[') => {
            EnvelopeError::invalid(None, EnvelopeProblem::Batch)
        }
        Ok(_) => EnvelopeError::invalid(None, EnvelopeProblem::NotAnObject),
    }
}

/// Why a body is not a message.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum EnvelopeError {
    /// Not JSON, or not UTF-8: -32700.
    #[error("the body is not JSON in UTF-8; send one JSON-RPC message")]
    Parse,
    /// JSON, but not a message: -32600.
    #[error("{problem}")]
    Invalid {
        /// The id, where it could be read.
        id: Option<RequestId>,
        /// What is wrong.
        problem: EnvelopeProblem,
    },
}

impl EnvelopeError {
    fn invalid(id: Option<RequestId>, problem: EnvelopeProblem) -> Self {
        Self::Invalid { id, problem }
    }

    /// The id to answer with, if it could be read.
    #[must_use]
    pub fn id(&self) -> Option<&RequestId> {
        match self {
            Self::Parse => None,
            Self::Invalid { id, .. } => id.as_ref(),
        }
    }

    /// The error to answer with.
    #[must_use]
    pub fn to_error_object(&self) -> ErrorObject {
        match self {
            Self::Parse => ErrorObject::new(code::PARSE_ERROR, format!("Parse error: {self}.")),
            Self::Invalid { .. } => {
                ErrorObject::new(code::INVALID_REQUEST, format!("Invalid request: {self}."))
            }
        }
    }
}

/// What is wrong with an envelope.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum EnvelopeProblem {
    /// A JSON value of another kind.
    #[error("a message is an object")]
    NotAnObject,
    /// An array.
    #[error("batches are not supported; send each message by itself")]
    Batch,
    /// No array where a batch is expected.
    #[error("a batch is an array")]
    NotABatch,
    /// `[]`.
    #[error("a batch holds at least one message")]
    EmptyBatch,
    /// More messages than the receiver takes at once.
    #[error("the batch holds too many messages; send fewer at once")]
    LargeBatch,
    /// An envelope member that occurs twice.
    #[error("a member name occurs twice")]
    DuplicateMember,
    /// `jsonrpc` absent or different.
    #[error("`jsonrpc` must be \"2.0\"")]
    Version,
    /// `null`, fractional, or of another type.
    #[error("`id` must be a string or an integer")]
    Id,
    /// Of another type than string.
    #[error("`method` must be a string")]
    Method,
    /// No method where one is needed.
    #[error("`method` is missing")]
    NoMethod,
    /// Present and not an object, `null` included.
    #[error("`params` must be an object")]
    Params,
    /// A method beside a result or an error.
    #[error("a message has a method or an outcome, not both")]
    MethodAndOutcome,
    /// Both result and error.
    #[error("a response has a result or an error, not both")]
    TwoOutcomes,
    /// Neither result nor error.
    #[error("a response has a result or an error")]
    NoOutcome,
    /// `result` that is not an object.
    #[error("`result` must be an object")]
    Result,
    /// `error` without an integer code and a message.
    #[error("`error` must be an object with an integer code and a message")]
    Error,
}

/// Every member raw, so that each mistake has a name of its own.
#[derive(Default)]
struct Envelope<'a> {
    jsonrpc: Option<&'a RawValue>,
    id: Option<&'a RawValue>,
    method: Option<&'a RawValue>,
    params: Option<&'a RawValue>,
    result: Option<&'a RawValue>,
    error: Option<&'a RawValue>,
    twice: bool,
    id_twice: bool,
}

#[derive(Deserialize)]
#[serde(field_identifier, rename_all = "lowercase")]
enum Field {
    Jsonrpc,
    Id,
    Method,
    Params,
    Result,
    Error,
    #[serde(other)]
    Other,
}

impl<'de: 'a, 'a> Deserialize<'de> for Envelope<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct EnvelopeVisitor;
        impl<'de> Visitor<'de> for EnvelopeVisitor {
            type Value = Envelope<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a JSON-RPC message")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Envelope<'de>, A::Error> {
                let mut envelope = Envelope::default();
                while let Some(field) = map.next_key()? {
                    let place = match field {
                        Field::Jsonrpc => &mut envelope.jsonrpc,
                        Field::Id => {
                            envelope.id_twice |= envelope.id.is_some();
                            &mut envelope.id
                        }
                        Field::Method => &mut envelope.method,
                        Field::Params => &mut envelope.params,
                        Field::Result => &mut envelope.result,
                        Field::Error => &mut envelope.error,
                        Field::Other => {
                            map.next_value::<IgnoredAny>()?;
                            continue;
                        }
                    };
                    envelope.twice |= place.is_some();
                    *place = Some(map.next_value()?);
                }
                Ok(envelope)
            }
        }
        deserializer.deserialize_map(EnvelopeVisitor)
    }
}

impl<'a> Envelope<'a> {
    fn classify(self) -> Result<Incoming<'a>, EnvelopeError> {
        let id = if self.id_twice {
            None
        } else {
            self.id.and_then(RequestId::from_raw)
        };
        match self.check(id.as_ref()) {
            Err(problem) => Err(EnvelopeError::invalid(id, problem)),
            Ok(Shape::Call(method)) => Ok(match id {
                Some(id) => Incoming::Request(Request {
                    id,
                    method,
                    params: self.params,
                }),
                None => Incoming::Notification(Notification {
                    method,
                    params: self.params,
                }),
            }),
            Ok(Shape::Outcome(outcome)) => Ok(Incoming::Response(Response { id, outcome })),
        }
    }

    fn check(&self, id: Option<&RequestId>) -> Result<Shape<'a>, EnvelopeProblem> {
        if self.twice {
            return Err(EnvelopeProblem::DuplicateMember);
        }
        if self.jsonrpc.and_then(as_string).as_deref() != Some("2.0") {
            return Err(EnvelopeProblem::Version);
        }
        let unreadable_id = self.id.is_some() && id.is_none();
        match (self.method, self.result, self.error) {
            (Some(method), None, None) => {
                if unreadable_id {
                    return Err(EnvelopeProblem::Id);
                }
                if self.params.is_some_and(|params| !is_object(params)) {
                    return Err(EnvelopeProblem::Params);
                }
                as_string(method)
                    .map(Shape::Call)
                    .ok_or(EnvelopeProblem::Method)
            }
            (None, Some(result), None) => match id {
                None => Err(EnvelopeProblem::Id),
                Some(_) if is_object(result) => Ok(Shape::Outcome(Ok(result))),
                Some(_) => Err(EnvelopeProblem::Result),
            },
            (None, None, Some(error)) => {
                if unreadable_id && self.id.is_some_and(|id| id.get() != "null") {
                    return Err(EnvelopeProblem::Id);
                }
                object::read(error)
                    .map(|error| Shape::Outcome(Err(error)))
                    .map_err(|_| EnvelopeProblem::Error)
            }
            (None, Some(_), Some(_)) => Err(EnvelopeProblem::TwoOutcomes),
            (None, None, None) => Err(EnvelopeProblem::NoMethod),
            (Some(_), _, _) => Err(EnvelopeProblem::MethodAndOutcome),
        }
    }
}

enum Shape<'a> {
    Call(Cow<'a, str>),
    Outcome(Result<&'a RawValue, ErrorObject>),
}

/// Writes a request around params that serialize to an object.
///
/// # Errors
///
/// When the params do not serialize.
pub fn write_request<P: Serialize + ?Sized>(
    id: &RequestId,
    method: &str,
    params: &P,
) -> Result<Vec<u8>, serde_json::Error> {
    #[derive(Serialize)]
    struct Wire<'a, P: ?Sized> {
        jsonrpc: &'static str,
        id: &'a RequestId,
        method: &'a str,
        params: &'a P,
    }
    serde_json::to_vec(&Wire {
        jsonrpc: "2.0",
        id,
        method,
        params,
    })
}

/// Writes a notification around params that serialize to an object.
///
/// ```
/// use mrtr_protocol::jsonrpc::write_notification;
/// use mrtr_protocol::{JsonObject, method};
/// assert_eq!(
///     write_notification(method::TOOLS_LIST_CHANGED, &JsonObject::empty())?,
///     br#"{"jsonrpc":"2.0","method":"notifications/tools/list_changed","params":{}}"#
/// );
/// # Ok::<(), serde_json::Error>(())
/// ```
///
/// # Errors
///
/// When the params do not serialize.
pub fn write_notification<P: Serialize + ?Sized>(
    method: &str,
    params: &P,
) -> Result<Vec<u8>, serde_json::Error> {
    #[derive(Serialize)]
    struct Wire<'a, P: ?Sized> {
        jsonrpc: &'static str,
        method: &'a str,
        params: &'a P,
    }
    serde_json::to_vec(&Wire {
        jsonrpc: "2.0",
        method,
        params,
    })
}

/// Writes a success response around a result that is JSON text already, such as one that a ledger kept.
///
/// The text is copied as it is: that it is an object with a `resultType` is the caller's promise.
#[must_use]
pub fn write_result(id: &RequestId, result_json: &str) -> Vec<u8> {
    let mut out = head(Some(id), result_json.len());
    out.extend_from_slice(b"\"result\":");
    out.extend_from_slice(result_json.as_bytes());
    out.push(b'}');
    out
}

/// Writes a success response, serializing the result straight into the buffer.
///
/// # Errors
///
/// When the result does not serialize.
pub fn serialize_result<R: Serialize + ?Sized>(
    id: &RequestId,
    result: &R,
) -> Result<Vec<u8>, serde_json::Error> {
    let mut out = head(Some(id), 256);
    out.extend_from_slice(b"\"result\":");
    serde_json::to_writer(&mut out, result)?;
    out.push(b'}');
    Ok(out)
}

/// Writes an error response. Without a readable id it has no `id` member, never `null`.
#[must_use]
pub fn write_error(id: Option<&RequestId>, error: &ErrorObject) -> Vec<u8> {
    let mut out = head(id, 128);
    out.extend_from_slice(b"\"error\":");
    // A code, a string and raw JSON always serialize; writing to a vector does not fail.
    let _ = serde_json::to_writer(&mut out, error);
    out.push(b'}');
    out
}

/// `{"jsonrpc":"2.0","id":..,`
fn head(id: Option<&RequestId>, room: usize) -> Vec<u8> {
    let mut out = Vec::with_capacity(room + 64);
    out.extend_from_slice(b"{\"jsonrpc\":\"2.0\",");
    if let Some(id) = id {
        out.extend_from_slice(b"\"id\":");
        let _ = serde_json::to_writer(&mut out, id);
        out.push(b',');
    }
    out
}

#[cfg(test)]
mod tests;
