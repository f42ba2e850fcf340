//! What was given away, and what broke, in all rows before.

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD_NO_PAD, URL_SAFE_NO_PAD};

use crate::decode::readable;
use crate::report::Verdict;
use crate::subject::{Stop, Subject};
use crate::trial::Finding;
use crate::wire::Said;

pub(super) async fn credentials(subject: &Subject<'_>) -> Result<Finding, Stop> {
    let Some(token) = subject.target.token.as_deref() else {
        return Ok(Finding::not_applicable(
            "the call carries no bearer token; --token gives one",
        ));
    };
    let prey = subject.open().await?;
    let text = readable(prey.text());
    let spelt = [
        token.to_owned(),
        URL_SAFE_NO_PAD.encode(token),
        STANDARD_NO_PAD.encode(token),
    ];
    Ok(match spelt.iter().any(|token| text.contains(token)) {
        true => Finding::new(
            Verdict::Unsafe,
            "whoever has the state can read the caller's bearer token in it",
        ),
        false => Finding::new(
            Verdict::Safe,
            "what can be read of it does not hold the token",
        ),
    })
}

/// A row about what was seen of all replies.
fn noticed(seen: Vec<(String, String)>, bad: &str, good: String) -> Finding {
    let count = seen.len();
    match seen.into_iter().next() {
        None => Finding::new(Verdict::Safe, good),
        Some((sent, received)) => Finding {
            verdict: Verdict::Unsafe,
            note: format!("{count} of them {bad}"),
            sent,
            received,
        },
    }
}

pub(super) async fn told(subject: &Subject<'_>) -> Result<Finding, Stop> {
    let good = format!("none of {} replies", subject.requests());
    Ok(noticed(
        subject.seen().leaks,
        "hold a bearer token, a path or a trace of calls",
        good,
    ))
}

pub(super) async fn internal(subject: &Subject<'_>) -> Result<Finding, Stop> {
    let good = format!("none of {} requests", subject.requests());
    Ok(noticed(
        subject.seen().internal,
        "ended with an internal error or with nothing",
        good,
    ))
}

pub(super) async fn survives(subject: &Subject<'_>) -> Result<Finding, Stop> {
    let prey = match subject.open().await {
        Err(Stop::Trouble(why)) => return Ok(Finding::new(Verdict::Unsafe, why)),
        other => other?,
    };
    let message = subject.retry(&prey).message();
    let reply = subject.send(&message).await?;
    let finding = match reply.said() {
        Said::Complete(_) if !reply.is_replayed() => {
            Finding::new(Verdict::Safe, "it gave a result")
        }
        _ => Finding::new(Verdict::Unsafe, format!("the server {}", reply.sort())),
    };
    Ok(finding.with(subject, &message, &reply))
}
