//! Answers that nobody gave, or that are none.

use mrtr_protocol::method;
use serde_json::{Map, Value, json};

use crate::report::Verdict;
use crate::subject::{Prey, Stop, Subject};
use crate::trial::{Act, Finding, Flows, Try};
use crate::wire::{Said, with_member};

/// How many properties of a form are spoilt.
const PROPERTIES: usize = 6;

/// A try with other answers.
fn answered<'t>(
    what: impl Into<String>,
    make: impl Fn(&Prey) -> Value + Send + Sync + 't,
) -> Try<'t> {
    Try::new(what, move |subject, prey| {
        subject
            .retry(prey)
            .with("inputResponses", make(prey))
            .message()
    })
}

/// The answers with every one replaced.
fn each(prey: &Prey, answer: impl Fn(&Value) -> Value) -> Value {
    let answers = prey.answers.iter();
    let answers = answers.map(|(key, was)| (key.clone(), answer(was)));
    Value::Object(answers.collect())
}

/// The answers under other keys.
fn renamed(prey: &Prey, name: impl Fn(&str) -> String) -> Value {
    let answers = prey.answers.iter();
    let answers = answers.map(|(key, was)| (name(key), was.clone()));
    Value::Object(answers.collect())
}

pub(super) async fn without_state(subject: &Subject<'_>) -> Result<Finding, Stop> {
    let tries = vec![
        Try::new("on a first call", |subject, prey| {
            subject.retry(prey).without("requestState").message()
        }),
        Try::new("with the state null", |subject, prey| {
            subject.retry_with(prey, Value::Null).message()
        }),
        Try::new("with an empty state", |subject, prey| {
            subject.retry_with(prey, "").message()
        }),
    ];
    // An author may have a tool whose questions protect nothing; the effect is what counts.
    subject.none_acts(tries, Flows::Each).await
}

pub(super) async fn other_keys(subject: &Subject<'_>) -> Result<Finding, Stop> {
    let tries = vec![
        answered("another key", |prey| renamed(prey, |key| format!("{key}2"))),
        answered("in capitals", |prey| {
            renamed(prey, |key| match key.to_uppercase() {
                upper if upper == key => key.to_lowercase(),
                upper => upper,
            })
        }),
        answered("a space behind", |prey| {
            renamed(prey, |key| format!("{key} "))
        }),
        answered("none at all", |_| json!({})),
        answered("__proto__", |prey| {
            let first = prey.answers.values().next().cloned().unwrap_or_default();
            json!({ "__proto__": first })
        }),
    ];
    subject.none_acts(tries, Flows::Each).await
}

pub(super) async fn other_kind(subject: &Subject<'_>) -> Result<Finding, Stop> {
    let sampled =
        json!({ "role": "assistant", "model": "m", "content": { "type": "text", "text": "yes" } });
    let roots = json!({ "roots": [{ "uri": "file:///" }] });
    let form = json!({ "action": "accept", "content": subject.target.answer });
    let kinds = [
        ("sampled text", sampled, "sampling"),
        ("roots", roots, "roots"),
        ("a form", form, "elicitation"),
    ];
    let asked = subject.open().await?;
    let asks = |kind: &str| {
        asked.questions.values().any(|question| {
            let method = question
                .get("method")
                .and_then(Value::as_str)
                .unwrap_or_default();
            method.starts_with(kind)
        })
    };
    let tries = kinds.into_iter().filter(|(_, _, kind)| !asks(kind));
    let tries =
        tries.map(|(what, answer, _)| answered(what, move |prey| each(prey, |_| answer.clone())));
    subject.none_acts(tries.collect(), Flows::Each).await
}

/// The first form that was asked: its key and its schema.
fn form(prey: &Prey) -> Option<(String, Map<String, Value>)> {
    prey.questions.iter().find_map(|(key, question)| {
        let schema = question.pointer("/params/requestedSchema")?.as_object()?;
        Some((key.clone(), schema.clone()))
    })
}

/// Contents that the schema does not allow, each with its fault.
fn bad_contents(schema: &Map<String, Value>, good: &Value) -> Vec<(String, Value)> {
    let mut all = Vec::new();
    let properties = schema.get("properties").and_then(Value::as_object);
    for (name, property) in properties.into_iter().flatten().take(PROPERTIES) {
        for bad in bad_values(property) {
            let mut content = good.clone();
            if let Some(members) = content.as_object_mut() {
                members.insert(name.clone(), bad.clone());
                all.push((format!("`{name}` is {bad}"), content));
            }
        }
    }
    let required = schema.get("required").and_then(Value::as_array);
    for name in required.into_iter().flatten().filter_map(Value::as_str) {
        let mut content = good.clone();
        if content
            .as_object_mut()
            .and_then(|members| members.remove(name))
            .is_some()
        {
            all.push((format!("without `{name}`"), content));
        }
    }
    if required.is_some_and(|required| !required.is_empty()) {
        all.push(("an empty form".to_owned(), json!({})));
    }
    all
}

