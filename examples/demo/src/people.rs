//! The people at the client: who answers, and what.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use mrtr_client::{
    Client, ClientBuilder, EraChoice, FormAnswer, FormHandler, FormQuestion, HandlerFuture,
    Refusal, SamplingHandler, SamplingQuestion,
};
use mrtr_protocol::CreateMessageResult;
use serde_json::{Value, json};

use crate::Fault;
use crate::wire::{Exchange, Recording};

/// A person at forms, and what they were asked.
#[derive(Clone)]
pub(crate) struct Person {
    answers: Answers,
    asked: Arc<Mutex<Vec<String>>>,
}

#[derive(Clone)]
enum Answers {
    /// The same to every form.
    Always(Result<FormAnswer, &'static str>),
    /// This content, by the question's key.
    ByKey(Value),
    /// These values, by the name of the field. In the earlier era a question has no key.
    ByField(Value),
}

impl Person {
    fn new(answers: Answers) -> Self {
        Self {
            answers,
            asked: Arc::default(),
        }
    }

    /// Ticks the box and submits.
    pub(crate) fn says_yes() -> Self {
        let yes = FormAnswer::Accept(json!({ "ok": true }));
        Self::new(Answers::Always(Ok(yes)))
    }

    /// Submits without ticking the box.
    pub(crate) fn leaves_the_box() -> Self {
        let unticked = FormAnswer::Accept(json!({ "ok": false }));
        Self::new(Answers::Always(Ok(unticked)))
    }

    pub(crate) fn declines() -> Self {
        Self::new(Answers::Always(Ok(FormAnswer::Decline)))
    }

    pub(crate) fn dismisses() -> Self {
        Self::new(Answers::Always(Ok(FormAnswer::Cancel)))
    }

    /// Not the person: the host refuses to show the question at all.
    pub(crate) fn is_not_asked_by_the_host() -> Self {
        Self::new(Answers::Always(Err(
            "this host shows no forms of this server",
        )))
    }

    /// Submits the content that stands here under the question's key.
    pub(crate) fn fills_in(content: Value) -> Self {
        Self::new(Answers::ByKey(content))
    }

    /// Submits the values that stand here under the fields' names; a field without one is left out.
    pub(crate) fn fills_in_fields(values: Value) -> Self {
        Self::new(Answers::ByField(values))
    }

    pub(crate) fn prompts(&self) -> usize {
        self.asked().len()
    }

    /// The keys of the questions, sorted: one that was put twice stands here twice.
    pub(crate) fn asked(&self) -> Vec<String> {
        let mut asked = noted(&self.asked).clone();
        asked.sort();
        asked
    }
}

impl FormHandler for Person {
    fn answer(&self, question: FormQuestion) -> HandlerFuture<'_> {
        let answer = match &self.answers {
            Answers::Always(answer) => answer.clone().map_err(Refusal::new),
            Answers::ByKey(content) => match content.get(&question.key) {
                Some(content) => Ok(FormAnswer::Accept(content.clone())),
                None => Err(Refusal::new(format!("nobody answers {:?}", question.key))),
            },
            Answers::ByField(values) => {
                let fields = question.schema.fields.iter();
                let filled = fields.filter_map(|field| {
                    let value = values.get(&field.name)?;
                    Some((field.name.clone(), value.clone()))
                });
                Ok(FormAnswer::Accept(Value::Object(filled.collect())))
            }
        };
        noted(&self.asked).push(question.key);
        Box::pin(async move { answer })
    }
}

/// A host's model that says what stands here under the question's key, or else under a part of what it is told last; and what
/// it was told.
#[derive(Clone)]
pub(crate) struct Model {
    says: Value,
    told: Arc<Mutex<Vec<String>>>,
}

impl Model {
    pub(crate) fn saying(says: Value) -> Self {
        Self {
            says,
            told: Arc::default(),
        }
    }

    /// The last message of each question, in their order.
    pub(crate) fn told(&self) -> Vec<String> {
        noted(&self.told).clone()
    }
}

impl SamplingHandler for Model {
    fn answer(&self, question: SamplingQuestion) -> HandlerFuture<'_, CreateMessageResult> {
        let last = question.params.messages.last();
        let last = last.map_or(String::new(), |last| last.content.joined_text());
        let says = self.says.as_object().into_iter().flatten();
        let said = says.into_iter().find_map(|(to, says)| {
            (*to == question.key || last.contains(to)).then(|| says.as_str())?
        });
        noted(&self.told).push(last);
        let said = match said {
            Some(said) => Ok(CreateMessageResult::new("a model of the demo's", said)),
            None => Err(Refusal::new(format!("no model answers {:?}", question.key))),
        };
        Box::pin(async move { said })
    }
}

fn noted<T>(notes: &Mutex<T>) -> MutexGuard<'_, T> {
    notes.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A client of alice's with these handlers, and the record of what passes it.
pub(crate) fn host(
    url: &str,
    handlers: impl FnOnce(ClientBuilder) -> ClientBuilder,
) -> Result<(Client, Recording), Fault> {
    let recording = Recording::new()?;
    let builder = Client::builder(url)
        .bearer("alice-token")
        .transport(recording.clone());
    Ok((handlers(builder).build()?, recording))
}

/// A client of alice's in the earlier era, with these handlers. Its streams pass by themselves, so that nothing is noted.
pub(crate) fn earlier_host(
    url: &str,
    handlers: impl FnOnce(ClientBuilder) -> ClientBuilder,
) -> Result<Client, Fault> {
    let builder = Client::builder(url)
        .bearer("alice-token")
        .era(EraChoice::Earlier);
    Ok(handlers(builder).build()?)
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
        let (client, recording) = host(url, |builder| {
            builder.max_rounds(max_rounds).on_form(person.clone())
        })?;
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
        self.recording.requests_in_words()
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
