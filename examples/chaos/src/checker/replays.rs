//! What is answered twice: the same retry has the same result, and another answer to the same state has none.

use std::collections::{BTreeMap, BTreeSet};

use crate::checker::evidence::Evidence;
use crate::checker::{Findings, Promise};
use crate::history::{Call, Got, Reply, Sent, StateId};
use crate::trace::Millis;

pub(crate) fn check(evidence: &Evidence<'_>, findings: &mut Findings) {
    for (flow, calls) in evidence.flows() {
        let mut retries: BTreeMap<(StateId, Reply), Vec<&Call>> = BTreeMap::new();
        let mut answers: BTreeMap<StateId, BTreeSet<Reply>> = BTreeMap::new();
        for call in calls {
            let Sent::Retry(state, reply) = call.sent else {
                continue;
            };
            retries.entry((state, reply)).or_default().push(call);
            if is_its_own(&call.got) {
                answers.entry(state).or_default().insert(reply);
            }
        }
        for ((state, reply), calls) in retries {
            same_result(evidence, flow, (state, reply), &calls, findings);
        }
        for (state, answers) in answers.into_iter().filter(|(_, answers)| answers.len() > 1) {
            let what = format!(
                "{state:?} was good for {} answers: {answers:?}",
                answers.len()
            );
            findings.broken(Promise::OneAnswer, flow, what);
        }
    }
}

/// Whether a response tells something of the caller's own retry, and not that another answer came first.
fn is_its_own(got: &Got) -> bool {
    match got {
        Got::Asked { .. } | Got::Done { .. } => true,
        Got::Refused { code, .. } => [1001, 1002].contains(code),
        _ => false,
    }
}

/// What a retry came to, whoever tells it.
#[derive(PartialEq, Eq)]
enum Result<'c> {
    Asked(StateId),
    Done(&'c str, bool),
}

fn result(got: &Got) -> Option<Result<'_>> {
    match got {
        Got::Asked { state, .. } => Some(Result::Asked(*state)),
        Got::Done { text, is_error, .. } => Some(Result::Done(text, *is_error)),
        _ => None,
    }
}

fn same_result(
    evidence: &Evidence<'_>,
    flow: u64,
    (state, reply): (StateId, Reply),
    calls: &[&Call],
    findings: &mut Findings,
) {
    let mut told: Option<(&Call, Millis)> = None;
    for call in calls {
        let Some(result) = result(&call.got) else {
            continue;
        };
        match told {
            None => told = Some((call, call.till)),
            Some((first, at)) => {
                told = Some((first, at.min(call.till)));
                if self::result(&first.got) != Some(result) {
                    let what = format!(
                        "{state:?} answered with {reply:?} had two results: {:?} and {:?}",
                        first.got, call.got
                    );
                    findings.broken(Promise::SameResult, flow, what);
                }
            }
        }
    }
    let Some((_, told)) = told else { return };
    for call in calls.iter().filter(|call| call.from > told) {
        let Got::Refused { code, reason, .. } = &call.got else {
            continue;
        };
        // Once it was told, it is told again, also for a while after the state has expired, or refused for what has changed
        // since; that is judged as a rejection.
        let forgotten = match reason.as_deref() {
            Some("already_used") => true,
            Some("expired" | "not_kept") => !evidence.may_have_been_removed(state, call.till),
            _ => [1001, 1002].contains(code),
        };
        if forgotten {
            let what = format!(
                "{state:?} answered with {reply:?} had a result, and later {:?}",
                call.got
            );
            findings.broken(Promise::SameResult, flow, what);
        }
    }
}
