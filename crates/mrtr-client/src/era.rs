//! Which era a server speaks, and how that is found out (*Versioning and Compatibility*).

use std::fmt;

use mrtr_protocol::earlier::EarlierRevision;
use mrtr_protocol::{KnownError, REVISION, code, method};

use crate::error::{RequestError, RpcError};
use crate::outgoing::Outgoing;

/// Which eras a client speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum EraChoice {
    /// Both, the modern one first; what a server speaks is found out and remembered.
    ///
    /// Over HTTP the first request is sent as a modern one. A 400, 404, 405, 406, 415 or 422 whose body is no error of the modern era
    /// means that nothing was done with it, and it is sent again in a session that `initialize` opens. Over stdio `server/discover` is
    /// sent first; any answer that is neither a result nor an error of the modern era, and silence, lead to `initialize`.
    #[default]
    Auto,
    /// Revision 2026-07-28 alone. `initialize` is never sent.
    Modern,
    /// Revisions 2025-11-25, 2025-06-18 and 2025-03-26, in a session, and nothing else.
    Earlier,
}

/// The era that a server speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Era {
    /// Revision 2026-07-28: no session, and a call that needs answers is repeated with them.
    Modern,
    /// A session of this revision, in which the server sends requests.
    Earlier(EarlierRevision),
}

/// The revision, as the wire spells it.
impl fmt::Display for Era {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Modern => REVISION,
            Self::Earlier(revision) => revision.as_str(),
        })
    }
}

/// What a failed modern request says about its server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// It speaks the modern era; the error is about the request.
    Modern,
    /// It speaks the revision that it was asked in after all: send the request once more.
    Again,
    /// It may speak the earlier era, up to this revision.
    Earlier(EarlierRevision),
    /// Nothing.
    Unknown,
}

impl Verdict {
    /// What the answer to a modern request over HTTP says. `known`: the server has spoken the modern era before.
    pub(crate) fn over_http(error: &RequestError, outgoing: &Outgoing<'_>, known: bool) -> Self {
        let verdict = match error {
            RequestError::Rpc(error) => Self::of_rpc(error, outgoing, known),
            RequestError::Http { status } if may_mean_earlier(status.as_u16()) => {
                Self::Earlier(EarlierRevision::LATEST)
            }
            _ => Self::Unknown,
        };
        match verdict {
            // A state that no server of another era made.
            Self::Earlier(_) if outgoing.is_retry() => Self::Unknown,
            other => other,
        }
    }

    fn of_rpc(error: &RpcError, outgoing: &Outgoing<'_>, known: bool) -> Self {
        if let Some(verdict) = Self::of_modern_error(error) {
            return verdict;
        }
        let earlier = Self::Earlier(EarlierRevision::LATEST);
        let status = error.status.as_u16();
        match error.error.code {
            // Every modern server has `server/discover`, and says 404 to a method that it does not have.
            code::METHOD_NOT_FOUND if outgoing.method == method::DISCOVER && !known => earlier,
            code::METHOD_NOT_FOUND if status == 404 => Self::Modern,
            _ if !may_mean_earlier(status) => Self::Unknown,
            // An application's own error from a server that is known. The codes of the earlier era's transport are no application's.
            -32_019..=-32_000 => earlier,
            _ if known => Self::Unknown,
            _ => earlier,
        }
    }

    /// What a recognised error of the modern era says; `None` when it is none.
    pub(crate) fn of_modern_error(error: &RpcError) -> Option<Self> {
        match error.error.code {
            code::HEADER_MISMATCH | code::MISSING_CLIENT_CAPABILITY => Some(Self::Modern),
            code::UNSUPPORTED_PROTOCOL_VERSION => Some(match error.known() {
                Some(KnownError::UnsupportedVersion(data)) => mutual(&data.supported),
                _ => Self::Modern,
            }),
            _ => None,
        }
    }
}

/// The version to go on with, of those that a server supports: the modern one if it can be.
fn mutual(supported: &[String]) -> Verdict {
    if supported.iter().any(|version| version == REVISION) {
        return Verdict::Again;
    }
    latest(supported).map_or(Verdict::Modern, Verdict::Earlier)
}

/// The latest revision of the earlier era among these.
pub(crate) fn latest(versions: &[String]) -> Option<EarlierRevision> {
    versions
        .iter()
        .filter_map(|version| EarlierRevision::from_word(version))
        .max()
}

