//! Connecting, and one line for each case.

use std::io::{self, Write as _};
use std::time::Duration;

use mrtr_client::{BuildError, Client, ClientBuilder, EraChoice, ServerProcess};
use serde_json::{Value, json};
use stage::arguments::{Arguments, UsageError};

use crate::cases::{self, Played};
use crate::people::Person;
use crate::{Failure, TOKEN};

/// Why the client does not start, or cannot say what it saw.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ClientError {
    #[error(transparent)]
    Build(#[from] BuildError),
    #[error("{0}")]
    Io(#[from] io::Error),
}

/// How many rounds a call is carried through, and how many questions one may have. Together they are what a server of the
/// earlier era may ask during a call.
const ROUNDS: u32 = 10;
const QUESTIONS: usize = 3;

/// No request here takes longer, unless something is wrong.
const TIMEOUT: Duration = Duration::from_secs(20);

/// What the command line says.
#[derive(Debug)]
pub(crate) struct Plan {
    to: To,
    era: EraChoice,
    cases: Vec<String>,
}

#[derive(Debug, Clone)]
enum To {
    Url(String),
    Command(Vec<String>),
}

impl To {
    /// The same server where it speaks the earlier era alone: under another path, or with another flag.
    fn earlier_alone(&self) -> Self {
        match self {
            Self::Url(url) => {
                let base = url.strip_suffix("/mcp").unwrap_or(url);
                Self::Url(format!("{base}/earlier"))
            }
            Self::Command(words) => {
                let flag = "--earlier".to_owned();
                Self::Command(words.iter().cloned().chain([flag]).collect())
            }
        }
    }
}

impl Plan {
    pub(crate) fn take(arguments: &mut Arguments) -> Result<Self, Failure> {
        let url = arguments.text("--url")?;
        let command = arguments.text("--command")?;
        let to = match (url, command) {
            (Some(url), None) => To::Url(url),
            (None, Some(command)) => To::Command(words(&command)?),
            _ => return Err(Failure::Argument("give one of --url and --command".into())),
        };
        let era = match arguments.text("--era")?.as_deref() {
            Some("2026-07-28") => EraChoice::Modern,
            Some("2025-11-25") => EraChoice::Earlier,
            _ => {
                let why = "--era is 2026-07-28 or 2025-11-25";
                return Err(Failure::Argument(why.into()));
            }
        };
        let cases = arguments.texts("--case")?;
        Ok(Self { to, era, cases })
    }

    /// Plays the cases one after the other over one connection. After a case that failed there is another one, so that the
    /// next is not blamed.
    pub(crate) async fn play(&self) -> Result<(), ClientError> {
        let person = Person::default();
        let mut client = self.connect(&person)?;
        for case in &self.cases {
            // One server counts the effects of both eras.
            let label = format!("{case} {:?}", self.era);
            let played = match case.as_str() {
                "undeclared" | "undeclared-prompt" => {
                    self.play_undeclared(case, &label, &client).await
                }
                "discovery" => self.play_discovery().await,
                _ => cases::play(case, &label, &client, &person).await,
            };
            say(case, &played)?;
            if played.is_err() {
                client.close().await;
                client = self.connect(&person)?;
            }
        }
        client.close().await;
        Ok(())
    }

    /// A case of a client that handles no question, over a connection of its own.
    async fn play_undeclared(&self, case: &str, label: &str, client: &Client) -> Played {
        let bare = self.builder().build()?;
        let played = cases::play_undeclared(case, label, &bare, client).await;
        bare.close().await;
        played
    }

    /// The case of a client that was not told the era, over a connection of its own. What is said to speak the earlier era speaks that
    /// alone here.
    async fn play_discovery(&self) -> Played {
        let earlier = self.era == EraChoice::Earlier;
        let to = if earlier {
            self.to.earlier_alone()
        } else {
            self.to.clone()
        };
        let client = self.builder_to(&to).era(EraChoice::Auto).build()?;
        let played = cases::play_discovery(&client).await;
        client.close().await;
        played
    }

    fn connect(&self, person: &Person) -> Result<Client, BuildError> {
        person.attend(self.builder()).build()
    }

    fn builder(&self) -> ClientBuilder {
        self.builder_to(&self.to)
    }

    fn builder_to(&self, to: &To) -> ClientBuilder {
        let builder = match to {
            To::Url(url) => Client::builder(url).bearer(TOKEN),
            To::Command(words) => {
                let mut words = words.iter();
                let program = words.next().map(String::as_str).unwrap_or_default();
                Client::stdio("peer", ServerProcess::new(program).args(words))
            }
        };
        builder
            .era(self.era)
            .max_rounds(ROUNDS)
            .max_questions(QUESTIONS)
            .request_timeout(TIMEOUT)
    }
}

fn words(json: &str) -> Result<Vec<String>, UsageError> {
    serde_json::from_str(json).map_err(|error| UsageError::Value {
        flag: "--command",
        why: error.to_string(),
    })
}

/// One line on stdout, at once.
fn say(case: &str, played: &Played) -> io::Result<()> {
    let line: Value = match played {
        Ok(observed) => json!({ "case": case, "observed": observed }),
        Err(failed) => json!({ "case": case, "failed": failed.to_string() }),
    };
    let mut stdout = io::stdout().lock();
    writeln!(stdout, "{line}")?;
    stdout.flush()
}