fn bad_values(property: &Value) -> Vec<Value> {
    if property.get("enum").is_some() || property.get("oneOf").is_some() {
        return vec![json!("no such choice")];
    }
    match property.get("type").and_then(Value::as_str) {
        Some("boolean") => vec![
            json!("yes"),
            json!("true"),
            json!(1),
            json!(null),
            json!([true]),
        ],
        Some("string") => vec![json!(7), json!(null), json!(["x"])],
        Some("integer") => vec![json!("x"), json!("1"), json!(1.5), json!(null)],
        Some("number") => vec![json!("x"), json!("1"), json!(null)],
        Some("array") => vec![json!("x"), json!([7])],
        _ => Vec::new(),
    }
}

pub(super) async fn wrong_types(subject: &Subject<'_>) -> Result<Finding, Stop> {
    let prey = subject.open().await?;
    let Some((key, schema)) = form(&prey) else {
        return Ok(Finding::not_applicable("the last question is no form"));
    };
    let good = prey
        .answers
        .get(&key)
        .and_then(|answer| answer.get("content"));
    let good = good.cloned().unwrap_or_else(|| json!({}));
    let mut answers: Vec<(String, Value)> = bad_contents(&schema, &good)
        .into_iter()
        .map(|(what, content)| (what, json!({ "action": "accept", "content": content })))
        .collect();
    if schema
        .get("required")
        .and_then(Value::as_array)
        .is_some_and(|required| !required.is_empty())
    {
        answers.push(("no content".to_owned(), json!({ "action": "accept" })));
        answers.push((
            "content null".to_owned(),
            json!({ "action": "accept", "content": null }),
        ));
    }
    answers.push((
        "content in an array".to_owned(),
        json!({ "action": "accept", "content": [good] }),
    ));
    answers.push((
        "content as text".to_owned(),
        json!({ "action": "accept", "content": good.to_string() }),
    ));
    let tries = answers.into_iter().map(|(what, answer)| {
        let key = key.clone();
        answered(what, move |prey| {
            let mut answers = prey.answers.clone();
            answers.insert(key.clone(), answer.clone());
            Value::Object(answers)
        })
    });
    subject.none_acts(tries.collect(), Flows::Each).await
}

pub(super) async fn malformed(subject: &Subject<'_>) -> Result<Finding, Stop> {
    let mut tries = Vec::new();
    for value in [
        json!([]),
        json!("accept"),
        json!(null),
        json!(7),
        json!(true),
    ] {
        tries.push(answered(format!("inputResponses {value}"), move |_| {
            value.clone()
        }));
    }
    for value in [
        json!(7),
        json!(null),
        json!([]),
        json!("accept"),
        json!(true),
        json!({}),
    ] {
        tries.push(answered(format!("the answer {value}"), move |prey| {
            each(prey, |_| value.clone())
        }));
    }
    for action in [
        json!("ACCEPT"),
        json!("accepted"),
        json!("accept "),
        json!(true),
        json!(null),
        json!(["accept"]),
    ] {
        tries.push(answered(format!("the action {action}"), move |prey| {
            each(prey, |was| with_member(was, "action", action.clone()))
        }));
    }
    tries.push(answered("no action", |prey| {
        each(prey, |was| json!({ "content": was.get("content") }))
    }));
    tries.push(answered("the answers in an array", |prey| {
        json!([prey.answers])
    }));
    let prey = subject.open().await?;
    let forms = prey
        .answers
        .values()
        .all(|answer| answer.get("action").is_some());
    if !forms {
        return Ok(Finding::not_applicable(
            "not every question is answered with an action",
        ));
    }
    subject.none_acts(tries, Flows::Each).await
}

