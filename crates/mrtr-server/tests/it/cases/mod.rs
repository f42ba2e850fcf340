//! Faults that others had, each as a test here, by its number in the list of cases.
//!
//! Each input has a bank and a flow of its own. The good path is proved with the same flow, after the bad input where the
//! state must still be good, and before it elsewhere.

mod answers;
mod boundary;
mod fleet;
mod forms;
mod http;
mod keys;
mod ledger;
mod lifetimes;
mod lines;
mod memory;
mod principals;
mod process;
mod replay;
mod request;
mod rounds;
mod sealing;
mod sessions;
mod sockets;
mod state;

use ::http::StatusCode;

use crate::bank::{Bank, Call, Reply};

/// What a bad input must get, and what it may have done.
pub(crate) struct Refusal {
    pub(crate) status: StatusCode,
    pub(crate) code: i64,
    /// `data.reason`; checked when given.
    pub(crate) reason: Option<&'static str>,
}

impl Refusal {
    /// A requestState that does not hold.
    pub(crate) const fn state(reason: &'static str) -> Self {
        Self {
            status: StatusCode::OK,
            code: -32602,
            reason: Some(reason),
        }
    }

    /// Params that do not hold.
    pub(crate) const fn params() -> Self {
        Self {
            status: StatusCode::OK,
            code: -32602,
            reason: None,
        }
    }

    pub(crate) const fn http(status: StatusCode, code: i64) -> Self {
        Self {
            status,
            code,
            reason: None,
        }
    }

    #[track_caller]
    pub(crate) fn check(&self, case: &str, reply: &Reply) {
        assert_eq!(reply.status, self.status, "{case}: {reply:?}");
        assert_eq!(reply.code(), Some(self.code), "{case}: {reply:?}");
        if self.reason.is_some() {
            assert_eq!(reply.reason(), self.reason, "{case}: {reply:?}");
        }
        assert!(
            reply.body.get("result").is_none(),
            "{case}: an error has no result"
        );
    }
}

/// Bends the honest retry, and sees it refused without a trace: no effect, no row, and the honest retry still works.
pub(crate) async fn refused(case: &str, refusal: &Refusal, bend: impl FnOnce(&str) -> Call) {
    let bank = Bank::new();
    let state = bank.open().await;
    let reply = bank.send(&bend(&state)).await;
    refusal.check(case, &reply);
    assert_eq!(bank.effects.count(), 0, "{case}: nothing happened");
    assert_eq!(bank.rows().await, (0, 0), "{case}: nothing was claimed");
    works(case, &bank, &state).await;
}

/// The honest retry works and does the one thing.
pub(crate) async fn works(case: &str, bank: &Bank, state: &str) {
    let before = bank.effects.count();
    let reply = bank.send(&Call::retry(state)).await;
    assert_eq!(
        reply.status,
        StatusCode::OK,
        "{case}: the honest retry: {reply:?}"
    );
    assert_eq!(
        reply.text(),
        format!("done {}", before + 1),
        "{case}: the honest retry: {reply:?}"
    );
    assert_eq!(bank.effects.count(), before + 1, "{case}: the honest retry");
}

/// Sends what is no answer to anything, and sees the tool ask (again), with nothing done; the honest retry of the new
/// state works.
pub(crate) async fn asked_again(case: &str, bank: &Bank, call: &Call) {
    let reply = bank.send(call).await;
    assert_eq!(reply.status, StatusCode::OK, "{case}: {reply:?}");
    assert_eq!(reply.asks(), ["confirm"], "{case}: {reply:?}");
    assert_eq!(bank.effects.count(), 0, "{case}: nothing happened");
    works(case, bank, reply.state()).await;
}
