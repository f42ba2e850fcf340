//! The state in other hands, on other requests, at another time.

use std::time::Duration;

use mrtr_protocol::method;
use serde_json::{Value, json};

use crate::decode::changed;
use crate::report::Verdict;
use crate::subject::{Prey, Stop, Subject};
use crate::trial::{Act, Finding, Flows, Try};
use crate::wire::{Said, tool_call, with_member};

/// The longest lifetime that is waited for.
const PATIENCE: Duration = Duration::from_secs(60);
/// How long a state may have been dead before it is tried: clocks and timers are not exact to the millisecond.
const MARGIN: Duration = Duration::from_millis(250);
/// How many other arguments are tried.
const VARIANTS: usize = 12;

/// The arguments with one thing changed, of which the tool may accept none.
fn variants(arguments: &Value) -> Vec<(String, Value)> {
    let mut all = Vec::new();
    for (name, value) in arguments.as_object().into_iter().flatten() {
        let mut other = arguments.clone();
        if let Some(slot) = other.get_mut(name) {
            *slot = changed(value);
        }
        if other != *arguments {
            all.push((format!("another `{name}`"), other));
        }
        if let Some(text) = value.as_str().filter(|text| !text.is_empty()) {
            let other = with_member(arguments, name, format!("{text} "));
            all.push((format!("`{name}` with a space"), other));
            let capitals = text.to_uppercase();
            if capitals != text {
                all.push((
                    format!("`{name}` in capitals"),
                    with_member(arguments, name, capitals),
                ));
            }
        }
        if let Some(number) = value
            .as_i64()
            .and_then(i64::checked_neg)
            .filter(|number| *number != 0)
        {
            all.push((
                format!("`{name}` with its sign turned"),
                with_member(arguments, name, number),
            ));
        }
    }
    let more = with_member(arguments, "probe", "x");
    all.push(("one more argument".to_owned(), more));
    all.truncate(VARIANTS);
    all
}

impl Subject<'_> {
    /// Other arguments with which the tool asks as well: only those show that a state is bound to its own.
    pub(super) async fn other_arguments(&self) -> Result<Vec<(String, Value)>, Stop> {
        let given = self.target.other_arguments.iter();
        let given: Vec<_> = given
            .map(|other| ("other arguments".to_owned(), other.clone()))
            .collect();
        let candidates = if given.is_empty() {
            variants(&self.target.arguments)
        } else {
            given
        };
        let mut asked = Vec::new();
        for (what, arguments) in candidates {
            let reply = self
                .send(&self.with_arguments(&arguments).message())
                .await?;
            if reply.said() == Said::Asked {
                asked.push((what, arguments));
            }
        }
        Ok(asked)
    }
}

/// The retry of a flow with other arguments.
pub(super) fn moved(subject: &Subject<'_>, prey: &Prey, arguments: &Value) -> crate::wire::Call {
    subject.retry(prey).with("arguments", arguments.clone())
}

const NO_VARIANT: &str =
    "no other arguments were found with which the tool asks; --other-arguments gives some";

pub(super) async fn arguments(subject: &Subject<'_>) -> Result<Finding, Stop> {
    let others = subject.other_arguments().await?;
    if others.is_empty() {
        return Ok(Finding::unknown(NO_VARIANT));
    }
    let tries = others.into_iter().map(|(what, arguments)| {
        Try::new(what, move |subject, prey| {
            moved(subject, prey, &arguments).message()
        })
    });
    subject.none_acts(tries.collect(), Flows::Shared).await
}

pub(super) async fn tool(subject: &Subject<'_>) -> Result<Finding, Stop> {
    let target = subject.target;
    let Some(other) = &target.other_tool else {
        let others = tools(subject).await?;
        return Ok(match others.as_slice() {
            [] => Finding::not_applicable("the server lists no other tool"),
            _ => Finding::unknown(format!(
                "the server has other tools ({}); --other-tool names one that may be called",
                others.join(", ")
            )),
        });
    };
    let token = target.token.as_deref();
    let plain = tool_call(other, &target.arguments, token).message();
    let reply = subject.send(&plain).await?;
    if reply.said() != Said::Asked {
        let why = format!(
            "`{other}`, called with the same arguments, does not ask: the server {}",
            reply.sort()
        );
        return Ok(Finding::unknown(why).with(subject, &plain, &reply));
    }
    let prey = subject.open().await?;
    let message = subject
        .retry(&prey)
        .with("name", other.as_str().into())
        .message();
    let (reply, _) = subject.attempt(&message).await?;
    // The other tool's result is not the good path's, so that any result is one too many.
    let finding = match reply.said() {
        Said::Complete(_) if !reply.is_replayed() => Finding::new(
            Verdict::Unsafe,
            format!("`{other}` took the state of `{}`", target.tool),
        ),
        _ => Finding::new(Verdict::Safe, format!("1 {}", reply.sort())),
    };
    controlled(subject, &prey, finding.with(subject, &message, &reply)).await
}

