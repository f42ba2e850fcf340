//! The same state more than once.

use std::time::Duration;

use futures_util::future::join_all;
use mrtr_protocol::code;
use serde_json::{Map, Value, json};

use super::binding::{moved, nobody_else};
use crate::decode::{changed, flipped};
use crate::report::Verdict;
use crate::subject::{Prey, Stop, Subject};
use crate::trial::{Act, Finding};
use crate::wire::{Message, Reply, Said};

/// How many retries are sent at once.
const AT_ONCE: usize = 16;
/// How often is looked whether something is over, and how long between two looks.
const LOOKS: usize = 40;
const PAUSE: Duration = Duration::from_millis(50);

const NEEDS_COUNT: &str = "--effect-tool would tell whether it ran again";

/// The honest retry, which must work. The second value says why it did not.
async fn used(subject: &Subject<'_>) -> Result<Result<(Prey, Reply), Finding>, Stop> {
    let prey = subject.open().await?;
    let message = subject.retry(&prey).message();
    let reply = subject.send(&message).await?;
    if matches!(reply.said(), Said::Complete(_)) {
        return Ok(Ok((prey, reply)));
    }
    let why = format!("the honest retry did not work: the server {}", reply.sort());
    Ok(Err(Finding::unknown(why).with(subject, &message, &reply)))
}

pub(super) async fn again(subject: &Subject<'_>) -> Result<Finding, Stop> {
    let (prey, first) = match used(subject).await? {
        Ok(used) => used,
        Err(finding) => return Ok(finding),
    };
    let message = subject.retry(&prey).message();
    for time in 2..=4 {
        let before = subject.effects().await?;
        let reply = subject.send(&message).await?;
        let after = subject.effects().await?;
        let note = |what: &str| format!("the {time}. time {what}");
        let finding = match (before, after) {
            (Some(before), Some(after)) if after > before => {
                Finding::new(Verdict::Unsafe, note("it ran again"))
            }
            (Some(_), Some(_)) => continue,
            _ => match reply.said() {
                Said::Complete(_) if reply.is_replayed() => continue,
                Said::Complete(result) if Some(result) != first.result() => {
                    Finding::new(Verdict::Unsafe, note("another result came: it ran again"))
                }
                Said::Complete(_) => Finding::unknown(note(&format!(
                    "the same result came, unflagged; {NEEDS_COUNT}"
                ))),
                _ => continue,
            },
        };
        return Ok(finding.with(subject, &message, &reply));
    }
    let reply = subject.send(&message).await?;
    let note = format!("4 times, one effect; a repetition {}", reply.sort());
    Ok(Finding::new(Verdict::Safe, note).with(subject, &message, &reply))
}

/// When the connection goes: before the server has looked, while it works, when the answer is on its way.
const LOST: [u64; 4] = [0, 1, 5, 50];

pub(super) async fn lost(subject: &Subject<'_>) -> Result<Finding, Stop> {
    let mut notes = Vec::new();
    let mut last = None;
    let first = subject.effects().await?;
    for millis in LOST {
        let before = subject.effects().await?;
        let prey = subject.open().await?;
        let message = subject.retry(&prey).message();
        subject
            .hang_up(&message, Duration::from_millis(millis))
            .await?;
        let reply = settled(subject, &message).await?;
        let after = subject.effects().await?;
        let when = format!("after {millis} ms");
        let finding = match (before, after) {
            (Some(before), Some(after)) if after > before + 1 => {
                let note = format!("lost {when}: there were {} effects", after - before);
                Finding::new(Verdict::Unsafe, note)
            }
            (None, _) if matches!(reply.said(), Said::Complete(_)) && !reply.is_replayed() => {
                Finding::unknown(format!(
                    "lost {when}: a result came, unflagged; {NEEDS_COUNT}"
                ))
            }
            _ => {
                notes.push(format!("{when} the repetition {}", reply.sort()));
                last = Some((message, reply));
                continue;
            }
        };
        return Ok(finding.with(subject, &message, &reply));
    }
    // What was lost may have been slow.
    tokio::time::sleep(PAUSE).await;
    let finding = match (first, subject.effects().await?) {
        (Some(first), Some(after)) if after > first + LOST.len() as u64 => {
            let note = format!(
                "of {} retries some acted late: {} effects",
                LOST.len(),
                after - first
            );
            Finding::new(Verdict::Unsafe, note)
        }
        _ => Finding::new(Verdict::Safe, notes.join(", ")),
    };
    Ok(match last {
        Some((message, reply)) => finding.with(subject, &message, &reply),
        None => finding,
    })
}

