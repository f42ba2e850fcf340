//! Nobody is turned away without a reason, and nothing comes that should not.

use crate::catalogue::Tool;
use crate::checker::evidence::Evidence;
use crate::checker::{Findings, Promise};
use crate::history::{Call, Got, Sent, StateId, What};
use crate::server::tools::PANIC;
use crate::terms::{EPOCH_AGE, SKEW, millis};
use crate::trace::{Answer, Question};

/// How much later than it should a server may notice that the epoch was rotated: it may have stood still.
const PATIENCE: u64 = 10_000;

pub(crate) fn check(evidence: &Evidence<'_>, findings: &mut Findings) {
    for (flow, calls) in evidence.flows() {
        for call in calls {
            if let Err((promise, what)) = judge(evidence, call, findings) {
                findings.broken(promise, flow, format!("{what}: {:?}", call.got));
            }
        }
    }
    for op in &evidence.history.ops {
        if evidence.is_rightly_late(op) == Some(false) {
            let flow = evidence.flow_of(op).unwrap_or_default();
            let what = format!("{} was told that {:?} has expired", op.by, op.row());
            findings.broken(Promise::JustRefusal, flow, what);
        }
    }
    for flow in &evidence.history.unfinished {
        let calm = evidence.history.calm_from;
        let calls = evidence.calls(*flow).iter();
        if !calls
            .filter(|call| call.from >= calm)
            .any(|call| is_an_end(call))
        {
            let what = "it did not come to an end once nothing went wrong any more".to_owned();
            findings.broken(Promise::NoSurprise, *flow, what);
        }
    }
}

/// Whether nothing more can come of what was sent, or will in the time that a lease has.
fn is_an_end(call: &Call) -> bool {
    match &call.got {
        Got::Done { .. } => true,
        // In progress is for ever where a clock that was ahead has set the lease; whether it was is judged elsewhere.
        Got::Refused { code, .. } => *code != 1003,
        _ => false,
    }
}

