//! Memos: what a flow computes once.
//!
//! A memo travels in the sealed state, so that a round which asks has kept it by asking. A round that was lost and [runs
//! again](crate::Tool::run_again) has sealed nothing, and its steps may have acted on the value: there a memo is kept in the ledger as
//! well, **before** it is used, and read back first.
//!
//! ```text
//! journal ── there ──▶ that value
//!    └─ none ─┬─ plain ─────────▶ compute ───────────────────────▶ journal
//!             └─ runs again ─▶ look up ── Settled ───────────────▶ journal
//!                                 └─ Absent ─▶ compute ─▶ keep ──▶ journal (the earlier value, if there is one after all)
//! ```

use std::borrow::Cow;
use std::future::{Future, pending};

use mrtr_ledger::{Fingerprint, Found, Kept, Kind, Note, Owner, RowKey};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::value::RawValue;

use super::cell::{Key, Namespace};
use super::durable::Durable;
use super::end::{End, Name};
use super::{Flow, there_and_back};
use crate::ledgering;

/// A memo is kept in the ledger up to this size, in bytes of JSON.
const LARGEST_MEMO: usize = 64 * 1024;

impl Flow {
    /// Computes a value once in this flow; every later round gets the same one.
    ///
    /// The price that a person was shown is then the price that is charged. The value that is returned is the one that
    /// later rounds will read: `T` must survive the way through JSON and back, or the call ends. The value travels in the sealed state: it is
    /// safe from change, and with the HMAC codec it is readable by the client.
    ///
    /// **Not guaranteed:** that `compute` runs once. It runs again until a state that holds its value has been sealed, so
    /// it must not have an effect: that is what [`DurableFlow::once`](super::DurableFlow::once) is for. Nothing may be asked, kept or
    /// done once inside `compute`; that ends the call.
    ///
    /// Where the handler says that it may [run again](crate::Tool::run_again) after a crash, a value that is computed in a retry is kept
    /// in the ledger too, up to 64 KiB of JSON, before this returns: whatever the lost run did with it, the next one has the same.
    ///
    /// # Panics
    ///
    /// When it is polled outside the handler that owns the flow.
    pub async fn memo<T, F, Fut>(&self, name: impl Into<Cow<'static, str>>, compute: F) -> T
    where
        T: Serialize + DeserializeOwned,
        F: FnOnce() -> Fut,
        Fut: Future<Output = T>,
    {
        let name: Key = name.into();
        self.cell
            .in_own_polls("memo", &name, self.memoised(&name, compute))
            .await
    }

    async fn memoised<T, F, Fut>(&self, name: &Key, compute: F) -> T
    where
        T: Serialize + DeserializeOwned,
        F: FnOnce() -> Fut,
        Fut: Future<Output = T>,
    {
        if !self.cell.take_key(Namespace::Memo, "memo", name) {
            return pending().await;
        }
        let value = match self.cell.memo(name) {
            Some(kept) => read(name, &kept),
            None => {
                // What is computed is kept before the body may be dropped for a question of another branch.
                let busy = self.cell.busy();
                let value = self.computed(name, compute).await;
                drop(busy);
                value
            }
        };
        match value {
            Ok(value) => value,
            Err(end) => {
                self.cell.end(end);
                pending().await
            }
        }
    }

    async fn computed<T, F, Fut>(&self, name: &Key, compute: F) -> Result<T, End>
    where
        T: Serialize + DeserializeOwned,
        F: FnOnce() -> Fut,
        Fut: Future<Output = T>,
    {
        let memos = self
            .cell
            .durable
            .as_ref()
            .and_then(|durable| durable.memo(name));
        let before = match &memos {
            Some(memos) => memos.before().await?,
            None => None,
        };
        let (raw, value) = match before {
            Some(raw) => {
                let value = read(name, &raw)?;
                (raw, value)
            }
            None => {
                let computed = self.cell.inside(async move { compute().await }).await;
                let (raw, same) = there_and_back(&computed).map_err(|error| unfit(name, error))?;
                let before = match &memos {
                    Some(memos) => memos.keep(&raw).await?,
                    None => None,
                };
                match before {
                    Some(raw) => {
                        let value = read(name, &raw)?;
                        (raw, value)
                    }
                    None => (raw, same),
                }
            }
        };
        self.cell.keep_memo(name, raw);
        Ok(value)
    }
}

fn read<T: DeserializeOwned>(name: &Key, kept: &RawValue) -> Result<T, End> {
    serde_json::from_str(kept.get()).map_err(|error| unfit(name, error))
}

fn unfit(name: &Key, error: serde_json::Error) -> End {
    let name = named(name);
    End::Value { name, error }
}

fn named(name: &str) -> Name {
    Name {
        what: "memo",
        key: name.to_owned(),
    }
}

/// A memo's row in the ledger, in a round that may run again.
struct Memo<'d> {
    durable: &'d Durable,
    name: &'d str,
    round: Owner,
    key: RowKey,
    fingerprint: Fingerprint,
}