/// The other tools that are listed, but for the one that counts.
async fn tools(subject: &Subject<'_>) -> Result<Vec<String>, Stop> {
    let target = subject.target;
    let names = listed(subject, method::TOOLS_LIST, "tools").await?;
    let others = names
        .into_iter()
        .filter(|name| *name != target.tool && target.effect_tool.as_ref() != Some(name));
    Ok(others.collect())
}

/// The names on the first page of a list; none where there is no such list.
async fn listed(subject: &Subject<'_>, method: &str, member: &str) -> Result<Vec<String>, Stop> {
    let reply = subject
        .send(&subject.call(method, json!({})).message())
        .await?;
    let list = reply
        .result()
        .and_then(|result| result.get(member)?.as_array());
    let names = list.into_iter().flatten();
    let names = names.filter_map(|one| Some(one.get("name")?.as_str()?.to_owned()));
    Ok(names.collect())
}

/// A refusal counts only where the honest retry works afterwards.
async fn controlled(subject: &Subject<'_>, prey: &Prey, finding: Finding) -> Result<Finding, Stop> {
    if finding.verdict != Verdict::Safe {
        return Ok(finding);
    }
    let message = subject.retry(prey).message();
    let reply = subject.send(&message).await?;
    if matches!(reply.said(), Said::Complete(_)) {
        return Ok(finding);
    }
    let why = format!(
        "the refusal proves nothing: the honest retry did not work afterwards either, the server {}",
        reply.sort()
    );
    Ok(Finding::unknown(why).with(subject, &message, &reply))
}

/// A prompt's arguments are texts.
fn texts(arguments: &Value) -> Value {
    let members = arguments.as_object().into_iter().flatten();
    let texts = members.map(|(name, value)| {
        let text = value
            .as_str()
            .map_or_else(|| value.to_string(), str::to_owned);
        (name.clone(), text.into())
    });
    Value::Object(texts.collect())
}

pub(super) async fn prompt(subject: &Subject<'_>) -> Result<Finding, Stop> {
    let mut names = listed(subject, method::PROMPTS_LIST, "prompts").await?;
    if names.is_empty() {
        return Ok(Finding::not_applicable("the server has no prompts"));
    }
    // One that is called like the tool is the likeliest to be mistaken for it.
    names.sort_by_key(|name| *name != subject.target.tool);
    let arguments = texts(&subject.target.arguments);
    let prompt = |name: &str| {
        let params = json!({ "name": name, "arguments": arguments });
        subject.call(method::PROMPTS_GET, params)
    };
    for name in names.iter().take(4) {
        // Its arguments are a guess, and what it says of them is no finding.
        let plain = subject.send(&prompt(name).message().may_fail()).await?;
        if plain.said() != Said::Asked {
            continue;
        }
        let prey = subject.open().await?;
        let message = prompt(name)
            .with("requestState", prey.state.clone())
            .with("inputResponses", Value::Object(prey.answers.clone()))
            .message();
        let reply = subject.send(&message).await?;
        let finding = match reply.said() {
            Said::Complete(_) => Finding::new(
                Verdict::Unsafe,
                format!("the prompt `{name}` took the tool's state"),
            ),
            _ => Finding::new(Verdict::Safe, format!("1 {}", reply.sort())),
        };
        return controlled(subject, &prey, finding.with(subject, &message, &reply)).await;
    }
    Ok(Finding::not_applicable(
        "none of the first prompts asks when it is called with the tool's arguments",
    ))
}

/// What can be said where there is nobody else.
pub(super) fn nobody_else(subject: &Subject<'_>) -> Option<Finding> {
    match (&subject.target.token, &subject.target.other_token) {
        (Some(_), Some(_)) => None,
        (None, _) => Some(Finding::not_applicable(
            "the call carries no bearer token, so there are no principals to tell apart; --token and --other-token give two",
        )),
        (Some(_), None) => Some(Finding::unknown(
            "--other-token, of another person, would tell",
        )),
    }
}

pub(super) async fn principal(subject: &Subject<'_>) -> Result<Finding, Stop> {
    if let Some(finding) = nobody_else(subject) {
        return Ok(finding);
    }
    let other = subject.target.other_token.as_deref();
    // Somebody else's first call must work, or a refusal is about them and not about the state.
    let own = subject.first().by(other).message();
    let reply = subject.send(&own).await?;
    if reply.said() != Said::Asked {
        let why = format!(
            "the other token's own first call does not ask: the server {}",
            reply.sort()
        );
        return Ok(Finding::unknown(why).with(subject, &own, &reply));
    }
    let claims = json!({
        "io.modelcontextprotocol/clientInfo": { "name": "user", "version": "1" },
        "principal": "user", "sub": "user", "user": "user",
    });
    let tries = vec![
        Try::new("by somebody else", |subject, prey| {
            subject
                .retry(prey)
                .by(subject.target.other_token.as_deref())
                .message()
        }),
        Try::new(
            "by somebody else who claims things in _meta and headers",
            move |subject, prey| {
                let call = subject.retry(prey).with("_meta", claims.clone());
                let message = call.by(subject.target.other_token.as_deref()).message();
                let message = message
                    .header("x-user", "user")
                    .header("x-forwarded-user", "user");
                message.header("x-forwarded-for", "127.0.0.1")
            },
        ),
    ];
    subject.none_acts(tries, Flows::Shared).await
}

