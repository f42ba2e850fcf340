//! Case 88: the process dies between two writes, another one starts on the same file, and the same retry comes.

use serde_json::json;

use super::points::{
    AFTER_EFFECT, AFTER_MEMO, AFTER_ROUND_CLAIM, AFTER_ROUND_SETTLING, AFTER_STEP_CLAIM,
    AFTER_STEP_SETTLING, AFTER_TRANSACTION, BEFORE_COMMIT, BEFORE_EFFECT, BEFORE_MEMO,
    BEFORE_ROUND_CLAIM, BEFORE_ROUND_SETTLING, BEFORE_STEP_CLAIM, BEFORE_STEP_SETTLING,
    BEFORE_TRANSACTION,
};
use super::process::{Place, Rows, Store};
use super::{
    LEASE_IS_OVER, cannot_be_forked, is_in_progress, is_paid_by, is_unknown, new_flows_work,
    on_each_ledger, repeats_what_came_of, retry,
};
use crate::bank::{Call, accept};

on_each_ledger! {
    case_088_a_death_before_the_rounds_claim,
    case_088_a_death_after_the_rounds_claim,
    case_088_a_death_before_the_steps_claim,
    case_088_a_death_between_claim_and_effect,
    case_088_a_death_between_effect_and_settling,
    case_088_a_death_between_the_steps_settling_and_the_rounds,
    case_088_a_death_before_the_response,
    case_088_a_death_before_a_question_was_sent,
    case_088_what_runs_again_goes_on_where_it_died,
    case_088_what_runs_again_repeats_no_step,
    case_088_what_runs_again_leaves_a_step_in_doubt,
    case_088_what_runs_again_has_the_same_ends,
    case_088_what_acts_in_the_database_is_done_or_not,
    case_088_what_acts_in_the_database_and_runs_again_is_done_exactly_once,
}

/// A process that has died at a point of its retry, and what was left.
struct Death {
    place: Place,
    tool: &'static str,
    state: String,
    /// The process that died.
    dead: String,
}

impl Death {
    /// Dies there. So many payments had been made by then, and no mail sent.
    fn of(store: Store, tool: &'static str, point: &str, payments: usize) -> Self {
        let death = Self::at(store, tool, point);
        let payments = vec![death.dead.clone(); payments];
        assert_eq!(death.place.payments(), payments, "{point}");
        death
    }

    /// Dies there, when all was done that is to be done.
    fn of_all(store: Store, tool: &'static str, point: &str) -> Self {
        let death = Self::at(store, tool, point);
        let all = [death.dead.clone(), format!("mail {}", death.dead)];
        assert_eq!(death.place.payments(), all, "{point}");
        death
    }

    fn at(store: Store, tool: &'static str, point: &str) -> Self {
        let place = Place::new(store);
        let process = place.start_to_die(point);
        let (state, dead) = (process.open(tool), process.name());
        process.dies_of(&retry(tool, &state));
        Self {
            place,
            tool,
            state,
            dead,
        }
    }

    /// Nobody knows what came of it, and nobody ever will: nothing is paid any more.
    fn is_unknown_for_ever(&self, rows: Rows) {
        let call = retry(self.tool, &self.state);
        let payments = self.place.payments();
        let mut process = self.place.start();
        is_in_progress(&process.send(&call));
        cannot_be_forked(&process, self.tool, &self.state);

        process.pass(LEASE_IS_OVER);
        for id in [3, 4] {
            is_unknown(&process.send(&call.clone().id(id)));
        }
        cannot_be_forked(&process, self.tool, &self.state);

        process.kill();
        let mut process = self.place.start_at(LEASE_IS_OVER);
        is_unknown(&process.send(&call));
        cannot_be_forked(&process, self.tool, &self.state);
        assert_eq!((self.place.payments(), process.rows()), (payments, rows));
        new_flows_work(&process);
    }

    /// A new process runs it as if it had never been sent, once.
    fn runs(&self) {
        let process = self.place.start();
        let name = process.name();
        is_paid_by(&process.send(&retry(self.tool, &self.state)), &name);
        self.is_over(&name, &[&name], [1, 1, 1, 1, 0]);
        new_flows_work(&process);
    }

    /// Whoever asks is told what came of it, and nothing runs: these payments were made and no other.
    fn is_over(&self, by: &str, payments: &[&str], rows: Rows) {
        let call = retry(self.tool, &self.state);
        for seconds in [0, LEASE_IS_OVER] {
            let mut process = self.place.start_at(seconds);
            for id in [3, 4] {
                repeats_what_came_of(&process.send(&call.clone().id(id)), by);
            }
            cannot_be_forked(&process, self.tool, &self.state);
            assert_eq!(process.rows(), rows);
        }
        assert_eq!(self.place.payments(), payments);
    }

