//! The ledger's row of a round, as the caller of one retry may see it.

use std::sync::Arc;

use mrtr_ledger::{Fingerprint, Found, Kind, RowKey, Settled, Settlement, Token};
use mrtr_state::{Nonce, Reason, Timestamp};

use super::{NO_WORD, Requester, reject};
use crate::ledgering;
use crate::registered::Registered;
use crate::reply::{Repeated, Reply};
use crate::server::{Durability, Inner};

/// One round's row and everything that tells what it means for this request.
pub(super) struct Row<'a> {
    inner: &'a Inner,
    handler: &'a Registered,
    requester: &'a Requester,
    pub(super) durability: &'a Durability,
    pub(super) audience: &'a str,
    pub(super) key: RowKey,
    fingerprint: Fingerprint,
}

impl<'a> Row<'a> {
    /// The row of the round whose state carries this nonce and expiry; `None` where there is no ledger.
    pub(super) fn of_round(
        inner: &'a Inner,
        handler: &'a Registered,
        requester: &'a Requester,
        nonce: &Nonce,
        exp: Timestamp,
        fingerprint: Fingerprint,
    ) -> Option<Self> {
        let audience = inner.envelope.as_ref()?.audience();
        let durability = inner.durability.as_ref()?;
        let key = RowKey::round(audience, nonce, exp);
        Some(Self {
            inner,
            handler,
            requester,
            durability,
            audience,
            key,
            fingerprint,
        })
    }

    /// What is known of the round, without claiming it; `None` when nothing is. Nothing has run for this request.
    pub(super) async fn look_up(&self) -> Option<Reply> {
        self.look_up_or(NO_WORD).await
    }

    /// The same; without a word from the ledger it is this that is said.
    async fn look_up_or(&self, no_word: &str) -> Option<Reply> {
        match self
            .durability
            .ledger
            .lookup(Kind::Round, self.key, self.fingerprint)
            .await
        {
            Ok(Found::Absent) => None,
            Ok(found) => Some(self.found(found)),
            Err(error) => {
                tracing::error!(%error, "no word from the ledger on a look-up");
                Some(Reply::unavailable(no_word))
            }
        }
    }

    fn found(&self, found: Found) -> Reply {
        match found {
            Found::Settled(stored) => self.replayed(stored),
            Found::InProgress { retry_after } => Reply::in_progress(retry_after),
            Found::Conflict => reject(self.inner, Reason::AlreadyUsed),
            _ if self.may_be_taken_over() => {
                Reply::unavailable("An earlier run of this retry was cut off, and it runs again.")
            }
            _ => Reply::unknown("an earlier run of this retry was cut off"),
        }
    }

    /// Whether the same retry, sent again, would run the body again from its top.
    fn may_be_taken_over(&self) -> bool {
        self.handler.run_again && self.inner.clock.now() < self.key.expiry
    }

    /// The stored reply, as far as this request's client may have it.
    pub(super) fn replayed(&self, stored: Vec<u8>) -> Reply {
        let opened = self
            .durability
            .outcomes
            .open(&self.key, &self.fingerprint, stored)
            .ok();
        let repeated = opened.and_then(|stored| {
            let declared = self.requester.declared;
            Reply::from_stored(&stored, declared, self.handler, &self.inner.info)
        });
        match repeated {
            Some(Repeated::Reply(reply)) => reply,
            Some(Repeated::AlreadyUsed) => reject(self.inner, Reason::AlreadyUsed),
            None => {
                tracing::error!("a stored outcome cannot be read; its key may have left the ring");
                Reply::unknown("what an earlier run of this retry stored cannot be read")
            }
        }
    }

    /// Gives the round back: its body has not started, and only the same retry can claim it again.
    pub(super) async fn release(&self, token: Token) {
        // Without an answer it goes on in the background.
        let released =
            ledgering::release(&self.durability.ledger, &self.inner.tasks, self.key, token).await;
        if let Err(error) = released {
            tracing::warn!(%error, "a round is given back as soon as the ledger speaks again");
        }
    }

    /// The round is this run's from here on.
    pub(super) fn held(&self, token: Token) -> Held<'_> {
        Held {
            row: self,
            token,
            over: false,
        }
    }

    /// Keeps the reply. No response leaves before that is durable.
    async fn settle(&self, token: Token, reply: Reply) -> Reply {
        let kept = reply
            .to_stored(self.handler, self.inner.limits.stored_result)
            .and_then(|stored| {
                self.durability
                    .outcomes
                    .seal(&self.key, &self.fingerprint, &stored)
            });
        let settlement = kept.map_or(Settlement::Abandoned, Settlement::Outcome);
        let ledger = &self.durability.ledger;
        match ledgering::settle(ledger, &self.inner.tasks, self.key, token, settlement).await {
            Ok(Settled::Stored) => reply,
            // The row was withdrawn meanwhile, and somebody was told so.
            Ok(Settled::Refused) => match self.look_up_or(UNTOLD).await {
                Some(found) => found,
                None => Reply::unknown("this run was given up while it ran"),
            },
            Err(_) if self.may_be_taken_over() => {
                Reply::unavailable("The replay ledger did not confirm that the outcome was kept.")
            }
            Err(_) => Reply::unknown("the replay ledger did not confirm that the outcome was kept"),
        }
    }
}

const UNTOLD: &str = "This run was given up while it ran, and the replay ledger did not say what became of the call.";

/// The round that a run owns. Dropped before it is over, because the task that held it was lost, it is abandoned at once: nobody waits
/// for a lease to lapse that nobody renews.
pub(super) struct Held<'a> {
    row: &'a Row<'a>,
    token: Token,
    over: bool,
}

impl Held<'_> {
    /// Keeps the reply, and returns what may be answered.
    pub(super) async fn settle(mut self, reply: Reply) -> Reply {
        let reply = self.row.settle(self.token, reply).await;
        self.over = true;
        reply
    }

    /// Gives the round back: its body has not started.
    pub(super) async fn release(mut self) {
        self.row.release(self.token).await;
        self.over = true;
    }
}

impl Drop for Held<'_> {
    fn drop(&mut self) {
        if self.over {
            return;
        }
        tracing::error!("a call's task was lost, and its round is given up");
        let Ok(runtime) = tokio::runtime::Handle::try_current() else {
            return;
        };
        let (ledger, tasks) = (
            Arc::clone(&self.row.durability.ledger),
            self.row.inner.tasks.clone(),
        );
        let (key, token) = (self.row.key, self.token);
        self.row.inner.tasks.spawn_on(
            async move {
                drop(ledgering::settle(&ledger, &tasks, key, token, Settlement::Abandoned).await);
            },
            &runtime,
        );
    }
}
