//! Histories that are made up: one in which every promise is kept, and for each promise one in which it is not.

use super::*;
use crate::catalogue::{Arguments, Said, Tool};
use crate::history::{Call, Cut, Errand, Got, Incident, Op, Reply, Sent, StateId, What};
use crate::server::account;
use crate::terms::{LEASE, LIFETIME, RETENTION, millis};
use crate::trace::{Answer, Effect, Kind, Millis, Process, Question, RowId, TokenId};

const FLOW: u64 = 7;
const A: Process = Process { slot: 0, life: 0 };
const B: Process = Process { slot: 1, life: 0 };
/// When the servers were started.
const T0: Millis = 1_000_000;
/// When the flow is opened; it takes less than a tenth of a second from there.
const T: Millis = T0 + 1_000;

const ROUND: RowId = RowId(T + 5 + millis(LIFETIME), 1);
const STEP: RowId = RowId(T + 5 + 30_000, 2);
const STATE: StateId = StateId(0);
const YES: Reply = Reply::Pick(1);
const NO: Reply = Reply::Pick(2);

/// A history that is told bit by bit.
#[derive(Debug, Default)]
struct Tale(History);

impl Tale {
    /// Two servers, and a flow that was opened at the first.
    fn begin() -> Self {
        let mut tale = Tale::default();
        let arguments = Arguments {
            flow: FLOW,
            before: 0,
            inside: 0,
            after: 0,
            fails: false,
            patience: 0,
            ballast: 0,
            panics: 0,
        };
        let errand = Errand {
            tool: Tool::Pay,
            arguments,
        };
        tale.0.errands.insert(FLOW, errand);
        for process in [A, B] {
            tale.incident(What::Started(process), T0, T0 + 10);
        }
        tale.call(A, Sent::Opening, T, T + 10, asked(STATE));
        tale
    }

    /// The whole of it: the answer is claimed, its effect happens, and its result arrives.
    fn whole() -> Self {
        let mut tale = Self::begin();
        tale.runs(A, T + 20);
        tale.effect("pay", "e1", T + 40);
        tale.settles(A, T + 50);
        tale.call(A, retry(YES), T + 20, T + 90, done("e1"));
        tale
    }

    fn call(&mut self, to: Process, sent: Sent, from: Millis, till: Millis, got: Got) {
        self.0.calls.push(Call {
            flow: FLOW,
            sent,
            to,
            from,
            till,
            got,
            heeded: true,
        });
    }

    fn incident(&mut self, what: What, from: Millis, till: Millis) {
        self.0.incidents.push(Incident { what, from, till });
    }

    fn effect(&mut self, step: &str, entry: &str, at: Millis) {
        self.0.effects.push(Effect {
            flow: FLOW,
            step: step.into(),
            entry: entry.into(),
            pick: Some(1),
            price: None,
            at,
        });
    }

    fn op(&mut self, by: Process, question: Question, asked: Millis, answer: Option<Answer>) {
        self.0.ops.push(Op {
            by,
            question,
            asked,
            answered: answer.map(|answer| (asked + 2, answer)),
        });
    }

    /// A process claims round and step, each under its own token.
    fn runs(&mut self, by: Process, at: Millis) {
        self.op(by, claim(ROUND, token(by), None), at, Some(Answer::First));
        let under = Some((ROUND, token(by)));
        self.op(
            by,
            claim(STEP, token(by), under),
            at + 5,
            Some(Answer::First),
        );
    }

    fn settles(&mut self, by: Process, at: Millis) {
        self.settle(by, STEP, at, Answer::Stored);
        self.settle(by, ROUND, at + 5, Answer::Stored);
    }

    fn settle(&mut self, by: Process, row: RowId, at: Millis, answer: Answer) {
        self.op(by, settle(row, token(by), false), at, Some(answer));
    }

    /// The other server is asked, asks the ledger, and passes on what it hears.
    fn retried(&mut self, at: Millis, heard: Answer, got: Got) {
        self.op(B, claim(ROUND, 99, None), at + 5, Some(heard));
        self.call(B, retry(YES), at, at + 10, got);
    }

