//! An MCP server, an authorization server, a person and a clock.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use axum::response::Response;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use mrtr_auth::client::{
    AgentFuture, ApplicationType, AuthError, OAuth, OAuthBuilder, Redirection, Registration,
    UserAgent,
};
use mrtr_client::{CallError, Client, EraChoice};
use mrtr_protocol::CallToolResult;
use mrtr_state::{Clock, Timestamp};
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};
use url::Url;

use super::site::{Hit, Site, json as answer, status};

pub(super) const REDIRECT_URI: &str = "http://127.0.0.1:9/callback";
pub(super) const AS_METADATA: &str = "GET /.well-known/oauth-authorization-server";
pub(super) const PRM: &str = "GET /.well-known/oauth-protected-resource/mcp";
pub(super) const AUTHORIZE: &str = "GET /authorize";
pub(super) const TOKEN: &str = "POST /token";
pub(super) const REGISTER: &str = "POST /register";
pub(super) const MCP: &str = "POST /mcp";

/// What an authorization server remembers.
#[derive(Default)]
pub(super) struct Issued {
    count: AtomicUsize,
    /// The authorization request of each code.
    codes: Mutex<HashMap<String, HashMap<String, String>>>,
    pub(super) access: Mutex<Vec<String>>,
    pub(super) refresh: Mutex<Vec<String>>,
}

impl Issued {
    /// A new token of this kind.
    fn next(&self, kind: &str, port: &str) -> String {
        let nth = self.count.fetch_add(1, Ordering::Relaxed);
        format!("{kind}-{port}-{nth}")
    }

    pub(super) fn tokens(&self, port: &str) -> Value {
        let (access, refresh) = (self.next("access", port), self.next("refresh", port));
        self.access.lock().unwrap().push(access.clone());
        *self.refresh.lock().unwrap() = vec![refresh.clone()];
        json!({"access_token": access, "refresh_token": refresh, "token_type": "Bearer", "expires_in": 3600})
    }
}

pub(super) fn port(base: &str) -> &str {
    base.rsplit(':').next().unwrap()
}

/// An authorization server with everything, that says yes.
pub(super) struct Authority {
    pub(super) site: Site,
    pub(super) issued: Arc<Issued>,
}

impl Authority {
    pub(super) async fn start() -> Self {
        let site = Site::start().await;
        let issued = Arc::<Issued>::default();
        site.on(AS_METADATA, |hit| answer(200, &metadata(&hit.base())));
        let remembered = Arc::clone(&issued);
        site.on(REGISTER, move |hit| {
            let id = remembered.next("client", port(&hit.base()));
            answer(201, &json!({"client_id": id}))
        });
        let remembered = Arc::clone(&issued);
        site.on(AUTHORIZE, move |hit| {
            let code = remembered.next("code", port(&hit.base()));
            let mut codes = remembered.codes.lock().unwrap();
            codes.insert(code.clone(), hit.query.clone());
            agreed(hit, &code, &hit.base())
        });
        let remembered = Arc::clone(&issued);
        site.on(TOKEN, move |hit| token(&remembered, hit));
        Self { site, issued }
    }

    /// Its metadata, with a change.
    pub(super) fn metadata(&self, change: impl Fn(&mut Value) + Send + Sync + 'static) {
        self.site.on(AS_METADATA, move |hit| {
            let mut metadata = metadata(&hit.base());
            change(&mut metadata);
            answer(200, &metadata)
        });
    }
}

fn metadata(base: &str) -> Value {
    json!({
        "issuer": base,
        "authorization_endpoint": format!("{base}/authorize"),
        "token_endpoint": format!("{base}/token"),
        "registration_endpoint": format!("{base}/register"),
        "code_challenge_methods_supported": ["S256"],
        "token_endpoint_auth_methods_supported": ["none", "client_secret_basic", "client_secret_post", "private_key_jwt"],
        "authorization_response_iss_parameter_supported": true,
    })
}

/// The redirect after somebody agreed.
pub(super) fn agreed(hit: &Hit, code: &str, issuer: &str) -> Response {
    let mut to = Url::parse(&hit.query["redirect_uri"]).unwrap();
    to.query_pairs_mut()
        .append_pair("code", code)
        .append_pair("state", &hit.query["state"])
        .append_pair("iss", issuer);
    super::site::redirect(to.as_str())
}

fn token(issued: &Issued, hit: &Hit) -> Response {
    let form = hit.form();
    let refused = |error: &str| answer(400, &json!({"error": error}));
    match form["grant_type"].as_str() {
        "authorization_code" => {
            let code = issued.codes.lock().unwrap().remove(&form["code"]);
            let Some(request) = code else {
                return refused("invalid_grant");
            };
            let challenge = Sha256::digest(form["code_verifier"].as_bytes());
            let is_same = |name: &str| request.get(name) == form.get(name);
            // A client that authenticates in the header is named there.
            let same = is_same("redirect_uri")
                && is_same("resource")
                && (is_same("client_id") || hit.header("authorization").is_some());
            if !same || URL_SAFE_NO_PAD.encode(challenge) != request["code_challenge"] {
                return refused("invalid_grant");
            }
        }
        "refresh_token" => {
            let known = issued
                .refresh
                .lock()
                .unwrap()
                .contains(&form["refresh_token"]);
            if !known {
                return refused("invalid_grant");
            }
        }
        _ => {}
    }
    answer(200, &issued.tokens(port(&hit.base())))
}

/// A clock that is moved by hand.
#[derive(Debug, Clone, Default)]
pub(super) struct ByHand(Arc<AtomicU64>);

impl ByHand {
    pub(super) fn advance(&self, seconds: u64) {
        self.0.fetch_add(seconds * 1000, Ordering::Relaxed);
    }
}

