//! What a request carries in `_meta` besides what the protocol needs: entries of an application's own, and a trace context.
//!
//! Entries that a handler sees are bound into the state, as its arguments are: a retry with another value belongs to a
//! different request. A trace context is not, because each request has its own.

use std::fmt;

use mrtr_protocol::Members;
use mrtr_protocol::meta::{BAGGAGE, TRACEPARENT, TRACESTATE};
use mrtr_protocol::object::as_string;
use serde::de::DeserializeOwned;
use serde_json::value::RawValue;

use crate::extract::{Call, Extract, ExtractError, Spec};

/// A type that is read from an entry of a request's `_meta`; [`Meta`] extracts it.
pub trait MetaEntry: DeserializeOwned + Send + 'static {
    /// The entry's key, such as `com.example/tenant`. The builder refuses keys of another form, and those that the
    /// specification gives a meaning to.
    const KEY: &'static str;
}

/// An entry of the request's `_meta`. An extractor; `Option<Meta<T>>` where it may be absent.
///
/// It is whatever the client says, and nobody has checked it: never take from it who is calling. It is bound to the state, so
/// that a retry carries the same value, or belongs to a different request. A request without it, or with another shape, is
/// answered with -32602.
///
/// ```
/// use mrtr_server::{Meta, MetaEntry, tool};
///
/// #[derive(serde::Deserialize)]
/// struct Locale(String);
///
/// impl MetaEntry for Locale {
///     const KEY: &'static str = "com.example/locale";
/// }
///
/// async fn greet(locale: Option<Meta<Locale>>) -> &'static str {
///     match locale {
///         Some(Meta(Locale(tag))) if tag.starts_with("de") => "Guten Tag!",
///         _ => "Hello!",
///     }
/// }
/// # let _ = tool("greet", greet);
/// ```
///
/// Specification: `basic/index`, "`_meta`".
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Meta<T>(pub T);

impl<T: MetaEntry> Extract for Meta<T> {
    fn describe(spec: &mut Spec) {
        spec.meta_entry(T::KEY);
    }

    fn extract(call: &mut Call<'_>) -> Result<Self, ExtractError> {
        Option::<Self>::extract(call)?.ok_or(ExtractError::Meta(T::KEY))
    }
}

impl<T: MetaEntry> Extract for Option<Meta<T>> {
    fn describe(spec: &mut Spec) {
        spec.meta_entry(T::KEY);
    }

    fn extract(call: &mut Call<'_>) -> Result<Self, ExtractError> {
        let read = |raw: &RawValue| serde_json::from_str(raw.get()).map(Meta);
        call.meta_entry(T::KEY)
            .map(read)
            .transpose()
            .map_err(|_| ExtractError::Meta(T::KEY))
    }
}

/// Where in a distributed trace this request belongs, as the client says. An extractor.
///
/// It is advisory: it is not bound to the state, differs from round to round, and decides nothing. What is not spelt as W3C Trace
/// Context and W3C Baggage have it counts as absent. Trace and parent are recorded on the call's span, as `trace_id` and
/// `parent_id`; nothing else of it is logged.
///
/// **Not guaranteed:** anything about its truth. Baggage in particular is text from a stranger.
///
/// Specification: `basic/index`, "OpenTelemetry trace context".
#[derive(Clone, Default, PartialEq, Eq)]
pub struct TraceContext {
    traceparent: Option<String>,
    tracestate: Option<String>,
    baggage: Option<String>,
}

impl TraceContext {
    /// The `traceparent`, to be sent on or given to a tracer.
    #[must_use]
    pub fn traceparent(&self) -> Option<&str> {
        self.traceparent.as_deref()
    }

    /// The `tracestate`; there is none without a [`traceparent`](Self::traceparent).
    #[must_use]
    pub fn tracestate(&self) -> Option<&str> {
        self.tracestate.as_deref()
    }

    /// The `baggage`.
    #[must_use]
    pub fn baggage(&self) -> Option<&str> {
        self.baggage.as_deref()
    }

