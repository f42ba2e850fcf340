//! Multi round-trip requests: questions, answers and the result that carries the questions.

use std::borrow::Cow;
use std::fmt;

use serde::de::{self, Deserializer, MapAccess, Visitor};
use serde::ser::{SerializeMap, Serializer};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::elicit::{ElicitForm, ElicitUrl};
use crate::kind::{Kind, KindSet};
use crate::meta::ResultMeta;
use crate::method;
use crate::object::{self, JsonObject, Members, as_string, has_duplicate};
use crate::sampling::CreateMessageParams;

/// What a result says it is (*Overview, ResultType*). Look at this before anything else in a result.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ResultType {
    /// The final content. Also what an absent `resultType` means: servers of earlier revisions send none.
    Complete,
    /// Questions, or a state to come back with.
    InputRequired,
}

impl ResultType {
    /// Reads the type of a result.
    ///
    /// # Errors
    ///
    /// [`ResultTypeError`]: a value that is not defined must be considered invalid, and so must one that is not a string.
    pub fn of(result: &RawValue) -> Result<Self, ResultTypeError> {
        let members = Members::parse(result).map_err(|_| ResultTypeError::NotAnObject)?;
        match members.get("resultType").map(as_string) {
            None => Ok(Self::Complete),
            Some(Some(text)) if text == "complete" => Ok(Self::Complete),
            Some(Some(text)) if text == "input_required" => Ok(Self::InputRequired),
            Some(_) => Err(ResultTypeError::Unknown),
        }
    }
}

/// Why a result cannot be told from another.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ResultTypeError {
    /// The result is no object, or has a member twice.
    #[error("the result is not an object with distinct members")]
    NotAnObject,
    /// A value other than `complete` and `input_required`.
    #[error("the result's `resultType` is not one that this revision defines")]
    Unknown,
}

/// One question: a request object without an id.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct InputRequest {
    /// `elicitation/create`, `sampling/createMessage` or `roots/list`; a client may also meet one that it does not know.
    pub method: String,
    /// Its params.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub params: Option<JsonObject>,
}

/// Strict: an object with a string `method` and, if there, an object `params`.
impl<'de> Deserialize<'de> for InputRequest {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        struct Wire {
            method: String,
            #[serde(default, deserialize_with = "object::present")]
            params: Option<JsonObject>,
        }
        let Wire { method, params } = object::required(deserializer)?;
        Ok(Self { method, params })
    }
}

impl InputRequest {
    /// A form.
    #[must_use]
    pub fn form(form: &ElicitForm) -> Self {
        Self {
            method: method::ELICITATION_CREATE.to_owned(),
            params: JsonObject::from_serialize(form).ok(),
        }
    }

    /// A page to be opened.
    #[must_use]
    pub fn url(page: &ElicitUrl) -> Self {
        Self {
            method: method::ELICITATION_CREATE.to_owned(),
            params: JsonObject::from_serialize(page).ok(),
        }
    }

    /// A question for the client's model. Deprecated since 2026-07-28: a new server calls a model provider itself.
    #[must_use]
    pub fn sampling(params: &CreateMessageParams) -> Self {
        Self {
            method: method::SAMPLING_CREATE_MESSAGE.to_owned(),
            params: JsonObject::from_serialize(params).ok(),
        }
    }

    /// A question for the client's folders. Deprecated since 2026-07-28: a new server takes folders as parameters, resource URIs or
    /// configuration.
    #[must_use]
    pub fn roots() -> Self {
        Self {
            method: method::ROOTS_LIST.to_owned(),
            params: None,
        }
    }

    /// Which kind of question it is, by method and params, before the params are read in full.
    ///
    /// # Errors
    ///
    /// [`QuestionError::UnknownMethod`] and [`QuestionError::UnknownMode`].
    pub fn kind(&self) -> Result<Kind, QuestionError> {
        let members = match &self.params {
            Some(params) => params.members().map_err(|_| QuestionError::Malformed)?,
            None => Members::default(),
        };
        match self.method.as_str() {
            method::ELICITATION_CREATE => match members.get("mode").map(as_string) {
                None => Ok(Kind::Form),
                Some(Some(mode)) if mode == "form" => Ok(Kind::Form),
                Some(Some(mode)) if mode == "url" => Ok(Kind::Url),
                Some(_) => Err(QuestionError::UnknownMode),
            },
            method::SAMPLING_CREATE_MESSAGE
                if members.get("tools").or(members.get("toolChoice")).is_some() =>
            {
                Ok(Kind::SamplingWithTools)
            }
            method::SAMPLING_CREATE_MESSAGE => Ok(Kind::Sampling),
            method::ROOTS_LIST => Ok(Kind::Roots),
            _ => Err(QuestionError::UnknownMethod),
        }
    }

