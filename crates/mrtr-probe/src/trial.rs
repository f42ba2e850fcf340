//! How tries are judged: many that must not act, on one state or on one each.

use std::collections::BTreeMap;

use crate::report::Verdict;
use crate::subject::{Prey, Stop, Subject, masked};
use crate::wire::{Message, Reply, Said};

/// What came of a row.
#[derive(Debug, Clone)]
pub(crate) struct Finding {
    pub(crate) verdict: Verdict,
    pub(crate) note: String,
    pub(crate) sent: String,
    pub(crate) received: String,
}

impl Finding {
    pub(crate) fn new(verdict: Verdict, note: impl Into<String>) -> Self {
        Self {
            verdict,
            note: note.into(),
            sent: String::new(),
            received: String::new(),
        }
    }

    pub(crate) fn not_applicable(why: impl Into<String>) -> Self {
        Self::new(Verdict::NotApplicable, why)
    }

    pub(crate) fn unknown(why: impl Into<String>) -> Self {
        Self::new(Verdict::Unknown, why)
    }

    pub(crate) fn with(mut self, subject: &Subject<'_>, message: &Message, reply: &Reply) -> Self {
        self.sent = message.shown(&subject.redact);
        self.received = reply.shown(&subject.redact);
        self
    }
}

/// What a reply to something that must not act means.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Act {
    /// It acted.
    Acted,
    /// It did not.
    Held,
    /// Only a count of effects would tell.
    Unclear,
}

/// Makes a request of an open flow.
type Make<'t> = Box<dyn Fn(&Subject<'_>, &Prey) -> Message + Send + Sync + 't>;

/// One try: what is tried, and the request made of an open flow.
pub(crate) struct Try<'t> {
    pub(crate) what: String,
    make: Make<'t>,
}

impl<'t> Try<'t> {
    pub(crate) fn new(
        what: impl Into<String>,
        make: impl Fn(&Subject<'_>, &Prey) -> Message + Send + Sync + 't,
    ) -> Self {
        Self {
            what: what.into(),
            make: Box::new(make),
        }
    }
}

/// How many flows a set of tries takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Flows {
    /// All tries on one state, whose honest retry must work afterwards: otherwise the refusals prove nothing.
    Shared,
    /// A flow for each, because a try may spend its state.
    Each,
}

