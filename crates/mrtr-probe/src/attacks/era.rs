//! Capabilities that were not declared, and the earlier era's dress.

use mrtr_protocol::{code, headers, method};
use serde_json::{Value, json};

use crate::report::Verdict;
use crate::subject::{Stop, Subject};
use crate::trial::{Act, Finding};
use crate::wire::{Call, Message, Reply, Said, all_capabilities};

/// Everything but what this question needs.
fn without(question: &Value) -> Value {
    let mut all = all_capabilities();
    let asked = question
        .get("method")
        .and_then(Value::as_str)
        .unwrap_or_default();
    let mode = question.pointer("/params/mode").and_then(Value::as_str);
    if let Some(kinds) = all.as_object_mut() {
        match asked {
            method::ELICITATION_CREATE => {
                let mode = if mode == Some("url") { "url" } else { "form" };
                if let Some(modes) = kinds.get_mut("elicitation").and_then(Value::as_object_mut) {
                    modes.remove(mode);
                }
            }
            method::ROOTS_LIST => _ = kinds.remove("roots"),
            _ => _ = kinds.remove("sampling"),
        }
    }
    all
}

pub(super) async fn undeclared(subject: &Subject<'_>) -> Result<Finding, Stop> {
    // Whatever is asked first must be declared.
    let asked = subject.send(&subject.first().message()).await?;
    let prey = subject.caught(&asked).map_err(Stop::Trouble)?;
    let mut declared = vec![("nothing", json!({}))];
    if let Some(question) = prey.questions.values().next() {
        declared.push(("everything else", without(question)));
    }
    let mut finding = Finding::not_applicable("nothing was asked");
    let mut notes = Vec::new();
    for (what, capabilities) in declared {
        let message = subject.first().declaring(capabilities).message();
        let (reply, act) = subject.attempt(&message).await?;
        let bad = match (reply.said(), act) {
            (Said::Asked, _) => Some("it was asked all the same"),
            (_, Act::Acted) => Some("it acted without asking"),
            _ => None,
        };
        if let Some(bad) = bad {
            let note = format!("the client declared {what}: {bad}");
            return Ok(Finding::new(Verdict::Unsafe, note).with(subject, &message, &reply));
        }
        notes.push(format!("{what}: {}", said(&reply)));
        finding = Finding::new(Verdict::Safe, notes.join(", ")).with(subject, &message, &reply);
    }
    Ok(finding)
}

/// What was said, and whether it is what the specification names.
fn said(reply: &Reply) -> String {
    let named = reply.said() == Said::Refused(code::MISSING_CLIENT_CAPABILITY)
        && reply.status() == Some(400);
    match named {
        true => reply.sort(),
        false => format!("{}, where -32021 with HTTP 400 is due", reply.sort()),
    }
}

pub(super) async fn earlier(subject: &Subject<'_>) -> Result<Finding, Stop> {
    let session = session(subject).await?;
    let mut last: Option<(Message, Reply)> = None;
    let ways = [None, session.as_deref()];
    let ways = if session.is_some() {
        &ways[..]
    } else {
        &ways[..1]
    };
    for session in ways {
        for with_state in [true, false] {
            let prey = subject.open().await?;
            let mut call = subject.retry(&prey);
            if !with_state {
                call = call.without("requestState");
            }
            let message = call.earlier(*session);
            let (reply, act) = subject.attempt(&message).await?;
            if act == Act::Acted {
                let how = if session.is_some() {
                    "in a session"
                } else {
                    "without a session"
                };
                let note =
                    format!("{how}, answers that were sent along with the call counted: it acted");
                return Ok(Finding::new(Verdict::Unsafe, note).with(subject, &message, &reply));
            }
            last = Some((message, reply));
        }
    }
    let note = match session {
        Some(_) => "without a session and in one: nothing happened",
        None => "without a session: nothing happened; the server opens none",
    };
    let finding = Finding::new(Verdict::Safe, note);
    Ok(match last {
        Some((message, reply)) => finding.with(subject, &message, &reply),
        None => finding,
    })
}

/// Opens a session of the earlier era, where the server has that.
async fn session(subject: &Subject<'_>) -> Result<Option<String>, Stop> {
    let params = json!({
        "protocolVersion": "2025-11-25",
        "capabilities": { "elicitation": {} },
        "clientInfo": { "name": "mrtr-probe", "version": env!("CARGO_PKG_VERSION") },
    });
    let call: Call = subject.call(method::INITIALIZE, params);
    let message = call.earlier(None).without(headers::PROTOCOL_VERSION);
    let reply = subject.send(&message).await?;
    let Ok(response) = &reply.came else {
        return Ok(None);
    };
    let Some(session) = response.header(headers::SESSION_ID).map(str::to_owned) else {
        return Ok(None);
    };
    let initialized = json!({ "jsonrpc": "2.0", "method": "notifications/initialized" });
    let message = call.earlier(Some(&session)).body(initialized.to_string());
    subject.send(&message).await?;
    Ok(Some(session))
}
