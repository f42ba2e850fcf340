//! The token of a request: out of `Authorization`, and out of nothing else (specification, `basic/authorization`, "Token
//! Requirements").

use http::header::AUTHORIZATION;
use http::request::Parts;
use mrtr_server::AuthError;

use super::ProtectedResource;

/// Longest token that is looked at, in bytes.
const LONGEST: usize = 16 * 1024;

/// The request's one bearer token.
pub(super) fn token<'h>(
    head: &'h Parts,
    resource: &ProtectedResource,
) -> Result<&'h str, AuthError> {
    let mut headers = head.headers.get_all(AUTHORIZATION).iter();
    let value = match (headers.next(), headers.next()) {
        (Some(value), None) => value,
        (None, _) => return Err(resource.unauthenticated()),
        (Some(_), Some(_)) => return Err(resource.invalid("more than one `Authorization`")),
    };
    let value = value.to_str().unwrap_or_default();
    let token = match value.split_once(' ') {
        Some((scheme, token)) if scheme.eq_ignore_ascii_case("bearer") => {
            token.trim_start_matches(' ')
        }
        _ => return Err(resource.unauthenticated()),
    };
    let is_token68 = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~+/=".contains(&byte);
    match !token.is_empty() && token.len() <= LONGEST && token.bytes().all(is_token68) {
        true => Ok(token),
        false => Err(resource.invalid("the token is malformed")),
    }
}