/// A no must not act, whatever content is beside it. The result of a no is one that says so.
pub(super) async fn refused(subject: &Subject<'_>) -> Result<Finding, Stop> {
    let prey = subject.open().await?;
    if form(&prey).is_none() {
        return Ok(Finding::not_applicable("the last question is no form"));
    }
    let mut unclear = None;
    let mut shown = None;
    for action in ["decline", "cancel"] {
        for content in [true, false] {
            let prey = subject.open().await?;
            let answers = each(&prey, |was| match (content, was.get("content")) {
                (true, Some(content)) => json!({ "action": action, "content": content }),
                _ => json!({ "action": action }),
            });
            let message = subject
                .retry(&prey)
                .with("inputResponses", answers)
                .message();
            let (reply, act) = subject.attempt(&message).await?;
            let what = if content {
                "with content"
            } else {
                "without content"
            };
            if act == Act::Acted {
                let note = format!("{action} {what}: it acted");
                return Ok(Finding::new(Verdict::Unsafe, note).with(subject, &message, &reply));
            }
            // A tool that says something else than after a yes has understood; whether it did nothing is another matter.
            if act == Act::Unclear && unclear.is_none() {
                let note = "a no gives another result than a yes; --effect-tool would tell whether anything happened";
                unclear = Some(Finding::unknown(note).with(subject, &message, &reply));
            }
            shown = Some((message, reply));
        }
    }
    let safe = Finding::new(
        Verdict::Safe,
        "declined and cancelled, with and without content: nothing happened",
    );
    Ok(match (unclear, shown) {
        (Some(finding), _) => finding,
        (None, Some((message, reply))) => safe.with(subject, &message, &reply),
        (None, None) => safe,
    })
}

pub(super) async fn misspelt(subject: &Subject<'_>) -> Result<Finding, Stop> {
    let names = [
        ("RequestState", "inputResponses"),
        ("requeststate", "inputResponses"),
        ("request_state", "input_responses"),
        ("requestState", "InputResponses"),
        ("requestState", "inputresponses"),
        // The long s and the Kelvin sign fold to the letters that they look like.
        ("reque\u{17f}tState", "inputResponses"),
        ("requestState", "inputRe\u{17f}pon\u{17f}e\u{17f}"),
    ];
    let tries = names.into_iter().map(|(state, answers)| {
        Try::new(format!("{state} and {answers}"), move |subject, prey| {
            let call = subject
                .retry(prey)
                .without("requestState")
                .without("inputResponses");
            let call = call.with(state, prey.state.clone());
            call.with(answers, Value::Object(prey.answers.clone()))
                .message()
        })
    });
    subject.none_acts(tries.collect(), Flows::Each).await
}

pub(super) async fn elsewhere(subject: &Subject<'_>) -> Result<Finding, Stop> {
    let prey = subject.open().await?;
    let before = subject.effects().await?;
    let mut sorts = Vec::new();
    for method in [method::TOOLS_LIST, method::DISCOVER, method::PING] {
        let params = json!({ "name": subject.target.tool, "arguments": subject.target.arguments });
        let call = subject
            .call(method, params)
            .with("requestState", prey.state.clone());
        let message = call
            .with("inputResponses", Value::Object(prey.answers.clone()))
            .message();
        let reply = subject.send(&message).await?;
        sorts.push(format!("{method}: {}", reply.sort()));
        let tool_ran = reply
            .result()
            .is_some_and(|result| result.get("content").is_some());
        if reply.said() == Said::Asked || tool_ran {
            let note = format!("{method} was answered like a call of the tool");
            return Ok(Finding::new(Verdict::Unsafe, note).with(subject, &message, &reply));
        }
    }
    let after = subject.effects().await?;
    let message = subject.retry(&prey).message();
    let reply = subject.send(&message).await?;
    let finding = if after > before {
        Finding::new(Verdict::Unsafe, "one of them acted")
    } else if matches!(reply.said(), Said::Complete(_)) && !reply.is_replayed() {
        Finding::new(
            Verdict::Safe,
            format!("{}; the state works afterwards", sorts.join(", ")),
        )
    } else {
        let note = format!(
            "{}; but they spent the state: the server {}",
            sorts.join(", "),
            reply.sort()
        );
        Finding::new(Verdict::Unsafe, note)
    };
    Ok(finding.with(subject, &message, &reply))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn forms_are_spoilt_property_by_property() {
        let schema = json!({
            "type": "object", "properties": { "ok": { "type": "boolean" }, "why": { "type": "string" } },
            "required": ["ok"],
        });
        let bad = bad_contents(schema.as_object().unwrap(), &json!({ "ok": true }));
        let contents: Vec<&Value> = bad.iter().map(|(_, content)| content).collect();
        assert!(contents.contains(&&json!({ "ok": "yes" })));
        assert!(contents.contains(&&json!({ "ok": true, "why": 7 })));
        assert!(contents.contains(&&json!({})));
        assert!(!contents.contains(&&json!({ "ok": true })));
    }
}
