//! The authorization code flow (OAuth 2.1, section 4.1): PKCE with S256, `state`, `iss` and `resource`.

use url::Url;

use super::agent::Redirection;
use super::error::{AuthError, Refusal, ResponseProblem, What, shown};
use super::fetch::usable;
use super::keys::{DpopKey, hash, random};
use super::token::Wanted;
use crate::metadata::{AuthorizationServerMetadata, is_secure};

/// A code, and what it takes to redeem it.
pub(super) struct Code {
    code: String,
    verifier: String,
    redirect_uri: String,
}

impl Code {
    /// The grant for the token endpoint.
    pub(super) fn into_grant(self, wanted: &Wanted) -> Vec<(&'static str, String)> {
        vec![
            ("grant_type", "authorization_code".to_owned()),
            ("code", self.code),
            ("code_verifier", self.verifier),
            ("redirect_uri", self.redirect_uri),
            ("resource", wanted.resource.clone()),
        ]
    }
}

/// Refuses an authorization server without PKCE, before anybody registers or is sent there.
pub(super) fn require_pkce(metadata: &AuthorizationServerMetadata) -> Result<(), AuthError> {
    let offered = metadata.code_challenge_methods_supported.as_deref();
    match offered
        .unwrap_or_default()
        .iter()
        .any(|method| method == "S256")
    {
        true => Ok(()),
        false => Err(AuthError::NoPkce {
            issuer: shown(&metadata.issuer),
        }),
    }
}

/// Where people may be sent back to: https, or this machine (security considerations, "Communication Security").
pub(super) fn check_redirect_uri(uri: &str) -> Result<(), AuthError> {
    let url = Url::parse(uri).ok();
    match url.is_some_and(|url| is_secure(&url) && url.fragment().is_none()) {
        true => Ok(()),
        false => Err(AuthError::insecure(What::RedirectUri)),
    }
}

/// Sends the person to the authorization server, and takes the code out of what comes back.
pub(super) async fn authorize(
    metadata: &AuthorizationServerMetadata,
    client_id: &str,
    wanted: &Wanted,
    dpop: Option<&DpopKey>,
    redirection: Box<dyn Redirection>,
) -> Result<Code, AuthError> {
    let what = What::AuthorizationEndpoint;
    let endpoint = metadata.authorization_endpoint.as_deref();
    let mut url = usable(what, endpoint.ok_or(AuthError::NoEndpoint(what))?)?;
    let (state, verifier) = (random()?, random()?);
    let redirect_uri = redirection.redirect_uri().to_owned();
    {
        let mut query = url.query_pairs_mut();
        query
            .append_pair("response_type", "code")
            .append_pair("client_id", client_id)
            .append_pair("redirect_uri", &redirect_uri)
            .append_pair("state", &state)
            .append_pair("code_challenge", &hash(&verifier))
            .append_pair("code_challenge_method", "S256");
        for (name, value) in wanted.pairs() {
            query.append_pair(name, &value);
        }
        if let Some(dpop) = dpop {
            query.append_pair("dpop_jkt", dpop.thumbprint());
        }
    }
    let redirect = redirection.visit(url).await.map_err(AuthError::UserAgent)?;
    let expected = Expected {
        state: &state,
        issuer: &metadata.issuer,
        iss_is_promised: metadata.authorization_response_iss_parameter_supported == Some(true),
    };
    let code = expected.code(&redirect)?;
    Ok(Code {
        code,
        verifier,
        redirect_uri,
    })
}

/// What was recorded before the person was sent away.
struct Expected<'a> {
    state: &'a str,
    /// Of the metadata that was checked.
    issuer: &'a str,
    iss_is_promised: bool,
}

