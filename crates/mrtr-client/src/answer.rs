//! Answers, checked against the question before they are sent.

use jsonschema::error::ValidationErrorKind;
use jsonschema::{Draft, PatternOptions, Validator};
use mrtr_protocol::object::as_string;
use mrtr_protocol::{ElicitAction, ElicitForm, FormSchema, InputRequest, JsonObject};
use serde_json::value::{RawValue, to_raw_value};

use crate::error::{AnswerError, QuestionProblem};
use crate::handler::FormAnswer;
use crate::page::UrlAnswer;

/// A form question, read and compiled.
#[derive(Debug)]
pub(crate) struct CheckedForm {
    pub(crate) form: ElicitForm,
    pub(crate) schema: FormSchema,
    validator: Validator,
}

impl CheckedForm {
    /// How much memory one compiled pattern may take, in bytes. A form may have 256.
    const PATTERN_BYTES: usize = 64 * 1024;

    /// Reads a question as a form.
    ///
    /// What is compiled is never the server's text, but the rules that were read out of it: no reference, no dialect and no nesting of
    /// the server's reaches the validator. Nothing is fetched. A pattern that the linear-time engine does not know is refused, and so is
    /// one that grows large when it is compiled.
    pub(crate) fn read(request: &InputRequest) -> Result<Self, QuestionProblem> {
        let form = request.as_form()?;
        let schema = FormSchema::parse(&form.requested_schema)?;
        let patterns = PatternOptions::regex()
            .size_limit(Self::PATTERN_BYTES)
            .dfa_size_limit(Self::PATTERN_BYTES);
        let validator = jsonschema::options()
            .with_draft(Draft::Draft202012)
            .offline()
            .should_validate_formats(true)
            .with_pattern_options(patterns)
            .build(schema.rules())
            .map_err(|_| QuestionProblem::UnusableSchema)?;
        Ok(Self {
            form,
            schema,
            validator,
        })
    }

    /// The answer as it goes onto the wire, if it is one to this question.
    pub(crate) fn check(&self, answer: &FormAnswer) -> Result<Box<RawValue>, AnswerError> {
        let content = match answer {
            FormAnswer::Accept(content) => {
                if !content.is_object() {
                    return Err(AnswerError::NotAnObject);
                }
                if let Err(error) = self.validator.validate(content) {
                    // Where and which rule, never the value: it is the person's.
                    let mut field = error.instance_path().to_string();
                    if let ValidationErrorKind::Required { property } = error.kind() {
                        field = format!("{field}/{}", property.as_str().unwrap_or_default());
                    }
                    return Err(AnswerError::DoesNotFit {
                        field,
                        rule: error.kind().keyword().to_owned(),
                    });
                }
                Some(to_raw_value(content).map_err(|_| AnswerError::NotAnObject)?)
            }
            FormAnswer::Decline | FormAnswer::Cancel => None,
        };
        let action = match answer {
            FormAnswer::Accept(_) => ElicitAction::Accept {
                content: content.as_deref(),
            },
            FormAnswer::Decline => ElicitAction::Decline,
            FormAnswer::Cancel => ElicitAction::Cancel,
        };
        to_raw_value(&action).map_err(|_| AnswerError::NotAnObject)
    }
}

/// The answer to a URL as it goes onto the wire: never with content.
pub(crate) fn checked_url(answer: UrlAnswer) -> Result<Box<RawValue>, AnswerError> {
    let action = match answer {
        UrlAnswer::Accept => ElicitAction::Accept { content: None },
        UrlAnswer::Decline => ElicitAction::Decline,
        UrlAnswer::Cancel => ElicitAction::Cancel,
    };
    to_raw_value(&action).map_err(|_| AnswerError::NotAnObject)
}

/// Arguments as a prompt takes them: an object of strings, or none at all for `()` and `None`.
pub(crate) fn prompt_arguments<T: serde::Serialize + ?Sized>(
    arguments: &T,
) -> Result<Option<JsonObject>, String> {
    let arguments = self::arguments(arguments)?;
    if let Some(object) = &arguments {
        let members = object.members().map_err(|error| error.to_string())?;
        if let Some((name, _)) = members.iter().find(|(_, raw)| as_string(raw).is_none()) {
            return Err(format!(
                "the argument {name:?} of a prompt must be a string"
            ));
        }
    }
    Ok(arguments)
}

