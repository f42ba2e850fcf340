//! Case 88: the process dies between two writes, another one starts on the same file, and the same retry comes.

use super::points::{
    AFTER_EFFECT, AFTER_ROUND_CLAIM, AFTER_ROUND_SETTLING, AFTER_STEP_CLAIM, AFTER_STEP_SETTLING,
    BEFORE_EFFECT, BEFORE_ROUND_CLAIM, BEFORE_ROUND_SETTLING, BEFORE_STEP_CLAIM,
    BEFORE_STEP_SETTLING,
};
use super::process::{Place, Rows};
use super::{
    LEASE_IS_OVER, cannot_be_forked, is_in_progress, is_paid_by, is_unknown, new_flows_work,
    repeats_what_came_of, retry,
};

/// A process that has died at a point of its retry, and what was left.
struct Death {
    place: Place,
    tool: &'static str,
    state: String,
    /// The process that died.
    dead: String,
}

impl Death {
    /// Dies there. So many payments had been made by then.
    fn of(tool: &'static str, point: &str, payments: usize) -> Self {
        let place = Place::new();
        let process = place.start_to_die(point);
        let (state, dead) = (process.open(tool), process.name());
        process.dies_of(&retry(tool, &state));
        let death = Self {
            place,
            tool,
            state,
            dead,
        };
        assert_eq!(
            death.place.payments(),
            vec![death.dead.clone(); payments],
            "{point}"
        );
        death
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

    /// It runs in a new process as if it had never been sent, once.
    fn runs(&self) {
        let call = retry(self.tool, &self.state);
        let mut process = self.place.start();
        let name = process.name();
        is_paid_by(&process.send(&call), &name);
        self.is_over(&name);
        assert_eq!(process.rows(), [1, 1, 1, 1]);
        new_flows_work(&process);
    }

    /// Whoever asks is told what came of it in that process, and nothing runs.
    fn is_over(&self, by: &str) {
        let call = retry(self.tool, &self.state);
        for seconds in [0, LEASE_IS_OVER] {
            let mut process = self.place.start_at(seconds);
            for id in [3, 4] {
                repeats_what_came_of(&process.send(&call.clone().id(id)), by);
            }
            cannot_be_forked(&process, self.tool, &self.state);
            assert_eq!(process.rows(), [1, 1, 1, 1]);
        }
        assert_eq!(self.place.payments(), [by]);
    }
}

/// (a): nothing was claimed, so nothing is spent.
#[test]
fn case_088_a_death_before_the_rounds_claim() {
    Death::of("pay", BEFORE_ROUND_CLAIM, 0).runs();
}

/// (b), at the round's own claim.
#[test]
fn case_088_a_death_after_the_rounds_claim() {
    Death::of("pay", AFTER_ROUND_CLAIM, 0).is_unknown_for_ever([1, 0, 0, 0]);
}

/// (a), at the step. Its round is in doubt all the same.
#[test]
fn case_088_a_death_before_the_steps_claim() {
    Death::of("pay", BEFORE_STEP_CLAIM, 0).is_unknown_for_ever([1, 0, 0, 0]);
}

/// (b): nothing was paid, and nobody can know that.
#[test]
fn case_088_a_death_between_claim_and_effect() {
    for point in [AFTER_STEP_CLAIM, BEFORE_EFFECT] {
        Death::of("pay", point, 0).is_unknown_for_ever([1, 0, 1, 0]);
    }
}

/// (c): it was paid, and is not paid again.
#[test]
fn case_088_a_death_between_effect_and_settling() {
    for point in [AFTER_EFFECT, BEFORE_STEP_SETTLING] {
        Death::of("pay", point, 1).is_unknown_for_ever([1, 0, 1, 0]);
    }
}

/// (d), at the step: its outcome is kept, and the round's is not. Its body does not run again to fetch it.
#[test]
fn case_088_a_death_between_the_steps_settling_and_the_rounds() {
    for point in [AFTER_STEP_SETTLING, BEFORE_ROUND_SETTLING] {
        Death::of("pay", point, 1).is_unknown_for_ever([1, 0, 1, 1]);
    }
}

/// (d): the result was kept and never sent.
#[test]
fn case_088_a_death_before_the_response() {
    let death = Death::of("pay", AFTER_ROUND_SETTLING, 1);
    death.is_over(&death.dead);
}
