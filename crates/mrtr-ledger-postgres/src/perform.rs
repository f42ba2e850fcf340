//! A step whose effect is in the same database: claim, effect and outcome are one transaction.
//!
//! While the effect runs, nothing is held but the step's own row: not the ledger's (a purge would wait, and all claims
//! behind it), not the round's (who asks what became of it would wait), and no count. What a claim holds to its commit is
//! therefore looked at again, and held, before this one is committed. If it has changed the effect is taken back.

use std::any::Any;
use std::future::{Future, poll_fn};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use mrtr_ledger::rules::Status;
use mrtr_ledger::{Claim, Claimed, Conclusion, LedgerFuture, Performed, TransactionalLedger};
use tokio::time::{Instant, sleep, timeout};
use tokio_postgres::{Client, IsolationLevel, Transaction};

use crate::books::Books;
use crate::fault::Fault;
use crate::ledger::{Inner, PAUSE, carried};
use crate::pool::Lent;
use crate::session::{Session, Warnings};
use crate::sql::Statements;
use crate::taking::{Taken, Taking};
use crate::{PostgresLedger, metrics};

/// The name of the savepoint behind which an effect is.
const SAVEPOINT: &str = "mrtr_effect";

type Panic = Box<dyn Any + Send>;

impl TransactionalLedger for PostgresLedger {
    /// The transaction, at a savepoint. It is the effect's alone until its future ends.
    type Tx<'t> = Transaction<'t>;

    type Work<'t, O: Send + 'static> = Pin<Box<dyn Future<Output = O> + Send + 't>>;

    fn done<'t, O: Send + 'static>(outcome: O) -> Self::Work<'t, O> {
        Box::pin(std::future::ready(outcome))
    }

    fn perform<O, R, F, C>(
        &self,
        claim: Claim,
        effect: F,
        conclude: C,
    ) -> LedgerFuture<'_, Performed<R>>
    where
        O: Send + 'static,
        R: Send + 'static,
        F: for<'t> FnOnce(&'t Transaction<'t>) -> Pin<Box<dyn Future<Output = O> + Send + 't>>
            + Send
            + 'static,
        C: FnOnce(O) -> (Conclusion, R) + Send + 'static,
    {
        let inner = Arc::clone(self.inner());
        carried(async move { inner.perform(claim, effect, conclude).await })
    }
}

/// Whether the step is this caller's to run.
enum Begun<'a> {
    Ours(Ours<'a>),
    Not(Claimed),
}

/// A transaction in which the step's row is this caller's.
struct Ours<'a> {
    transaction: Transaction<'a>,
    taking: Taking,
    statements: &'a Statements,
    warnings: Arc<Warnings>,
}

impl Inner {
    async fn perform<O, R, F, C>(
        self: &Arc<Self>,
        claim: Claim,
        effect: F,
        conclude: C,
    ) -> Result<Performed<R>, Fault>
    where
        O: Send + 'static,
        R: Send + 'static,
        F: for<'t> FnOnce(&'t Transaction<'t>) -> Pin<Box<dyn Future<Output = O> + Send + 't>>
            + Send
            + 'static,
        C: FnOnce(O) -> (Conclusion, R) + Send + 'static,
    {
        let until = Instant::now() + self.pool.manner.wait;
        let _turn = self.pool.effect(until).await?;
        let mut work = Some((effect, conclude));
        let mut pause = PAUSE.0;
        loop {
            let fault = match self.pool.lend(until).await {
                Err(fault) => fault,
                Ok(mut lent) => {
                    let session = lent.session().ok_or(Fault::Busy)?;
                    match self.once_at_most(session, &claim, &mut work).await {
                        Ok(performed) => {
                            self.wash(lent);
                            return Ok(performed);
                        }
                        Err(fault) => fault,
                    }
                }
            };
            metrics::failed(&fault);
            // Until the effect has begun, all may be tried again.
            let spent = work.is_none() || !fault.is_passing() || Instant::now() + pause >= until;
            if spent {
                return Err(fault);
            }
            sleep(pause).await;
            pause = (pause * 2).min(PAUSE.1);
        }
    }

    /// Takes the work only if it is about to run.
    async fn once_at_most<O, R, F, C>(
        &self,
        session: &mut Session,
        claim: &Claim,
        work: &mut Option<(F, C)>,
    ) -> Result<Performed<R>, Fault>
    where
        F: for<'t> FnOnce(&'t Transaction<'t>) -> Pin<Box<dyn Future<Output = O> + Send + 't>>,
        C: FnOnce(O) -> (Conclusion, R),
    {
        match self.limited(self.begin(session, claim)).await? {
            Begun::Not(claimed) => Ok(Performed::Not(claimed)),
            Begun::Ours(ours) => {
                let (effect, conclude) = work.take().ok_or(Fault::Ended)?;
                self.run(ours, claim, effect, conclude).await
            }
        }
    }