impl Expected<'_> {
    /// Nothing else in the redirect counts, its error included, before `state` and `iss` do (RFC 9207, section 2.4).
    fn code(&self, redirect: &str) -> Result<String, AuthError> {
        let url = Url::parse(redirect).map_err(|_| ResponseProblem::Unreadable)?;
        let one = |name: &str| -> Result<Option<String>, ResponseProblem> {
            let mut values = url.query_pairs().filter(|(key, _)| key == name);
            match (values.next(), values.next()) {
                (value, None) => Ok(value.map(|(_, value)| value.into_owned())),
                (_, Some(_)) => Err(ResponseProblem::Unreadable),
            }
        };
        if one("state")?.as_deref() != Some(self.state) {
            return Err(ResponseProblem::State.into());
        }
        match one("iss")? {
            Some(issuer) if issuer == self.issuer => {}
            None if !self.iss_is_promised => {}
            _ => return Err(ResponseProblem::Issuer.into()),
        }
        if let Some(error) = one("error")? {
            let description = one("error_description")?;
            return Err(AuthError::Denied(Refusal::new(
                &error,
                description.as_deref(),
            )));
        }
        let code = one("code")?.filter(|code| !code.is_empty());
        Ok(code.ok_or(ResponseProblem::NoCode)?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn expected(iss_is_promised: bool) -> Expected<'static> {
        Expected {
            state: "S",
            issuer: "https://as.example",
            iss_is_promised,
        }
    }

    fn outcome(promised: bool, query: &str) -> Result<String, AuthError> {
        expected(promised).code(&format!("http://127.0.0.1:1/callback?{query}"))
    }

    fn problem(promised: bool, query: &str) -> ResponseProblem {
        match outcome(promised, query) {
            Err(AuthError::Response(problem)) => problem,
            other => panic!("{query}: {other:?}"),
        }
    }

    #[test]
    fn the_issuer_is_compared_byte_for_byte_whether_it_was_promised_or_not() {
        let right = "iss=https%3A%2F%2Fas.example";
        for promised in [true, false] {
            let code = outcome(promised, &format!("code=C&state=S&{right}"));
            assert_eq!(code.unwrap(), "C");
            for wrong in [
                "https%3A%2F%2Fas.example%2F",
                "https%3A%2F%2FAS.example",
                "https%3A%2F%2Fas.example%3A443",
                "https%3A%2F%2Fevil.example",
                "",
            ] {
                let query = format!("code=C&state=S&iss={wrong}");
                assert_eq!(
                    problem(promised, &query),
                    ResponseProblem::Issuer,
                    "{wrong}"
                );
            }
        }
        assert_eq!(outcome(false, "code=C&state=S").unwrap(), "C");
        assert_eq!(problem(true, "code=C&state=S"), ResponseProblem::Issuer);
    }

    #[test]
    fn nothing_of_an_answer_to_something_else_is_used() {
        for query in [
            "code=C",
            "code=C&state=",
            "code=C&state=s",
            "error=x&state=T",
        ] {
            assert_eq!(problem(false, query), ResponseProblem::State, "{query}");
        }
        for query in [
            "code=C&state=S&state=S",
            "code=C&code=D&state=S",
            "code=C&state=S&iss=a&iss=b",
        ] {
            assert_eq!(
                problem(false, query),
                ResponseProblem::Unreadable,
                "{query}"
            );
        }
        assert_eq!(problem(false, "state=S"), ResponseProblem::NoCode);
        assert_eq!(problem(false, "state=S&code="), ResponseProblem::NoCode);
        let wrong = "error=access_denied&error_description=evil&state=S&iss=https://evil.example";
        assert_eq!(problem(false, wrong), ResponseProblem::Issuer);
        let error = outcome(
            false,
            "error=access_denied&error_description=No%0A.&state=S",
        );
        let error = error.unwrap_err().to_string();
        assert_eq!(
            error,
            "the authorization server refused: access_denied (No.)"
        );
    }

    #[test]
    fn people_come_back_over_https_or_to_this_machine() {
        for uri in [
            "https://app.example/cb",
            "http://127.0.0.1:1/cb",
            "http://localhost/cb",
        ] {
            assert!(check_redirect_uri(uri).is_ok(), "{uri}");
        }
        for uri in [
            "http://app.example/cb",
            "https://app.example/cb#f",
            "app:/cb",
            "x",
        ] {
            assert!(check_redirect_uri(uri).is_err(), "{uri}");
        }
    }
}
