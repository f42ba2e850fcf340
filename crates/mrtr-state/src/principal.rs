//! On whose behalf a request comes.

use std::fmt;

use crate::token::put_length_prefixed;

/// On whose behalf a request comes: a user as the authenticator named them, or nobody in
/// particular.
///
/// Compared exactly, byte by byte: no case folding, no Unicode normalisation, no default for a
/// missing part. A principal is who somebody is, not the bearer token that showed it: a token
/// refreshed between two rounds names the same principal.
///
/// It must come from something that was verified. A client's own word (`clientInfo`, a `_meta`
/// member, a header that a client sets at will) is not that.
///
/// `Debug` prints the kind of principal and nothing of the user.
///
/// ```
/// use mrtr_state::Principal;
///
/// let a = Principal::user("https://as.example", "user-a").with_client("app-1");
/// assert_ne!(a, Principal::user("https://as.example", "user-a"));
/// assert_ne!(a, Principal::Anonymous);
/// ```
#[derive(Clone, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Principal {
    /// Callers are not told apart. What is sealed for `Anonymous` is a bearer token: whoever
    /// holds it may present it.
    Anonymous,
    /// A user whom the authenticator named.
    User(User),
}

/// A user, as the authenticator named them: who says so, whom, and through which client.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct User {
    issuer: Box<str>,
    subject: Box<str>,
    client: Option<Box<str>>,
}

impl Principal {
    /// The user `subject` of `issuer`, client unknown.
    #[must_use]
    pub fn user(issuer: impl Into<Box<str>>, subject: impl Into<Box<str>>) -> Principal {
        Principal::User(User {
            issuer: issuer.into(),
            subject: subject.into(),
            client: None,
        })
    }

    /// The same user, acting through `client` (an OAuth client id, say). `Anonymous` stays
    /// what it is.
    #[must_use]
    pub fn with_client(self, client: impl Into<Box<str>>) -> Principal {
        match self {
            Principal::Anonymous => Principal::Anonymous,
            Principal::User(user) => Principal::User(User {
                client: Some(client.into()),
                ..user
            }),
        }
    }

    /// Bytes that are the same for equal principals and differ for different ones: a label and
    /// length-prefixed parts. To be hashed or authenticated.
    #[must_use]
    pub fn canonical_bytes(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(128);
        put_length_prefixed(&mut bytes, b"mrtr principal 1");
        match self {
            Principal::Anonymous => bytes.push(b'a'),
            Principal::User(user) => {
                // The tag tells an absent client from an empty one.
                bytes.push(if user.client.is_some() { b'c' } else { b'u' });
                put_length_prefixed(&mut bytes, user.issuer.as_bytes());
                put_length_prefixed(&mut bytes, user.subject.as_bytes());
                if let Some(client) = &user.client {
                    put_length_prefixed(&mut bytes, client.as_bytes());
                }
            }
        }
        bytes
    }
}

impl User {
    /// Who vouches for the subject: an issuer's URL, or a name of the server's own.
    #[must_use]
    pub fn issuer(&self) -> &str {
        &self.issuer
    }

    /// The issuer's name for the user.
    #[must_use]
    pub fn subject(&self) -> &str {
        &self.subject
    }

    /// The client that acts for the user, where the authenticator knows it.
    #[must_use]
    pub fn client(&self) -> Option<&str> {
        self.client.as_deref()
    }
}

impl fmt::Debug for Principal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Principal::Anonymous => f.write_str("Anonymous"),
            Principal::User(_) => f.write_str("User(..)"),
        }
    }
}

impl fmt::Debug for User {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("User(..)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn canonical_bytes_tell_all_principals_apart() {
        let all = [
            Principal::Anonymous,
            Principal::user("", ""),
            Principal::user("", "").with_client(""),
            Principal::user("ab", "c"),
            Principal::user("a", "bc"),
            Principal::user("a", "b").with_client("c"),
            Principal::user("a", "bc").with_client(""),
            Principal::user("a", "").with_client("bc"),
            Principal::user("anonymous", ""),
            Principal::user("A", "bc"),
            Principal::user("a", "caf\u{e9}"),
            Principal::user("a", "cafe\u{301}"),
        ];
        for (i, a) in all.iter().enumerate() {
            for (j, b) in all.iter().enumerate() {
                let same_bytes = a.canonical_bytes() == b.canonical_bytes();
                assert_eq!(same_bytes, i == j, "{i} and {j}");
                assert_eq!(a == b, i == j);
            }
        }
    }

    #[test]
    fn debug_does_not_name_the_user() {
        let user = Principal::user("https://as.example", "user-a").with_client("app-1");
        assert_eq!(format!("{user:?}"), "User(..)");
        assert_eq!(
            Principal::Anonymous.with_client("app-1"),
            Principal::Anonymous
        );
    }
}