    async fn begin<'a>(&self, session: &'a mut Session, claim: &Claim) -> Result<Begun<'a>, Fault> {
        let Session {
            client,
            statements,
            warnings,
            ..
        } = session;
        // What an effect does after it has ended the transaction is refused, and does not outlive its claim.
        client
            .batch_execute("SET default_transaction_read_only = on")
            .await?;
        let transaction = client
            .build_transaction()
            .isolation_level(IsolationLevel::ReadCommitted)
            .read_only(false)
            .start()
            .await?;
        let books = self.books(transaction.client(), statements);
        match books.take(claim).await? {
            Taken::Ours(taking) => Ok(Begun::Ours(Ours {
                transaction,
                taking,
                statements,
                warnings: Arc::clone(warnings),
            })),
            Taken::Not(claimed) => {
                transaction.rollback().await?;
                Ok(Begun::Not(claimed))
            }
            Taken::Told(claimed) => {
                transaction.commit().await?;
                warnings.vouch()?;
                Ok(Begun::Not(claimed))
            }
        }
    }

    async fn run<O, R, F, C>(
        &self,
        ours: Ours<'_>,
        claim: &Claim,
        effect: F,
        conclude: C,
    ) -> Result<Performed<R>, Fault>
    where
        F: for<'t> FnOnce(&'t Transaction<'t>) -> Pin<Box<dyn Future<Output = O> + Send + 't>>,
        C: FnOnce(O) -> (Conclusion, R),
    {
        let Ours {
            mut transaction,
            taking,
            statements,
            warnings,
        } = ours;
        let savepoint = self
            .limited(async { Ok(transaction.savepoint(SAVEPOINT).await?) })
            .await?;
        let outcome = caught(effect, &savepoint).await;
        let concluded =
            outcome.and_then(|outcome| catch_unwind(AssertUnwindSafe(|| conclude(outcome))));
        // A statement that failed and was passed over has spoilt the transaction; then the savepoint cannot be released.
        let (status, performed) = match concluded {
            Ok((Conclusion::Commit(outcome), value)) => {
                self.limited(async { Ok(savepoint.commit().await?) })
                    .await?;
                (Status::Settled(outcome), Performed::Ran(value))
            }
            Ok((conclusion, value)) => {
                self.limited(async { Ok(savepoint.rollback().await?) })
                    .await?;
                let status = match conclusion {
                    Conclusion::RollBack(outcome) => Status::Settled(outcome),
                    _ => Status::Released,
                };
                (status, Performed::Ran(value))
            }
            Err(panic) => {
                self.limited(async { Ok(savepoint.rollback().await?) })
                    .await?;
                (Status::Released, Performed::Panicked(panic))
            }
        };
        if status == Status::Released && taking.inserted {
            self.limited(async { Ok(transaction.rollback().await?) })
                .await?;
            return Ok(performed);
        }
        let books = self.books(transaction.client(), statements);
        let refusal = self
            .limited(books.conclude(claim, &taking, &status))
            .await?;
        if let Some(refusal) = refusal {
            self.limited(async { Ok(transaction.rollback().await?) })
                .await?;
            return Ok(Performed::Not(refusal));
        }
        warnings.listen();
        self.limited(async { Ok(transaction.commit().await?) })
            .await?;
        warnings.vouch()?;
        self.policy.totals.add(taking.weight(&status));
        Ok(performed)
    }

    /// Gives the connection back once nothing of the effect's is left on it. Nobody waits for that.
    fn wash(self: &Arc<Self>, mut lent: Lent) {
        let inner = Arc::clone(self);
        tokio::spawn(async move {
            let Some(session) = lent.session() else {
                return;
            };
            if inner
                .limited(session.wash(&inner.pool.manner))
                .await
                .is_ok()
            {
                lent.give_back();
            }
        });
    }

    fn books<'a>(&'a self, client: &'a Client, statements: &'a Statements) -> Books<'a> {
        Books {
            client,
            statements,
            policy: &self.policy,
            manner: &self.pool.manner,
        }
    }

    /// The server gives up in time; a server that is not heard of any more does not.
    async fn limited<T>(&self, work: impl Future<Output = Result<T, Fault>>) -> Result<T, Fault> {
        match timeout(self.pool.manner.wait + Duration::from_secs(1), work).await {
            Ok(result) => result,
            Err(elapsed) => Err(Fault::Disconnected(Box::new(elapsed))),
        }
    }
}

/// Runs the effect. A panic is its outcome, wherever in it one happens.
async fn caught<'t, O, F>(effect: F, savepoint: &'t Transaction<'t>) -> Result<O, Panic>
where
    F: for<'a> FnOnce(&'a Transaction<'a>) -> Pin<Box<dyn Future<Output = O> + Send + 'a>>,
{
    let mut work = catch_unwind(AssertUnwindSafe(|| effect(savepoint)))?;
    poll_fn(
        |context| match catch_unwind(AssertUnwindSafe(|| work.as_mut().poll(context))) {
            Ok(Poll::Ready(outcome)) => Poll::Ready(Ok(outcome)),
            Ok(Poll::Pending) => Poll::Pending,
            Err(panic) => Poll::Ready(Err(panic)),
        },
    )
    .await
}
