//! The page: what consent to a link is worth, whose the link is, and what the client learns of it.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use mrtr_client::{Refusal, UrlAnswer, UrlQuestion};
use serde_json::{Value, json};

use crate::Fault;
use crate::board::{Case, Governed};
use crate::browser::Browser;
use crate::people::{count, host};
use crate::servers::{Server, Stage};
use crate::wire::{Answer, Exchange, Wire};

const SECTION: &str = "url";
const TOOL: &str = "link_account";
const KEY: &str = "k-4711-alices-own-and-nobody-elses";
const VISITS: Governed = Governed::Not(
    "a page is done when it says so, for the person who was asked; there is no switch",
);

/// A server whose tool waits for alice to visit a page.
struct Asked {
    server: Server,
    wire: Wire,
    answer: Answer,
    url: String,
}

impl Asked {
    async fn by(stage: &Stage) -> Result<Self, Fault> {
        let server = stage.start(&stage.plan("link-account")?).await?;
        let wire = server
            .wire()
            .declaring(json!({ "elicitation": { "url": {} } }));
        let answer = wire.call(TOOL, &json!({})).await?;
        let url = page(&answer).to_owned();
        let pages = server.pages.as_deref().unwrap_or_default();
        if pages.is_empty() || !url.starts_with(&format!("{pages}/")) {
            return Err(Fault(format!("{url:?} is none of the pages on {pages:?}")));
        }
        Ok(Self {
            server,
            wire,
            answer,
            url,
        })
    }

    /// The client says that alice consented to the link.
    async fn accept(&self, asked: &Answer) -> Result<Answer, Fault> {
        let accept = json!({ "link": { "action": "accept" } });
        self.wire
            .retry(TOOL, &json!({}), &accept, asked.state()?)
            .await
    }

    /// `words` after nothing was stored; and after that the link is still good for alice.
    async fn nothing_stored(self, words: String) -> Result<String, Fault> {
        let stored = stored(&self.server)?;
        let again = self.accept(&self.answer).await?;
        if page(&again) != self.url {
            return Err(Fault(format!("alice's call went on: {}", again.in_words())));
        }
        let alice = Browser::of("alice", &self.url).await?;
        let shown = alice.paste(&self.url, KEY).await?;
        let done = self.accept(&again).await?;
        match (shown.status.as_u16(), done.in_words().as_str()) {
            (200, "accepted") => Ok(format!("{words}, {stored}")),
            (status, done) => Err(Fault(format!("alice's own visit: HTTP {status}, {done}"))),
        }
    }
}

/// The page that is asked for.
fn page(answer: &Answer) -> &str {
    answer.body["result"]["inputRequests"]["link"]["params"]["url"]
        .as_str()
        .unwrap_or_default()
}

/// `stored for alice`, from the server's own record and its vault.
fn stored(server: &Server) -> Result<String, Fault> {
    let record = server.record()?;
    let subjects: Vec<&str> = record
        .iter()
        .map(|entry| entry.value["subject"].as_str().unwrap_or("nobody"))
        .collect();
    let vault = match std::fs::read_to_string(server.path("vault.json")) {
        Ok(vault) => vault,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => String::new(),
        Err(error) => return Err(error.into()),
    };
    match (subjects.as_slice(), vault.matches(KEY).count()) {
        ([], 0) => Ok("nothing stored".into()),
        (subjects, 1) => Ok(format!("stored for {}", subjects.join(" and "))),
        (subjects, keys) => Err(Fault(format!(
            "recorded for {subjects:?}, and the vault holds the key {keys} times"
        ))),
    }
}

/// Alice consents to the link, opens it in her browser, logs in and pastes her key.
pub(crate) async fn visited(question: UrlQuestion) -> Result<UrlAnswer, Refusal> {
    let url = question.url.as_str().to_owned();
    let refused = |fault: Fault| Refusal::new(fault.0);
    let alice = Browser::of("alice", &url).await.map_err(refused)?;
    alice.paste(&url, KEY).await.map_err(refused)?;
    Ok(UrlAnswer::Accept)
}

/// A call of alice's client: she consents to the link, opens it in her browser, logs in and pastes her key. What the model
/// reads, and everything that passed the client.
async fn linked(server: &Server) -> Result<(String, Vec<Exchange>), Fault> {
    let (client, recording) = host(&server.url, |builder| builder.on_url(visited))?;
    let result = client.call_tool(TOOL, json!({})).await?;
    Ok((result.joined_text(), recording.exchanges()))
}

