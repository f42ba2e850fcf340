//! Everything that was seen in a run: what clients sent and got, what was done to servers, and what servers wrote down.

use std::collections::HashMap;
use std::io;
use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};

use mrtr_ledger::Rows;

use crate::catalogue::{Arguments, Said, Tool};
use crate::server::{effects_file, ledger_file};
use crate::trace::{self, Answer, Effect, Line, Millis, Process, Question};

/// A sealed state, by number: the same text is the same state.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct StateId(pub(crate) usize);

/// What a client sends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Sent {
    /// The first request of a flow.
    Opening,
    /// A state, and an answer to what it asks.
    Retry(StateId, Reply),
}

/// What the person says.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Reply {
    Pick(u32),
    Decline,
    Cancel,
}

/// What came of a call, as far as the network told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Got {
    /// A question, and a state to answer it with.
    Asked {
        state: StateId,
        said: Said,
        replayed: bool,
    },
    /// A final result.
    Done {
        text: String,
        is_error: bool,
        replayed: bool,
    },
    /// An error.
    Refused {
        code: i64,
        reason: Option<String>,
        message: String,
    },
    /// The client closed the connection before it had read anything.
    Cut,
    /// The connection ended before the response did.
    Broken(String),
    /// Nothing came in a long time.
    Silence,
    /// Something that no server of ours sends.
    Odd(String),
}

/// A call: from the moment before it was sent to the moment when it was over.
#[derive(Clone, Debug)]
pub(crate) struct Call {
    pub(crate) flow: u64,
    pub(crate) sent: Sent,
    pub(crate) to: Process,
    pub(crate) from: Millis,
    pub(crate) till: Millis,
    pub(crate) got: Got,
    /// False: the response arrived, and the client took it for lost.
    pub(crate) heeded: bool,
}

/// What a client set out to do.
#[derive(Clone, Debug)]
pub(crate) struct Errand {
    pub(crate) tool: Tool,
    pub(crate) arguments: Arguments,
}

/// Something that was done to a process, or to the ledger under all of them. It took effect between the two moments.
#[derive(Clone, Debug)]
pub(crate) struct Incident {
    pub(crate) what: What,
    pub(crate) from: Millis,
    pub(crate) till: Millis,
}

/// What was done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum What {
    Started(Process),
    Killed(Process),
    /// Stopped in good order: from the order to the end of the process.
    Stopped(Process),
    /// From the order to stand still to the order to go on.
    Paused(Process),
    /// Set to this offset.
    Clock(Process, i64),
    /// Nobody had a word from the ledger.
    Silenced,
    /// Every connection to the ledger was cut.
    Severed,
    Rotated,
}

/// A question to the ledger and its answer, if the process lived to hear it.
#[derive(Clone, Debug)]
pub(crate) struct Op {
    pub(crate) by: Process,
    pub(crate) question: Question,
    pub(crate) asked: Millis,
    pub(crate) answered: Option<(Millis, Answer)>,
}

/// A step that a tool dropped half-way, or a panic, on purpose.
#[derive(Clone, Debug)]
pub(crate) struct Cut {
    pub(crate) by: Process,
    pub(crate) flow: u64,
    pub(crate) step: String,
    pub(crate) at: Millis,
}

/// A run.
#[derive(Clone, Debug, Default)]
pub(crate) struct History {
    pub(crate) errands: HashMap<u64, Errand>,
    /// In the order in which they ended.
    pub(crate) calls: Vec<Call>,
    pub(crate) incidents: Vec<Incident>,
    /// In the order of the servers' files.
    pub(crate) effects: Vec<Effect>,
    pub(crate) ops: Vec<Op>,
    pub(crate) cuts: Vec<Cut>,
    /// Calls that were sent from here on had nothing go wrong with them.
    pub(crate) calm_from: Millis,
    /// Flows that had not come to an end by then, and were gone on with.
    pub(crate) unfinished: Vec<u64>,
    /// Whether the ledger has a clock of its own, which nobody sets. Half of the servers go by it then.
    pub(crate) has_database_clock: bool,
    /// What the ledger held at the end.
    pub(crate) rows_left: Rows,
}

impl History {
    /// Adds what a process wrote down.
    pub(crate) fn read(&mut self, folder: &Path, by: Process) -> io::Result<()> {
        self.effects.extend(trace::read(&effects_file(folder, by))?);
        let mut open: HashMap<u64, usize> = HashMap::new();
        for line in trace::read(&ledger_file(folder, by))? {
            match line {
                Line::Asked(number, asked, question) => {
                    open.insert(number, self.ops.len());
                    self.ops.push(Op {
                        by,
                        question,
                        asked,
                        answered: None,
                    });
                }
                Line::Answered(number, at, answer) => {
                    let op = open.remove(&number).and_then(|op| self.ops.get_mut(op));
                    let op = op.ok_or_else(|| {
                        io::Error::other(format!("{by}: an answer to no question: {number}"))
                    })?;
                    op.answered = Some((at, answer));
                }
                Line::Cut { flow, step, at } => self.cuts.push(Cut { by, flow, step, at }),
            }
        }
        Ok(())
    }
}

/// Where clients and faults write down what they see while the run goes on.
#[derive(Debug, Default)]
pub(crate) struct Recorder(Mutex<Seen>);

#[derive(Debug, Default)]
struct Seen {
    history: History,
    states: Vec<Sealed>,
    by_text: HashMap<String, StateId>,
}

/// A state, and the key of the question that it was sealed with.
#[derive(Clone, Debug, Default)]
pub(crate) struct Sealed {
    pub(crate) text: String,
    pub(crate) key: String,
}

impl Recorder {
    fn seen(&self) -> MutexGuard<'_, Seen> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn errand(&self, errand: Errand) {
        let flow = errand.arguments.flow;
        self.seen().history.errands.insert(flow, errand);
    }

    pub(crate) fn call(&self, call: Call) {
        self.seen().history.calls.push(call);
    }

    pub(crate) fn incident(&self, what: What, from: Millis) {
        let till = trace::now();
        self.seen()
            .history
            .incidents
            .push(Incident { what, from, till });
    }

    /// Nothing goes wrong any more, and this flow is gone on with.
    pub(crate) fn unfinished(&self, flow: u64) {
        let history = &mut self.seen().history;
        if history.unfinished.is_empty() {
            history.calm_from = trace::now();
        }
        history.unfinished.push(flow);
    }

    /// The number of a state that came with a question under this key.
    pub(crate) fn state(&self, text: &str, key: &str) -> StateId {
        let seen = &mut *self.seen();
        if let Some(known) = seen.by_text.get(text) {
            return *known;
        }
        let state = StateId(seen.states.len());
        seen.states.push(Sealed {
            text: text.to_owned(),
            key: key.to_owned(),
        });
        seen.by_text.insert(text.to_owned(), state);
        state
    }

    /// The state of a number.
    pub(crate) fn state_of(&self, state: StateId) -> Sealed {
        self.seen().states.get(state.0).cloned().unwrap_or_default()
    }

    /// What was seen, and an empty recorder from here on.
    pub(crate) fn take(&self) -> History {
        std::mem::take(&mut *self.seen()).history
    }
}