    fn broken(&self) -> Vec<Promise> {
        let violations = check(&self.0).violations.into_iter();
        let mut broken: Vec<Promise> = violations.map(|violation| violation.promise).collect();
        broken.dedup();
        broken
    }

    #[track_caller]
    fn keeps_every_promise(&self) {
        let violations = check(&self.0).violations;
        assert!(violations.is_empty(), "{violations:#?}");
    }

    #[track_caller]
    fn breaks(&self, promise: Promise) {
        assert_eq!(self.broken(), [promise]);
    }

    #[track_caller]
    fn has_behind_its_unknown(&self, cause: Cause) {
        self.keeps_every_promise();
        assert_eq!(check(&self.0).unknowns, BTreeMap::from([(cause, 1)]));
    }
}

fn asked(state: StateId) -> Got {
    Got::Asked {
        state,
        said: Said::default(),
        replayed: false,
    }
}

fn said(entry: &str) -> Said {
    Said {
        steps: BTreeMap::from([("pay".into(), entry.into())]),
        price: None,
        pick: Some(1),
    }
}

fn done(entry: &str) -> Got {
    Got::Done {
        text: said(entry).to_text(),
        is_error: false,
        replayed: false,
    }
}

fn refused(code: i64, reason: Option<&str>) -> Got {
    Got::Refused {
        code,
        reason: reason.map(str::to_owned),
        message: String::new(),
    }
}

fn retry(reply: Reply) -> Sent {
    Sent::Retry(STATE, reply)
}

fn token(of: Process) -> TokenId {
    10 + of.slot as u64
}

fn claim(row: RowId, token: TokenId, under: Option<(RowId, TokenId)>) -> Question {
    Question::Claim {
        kind: if row == STEP { Kind::Step } else { Kind::Round },
        row,
        token,
        account: account(FLOW),
        under,
        again: false,
        whole: false,
    }
}

fn settle(row: RowId, token: TokenId, abandoned: bool) -> Question {
    Question::Settle {
        row,
        token,
        abandoned,
    }
}

const UNKNOWN: i64 = 1002;
/// Later than any lease of the tale lasts.
const LATER: Millis = T + 100 + millis(LEASE);

#[test]
fn a_whole_tale_keeps_every_promise_and_so_does_its_replay() {
    let mut tale = Tale::whole();
    tale.keeps_every_promise();
    tale.retried(LATER, Answer::Settled, done("e1"));
    tale.call(
        B,
        retry(NO),
        LATER,
        LATER + 9,
        refused(-32602, Some("already_used")),
    );
    tale.keeps_every_promise();
}

#[test]
fn an_effect_that_happens_twice_is_found() {
    let mut tale = Tale::whole();
    tale.effect("pay", "e2", LATER);
    tale.breaks(Promise::AtMostOnce);
}

#[test]
fn an_effect_that_was_acknowledged_and_is_not_there_is_found() {
    let mut tale = Tale::whole();
    tale.0.effects.clear();
    tale.breaks(Promise::Acknowledged);

    // One that is there under another name was not the one.
    tale.effect("pay", "e2", T + 40);
    tale.breaks(Promise::Acknowledged);
}

#[test]
fn an_acknowledgement_in_a_question_counts_too() {
    let mut tale = Tale::begin();
    tale.runs(A, T + 20);
    tale.settles(A, T + 50);
    let asked = Got::Asked {
        state: StateId(1),
        said: said("e1"),
        replayed: false,
    };
    tale.call(A, retry(YES), T + 20, T + 90, asked);
    tale.breaks(Promise::Acknowledged);
    tale.effect("pay", "e1", T + 40);
    tale.keeps_every_promise();
}

