//! Completion: suggestions for an argument of a prompt or a variable of a resource template (*Completion*).

use std::borrow::Cow;
use std::fmt;

use serde::ser::{SerializeMap, Serializer};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::meta::ResultMeta;
use crate::object::{self, Members, as_string};
use crate::tools::ParamsError;

/// How many values one answer may hold.
pub const MAX_VALUES: usize = 100;

/// Params of `completion/complete`, borrowed.
///
/// Debug prints no values: they are what a person is typing.
#[derive(Clone)]
#[non_exhaustive]
pub struct CompleteParams<'a> {
    /// What the argument belongs to.
    pub reference: CompletionReference<'a>,
    /// The argument's name, or the variable's.
    pub name: Cow<'a, str>,
    /// What has been typed of it so far.
    pub value: Cow<'a, str>,
    /// Arguments that have been chosen already: names, each once, and values. Empty where the client sent no context.
    pub context: Vec<(Cow<'a, str>, Cow<'a, str>)>,
    /// `_meta`. Read it with [`RequestMeta`](crate::RequestMeta).
    pub meta: Option<&'a RawValue>,
}

impl<'a> CompleteParams<'a> {
    /// Asks for suggestions; context and `_meta` are public fields.
    pub fn new(
        reference: CompletionReference<'a>,
        name: impl Into<Cow<'a, str>>,
        value: impl Into<Cow<'a, str>>,
    ) -> Self {
        Self {
            reference,
            name: name.into(),
            value: value.into(),
            context: Vec::new(),
            meta: None,
        }
    }

    /// Reads the params of a request.
    ///
    /// # Errors
    ///
    /// [`ParamsError`]: `ref`, `argument` or `context` absent where required, of another type, or not of the shape that they have.
    pub fn of(params: &Members<'a>) -> Result<Self, ParamsError> {
        let reference = params.get("ref").ok_or(ParamsError::Missing("ref"))?;
        let argument = params
            .get("argument")
            .ok_or(ParamsError::Missing("argument"))?;
        let (name, value) = argument_of(argument).ok_or(ParamsError::Malformed("argument"))?;
        Ok(Self {
            reference: CompletionReference::from_raw(reference)
                .ok_or(ParamsError::Malformed("ref"))?,
            name,
            value,
            context: match params.get("context") {
                Some(context) => context_of(context).ok_or(ParamsError::Malformed("context"))?,
                None => Vec::new(),
            },
            meta: params.get("_meta"),
        })
    }

    /// The value that was chosen for another argument.
    #[must_use]
    pub fn chosen(&self, name: &str) -> Option<&str> {
        self.context
            .iter()
            .find(|(own, _)| own == name)
            .map(|(_, value)| value.as_ref())
    }
}

fn argument_of(raw: &RawValue) -> Option<(Cow<'_, str>, Cow<'_, str>)> {
    let members = Members::parse(raw).ok()?;
    Some((
        as_string(members.get("name")?)?,
        as_string(members.get("value")?)?,
    ))
}

fn context_of(raw: &RawValue) -> Option<Vec<(Cow<'_, str>, Cow<'_, str>)>> {
    let members = Members::parse(raw).ok()?;
    let Some(arguments) = members.get("arguments") else {
        return Some(Vec::new());
    };
    Members::parse(arguments)
        .ok()?
        .into_iter()
        .map(|(name, value)| Some((name, as_string(value)?)))
        .collect()
}

impl Serialize for CompleteParams<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        #[derive(Serialize)]
        struct Argument<'a> {
            name: &'a str,
            value: &'a str,
        }
        #[derive(Serialize)]
        struct Context<'a> {
            arguments: Chosen<'a>,
        }
        struct Chosen<'a>(&'a [(Cow<'a, str>, Cow<'a, str>)]);
        impl Serialize for Chosen<'_> {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.collect_map(self.0.iter().map(|(name, value)| (name, value)))
            }
        }
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("ref", &self.reference)?;
        let (name, value) = (&self.name, &self.value);
        map.serialize_entry("argument", &Argument { name, value })?;
        if !self.context.is_empty() {
            let arguments = Chosen(&self.context);
            map.serialize_entry("context", &Context { arguments })?;
        }
        if let Some(meta) = self.meta {
            map.serialize_entry("_meta", meta)?;
        }
        map.end()
    }
}