    /// The trace: 32 hexadecimal digits.
    #[must_use]
    pub fn trace_id(&self) -> Option<&str> {
        self.traceparent()?.get(3..35)
    }

    /// The span that this request was sent in: 16 hexadecimal digits.
    #[must_use]
    pub fn parent_id(&self) -> Option<&str> {
        self.traceparent()?.get(36..52)
    }

    /// Whether the client records the trace. False where there is none.
    #[must_use]
    pub fn is_sampled(&self) -> bool {
        let flags = self.traceparent().and_then(|parent| parent.get(53..55));
        flags.is_some_and(|flags| u8::from_str_radix(flags, 16).is_ok_and(|flags| flags & 1 == 1))
    }

    fn of(meta: &Members<'_>) -> Self {
        let text = |key: &str, good: fn(&str) -> bool| {
            let text = as_string(meta.get(key)?)?;
            good(&text).then(|| text.into_owned())
        };
        let traceparent = text(TRACEPARENT, is_traceparent);
        let tracestate = traceparent
            .is_some()
            .then(|| text(TRACESTATE, is_tracestate));
        Self {
            tracestate: tracestate.flatten(),
            traceparent,
            baggage: text(BAGGAGE, is_baggage),
        }
    }
}

/// Baggage is not the log's.
impl fmt::Debug for TraceContext {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TraceContext")
            .field("traceparent", &self.traceparent)
            .finish_non_exhaustive()
    }
}

impl Extract for TraceContext {
    fn extract(call: &mut Call<'_>) -> Result<Self, ExtractError> {
        Ok(call.notes.trace.clone())
    }
}

/// W3C Trace Context, section 3.2: `version-trace-parent-flags`; a later version may have more behind.
fn is_traceparent(text: &str) -> bool {
    const LONGEST: usize = 256;
    let is_hex = |part: &str, length: usize| {
        part.len() == length
            && part
                .bytes()
                .all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
    };
    let is_zero = |part: &str| part.bytes().all(|byte| byte == b'0');
    let mut parts = text.splitn(5, '-');
    let (Some(version), Some(trace), Some(parent), Some(flags)) =
        (parts.next(), parts.next(), parts.next(), parts.next())
    else {
        return false;
    };
    text.len() <= LONGEST
        && is_hex(version, 2)
        && version != "ff"
        && is_hex(trace, 32)
        && !is_zero(trace)
        && is_hex(parent, 16)
        && !is_zero(parent)
        && is_hex(flags, 2)
        && (parts.next().is_none() || version != "00")
}

/// Section 3.3: at most 32 members `key=value`, 512 characters that are kept by everybody.
fn is_tracestate(text: &str) -> bool {
    let is_key = |key: &str| {
        !key.is_empty()
            && key.bytes().all(
                |byte| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'_' | b'-' | b'*' | b'/' | b'@'),
            )
    };
    let is_value = |value: &str| {
        !value.is_empty()
            && value
                .bytes()
                .all(|byte| matches!(byte, b' '..=b'~') && byte != b'=')
    };
    let is_member = |member: &str| match member.trim_matches([' ', '\t']) {
        // An empty member is allowed, and says nothing.
        "" => true,
        member => member
            .split_once('=')
            .is_some_and(|(key, value)| is_key(key) && is_value(value)),
    };
    text.len() <= 512 && text.split(',').count() <= 32 && text.split(',').all(is_member)
}

/// W3C Baggage, section 3.3: members `key=value` with properties behind, 64 of them and 8192 bytes.
fn is_baggage(text: &str) -> bool {
    let is_token = |key: &str| {
        !key.is_empty()
            && key
                .bytes()
                .all(|byte| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte))
    };
    let is_value = |value: &str| {
        let octet = |byte| matches!(byte, b'!'..=b'~') && !b"\",;\\".contains(&byte);
        value.bytes().all(octet)
    };
    let space = [' ', '\t'];
    let is_pair = |pair: &str| {
        pair.split_once('=').is_some_and(|(key, value)| {
            is_token(key.trim_matches(space)) && is_value(value.trim_matches(space))
        })
    };
    let is_member = |member: &str| {
        let mut pieces = member.split(';');
        pieces.next().is_some_and(is_pair)
            && pieces.all(|property| is_pair(property) || is_token(property.trim_matches(space)))
    };
    text.len() <= 8192 && text.split(',').count() <= 64 && text.split(',').all(is_member)
}

