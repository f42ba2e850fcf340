//! Both sides together: a client logs in at an authorization server, and the MCP server takes what comes of it.

use authorized::issuer::{Client as App, Issuer};
use mrtr_auth::client::{
    AgentFuture, ApplicationType, AuthError, ClientIdentity, OAuth, OAuthBuilder, Redirection,
    Registration, UserAgent,
};
use mrtr_auth::server::{Algorithm, JwtAuthenticator, ProtectedResource, TrustedIssuer};
use mrtr_client::{CallError, Client};
use mrtr_server::{Server, ToolError, WithoutScope, tool};
use serde_json::json;
use url::Url;

/// Types a name and a password into the authorization server's page.
#[derive(Debug, Clone, Copy)]
struct Person(&'static str);

impl UserAgent for Person {
    fn begin<'a>(&'a self, _: Option<&'a str>) -> AgentFuture<'a, Box<dyn Redirection>> {
        let person = *self;
        Box::pin(async move { Ok(Box::new(person) as Box<dyn Redirection>) })
    }
}

impl Redirection for Person {
    fn redirect_uri(&self) -> &str {
        "http://127.0.0.1:4000/callback"
    }

    fn visit(self: Box<Self>, url: Url) -> AgentFuture<'static, String> {
        Box::pin(async move {
            let browser = reqwest::Client::builder()
                .redirect(reqwest::redirect::Policy::none())
                .build()?;
            let filled = format!("name={0}&password={0}-password&agree=yes", self.0);
            let request = browser.post(url).body(filled);
            let media = "application/x-www-form-urlencoded";
            let response = request.header("content-type", media).send().await?;
            let to = response.headers().get("location");
            let to = to.ok_or("that is not the password")?;
            Ok(to.to_str()?.to_owned())
        })
    }
}

async fn look() -> Result<String, ToolError> {
    Ok("looked".to_owned())
}

async fn change() -> Result<String, ToolError> {
    Ok("changed".to_owned())
}

struct Both {
    issuer: Issuer,
    server: String,
    serving: tokio::task::JoinHandle<()>,
}

impl Both {
    async fn start() -> Self {
        let issuer = Issuer::builder()
            .person("alice", "alice-password", ["read", "write"])
            .person("carol", "carol-password", ["read"])
            .client(App::public("desk-app", "http://127.0.0.1/callback"))
            .start()
            .await
            .unwrap();
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let server = format!("http://{}/mcp", listener.local_addr().unwrap());
        let resource = ProtectedResource::builder(&server, issuer.url())
            .scopes_supported(["read"])
            .implies("write", ["read"])
            .build()
            .unwrap();
        let trusted =
            TrustedIssuer::new(issuer.url(), issuer.jwks_uri()).algorithms([Algorithm::Es256]);
        let authenticator = JwtAuthenticator::builder(&resource).issuer(trusted);
        let change = tool("change", change).scopes(["write"]);
        let mcp = Server::builder("together", "1")
            .authenticator(authenticator.build().unwrap())
            .tool(tool("look", look).scopes(["read"]))
            .tool(change.without_scope(WithoutScope::Listed))
            .build()
            .unwrap();
        let app = mcp.router("/mcp").merge(resource.routes());
        let serving = tokio::spawn(async move { axum::serve(listener, app).await.unwrap() });
        Self {
            issuer,
            server,
            serving,
        }
    }

    fn oauth(&self, person: &'static str) -> OAuthBuilder {
        OAuth::for_user(&self.server, Person(person))
    }

    fn client(&self, oauth: OAuthBuilder) -> Client {
        Client::builder(&self.server)
            .credentials(oauth.build().unwrap())
            .build()
            .unwrap()
    }
}

impl Drop for Both {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

#[tokio::test]
async fn somebody_logs_in_steps_up_and_is_let_through() {
    let both = Both::start().await;
    let registration = Registration::new("Tests", ApplicationType::Native);
    for oauth in [
        both.oauth("alice")
            .registered_at(both.issuer.url(), ClientIdentity::public("desk-app")),
        both.oauth("alice").registration(registration),
    ] {
        let client = both.client(oauth);
        let looked = client.call_tool("look", json!({})).await.unwrap();
        assert_eq!(looked.joined_text(), "looked");
        let changed = client.call_tool("change", json!({})).await.unwrap();
        assert_eq!(changed.joined_text(), "changed");
    }
}

#[tokio::test]
async fn who_may_not_grant_a_scope_is_told_so_and_keeps_what_there_was() {
    let both = Both::start().await;
    let desk = ClientIdentity::public("desk-app");
    let client = both.client(both.oauth("carol").registered_at(both.issuer.url(), desk));
    client.call_tool("look", json!({})).await.unwrap();
    let error = client.call_tool("change", json!({})).await.unwrap_err();
    let CallError::NoCredentials { source, .. } = error else {
        panic!("{error}")
    };
    let cause = source.into_cause();
    let cause = cause.downcast_ref::<AuthError>().unwrap();
    assert!(
        matches!(cause, AuthError::ScopesNotEnough { .. }),
        "{cause}"
    );
    client.call_tool("look", json!({})).await.unwrap();
}

#[tokio::test]
async fn somebody_who_does_not_log_in_is_not_let_through() {
    let both = Both::start().await;
    let desk = ClientIdentity::public("desk-app");
    let client = both.client(both.oauth("mallory").registered_at(both.issuer.url(), desk));
    let error = client.call_tool("look", json!({})).await.unwrap_err();
    let CallError::NoCredentials { source, .. } = error else {
        panic!("{error}")
    };
    assert!(source.to_string().contains("not the password"), "{source}");
}