    /// A tool that says so runs again in a new process, once nobody can be running it any more, and goes on where it was.
    /// `by` is what it says then, from that process's name; what is paid and sent in all is as `payments` says.
    fn runs_again(
        &self,
        by: impl Fn(&str) -> String,
        payments: impl Fn(&str) -> Vec<String>,
        rows: Rows,
    ) {
        let call = retry(self.tool, &self.state);
        let mut process = self.place.start();
        let (by, payments) = (by(&process.name()), payments(&process.name()));
        is_in_progress(&process.send(&call));
        cannot_be_forked(&process, self.tool, &self.state);
        process.pass(LEASE_IS_OVER);
        cannot_be_forked(&process, self.tool, &self.state);
        is_paid_by(&process.send(&call), &by);
        let payments: Vec<&str> = payments.iter().map(String::as_str).collect();
        self.is_over(&by, &payments, rows);
        new_flows_work(&process);
    }
}

/// (a): nothing was claimed, so nothing is spent.
fn case_088_a_death_before_the_rounds_claim(store: Store) {
    Death::of(store, "pay", BEFORE_ROUND_CLAIM, 0).runs();
}

/// (b), at the round's own claim.
fn case_088_a_death_after_the_rounds_claim(store: Store) {
    Death::of(store, "pay", AFTER_ROUND_CLAIM, 0).is_unknown_for_ever([1, 0, 0, 0, 0]);
}

/// (a), at the step. Its round is in doubt all the same.
fn case_088_a_death_before_the_steps_claim(store: Store) {
    Death::of(store, "pay", BEFORE_STEP_CLAIM, 0).is_unknown_for_ever([1, 0, 0, 0, 0]);
}

/// (b): nothing was paid, and nobody can know that.
fn case_088_a_death_between_claim_and_effect(store: Store) {
    for point in [AFTER_STEP_CLAIM, BEFORE_EFFECT] {
        Death::of(store, "pay", point, 0).is_unknown_for_ever([1, 0, 1, 0, 0]);
    }
}

/// (c): it was paid, and is not paid again.
fn case_088_a_death_between_effect_and_settling(store: Store) {
    for point in [AFTER_EFFECT, BEFORE_STEP_SETTLING] {
        Death::of(store, "pay", point, 1).is_unknown_for_ever([1, 0, 1, 0, 0]);
    }
}

/// (d), at the step: its outcome is kept, and the round's is not. Its body does not run again to fetch it.
fn case_088_a_death_between_the_steps_settling_and_the_rounds(store: Store) {
    for point in [AFTER_STEP_SETTLING, BEFORE_ROUND_SETTLING] {
        Death::of(store, "pay", point, 1).is_unknown_for_ever([1, 0, 1, 1, 0]);
    }
}

/// (d): the result was kept and never sent.
fn case_088_a_death_before_the_response(store: Store) {
    let death = Death::of(store, "pay", AFTER_ROUND_SETTLING, 1);
    death.is_over(&death.dead, &[&death.dead], [1, 1, 1, 1, 0]);
}

/// (d), where the round's result is a question: the next process asks it again with the same state, and the flow goes on there,
/// past the step that the dead one took.
fn case_088_a_death_before_a_question_was_sent(store: Store) {
    let death = Death::of(store, "stages", AFTER_ROUND_SETTLING, 1);
    let call = retry("stages", &death.state);
    let mut process = death.place.start();
    let asked = process.send(&call);
    assert_eq!(
        (asked.asks(), asked.is_replayed()),
        (vec!["mail"], true),
        "{asked:?}"
    );
    let again = process.send(&call.clone().id(3));
    assert_eq!(again.state(), asked.state(), "one question, so one state");
    cannot_be_forked(&process, "stages", &death.state);
    assert_eq!(process.rows(), [1, 1, 1, 1, 0]);

    let next = Call::first()
        .named("stages")
        .state(asked.state())
        .answer("mail", accept(json!({ "ok": true })));
    let by = format!("{}, mail by {}", death.dead, process.name());
    is_paid_by(&process.send(&next), &by);
    repeats_what_came_of(&process.send(&next.id(5)), &by);
    assert_eq!(process.rows(), [2, 2, 2, 2, 0]);
    let mail = format!("mail {}", process.name());
    assert_eq!(death.place.payments(), [death.dead, mail]);
}

