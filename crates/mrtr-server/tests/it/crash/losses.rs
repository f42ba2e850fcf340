//! What is left when a process, a response or a client has gone.

use std::time::Duration;

use super::process::{Place, Store};
use super::{
    LEASE_IS_OVER, cannot_be_forked, is_in_progress, is_paid_by, new_flows_work, on_each_ledger,
    repeats_what_came_of, retry,
};

on_each_ledger! {
    case_081_a_restart_forgets_nothing,
    case_089_a_lost_response_is_given_again,
    case_090_a_failure_is_repeated_as_a_failure_and_flagged,
    case_092_what_is_still_running_is_told_elsewhere,
    case_093_a_client_that_goes_leaves_nothing_open,
}

/// Killed after its answer and started again with the same keys, a server still knows what was used.
fn case_081_a_restart_forgets_nothing(store: Store) {
    let place = Place::new(store);
    let process = place.start();
    let (state, name) = (process.open("pay"), process.name());
    is_paid_by(&process.send(&retry("pay", &state)), &name);
    process.kill();
    for seconds in [0, LEASE_IS_OVER] {
        let mut process = place.start_at(seconds);
        repeats_what_came_of(&process.send(&retry("pay", &state)), &name);
        cannot_be_forked(&process, "pay", &state);
        assert_eq!(process.rows(), [1, 1, 1, 1, 0]);
    }
    assert_eq!(place.payments(), [name]);
}

/// The response is on its way, and the client takes none of it.
fn case_089_a_lost_response_is_given_again(store: Store) {
    let place = Place::new(store);
    let process = place.start();
    let (state, name) = (process.open("pay"), process.name());
    let mut connection = process.connect();
    connection.request(&retry("pay", &state)).unwrap();
    connection.wait_for_response();
    connection.cut();
    repeats_what_came_of(&process.send(&retry("pay", &state).id(3)), &name);

    process.kill();
    let process = place.start();
    repeats_what_came_of(&process.send(&retry("pay", &state).id("4")), &name);
    assert_eq!(place.payments(), [name]);
}

/// A failed effect is an outcome, in the next process too.
fn case_090_a_failure_is_repeated_as_a_failure_and_flagged(store: Store) {
    let place = Place::new(store);
    let process = place.start();
    let (state, name) = (process.open("fail"), process.name());
    let failed = |process: &super::Process, replayed| {
        let reply = process.send(&retry("fail", &state));
        assert_eq!(reply.body["result"]["isError"], true, "{reply:?}");
        assert_eq!(reply.text(), format!("{name} was refused"));
        assert_eq!(reply.is_replayed(), replayed, "{reply:?}");
    };
    failed(&process, false);
    failed(&process, true);
    process.kill();
    let mut process = place.start();
    failed(&process, true);
    assert_eq!(
        (place.payments(), process.rows()),
        (vec![name.clone()], [1, 1, 1, 1, 0])
    );
}

/// Two processes: the one runs, the other one says so, and has its result in the end.
fn case_092_what_is_still_running_is_told_elsewhere(store: Store) {
    let place = Place::new(store);
    let (mut here, there) = (place.start(), place.start());
    let state = here.open("slow");
    let call = retry("slow", &state);
    let mut connection = here.connect();
    connection.request(&call).unwrap();
    assert_eq!(here.answer(), "inside");
    for process in [&there, &here] {
        is_in_progress(&process.send(&call.clone().id(3)));
        cannot_be_forked(process, "slow", &state);
    }
    // Others are not held up by what is open.
    new_flows_work(&there);
    here.order("go");
    let name = here.name();
    is_paid_by(
        &connection.response().unwrap(),
        &format!("{name} and {name}"),
    );
    repeats_what_came_of(&there.send(&call.id(4)), &format!("{name} and {name}"));
    assert_eq!(
        place.payments(),
        [name.clone(), there.name(), name],
        "the other one's is the new flow's"
    );
}

/// The client goes while a step runs: that step is carried to its end, the next one is not begun, and the retry is told.
fn case_093_a_client_that_goes_leaves_nothing_open(store: Store) {
    let place = Place::new(store);
    let (mut here, mut there) = (place.start(), place.start());
    let state = here.open("slow");
    let call = retry("slow", &state);
    let mut connection = here.connect();
    connection.request(&call).unwrap();
    assert_eq!(here.answer(), "inside");
    connection.cut();
    is_in_progress(&there.send(&call));
    new_flows_work(&there);

    here.order("go");
    let reply = loop {
        let reply = there.send(&call);
        if reply.code() != Some(1001) {
            break reply;
        }
        std::thread::sleep(Duration::from_millis(10));
    };
    assert!(
        reply.is_replayed() && reply.text().contains("cancelled"),
        "{reply:?}"
    );
    assert!(
        reply.text().contains("first") && !reply.text().contains("second"),
        "{reply:?}"
    );
    cannot_be_forked(&there, "slow", &state);
    let rows = there.rows();
    assert_eq!(
        (place.payments(), rows),
        (vec![here.name(), there.name()], [2, 2, 2, 2, 0])
    );
    new_flows_work(&here);
}