#[test]
fn a_cancelled_call_that_does_not_name_its_steps_is_found() {
    for tool in [Tool::Pay, Tool::Again] {
        let told = |named: &str| {
            let mut tale = Tale::begin();
            tale.0.errands.get_mut(&FLOW).unwrap().tool = tool;
            tale.runs(A, T + 20);
            tale.effect("pay", "e1", T + 40);
            tale.settles(A, T + 50);
            let text = format!(
                "The call was cancelled when its connection closed; no further step was taken.{named}"
            );
            let got = Got::Done {
                text,
                is_error: true,
                replayed: false,
            };
            tale.call(A, retry(YES), T + 20, T + 90, got);
            tale
        };
        told("").breaks(Promise::Acknowledged);
        told(" Steps that were taken: book. Check them.").breaks(Promise::Acknowledged);
        told(" Steps that were taken: pay. Check them.").keeps_every_promise();
    }
}

#[test]
fn a_price_that_changes_is_found() {
    let mut tale = Tale::whole();
    tale.0.effects[0].price = Some(4);
    tale.keeps_every_promise();
    let Got::Asked { said, .. } = &mut tale.0.calls[0].got else {
        panic!("the opening was asked something");
    };
    said.price = Some(5);
    tale.breaks(Promise::Acknowledged);
}

#[test]
fn another_result_of_the_same_retry_is_found() {
    let mut tale = Tale::whole();
    let other = Got::Done {
        text: Said::default().to_text(),
        is_error: false,
        replayed: true,
    };
    tale.retried(LATER, Answer::Settled, other);
    tale.breaks(Promise::SameResult);
}

#[test]
fn a_result_that_is_forgotten_is_found() {
    for got in [refused(1001, None), refused(-32602, Some("expired"))] {
        let mut tale = Tale::whole();
        tale.retried(LATER, Answer::InProgress, got);
        assert!(tale.broken().contains(&Promise::SameResult));
    }

    // It is kept beyond its state's end, and not for ever.
    let over = T + 10 + millis(LIFETIME);
    let late = |at| {
        let mut tale = Tale::whole();
        tale.call(B, retry(YES), at, at + 5, refused(-32602, Some("expired")));
        tale
    };
    late(over + 1_000).breaks(Promise::SameResult);
    late(over + millis(RETENTION)).keeps_every_promise();
}

#[test]
fn a_fork_with_a_result_of_its_own_is_found() {
    let mut tale = Tale::whole();
    tale.call(B, retry(NO), LATER, LATER + 9, done("e1"));
    assert!(tale.broken().contains(&Promise::OneAnswer));

    // Also when it is only told that it runs.
    let mut tale = Tale::whole();
    tale.call(B, retry(NO), LATER, LATER + 9, refused(UNKNOWN, None));
    assert!(tale.broken().contains(&Promise::OneAnswer));
}

#[test]
fn an_effect_of_the_answer_that_lost_is_found() {
    let mut tale = Tale::whole();
    tale.call(B, retry(NO), T + 20, T + 30, Got::Cut);
    tale.effect("other", "e2", T + 45);
    tale.0.effects[1].pick = Some(2);
    tale.breaks(Promise::OneAnswer);
}

#[test]
fn a_row_that_two_own_is_found() {
    let mut tale = Tale::whole();
    tale.op(B, claim(STEP, 99, None), T + 60, Some(Answer::First));
    tale.breaks(Promise::OneOwner);

    // Who gave it back does not own it any more.
    let mut tale = Tale::begin();
    tale.op(A, claim(ROUND, 10, None), T + 20, Some(Answer::First));
    let release = Question::Release {
        row: ROUND,
        token: 10,
    };
    tale.op(A, release, T + 25, Some(Answer::Yes));
    tale.op(B, claim(ROUND, 99, None), T + 60, Some(Answer::First));
    tale.keeps_every_promise();
}