impl Clock for ByHand {
    fn now(&self) -> Timestamp {
        Timestamp::from_millis(1_700_000_000_000 + self.0.load(Ordering::Relaxed))
    }
}

type Change = dyn Fn(String) -> String + Send + Sync;

/// Somebody who agrees, and whose redirect may be meddled with.
#[derive(Clone)]
pub(super) struct Person {
    visits: Arc<AtomicUsize>,
    change: Arc<Change>,
    /// Held while the person is to take their time.
    pub(super) busy: Arc<tokio::sync::Mutex<()>>,
}

impl Person {
    pub(super) fn who(change: impl Fn(String) -> String + Send + Sync + 'static) -> Self {
        Self {
            visits: Arc::default(),
            change: Arc::new(change),
            busy: Arc::default(),
        }
    }

    pub(super) fn agreeable() -> Self {
        Self::who(|redirect| redirect)
    }

    pub(super) fn visits(&self) -> usize {
        self.visits.load(Ordering::Relaxed)
    }
}

impl std::fmt::Debug for Person {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Person")
    }
}

impl UserAgent for Person {
    fn begin<'a>(&'a self, _: Option<&'a str>) -> AgentFuture<'a, Box<dyn Redirection>> {
        let visit = Visit(self.clone());
        Box::pin(async { Ok(Box::new(visit) as Box<dyn Redirection>) })
    }
}

struct Visit(Person);

impl Redirection for Visit {
    fn redirect_uri(&self) -> &str {
        REDIRECT_URI
    }

    fn visit(self: Box<Self>, url: Url) -> AgentFuture<'static, String> {
        Box::pin(async move {
            self.0.visits.fetch_add(1, Ordering::Relaxed);
            let _free = self.0.busy.lock().await;
            let browser = reqwest::Client::builder()
                .redirect(reqwest::redirect::Policy::none())
                .build()?;
            let response = browser.get(url).send().await?;
            let to = response.headers().get("location").ok_or("no redirect")?;
            Ok((self.0.change)(to.to_str()?.to_owned()))
        })
    }
}

/// An MCP server that takes what its authorization server issued.
pub(super) struct World {
    pub(super) mcp: Site,
    pub(super) authority: Authority,
    pub(super) person: Person,
    pub(super) clock: ByHand,
}

impl World {
    pub(super) async fn start() -> Self {
        let world = Self {
            mcp: Site::start().await,
            authority: Authority::start().await,
            person: Person::agreeable(),
            clock: ByHand::default(),
        };
        world.trusts(&world.authority);
        world
    }

    pub(super) fn server(&self) -> String {
        format!("{}/mcp", self.mcp.url)
    }

    /// The MCP server names this authorization server and takes its tokens, and no others.
    pub(super) fn trusts(&self, authority: &Authority) {
        self.names(&authority.site.url);
        let issued = Arc::clone(&authority.issued);
        self.mcp.on(MCP, move |hit| {
            let token = hit
                .header("authorization")
                .and_then(|value| value.strip_prefix("Bearer "));
            let accepted = issued.access.lock().unwrap();
            match token {
                Some(token) if accepted.iter().any(|own| own == token) => done(hit),
                _ => unauthorized(hit, 401, ""),
            }
        });
    }

    pub(super) fn names(&self, issuer: &str) {
        let issuer = issuer.to_owned();
        self.mcp.on(PRM, move |hit| {
            let resource = format!("{}/mcp", hit.base());
            answer(
                200,
                &json!({"resource": resource, "authorization_servers": [issuer]}),
            )
        });
    }

    /// Credentials for this person, with dynamic registration.
    pub(super) fn oauth(&self) -> OAuthBuilder {
        let registration = Registration::new("Tests", ApplicationType::Native);
        OAuth::for_user(self.server(), self.person.clone())
            .registration(registration)
            .clock(self.clock.clone())
    }

    /// The same where no registration is possible.
    pub(super) fn oauth_without_registration(&self) -> OAuthBuilder {
        OAuth::for_user(self.server(), self.person.clone()).clock(self.clock.clone())
    }

    pub(super) fn client(&self, oauth: &OAuth) -> Client {
        client(&self.server(), oauth)
    }

    /// Calls once, and says why it could not.
    pub(super) async fn refused(&self, oauth: OAuthBuilder) -> AuthError {
        let oauth = oauth.build().unwrap();
        refusal(call(&self.client(&oauth)).await)
    }
}

pub(super) fn client(server: &str, oauth: &OAuth) -> Client {
    Client::builder(server)
        .era(EraChoice::Modern)
        .credentials(oauth.clone())
        .build()
        .unwrap()
}

pub(super) async fn call(client: &Client) -> Result<CallToolResult, CallError> {
    client.call_tool("t", json!({})).await
}

/// Why there was no token.
pub(super) fn refusal(result: Result<CallToolResult, CallError>) -> AuthError {
    match result {
        Err(CallError::NoCredentials { source, .. }) => *source.into_cause().downcast().unwrap(),
        other => panic!("{other:?}"),
    }
}

pub(super) fn done(hit: &Hit) -> Response {
    let id = hit.json()["id"].clone();
    let result = json!({"resultType": "complete", "content": [{"type": "text", "text": "done"}]});
    answer(200, &json!({"jsonrpc": "2.0", "id": id, "result": result}))
}

/// A refusal that says where the metadata is, and whatever else.
pub(super) fn unauthorized(hit: &Hit, code: u16, more: &str) -> Response {
    let place = format!("{}/.well-known/oauth-protected-resource/mcp", hit.base());
    let value = format!("Bearer resource_metadata=\"{place}\"{more}");
    let mut response = status(code);
    response
        .headers_mut()
        .insert("www-authenticate", value.parse().unwrap());
    response
}