/// With `run_again`, a death that left no step in doubt costs nothing but the wait. Whatever the lost run had done counts: its
/// memo, its step.
fn case_088_what_runs_again_goes_on_where_it_died(store: Store) {
    for (point, payments, memo) in [
        (AFTER_ROUND_CLAIM, 0, false),
        (BEFORE_MEMO, 0, false),
        (AFTER_MEMO, 0, true),
        (BEFORE_STEP_CLAIM, 0, true),
        (AFTER_STEP_SETTLING, 1, true),
    ] {
        let death = Death::of(store, "pay_again", point, payments);
        let dead = death.dead.as_str();
        let pays = |alive: &str| if payments == 1 { dead } else { alive }.to_owned();
        let clerk = |alive: &str| if memo { dead } else { alive }.to_owned();
        death.runs_again(
            |alive| {
                let (payer, clerk) = (pays(alive), clerk(alive));
                format!("{payer} for {clerk}, mail by {alive}")
            },
            |alive| vec![pays(alive), format!("mail {alive}")],
            [1, 1, 2, 2, 1],
        );
    }
}

/// With `run_again`, a death before the round's settling: all steps are done, and the second run only says so.
fn case_088_what_runs_again_repeats_no_step(store: Store) {
    let death = Death::of_all(store, "pay_again", BEFORE_ROUND_SETTLING);
    let dead = &death.dead;
    death.runs_again(
        |_| format!("{dead} for {dead}, mail by {dead}"),
        |_| vec![dead.clone(), format!("mail {dead}")],
        [1, 1, 2, 2, 1],
    );
}

/// With `run_again` too a step in doubt stays so: it is not taken over, and every later run comes to it.
fn case_088_what_runs_again_leaves_a_step_in_doubt(store: Store) {
    for (point, payments) in [
        (AFTER_STEP_CLAIM, 0),
        (BEFORE_EFFECT, 0),
        (AFTER_EFFECT, 1),
        (BEFORE_STEP_SETTLING, 1),
    ] {
        Death::of(store, "pay_again", point, payments).is_unknown_for_ever([1, 0, 1, 0, 1]);
    }
}

/// With `run_again` as without: what was never claimed runs, and what was settled is repeated.
fn case_088_what_runs_again_has_the_same_ends(store: Store) {
    let death = Death::of_all(store, "pay_again", AFTER_ROUND_SETTLING);
    let (dead, mail) = (&death.dead, format!("mail {}", death.dead));
    let by = format!("{dead} for {dead}, mail by {dead}");
    death.is_over(&by, &[dead, &mail], [1, 1, 2, 2, 1]);

    let death = Death::of(store, "pay_again", BEFORE_ROUND_CLAIM, 0);
    let process = death.place.start();
    let (name, mail) = (process.name(), format!("mail {}", process.name()));
    let by = format!("{name} for {name}, mail by {name}");
    is_paid_by(&process.send(&retry("pay_again", &death.state)), &by);
    death.is_over(&by, &[&name, &mail], [1, 1, 2, 2, 1]);
}

/// With `once_in` the step is never in doubt: it is settled with its effect, or neither is there. Its round is, all the same.
fn case_088_what_acts_in_the_database_is_done_or_not(store: Store) {
    for (point, payments, rows) in [
        (BEFORE_TRANSACTION, 0, [1, 0, 0, 0, 0]),
        (BEFORE_EFFECT, 0, [1, 0, 0, 0, 0]),
        (AFTER_EFFECT, 0, [1, 0, 0, 0, 0]),
        (BEFORE_COMMIT, 0, [1, 0, 0, 0, 0]),
        (AFTER_TRANSACTION, 1, [1, 0, 1, 1, 0]),
        (BEFORE_ROUND_SETTLING, 1, [1, 0, 1, 1, 0]),
    ] {
        Death::of(store, "pay_in", point, payments).is_unknown_for_ever(rows);
    }
    let death = Death::of(store, "pay_in", AFTER_ROUND_SETTLING, 1);
    death.is_over(&death.dead, &[&death.dead], [1, 1, 1, 1, 0]);
}

/// With `once_in` and `run_again` nothing is unknown, wherever the process dies: it is paid exactly once.
fn case_088_what_acts_in_the_database_and_runs_again_is_done_exactly_once(store: Store) {
    for (point, payments) in [
        (AFTER_ROUND_CLAIM, 0),
        (BEFORE_TRANSACTION, 0),
        (BEFORE_EFFECT, 0),
        (AFTER_EFFECT, 0),
        (BEFORE_COMMIT, 0),
        (AFTER_TRANSACTION, 1),
        (BEFORE_ROUND_SETTLING, 1),
    ] {
        let death = Death::of(store, "pay_in_again", point, payments);
        let payer = |alive: &str| match payments {
            0 => alive.to_owned(),
            _ => death.dead.clone(),
        };
        death.runs_again(payer, |alive| vec![payer(alive)], [1, 1, 1, 1, 0]);
    }
    Death::of(store, "pay_in_again", BEFORE_ROUND_CLAIM, 0).runs();
    let death = Death::of(store, "pay_in_again", AFTER_ROUND_SETTLING, 1);
    death.is_over(&death.dead, &[&death.dead], [1, 1, 1, 1, 0]);
}
