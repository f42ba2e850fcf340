//! A ledger that writes down what it is asked and what it answers.

use std::any::Any;
use std::future::Future;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use mrtr_ledger::{
    self as ledger, Claim, Claimed, Conclusion, Fingerprint, Found, Kept, Ledger, LedgerError,
    LedgerFuture, Note, Performed, Purged, RowKey, Rows, Settled, Settlement, Token,
    TransactionalLedger,
};
use mrtr_state::Epoch;

use crate::server::shelf::{Entry, Shelf};
use crate::trace::{self, Answer, Kind, Line, Lines, Question, RowId, TokenId};

/// Where it is written.
#[derive(Debug)]
pub(crate) struct Trace {
    lines: Lines,
    count: AtomicU64,
}

impl Trace {
    pub(crate) fn new(lines: Lines) -> Self {
        Self {
            lines,
            count: AtomicU64::new(0),
        }
    }

    pub(crate) fn write(&self, line: &Line) -> io::Result<()> {
        self.lines.write(line)
    }

    /// Writes the question, waits, writes the answer. Without a record nothing may happen, so a line that cannot be
    /// written is no word from the ledger.
    pub(crate) async fn follow<T>(
        &self,
        question: Question,
        answer: impl Future<Output = Result<T, LedgerError>>,
        in_short: impl FnOnce(&T) -> Answer,
    ) -> Result<T, LedgerError> {
        let unwritten = |error: io::Error| LedgerError::Unavailable(Box::new(error));
        let number = self.count.fetch_add(1, Ordering::Relaxed);
        let line = Line::Asked(number, trace::now(), question);
        self.write(&line).map_err(unwritten)?;
        let answer = answer.await;
        let short = match &answer {
            Ok(answer) => in_short(answer),
            Err(error) => Answer::NoWord(error.to_string()),
        };
        let line = Line::Answered(number, trace::now(), short);
        self.write(&line).map_err(unwritten)?;
        answer
    }
}

/// A ledger whose every operation leaves two lines. It changes no answer.
#[derive(Debug)]
pub(crate) struct Tapped<L> {
    inner: L,
    trace: Arc<Trace>,
}

impl<L: Ledger> Tapped<L> {
    pub(crate) fn new(inner: L, trace: Arc<Trace>) -> Self {
        Self { inner, trace }
    }

    fn follow<'a, T: Send + 'a>(
        &'a self,
        question: Question,
        answer: LedgerFuture<'a, T>,
        in_short: impl FnOnce(&T) -> Answer + Send + 'a,
    ) -> LedgerFuture<'a, T> {
        Box::pin(self.trace.follow(question, answer, in_short))
    }
}

impl<L: Ledger> Ledger for Tapped<L> {
    fn claim(&self, claim: Claim) -> LedgerFuture<'_, Claimed> {
        let question = claim_of(&claim, false);
        self.follow(question, self.inner.claim(claim), claimed)
    }

    fn settle(&self, key: RowKey, by: Token, settlement: Settlement) -> LedgerFuture<'_, Settled> {
        let question = Question::Settle {
            row: row(&key),
            token: token(&by),
            abandoned: settlement == Settlement::Abandoned,
        };
        let answer = self.inner.settle(key, by, settlement);
        self.follow(question, answer, |settled| match settled {
            Settled::Stored => Answer::Stored,
            Settled::Refused => Answer::Refused,
        })
    }

    fn beat(&self, key: RowKey, by: Token, lease: Duration) -> LedgerFuture<'_, bool> {
        let question = Question::Beat {
            row: row(&key),
            token: token(&by),
        };
        self.follow(question, self.inner.beat(key, by, lease), yes_or_no)
    }

    fn release(&self, key: RowKey, by: Token) -> LedgerFuture<'_, bool> {
        let question = Question::Release {
            row: row(&key),
            token: token(&by),
        };
        self.follow(question, self.inner.release(key, by), yes_or_no)
    }

    fn keep(&self, note: Note) -> LedgerFuture<'_, Kept> {
        let question = Question::Keep {
            row: row(&note.key),
            account: account(&note.account),
            under: note
                .under_round
                .map(|owner| (row(&owner.key), token(&owner.token))),
        };
        self.follow(question, self.inner.keep(note), |kept| match kept {
            Kept::Stored => Answer::Stored,
            Kept::Before(_) => Answer::Before,
            Kept::Conflict => Answer::Conflict,
            Kept::Expired => Answer::Expired,
            Kept::StaleEpoch => Answer::StaleEpoch,
            Kept::StaleOwner => Answer::StaleOwner,
            Kept::Full => Answer::Full,
            _ => Answer::Unheard,
        })
    }

    fn lookup(
        &self,
        of: ledger::Kind,
        key: RowKey,
        fingerprint: Fingerprint,
    ) -> LedgerFuture<'_, Found> {
        let question = Question::Lookup {
            kind: kind(of),
            row: row(&key),
        };
        let answer = self.inner.lookup(of, key, fingerprint);
        self.follow(question, answer, |found| match found {
            Found::Absent => Answer::Absent,
            Found::InProgress { .. } => Answer::InProgress,
            Found::Settled(_) => Answer::Settled,
            Found::Conflict => Answer::Conflict,
            Found::Abandoned => Answer::Abandoned,
            _ => Answer::Unheard,
        })
    }

    fn purge(&self) -> LedgerFuture<'_, Purged> {
        self.follow(Question::Purge, self.inner.purge(), |purged| {
            Answer::Purged(purged.rounds + purged.steps + purged.notes)
        })
    }

    fn epoch(&self) -> LedgerFuture<'_, Epoch> {
        self.follow(Question::Epoch, self.inner.epoch(), |epoch| {
            Answer::Epoch(short(epoch.as_bytes()))
        })
    }

    // The driver rotates and counts through a handle of its own.
    fn rotate_epoch(&self) -> LedgerFuture<'_, Epoch> {
        self.inner.rotate_epoch()
    }

    fn rows(&self) -> LedgerFuture<'_, Rows> {
        self.inner.rows()
    }

    fn survives_restart(&self) -> bool {
        self.inner.survives_restart()
    }

    // Not the inner one: what is performed in a transaction is written down too.
    fn as_any(&self) -> &dyn Any {
        self
    }
}

