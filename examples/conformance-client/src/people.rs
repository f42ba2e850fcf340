//! The handlers: somebody who says yes to everything, with what a form proposes.
//!
//! The suite looks at what a client declares, so that there is a handler of every kind. Sampling and roots are deprecated
//! since 2026-07-28; servers that need them are still served.

use mrtr_client::protocol::form::{FieldInput, FormField};
use mrtr_client::protocol::{CreateMessageResult, Root};
use mrtr_client::{
    ClientBuilder, FormAnswer, FormQuestion, Refusal, RootsQuestion, SamplingQuestion,
};
use serde_json::{Map, Value, json};

pub(crate) fn attend(builder: ClientBuilder) -> ClientBuilder {
    builder
        .on_form(async |question: FormQuestion| Ok(filled_in(&question)))
        .on_sampling(async |_: SamplingQuestion| said("This is a test response."))
        .on_roots(async |_: RootsQuestion| folders())
}

/// Submits what the form proposes, and something that fits where it proposes nothing.
fn filled_in(question: &FormQuestion) -> FormAnswer {
    let content: Map<String, Value> = question
        .schema
        .fields
        .iter()
        .map(|field| (field.name.clone(), value(field)))
        .collect();
    FormAnswer::Accept(Value::Object(content))
}

fn value(field: &FormField) -> Value {
    let proposed = field.default.as_ref();
    if let Some(value) = proposed.and_then(|raw| serde_json::from_str(raw.get()).ok()) {
        return value;
    }
    match &field.input {
        FieldInput::Boolean => json!(true),
        FieldInput::Number { minimum, .. } => json!(minimum.unwrap_or(1.0)),
        FieldInput::Choice { options } => json!(options.first().map(|option| &option.value)),
        FieldInput::Choices { options, .. } => {
            json!(
                options
                    .iter()
                    .map(|option| &option.value)
                    .collect::<Vec<_>>()
            )
        }
        _ => json!("test"),
    }
}

fn said(text: &str) -> Result<CreateMessageResult, Refusal> {
    Ok(CreateMessageResult::new("test-model", text))
}

fn folders() -> Result<Vec<Root>, Refusal> {
    let root = Root::new("file:///test/root").map_err(|error| Refusal::new(error.to_string()))?;
    Ok(vec![root])
}
