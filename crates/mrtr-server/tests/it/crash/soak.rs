//! Case 268, for some seconds: flows on processes that are killed at any moment and whose clocks differ. `cargo xtask chaos` is the long one.

use std::sync::Barrier;
use std::time::Duration;

use super::process::{Place, Process, Store};
use super::{on_each_ledger, retry};
use crate::bank::Reply;

on_each_ledger! {
    case_268_a_short_soak,
}

const PROCESSES: u64 = 4;
const CLIENTS: u64 = 8;
const FLOWS: u64 = 16;

/// Eight clients send one retry while one of the four processes is killed. Whatever they are told, the flow paid once at most, and
/// who says that it has paid is in the book.
fn case_268_a_short_soak(store: Store) {
    let place = Place::new(store);
    // Clocks that differ by up to five seconds.
    let mut processes: Vec<Process> = (0..PROCESSES).map(|n| place.start_at(n * 5 / 3)).collect();
    let (mut paid, mut unknown) = (0, 0);
    for flow in 0..FLOWS {
        let state = processes[usize::try_from(flow % PROCESSES).unwrap()].open("pay");
        let killed = usize::try_from((flow * 3 + 1) % PROCESSES).unwrap();
        let victim = processes.remove(killed);
        let start = Barrier::new(usize::try_from(CLIENTS).unwrap() + 1);
        let replies: Vec<Option<Reply>> = std::thread::scope(|scope| {
            let clients: Vec<_> = (0..CLIENTS)
                .map(|client| {
                    let process = match (client + flow) % PROCESSES {
                        0 => &victim,
                        n => &processes[usize::try_from(n - 1).unwrap()],
                    };
                    let mut connection = process.connect();
                    let (state, start) = (&state, &start);
                    scope.spawn(move || {
                        start.wait();
                        connection.send(&retry("pay", state).id(client + 2)).ok()
                    })
                })
                .collect();
            start.wait();
            // Another moment each time: before the claim, in the middle, after the response.
            std::thread::sleep(Duration::from_micros(flow * flow * 100));
            victim.kill();
            clients
                .into_iter()
                .map(|client| client.join().unwrap())
                .collect()
        });
        processes.insert(killed, place.start_at(flow % 6));
        let payments = place.payments();
        assert!(
            payments.len() <= paid + 1,
            "flow {flow} paid more than once: {payments:?}"
        );
        for reply in replies.into_iter().flatten() {
            match reply.code() {
                None => {
                    let payer = reply.text().strip_prefix("paid by ").unwrap();
                    assert_eq!(
                        payments.get(paid).map(String::as_str),
                        Some(payer),
                        "flow {flow}"
                    );
                }
                Some(1001) => {}
                Some(1002) => unknown += 1,
                Some(_) => panic!("flow {flow}: {reply:?}"),
            }
        }
        paid = payments.len();
    }
    let flows = usize::try_from(FLOWS).unwrap();
    assert!(
        paid * 2 > flows,
        "{paid} of {flows} flows paid: most kills hit somebody else"
    );
    // A lease has not lapsed by then, so nobody need be told that an outcome is unknown.
    assert_eq!(unknown, 0);
    let rounds = processes[0].rows()[0];
    assert!(rounds <= FLOWS, "{rounds} rows of {FLOWS} flows");
}
