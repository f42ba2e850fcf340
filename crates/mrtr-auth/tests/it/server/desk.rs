//! A server with one tool that asks and acts once, whose callers show tokens of an issuer in this process.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use authorized::issuer::{Client, Issuer};
use axum::body::Body;
use http::header::WWW_AUTHENTICATE;
use http::{HeaderMap, Request, StatusCode};
use http_body_util::BodyExt as _;
use mrtr_auth::BearerChallenge;
use mrtr_auth::server::{
    Algorithm, JwtAuthenticator, JwtBuilder, ProtectedResource, TrustedIssuer,
};
use mrtr_ledger::MemoryLedger;
use mrtr_server::{Answer, Authenticator, DurableFlow, Form, Server, State, ToolError, tool};
use mrtr_state::{KeyRing, Timestamp};
use mrtr_state_hmac::HmacCodec;
use mrtr_testkit::ManualClock;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};
use tower_service::Service as _;

pub(crate) const RESOURCE: &str = "https://mcp.example/mcp";
pub(crate) const SCOPE: &str = "pay";

/// 2027-01-15, so that times in tokens are of this century.
pub(crate) fn clock() -> ManualClock {
    ManualClock::at(Timestamp::from_millis(1_800_000_000_000))
}

pub(crate) async fn issuer(clock: &ManualClock) -> Issuer {
    let introspector = Client::confidential("mcp-server", "a secret: with & signs");
    let issuer = Issuer::builder().clock(clock.clone()).client(introspector);
    issuer.start().await.unwrap()
}

pub(crate) fn resource(issuer: &Issuer) -> ProtectedResource {
    ProtectedResource::builder(RESOURCE, issuer.url())
        .scopes_supported([SCOPE])
        .implies("admin", [SCOPE])
        .build()
        .unwrap()
}

pub(crate) fn trusted(issuer: &Issuer) -> TrustedIssuer {
    TrustedIssuer::new(issuer.url(), issuer.jwks_uri()).algorithms([Algorithm::Es256])
}

pub(crate) fn jwt(issuer: &Issuer, clock: &ManualClock) -> JwtBuilder {
    JwtAuthenticator::builder(&resource(issuer))
        .issuer(trusted(issuer))
        .clock(clock.clone())
}

#[derive(Deserialize, JsonSchema)]
struct Confirm {
    ok: bool,
}

async fn pay(
    flow: DurableFlow,
    State(effects): State<Arc<AtomicUsize>>,
) -> Result<String, ToolError> {
    let Answer::Accept(Confirm { ok: true }) =
        flow.ask("confirm", Form::<Confirm>::new("Pay?")).await
    else {
        return Ok("not paid".into());
    };
    let paid = async || Ok::<_, ToolError>(effects.fetch_add(1, Ordering::SeqCst) + 1);
    Ok(format!("paid {}", flow.once("pay", paid).await?))
}

/// The server, and how often it paid.
pub(crate) struct Desk {
    server: Server,
    effects: Arc<AtomicUsize>,
}

/// What came back.
#[derive(Debug)]
pub(crate) struct Reply {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Value,
}

impl Reply {
    pub(crate) fn challenge(&self) -> BearerChallenge {
        BearerChallenge::find(self.headers.get_all(WWW_AUTHENTICATE))
            .unwrap_or_else(|| panic!("no challenge in {self:?}"))
    }

    pub(crate) fn state(&self) -> &str {
        let state = self.body["result"]["requestState"].as_str();
        state.unwrap_or_else(|| panic!("no state in {self:?}"))
    }

    pub(crate) fn text(&self) -> &str {
        let text = self.body["result"]["content"][0]["text"].as_str();
        text.unwrap_or_else(|| panic!("no text in {self:?}"))
    }

    /// That nobody was let in, what is said of it, and that nothing of the token is.
    #[track_caller]
    pub(crate) fn assert_refused(&self, token: &str, why: &str) {
        assert_eq!(self.status, StatusCode::UNAUTHORIZED, "{self:?}");
        let challenge = self.challenge();
        assert_eq!(challenge.error.as_deref(), Some("invalid_token"));
        assert_eq!(challenge.error_description.as_deref(), Some(why));
        assert_eq!(
            challenge.resource_metadata.as_deref(),
            Some("https://mcp.example/.well-known/oauth-protected-resource/mcp")
        );
        assert!(!format!("{self:?}").contains(token));
    }
}

impl Desk {
    pub(crate) fn new(authenticator: impl Authenticator, clock: &ManualClock) -> Self {
        let effects = Arc::new(AtomicUsize::new(0));
        let server = Server::builder("desk", "1")
            .audience(RESOURCE)
            .codec(HmacCodec::new(KeyRing::generate().unwrap()).unwrap())
            .ledger(MemoryLedger::new(Arc::new(clock.clone())).unwrap())
            .dangerous()
            .allow_forgetful_ledger()
            .clock(clock.clone())
            .authenticator(authenticator)
            .state(Arc::clone(&effects))
            .tool(tool("pay", pay).scopes([SCOPE]));
        Self {
            server: server.build().unwrap(),
            effects,
        }
    }

    pub(crate) fn paid(&self) -> usize {
        self.effects.load(Ordering::SeqCst)
    }

    /// The first round.
    pub(crate) async fn open(&self, token: &str) -> Reply {
        self.send(Some(&format!("Bearer {token}")), "/mcp", json!({}))
            .await
    }

    /// The first round's state.
    pub(crate) async fn state(&self, token: &str) -> String {
        self.open(token).await.state().to_owned()
    }

    /// The second round, with a yes.
    pub(crate) async fn retry(&self, token: &str, state: &str) -> Reply {
        let yes = json!({ "action": "accept", "content": { "ok": true } });
        let more = json!({ "requestState": state, "inputResponses": { "confirm": yes } });
        self.send(Some(&format!("Bearer {token}")), "/mcp", more)
            .await
    }

    pub(crate) async fn send(&self, authorization: Option<&str>, uri: &str, more: Value) -> Reply {
        let mut params = json!({
            "name": "pay",
            "_meta": {
                "io.modelcontextprotocol/protocolVersion": "2026-07-28",
                "io.modelcontextprotocol/clientCapabilities": { "elicitation": { "form": {} } },
            },
        });
        let more = more.as_object().unwrap().clone();
        params.as_object_mut().unwrap().extend(more);
        let body = json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params });
        let mut request = Request::post(uri)
            .header("host", "localhost")
            .header("content-type", "application/json")
            .header("accept", "application/json, text/event-stream")
            .header("mcp-protocol-version", "2026-07-28")
            .header("mcp-method", "tools/call")
            .header("mcp-name", "pay");
        if let Some(authorization) = authorization {
            request = request.header("authorization", authorization);
        }
        let request = request.body(Body::from(body.to_string())).unwrap();
        let (head, body) = self
            .server
            .clone()
            .call(request)
            .await
            .unwrap()
            .into_parts();
        let bytes = body.collect().await.unwrap().to_bytes();
        Reply {
            status: head.status,
            headers: head.headers,
            body: serde_json::from_slice(&bytes).unwrap(),
        }
    }
}