#[test]
fn a_round_is_taken_over_from_a_lost_run_alone() {
    let take_over = |at| {
        let mut tale = Tale::begin();
        tale.op(A, claim(ROUND, 10, None), T + 20, Some(Answer::First));
        let mut claim = claim(ROUND, 99, None);
        if let Question::Claim { again, .. } = &mut claim {
            *again = true;
        }
        tale.op(B, claim, at, Some(Answer::First));
        tale
    };
    take_over(LATER).keeps_every_promise();
    take_over(T + 60).breaks(Promise::OneOwner);
}

/// A run that was begun and not ended, and a retry at the other server that is told *unknown*.
fn cut_short(at: Millis) -> Tale {
    let mut tale = Tale::begin();
    tale.runs(A, T + 20);
    tale.call(A, retry(YES), T + 20, T + 30, Got::Cut);
    tale.retried(at, Answer::Abandoned, refused(UNKNOWN, None));
    tale
}

#[test]
fn a_crash_is_behind_an_unknown_once_the_lease_has_lapsed() {
    let mut tale = cut_short(LATER);
    tale.incident(What::Killed(A), T + 40, T + 41);
    tale.has_behind_its_unknown(Cause::Killed);

    let mut tale = cut_short(T + 60);
    tale.incident(What::Killed(A), T + 40, T + 41);
    tale.breaks(Promise::UnknownForAReason);
}

#[test]
fn nothing_is_unknown_in_one_transaction_while_its_state_lives() {
    let book = |offset| {
        let mut tale = cut_short(LATER);
        tale.0.errands.get_mut(&FLOW).unwrap().tool = Tool::Book;
        tale.incident(What::Killed(A), T + 40, T + 41);
        tale.incident(What::Clock(B, offset), T + 50, T + 51);
        tale
    };
    book(0).breaks(Promise::Certain);
    // By the clock of whoever says so it lives no more.
    book(20_000).keeps_every_promise();
}

#[test]
fn a_round_is_taken_over_once_somebody_found_it_lapsed_and_did_not_hear_so() {
    let mut tale = Tale::begin();
    tale.op(A, claim(ROUND, 10, None), T + 20, Some(Answer::First));
    tale.incident(What::Clock(B, 5_000), T + 30, T + 31);
    let lookup = Question::Lookup {
        kind: Kind::Round,
        row: ROUND,
    };
    tale.op(B, lookup, T + 40, None);
    tale.incident(What::Killed(B), T + 45, T + 46);
    let mut again = claim(ROUND, 99, None);
    if let Question::Claim { again, .. } = &mut again {
        *again = true;
    }
    tale.op(A, again, T + 60, Some(Answer::First));
    tale.keeps_every_promise();

    // Had its clock been right it would have found nothing.
    tale.0
        .incidents
        .retain(|incident| !matches!(incident.what, What::Clock(..)));
    tale.breaks(Promise::OneOwner);
}

#[test]
fn a_clock_that_was_set_is_behind_an_unknown_if_it_was_set_far_enough() {
    let set = |offset| {
        let mut tale = cut_short(T + 60);
        tale.incident(What::Clock(B, offset), T + 35, T + 36);
        tale
    };
    set(5_000).has_behind_its_unknown(Cause::ClockSet);
    set(500).breaks(Promise::UnknownForAReason);
    set(-5_000).breaks(Promise::UnknownForAReason);
}

#[test]
fn a_process_that_stood_still_is_behind_an_unknown() {
    let mut tale = cut_short(LATER);
    tale.incident(What::Paused(A), T + 40, LATER);
    tale.has_behind_its_unknown(Cause::StoodStill);
}

#[test]
fn a_lease_that_lapses_while_nothing_is_slow_is_found() {
    // The process was heard of all the while, so that it could have given signs of life.
    let mut tale = cut_short(LATER);
    for at in (T..LATER).step_by(250) {
        tale.op(A, Question::Purge, at, Some(Answer::Purged(0)));
    }
    tale.breaks(Promise::UnknownForAReason);

    // With a ledger that lets it wait it could not.
    let mut slow = Tale(tale.0.clone());
    let beat = Question::Beat {
        row: ROUND,
        token: token(A),
    };
    slow.op(A, beat, T + 700, Some(Answer::No));
    slow.0.ops.last_mut().unwrap().answered = Some((LATER, Answer::No));
    slow.has_behind_its_unknown(Cause::Slow);

    // Nor can one that is not heard of.
    cut_short(LATER).has_behind_its_unknown(Cause::Slow);
}