/// What a handler may see of a request's `_meta`.
#[derive(Debug, Clone, Default)]
pub(crate) struct Notes {
    pub(crate) trace: TraceContext,
    entries: Vec<(&'static str, Box<RawValue>)>,
}

impl Notes {
    /// The entries of these keys, and the trace context.
    pub(crate) fn of(meta: Option<&RawValue>, keys: &[&'static str]) -> Self {
        let Some(meta) = meta.and_then(|raw| Members::parse(raw).ok()) else {
            return Self::default();
        };
        let entry = |key: &&'static str| Some((*key, meta.get(key)?.to_owned()));
        Self {
            trace: TraceContext::of(&meta),
            entries: keys.iter().filter_map(entry).collect(),
        }
    }

    pub(crate) fn entry(&self, key: &str) -> Option<&RawValue> {
        let found = self.entries.iter().find(|(own, _)| *own == key);
        found.map(|(_, value)| value.as_ref())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TRACE: &str = "00-0af7651916cd43dd8448eb211c80319c-00f067aa0ba902b7-01";

    #[test]
    fn trace_parents_are_those_of_w3c() {
        for good in [
            TRACE.to_owned(),
            TRACE.replace("-01", "-00"),
            TRACE.replace("-01", "-ff"),
            TRACE.replacen("00-", "cc-", 1),
            TRACE.replacen("00-", "cc-", 1) + "-what-the-future-will-be-like",
        ] {
            assert!(is_traceparent(&good), "{good}");
        }
        for bad in [
            String::new(),
            "00".into(),
            TRACE.to_uppercase(),
            TRACE.replacen("00-", "ff-", 1),
            TRACE.replacen("00-", "0-", 1),
            TRACE.to_owned() + "-x",
            TRACE.to_owned() + "-",
            TRACE.replace("-01", "-1"),
            TRACE.replace("-01", ""),
            TRACE.replace("0af7651916cd43dd8448eb211c80319c", &"0".repeat(32)),
            TRACE.replace("00f067aa0ba902b7", &"0".repeat(16)),
            TRACE.replace('c', "g"),
            TRACE.replace('-', "_"),
            format!(" {TRACE}"),
            TRACE.replacen("00-", "cc-", 1) + "-" + &"x".repeat(300),
            "caf\u{e9}".repeat(20),
        ] {
            assert!(!is_traceparent(&bad), "{bad}");
        }
    }

    #[test]
    fn trace_states_and_baggage_are_those_of_w3c() {
        for good in [
            "",
            "rojo=00f067aa0ba902b7,congo=t61rcWkgMzE",
            "a@b=1 2, c/d=e,,",
            "fw529a3039@dt=FfAAAAAA",
        ] {
            assert!(is_tracestate(good), "{good}");
        }
        for bad in ["a", "A=1", "=1", "a=", "a=b=c", "a=\u{e9}", "a=b\n"] {
            assert!(!is_tracestate(bad), "{bad}");
        }
        assert!(
            !is_tracestate(&["a=b"; 33].join(","))
                && !is_tracestate(&format!("a={}", "b".repeat(511)))
        );
        for good in [
            "userId=alice,serverNode=DF%2028",
            "a=1;p;q=2 , b=",
            "key1=value1;property1;property2",
        ] {
            assert!(is_baggage(good), "{good}");
        }
        for bad in [
            "", "a", "=b", "a=b c", "a=\"b\"", "a=b;", "a=\u{e9}", "a b=c", "a=b,",
        ] {
            assert!(!is_baggage(bad), "{bad}");
        }
        assert!(
            !is_baggage(&["a=b"; 65].join(",")) && !is_baggage(&format!("a={}", "b".repeat(8192)))
        );
    }
}
