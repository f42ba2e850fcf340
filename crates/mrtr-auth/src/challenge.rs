//! `WWW-Authenticate: Bearer`: what a server says when a token is missing or does not do (RFC 6750 section 3, RFC 9728
//! section 5.1), in the grammar of RFC 9110 section 11.6.1.
//!
//! Specification: `basic/authorization`, "Scope Challenge Handling".

use std::fmt::Write as _;

use http::HeaderValue;

/// Longest header value that is read, in bytes; longer ones hold no challenge.
const LONGEST: usize = 16 * 1024;

/// A `Bearer` challenge. One that was read is the server's word and nothing more: a URL in it is checked before it is fetched,
/// a text before it is shown.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct BearerChallenge {
    /// Where the protected resource metadata is (RFC 9728).
    pub resource_metadata: Option<String>,
    /// The scopes that this request needs, separated by spaces.
    pub scope: Option<String>,
    /// `invalid_request`, `invalid_token` or `insufficient_scope`.
    pub error: Option<String>,
    /// For a developer to read.
    pub error_description: Option<String>,
}

impl BearerChallenge {
    /// A challenge that says nothing but `Bearer`.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Where the protected resource metadata is.
    #[must_use]
    pub fn resource_metadata(mut self, url: impl Into<String>) -> Self {
        self.resource_metadata = Some(url.into());
        self
    }

    /// The scopes that this request needs, separated by spaces.
    #[must_use]
    pub fn scope(mut self, scope: impl Into<String>) -> Self {
        self.scope = Some(scope.into());
        self
    }

    /// What is wrong with the token: one of the codes of RFC 6750 section 3.1.
    #[must_use]
    pub fn error(mut self, code: impl Into<String>) -> Self {
        self.error = Some(code.into());
        self
    }

    /// The same in words, for a developer.
    #[must_use]
    pub fn error_description(mut self, description: impl Into<String>) -> Self {
        self.error_description = Some(description.into());
        self
    }

    /// The scopes one by one, each as it is spelt; none where none are named.
    pub fn scopes(&self) -> impl Iterator<Item = &str> {
        let scope = self.scope.as_deref().unwrap_or_default();
        scope.split(' ').filter(|scope| !scope.is_empty())
    }

    /// The value of `WWW-Authenticate`. `None`: something in it is not printable ASCII, which no header carries reliably.
    #[must_use]
    pub fn to_header(&self) -> Option<HeaderValue> {
        let mut value = String::from("Bearer");
        let parts = [
            ("error", &self.error),
            ("error_description", &self.error_description),
            ("scope", &self.scope),
            ("resource_metadata", &self.resource_metadata),
        ];
        let said = parts
            .iter()
            .filter_map(|(name, part)| Some((name, part.as_deref()?)));
        for (index, (name, part)) in said.enumerate() {
            if !part.bytes().all(|byte| (0x20..0x7f).contains(&byte)) {
                return None;
            }
            let comma = if index == 0 { "" } else { "," };
            let escaped = part.replace('\\', "\\\\").replace('"', "\\\"");
            write!(value, "{comma} {name}=\"{escaped}\"").ok()?;
        }
        HeaderValue::try_from(value).ok()
    }

    /// The first `Bearer` challenge in the values of a response's `WWW-Authenticate` headers, whatever other schemes stand
    /// beside it. Of a parameter that is named twice the first counts.
    ///
    /// `None`: there is none, or the header that would hold it does not follow the grammar. A challenge that cannot be read
    /// is not guessed at; a client then looks in the well-known places.
    #[must_use]
    pub fn find<'a>(values: impl IntoIterator<Item = &'a HeaderValue>) -> Option<Self> {
        values
            .into_iter()
            .filter(|value| value.len() <= LONGEST)
            .filter_map(|value| challenges(value.to_str().ok()?))
            .flatten()
            .find(|(scheme, _)| scheme.eq_ignore_ascii_case("bearer"))
            .map(|(_, parameters)| Self::of(parameters))
    }

    fn of(parameters: Vec<(&str, String)>) -> Self {
        let mut challenge = Self::new();
        for (name, value) in parameters {
            let place = match name.to_ascii_lowercase().as_str() {
                "resource_metadata" => &mut challenge.resource_metadata,
                "scope" => &mut challenge.scope,
                "error" => &mut challenge.error,
                "error_description" => &mut challenge.error_description,
                _ => continue,
            };
            place.get_or_insert(value);
        }
        challenge
    }
}

/// A scheme and its parameters.
type Challenge<'v> = (&'v str, Vec<(&'v str, String)>);

/// Every challenge of one header value. A comma separates challenges and parameters alike, so what follows one is looked at:
/// `name =` is a parameter, anything else opens a challenge.
fn challenges(value: &str) -> Option<Vec<Challenge<'_>>> {
    let mut found: Vec<Challenge<'_>> = Vec::new();
    let mut rest = skip_empty(value);
    while !rest.is_empty() {
        let (word, after) = token(rest)?;
        rest = match parameter(word, after) {
            Some((parameter, after)) => {
                found.last_mut()?.1.push(parameter);
                after
            }
            None => {
                found.push((word, Vec::new()));
                first_of(found.last_mut()?, after)?
            }
        };
        rest = spaces(rest);
        if !rest.is_empty() && !rest.starts_with(',') {
            return None;
        }
        rest = skip_empty(rest);
    }
    Some(found)
}

