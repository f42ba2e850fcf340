//! Who answers, and what was asked of them.
//!
//! The three clients of the matrix answer alike: a field by its name, the model with "Paris", the folders with two.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use mrtr_client::protocol::{CreateMessageResult, Root};
use mrtr_client::{
    ClientBuilder, FormAnswer, FormQuestion, Refusal, RootsQuestion, SamplingQuestion, UrlAnswer,
    UrlQuestion,
};
use serde_json::{Map, Value, json};

/// What the person does with a form.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Mood {
    #[default]
    Accept,
    Decline,
    Cancel,
}

/// The person in front of the client.
#[derive(Debug, Clone, Default)]
pub(crate) struct Person(Arc<Mutex<Memory>>);

#[derive(Debug, Default)]
struct Memory {
    mood: Mood,
    asked: Vec<Value>,
}

impl Person {
    /// Forgets what was asked, for another case.
    pub(crate) fn begin(&self, mood: Mood) {
        *self.lock() = Memory {
            mood,
            asked: Vec::new(),
        };
    }

    /// What was asked, in an order that does not depend on which of two came first.
    pub(crate) fn asked(&self) -> Value {
        let mut asked = self.lock().asked.clone();
        asked.sort_by_key(Value::to_string);
        Value::Array(asked)
    }

    /// How many questions there were.
    pub(crate) fn count(&self) -> usize {
        self.lock().asked.len()
    }

    fn lock(&self) -> MutexGuard<'_, Memory> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn note(&self, question: Value) {
        self.lock().asked.push(question);
    }

    /// Registers this person for every kind of question.
    pub(crate) fn attend(&self, builder: ClientBuilder) -> ClientBuilder {
        let (forms, pages, model, folders) =
            (self.clone(), self.clone(), self.clone(), self.clone());
        builder
            .on_form(move |question: FormQuestion| {
                let answer = forms.fill_in(&question);
                async { Ok(answer) }
            })
            .on_url(move |question: UrlQuestion| pages.clone().open(question))
            .on_sampling(move |question: SamplingQuestion| {
                let answer = model.say(&question);
                async { Ok(answer) }
            })
            .on_roots(move |_: RootsQuestion| {
                folders.note(json!({ "kind": "roots" }));
                async { own_folders() }
            })
    }

    pub(crate) fn fill_in(&self, question: &FormQuestion) -> FormAnswer {
        let fields = question.schema.fields.iter().map(|field| &*field.name);
        self.note(form(&question.message, fields.clone()));
        let mood = self.lock().mood;
        match mood {
            Mood::Accept => FormAnswer::Accept(content(fields)),
            Mood::Decline => FormAnswer::Decline,
            Mood::Cancel => FormAnswer::Cancel,
        }
    }

    /// Opens the page, as a browser would, and says so.
    async fn open(self, question: UrlQuestion) -> Result<UrlAnswer, Refusal> {
        let refused = |error: reqwest::Error| Refusal::new(error.to_string());
        let page = reqwest::get(question.url.as_str()).await.map_err(refused)?;
        self.note(json!({
            "kind": "url",
            "message": question.message,
            "page": page.status().as_u16(),
        }));
        Ok(UrlAnswer::Accept)
    }

    fn say(&self, question: &SamplingQuestion) -> CreateMessageResult {
        let messages: Vec<String> = question
            .params
            .messages
            .iter()
            .map(|message| message.content.joined_text())
            .collect();
        self.note(json!({
            "kind": "sampling",
            "messages": messages,
            "max_tokens": question.params.max_tokens,
        }));
        CreateMessageResult::new("interop-model", "Paris")
    }
}

/// How a form is noted: its message, and its fields in the order of their names.
fn form<'a>(message: &str, fields: impl Iterator<Item = &'a str>) -> Value {
    let mut fields: Vec<&str> = fields.collect();
    fields.sort_unstable();
    json!({ "kind": "form", "message": message, "fields": fields })
}

fn own_folders() -> Result<Vec<Root>, Refusal> {
    ["file:///work/one", "file:///work/two"]
        .into_iter()
        .map(|uri| Root::new(uri).map_err(|error| Refusal::new(error.to_string())))
        .collect()
}

/// What is written into these fields.
pub(crate) fn content<'a>(fields: impl Iterator<Item = &'a str>) -> Value {
    let filled: Map<String, Value> = fields
        .map(|field| {
            let value = match field {
                "quantity" => json!(3),
                "gift" => json!(true),
                "from" => json!("Oslo"),
                "to" => json!("Rome"),
                "name" => json!("Ada"),
                "colour" => json!("green"),
                _ => json!("more"),
            };
            (field.to_owned(), value)
        })
        .collect();
    Value::Object(filled)
}
