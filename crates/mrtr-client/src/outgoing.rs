//! A request before it is known in which era, under which id and over which transport it is sent.

use std::borrow::Cow;

use http::HeaderName;
use mrtr_protocol::jsonrpc::write_request;
use mrtr_protocol::object::as_string;
use mrtr_protocol::{LogLevel, ProgressToken, RawObject, RequestId, meta, method};
use serde::ser::{Serialize, SerializeMap, Serializer};
use serde_json::value::{RawValue, to_raw_value};

use crate::error::RequestError;
use crate::target::Target;

/// Headers beyond those that every request has.
pub(crate) type Headers = Vec<(HeaderName, String)>;

/// A member of the params.
type Member<'a> = (&'static str, Cow<'a, RawValue>);

/// A request to be sent, once or, where that does no harm, again.
#[derive(Debug, Clone)]
pub(crate) struct Outgoing<'a> {
    pub(crate) method: &'static str,
    /// What it is for, if it is a call.
    pub(crate) target: Option<&'a Target>,
    /// `Mcp-Param-*`, for the modern era over HTTP.
    pub(crate) headers: Headers,
    members: Vec<Member<'a>>,
    /// Answers and state, which the modern era alone has.
    round: Vec<Member<'a>>,
}

impl<'a> Outgoing<'a> {
    pub(crate) fn new(method: &'static str) -> Self {
        Self {
            method,
            target: None,
            headers: Vec::new(),
            members: Vec::new(),
            round: Vec::new(),
        }
    }

    /// With one more member.
    ///
    /// # Errors
    ///
    /// [`RequestError::Unwritable`].
    pub(crate) fn with<T: Serialize + ?Sized>(
        mut self,
        name: &'static str,
        value: &T,
    ) -> Result<Self, RequestError> {
        self.members.push((name, Cow::Owned(raw(value)?)));
        Ok(self)
    }

    /// With one more member that is JSON already.
    pub(crate) fn with_raw(mut self, name: &'static str, value: Option<&'a RawValue>) -> Self {
        self.members
            .extend(value.map(|value| (name, Cow::Borrowed(value))));
        self
    }

    /// With a member that only the modern era has.
    pub(crate) fn with_round<T: Serialize + ?Sized>(
        mut self,
        name: &'static str,
        value: Option<&T>,
    ) -> Result<Self, RequestError> {
        if let Some(value) = value {
            self.round.push((name, Cow::Owned(raw(value)?)));
        }
        Ok(self)
    }

    /// A member that is a string.
    pub(crate) fn member(&self, name: &str) -> Option<String> {
        let (_, value) = self.members.iter().find(|(own, _)| *own == name)?;
        as_string(value).map(Cow::into_owned)
    }

    /// Whether it answers a round of the modern era: no server of another era can know it.
    pub(crate) fn is_retry(&self) -> bool {
        !self.round.is_empty()
    }

    /// Whether only a server of the modern era can know the method.
    pub(crate) fn is_modern_only(&self) -> bool {
        matches!(self.method, method::DISCOVER | method::SUBSCRIPTIONS_LISTEN)
    }

    /// Whether it may have an effect, so that nothing here sends it twice.
    pub(crate) fn may_act(&self) -> bool {
        method::MAY_ASK.contains(&self.method)
    }

    /// The message for the modern era.
    pub(crate) fn modern(&self, id: &RequestId, meta: &Meta<'_>) -> Result<Vec<u8>, RequestError> {
        self.write(id, meta, &self.round)
    }

    /// The message for the earlier era.
    pub(crate) fn earlier(&self, id: &RequestId, meta: &Meta<'_>) -> Result<Vec<u8>, RequestError> {
        self.write(id, meta, &[])
    }

    fn write(
        &self,
        id: &RequestId,
        meta: &Meta<'_>,
        round: &[Member<'_>],
    ) -> Result<Vec<u8>, RequestError> {
        struct Params<'p, 'a>(&'p [Member<'a>], &'p [Member<'a>], &'p Meta<'p>);
        impl Serialize for Params<'_, '_> {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                let mut map = serializer.serialize_map(None)?;
                for (name, value) in self.0.iter().chain(self.1) {
                    map.serialize_entry(name, value.as_ref())?;
                }
                if !self.2.is_empty() {
                    map.serialize_entry("_meta", self.2)?;
                }
                map.end()
            }
        }
        write_request(id, self.method, &Params(&self.members, round, meta))
            .map_err(|error| RequestError::Unwritable(error.to_string()))
    }
}

fn raw<T: Serialize + ?Sized>(value: &T) -> Result<Box<RawValue>, RequestError> {
    to_raw_value(value).map_err(|error| RequestError::Unwritable(error.to_string()))
}

/// `_meta` of one request.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Meta<'a> {
    /// Version, identity and capabilities: the modern era.
    pub(crate) fields: Option<&'a RawObject>,
    pub(crate) progress: Option<&'a ProgressToken>,
    /// The modern era: the earlier one sets it for the session.
    pub(crate) log_level: Option<LogLevel>,
    /// The host's own.
    pub(crate) more: Option<&'a RawObject>,
}

impl Meta<'_> {
    fn is_empty(&self) -> bool {
        self.fields.is_none_or(RawObject::is_empty)
            && self.progress.is_none()
            && self.log_level.is_none()
            && self.more.is_none_or(RawObject::is_empty)
    }
}

impl Serialize for Meta<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        let own = self.fields.into_iter().flat_map(RawObject::iter);
        let more = self.more.into_iter().flat_map(RawObject::iter);
        for (name, value) in own.chain(more) {
            map.serialize_entry(name, value)?;
        }
        if let Some(token) = self.progress {
            map.serialize_entry(meta::PROGRESS_TOKEN, token)?;
        }
        if let Some(level) = self.log_level {
            map.serialize_entry(meta::LOG_LEVEL, &level)?;
        }
        map.end()
    }
}