/// What stands after a scheme: nothing, one token68 (which is dropped), or the first parameter.
fn first_of<'v>(challenge: &mut Challenge<'v>, after: &'v str) -> Option<&'v str> {
    let next = spaces(after);
    if next.is_empty() || next.starts_with(',') {
        return Some(next);
    }
    if next.len() == after.len() {
        return None;
    }
    if let Some((name, rest)) = token(next)
        && let Some((parameter, rest)) = parameter(name, rest)
    {
        challenge.1.push(parameter);
        return Some(rest);
    }
    let is_token68 = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~+/=".contains(&byte);
    let end = next
        .bytes()
        .position(|byte| !is_token68(byte))
        .unwrap_or(next.len());
    (end > 0).then(|| next.get(end..)).flatten()
}

/// `= value` after a name, where it is one.
fn parameter<'v>(name: &'v str, after: &'v str) -> Option<((&'v str, String), &'v str)> {
    let rest = spaces(spaces(after).strip_prefix('=')?);
    if let Some(quoted) = rest.strip_prefix('"') {
        let (value, rest) = unquoted(quoted)?;
        return Some(((name, value), rest));
    }
    let (value, rest) = token(rest)?;
    Some(((name, value.to_owned()), rest))
}

/// The rest of a quoted string up to its closing quote.
fn unquoted(text: &str) -> Option<(String, &str)> {
    let mut value = String::new();
    let mut letters = text.char_indices();
    while let Some((at, letter)) = letters.next() {
        match letter {
            '"' => return Some((value, text.get(at + 1..)?)),
            '\\' => value.push(letters.next()?.1),
            letter => value.push(letter),
        }
    }
    None
}

fn token(text: &str) -> Option<(&str, &str)> {
    let is_token = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
    let end = text
        .bytes()
        .position(|byte| !is_token(byte))
        .unwrap_or(text.len());
    (end > 0).then(|| text.split_at_checked(end)).flatten()
}

fn spaces(text: &str) -> &str {
    text.trim_start_matches([' ', '\t'])
}

fn skip_empty(text: &str) -> &str {
    text.trim_start_matches([' ', '\t', ','])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(values: &[&str]) -> Option<BearerChallenge> {
        let values: Vec<HeaderValue> = values.iter().map(|value| value.parse().unwrap()).collect();
        BearerChallenge::find(&values)
    }

    #[test]
    fn what_is_written_is_read_back() {
        let challenge = BearerChallenge::new()
            .error("insufficient_scope")
            .error_description(r#"a "quoted" word, and a \"#)
            .scope("files:read files:write")
            .resource_metadata("https://mcp.example/.well-known/oauth-protected-resource");
        let header = challenge.to_header().unwrap();
        assert_eq!(BearerChallenge::find([&header]), Some(challenge.clone()));
        assert!(challenge.scopes().eq(["files:read", "files:write"]));
        assert_eq!(BearerChallenge::new().to_header().unwrap(), "Bearer");
        assert_eq!(BearerChallenge::new().scope("a\nb").to_header(), None);
    }

    #[test]
    fn other_schemes_stand_beside_it() {
        let expected = Some(BearerChallenge::new().scope("a b").error("invalid_token"));
        for values in [
            &[r#"Bearer scope="a b", error="invalid_token""#] as &[&str],
            &[r#"bearer SCOPE = "a b" ,error=invalid_token"#],
            &[r#"Basic realm="x, Bearer scope=c", Bearer scope="a b", error=invalid_token"#],
            &[r#"Negotiate abc/+==, Bearer scope="a b", error=invalid_token, DPoP algs="ES256""#],
            &[r#"Negotiate, , Bearer  scope="a b",, error=invalid_token"#],
            &[
                "Basic realm=x",
                r#"Bearer scope="a b", error=invalid_token, scope="c""#,
            ],
            &[r#"Bearer realm="\"", scope="\a b", error=invalid_token"#],
        ] {
            assert_eq!(found(values), expected, "{values:?}");
        }
    }

    #[test]
    fn what_does_not_follow_the_grammar_is_no_challenge() {
        for value in [
            "",
            "Basic realm=x",
            r#"Bearer scope="a"#,
            r#"Bearer scope="a" error="b""#,
            r#"scope="a", Bearer"#,
            r#"Bearer scope="a\"#,
            "Bearer=x",
            r#"Bearer"x""#,
        ] {
            assert_eq!(found(&[value]), None, "{value}");
        }
        assert_eq!(found(&["Bearer"]), Some(BearerChallenge::new()));
        assert_eq!(found(&["Bearer abc=="]), Some(BearerChallenge::new()));
    }
}
