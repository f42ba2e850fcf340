//! Bodies: what two readers read differently, what is no request, what is too much.

use serde_json::{Map, Value, json};

use crate::report::Verdict;
use crate::subject::{Prey, Stop, Subject};
use crate::trial::{Act, Finding, Flows, Try};
use crate::wire::{Call, Message, Said};

/// The size of a body that is too large, in bytes.
const LARGE: usize = 16 * 1024 * 1024;
/// How deep a body is nested that is nested too deep.
const DEEP: usize = 100_000;

/// The call with a further member in its params, before or behind those that are there; the same name twice.
fn doubled(call: &Call, name: &str, value: &Value, before: bool) -> Message {
    let params = Value::Object(call.modern_params()).to_string();
    let inner = params.get(1..params.len() - 1).unwrap_or_default();
    let member = format!("{}:{value}", Value::from(name));
    let params = match before {
        true => format!("{{{member},{inner}}}"),
        false => format!("{{{inner},{member}}}"),
    };
    let method = Value::from(call.method.as_str());
    call.message().body(format!(
        r#"{{"jsonrpc":"2.0","id":7,"method":{method},"params":{params}}}"#
    ))
}

pub(super) async fn twice(subject: &Subject<'_>) -> Result<Finding, Stop> {
    let first = subject.first();
    let mut requests = Vec::new();
    let members = [
        ("name", json!("another-tool")),
        ("arguments", json!({ "probe": true })),
        ("_meta", json!({})),
    ];
    for (name, other) in &members {
        for before in [true, false] {
            let place = if before { "before" } else { "behind" };
            requests.push((
                format!("`{name}` twice, the wrong one {place}"),
                doubled(&first, name, other, before),
            ));
        }
    }
    let text = first.message().text();
    let method = text.replacen('{', r#"{"method":"tools/list","#, 1);
    requests.push(("`method` twice".to_owned(), first.message().body(method)));
    let finding = subject.none_served(requests).await?;
    if finding.verdict != Verdict::Safe || !subject.good.has_state {
        return Ok(finding);
    }
    let retried = subject.none_acts(retries(), Flows::Each).await?;
    Ok(match retried.verdict {
        Verdict::Safe => Finding {
            note: format!("{}; retries: {}", finding.note, retried.note),
            ..retried
        },
        _ => retried,
    })
}

/// Retries with their state or answers twice, one of them good.
fn retries<'t>() -> Vec<Try<'t>> {
    let mut tries = Vec::new();
    for before in [true, false] {
        let place = if before { "before" } else { "behind" };
        tries.push(Try::new(
            format!("`requestState` twice, the wrong one {place}"),
            move |subject, prey| {
                doubled(
                    &subject.retry(prey),
                    "requestState",
                    &json!("wrong"),
                    before,
                )
            },
        ));
        tries.push(Try::new(
            format!("`inputResponses` twice, the declining one {place}"),
            move |subject, prey| {
                let keys = prey.answers.keys();
                let declined: Map<String, Value> = keys
                    .map(|key| (key.clone(), json!({ "action": "decline" })))
                    .collect();
                doubled(
                    &subject.retry(prey),
                    "inputResponses",
                    &Value::Object(declined),
                    before,
                )
            },
        ));
    }
    tries
}

pub(super) async fn broken(subject: &Subject<'_>) -> Result<Finding, Stop> {
    let good = subject.first().message();
    let text = good.text();
    let mut not_utf8 = text.clone().into_bytes();
    not_utf8.truncate(not_utf8.len() - 1);
    not_utf8.extend_from_slice(b",\"x\":\"\xff\xfe\"}");
    let nan = text.replacen('{', r#"{"x":NaN,"#, 1);
    let commented = text.replacen('{', "{/* x */", 1);
    let comma = format!("{},}}", text.trim_end_matches('}'));
    let requests = vec![
        (
            "an object behind it".to_owned(),
            good.clone().body(format!("{text}{{}}")),
        ),
        (
            "twice".to_owned(),
            good.clone().body(format!("{text}\n{text}")),
        ),
        (
            "a bracket behind it".to_owned(),
            good.clone().body(format!("{text}]")),
        ),
        (
            "cut in half".to_owned(),
            good.clone()
                .body(text.get(..text.len() / 2).unwrap_or_default()),
        ),
        ("empty".to_owned(), good.clone().body("")),
        ("NaN".to_owned(), good.clone().body(nan)),
        ("a comment".to_owned(), good.clone().body(commented)),
        ("a comma too many".to_owned(), good.clone().body(comma)),
        ("not UTF-8".to_owned(), good.clone().body(not_utf8)),
        (
            "in quotes".to_owned(),
            good.body(Value::from(text).to_string()),
        ),
    ];
    subject.none_served(requests).await
}

pub(super) async fn batch(subject: &Subject<'_>) -> Result<Finding, Stop> {
    let array = |count: usize| {
        move |subject: &Subject<'_>, prey: &Prey| {
            let call = subject.retry(prey);
            let all = vec![call.body(); count];
            call.message().body(Value::from(all).to_string())
        }
    };
    let tries = vec![
        Try::new("one in an array", array(1)),
        Try::new("two in an array", array(2)),
    ];
    let finding = subject.none_acts(tries, Flows::Each).await?;
    // Where effects are not counted, an array of results is what tells.
    if finding.verdict == Verdict::Safe && subject.target.effect_tool.is_none() {
        let call = subject.first();
        let message = call.message().body(json!([call.body()]).to_string());
        let reply = subject.send(&message).await?;
        let results = reply.message.as_ref().and_then(Value::as_array);
        if results
            .into_iter()
            .flatten()
            .any(|one| one.get("result").is_some())
        {
            return Ok(Finding::new(Verdict::Unsafe, "an array was served")
                .with(subject, &message, &reply));
        }
    }
    Ok(finding)
}

pub(super) async fn notification(subject: &Subject<'_>) -> Result<Finding, Stop> {
    let ids = [
        ("without an id", None),
        ("with the id null", Some(json!(null))),
        ("with an id that is an object", Some(json!({}))),
        ("with a fractional id", Some(json!(1.5))),
    ];
    let mut last = None;
    for (what, id) in ids {
        let prey = subject.open().await?;
        let call = subject.retry(&prey);
        let mut body = call.body();
        if let Some(members) = body.as_object_mut() {
            members.remove("id");
            if let Some(id) = id {
                members.insert("id".to_owned(), id);
            }
        }
        let message = call.message().body(body.to_string());
        let (reply, act) = subject.attempt(&message).await?;
        let accepted = reply.status().is_some_and(|status| status < 400)
            && matches!(reply.said(), Said::Status(_));
        let finding = match act {
            Act::Acted => Finding::new(Verdict::Unsafe, format!("{what}: it acted")),
            Act::Unclear => Finding::unknown(format!(
                "{what}: a result came; --effect-tool would tell whether anything happened"
            )),
            // Accepted and not answered: it may have acted.
            Act::Held if accepted && subject.target.effect_tool.is_none() => {
                Finding::unknown(format!(
                    "{what}: accepted without an answer; --effect-tool would tell whether anything happened"
                ))
            }
            Act::Held => {
                last = Some((message, reply));
                continue;
            }
        };
        return Ok(finding.with(subject, &message, &reply));
    }
    let finding = Finding::new(Verdict::Safe, "nothing happened");
    Ok(match last {
        Some((message, reply)) => finding.with(subject, &message, &reply),
        None => finding,
    })
}

pub(super) async fn oversized(subject: &Subject<'_>) -> Result<Finding, Stop> {
    let good = subject.first().message();
    let padded = good
        .text()
        .replacen('{', &format!("{{{}", " ".repeat(LARGE)), 1);
    let chunked = format!("{:x}\r\n{padded}\r\n0\r\n\r\n", padded.len());
    let requests = vec![
        (
            "with its length".to_owned(),
            good.clone().body(padded).may_fail(),
        ),
        (
            "in a chunk".to_owned(),
            good.header("transfer-encoding", "chunked")
                .body(chunked)
                .may_fail(),
        ),
    ];
    subject.none_served(requests).await
}

pub(super) async fn deep(subject: &Subject<'_>) -> Result<Finding, Stop> {
    let mut last = None;
    for (what, open, close) in [("arrays", "[", "]"), ("objects", r#"{"a":"#, "}")] {
        let call = subject.first();
        let nested = format!("{}0{}", open.repeat(DEEP), close.repeat(DEEP));
        let text = call.message().text();
        // Twice: beside everything, where it may be skipped, and in the arguments, where somebody must look at it.
        for place in [r#"{"#, r#""arguments":{"#] {
            let member = format!(r#"{place}"probe":{nested},"#);
            let body = text.replacen(place, &member, 1).replace(",}", "}");
            let message = call.message().body(body).may_fail();
            let reply = subject.send(&message).await?;
            if let Said::Broken(broken) = reply.said() {
                let note = format!("{what}: {broken}");
                return Ok(Finding::new(Verdict::Unsafe, note).with(subject, &message, &reply));
            }
            last = Some((what, message, reply));
        }
    }
    let alive = subject.open().await;
    let finding = match alive {
        Ok(_) => Finding::new(Verdict::Safe, "it was answered, and the server serves"),
        Err(Stop::Trouble(why)) => Finding::new(
            Verdict::Unsafe,
            format!("the server does not serve any more: {why}"),
        ),
        Err(stop) => return Err(stop),
    };
    Ok(match last {
        Some((_, message, reply)) => finding.with(subject, &message, &reply),
        None => finding,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::tool_call;

    #[test]
    fn a_doubled_member_is_there_twice_and_the_rest_is_json() {
        let call = tool_call("pay", &json!({ "a": { "b": {} } }), None);
        for before in [true, false] {
            let text = doubled(&call, "name", &json!("other"), before).text();
            assert_eq!(text.matches(r#""name":"#).count(), 2, "{text}");
            let last: Value = serde_json::from_str(&text).unwrap();
            let name = if before { "pay" } else { "other" };
            assert_eq!(last["params"]["name"], name);
            assert_eq!(last["params"]["arguments"]["a"]["b"], json!({}));
        }
    }
}
