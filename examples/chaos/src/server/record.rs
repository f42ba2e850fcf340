//! The effects' own record, and a place to note what a tool cut off.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::server::shelf::Entry;
use crate::server::tap::Trace;
use crate::trace::{self, Effect, Line, Lines, Process};

/// Where a tool's effects happen: this is what a payment provider is elsewhere. Cheap to clone.
#[derive(Clone, Debug)]
pub(crate) struct Book {
    lines: Arc<Lines>,
    trace: Arc<Trace>,
    process: Process,
    /// Where effects are written that are steps in the ledger's own database.
    table: Arc<str>,
    count: Arc<AtomicU64>,
}

/// What an effect is for.
#[derive(Clone, Debug)]
pub(crate) struct Order {
    pub(crate) flow: u64,
    pub(crate) step: &'static str,
    pub(crate) pick: Option<u32>,
    pub(crate) price: Option<u32>,
}

impl Book {
    pub(crate) fn new(lines: Lines, trace: Arc<Trace>, process: Process, table: &str) -> Self {
        Self {
            lines: Arc::new(lines),
            trace,
            process,
            table: table.into(),
            count: Arc::default(),
        }
    }

    /// An effect that is about to happen, under a name that no other has.
    fn effect(&self, order: Order) -> Effect {
        let number = self.count.fetch_add(1, Ordering::Relaxed);
        Effect {
            flow: order.flow,
            step: order.step.to_owned(),
            entry: format!("{}-{number}", self.process),
            pick: order.pick,
            price: order.price,
            at: trace::now(),
        }
    }

    /// An effect that is to be written in the ledger's own database.
    pub(crate) fn entry(&self, order: Order) -> Entry {
        Entry {
            table: self.table.as_ref().to_owned(),
            effect: self.effect(order),
        }
    }

    /// An effect: it has happened once it is on the disk, and its name is returned. Once begun it is carried through, also
    /// when nobody waits for it any more.
    pub(crate) async fn perform(&self, order: Order) -> io::Result<String> {
        let (lines, effect) = (Arc::clone(&self.lines), self.effect(order));
        let entry = effect.entry.clone();
        tokio::task::spawn_blocking(move || lines.write_through(&effect))
            .await
            .map_err(io::Error::other)??;
        Ok(entry)
    }

    /// Notes that a step was dropped half-way, or that a body is about to panic.
    pub(crate) fn cut(&self, flow: u64, step: &str) -> io::Result<()> {
        self.trace.write(&Line::Cut {
            flow,
            step: step.to_owned(),
            at: trace::now(),
        })
    }
}
