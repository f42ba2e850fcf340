//! Forms with defaults, and with every way to offer a choice.

use mrtr_server::{Flow, Form, Question, QuestionError, Rendered, ServerBuilder, tool};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;
use serde_json::value::RawValue;

pub(crate) fn add(server: ServerBuilder) -> ServerBuilder {
    server
        .tool(
            tool("test_elicitation_sep1034_defaults", defaults)
                .description("Asks with a form whose fields have defaults."),
        )
        .tool(
            tool("test_elicitation_sep1330_enums", choices)
                .description("Asks with a form that offers choices."),
        )
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(default)]
struct Person {
    /// The user's name.
    name: String,
    /// The user's age.
    age: i32,
    /// The user's score.
    score: f64,
    /// The user's status.
    status: Status,
    /// Whether the user is verified.
    verified: bool,
}

#[derive(Debug, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
enum Status {
    Active,
    Inactive,
    Pending,
}

impl Default for Person {
    fn default() -> Self {
        Self {
            name: "John Doe".into(),
            age: 30,
            score: 95.5,
            status: Status::Active,
            verified: true,
        }
    }
}

async fn defaults(flow: Flow) -> String {
    let question = Form::<Person>::new("Please review the form; its fields have defaults.");
    let answer = flow.ask("person", question).await;
    format!("Elicitation completed: {answer:?}")
}

/// A question whose schema no Rust type says: `enumNames` is how titles were written before 2025-11-25.
struct Choices;

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
#[expect(dead_code, reason = "it is printed, by Debug")]
struct Chosen {
    untitled_single: Option<Plain>,
    titled_single: Option<Titled>,
    legacy_enum: Option<Legacy>,
    untitled_multi: Option<Vec<Plain>>,
    titled_multi: Option<Vec<Titled>>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Plain {
    Option1,
    Option2,
    Option3,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Titled {
    Value1,
    Value2,
    Value3,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Legacy {
    Opt1,
    Opt2,
    Opt3,
}

impl Question for Choices {
    type Output = Chosen;

    fn render(&self) -> Result<Rendered, QuestionError> {
        let plain = json!(["option1", "option2", "option3"]);
        let titled = |word: &str| {
            json!([
                { "const": "value1", "title": format!("First {word}") },
                { "const": "value2", "title": format!("Second {word}") },
                { "const": "value3", "title": format!("Third {word}") },
            ])
        };
        Rendered::form(&json!({
            "mode": "form",
            "message": "Please choose.",
            "requestedSchema": {
                "type": "object",
                "properties": {
                    "untitledSingle": { "type": "string", "enum": plain },
                    "titledSingle": { "type": "string", "oneOf": titled("Option") },
                    "legacyEnum": {
                        "type": "string",
                        "enum": ["opt1", "opt2", "opt3"],
                        "enumNames": ["Option One", "Option Two", "Option Three"],
                    },
                    "untitledMulti": { "type": "array", "items": { "type": "string", "enum": plain } },
                    "titledMulti": { "type": "array", "items": { "anyOf": titled("Choice") } },
                },
            },
        }))
    }

    fn read(&self, content: &RawValue) -> Option<Chosen> {
        serde_json::from_str(content.get()).ok()
    }
}

async fn choices(flow: Flow) -> String {
    let answer = flow.ask("choices", Choices).await;
    format!("Elicitation completed: {answer:?}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_forms_can_be_put() {
        Form::<Person>::check().unwrap();
        Choices.render().unwrap();
    }
}
