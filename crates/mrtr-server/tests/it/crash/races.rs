//! Cases 75 and 76 through whole servers: many clients send one retry to many processes at one instant.

use std::sync::Barrier;

use super::process::{Connection, Place, Process, Store};
use super::{on_each_ledger, retry};

on_each_ledger! {
    case_076_one_effect_whichever_process_is_asked,
}

const PROCESSES: usize = 4;
const CLIENTS: usize = 64;
const ROUNDS: usize = 200;

/// 64 clients, sixteen to each of four processes, that start at one instant on a file that does not exist. One of a round's
/// retries runs; the others are told to wait, or what came of it. Nobody is told anything else.
fn case_076_one_effect_whichever_process_is_asked(store: Store) {
    let place = Place::new(store);
    let processes: Vec<Process> = std::thread::scope(|scope| {
        let starting: Vec<_> = (0..PROCESSES)
            .map(|_| scope.spawn(|| place.start()))
            .collect();
        starting
            .into_iter()
            .map(|process| process.join().unwrap())
            .collect()
    });
    let mut connections: Vec<Connection> = (0..CLIENTS)
        .map(|client| processes[client % PROCESSES].connect())
        .collect();
    let mut winners = Vec::new();
    for round in 0..ROUNDS {
        let state = processes[round % PROCESSES].open("pay");
        let barrier = Barrier::new(CLIENTS);
        let ran: Vec<Option<String>> = std::thread::scope(|scope| {
            let clients: Vec<_> = connections
                .iter_mut()
                .enumerate()
                .map(|(client, connection)| {
                    let (state, barrier) = (&state, &barrier);
                    scope.spawn(move || {
                        let call = retry("pay", state).id(client);
                        barrier.wait();
                        told(connection, &call)
                    })
                })
                .collect();
            clients
                .into_iter()
                .map(|client| client.join().unwrap())
                .collect()
        });
        let ran: Vec<String> = ran.into_iter().flatten().collect();
        assert_eq!(ran.len(), 1, "round {round}: one of them ran");
        winners.extend(ran);
    }
    assert_eq!(
        place.payments(),
        winners,
        "one effect a round, by whoever says that it ran there"
    );
    assert!(
        processes
            .iter()
            .all(|process| winners.contains(&process.name())),
        "a race that one process always wins is none"
    );
    let [mut process, ..] = <[Process; PROCESSES]>::try_from(processes).ok().unwrap();
    let rounds = ROUNDS as u64;
    assert_eq!(process.rows(), [rounds, rounds, rounds, rounds, 0]);
}

/// Who paid, if it was for this call that the body ran.
fn told(connection: &mut Connection, call: &crate::bank::Call) -> Option<String> {
    let reply = connection.send(call).unwrap();
    if reply.code() == Some(1001) {
        super::is_in_progress(&reply);
        return None;
    }
    assert!(reply.code().is_none(), "{reply:?}");
    let payer = reply.text().strip_prefix("paid by ").unwrap().to_owned();
    (!reply.is_replayed()).then_some(payer)
}
