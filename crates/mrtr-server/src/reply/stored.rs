//! What the ledger keeps of a reply, and what a repeated retry gets of it.
//!
//! ```text
//! r  the result         s  an error's HTTP status     a  its words are the handler's own
//! e  the error          x  only that the call ended: {"f": it failed, "l": it was too large to keep}
//! ```
//!
//! Never the id or the envelope: those are the repetition's own.

use http::StatusCode;
use mrtr_protocol::{
    CallToolResult, ErrorObject, Implementation, InputRequests, KindSet, RawObject, ResultMeta,
    code, meta,
};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::{Answer, Reply, capability_in_words, with_meta};
use crate::registered::{Registered, Surface};
use crate::repeat::Repeat;

#[derive(Serialize, Deserialize)]
struct Stored {
    #[serde(rename = "r", default, skip_serializing_if = "Option::is_none")]
    result: Option<Box<RawValue>>,
    #[serde(rename = "e", default, skip_serializing_if = "Option::is_none")]
    error: Option<ErrorObject>,
    #[serde(rename = "s", default, skip_serializing_if = "Option::is_none")]
    status: Option<u16>,
    #[serde(rename = "a", default, skip_serializing_if = "std::ops::Not::not")]
    authored: bool,
    #[serde(rename = "x", default, skip_serializing_if = "Option::is_none")]
    ended: Option<Ended>,
}

/// That a call ended, and nothing of what it answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Ended {
    #[serde(rename = "f")]
    failed: bool,
    #[serde(rename = "l")]
    too_large: bool,
}

/// What a repeated retry gets.
#[derive(Debug)]
pub(crate) enum Repeated {
    Reply(Reply),
    /// `already_used`: the tool does not repeat what it answered, or nothing here could say that it ended.
    AlreadyUsed,
}

impl Reply {
    /// 1001 to 1003 say that nothing is known yet; they are never kept, and neither is that a run was cut off which may run again.
    fn is_final(&self) -> bool {
        self.kind != Answer::CutOff
            && !matches!(&self.outcome, Err(error)
            if [code::IN_PROGRESS, code::OUTCOME_UNKNOWN, code::LEDGER_UNAVAILABLE].contains(&error.code))
    }

    /// What the ledger keeps of this reply; `None` when it must not be kept.
    ///
    /// What the framework says in the handler's place (a question, that the call was cancelled and which steps it had taken)
    /// is kept whatever the handler chose: none of it is the handler's own.
    pub(crate) fn to_stored(&self, handler: &Registered, largest: usize) -> Option<Vec<u8>> {
        if !self.is_final() {
            return None;
        }
        let size = match &self.outcome {
            Ok(_) if self.kind == Answer::Asking => 0,
            Ok(result) => result.get().len(),
            Err(error) => error.message.len(),
        };
        let chosen = self.authored && handler.repeat != Repeat::Result;
        let ended = (chosen || size > largest).then_some(Ended {
            failed: self.outcome.is_err() || self.kind == Answer::Failed,
            too_large: !chosen,
        });
        let (result, error) = match &self.outcome {
            _ if ended.is_some() => (None, None),
            Ok(result) => (Some(result.clone()), None),
            Err(error) => (None, Some(error.clone())),
        };
        let stored = Stored {
            status: error.is_some().then_some(self.status.as_u16()),
            result,
            error,
            authored: self.authored,
            ended,
        };
        serde_json::to_vec(&stored).ok()
    }

    /// The reply that was kept, flagged as replayed. `None` when it cannot be read.
    ///
    /// What the handler chooses **now** holds too, for what was kept before it chose so. A kept question is checked against
    /// what *this* request's client declared. Everything but the flag is returned as it was kept, to the byte.
    pub(crate) fn from_stored(
        stored: &[u8],
        declared: KindSet,
        handler: &Registered,
        info: &Implementation,
    ) -> Option<Repeated> {
        let stored: Stored = serde_json::from_slice(stored).ok()?;
        if let Some(ended) = stored.ended {
            return Some(ended.repeated(handler, info));
        }
        if let Some(error) = stored.error {
            let status = stored
                .status
                .and_then(|status| StatusCode::from_u16(status).ok())?;
            if stored.authored && handler.repeat != Repeat::Result {
                return Some(Repeated::AlreadyUsed);
            }
            return Some(Repeated::Reply(Self::error(status, error)));
        }
        let result = stored.result?;
        let members: RawObject = serde_json::from_str(result.get()).ok()?;
        let failed = members.get_as::<bool>("isError") == Some(true);
        if stored.authored && handler.repeat != Repeat::Result {
            let too_large = false;
            return Some(Ended { failed, too_large }.repeated(handler, info));
        }
        let asks = members
            .get_as::<String>("resultType")
            .is_some_and(|kind| kind == "input_required");
        if asks {
            let requests: InputRequests = members.get_as("inputRequests").unwrap_or_default();
            let missing = requests.kinds().ok()?.minus(declared);
            if let Some(kind) = missing.iter().next() {
                let message = format!(
                    "The questions of this retry need a client that declares {}. Declare it and repeat the same retry.",
                    capability_in_words(kind)
                );
                return Some(Repeated::Reply(Self::missing(kind, message)));
            }
        }
        let flagged = with_meta(&result, |meta| meta.insert(meta::REPLAYED, &true))?;
        Some(Repeated::Reply(Self {
            status: StatusCode::OK,
            outcome: Ok(flagged),
            kind: match (asks, failed) {
                (true, _) => Answer::Asking,
                (false, true) => Answer::Failed,
                (false, false) => Answer::Final,
            },
            authored: stored.authored,
        }))
    }
}

impl Ended {
    /// That the call has ended, in the form that its handler's results have.
    fn repeated(self, handler: &Registered, info: &Implementation) -> Repeated {
        if handler.repeat == Repeat::Reject {
            return Repeated::AlreadyUsed;
        }
        match handler.surface {
            Surface::Tool => Repeated::Reply(self.receipt(handler, info)),
            // A prompt's messages and a resource's contents are taken for what they are, so a receipt must not be among them.
            Surface::Prompt | Surface::Resource if self.too_large => {
                Repeated::Reply(Reply::internal(self.in_words()))
            }
            Surface::Prompt | Surface::Resource => Repeated::AlreadyUsed,
        }
    }

    fn receipt(self, handler: &Registered, info: &Implementation) -> Reply {
        let mut receipt = CallToolResult::text(self.in_words());
        // Clients hold every result that is no error against the published schema, and a receipt has nothing to show for it.
        receipt.is_error = self.failed || handler.output.is_some();
        receipt.meta = ResultMeta::default().with_server_info(info);
        if let Err(error) = receipt.meta.0.insert(meta::REPLAYED, &true) {
            tracing::error!(%error, "a receipt cannot be flagged");
        }
        Reply::result(&receipt)
    }

    fn in_words(self) -> &'static str {
        match (self.too_large, self.failed) {
            (true, _) => {
                "This call has ended, and its result is too large to repeat. Do not start it again for the result alone."
            }
            (false, false) => {
                "Already done: this call was carried out before, and its result was given then. It is not repeated; do not start the call again for the result alone."
            }
            (false, true) => {
                "This call has ended before, and it failed. What it said was given then and is not repeated. Check what it has done before you start it again."
            }
        }
    }
}
