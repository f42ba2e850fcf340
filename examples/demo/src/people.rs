//! The people at the client: who answers, and what.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use mrtr_client::{Client, FormAnswer, FormHandler, FormQuestion, HandlerFuture, Refusal};
use serde_json::{Value, json};

use crate::Fault;
use crate::wire::{Exchange, Recording};

/// A person who gives the same answer to every form, and how often they were asked.
#[derive(Clone)]
pub(crate) struct Person {
    answer: Result<FormAnswer, &'static str>,
    prompts: Arc<AtomicUsize>,
}

impl Person {
    fn new(answer: Result<FormAnswer, &'static str>) -> Self {
        Self {
            answer,
            prompts: Arc::default(),
        }
    }

    /// Ticks the box and submits.
    pub(crate) fn says_yes() -> Self {
        Self::new(Ok(FormAnswer::Accept(json!({ "ok": true }))))
    }

    /// Submits without ticking the box.
    pub(crate) fn leaves_the_box() -> Self {
        Self::new(Ok(FormAnswer::Accept(json!({ "ok": false }))))
    }

    pub(crate) fn declines() -> Self {
        Self::new(Ok(FormAnswer::Decline))
    }

    pub(crate) fn dismisses() -> Self {
        Self::new(Ok(FormAnswer::Cancel))
    }

    /// Not the person: the host refuses to show the question at all.
    pub(crate) fn is_not_asked_by_the_host() -> Self {
        Self::new(Err("this host shows no forms of this server"))
    }

    pub(crate) fn prompts(&self) -> usize {
        self.prompts.load(Ordering::SeqCst)
    }
}

impl FormHandler for Person {
    fn answer(&self, _: FormQuestion) -> HandlerFuture<'_> {
        self.prompts.fetch_add(1, Ordering::SeqCst);
        let answer = self.answer.clone();
        Box::pin(async move { answer.map_err(Refusal::new) })
    }
}

/// A client with a person at it, whose exchanges are noted.
pub(crate) struct Desk {
    pub(crate) client: Client,
    pub(crate) person: Person,
    recording: Recording,
}

impl Desk {
    pub(crate) fn new(url: &str, person: Person) -> Result<Self, Fault> {
        Self::with_limit(url, person, 10)
    }

    pub(crate) fn with_limit(url: &str, person: Person, max_rounds: u32) -> Result<Self, Fault> {
        let recording = Recording::new()?;
        let client = Client::builder(url)
            .bearer("alice-token")
            .max_rounds(max_rounds)
            .on_form(person.clone())
            .transport(recording.clone())
            .build()?;
        Ok(Self {
            client,
            person,
            recording,
        })
    }

    /// Calls a tool and returns the text that the model reads.
    pub(crate) async fn call(&self, tool: &str, arguments: Value) -> Result<String, Fault> {
        let result = self
            .client
            .call_tool(tool, arguments)
            .await
            .map_err(|error| Fault(error.to_string()))?;
        Ok(result.joined_text())
    }

    pub(crate) fn exchanges(&self) -> Vec<Exchange> {
        self.recording.exchanges()
    }

    /// `2 requests with different ids`, as they crossed the wire.
    pub(crate) fn requests_in_words(&self) -> String {
        let exchanges = self.exchanges();
        let mut ids: Vec<String> = exchanges
            .iter()
            .map(|exchange| exchange.request["id"].to_string())
            .collect();
        ids.sort();
        ids.dedup();
        match (exchanges.len(), ids.len()) {
            (1, 1) => "1 request".into(),
            (requests, different) if requests == different => {
                format!("{requests} requests with different ids")
            }
            (requests, different) => format!("{requests} requests with {different} ids"),
        }
    }
}

/// `1 entry`, `2 entries`.
pub(crate) fn count(number: usize, one: &str, many: &str) -> String {
    if number == 1 {
        format!("1 {one}")
    } else {
        format!("{number} {many}")
    }
}
