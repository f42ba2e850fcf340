//! Logging in at the authorization server of `authorized`: the code flow with PKCE, as a browser and an app do it together.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use reqwest::header::{CONTENT_TYPE, LOCATION};
use reqwest::redirect::Policy;
use serde::Deserialize;
use sha2::{Digest as _, Sha256};

use crate::Fault;
use crate::servers::Server;

/// Where an app is sent back to; nobody listens, because the browser here reads the address alone.
const BACK: &str = "http://127.0.0.1/callback";
const VERIFIER: &str = "a-verifier-that-an-app-would-make-anew-each-time";

/// The people and apps of one server.
#[derive(Debug)]
pub(crate) struct Logins {
    http: reqwest::Client,
    issuer: String,
    resource: String,
}

/// What an app was given.
#[derive(Deserialize)]
pub(crate) struct Login {
    #[serde(rename = "access_token")]
    pub(crate) access: String,
    #[serde(rename = "refresh_token")]
    refresh: String,
}

impl Logins {
    pub(crate) fn of(server: &Server) -> Result<Self, Fault> {
        let issuer = server.logins.clone();
        Ok(Self {
            http: reqwest::Client::builder()
                .redirect(Policy::none())
                .build()?,
            issuer: issuer.ok_or_else(|| Fault("it has no logins".into()))?,
            resource: server.url.clone(),
        })
    }

    /// This person logs in, agrees, and their app exchanges the code.
    pub(crate) async fn log_in(
        &self,
        person: &str,
        app: &str,
        scope: &str,
    ) -> Result<Login, Fault> {
        let challenge = URL_SAFE_NO_PAD.encode(Sha256::digest(VERIFIER));
        let query = form(&[
            ("response_type", "code"),
            ("client_id", app),
            ("redirect_uri", BACK),
            ("code_challenge", &challenge),
            ("code_challenge_method", "S256"),
            ("resource", &self.resource),
            ("scope", scope),
        ]);
        let password = format!("{person}-password");
        let filled = [("name", person), ("password", &password), ("agree", "yes")];
        let page = format!("{}/authorize?{query}", self.issuer);
        let sent = self.post(&page, &filled).send().await?;
        let back = sent
            .headers()
            .get(LOCATION)
            .and_then(|back| back.to_str().ok());
        let code = back
            .and_then(|back| back.split_once("code=")?.1.split('&').next())
            .ok_or_else(|| Fault(format!("{person} could not log in: HTTP {}", sent.status())))?;
        self.exchange(&[
            ("grant_type", "authorization_code"),
            ("client_id", app),
            ("code", code),
            ("redirect_uri", BACK),
            ("code_verifier", VERIFIER),
            ("resource", &self.resource),
        ])
        .await
    }

    /// The app exchanges its refresh token.
    pub(crate) async fn refresh(&self, app: &str, login: &Login) -> Result<Login, Fault> {
        self.exchange(&[
            ("grant_type", "refresh_token"),
            ("client_id", app),
            ("refresh_token", &login.refresh),
            ("resource", &self.resource),
        ])
        .await
    }

    async fn exchange(&self, fields: &[(&str, &str)]) -> Result<Login, Fault> {
        let request = self.post(&format!("{}/token", self.issuer), fields);
        let answer = request.send().await?.error_for_status()?;
        Ok(serde_json::from_slice(&answer.bytes().await?)?)
    }

    fn post(&self, url: &str, fields: &[(&str, &str)]) -> reqwest::RequestBuilder {
        self.http
            .post(url)
            .header(CONTENT_TYPE, "application/x-www-form-urlencoded")
            .body(form(fields))
    }
}

fn form(fields: &[(&str, &str)]) -> String {
    let mut form = form_urlencoded::Serializer::new(String::new());
    form.extend_pairs(fields).finish()
}
