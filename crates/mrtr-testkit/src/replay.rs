//! One state, presented again and again.

use std::fmt;
use std::sync::Arc;

use mrtr_protocol::code;
use tokio::sync::Barrier;
use tokio::task::JoinSet;

use crate::raw::RawCall;
use crate::reply::Reply;

/// Presents one retry many times: first `times` at once, then `times` one after another, each under an id of its own.
///
/// The retry carries state and answers; a server with a ledger runs it once and gives the stored result to all others. Those
/// that come while it runs are told *in progress*. A server without one runs it `2 * times` times.
///
/// At once comes first, because a retry that has run is not a race any more. The tasks start together; how far they overlap is
/// the runtime's, and with a runtime of one thread they take turns where the server waits.
///
/// ```
/// # use mrtr_server::{Answer, Flow, Form, Server, tool};
/// # use mrtr_state::{KeyRing, SystemClock};
/// # use mrtr_testkit::{Harness, replay};
/// # use serde_json::json;
/// # #[derive(serde::Deserialize, schemars::JsonSchema)]
/// # struct Confirm { ok: bool }
/// async fn redeem(flow: Flow) -> &'static str {
///     match flow.ask("confirm", Form::<Confirm>::new("Redeem the voucher?")).await {
///         Answer::Accept(Confirm { ok: true }) => "redeemed",
///         _ => "kept",
///     }
/// }
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let server = Server::builder("vouchers", "1.0.0")
///     .audience("https://vouchers.example/mcp")
///     .codec(mrtr_state_hmac::HmacCodec::new(KeyRing::generate()?)?)
///     .ledger(mrtr_ledger::MemoryLedger::new(std::sync::Arc::new(SystemClock))?)
///     .allow_anonymous()
///     .tool(tool("redeem", redeem))
///     .build()?;
/// let call = Harness::new(server).raw("redeem");
/// let asked = call.send().await;
/// let retry = call.state(asked.expect_state()).accept("confirm", json!({ "ok": true }));
/// replay(&retry, 8).await.assert_ran_once();
/// # Ok(())
/// # }
/// ```
///
/// # Panics
///
/// When the server panics where no handler runs.
pub async fn replay(retry: &RawCall, times: usize) -> Replayed {
    let together = Arc::new(Barrier::new(times));
    let mut tasks = JoinSet::new();
    for n in 0..times {
        let retry = retry.clone().id(format!("at-once-{n}"));
        let together = Arc::clone(&together);
        tasks.spawn(async move {
            together.wait().await;
            retry.send().await
        });
    }
    let at_once = tasks.join_all().await;
    let mut in_turn = Vec::with_capacity(times);
    for n in 0..times {
        in_turn.push(retry.clone().id(format!("in-turn-{n}")).send().await);
    }
    Replayed { at_once, in_turn }
}

/// What became of one presentation, as the answer says it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Presented {
    /// A result that is not flagged as stored: the body ran.
    Ran,
    /// The stored result of an earlier run, flagged.
    Stored,
    /// The same retry was being worked on.
    InProgress,
    /// The state was not accepted: an error with a reason. Nothing ran.
    Refused,
    /// Another error. Whether the body ran for it is not told: a stored error carries no flag.
    Failed,
}

impl Presented {
    /// Reads an answer.
    #[must_use]
    pub fn of(reply: &Reply) -> Presented {
        match reply.code() {
            Some(code::IN_PROGRESS) => Presented::InProgress,
            Some(_) if reply.reason().is_some() => Presented::Refused,
            None if reply.is_replayed() => Presented::Stored,
            None if reply.result().is_some() => Presented::Ran,
            _ => Presented::Failed,
        }
    }
}

/// What became of a state that was presented many times.
///
/// It is what the server *says*. Count the effects beside it, with [`Effects`](crate::Effects) for instance: a server may
/// say `stored` and have charged twice.
#[derive(Clone, Debug)]
#[must_use = "a report fails no test; its assertions do"]
pub struct Replayed {
    at_once: Vec<Reply>,
    in_turn: Vec<Reply>,
}

impl Replayed {
    /// The answers to those that were sent together, in the order in which they came.
    #[must_use]
    pub fn at_once(&self) -> &[Reply] {
        &self.at_once
    }

    /// The answers to those that were sent one after another.
    #[must_use]
    pub fn in_turn(&self) -> &[Reply] {
        &self.in_turn
    }

    /// All answers.
    pub fn replies(&self) -> impl Iterator<Item = &Reply> {
        self.at_once.iter().chain(&self.in_turn)
    }

    /// How many were answered so.
    #[must_use]
    pub fn count(&self, presented: Presented) -> usize {
        self.replies()
            .filter(|reply| Presented::of(reply) == presented)
            .count()
    }

    /// How often the body ran.
    #[must_use]
    pub fn ran(&self) -> usize {
        self.count(Presented::Ran)
    }

    /// How often the stored result was given.
    #[must_use]
    pub fn stored(&self) -> usize {
        self.count(Presented::Stored)
    }

    /// How often the retry was said to be in progress.
    #[must_use]
    pub fn in_progress(&self) -> usize {
        self.count(Presented::InProgress)
    }

    /// How often the state was not accepted.
    #[must_use]
    pub fn refused(&self) -> usize {
        self.count(Presented::Refused)
    }

    /// How often there was another error.
    #[must_use]
    pub fn failed(&self) -> usize {
        self.count(Presented::Failed)
    }

    /// Requires that the body ran once, and that all others got its stored result, *in progress* or, where the tool wants
    /// that, a refusal.
    ///
    /// # Panics
    ///
    /// When it is not so.
    #[track_caller]
    pub fn assert_ran_once(&self) {
        let advice = match (self.ran(), self.failed()) {
            (1, 0) => return,
            (0, _) => {
                "the body did not run: send the retry alone first, and see that state and answers are good"
            }
            (1, _) => "some got an error that is no answer to a repeated retry",
            _ => {
                "the body ran more than once: give the server a ledger with `.ledger(..)`, one for all its instances"
            }
        };
        panic!("{self}: {advice}\n{}", Unusual(self));
    }
}

impl fmt::Display for Replayed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "of {} at once and {} in turn: {} ran, {} stored, {} in progress, {} refused, {} failed",
            self.at_once.len(),
            self.in_turn.len(),
            self.ran(),
            self.stored(),
            self.in_progress(),
            self.refused(),
            self.failed()
        )
    }
}

/// The first answers that are neither stored nor in progress: the ones to look at.
struct Unusual<'a>(&'a Replayed);

impl fmt::Display for Unusual<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let unusual = self.0.replies().filter(|reply| {
            !matches!(
                Presented::of(reply),
                Presented::Stored | Presented::InProgress
            )
        });
        for reply in unusual.take(3) {
            writeln!(f, "  {:?}: {reply:?}", Presented::of(reply))?;
        }
        Ok(())
    }
}
