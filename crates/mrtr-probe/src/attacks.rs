//! The attacks, in the order in which they are played.

mod answers;
mod binding;
mod body;
mod boundary;
mod era;
mod leaks;
mod replay;
mod seal;

use std::future::Future;
use std::pin::Pin;

use crate::subject::{Stop, Subject};
use crate::trial::Finding;

type Playing<'a> = Pin<Box<dyn Future<Output = Result<Finding, Stop>> + Send + 'a>>;

/// A row.
pub(crate) struct Attack {
    pub(crate) id: &'static str,
    pub(crate) title: &'static str,
    pub(crate) rule: &'static str,
    pub(crate) needs: Needs,
    pub(crate) play: for<'a> fn(&'a Subject<'a>) -> Playing<'a>,
}

/// What a server must have for an attack to mean anything.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Needs {
    Nothing,
    /// A state beside its question.
    State,
}

macro_rules! attack {
    ($needs:ident, $id:literal, $title:literal, $rule:expr, $play:path) => {
        Attack {
            id: $id,
            title: $title,
            rule: $rule,
            needs: Needs::$needs,
            play: |subject| Box::pin($play(subject)),
        }
    };
}

const SEALED: &str =
    "basic/patterns/mrtr, Server Requirements 4: state that fails verification is rejected";
const BOUND: &str = "basic/patterns/mrtr, Server Requirements 5: state is bound to principal, lifetime and originating request";
const ONCE: &str =
    "basic/patterns/mrtr, Server Requirements 5: what may be redeemed once is kept by the server";
const ANSWERED: &str =
    "basic/patterns/mrtr, Error Handling: answers are validated, and unneeded ones ignored";
const ELICITED: &str =
    "client/elicitation: content is validated on arrival; declined and dismissed is not accepted";
const DESCRIBED: &str = "basic/transports/streamable-http, Server Validation: headers and body agree, or -32020 and HTTP 400";
const REBINDING: &str = "basic/transports/streamable-http, Security 1: Origin is validated, or HTTP 403; against DNS rebinding";
const ONE_SPELLING: &str = "POLICY: one state, one text (RFC 4648, section 3.5): a list of used states that goes by text is passed otherwise";
const ONE_READING: &str = "POLICY: what two readers may take for two things is refused (RFC 8259, section 4; RFC 9110, section 5.3)";
const BOUNDED: &str = "POLICY: what a stranger sends has a bound before it costs anything";