/// Arguments as a tool takes them: an object, or none at all for `()` and `None`.
pub(crate) fn arguments<T: serde::Serialize + ?Sized>(
    arguments: &T,
) -> Result<Option<JsonObject>, String> {
    let raw = to_raw_value(arguments).map_err(|error| error.to_string())?;
    if raw.get() == "null" {
        return Ok(None);
    }
    JsonObject::new(raw)
        .map(Some)
        .map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn form(schema: &str) -> Result<CheckedForm, QuestionProblem> {
        CheckedForm::read(&InputRequest::form(&ElicitForm::new(
            "m",
            JsonObject::parse(schema).unwrap(),
        )))
    }

    #[test]
    fn only_fitting_content_is_accepted() {
        let form = form(
            r#"{"type":"object","properties":{"age":{"type":"integer","minimum":0,"maximum":120},"rate":{"type":"number"},
            "mail":{"type":"string","format":"email"},"c":{"type":"string","enum":["R","G"]}},"required":["age"]}"#,
        )
        .unwrap();
        let good = json!({"age": 5, "rate": 1.5, "mail": "a@b.example", "c": "R"});
        let answer = form.check(&FormAnswer::Accept(good.clone())).unwrap();
        let sent: Value = serde_json::from_str(answer.get()).unwrap();
        assert_eq!(sent, json!({"action": "accept", "content": good}));
        for bad in [
            json!({"age": "5"}),
            json!({"age": 121}),
            json!({"age": -1}),
            json!({"age": 1.5}),
            json!({}),
            json!({"age": 5, "mail": "x"}),
            json!({"age": 5, "c": "B"}),
            json!({"age": 5, "c": null}),
            json!({"age": {}}),
        ] {
            assert!(
                matches!(
                    form.check(&FormAnswer::Accept(bad.clone())),
                    Err(AnswerError::DoesNotFit { .. })
                ),
                "{bad}"
            );
        }
        for bad in [json!(null), json!([]), json!("yes")] {
            assert_eq!(
                form.check(&FormAnswer::Accept(bad)).unwrap_err(),
                AnswerError::NotAnObject
            );
        }
        assert_eq!(
            form.check(&FormAnswer::Decline).unwrap().get(),
            r#"{"action":"decline"}"#
        );
        assert_eq!(
            form.check(&FormAnswer::Cancel).unwrap().get(),
            r#"{"action":"cancel"}"#
        );
    }

    #[test]
    fn the_error_names_field_and_rule_but_not_the_value() {
        let form =
            form(r#"{"type":"object","properties":{"pin":{"type":"string","maxLength":4}}}"#)
                .unwrap();
        let error = form
            .check(&FormAnswer::Accept(json!({"pin": "secret-4711"})))
            .unwrap_err();
        let text = format!("{error} {error:?}");
        assert!(
            text.contains("/pin") && text.contains("maxLength"),
            "{text}"
        );
        assert!(!text.contains("4711"), "{text}");
    }

    #[test]
    fn case_146_an_empty_form_is_accepted_empty() {
        let form = form(r#"{"type":"object","properties":{}}"#).unwrap();
        assert_eq!(
            form.check(&FormAnswer::Accept(json!({}))).unwrap().get(),
            r#"{"action":"accept","content":{}}"#
        );
    }

    #[test]
    fn case_163_hostile_schemas_are_cheap_or_refused() {
        let redos =
            form(r#"{"type":"object","properties":{"a":{"type":"string","pattern":"^(a+)+$"}}}"#)
                .unwrap();
        let begun = std::time::Instant::now();
        assert!(
            redos
                .check(&FormAnswer::Accept(
                    json!({"a": format!("{}!", "a".repeat(5_000))})
                ))
                .is_err()
        );
        assert!(begun.elapsed() < std::time::Duration::from_secs(60));
        assert!(matches!(
            form(r#"{"type":"object","properties":{"a":{"type":"string","pattern":"(?=a)"}}}"#),
            Err(QuestionProblem::UnusableSchema)
        ));
        assert!(
            form(r#"{"type":"object","properties":{"a":{"$ref":"https://a.example/s.json"}}}"#)
                .is_err()
        );
        assert!(
            form(r#"{"$schema":"https://a.example/dialect","type":"object","properties":{}}"#)
                .is_err()
        );
    }

    /// `count` definitions, each of which refers to the next one `width` times.
    fn chain(count: usize, width: usize) -> String {
        let reference = |n: usize| format!(r##"{{"$ref":"#/vendor/d{n}"}}"##);
        let mut all: Vec<_> = (0..count)
            .map(|n| {
                format!(
                    r#""d{n}":{{"allOf":[{}]}}"#,
                    vec![reference(n + 1); width].join(",")
                )
            })
            .collect();
        all.push(format!(r#""d{count}":{{}}"#));
        format!(r#""vendor":{{{}}}"#, all.join(","))
    }

    #[test]
    fn chains_of_references_are_never_compiled() {
        let good = |field: &str| {
            form(&format!(
                r#"{{"type":"object","properties":{{"a":{field}}}}}"#
            ))
            .is_ok()
        };
        let begun = std::time::Instant::now();
        for (plain, hostile) in [
            (
                r#"{"type":"number"}"#,
                r##"{"type":"number","oneOf":[{"$ref":"#/vendor/d0"}]}"##,
            ),
            (
                r#"{"type":"string","oneOf":[{"const":"a","title":"A"}]}"#,
                r##"{"type":"string","oneOf":[{"const":"a","title":"A","$ref":"#/vendor/d0"}]}"##,
            ),
            (
                r#"{"type":"array","items":{"type":"string","enum":["a"]}}"#,
                r##"{"type":"array","items":{"type":"string","enum":["a"],"$ref":"#/vendor/d0"}}"##,
            ),
            (r#"{"type":"boolean"}"#, r#"{"type":"boolean"}"#),
        ] {
            assert!(good(plain), "{plain}");
            for (count, width) in [(40, 2), (3_000, 1), (45_000, 1)] {
                let text = format!(
                    r#"{{"$schema":"http://json-schema.org/draft-07/schema#","type":"object","properties":{{"a":{hostile}}},{}}}"#,
                    chain(count, width)
                );
                assert!(
                    matches!(form(&text), Err(QuestionProblem::Form(_))),
                    "{hostile}"
                );
            }
        }
        assert!(
            form(&format!(
                r##"{{"$schema":"http://json-schema.org/draft-07/schema#","type":"object","properties":{{"a":{{"type":"boolean"}}}},
                "dependencies":{{"a":{{"$ref":"#/vendor/d0"}}}},{}}}"##,
                chain(40, 2)
            ))
            .is_err()
        );
        assert!(begun.elapsed() < std::time::Duration::from_secs(60));
    }

    #[test]
    fn what_is_compiled_is_small_and_says_what_the_server_said() {
        let names = form(
            r#"{"$schema":"http://json-schema.org/draft-07/schema#","type":"object","additionalProperties":false,"properties":{
            "$ref":{"type":"string"},"$id":{"type":"boolean"},"$schema":{"type":"string","format":"regex"},
            "c":{"type":"array","minItems":1,"items":{"anyOf":[{"const":"r","title":"Red"}]}}}}"#,
        )
        .unwrap();
        let good = json!({"$ref": "x", "$id": true, "$schema": "(", "c": ["r"]});
        assert!(names.check(&FormAnswer::Accept(good)).is_ok());
        for bad in [
            json!({"$ref": 1}),
            json!({"$id": "x"}),
            json!({"other": 1}),
            json!({"c": []}),
            json!({"c": ["b"]}),
        ] {
            assert!(
                names.check(&FormAnswer::Accept(bad.clone())).is_err(),
                "{bad}"
            );
        }
        let pattern = |pattern: &str| {
            form(&format!(
                r#"{{"type":"object","properties":{{"a":{{"type":"string","pattern":"{pattern}"}}}}}}"#
            ))
        };
        assert!(pattern("^[A-Z]{2}[0-9]{2,30}$").is_ok());
        assert!(matches!(
            pattern("((a{100}){100}){100}"),
            Err(QuestionProblem::UnusableSchema)
        ));
    }

    #[test]
    fn arguments_of_prompts_are_strings() {
        assert_eq!(
            prompt_arguments(&json!({"a": "1"}))
                .unwrap()
                .unwrap()
                .as_str(),
            r#"{"a":"1"}"#
        );
        assert!(prompt_arguments(&()).unwrap().is_none());
        let error = prompt_arguments(&json!({"a": "1", "secret": 1})).unwrap_err();
        assert!(error.contains("secret"), "the name: {error}");
        for bad in [json!({"a": null}), json!({"a": ["x"]}), json!(["x"])] {
            assert!(prompt_arguments(&bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn arguments_are_an_object_or_nothing() {
        assert_eq!(
            arguments(&json!({"a": 1})).unwrap().unwrap().as_str(),
            r#"{"a":1}"#
        );
        assert!(arguments(&()).unwrap().is_none());
        assert!(arguments(&[1]).is_err());
        assert!(arguments("x").is_err());
    }
}
