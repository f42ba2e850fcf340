//! What the effects' own record says, held against what was acknowledged.

use std::collections::{BTreeMap, BTreeSet};

use crate::catalogue::Said;
use crate::checker::evidence::Evidence;
use crate::checker::{Findings, Promise};
use crate::history::{Call, Got, Reply, Sent, StateId};

/// What the framework says instead of a tool's result when a client has gone.
const CANCELLED: &str = "The call was cancelled when its connection closed";

/// What it says when there is no time left to ask, or to take a step.
const TOO_LATE: [&str; 2] = [
    "The tool stopped: the call has been open for too long to ask again",
    "The tool stopped: its time was over before the next step",
];

pub(crate) fn check(evidence: &Evidence<'_>, findings: &mut Findings) {
    for (flow, calls) in evidence.flows() {
        at_most_once(evidence, flow, findings);
        for call in calls {
            match &call.got {
                Got::Asked { said, .. } => acknowledged(evidence, call, said, findings),
                Got::Done { text, is_error, .. } => match Said::from_text(text) {
                    Some(said) => acknowledged(evidence, call, &said, findings),
                    None => unspoken(evidence, call, text, *is_error, findings),
                },
                _ => {}
            }
        }
        as_answered(evidence, flow, calls, findings);
        one_price(evidence, flow, calls, findings);
    }
}

/// No step of a flow happened twice.
fn at_most_once(evidence: &Evidence<'_>, flow: u64, findings: &mut Findings) {
    let mut entries: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for effect in evidence.effects(flow) {
        entries.entry(&effect.step).or_default().push(&effect.entry);
    }
    for (step, entries) in entries.into_iter().filter(|(_, entries)| entries.len() > 1) {
        let what = format!(
            "step {step:?} happened {} times: {}",
            entries.len(),
            entries.join(", ")
        );
        findings.broken(Promise::AtMostOnce, flow, what);
    }
}

/// What a response vouches for has happened, as it says.
fn acknowledged(evidence: &Evidence<'_>, call: &Call, said: &Said, findings: &mut Findings) {
    for (step, entry) in &said.steps {
        findings.acknowledged(call.flow, step);
        let effects = evidence.effects(call.flow).iter();
        let happened = effects.filter(|effect| effect.step == *step && effect.entry == *entry);
        match happened.count() {
            1 => {}
            times => {
                let what = format!(
                    "step {step:?} was acknowledged as {entry}, and the record has that {times} times"
                );
                findings.broken(Promise::Acknowledged, call.flow, what);
            }
        }
    }
    if let (Some(pick), Sent::Retry(_, Reply::Pick(answered))) = (said.pick, call.sent)
        && pick != answered
        && matches!(call.got, Got::Done { .. })
    {
        let what = format!("the answer was {answered}, and the result goes by {pick}");
        findings.broken(Promise::OneAnswer, call.flow, what);
    }
}

/// The framework's own words: what may have happened in that run is named in them.
fn unspoken(
    evidence: &Evidence<'_>,
    call: &Call,
    text: &str,
    is_error: bool,
    findings: &mut Findings,
) {
    let says_so = TOO_LATE.iter().any(|words| text.starts_with(words));
    let too_late = says_so && evidence.flow_may_be_over(call.flow, call.till);
    if !is_error || !(text.starts_with(CANCELLED) || too_late) {
        let what = format!("a result that no tool gives: {text:?}");
        return findings.broken(Promise::NoSurprise, call.flow, what);
    }
    let named = text.split_once("Steps that were taken: ");
    let named = named.and_then(|(_, rest)| rest.split_once(". "));
    let named: BTreeSet<&str> =
        named.map_or_else(BTreeSet::new, |(steps, _)| steps.split(", ").collect());
    // What an earlier round did was told with its question.
    let began = match call.sent {
        Sent::Retry(state, _) => evidence.first_seen(state),
        Sent::Opening => 0,
    };
    for effect in evidence.effects(call.flow) {
        if effect.at > began && !named.contains(effect.step.as_str()) {
            let what = format!(
                "step {:?} happened, and the call that ended does not name it: {text:?}",
                effect.step
            );
            findings.broken(Promise::Acknowledged, call.flow, what);
        }
    }
}

/// An answer that lost to another one has no effect.
fn as_answered(evidence: &Evidence<'_>, flow: u64, calls: &[&Call], findings: &mut Findings) {
    let mut replies: BTreeMap<StateId, (BTreeSet<Reply>, BTreeSet<Reply>)> = BTreeMap::new();
    for call in calls {
        let Sent::Retry(state, reply) = call.sent else {
            continue;
        };
        let (sent, counted) = replies.entry(state).or_default();
        sent.insert(reply);
        if matches!(call.got, Got::Asked { .. } | Got::Done { .. }) {
            counted.insert(reply);
        }
    }
    let counted: BTreeSet<Reply> = replies
        .values()
        .flat_map(|(_, counted)| counted)
        .copied()
        .collect();
    for (sent, winner) in replies.values().filter(|(_, counted)| !counted.is_empty()) {
        for lost in sent
            .difference(winner)
            .filter(|lost| !counted.contains(lost))
        {
            let Reply::Pick(pick) = lost else { continue };
            let mut effects = evidence.effects(flow).iter();
            if let Some(effect) = effects.find(|effect| effect.pick == Some(*pick)) {
                let what = format!(
                    "{} goes by the answer {pick}, and {winner:?} had counted",
                    effect.entry
                );
                findings.broken(Promise::OneAnswer, flow, what);
            }
        }
    }
}

/// The price that was shown is the price that was charged.
fn one_price(evidence: &Evidence<'_>, flow: u64, calls: &[&Call], findings: &mut Findings) {
    let said = calls.iter().filter_map(|call| match &call.got {
        Got::Asked { said, .. } => said.price,
        Got::Done { text, .. } => Said::from_text(text)?.price,
        _ => None,
    });
    let charged = evidence
        .effects(flow)
        .iter()
        .filter_map(|effect| effect.price);
    let prices: BTreeSet<u32> = said.chain(charged).collect();
    if prices.len() > 1 {
        findings.broken(
            Promise::Acknowledged,
            flow,
            format!("several prices: {prices:?}"),
        );
    }
}