/// Repeats a request while the server says that the first one is still running.
async fn settled(subject: &Subject<'_>, message: &Message) -> Result<Reply, Stop> {
    let mut reply = subject.send(message).await?;
    for _ in 0..LOOKS {
        if reply.said() != Said::Refused(code::IN_PROGRESS) {
            break;
        }
        tokio::time::sleep(PAUSE).await;
        reply = subject.send(message).await?;
    }
    Ok(reply)
}

/// One answer, then the good one, on one state: the second must not act.
async fn twice(
    subject: &Subject<'_>,
    answers: Map<String, Value>,
    first: &str,
) -> Result<Finding, Stop> {
    let prey = subject.open().await?;
    let other = subject
        .retry(&prey)
        .with("inputResponses", Value::Object(answers))
        .message();
    let reply = subject.send(&other).await?;
    if !reply.is_served() {
        let why = format!(
            "the first answer ({first}) did not count: the server {}",
            reply.sort()
        );
        return Ok(Finding::unknown(why).with(subject, &other, &reply));
    }
    let message = subject.retry(&prey).message();
    let (reply, act) = subject.attempt(&message).await?;
    let finding = match act {
        Act::Acted => Finding::new(
            Verdict::Unsafe,
            format!("after {first} the good answer acted"),
        ),
        Act::Held => Finding::new(
            Verdict::Safe,
            format!("after {first} the good answer: the server {}", reply.sort()),
        ),
        Act::Unclear => {
            Finding::unknown(format!("after {first} another result came; {NEEDS_COUNT}"))
        }
    };
    Ok(finding.with(subject, &message, &reply))
}

pub(super) async fn fork(subject: &Subject<'_>) -> Result<Finding, Stop> {
    let prey = subject.open().await?;
    let mut answers = prey.answers.clone();
    let other = answers.values_mut().find_map(|answer| {
        let content = answer.get_mut("content")?.as_object_mut()?;
        let (name, value) = content
            .iter_mut()
            .find(|(_, value)| **value != changed(value))?;
        *value = changed(value);
        Some(format!("another `{name}`"))
    });
    match other {
        Some(what) => twice(subject, answers, &what).await,
        None => Ok(Finding::not_applicable(
            "the answer has no content that could be another",
        )),
    }
}

pub(super) async fn decline(subject: &Subject<'_>) -> Result<Finding, Stop> {
    refusal(subject, "decline").await
}

pub(super) async fn cancel(subject: &Subject<'_>) -> Result<Finding, Stop> {
    refusal(subject, "cancel").await
}

async fn refusal(subject: &Subject<'_>, action: &str) -> Result<Finding, Stop> {
    let prey = subject.open().await?;
    if !prey
        .answers
        .values()
        .all(|answer| answer.get("action").is_some())
    {
        return Ok(Finding::not_applicable(
            "not every question is answered with an action",
        ));
    }
    let keys = prey.answers.keys();
    let answers = keys.map(|key| (key.clone(), json!({ "action": action })));
    twice(subject, answers.collect(), action).await
}

pub(super) async fn concurrent(subject: &Subject<'_>) -> Result<Finding, Stop> {
    let prey = subject.open().await?;
    let before = subject.effects().await?;
    let message = subject.retry(&prey).message();
    let sent = join_all((0..AT_ONCE).map(|_| subject.send(&message))).await;
    let replies: Vec<Reply> = sent.into_iter().collect::<Result<_, _>>()?;
    // Who was told that the first is still running asks once more, so that nothing is counted too early.
    let last = settled(subject, &message).await?;
    let after = subject.effects().await?;
    let ran = |reply: &&Reply| matches!(reply.said(), Said::Complete(_)) && !reply.is_replayed();
    let results: Vec<&Reply> = replies.iter().filter(ran).collect();
    let differ = results.windows(2).any(|pair| match pair {
        [one, other] => one.result() != other.result(),
        _ => false,
    });
    let finding = match (before, after) {
        (Some(before), Some(after)) if after > before + 1 => Finding::new(
            Verdict::Unsafe,
            format!("{AT_ONCE} at once: {} effects", after - before),
        ),
        (Some(before), Some(after)) => Finding::new(
            Verdict::Safe,
            format!("{AT_ONCE} at once: {} of 1 effect", after - before),
        ),
        _ if differ => Finding::new(
            Verdict::Unsafe,
            format!("{AT_ONCE} at once: results that differ"),
        ),
        _ if results.len() > 1 => Finding::unknown(format!(
            "{} same results, unflagged; {NEEDS_COUNT}",
            results.len()
        )),
        _ => Finding::new(
            Verdict::Safe,
            format!("{AT_ONCE} at once: {} unflagged results", results.len()),
        ),
    };
    Ok(finding.with(subject, &message, &last))
}