#[test]
fn signs_of_life_that_came_leave_no_reason() {
    let mut tale = cut_short(LATER);
    let beat = Question::Beat {
        row: ROUND,
        token: token(A),
    };
    tale.op(A, beat, LATER - 50, Some(Answer::Yes));
    tale.incident(What::Paused(A), T + 40, T + 60);
    tale.breaks(Promise::UnknownForAReason);
}

#[test]
fn a_settled_row_leaves_no_reason_whoever_was_killed() {
    let mut tale = Tale::begin();
    tale.runs(A, T + 20);
    tale.effect("pay", "e1", T + 40);
    tale.settles(A, T + 50);
    tale.incident(What::Killed(A), T + 70, T + 71);
    tale.retried(LATER, Answer::Abandoned, refused(UNKNOWN, None));
    tale.breaks(Promise::UnknownForAReason);
}

#[test]
fn a_settling_without_word_is_behind_an_unknown_to_its_own_caller() {
    let mut tale = Tale::begin();
    tale.runs(A, T + 20);
    tale.settle(A, STEP, T + 50, Answer::Stored);
    tale.settle(A, ROUND, T + 55, Answer::NoWord("busy".into()));
    tale.call(A, retry(YES), T + 20, T + 90, refused(UNKNOWN, None));
    tale.has_behind_its_unknown(Cause::LostWord);
}

#[test]
fn an_unknown_out_of_nothing_is_found() {
    let mut tale = Tale::begin();
    tale.call(A, retry(YES), T + 20, T + 90, refused(UNKNOWN, None));
    tale.breaks(Promise::UnknownForAReason);

    // What somebody else did not hear is no reason here.
    tale.op(
        B,
        claim(ROUND, 99, None),
        T + 30,
        Some(Answer::NoWord("busy".into())),
    );
    tale.breaks(Promise::UnknownForAReason);
}

#[test]
fn a_step_that_was_dropped_is_behind_an_unknown_if_a_tool_dropped_it() {
    let dropped = |cut: bool| {
        let mut tale = Tale::begin();
        tale.runs(A, T + 20);
        tale.op(
            A,
            settle(STEP, token(A), true),
            T + 40,
            Some(Answer::Stored),
        );
        if cut {
            tale.0.cuts.push(Cut {
                by: A,
                flow: FLOW,
                step: "pay".into(),
                at: T + 41,
            });
        }
        tale.op(A, claim(STEP, 50, None), T + 60, Some(Answer::Abandoned));
        tale.call(A, retry(YES), T + 20, T + 90, refused(UNKNOWN, None));
        tale
    };
    dropped(true).has_behind_its_unknown(Cause::CutOff);
    dropped(false).breaks(Promise::UnknownForAReason);
}

#[test]
fn a_round_that_was_given_up_passes_its_reason_on() {
    // The step's run had no word; its round was given up for that, and the retry hears so at once.
    let mut tale = Tale::begin();
    tale.op(A, claim(ROUND, token(A), None), T + 20, Some(Answer::First));
    let under = Some((ROUND, token(A)));
    let busy = || Some(Answer::NoWord("busy".into()));
    tale.op(A, claim(STEP, token(A), under), T + 25, busy());
    tale.op(
        A,
        settle(ROUND, token(A), true),
        T + 40,
        Some(Answer::Stored),
    );
    tale.call(A, retry(YES), T + 20, T + 30, Got::Cut);
    tale.retried(T + 60, Answer::Abandoned, refused(UNKNOWN, None));
    tale.has_behind_its_unknown(Cause::LostWord);

    tale.0.ops[1].answered = Some((T + 27, Answer::First));
    tale.breaks(Promise::UnknownForAReason);
}

