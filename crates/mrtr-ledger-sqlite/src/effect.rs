//! Work of the author's own in the ledger's transaction: an effect between its claim and its outcome, or a set-up.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};

use mrtr_ledger::{Claim, Claimed, Conclusion, LedgerError, Performed, Settled, Settlement};
use rusqlite::Connection;
use tokio::sync::oneshot;

use crate::books::Books;
use crate::fault::Fault;
use crate::job::Job;

type Panic = Box<dyn Any + Send>;
/// What work returned, or its panic.
type Came<T> = Result<T, Panic>;
type Reply<T> = oneshot::Sender<Result<T, LedgerError>>;
/// A job for the thread, and where its answer arrives.
type Sent<T> = (Box<dyn Job>, oneshot::Receiver<Result<T, LedgerError>>);

/// A step: the claim, the effect, the outcome.
pub(crate) fn step<O, R, F, C>(claim: Claim, effect: F, conclude: C) -> Sent<Performed<R>>
where
    O: Send + 'static,
    R: Send + 'static,
    F: for<'t> FnOnce(&'t Connection) -> O + Send + 'static,
    C: FnOnce(O) -> (Conclusion, R) + Send + 'static,
{
    let (reply, answer) = oneshot::channel();
    // Both together, since both may panic and neither may be run twice.
    let work = move |connection: &Connection| conclude(effect(connection));
    let job = Step {
        claim,
        work: Some(work),
        came: None,
        reply,
    };
    (Box::new(job), answer)
}

/// Work without a claim. What it returns decides whether it is kept.
pub(crate) fn set_up<T, E, F>(work: F) -> Sent<Came<Result<T, E>>>
where
    T: Send + 'static,
    E: Send + 'static,
    F: FnOnce(&Connection) -> Result<T, E> + Send + 'static,
{
    let (reply, answer) = oneshot::channel();
    let job = SetUp {
        work: Some(work),
        came: None,
        reply,
    };
    (Box::new(job), answer)
}

struct Step<R, W> {
    claim: Claim,
    work: Option<W>,
    came: Option<Performed<R>>,
    reply: Reply<Performed<R>>,
}

impl<R, W> Job for Step<R, W>
where
    R: Send,
    W: FnOnce(&Connection) -> (Conclusion, R) + Send,
{
    fn run(&mut self, books: &Books<'_>) -> Result<(), Fault> {
        let claimed = books.claim(&self.claim)?;
        if claimed != Claimed::First {
            self.came = Some(Performed::Not(claimed));
            return Ok(());
        }
        let work = self.work.take().ok_or(Fault::Ended)?;
        let (key, token) = (&self.claim.key, &self.claim.token);
        let result = attempt(books, work, |came| {
            matches!(came, Ok((Conclusion::Commit(_), _)))
        })?;
        let settled = |outcome| books.settle(key, token, &Settlement::Outcome(outcome));
        let (settled, came) = match result {
            Ok((Conclusion::Commit(outcome) | Conclusion::RollBack(outcome), value)) => {
                (settled(outcome)? == Settled::Stored, Performed::Ran(value))
            }
            Ok((Conclusion::Release, value)) => (books.release(key, token)?, Performed::Ran(value)),
            Err(panic) => (books.release(key, token)?, Performed::Panicked(panic)),
        };
        // The row was claimed in this very transaction. If it is not owned now, something has been at it.
        if !settled {
            return Err(Fault::Ended);
        }
        self.came = Some(came);
        Ok(())
    }

    fn answer(self: Box<Self>, fate: Result<(), Fault>) {
        give(self.reply, self.came, fate);
    }

    fn is_effect(&self) -> bool {
        true
    }

    fn has_run(&self) -> bool {
        self.work.is_none()
    }
}

struct SetUp<T, E, W> {
    work: Option<W>,
    came: Option<Came<Result<T, E>>>,
    reply: Reply<Came<Result<T, E>>>,
}

impl<T, E, W> Job for SetUp<T, E, W>
where
    T: Send,
    E: Send,
    W: FnOnce(&Connection) -> Result<T, E> + Send,
{
    fn run(&mut self, books: &Books<'_>) -> Result<(), Fault> {
        let work = self.work.take().ok_or(Fault::Ended)?;
        self.came = Some(attempt(books, work, |came| matches!(came, Ok(Ok(_))))?);
        Ok(())
    }

    fn answer(self: Box<Self>, fate: Result<(), Fault>) {
        give(self.reply, self.came, fate);
    }

    fn is_effect(&self) -> bool {
        true
    }

    fn has_run(&self) -> bool {
        self.work.is_none()
    }
}

/// Runs work in a savepoint, to which everything goes back that is not to be kept. A panic is no end of the thread.
fn attempt<T>(
    books: &Books<'_>,
    work: impl FnOnce(&Connection) -> T,
    is_kept: impl FnOnce(&Came<T>) -> bool,
) -> Result<Came<T>, Fault> {
    // What was counted so far, the claim's own row among it, is not to go back with the effect.
    books.write_counts()?;
    books.control("SAVEPOINT mrtr_effect")?;
    let came = books.during_effect(|connection| {
        // Nothing of the ledger's own is inside: the connection is what SQLite says it is, panic or not.
        catch_unwind(AssertUnwindSafe(|| work(connection)))
    });
    // A savepoint that is not there is the effect's doing, and then nothing else is as the ledger left it either.
    let ended = |fault: Fault| match fault.concerns_one() {
        true => Fault::Ended,
        false => fault,
    };
    if books.has_lost_its_transaction() {
        return Err(Fault::Ended);
    }
    if is_kept(&came) {
        if books.finds_a_reference()? {
            return Err(Fault::Reference);
        }
    } else {
        // The ledger's own writes, its counts among them, are outside.
        books.control("ROLLBACK TO mrtr_effect").map_err(ended)?;
    }
    books.control("RELEASE mrtr_effect").map_err(ended)?;
    Ok(came)
}

fn give<T>(reply: Reply<T>, came: Option<T>, fate: Result<(), Fault>) {
    let answer = match (fate, came) {
        (Ok(()), Some(came)) => Ok(came),
        (Ok(()), None) => Err(LedgerError::Closed),
        (Err(fault), _) => Err(fault.into()),
    };
    // Whoever asked may have gone. What was committed stays so.
    _ = reply.send(answer);
}
