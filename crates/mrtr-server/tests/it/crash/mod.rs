//! Servers that are processes of their own, over HTTP and on one ledger, in a SQLite file and in PostgreSQL: they die, are killed, lose their clients and
//! race each other.
//!
//! | module | what is in it |
//! |---|---|
//! | [`child`] | the server process and its tools |
//! | [`points`] | where it can be made to die |
//! | [`process`] | it from outside |
//! | [`deaths`] | case 88: every point, and what a retry gets after it |
//! | [`losses`] | cases 81, 89, 90, 92 and 93: what is left of a process, a response or a client that has gone |
//! | [`races`] | cases 75 and 76: many processes on one state |
//! | [`soak`] | case 268: all of it for some seconds |

mod child;
mod deaths;
mod losses;
mod points;
mod process;
mod races;
mod soak;

use serde_json::json;

use self::process::Process;
use crate::bank::{Call, Reply};
use crate::cases::Refusal;

/// Tests that are functions of a [`Store`](process::Store), on each.
macro_rules! on_each_ledger {
    ($($test:ident),+ $(,)?) => {
        mod on_sqlite {
            $(
                #[test]
                fn $test() {
                    super::$test($crate::crash::process::Store::Sqlite);
                }
            )+
        }

        mod on_postgres {
            $(
                #[test]
                fn $test() {
                    if let Some(store) = $crate::crash::process::Store::postgres() {
                        super::$test(store);
                    }
                }
            )+
        }
    };
}
use on_each_ledger;

/// A server's lease, in seconds, and a little: whoever has died is given up then.
const LEASE_IS_OVER: u64 = 31;

/// The retry that pays.
fn retry(tool: &str, state: &str) -> Call {
    Call::retry(state).named(tool)
}

/// It has run now, in this process.
#[track_caller]
fn is_paid_by(reply: &Reply, process: &str) {
    let text = format!("paid by {process}");
    assert_eq!(
        (reply.text(), reply.is_replayed()),
        (text.as_str(), false),
        "{reply:?}"
    );
}

/// It ran before, in that process, and this is what came of it.
#[track_caller]
fn repeats_what_came_of(reply: &Reply, process: &str) {
    let text = format!("paid by {process}");
    assert_eq!(
        (reply.text(), reply.is_replayed()),
        (text.as_str(), true),
        "{reply:?}"
    );
}

#[track_caller]
fn is_in_progress(reply: &Reply) {
    Refusal::http(http::StatusCode::OK, 1001).check("in progress", reply);
    let retry_after = reply.body["error"]["data"]["retryAfterMs"].as_u64();
    assert!(
        retry_after.is_some_and(|millis| (1..=30_000).contains(&millis)),
        "{reply:?}"
    );
}

#[track_caller]
fn is_unknown(reply: &Reply) {
    Refusal::http(http::StatusCode::OK, 1002).check("unknown", reply);
    assert!(reply.body["error"].get("data").is_none(), "{reply:?}");
}

/// The same state with another answer is refused, whatever became of the first one.
#[track_caller]
fn cannot_be_forked(process: &Process, tool: &str, state: &str) {
    let fork = retry(tool, state).answer("confirm", json!({ "action": "decline" }));
    Refusal::state("already_used").check("a fork", &process.send(&fork));
}

/// A new flow is served as if nothing had happened.
#[track_caller]
fn new_flows_work(process: &Process) {
    let state = process.open("pay");
    is_paid_by(&process.send(&retry("pay", &state)), &process.name());
}