pub(super) async fn stranger(subject: &Subject<'_>) -> Result<Finding, Stop> {
    let Some(token) = subject.target.token.clone() else {
        return Ok(Finding::not_applicable(
            "the call carries no bearer token; --token gives one",
        ));
    };
    let wrong = format!("{token}x");
    let cut = token.get(..token.len() - 1).unwrap_or_default().to_owned();
    let header = |value: String| {
        move |subject: &Subject<'_>, prey: &Prey| {
            subject
                .retry(prey)
                .message()
                .header("authorization", &value)
        }
    };
    let tries = vec![
        Try::new("no credentials", |subject, prey| {
            subject.retry(prey).by(None).message()
        }),
        Try::new("a longer token", header(format!("Bearer {wrong}"))),
        Try::new("a shorter token", header(format!("Bearer {cut}"))),
        Try::new("an empty token", header("Bearer ".to_owned())),
        Try::new("another scheme", header(format!("Basic {token}"))),
    ];
    subject.none_acts(tries, Flows::Shared).await
}

/// The lifetime, where it can be waited for.
fn lifetime(subject: &Subject<'_>) -> Result<Duration, Finding> {
    match subject.target.lifetime {
        None => Err(Finding::not_applicable(
            "how long a state lives is not known; --lifetime says it in seconds, and it is waited for",
        )),
        Some(lifetime) if lifetime > PATIENCE => Err(Finding::not_applicable(
            "the lifetime is too long to be waited for; probe a server with one of a minute or less",
        )),
        Some(lifetime) => Ok(lifetime),
    }
}

async fn outlive(subject: &Subject<'_>, prey: &Prey, lifetime: Duration) -> Result<(), Stop> {
    let until = lifetime + MARGIN;
    let left = until.saturating_sub(prey.asked.elapsed());
    if subject.elapsed() + left > subject.target.max_time {
        return Err(Stop::Bound(
            "the time does not suffice to wait; --max-seconds allows more".to_owned(),
        ));
    }
    tokio::time::sleep(left).await;
    Ok(())
}

pub(super) async fn expired(subject: &Subject<'_>) -> Result<Finding, Stop> {
    let lifetime = match lifetime(subject) {
        Ok(lifetime) => lifetime,
        Err(finding) => return Ok(finding),
    };
    let prey = subject.open().await?;
    outlive(subject, &prey, lifetime).await?;
    judged(subject, &prey).await
}

pub(super) async fn expired_replay(subject: &Subject<'_>) -> Result<Finding, Stop> {
    let lifetime = match lifetime(subject) {
        Ok(lifetime) => lifetime,
        Err(finding) => return Ok(finding),
    };
    let prey = subject.open().await?;
    let reply = subject.send(&subject.retry(&prey).message()).await?;
    if !matches!(reply.said(), Said::Complete(_)) {
        return Ok(Finding::unknown(format!(
            "the honest retry did not work: the server {}",
            reply.sort()
        )));
    }
    outlive(subject, &prey, lifetime).await?;
    judged(subject, &prey).await
}

/// The honest retry at a time when it must not act.
async fn judged(subject: &Subject<'_>, prey: &Prey) -> Result<Finding, Stop> {
    let message = subject.retry(prey).message();
    let (reply, act) = subject.attempt(&message).await?;
    let age = format!(
        "{:.1} s after the question",
        prey.asked.elapsed().as_secs_f64()
    );
    let finding = match act {
        Act::Acted => Finding::new(Verdict::Unsafe, format!("{age} it acted")),
        Act::Held => Finding::new(Verdict::Safe, format!("{age} the server {}", reply.sort())),
        Act::Unclear => Finding::unknown(format!(
            "{age} a result came; --effect-tool would tell whether anything happened"
        )),
    };
    Ok(finding.with(subject, &message, &reply))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_argument_is_changed_and_one_added() {
        let arguments = json!({ "amount": 250, "memo": "chairs" });
        let all = variants(&arguments);
        let values: Vec<&Value> = all.iter().map(|(_, value)| value).collect();
        assert_eq!(values.len(), 6);
        assert!(values.iter().all(|value| **value != arguments));
        assert!(values.contains(&&json!({ "amount": 251, "memo": "chairs" })));
    }
}