type Judged = Result<(), (Promise, &'static str)>;

fn judge(evidence: &Evidence<'_>, call: &Call, findings: &mut Findings) -> Judged {
    let no_surprise = |is_one: bool, what| match is_one {
        true => Err((Promise::NoSurprise, what)),
        false => Ok(()),
    };
    match &call.got {
        Got::Asked { .. } | Got::Done { .. } | Got::Cut => Ok(()),
        Got::Odd(_) => no_surprise(true, "no server of ours says that"),
        // Whoever listens at the address of a server that has ended may do anything.
        Got::Broken(_) | Got::Silence => {
            let end = evidence.end_of(call.to);
            let ended = end.is_some_and(|end| end.from <= call.till);
            no_surprise(!ended, "no response came, and the server had not ended")
        }
        Got::Refused { code, reason, .. } => match (code, reason.as_deref()) {
            (1001, None) => in_progress(evidence, call),
            (1002, None) if !may_be_uncertain(evidence, call) => Err((
                Promise::Certain,
                "its state lives, and its steps are transactions",
            )),
            (1002, None) => match evidence.cause(call) {
                Ok(cause) => {
                    findings.unknown(cause);
                    Ok(())
                }
                Err(why) => {
                    findings.broken(Promise::UnknownForAReason, call.flow, why);
                    Err((Promise::UnknownForAReason, "nothing is behind this"))
                }
            },
            (1003, None) => no_word(evidence, call),
            (-32603, None) => no_surprise(!panicked(evidence, call), "an internal error"),
            (-32602, Some(reason)) => {
                findings.rejected(reason);
                rejection(evidence, call, reason)
            }
            _ => no_surprise(true, "an error that nothing here should cause"),
        },
    }
}

/// Whether an outcome may be unknown at all: not where a lost run is taken over and no step can be in doubt, for as long as
/// the state lives.
fn may_be_uncertain(evidence: &Evidence<'_>, call: &Call) -> bool {
    let Sent::Retry(state, _) = call.sent else {
        return true;
    };
    evidence.tool(call.flow) != Some(Tool::Book)
        || evidence.may_have_expired(state, call.to, call.from, call.till)
        || was_rotated(evidence, call)
}

fn in_progress(evidence: &Evidence<'_>, call: &Call) -> Judged {
    let heard = evidence.ops_during(call.flow, call.to, call.from..=call.till);
    let runs = heard.iter().any(|op| {
        let (row, own) = match &op.question {
            Question::Claim { row, token, .. } => (*row, Some(*token)),
            Question::Lookup { row, .. } => (*row, None),
            _ => return false,
        };
        op.answer() == Some(&Answer::InProgress)
            && evidence
                .owners(row)
                .iter()
                .any(|owner| Some(owner.token) != own && evidence.may_have_run(*owner, op))
    });
    match runs {
        true => Ok(()),
        false => Err((Promise::JustRefusal, "nobody runs it")),
    }
}

fn no_word(evidence: &Evidence<'_>, call: &Call) -> Judged {
    let during = call.from..=call.till;
    let heard = evidence.ops_during(call.flow, call.to, during.clone());
    let reset = heard
        .iter()
        .any(|op| op.answer() == Some(&Answer::StaleEpoch));
    // What may run again is not told to be unknown, for the same reasons.
    let runs_again = evidence.tool(call.flow).is_some_and(Tool::runs_again);
    let cut_off = runs_again && evidence.cause(call).is_ok();
    match reset || cut_off || evidence.had_no_word(call.to, during) {
        true => Ok(()),
        false => Err((Promise::JustRefusal, "the ledger had its word")),
    }
}

/// Whether a body that may run again panicked, and says so.
fn panicked(evidence: &Evidence<'_>, call: &Call) -> bool {
    evidence.tool(call.flow).is_some_and(Tool::runs_again)
        && evidence.cuts(call.flow).any(|cut| {
            cut.step == PANIC && cut.by == call.to && (call.from..=call.till).contains(&cut.at)
        })
}

fn rejection(evidence: &Evidence<'_>, call: &Call, reason: &str) -> Judged {
    let Sent::Retry(state, reply) = call.sent else {
        // It had no state; its flow was over before its first step.
        let late = reason == "expired" && evidence.came_too_late(call.flow, call.till);
        return match late {
            true => Ok(()),
            false => Err((
                Promise::NoSurprise,
                "a first call had no state to be rejected",
            )),
        };
    };
    let just = match reason {
        "already_used" => evidence.calls(call.flow).iter().any(|other| {
            let of_this_state =
                matches!(other.sent, Sent::Retry(of, with) if of == state && with != reply);
            of_this_state && other.from <= call.till
        }),
        "expired" => {
            evidence.may_have_expired(state, call.to, call.from, call.till)
                || evidence.came_too_late(call.flow, call.till)
        }
        // What is too large to be carried goes when its state's row does.
        "not_kept" => evidence.may_have_been_removed(state, call.till),
        "stale_epoch" => was_rotated(evidence, call),
        "not_yet_valid" => {
            let (shown, _) = evidence.shown(call.to, call.from, call.till);
            born_at_most(evidence, state) > shown.saturating_add(millis(SKEW))
        }
        _ => return Err((Promise::NoSurprise, "nobody tampered with a state")),
    };
    match just {
        true => Ok(()),
        false => Err((Promise::JustRefusal, "the reason is not one")),
    }
}

fn was_rotated(evidence: &Evidence<'_>, call: &Call) -> bool {
    let opened = evidence
        .opening(call.flow)
        .map_or(0, |opening| opening.from);
    let seen = opened.saturating_sub(millis(EPOCH_AGE) + PATIENCE);
    let mut rotations = evidence.incidents(|what| what == What::Rotated);
    rotations.any(|rotation| rotation.from <= call.till && seen <= rotation.till)
}

fn born_at_most(evidence: &Evidence<'_>, state: StateId) -> u64 {
    evidence.sealed(state).1
}