/// How often a text passed: in plain, or inside a segment of a state after base64.
fn passed(exchanges: &[Exchange], text: &str) -> usize {
    let decoded = |segment: &str| {
        let bytes = URL_SAFE_NO_PAD.decode(segment).unwrap_or_default();
        String::from_utf8_lossy(&bytes).contains(text)
    };
    exchanges
        .iter()
        .flat_map(|exchange| [&exchange.sent, &exchange.received])
        .map(|passed| {
            let hidden = passed
                .split(|c: char| !(c.is_ascii_alphanumeric() || c == '-' || c == '_'))
                .filter(|segment| decoded(segment));
            passed.matches(text).count() + hidden.count()
        })
        .sum()
}

pub(crate) fn cases() -> Vec<Case> {
    vec![
        Case::new(
            SECTION,
            "accept before the page was visited",
            "asked again with the same URL, nothing stored",
            VISITS,
            |stage| async move {
                let asked = Asked::by(&stage).await?;
                let again = asked.accept(&asked.answer).await?;
                let words = match (again.asks(), page(&again) == asked.url) {
                    (true, true) => "asked again with the same URL".into(),
                    (true, false) => format!("asked again with another URL: {}", page(&again)),
                    (false, _) => again.in_words(),
                };
                asked.nothing_stored(words).await
            },
        ),
        Case::new(
            SECTION,
            "accept after it",
            "completed, 2 requests, stored for alice",
            VISITS,
            |stage| async move {
                let server = stage.start(&stage.plan("link-account")?).await?;
                let (told, exchanges) = linked(&server).await?;
                let completed = match told.as_str() {
                    "The account at tickets.example is linked." => "completed",
                    told => told,
                };
                let requests = count(exchanges.len(), "request", "requests");
                Ok(format!("{completed}, {requests}, {}", stored(&server)?))
            },
        ),
        Case::new(
            SECTION,
            "another person, logged in, opens the link, and submits to it",
            "403 and 403, nothing stored",
            VISITS,
            |stage| async move {
                let asked = Asked::by(&stage).await?;
                let bob = Browser::of("bob", &asked.url).await?;
                let opened = bob.open(&asked.url).await?.status.as_u16();
                let submitted = bob.paste(&asked.url, KEY).await?.status.as_u16();
                asked
                    .nothing_stored(format!("{opened} and {submitted}"))
                    .await
            },
        ),
        Case::new(
            SECTION,
            "the link opened without a login, and submitted to",
            "the login page and the login page, nothing stored",
            VISITS,
            |stage| async move {
                let asked = Asked::by(&stage).await?;
                let stranger = Browser::new()?;
                let mut words = Vec::new();
                for shown in [
                    stranger.open(&asked.url).await?,
                    stranger.paste(&asked.url, KEY).await?,
                ] {
                    let next = match &shown.location {
                        Some(login) => stranger.open(login).await?,
                        None => shown,
                    };
                    let is_login = next.html.contains(r#"name="password""#)
                        && !next.html.contains(r#"name="api_key""#);
                    words.push(match is_login {
                        true => "the login page".to_owned(),
                        false => format!("HTTP {}", next.status.as_u16()),
                    });
                }
                asked.nothing_stored(words.join(" and ")).await
            },
        ),
        Case::new(
            SECTION,
            "the secret pasted into the page, looked for in everything that passed the client",
            "not found, stored for alice",
            Governed::Not("it goes from the browser to the server; nothing of it is the client's"),
            |stage| async move {
                let server = stage.start(&stage.plan("link-account")?).await?;
                let (_, exchanges) = linked(&server).await?;
                // What must pass is found: the handle, as the end of the link and inside both states.
                let link = exchanges.first().map_or(&Value::Null, |first| {
                    &first.answer["result"]["inputRequests"]["link"]["params"]["url"]
                });
                let handle = link.as_str().and_then(|link| link.rsplit('/').next());
                let handle = handle.ok_or_else(|| Fault("no link passed".into()))?;
                let (plain, all) = (
                    exchanges
                        .iter()
                        .flat_map(|exchange| [&exchange.sent, &exchange.received])
                        .map(|passed| passed.matches(handle).count())
                        .sum::<usize>(),
                    passed(&exchanges, handle),
                );
                if plain == 0 || all == plain {
                    return Err(Fault(format!(
                        "the handle was found {plain} times in plain, and {} times in a state",
                        all - plain
                    )));
                }
                let found = match passed(&exchanges, KEY) {
                    0 => "not found".into(),
                    times => format!("found {}", count(times, "time", "times")),
                };
                Ok(format!("{found}, {}", stored(&server)?))
            },
        ),
    ]
}
