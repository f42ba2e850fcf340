//! What the authorization server knows: people, clients, and what it has given out.

use std::collections::{BTreeSet, HashMap};
use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};
use subtle::ConstantTimeEq as _;
use url::{Host, Url};

use super::Client;

/// Lifetimes, in seconds.
pub(super) const ACCESS: u64 = 300;
const CODE: u64 = 60;
const REFRESH: u64 = 24 * 3_600;

/// 128 random bits as text. Nothing, where there is no randomness: what is looked up under that is never found.
pub(super) fn random() -> String {
    let mut bytes = [0; 16];
    match getrandom::fill(&mut bytes) {
        Ok(()) => URL_SAFE_NO_PAD.encode(bytes),
        Err(_) => String::new(),
    }
}

#[derive(Default)]
pub(super) struct Book {
    people: HashMap<String, Person>,
    clients: HashMap<String, Client>,
    codes: HashMap<String, (Grant, Proof)>,
    refresh: HashMap<String, Grant>,
    /// Access tokens and their claims as they count now.
    access: HashMap<String, Value>,
}

struct Person {
    password: String,
    scopes: BTreeSet<String>,
}

/// What a person granted to a client.
#[derive(Clone)]
pub(super) struct Grant {
    pub(super) client: String,
    pub(super) subject: String,
    pub(super) resource: String,
    pub(super) scope: String,
    until: u64,
}

/// What redeems a code.
struct Proof {
    redirect_uri: String,
    challenge: String,
}

/// An authorization request that may be put to a person.
pub(super) struct Request {
    pub(super) client: String,
    pub(super) redirect_uri: String,
    pub(super) challenge: String,
    pub(super) resource: String,
    pub(super) scope: String,
}

impl Book {
    pub(super) fn add_person<'s>(
        &mut self,
        name: &str,
        password: &str,
        scopes: impl IntoIterator<Item = &'s str>,
    ) {
        let person = Person {
            password: password.to_owned(),
            scopes: scopes.into_iter().map(str::to_owned).collect(),
        };
        self.people.insert(name.to_owned(), person);
    }

    pub(super) fn add_client(&mut self, client: Client) {
        self.clients.insert(client.id.clone(), client);
    }

    /// Whether this client has this redirect URI.
    pub(super) fn redirects(&self, client: &str, redirect_uri: &str) -> bool {
        let client = self.clients.get(client);
        let mut known = client.into_iter().flat_map(|client| &client.redirect_uris);
        known.any(|known| known == redirect_uri || same_but_port(known, redirect_uri))
    }

    /// Whether a client shows the secret that it has, or none if it has none.
    pub(super) fn is_client(&self, id: &str, secret: Option<&str>) -> bool {
        match (self.clients.get(id).map(|client| &client.secret), secret) {
            (Some(None), None) => true,
            (Some(Some(known)), Some(shown)) => same(known, shown),
            _ => false,
        }
    }

    /// A code for what was asked, as far as this person may grant it. `None`: that is not their password.
    pub(super) fn grant(
        &mut self,
        request: Request,
        name: &str,
        password: &str,
        now: u64,
    ) -> Option<String> {
        let person = self.people.get(name)?;
        if !same(&person.password, password) {
            return None;
        }
        let asked = request.scope.split(' ');
        let granted: Vec<&str> = asked
            .filter(|scope| person.scopes.contains(*scope))
            .collect();
        let grant = Grant {
            client: request.client,
            subject: name.to_owned(),
            resource: request.resource,
            scope: granted.join(" "),
            until: now + CODE,
        };
        let proof = Proof {
            redirect_uri: request.redirect_uri,
            challenge: request.challenge,
        };
        let code = random();
        self.codes.insert(code.clone(), (grant, proof));
        Some(code)
    }

    /// Redeems a code, once.
    pub(super) fn redeem(
        &mut self,
        code: &str,
        client: &str,
        redirect_uri: &str,
        verifier: &str,
        now: u64,
    ) -> Option<Grant> {
        let (grant, proof) = self.codes.remove(code)?;
        let challenge = URL_SAFE_NO_PAD.encode(Sha256::digest(verifier));
        let holds = now < grant.until
            && grant.client == client
            && proof.redirect_uri == redirect_uri
            && same(&proof.challenge, &challenge);
        holds.then_some(grant)
    }

    /// Redeems a refresh token, once: the next one comes with the new access token.
    pub(super) fn refresh(&mut self, token: &str, client: &str, now: u64) -> Option<Grant> {
        let grant = self.refresh.remove(token)?;
        (now < grant.until && grant.client == client).then_some(grant)
    }

    pub(super) fn refreshable(&mut self, grant: &Grant, now: u64) -> String {
        let token = random();
        let until = now + REFRESH;
        let grant = Grant {
            until,
            ..grant.clone()
        };
        self.refresh.insert(token.clone(), grant);
        token
    }

    pub(super) fn remember(&mut self, token: &str, claims: Value) {
        self.access.insert(token.to_owned(), claims);
    }

    pub(super) fn narrow(&mut self, token: &str, scope: &str) {
        if let Some(claims) = self.access.get_mut(token).and_then(Value::as_object_mut) {
            claims.insert("scope".to_owned(), scope.into());
        }
    }

    pub(super) fn revoke(&mut self, token: &str) {
        self.access.remove(token);
        self.refresh.remove(token);
    }

    /// RFC 7662 section 2.2.
    pub(super) fn introspect(&self, token: &str, now: u64) -> Value {
        let claims = self.access.get(token);
        let good = |claims: &&Value| {
            claims
                .get("exp")
                .and_then(Value::as_u64)
                .is_some_and(|exp| now < exp)
        };
        let Some(claims) = claims.filter(good) else {
            return json!({ "active": false });
        };
        let mut said = claims.clone();
        if let Some(said) = said.as_object_mut() {
            said.insert("active".to_owned(), true.into());
        }
        said
    }
}

impl fmt::Debug for Book {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Book")
            .field("people", &self.people.len())
            .field("clients", &self.clients.len())
            .finish_non_exhaustive()
    }
}

fn same(a: &str, b: &str) -> bool {
    a.as_bytes().ct_eq(b.as_bytes()).into()
}

/// A native app listens on whatever port is free.
fn same_but_port(known: &str, asked: &str) -> bool {
    let loopback = |url: &Url| match url.host() {
        Some(Host::Ipv4(address)) => address.is_loopback(),
        Some(Host::Ipv6(address)) => address.is_loopback(),
        _ => false,
    };
    match (Url::parse(known), Url::parse(asked)) {
        (Ok(known), Ok(mut asked)) => {
            loopback(&known)
                && loopback(&asked)
                && asked.set_port(known.port()).is_ok()
                && known == asked
        }
        _ => false,
    }
}