pub(super) async fn by_another(subject: &Subject<'_>) -> Result<Finding, Stop> {
    if let Some(finding) = nobody_else(subject) {
        return Ok(finding);
    }
    let (prey, _) = match used(subject).await? {
        Ok(used) => used,
        Err(finding) => return Ok(finding),
    };
    let other = subject.target.other_token.as_deref();
    let message = subject.retry(&prey).by(other).message();
    let (reply, _) = subject.attempt(&message).await?;
    // Stored or not: the result is not theirs.
    let finding = match reply.said() {
        Said::Complete(_) => Finding::new(Verdict::Unsafe, "somebody else got the result"),
        _ => Finding::new(Verdict::Safe, format!("1 {}", reply.sort())),
    };
    Ok(finding.with(subject, &message, &reply))
}

pub(super) async fn with_other_arguments(subject: &Subject<'_>) -> Result<Finding, Stop> {
    let mut last = None;
    for (what, arguments) in subject.other_arguments().await? {
        let (prey, _) = match used(subject).await? {
            Ok(used) => used,
            Err(finding) => return Ok(finding),
        };
        let message = moved(subject, &prey, &arguments).message();
        let (reply, act) = subject.attempt(&message).await?;
        let finding = match act {
            Act::Acted => Finding::new(Verdict::Unsafe, format!("{what}: it acted")),
            Act::Unclear => Finding::unknown(format!("{what}: a result came; {NEEDS_COUNT}")),
            // The effects of other arguments may be counted elsewhere.
            Act::Held if subject.claims_to_act(&reply) => Finding::unknown(format!(
                "{what}: the result of the good path came, and the count did not rise: is --effect-tool told of all effects?"
            )),
            Act::Held => Finding::new(
                Verdict::Safe,
                format!("{what}: the server {}", reply.sort()),
            ),
        };
        let finding = finding.with(subject, &message, &reply);
        match finding.verdict {
            Verdict::Unsafe => return Ok(finding),
            Verdict::Safe if last.is_some() => {}
            _ => last = Some(finding),
        }
    }
    Ok(last.unwrap_or_else(|| {
        Finding::unknown(
            "no other arguments were found with which the tool asks; --other-arguments gives some",
        )
    }))
}

pub(super) async fn spent(subject: &Subject<'_>) -> Result<Finding, Stop> {
    let other = subject.target.other_token.as_deref();
    for what in ["changed", "by somebody else", "with a malformed answer"] {
        let prey = subject.open().await?;
        let spoilt = match (what, other) {
            ("changed", _) => {
                let at = prey.text().len() / 2;
                let state = flipped(prey.text(), at).unwrap_or_default();
                subject.retry_with(&prey, state)
            }
            ("by somebody else", Some(_)) => subject.retry(&prey).by(other),
            ("by somebody else", None) => continue,
            _ => subject.retry(&prey).with("inputResponses", json!("accept")),
        };
        let refusal = subject.send(&spoilt.message()).await?;
        if refusal.is_served() {
            // Other rows say what is wrong with that; here it is no refusal.
            continue;
        }
        let message = subject.retry(&prey).message();
        let reply = subject.send(&message).await?;
        if !matches!(reply.said(), Said::Complete(_)) {
            let note = format!(
                "after a refused attempt ({what}) the owner's retry: the server {}",
                reply.sort()
            );
            return Ok(Finding::new(Verdict::Unsafe, note).with(subject, &message, &reply));
        }
    }
    Ok(Finding::new(
        Verdict::Safe,
        "the owner's retry works after each",
    ))
}