impl Durable {
    /// The row of a memo; `None` where the state alone keeps it: on a first call, which nobody can repeat, and where a lost round
    /// stays lost.
    fn memo<'d>(&'d self, name: &'d str) -> Option<Memo<'d>> {
        let round = self.round.filter(|_| self.run_again)?;
        Some(Memo {
            durable: self,
            name,
            round,
            key: RowKey::memo(&self.audience, &self.flow, name, self.flow_exp),
            fingerprint: Fingerprint::memo(&self.secret.0, &self.principal, &self.request, name),
        })
    }
}

impl Memo<'_> {
    /// What an earlier run kept, if one did.
    async fn before(&self) -> Result<Option<Box<RawValue>>, End> {
        let ledger = &self.durable.ledger;
        match ledgering::look_up(ledger, Kind::Note, self.key, self.fingerprint).await {
            Ok(Found::Absent) => Ok(None),
            Ok(Found::Settled(stored)) => self.opened(stored).map(Some),
            // Flow, principal and request are bound to the state, and nobody owns a note. If it is so all the same, nothing is certain.
            Ok(_) => Err(self.unknown()),
            Err(_) => Err(End::LedgerUnavailable),
        }
    }

    /// Keeps a value; if another one stands already, returns that.
    async fn keep(&self, value: &RawValue) -> Result<Option<Box<RawValue>>, End> {
        let bytes = value.get().len();
        if bytes > LARGEST_MEMO {
            let name = named(self.name);
            return Err(End::MemoTooLarge { name, bytes });
        }
        let durable = self.durable;
        let sealed = durable
            .outcomes
            .seal(&self.key, &self.fingerprint, value.get().as_bytes())
            .ok_or(End::LedgerUnavailable)?;
        let (epoch, account) = (durable.epoch, durable.account);
        let note = Note::new(self.key, epoch, self.fingerprint, account, sealed).under(self.round);
        match ledgering::keep(&durable.ledger, note).await {
            Ok(Kept::Stored) => Ok(None),
            // Its own bytes, where a note was written without a word and is written again.
            Ok(Kept::Before(stored)) => self.opened(stored).map(Some),
            Ok(Kept::Expired) => Err(End::FlowExpired),
            Ok(Kept::StaleEpoch) => Err(End::StaleEpoch),
            Ok(Kept::StaleOwner) => Err(End::RoundWithdrawn),
            Ok(Kept::Full) | Err(_) => Err(End::LedgerUnavailable),
            Ok(_) => Err(self.unknown()),
        }
    }

    fn opened(&self, stored: Vec<u8>) -> Result<Box<RawValue>, End> {
        let opened = self
            .durable
            .outcomes
            .open(&self.key, &self.fingerprint, stored);
        opened
            .ok()
            .and_then(|value| serde_json::from_slice(&value).ok())
            .ok_or_else(|| self.unknown())
    }

    fn unknown(&self) -> End {
        let memo = self.name.to_owned();
        End::MemoUnknown { memo }
    }
}