#[test]
fn a_refusal_without_its_reason_is_found() {
    let refuse = |reason| {
        let mut tale = Tale::begin();
        tale.call(B, retry(YES), T + 60, T + 70, refused(-32602, Some(reason)));
        tale
    };
    for reason in ["expired", "already_used", "stale_epoch", "not_yet_valid"] {
        refuse(reason).breaks(Promise::JustRefusal);
    }
    refuse("bad_signature").breaks(Promise::NoSurprise);

    let mut tale = refuse("expired");
    tale.incident(What::Clock(B, 20_000), T + 55, T + 56);
    tale.keeps_every_promise();
    let mut tale = refuse("already_used");
    tale.call(A, retry(NO), T + 60, T + 61, Got::Cut);
    tale.keeps_every_promise();
    let mut tale = refuse("stale_epoch");
    tale.incident(What::Rotated, T + 55, T + 56);
    tale.keeps_every_promise();
    refuse("not_kept").breaks(Promise::JustRefusal);
    let mut tale = refuse("not_kept");
    tale.incident(What::Clock(A, 90_000), T + 20, T + 21);
    tale.incident(What::Clock(A, 0), T + 25, T + 26);
    tale.keeps_every_promise();
    let mut tale = refuse("not_yet_valid");
    tale.incident(What::Clock(A, 70_000), T - 5, T - 4);
    tale.keeps_every_promise();
}

#[test]
fn a_claim_that_is_late_by_no_clock_is_found() {
    let late = |offset| {
        let mut tale = Tale::begin();
        tale.op(B, claim(ROUND, 99, None), T + 60, Some(Answer::Expired));
        tale.incident(What::Clock(A, offset), T + 30, T + 31);
        tale
    };
    // A clock that is ahead removes what has been over for a retention, and no claim below that.
    late(0).breaks(Promise::JustRefusal);
    late(20_000).breaks(Promise::JustRefusal);
    late(90_000).keeps_every_promise();
}

#[test]
fn in_progress_while_nobody_runs_it_is_found() {
    let in_progress = |at| {
        let mut tale = Tale::begin();
        tale.runs(A, T + 20);
        tale.retried(at, Answer::InProgress, refused(1001, None));
        tale
    };
    in_progress(T + 60).keeps_every_promise();
    in_progress(LATER).breaks(Promise::JustRefusal);
}

#[test]
fn an_unavailable_ledger_that_had_its_word_is_found() {
    let mut tale = Tale::begin();
    tale.call(B, retry(YES), T + 60, T + 70, refused(1003, None));
    tale.breaks(Promise::JustRefusal);
    tale.op(
        B,
        Question::Epoch,
        T + 65,
        Some(Answer::NoWord("busy".into())),
    );
    tale.keeps_every_promise();
}

#[test]
fn a_connection_that_breaks_at_a_living_server_is_found() {
    for got in [Got::Broken("reset".into()), Got::Silence] {
        let mut tale = Tale::begin();
        tale.call(B, retry(YES), T + 60, T + 70, got);
        tale.breaks(Promise::NoSurprise);
        tale.incident(What::Killed(B), T + 65, T + 66);
        tale.keeps_every_promise();
    }
}

#[test]
fn an_internal_error_is_found() {
    let mut tale = Tale::begin();
    tale.call(B, retry(YES), T + 60, T + 70, refused(-32603, None));
    tale.breaks(Promise::NoSurprise);
}

#[test]
fn a_flow_that_is_left_without_an_end_is_found() {
    let mut tale = Tale::begin();
    tale.0.unfinished.push(FLOW);
    tale.0.calm_from = T + 20;
    tale.breaks(Promise::NoSurprise);
    tale.runs(A, T + 20);
    tale.effect("pay", "e1", T + 40);
    tale.settles(A, T + 50);
    tale.call(A, retry(YES), T + 20, T + 90, done("e1"));
    tale.keeps_every_promise();
}