/// The statuses of servers that do not know what they were sent. 401, 403 and 429 are about the caller, and 5xx about the moment.
fn may_mean_earlier(status: u16) -> bool {
    matches!(status, 400 | 404 | 405 | 406 | 415 | 422)
}

#[cfg(test)]
mod tests {
    use http::StatusCode;
    use mrtr_protocol::ErrorObject;

    use super::*;

    fn rpc(status: u16, error: ErrorObject) -> RequestError {
        RequestError::Rpc(RpcError {
            status: StatusCode::from_u16(status).unwrap(),
            error,
        })
    }

    fn http(status: u16) -> RequestError {
        RequestError::Http {
            status: StatusCode::from_u16(status).unwrap(),
        }
    }

    fn code(status: u16, code: i64) -> RequestError {
        rpc(status, ErrorObject::new(code, "x"))
    }

    fn unsupported(supported: &[&str]) -> RequestError {
        let supported = supported.iter().copied();
        rpc(400, ErrorObject::unsupported_version(REVISION, supported))
    }

    const EARLIER: Verdict = Verdict::Earlier(EarlierRevision::LATEST);

    #[test]
    fn case_225_no_single_code_decides() {
        let outgoing = Outgoing::new(method::TOOLS_CALL);
        let discover = Outgoing::new(method::DISCOVER);
        let v06 = Verdict::Earlier(EarlierRevision::V2025_06_18);
        for (error, unknown, known) in [
            (http(400), EARLIER, EARLIER),
            (http(404), EARLIER, EARLIER),
            (http(405), EARLIER, EARLIER),
            (http(415), EARLIER, EARLIER),
            (code(400, -32000), EARLIER, EARLIER),
            (code(400, -32001), EARLIER, EARLIER),
            (code(400, -32600), EARLIER, Verdict::Unknown),
            (code(400, -32602), EARLIER, Verdict::Unknown),
            (code(400, -32601), EARLIER, Verdict::Unknown),
            (code(404, -32601), Verdict::Modern, Verdict::Modern),
            (code(404, -32001), EARLIER, EARLIER),
            (code(200, -32601), Verdict::Unknown, Verdict::Unknown),
            (code(200, -32602), Verdict::Unknown, Verdict::Unknown),
            (code(400, -32020), Verdict::Modern, Verdict::Modern),
            (code(400, -32021), Verdict::Modern, Verdict::Modern),
            (code(200, -32021), Verdict::Modern, Verdict::Modern),
            (code(400, -32022), Verdict::Modern, Verdict::Modern),
            (unsupported(&[REVISION]), Verdict::Again, Verdict::Again),
            (
                unsupported(&["2025-11-25", REVISION]),
                Verdict::Again,
                Verdict::Again,
            ),
            (unsupported(&["2025-03-26", "2025-06-18", "x"]), v06, v06),
            (
                unsupported(&["2027-01-01"]),
                Verdict::Modern,
                Verdict::Modern,
            ),
            (http(401), Verdict::Unknown, Verdict::Unknown),
            (http(403), Verdict::Unknown, Verdict::Unknown),
            (http(429), Verdict::Unknown, Verdict::Unknown),
            (http(500), Verdict::Unknown, Verdict::Unknown),
            (http(503), Verdict::Unknown, Verdict::Unknown),
            (code(401, -32001), Verdict::Unknown, Verdict::Unknown),
            (http(301), Verdict::Unknown, Verdict::Unknown),
            (RequestError::NoResponse, Verdict::Unknown, Verdict::Unknown),
        ] {
            assert_eq!(
                Verdict::over_http(&error, &outgoing, false),
                unknown,
                "{error}"
            );
            assert_eq!(
                Verdict::over_http(&error, &outgoing, true),
                known,
                "{error}"
            );
        }
        for status in [200, 400, 404] {
            let error = code(status, -32601);
            assert_eq!(Verdict::over_http(&error, &discover, false), EARLIER);
        }
    }

    #[test]
    fn an_answer_to_a_round_is_never_taken_to_the_other_era() {
        let retry = Outgoing::new(method::TOOLS_CALL)
            .with_round("requestState", Some("S"))
            .unwrap();
        for error in [code(400, -32602), code(400, -32000), http(400), http(404)] {
            let verdict = Verdict::over_http(&error, &retry, false);
            assert_eq!(verdict, Verdict::Unknown, "{error}");
        }
        assert_eq!(
            Verdict::over_http(&unsupported(&[REVISION]), &retry, false),
            Verdict::Again
        );
    }
}