impl Subject<'_> {
    /// What a result means by itself. `before` and `after` are the effects where they are counted.
    pub(crate) fn act(&self, reply: &Reply, before: Option<u64>, after: Option<u64>) -> Act {
        if let (Some(before), Some(after)) = (before, after) {
            return if after > before {
                Act::Acted
            } else {
                Act::Held
            };
        }
        match reply.said() {
            Said::Complete(_) if reply.is_replayed() => Act::Held,
            Said::Complete(result) if masked(result) == self.good.masked => Act::Acted,
            Said::Complete(_) => Act::Unclear,
            _ => Act::Held,
        }
    }

    /// Whether a result says what the good path's said, and does not say that it is a stored one.
    pub(crate) fn claims_to_act(&self, reply: &Reply) -> bool {
        match reply.said() {
            Said::Complete(result) => !reply.is_replayed() && masked(result) == self.good.masked,
            _ => false,
        }
    }

    /// Sends one request that must not act.
    pub(crate) async fn attempt(&self, message: &Message) -> Result<(Reply, Act), Stop> {
        let before = self.effects().await?;
        let reply = self.send(message).await?;
        let after = self.effects().await?;
        let act = self.act(&reply, before, after);
        Ok((reply, act))
    }

    /// Sends each try; none of them may act.
    pub(crate) async fn none_acts(
        &self,
        tries: Vec<Try<'_>>,
        flows: Flows,
    ) -> Result<Finding, Stop> {
        let mut batch = Batch::default();
        let mut prey = self.open().await?;
        let mut before = self.effects().await?;
        let mut fresh = true;
        for one in &tries {
            let renew = !fresh && (flows == Flows::Each || self.is_old(&prey));
            if renew {
                if flows == Flows::Shared {
                    let after = self.effects().await?;
                    if let Some(finding) = batch.acted_in_secret(self, before, after) {
                        return Ok(finding);
                    }
                    batch.control(self, &prey).await?;
                }
                prey = self.open().await?;
                before = self.effects().await?;
            }
            fresh = false;
            let message = (one.make)(self, &prey);
            let reply = self.send(&message).await?;
            batch.count(&reply);
            // A try that was refused may have acted all the same; those on one state are counted together.
            let complete = matches!(reply.said(), Said::Complete(_));
            if complete || flows == Flows::Each {
                let after = self.effects().await?;
                match self.act(&reply, before, after) {
                    Act::Held if self.claims_to_act(&reply) => {
                        let note = format!(
                            "{}: it gave the result of the good path, and the count did not rise: \
                             is --effect-tool told of all effects?",
                            one.what
                        );
                        let finding = Finding::unknown(note).with(self, &message, &reply);
                        batch.unclear.get_or_insert(finding);
                    }
                    Act::Acted => {
                        let note = format!("{}: it acted", one.what);
                        return Ok(Finding::new(Verdict::Unsafe, note).with(self, &message, &reply));
                    }
                    Act::Unclear if batch.unclear.is_none() => {
                        let note = format!(
                            "{}: a result came, and whether anything happened only --effect-tool would tell",
                            one.what
                        );
                        batch.unclear = Some(Finding::unknown(note).with(self, &message, &reply));
                    }
                    _ => {}
                }
            }
            batch.last = Some((message, reply));
        }
        let after = self.effects().await?;
        if flows == Flows::Shared {
            if let Some(finding) = batch.acted_in_secret(self, before, after) {
                return Ok(finding);
            }
            batch.control(self, &prey).await?;
        }
        Ok(batch.finding(self))
    }

    /// Sends each request; none of them may be served, whatever it would do.
    pub(crate) async fn none_served(
        &self,
        requests: Vec<(String, Message)>,
    ) -> Result<Finding, Stop> {
        let mut batch = Batch::default();
        for (what, message) in requests {
            let reply = self.send(&message).await?;
            batch.count(&reply);
            if reply.is_served() {
                let note = format!("{what}: it was served");
                return Ok(Finding::new(Verdict::Unsafe, note).with(self, &message, &reply));
            }
            batch.last = Some((message, reply));
        }
        Ok(batch.finding(self))
    }
}

/// What a set of tries came to.
#[derive(Default)]
struct Batch {
    sorts: BTreeMap<String, usize>,
    last: Option<(Message, Reply)>,
    unclear: Option<Finding>,
    unproven: Option<Finding>,
}

impl Batch {
    fn count(&mut self, reply: &Reply) {
        *self.sorts.entry(reply.sort()).or_default() += 1;
    }

    /// The honest retry, which must work: otherwise whatever was refused may have been refused for another reason.
    async fn control(&mut self, subject: &Subject<'_>, prey: &Prey) -> Result<(), Stop> {
        let message = subject.retry(prey).message();
        let reply = subject.send(&message).await?;
        if !matches!(reply.said(), Said::Complete(_)) && self.unproven.is_none() {
            let note = format!(
                "the refusals prove nothing: the honest retry did not work afterwards either, the server {}",
                reply.sort()
            );
            self.unproven = Some(Finding::unknown(note).with(subject, &message, &reply));
        }
        Ok(())
    }

    fn acted_in_secret(
        &self,
        subject: &Subject<'_>,
        before: Option<u64>,
        after: Option<u64>,
    ) -> Option<Finding> {
        if after <= before {
            return None;
        }
        let note = "one of the tries acted, although no result came";
        let finding = Finding::new(Verdict::Unsafe, note);
        Some(match &self.last {
            Some((message, reply)) => finding.with(subject, message, reply),
            None => finding,
        })
    }

    fn finding(self, subject: &Subject<'_>) -> Finding {
        let Some((message, reply)) = &self.last else {
            return Finding::not_applicable("there is nothing to try");
        };
        if let Some(finding) = self.unclear.or(self.unproven) {
            return finding;
        }
        let sorts = self.sorts.iter();
        let sorts: Vec<String> = sorts
            .map(|(sort, count)| format!("{count} {sort}"))
            .collect();
        Finding::new(Verdict::Safe, sorts.join(", ")).with(subject, message, reply)
    }
}