    /// The form that it asks for.
    ///
    /// # Errors
    ///
    /// [`QuestionError::Malformed`] when it is no form, or one without a message or schema, or with a `url`.
    pub fn as_form(&self) -> Result<ElicitForm, QuestionError> {
        match (self.kind()?, &self.params) {
            (Kind::Form, Some(params)) => params.read().map_err(|_| QuestionError::Malformed),
            _ => Err(QuestionError::Malformed),
        }
    }

    /// The page that it asks to be opened.
    ///
    /// # Errors
    ///
    /// [`QuestionError::Malformed`] when it is no URL question, or one without a message or URL, or with a `requestedSchema`.
    pub fn as_url(&self) -> Result<ElicitUrl, QuestionError> {
        match (self.kind()?, &self.params) {
            (Kind::Url, Some(params)) => params.read().map_err(|_| QuestionError::Malformed),
            _ => Err(QuestionError::Malformed),
        }
    }

    /// What it asks the model. Deprecated since 2026-07-28: a new server calls a model provider itself.
    ///
    /// Not guaranteed: that the conversation can be gone on with; see [`CreateMessageParams::check`].
    ///
    /// # Errors
    ///
    /// [`QuestionError::Malformed`] when it is no sampling request, or one of another shape.
    pub fn as_sampling(&self) -> Result<CreateMessageParams, QuestionError> {
        match (self.kind()?, &self.params) {
            (Kind::Sampling | Kind::SamplingWithTools, Some(params)) => {
                params.read().map_err(|_| QuestionError::Malformed)
            }
            _ => Err(QuestionError::Malformed),
        }
    }
}

/// Why a question cannot be put to anyone.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum QuestionError {
    /// The method is none of the three that the specification allows.
    #[error("the method is not one that a server may put in `inputRequests`")]
    UnknownMethod,
    /// An elicitation whose mode is neither `form` nor `url`.
    #[error("the elicitation's mode is neither \"form\" nor \"url\"")]
    UnknownMode,
    /// The params do not fit the method.
    #[error("the question's params do not fit its method")]
    Malformed,
}

/// Questions by key, in the server's order. Keys are unique.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct InputRequests(Vec<(String, InputRequest)>);

/// A key that was used before.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the key {0:?} is used twice in one round; give each question a key of its own")]
pub struct DuplicateKey(pub String);

impl InputRequests {
    /// No questions.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a question.
    ///
    /// # Errors
    ///
    /// [`DuplicateKey`] when the key is taken.
    pub fn insert(
        &mut self,
        key: impl Into<String>,
        request: InputRequest,
    ) -> Result<(), DuplicateKey> {
        let key = key.into();
        if self.get(&key).is_some() {
            return Err(DuplicateKey(key));
        }
        self.0.push((key, request));
        Ok(())
    }

    /// The question under this key.
    #[must_use]
    pub fn get(&self, key: &str) -> Option<&InputRequest> {
        self.0
            .iter()
            .find(|(own, _)| own == key)
            .map(|(_, request)| request)
    }

    /// Keys and questions in order.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &InputRequest)> {
        self.0.iter().map(|(key, request)| (key.as_str(), request))
    }

    /// How many questions there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The kinds that a client must have declared to be put these.
    ///
    /// # Errors
    ///
    /// The first question that is of no known kind.
    pub fn kinds(&self) -> Result<KindSet, QuestionError> {
        self.0.iter().map(|(_, request)| request.kind()).collect()
    }
}

impl Serialize for InputRequests {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(self.len()))?;
        for (key, request) in self.iter() {
            map.serialize_entry(key, request)?;
        }
        map.end()
    }
}

impl<'de> Deserialize<'de> for InputRequests {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct RequestsVisitor;
        impl<'de> Visitor<'de> for RequestsVisitor {
            type Value = InputRequests;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object of input requests")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<InputRequests, A::Error> {
                let mut requests: Vec<(String, InputRequest)> = Vec::new();
                while let Some(entry) = map.next_entry()? {
                    requests.push(entry);
                }
                if has_duplicate(requests.iter().map(|(key, _)| key.as_str())) {
                    return Err(de::Error::custom("a key occurs twice"));
                }
                Ok(InputRequests(requests))
            }
        }
        deserializer.deserialize_map(RequestsVisitor)
    }
}

/// Answers by key, as a client sent them: an object of objects, and no more is known about them.
///
/// What an answer means depends on what was *asked* under its key. Look that up first, then read the answer as that kind, for instance
/// with [`InputAnswer::parse`](crate::InputAnswer::parse). Nothing here guesses.
#[derive(Debug, Clone, Default)]
pub struct InputResponses<'a>(Members<'a>);

/// Why `inputResponses` cannot be read: -32602.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum InputResponsesError {
    /// `null`, an array, another value, or a key twice.
    #[error("`inputResponses` must be an object with one answer for each key")]
    NotAnObject,
    /// More answers than [`InputResponses::LIMIT`].
    #[error("`inputResponses` holds more than {limit} answers", limit = InputResponses::LIMIT)]
    TooMany,
    /// An answer that is no object.
    #[error("each answer in `inputResponses` must be an object")]
    AnswerNotAnObject,
}