pub(crate) const ATTACKS: &[Attack] = &[
    attack!(
        State,
        "changed-character",
        "one character of the state changed, at every position",
        SEALED,
        seal::changed
    ),
    attack!(
        State,
        "other-spelling",
        "other spellings of the same state",
        ONE_SPELLING,
        seal::spelled
    ),
    attack!(
        State,
        "truncated",
        "a part of the state",
        SEALED,
        seal::truncated
    ),
    attack!(
        State,
        "extended",
        "more than the state",
        SEALED,
        seal::extended
    ),
    attack!(
        State,
        "spliced",
        "parts of two states",
        SEALED,
        seal::spliced
    ),
    attack!(
        State,
        "forged-journal",
        "what the state holds, edited or unsigned",
        SEALED,
        seal::forged
    ),
    attack!(
        State,
        "made-up",
        "states that nobody issued",
        SEALED,
        seal::made_up
    ),
    attack!(
        State,
        "oversized-state",
        "a state of 1 MiB",
        SEALED,
        seal::oversized
    ),
    attack!(
        State,
        "no-string",
        "a state that is no string",
        SEALED,
        seal::no_string
    ),
    attack!(
        State,
        "other-arguments",
        "the state with other arguments",
        BOUND,
        binding::arguments
    ),
    attack!(
        State,
        "other-tool",
        "the state on another tool",
        BOUND,
        binding::tool
    ),
    attack!(
        State,
        "other-method",
        "the state on a prompt",
        BOUND,
        binding::prompt
    ),
    attack!(
        State,
        "other-principal",
        "somebody else's state",
        BOUND,
        binding::principal
    ),
    attack!(
        Nothing,
        "no-credentials",
        "the retry without credentials, or with wrong ones",
        BOUND,
        binding::stranger
    ),
    attack!(
        State,
        "expired",
        "the state after its lifetime",
        BOUND,
        binding::expired
    ),
    attack!(
        State,
        "expired-replay",
        "a used state after its lifetime",
        ONCE,
        binding::expired_replay
    ),
    attack!(
        Nothing,
        "no-state",
        "answers without a state",
        ANSWERED,
        answers::without_state
    ),
    attack!(
        State,
        "other-key",
        "answers under other keys",
        ANSWERED,
        answers::other_keys
    ),
    attack!(
        State,
        "other-kind",
        "answers of another kind",
        ANSWERED,
        answers::other_kind
    ),
    attack!(
        State,
        "wrong-type",
        "accepted content that is not what the form asks for",
        ELICITED,
        answers::wrong_types
    ),
    attack!(
        State,
        "no-answer",
        "answers that are none",
        ANSWERED,
        answers::malformed
    ),
    attack!(
        State,
        "refusal",
        "declined and dismissed, with content",
        ELICITED,
        answers::refused
    ),
    attack!(
        State,
        "misspelt",
        "state and answers under misspelt names",
        ANSWERED,
        answers::misspelt
    ),
    attack!(
        State,
        "elsewhere",
        "state and answers on requests that ask nothing",
        "basic/patterns/mrtr, Supported Requests",
        answers::elsewhere
    ),
    attack!(State, "replay", "the same retry again", ONCE, replay::again),
    attack!(
        State,
        "lost-response",
        "the same retry after its response was lost",
        ONCE,
        replay::lost
    ),
    attack!(
        State,
        "fork",
        "the same state with another answer",
        ONCE,
        replay::fork
    ),
    attack!(
        State,
        "decline-then-accept",
        "declined, then accepted",
        ONCE,
        replay::decline
    ),
    attack!(
        State,
        "cancel-then-accept",
        "dismissed, then accepted",
        ONCE,
        replay::cancel
    ),
    attack!(
        State,
        "concurrent-replay",
        "the same retry many times at once",
        ONCE,
        replay::concurrent
    ),
    attack!(
        State,
        "used-by-other",
        "a used state, by somebody else",
        BOUND,
        replay::by_another
    ),
    attack!(
        State,
        "used-other-arguments",
        "a used state, with other arguments",
        BOUND,
        replay::with_other_arguments
    ),
    attack!(
        State,
        "spent-by-refusal",
        "refused attempts do not spend the owner's state",
        "POLICY: whoever sees a state must not be able to destroy it",
        replay::spent
    ),
    attack!(
        Nothing,
        "undeclared",
        "a client that declared nothing, or other kinds, is not asked",
        "basic/patterns/mrtr, Server Requirements 7: -32021 and HTTP 400",
        era::undeclared
    ),
    attack!(
        Nothing,
        "earlier-era",
        "state and answers in the earlier era's dress",
        ANSWERED,
        era::earlier
    ),
    attack!(
        Nothing,
        "header-mismatch",
        "headers that say something else than the body",
        DESCRIBED,
        boundary::mismatch
    ),
    attack!(
        Nothing,
        "header-missing",
        "required headers left out",
        DESCRIBED,
        boundary::missing
    ),
    attack!(
        Nothing,
        "header-twice",
        "headers twice, with two values",
        ONE_READING,
        boundary::twice
    ),
    attack!(
        Nothing,
        "foreign-origin",
        "requests of foreign pages",
        REBINDING,
        boundary::origin
    ),
    attack!(
        Nothing,
        "foreign-host",
        "requests to a foreign host name",
        REBINDING,
        boundary::host
    ),
    attack!(
        Nothing,
        "media-type",
        "other media types than JSON",
        "POLICY: a plain form of a foreign page cannot send JSON (RFC 9110, section 8.3)",
        boundary::media_type
    ),
    attack!(
        Nothing,
        "two-lengths",
        "two lengths of one body",
        "RFC 9112, section 6.3: differing Content-Length values are an error",
        boundary::lengths
    ),
    attack!(
        Nothing,
        "member-twice",
        "JSON members twice, with two values",
        ONE_READING,
        body::twice
    ),
    attack!(
        Nothing,
        "broken-body",
        "bodies that are no JSON, or more than one",
        "basic/index, Messages: -32700",
        body::broken
    ),
    attack!(
        State,
        "batch",
        "requests in an array",
        "basic/transports/streamable-http, Sending Messages 4: one request a POST",
        body::batch
    ),
    attack!(
        State,
        "notification",
        "the retry without an id",
        "basic/index, Requests: a request has an id and never null",
        body::notification
    ),
    attack!(
        Nothing,
        "oversized-body",
        "a body of 16 MiB",
        BOUNDED,
        body::oversized
    ),
    attack!(
        Nothing,
        "deep-body",
        "a body nested 100 000 deep",
        BOUNDED,
        body::deep
    ),
    attack!(
        State,
        "credentials-in-state",
        "the state does not hold the caller's bearer token",
        "POLICY: a state is stored and logged by clients",
        leaks::credentials
    ),
    attack!(
        Nothing,
        "leaks",
        "errors tell nothing of the inside, and no reply repeats a bearer token",
        "basic/index, Error Responses; POLICY: what an error tells, an attacker reads",
        leaks::told
    ),
    attack!(
        Nothing,
        "internal-errors",
        "nothing of all this broke the server",
        "basic/patterns/mrtr, Error Handling: a protocol error has a code that fits",
        leaks::internal
    ),
    attack!(
        Nothing,
        "survives",
        "the honest call works afterwards",
        BOUNDED,
        leaks::survives
    ),
];
