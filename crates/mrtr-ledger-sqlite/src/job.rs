//! What the writer's thread is asked for, and how it answers.

use mrtr_ledger::{LedgerError, Purged};
use tokio::sync::oneshot;

use crate::books::Books;
use crate::fault::Fault;

/// What the thread is sent.
pub(crate) enum Task {
    /// Reads one value; it waits for no lock.
    Read(Box<dyn Job>),
    /// Reads and writes under the write lock.
    Write(Box<dyn Job>),
    /// Removes what may go, in as many transactions as it takes.
    Purge(oneshot::Sender<Result<Purged, LedgerError>>),
}

/// An operation, and whoever waits for its answer.
pub(crate) trait Job: Send {
    /// Does it, and keeps the answer.
    fn run(&mut self, books: &Books<'_>) -> Result<(), Fault>;
    /// Gives the answer, once it is durable, or says that there is none.
    fn answer(self: Box<Self>, fate: Result<(), Fault>);
    /// Whether it runs what cannot be run a second time.
    fn is_effect(&self) -> bool {
        false
    }
    /// Whether it has run what cannot be run a second time.
    fn has_run(&self) -> bool {
        false
    }
}

struct Asked<T, F> {
    work: F,
    value: Option<T>,
    reply: oneshot::Sender<Result<T, LedgerError>>,
}

impl<T, F> Job for Asked<T, F>
where
    T: Send,
    F: Fn(&Books<'_>) -> Result<T, Fault> + Send,
{
    fn run(&mut self, books: &Books<'_>) -> Result<(), Fault> {
        self.value = Some((self.work)(books)?);
        Ok(())
    }

    fn answer(self: Box<Self>, fate: Result<(), Fault>) {
        let answer = match (fate, self.value) {
            (Ok(()), Some(value)) => Ok(value),
            (Ok(()), None) => Err(LedgerError::Closed),
            (Err(fault), _) => Err(fault.into()),
        };
        // Whoever asked may have gone. What was committed stays so.
        _ = self.reply.send(answer);
    }
}

/// An operation to send to the thread, and where its answer arrives.
pub(crate) fn job<T, F>(work: F) -> (Box<dyn Job>, oneshot::Receiver<Result<T, LedgerError>>)
where
    T: Send + 'static,
    F: Fn(&Books<'_>) -> Result<T, Fault> + Send + 'static,
{
    let (reply, answer) = oneshot::channel();
    (
        Box::new(Asked {
            work,
            value: None,
            reply,
        }),
        answer,
    )
}