impl<'a> InputResponses<'a> {
    /// How many answers are read at most: more than a person would give, few enough that looking keys up one by one stays cheap.
    pub const LIMIT: usize = 256;

    /// Reads the member's raw value; `null` is an error, not an absence.
    ///
    /// # Errors
    ///
    /// [`InputResponsesError`].
    pub fn parse(raw: &'a RawValue) -> Result<Self, InputResponsesError> {
        let members = Members::parse(raw).map_err(|_| InputResponsesError::NotAnObject)?;
        if members.len() > Self::LIMIT {
            return Err(InputResponsesError::TooMany);
        }
        if members.iter().any(|(_, answer)| !object::is_object(answer)) {
            return Err(InputResponsesError::AnswerNotAnObject);
        }
        Ok(Self(members))
    }

    /// The answer under this key.
    #[must_use]
    pub fn get(&self, key: &str) -> Option<&'a RawValue> {
        self.0.get(key)
    }

    /// Keys and answers in the client's order.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &'a RawValue)> {
        self.0.iter()
    }

    /// How many answers there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// `resultType: "input_required"`: at least one of questions and state.
///
/// The state is exactly the string that was on the wire, the empty one included; a client must not look into it.
///
/// Debug does not print the state: it is a secret where callers are anonymous.
#[derive(Clone, PartialEq)]
pub struct InputRequiredResult {
    input_requests: Option<InputRequests>,
    request_state: Option<String>,
    /// `_meta`.
    pub meta: ResultMeta,
}

/// Why a round cannot be sent or taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RoundError {
    /// Neither a question nor a state.
    #[error("an input_required result needs at least one question or a request state")]
    Empty,
    /// `inputRequests` is there and no object of requests.
    #[error("`inputRequests` must be an object of requests with distinct keys")]
    Requests,
    /// `requestState` is there and no string, `null` included.
    #[error("`requestState` must be a string")]
    StateNotAString,
    /// The result is no object, or its `_meta` is none.
    #[error("the result and its `_meta` must be objects")]
    NotAnObject,
}

impl InputRequiredResult {
    /// A round with questions, a state, or both. An empty map of questions counts as none.
    ///
    /// # Errors
    ///
    /// [`RoundError::Empty`].
    pub fn new(
        input_requests: InputRequests,
        request_state: Option<String>,
    ) -> Result<Self, RoundError> {
        let input_requests = (!input_requests.is_empty()).then_some(input_requests);
        if input_requests.is_none() && request_state.is_none() {
            return Err(RoundError::Empty);
        }
        Ok(Self {
            input_requests,
            request_state,
            meta: ResultMeta::default(),
        })
    }

    /// Reads a result whose [`ResultType`] is `InputRequired`. Members that do not belong to a round are ignored.
    ///
    /// # Errors
    ///
    /// [`RoundError`].
    pub fn parse(result: &RawValue) -> Result<Self, RoundError> {
        let members = Members::parse(result).map_err(|_| RoundError::NotAnObject)?;
        let input_requests: InputRequests = match members.get("inputRequests") {
            Some(raw) => serde_json::from_str(raw.get()).map_err(|_| RoundError::Requests)?,
            None => InputRequests::new(),
        };
        let request_state = match members.get("requestState") {
            Some(raw) => Some(
                as_string(raw)
                    .map(Cow::into_owned)
                    .ok_or(RoundError::StateNotAString)?,
            ),
            None => None,
        };
        let meta = match members.get("_meta") {
            Some(raw) => serde_json::from_str(raw.get()).map_err(|_| RoundError::NotAnObject)?,
            None => ResultMeta::default(),
        };
        Ok(Self {
            meta,
            ..Self::new(input_requests, request_state)?
        })
    }

    /// The questions; `None` when there are none.
    #[must_use]
    pub fn input_requests(&self) -> Option<&InputRequests> {
        self.input_requests.as_ref()
    }

    /// The state to echo.
    #[must_use]
    pub fn request_state(&self) -> Option<&str> {
        self.request_state.as_deref()
    }

    /// Questions, state and `_meta`.
    #[must_use]
    pub fn into_parts(self) -> (InputRequests, Option<String>, ResultMeta) {
        (
            self.input_requests.unwrap_or_default(),
            self.request_state,
            self.meta,
        )
    }
}

impl fmt::Debug for InputRequiredResult {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("InputRequiredResult")
            .field("input_requests", &self.input_requests)
            .field(
                "request_state_len",
                &self.request_state.as_ref().map(String::len),
            )
            .field("meta", &self.meta)
            .finish()
    }
}

impl Serialize for InputRequiredResult {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("resultType", "input_required")?;
        if let Some(requests) = &self.input_requests {
            map.serialize_entry("inputRequests", requests)?;
        }
        if let Some(state) = &self.request_state {
            map.serialize_entry("requestState", state)?;
        }
        if !self.meta.is_empty() {
            map.serialize_entry("_meta", &self.meta)?;
        }
        map.end()
    }
}

#[cfg(test)]
mod tests;
