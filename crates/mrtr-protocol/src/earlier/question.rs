//! From a modern question to one that an earlier revision has words for.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};

use super::EarlierRevision;
use crate::method;
use crate::mrtr::InputRequest;
use crate::object::{JsonObject, Object, RawObject};

/// The question as `revision` writes it.
///
/// Revision 2025-06-18 spells a choice with titles as `enum` beside `enumNames`, and knows no `mode`; a client of it that is given `oneOf`
/// may take the field for free text. The answer is the same word in both spellings. Everything else is returned as it is, and so is a
/// form that cannot be read.
///
/// **Not guaranteed:** that the revision has every field of a form: 2025-06-18 has no list of choices, and such a field is left as it is.
///
/// Specification: revision 2025-06-18, `client/elicitation`, "Supported Schema Types".
#[must_use]
pub fn question(revision: EarlierRevision, question: &InputRequest) -> Cow<'_, InputRequest> {
    if revision != EarlierRevision::V2025_06_18 || question.method != method::ELICITATION_CREATE {
        return Cow::Borrowed(question);
    }
    match question.params.as_ref().and_then(without_one_of) {
        Some(params) => Cow::Owned(InputRequest {
            method: question.method.clone(),
            params: Some(params),
        }),
        None => Cow::Borrowed(question),
    }
}

/// The params with each choice spelt the old way. `None`: they are of another shape.
fn without_one_of(params: &JsonObject) -> Option<JsonObject> {
    let mut params: RawObject = read(params)?;
    params.remove("mode");
    let mut schema: RawObject = params.get_as("requestedSchema")?;
    let mut properties: RawObject = schema.get_as("properties")?;
    let fields: Vec<(String, RawObject)> = properties
        .iter()
        .map(|(name, _)| Some((name.to_owned(), properties.get_as(name)?)))
        .collect::<Option<_>>()?;
    for (name, field) in fields {
        if let Some(field) = respelt(field) {
            properties.insert(name, &field).ok()?;
        }
    }
    schema.insert("properties", &properties).ok()?;
    params.insert("requestedSchema", &schema).ok()?;
    JsonObject::from_serialize(&params).ok()
}

fn read<T: for<'de> Deserialize<'de>>(object: &JsonObject) -> Option<T> {
    object.read().ok()
}

/// One titled choice.
#[derive(Deserialize, Serialize)]
struct Titled {
    #[serde(rename = "const")]
    value: String,
    title: String,
}

/// A field with `oneOf`, spelt with `enum` and `enumNames`. `None`: it is no such field.
fn respelt(mut field: RawObject) -> Option<RawObject> {
    let choices: Vec<Object<Titled>> = field.get_as("oneOf")?;
    field.remove("oneOf");
    let values: Vec<&str> = choices.iter().map(|choice| &*choice.0.value).collect();
    let names: Vec<&str> = choices.iter().map(|choice| &*choice.0.title).collect();
    field.insert("enum", &values).ok()?;
    field.insert("enumNames", &names).ok()?;
    Some(field)
}