impl fmt::Debug for CompleteParams<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CompleteParams")
            .field("reference", &self.reference)
            .field("name", &self.name)
            .field("context", &self.context.len())
            .finish_non_exhaustive()
    }
}

/// What an argument belongs to.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum CompletionReference<'a> {
    /// `ref/prompt`: a prompt, by its name.
    Prompt {
        /// The prompt's name.
        name: Cow<'a, str>,
    },
    /// `ref/resource`: a resource template, by its text, or a resource.
    Resource {
        /// The template, or a URI.
        uri: Cow<'a, str>,
    },
}

impl<'a> CompletionReference<'a> {
    /// A prompt.
    pub fn prompt(name: impl Into<Cow<'a, str>>) -> Self {
        Self::Prompt { name: name.into() }
    }

    /// A resource template, or a resource.
    pub fn resource(uri: impl Into<Cow<'a, str>>) -> Self {
        Self::Resource { uri: uri.into() }
    }

    /// Reads a reference from its JSON text. `None`: no object, another type, or without the member that its type has.
    #[must_use]
    pub fn from_raw(raw: &'a RawValue) -> Option<Self> {
        let members = Members::parse(raw).ok()?;
        let text = |name| as_string(members.get(name)?);
        match text("type")?.as_ref() {
            "ref/prompt" => text("name").map(Self::prompt),
            "ref/resource" => text("uri").map(Self::resource),
            _ => None,
        }
    }
}

impl Serialize for CompletionReference<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let (kind, name, value) = match self {
            Self::Prompt { name } => ("ref/prompt", "name", name),
            Self::Resource { uri } => ("ref/resource", "uri", uri),
        };
        let mut map = serializer.serialize_map(Some(2))?;
        map.serialize_entry("type", kind)?;
        map.serialize_entry(name, value)?;
        map.end()
    }
}

/// Result of `completion/complete`. For the earlier era, [`earlier::result`](crate::earlier::result()) takes `resultType` out of it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "resultType", rename = "complete")]
#[non_exhaustive]
pub struct CompleteResult {
    /// The suggestions.
    #[serde(deserialize_with = "object::required")]
    pub completion: Completion,
    /// `_meta`.
    #[serde(
        rename = "_meta",
        default,
        skip_serializing_if = "ResultMeta::is_empty"
    )]
    pub meta: ResultMeta,
}

impl CompleteResult {
    /// A result with suggestions.
    #[must_use]
    pub fn new(completion: Completion) -> Self {
        Self {
            completion,
            meta: ResultMeta::default(),
        }
    }
}

/// Suggestions, the best first.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct Completion {
    /// The values: at most [`MAX_VALUES`] from a server that keeps to the specification.
    pub values: Vec<String>,
    /// How many there are in all, if that is known; it may be more than there are here.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub total: Option<u64>,
    /// Whether there are more than these.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub has_more: Option<bool>,
}