impl<L: TransactionalLedger> TransactionalLedger for Tapped<L> {
    type Tx<'t> = L::Tx<'t>;
    type Work<'t, O: Send + 'static> = L::Work<'t, O>;

    fn done<'t, O: Send + 'static>(outcome: O) -> Self::Work<'t, O> {
        L::done(outcome)
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
        F: for<'t> FnOnce(&'t Self::Tx<'t>) -> Self::Work<'t, O> + Send + 'static,
        C: FnOnce(O) -> (Conclusion, R) + Send + 'static,
    {
        let question = claim_of(&claim, true);
        let freed = Arc::new(AtomicBool::new(false));
        let told = Arc::clone(&freed);
        let conclude = move |outcome| {
            let (conclusion, result) = conclude(outcome);
            told.store(conclusion == Conclusion::Release, Ordering::SeqCst);
            (conclusion, result)
        };
        let answer = self.inner.perform(claim, effect, conclude);
        self.follow(question, answer, move |performed| match performed {
            Performed::Ran(_) if freed.load(Ordering::SeqCst) => Answer::Freed,
            Performed::Ran(_) => Answer::Ran,
            Performed::Not(why) => claimed(why),
            Performed::Panicked(_) => Answer::Panicked,
        })
    }
}

impl<L: Shelf> Shelf for Tapped<L> {
    type Error = L::Error;

    fn write<'t>(
        tx: &'t Self::Tx<'t>,
        entry: Entry,
    ) -> Self::Work<'t, Result<String, Self::Error>> {
        L::write(tx, entry)
    }
}

fn claim_of(claim: &Claim, whole: bool) -> Question {
    Question::Claim {
        kind: kind(claim.kind),
        row: row(&claim.key),
        token: token(&claim.token),
        account: account(&claim.account),
        under: claim
            .under_round
            .map(|owner| (row(&owner.key), token(&owner.token))),
        again: claim.run_again,
        whole,
    }
}

fn claimed(claimed: &Claimed) -> Answer {
    match claimed {
        Claimed::First => Answer::First,
        Claimed::InProgress { .. } => Answer::InProgress,
        Claimed::Settled(_) => Answer::Settled,
        Claimed::Conflict => Answer::Conflict,
        Claimed::Abandoned => Answer::Abandoned,
        Claimed::Expired => Answer::Expired,
        Claimed::StaleEpoch => Answer::StaleEpoch,
        Claimed::StaleOwner => Answer::StaleOwner,
        Claimed::Full => Answer::Full,
        _ => Answer::Unheard,
    }
}

fn yes_or_no(yes: &bool) -> Answer {
    if *yes { Answer::Yes } else { Answer::No }
}

fn kind(kind: ledger::Kind) -> Kind {
    match kind {
        ledger::Kind::Round => Kind::Round,
        ledger::Kind::Step => Kind::Step,
        ledger::Kind::Note => Kind::Note,
    }
}

fn row(key: &RowKey) -> RowId {
    RowId(key.expiry.as_millis(), short(&key.hash))
}

fn token(token: &Token) -> TokenId {
    short(token.as_bytes())
}

/// An account, in short: the same for the same principal, which is how rows are known to be a flow's.
pub(crate) fn account(account: &ledger::Account) -> u64 {
    short(account.as_bytes())
}

/// The first 53 bits: as many as a number in JSON can have, and enough to tell a run's rows apart.
fn short(bytes: &[u8]) -> u64 {
    let first = bytes.iter().take(8);
    first.fold(0, |number, byte| (number << 8) | u64::from(*byte)) >> 11
}
