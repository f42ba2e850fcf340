//! Callers who log in: one state, and who may go on with it.

use mrtr_testkit::guards::Guard;
use reqwest::StatusCode;
use serde_json::{Value, json};

use super::confirmed;
use crate::Fault;
use crate::board::{Case, Governed};
use crate::login::Logins;
use crate::people::count;
use crate::servers::{Server, Stage};
use crate::wire::{Answer, Wire};

const SECTION: &str = "authorized";
const TOOL: &str = "transfer";
const WRITE: &str = "transfers:write";
const TOKENS: Governed =
    Governed::Not("a token is checked by the server's authenticator, and there is no switch");

fn transfer() -> Value {
    json!({ "to": "carol", "amount": 30 })
}

/// A server at which alice, in the desk app, has been asked.
struct Asked {
    server: Server,
    logins: Logins,
    state: String,
}

impl Asked {
    async fn start(stage: &Stage) -> Result<Self, Fault> {
        let server = stage.start(&stage.plan("authorized")?).await?;
        let logins = Logins::of(&server)?;
        let alice = logins.log_in("alice", "desk-app", WRITE).await?;
        let asked = server
            .wire()
            .by(&alice.access)
            .call(TOOL, &transfer())
            .await?;
        let state = asked.state()?.to_owned();
        Ok(Self {
            server,
            logins,
            state,
        })
    }

    /// The retry under this token.
    async fn retry(&self, token: &str) -> Result<Answer, Fault> {
        let wire: Wire = self.server.wire().by(token);
        wire.retry(TOOL, &transfer(), &confirmed(), &self.state)
            .await
    }

    /// What came of it, and what was transferred.
    fn outcome(&self, answer: &Answer) -> Result<String, Fault> {
        let transfers = count(self.server.record()?.len(), "transfer", "transfers");
        let words = match answer.status {
            StatusCode::OK => answer.in_words(),
            status => format!("HTTP {}", status.as_u16()),
        };
        Ok(format!("{words}, {transfers}"))
    }

    /// Somebody logs in and presents alice's state.
    async fn presented_by(stage: &Stage, person: &str, app: &str) -> Result<String, Fault> {
        let asked = Self::start(stage).await?;
        let login = asked.logins.log_in(person, app, WRITE).await?;
        asked.outcome(&asked.retry(&login.access).await?)
    }
}

pub(crate) fn cases() -> Vec<Case> {
    let presented =
        |case: &str, expected: &str, governed, person: &'static str, app: &'static str| {
            Case::new(SECTION, case, expected, governed, move |stage| async move {
                Asked::presented_by(&stage, person, app).await
            })
        };
    let other = "issued to a different principal, 0 transfers";
    let mut cases = vec![
        presented(
            "the person who was asked, logged in anew",
            "accepted, 1 transfer",
            Governed::Not("the honest retry"),
            "alice",
            "desk-app",
        ),
        presented(
            "one state, two people: bob, in the same app",
            other,
            Governed::By(Guard::Principal),
            "bob",
            "desk-app",
        ),
        presented(
            "one state, two apps of one person: alice, in another app",
            other,
            Governed::By(Guard::Principal),
            "alice",
            "phone-app",
        ),
        presented(
            "carol, who may not grant the scope",
            "HTTP 403, 0 transfers",
            TOKENS,
            "carol",
            "desk-app",
        ),
    ];
    cases.push(Case::new(
        SECTION,
        "a refreshed token of the person who was asked",
        "accepted, 1 transfer",
        Governed::Not("the honest retry"),
        |stage| async move {
            let asked = Asked::start(&stage).await?;
            let login = asked.logins.log_in("alice", "desk-app", WRITE).await?;
            let refreshed = asked.logins.refresh("desk-app", &login).await?;
            asked.outcome(&asked.retry(&refreshed.access).await?)
        },
    ));
    cases.push(Case::new(
        SECTION,
        "no token, and one that was changed",
        "HTTP 401, HTTP 401, 0 transfers",
        TOKENS,
        |stage| async move {
            let asked = Asked::start(&stage).await?;
            let login = asked.logins.log_in("alice", "desk-app", WRITE).await?;
            let (kept, _) = login.access.rsplit_once('.').unwrap_or_default();
            let none = asked.retry("").await?;
            let changed = asked.retry(&format!("{kept}.AAAA")).await?;
            let words = asked.outcome(&changed)?;
            Ok(format!("HTTP {}, {words}", none.status.as_u16()))
        },
    ));
    cases
}