impl Completion {
    /// The first [`MAX_VALUES`] of `values`; `has_more` says whether one was left out. At most one more is asked of the iterator than is
    /// used, so it may be endless.
    ///
    /// ```
    /// use mrtr_protocol::Completion;
    /// let some = Completion::new(["python", "pytorch"]);
    /// assert_eq!((some.values.len(), some.has_more), (2, Some(false)));
    /// let many = Completion::new((0..).map(|n: u32| n.to_string()));
    /// assert_eq!((many.values.len(), many.has_more), (100, Some(true)));
    /// ```
    pub fn new(values: impl IntoIterator<Item = impl Into<String>>) -> Self {
        let mut rest = values.into_iter();
        let values = rest.by_ref().take(MAX_VALUES).map(Into::into).collect();
        Self {
            values,
            total: None,
            has_more: Some(rest.next().is_some()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::object::Object;

    fn read<T>(text: &str, check: impl FnOnce(Result<CompleteParams<'_>, ParamsError>) -> T) -> T {
        let raw: Box<RawValue> = serde_json::from_str(text).unwrap();
        check(CompleteParams::of(&Members::parse(&raw).unwrap()))
    }

    const GOOD: &str = r#"{"ref":{"type":"ref/prompt","name":"review"},"argument":{"name":"framework","value":"f\u006ca"},"context":{"arguments":{"language":"python"}}}"#;

    #[test]
    fn params_are_read_and_written() {
        read(GOOD, |params| {
            let params = params.unwrap();
            assert_eq!(params.reference, CompletionReference::prompt("review"));
            assert_eq!((&*params.name, &*params.value), ("framework", "fla"));
            assert_eq!(params.chosen("language"), Some("python"));
            assert_eq!(params.chosen("framework"), None);
            assert!(!format!("{params:?}").contains("python"));
            let written = serde_json::to_string(&params).unwrap();
            assert_eq!(written, GOOD.replace(r"\u006c", "l"));
        });
        let bare = r#"{"ref":{"type":"ref/resource","uri":"note://{id}"},"argument":{"name":"id","value":""}}"#;
        read(bare, |params| {
            let params = params.unwrap();
            assert_eq!(
                params.reference,
                CompletionReference::resource("note://{id}")
            );
            assert_eq!(serde_json::to_string(&params).unwrap(), bare);
        });
    }

    #[test]
    fn params_of_another_shape_are_refused() {
        for (from, to, error) in [
            (r#""ref":"#, r#""reference":"#, ParamsError::Missing("ref")),
            ("ref/prompt", "prompt", ParamsError::Malformed("ref")),
            ("ref/prompt", "ref/resource", ParamsError::Malformed("ref")),
            (
                r#"{"type":"ref/prompt","name":"review"}"#,
                r#"["ref/prompt","review"]"#,
                ParamsError::Malformed("ref"),
            ),
            (r#""review""#, "7", ParamsError::Malformed("ref")),
            (
                r#""argument":{"#,
                r#""arguments":{"#,
                ParamsError::Missing("argument"),
            ),
            (
                r#""value":"f\u006ca""#,
                r#""value":1"#,
                ParamsError::Malformed("argument"),
            ),
            (
                r#","value":"f\u006ca""#,
                "",
                ParamsError::Malformed("argument"),
            ),
            (
                r#"{"arguments":{"language":"python"}}"#,
                "null",
                ParamsError::Malformed("context"),
            ),
            (
                r#"{"language":"python"}"#,
                r#"["python"]"#,
                ParamsError::Malformed("context"),
            ),
            (r#""python""#, "null", ParamsError::Malformed("context")),
        ] {
            assert!(GOOD.contains(from), "{from}");
            read(&GOOD.replacen(from, to, 1), |params| {
                assert_eq!(params.unwrap_err(), error, "{to}");
            });
        }
    }

    #[test]
    fn no_answer_is_longer_than_the_specification_has_it() {
        let of = |n: usize| Completion::new((0..n).map(|n| n.to_string()));
        for (n, values, more) in [
            (0, 0, false),
            (99, 99, false),
            (100, 100, false),
            (101, 100, true),
        ] {
            let completion = of(n);
            assert_eq!(completion.values.len(), values, "{n}");
            assert_eq!(completion.has_more, Some(more), "{n}");
        }
    }

    #[test]
    fn results_are_objects() {
        let read = |text: &str| serde_json::from_str::<Object<CompleteResult>>(text);
        let good =
            r#"{"resultType":"complete","completion":{"values":["a"],"total":2,"hasMore":true}}"#;
        let Object(result) = read(good).unwrap();
        assert_eq!(serde_json::to_string(&result).unwrap(), good);
        assert_eq!(
            crate::earlier::result(good).unwrap(),
            r#"{"completion":{"values":["a"],"total":2,"hasMore":true}}"#
        );
        // As the earlier era writes it.
        assert!(read(r#"{"completion":{"values":[]}}"#).is_ok());
        for bad in [
            r#"{"completion":[["a"]]}"#,
            r#"{"completion":{"values":"a"}}"#,
            r#"{"completion":{"values":[1]}}"#,
            r#"{"completion":{}}"#,
            "{}",
        ] {
            assert!(read(bad).is_err(), "{bad}");
        }
    }
}
