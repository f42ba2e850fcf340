//! What is done in each case, and what is reported of it. What it should have been stands in `interop/cases.json`.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use mrtr_client::protocol::SubscriptionFilter;
use mrtr_client::{
    Abandoned, BuildError, CallError, Change, Client, Completed, Ended, PendingCall, Progress,
    ProgressReport, RequestError,
};
use serde_json::{Value, json};
use tokio::sync::Notify;
use tokio::time::sleep;

use crate::people::{Mood, Person};

/// How often, and how far apart, a client looks for an effect that comes a while later.
const LOOKS: u32 = 200;
const BETWEEN_LOOKS: Duration = Duration::from_millis(25);

/// What was observed, or why the case was not played to its end.
pub(crate) type Played = Result<Value, Fault>;

/// Why a case was not played to its end.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Fault {
    #[error(transparent)]
    Build(#[from] BuildError),
    #[error("there is no such case here")]
    Unknown,
    #[error(transparent)]
    Call(Box<CallError>),
    #[error(transparent)]
    Request(#[from] RequestError),
    #[error(transparent)]
    Ended(#[from] Ended),
    #[error("the call ended without a question")]
    NotAsked,
    #[error("the call has no state")]
    NoState,
    #[error("the call has no item")]
    NoItem,
    #[error("the stored call is not as it was: {0}")]
    Stored(#[from] serde_json::Error),
}

impl From<CallError> for Fault {
    fn from(error: CallError) -> Self {
        Self::Call(Box::new(error))
    }
}

/// Plays a case over this connection, with this person in front of it. Its effects are counted under this label.
pub(crate) async fn play(case: &str, label: &str, client: &Client, person: &Person) -> Played {
    let mood = match case {
        "form-declined" => Mood::Decline,
        "form-cancelled" => Mood::Cancel,
        _ => Mood::Accept,
    };
    person.begin(mood);
    let scene = Scene {
        label,
        client,
        person,
    };
    match case {
        "plain" => scene.plain().await,
        "form-accepted" | "form-declined" | "form-cancelled" => {
            scene
                .asking("order", json!({ "label": label, "item": "tea" }))
                .await
        }
        "two-rounds" => scene.asking("travel", json!({ "label": label })).await,
        "several-questions" => scene.asking("survey", json!({ "label": label })).await,
        "several-kinds" => scene.asking("gather", json!({})).await,
        "url" => scene.asking("visit", json!({ "label": label })).await,
        "sampling" => scene.asking("ask_model", json!({})).await,
        "roots" => scene.asking("folders", json!({})).await,
        "prompt" => scene.prompt().await,
        "resource" => scene.resource().await,
        "progress" => scene.progress().await,
        "cancelled-call" => scene.cancelled().await,
        "subscription" => scene.subscription().await,
        "tampered-state" => scene.tampered().await,
        "other-arguments" => scene.other_arguments().await,
        "replayed-state" => scene.replayed().await,
        "too-many-rounds" => scene.endless().await,
        _ => Err(Fault::Unknown),
    }
}

/// Plays the case of a client that was not told the era.
pub(crate) async fn play_discovery(client: &Client) -> Played {
    let result = client.call_tool("add", json!({ "a": 2, "b": 40 })).await?;
    let era = client.era().map(|era| era.to_string());
    Ok(json!({ "era": era, "text": result.joined_text() }))
}

/// Plays a case of a client that handles no question; the other one asks for the effects.
pub(crate) async fn play_undeclared(
    case: &str,
    label: &str,
    bare: &Client,
    client: &Client,
) -> Played {
    let ended = match case {
        "undeclared" => {
            let arguments = json!({ "label": label, "item": "tea" });
            let result = bare.call_tool("order", arguments).await;
            result.map(|result| match result.is_error {
                true => json!({ "is_error": true }),
                false => json!({ "text": result.joined_text() }),
            })
        }
        _ => {
            let result = bare.get_prompt("greeting", json!({ "tone": "warm" })).await;
            result.map(|result| json!({ "text": Completed::Prompt(result).joined_text() }))
        }
    };
    let ended = match ended {
        Ok(result) => result,
        Err(CallError::Rpc { source, .. }) => json!({ "error": source.error.code }),
        Err(CallError::Abandoned {
            why: Abandoned::Unhandled { .. },
            ..
        }) => json!({ "asked": "all the same" }),
        Err(error) => return Err(error.into()),
    };
    let label = json!({ "label": label });
    let effects = client.call_tool("effects", label).await?;
    Ok(json!({ "ended": ended, "effects": effects.joined_text() }))
}

struct Scene<'a> {
    label: &'a str,
    client: &'a Client,
    person: &'a Person,
}

impl Scene<'_> {
    async fn plain(&self) -> Played {
        let sum = json!({ "a": 2, "b": 40 });
        let result = self.client.call_tool("add", sum).await?;
        Ok(json!({ "text": result.joined_text() }))
    }

    async fn asking(&self, tool: &str, arguments: Value) -> Played {
        let result = self.client.call_tool(tool, arguments).await?;
        Ok(json!({
            "text": result.joined_text(),
            "asked": self.person.asked(),
            "effects": self.effects().await?,
        }))
    }

    /// How often the server did something for this case.
    async fn effects(&self) -> Played {
        let label = json!({ "label": self.label });
        let result = self.client.call_tool("effects", label).await?;
        Ok(json!(result.joined_text()))
    }

    async fn prompt(&self) -> Played {
        let tone = json!({ "tone": "warm" });
        let result = self.client.get_prompt("greeting", tone).await?;
        Ok(json!({
            "text": Completed::Prompt(result).joined_text(),
            "asked": self.person.asked(),
        }))
    }

    async fn resource(&self) -> Played {
        let result = self.client.read_resource("interop://letter").await?;
        Ok(json!({
            "text": Completed::Resource(result).joined_text(),
            "asked": self.person.asked(),
        }))
    }

    async fn progress(&self) -> Played {
        let reports = Arc::new(Mutex::new(Vec::new()));
        let heard = Arc::clone(&reports);
        let client = self.client.with_progress(move |report: ProgressReport| {
            let report = json!([report.progress, report.total, report.message]);
            heard
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .push(report);
        });
        let result = client.call_tool("count", json!({})).await?;
        let reports = reports
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone();
        Ok(json!({ "text": result.joined_text(), "reports": reports }))
    }

    /// A call that is given up once its body has begun, and what the body noticed of that.
    async fn cancelled(&self) -> Played {
        let begun = Arc::new(Notify::new());
        let heard = Arc::clone(&begun);
        let client = self
            .client
            .with_progress(move |_: ProgressReport| heard.notify_one());
        let label = json!({ "label": self.label });
        let ended = tokio::select! {
            result = client.call_tool("wait", label) => result?.joined_text(),
            () = begun.notified() => "given up".to_owned(),
        };
        // Nothing tells when the body has noticed.
        let mut effects = self.effects().await?;
        for _ in 0..LOOKS {
            if effects != "0" {
                break;
            }
            sleep(BETWEEN_LOOKS).await;
            effects = self.effects().await?;
        }
        Ok(json!({ "ended": ended, "effects": effects }))
    }

    async fn subscription(&self) -> Played {
        let filter = SubscriptionFilter {
            resource_subscriptions: vec!["interop://board".to_owned()],
            ..SubscriptionFilter::default()
        };
        let mut subscription = self.client.listen(filter).await?;
        let acknowledged = subscription.acknowledged().resource_subscriptions.clone();
        if acknowledged.is_empty() {
            // Nothing would ever come.
            return Ok(json!({ "acknowledged": acknowledged }));
        }
        let label = json!({ "label": self.label });
        let result = self.client.call_tool("write", label).await?;
        let changed = match subscription.next().await? {
            Change::Resource { uri } => uri,
            other => format!("{other:?}"),
        };
        Ok(json!({
            "text": result.joined_text(),
            "acknowledged": acknowledged,
            "changed": changed,
            "effects": self.effects().await?,
        }))
    }

    /// A call of `order` whose question is answered, and which has not been resumed.
    async fn answered(&self) -> Result<PendingCall, Fault> {
        let arguments = json!({ "label": self.label, "item": "tea" });
        let mut pending = match self.client.begin("order", arguments).await? {
            Progress::InputRequired(pending) => *pending,
            Progress::Done(_) => return Err(Fault::NotAsked),
        };
        let keys: Vec<String> = pending.unanswered().map(str::to_owned).collect();
        for key in keys {
            let content = crate::people::content(["quantity", "gift"].into_iter());
            let answer = mrtr_client::FormAnswer::Accept(content);
            pending.answer(&key, &answer).map_err(|_| Fault::NotAsked)?;
        }
        Ok(pending)
    }

    /// What became of a retry: its text, or the code of the error.
    async fn retried(&self, pending: PendingCall) -> Played {
        Ok(match self.client.resume(pending).await {
            Ok(Progress::Done(result)) => json!({ "text": result.joined_text() }),
            Ok(Progress::InputRequired(_)) => json!({ "asked": "again" }),
            Err(CallError::Rpc { source, .. }) => json!({ "error": source.error.code }),
            Err(error) => return Err(error.into()),
        })
    }

    async fn tampered(&self) -> Played {
        let pending = self.answered().await?;
        let refused = self.retried(changed(&pending)?).await?;
        let effects = self.effects().await?;
        let taken = self.retried(pending).await?;
        Ok(json!({
            "tampered": refused,
            "effects_after_tampered": effects,
            "genuine": taken,
            "effects": self.effects().await?,
        }))
    }

    async fn other_arguments(&self) -> Played {
        let pending = self.answered().await?;
        let refused = self.retried(with_other_item(&pending)?).await?;
        Ok(json!({ "other": refused, "effects": self.effects().await? }))
    }

    async fn replayed(&self) -> Played {
        let pending = self.answered().await?;
        let first = self.retried(pending.clone()).await?;
        let second = self.retried(pending).await?;
        Ok(json!({ "first": first, "second": second, "effects": self.effects().await? }))
    }

    async fn endless(&self) -> Played {
        let ended = match self.client.call_tool("endless", json!({})).await {
            Err(CallError::Abandoned {
                why: Abandoned::TooManyRounds { .. } | Abandoned::TooManyQuestions { .. },
                ..
            }) => "by the client",
            Ok(result) if result.is_error => "by the server",
            Ok(_) => "by a result",
            Err(CallError::Rpc { .. }) => "by an error",
            Err(error) => return Err(error.into()),
        };
        Ok(json!({ "ended": ended, "questions": self.person.count() }))
    }
}

/// The same call with one character of its state changed, as no API does it: in what is stored.
fn changed(pending: &PendingCall) -> Result<PendingCall, Fault> {
    let mut stored = serde_json::to_value(pending)?;
    let state = stored.get_mut("state").ok_or(Fault::NoState)?;
    let mut characters: Vec<char> = state.as_str().ok_or(Fault::NoState)?.chars().collect();
    let middle = characters.len() / 2;
    let character = characters.get_mut(middle).ok_or(Fault::NoState)?;
    *character = if *character == 'A' { 'B' } else { 'A' };
    *state = characters.into_iter().collect::<String>().into();
    Ok(serde_json::from_value(stored)?)
}

/// The same call for something else, with the state of this one.
fn with_other_item(pending: &PendingCall) -> Result<PendingCall, Fault> {
    let mut stored = serde_json::to_value(pending)?;
    let item = stored.pointer_mut("/arguments/item").ok_or(Fault::NoItem)?;
    *item = json!("coffee");
    Ok(serde_json::from_value(stored)?)
}
