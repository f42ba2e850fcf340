//! The kinds: everything that can be asked, everywhere that it can be asked.

use mrtr_client::{Refusal, RootsQuestion, SamplingQuestion};
use mrtr_protocol::sampling::{SamplingBlock, ToolUseContent};
use mrtr_protocol::{
    ContentBlock, CreateMessageResult, JsonObject, RawObject, ResourceContents, Root,
    SamplingContent,
};
use mrtr_testkit::guards::Guard;
use serde_json::{Value, json};

use crate::Fault;
use crate::board::{Case, Governed};
use crate::people::{Desk, Model, Person, count, host};
use crate::wire::Target;

const SECTION: &str = "kinds";
const PLAIN: Governed = Governed::Not("nothing is attacked");
const TOPIC: &str = "the harvest";

/// What a person fills in who does it well.
fn survey() -> Value {
    json!({ "consent": true, "place": "garden", "guests": 4, "email": "ada@example.com" })
}

fn topic() -> Value {
    json!({ "topic": TOPIC })
}

/// `completed` where this is what came, or what came instead.
fn completed(came: &str, hoped: &str) -> String {
    if came == hoped {
        "completed".into()
    } else {
        format!("{came:?}")
    }
}

fn prompted(person: &Person) -> String {
    count(person.prompts(), "prompt", "prompts")
}

pub(crate) fn cases() -> Vec<Case> {
    let mut cases = deprecated();
    cases.extend(rounds());
    cases.extend(forms());
    cases.extend(targets());
    cases.extend(undeclared());
    cases
}

/// Sampling and roots, which are deprecated since 2026-07-28 and served for those who have them.
fn deprecated() -> Vec<Case> {
    vec![
        Case::new(
            SECTION,
            "sampling (\"write me one sentence\", the host's handler answers)",
            "completed, 1 question to the model, 2 requests with different ids",
            PLAIN,
            |stage| async move {
                const SENTENCE: &str = "The apples are in.";
                let server = stage.start(&stage.plan("briefing")?).await?;
                let model = Model::saying(json!({ "sentence": SENTENCE }));
                let (client, recording) =
                    host(&server.url, |builder| builder.on_sampling(model.clone()))?;
                let result = client.call_tool("sentence", json!({})).await?;
                let told = model.told();
                if told.iter().any(|told| told != "Write me one sentence.") {
                    return Err(Fault(format!("the model was told {told:?}")));
                }
                Ok(format!(
                    "{}, {} to the model, {}",
                    completed(&result.joined_text(), SENTENCE),
                    count(told.len(), "question", "questions"),
                    recording.requests_in_words()
                ))
            },
        ),
        Case::new(
            SECTION,
            "sampling with a tool of the server's, which the model uses once",
            "completed, 3 requests with different ids",
            PLAIN,
            |stage| async move {
                let server = stage.start(&stage.plan("briefing")?).await?;
                let (client, recording) = host(&server.url, |builder| {
                    builder.on_sampling(counts_its_words).with_sampling_tools()
                })?;
                let result = client.call_tool("sentence_with_tools", json!({})).await?;
                Ok(format!(
                    "{}, {}",
                    completed(&result.joined_text(), &format!("{SEVEN} (7 words)")),
                    recording.requests_in_words()
                ))
            },
        ),
        Case::new(
            SECTION,
            "roots",
            "completed, 2 requests with different ids",
            PLAIN,
            |stage| async move {
                let server = stage.start(&stage.plan("briefing")?).await?;
                let folders = vec![
                    Root::new("file:///home/ada/notes")?.named("Notes"),
                    Root::new("file:///srv/harvest")?,
                ];
                let (client, recording) = host(&server.url, |builder| {
                    builder.on_roots(move |_: RootsQuestion| {
                        let folders = folders.clone();
                        async move { Ok(folders) }
                    })
                })?;
                let result = client.call_tool("folders", json!({})).await?;
                let hoped = "Notes: file:///home/ada/notes\nfile:///srv/harvest";
                Ok(format!(
                    "{}, {}",
                    completed(&result.joined_text(), hoped),
                    recording.requests_in_words()
                ))
            },
        ),
    ]
}

const SEVEN: &str = "The last apples came in at dusk.";

/// A model that has the words of its sentence counted, and says what came of it.
async fn counts_its_words(question: SamplingQuestion) -> Result<CreateMessageResult, Refusal> {
    let messages = question.params.messages.iter();
    let counted = messages
        .flat_map(|message| message.content.blocks())
        .find_map(|block| match block {
            SamplingBlock::ToolResult(result) => result.content.first(),
            _ => None,
        });
    let said = match counted {
        Some(ContentBlock::Text(count)) => format!("{SEVEN} ({})", count.text).into(),
        Some(_) => return Err(Refusal::new("the tool came to no text")),
        None => {
            let input = JsonObject::from_serialize(&json!({ "text": SEVEN }));
            SamplingContent::One(SamplingBlock::ToolUse(ToolUseContent {
                id: "use-1".into(),
                name: "count_words".into(),
                input: input.map_err(|error| Refusal::new(error.to_string()))?,
                meta: RawObject::new(),
            }))
        }
    };
    Ok(CreateMessageResult::new("a model of the demo's", said))
}

fn rounds() -> Vec<Case> {
    vec![
        Case::new(
            SECTION,
            "three questions in one round",
            "each put once, 2 requests with different ids, all answers used",
            PLAIN,
            |stage| async move {
                let server = stage.start(&stage.plan("questions")?).await?;
                let person = Person::fills_in(json!({
                    "starter": { "dish": "soup" },
                    "main": { "dish": "pie" },
                    "dessert": { "dish": "figs" },
                }));
                let desk = Desk::new(&server.url, person)?;
                desk.call("several", json!({})).await?;
                let asked = desk.person.asked();
                let put = if asked == ["dessert", "main", "starter"] {
                    "each put once".into()
                } else {
                    format!("put: {asked:?}")
                };
                let meal = json!({ "starter": "soup", "main": "pie", "dessert": "figs" });
                Ok(format!(
                    "{put}, {}, {}",
                    desk.requests_in_words(),
                    kept(&server.record()?, &meal, "all answers used")
                ))
            },
        ),
        Case::new(
            SECTION,
            "two rounds",
            "2 prompts, 3 requests with different ids, both answers kept",
            PLAIN,
            |stage| async move {
                let server = stage.start(&stage.plan("questions")?).await?;
                let person = Person::fills_in(json!({
                    "destination": { "town": "Ghent" },
                    "nights": { "nights": 3 },
                }));
                let desk = Desk::new(&server.url, person)?;
                desk.call("two_rounds", json!({})).await?;
                let stay = json!({ "town": "Ghent", "nights": 3 });
                Ok(format!(
                    "{}, {}, {}",
                    prompted(&desk.person),
                    desk.requests_in_words(),
                    kept(&server.record()?, &stay, "both answers kept")
                ))
            },
        ),
    ]
}

/// `words` where the record holds this one value, and what it holds otherwise.
fn kept(record: &[stage::record::Entry], value: &Value, words: &str) -> String {
    match record {
        [only] if only.value == *value => words.into(),
        other => format!("recorded {other:?}"),
    }
}

fn forms() -> Vec<Case> {
    let bad = |case: &str, field: &'static str, value: Value| {
        Case::new(
            SECTION,
            format!("the same form, {case}"),
            "asked again, 0 entries",
            Governed::Not(
                "an answer is held against the schema that was published; there is no switch",
            ),
            move |stage| {
                let value = value.clone();
                async move {
                    let server = stage.start(&stage.plan("questions")?).await?;
                    let wire = server.wire();
                    let answer = |content: &Value| json!({ "survey": { "action": "accept", "content": content } });
                    let asked = wire.call("survey", &json!({})).await?;
                    let mut content = survey();
                    content[field] = value;
                    let again = wire
                        .retry("survey", &json!({}), &answer(&content), asked.state()?)
                        .await?;
                    let words = match again.asks() {
                        true => "asked again".to_owned(),
                        false => again.in_words(),
                    };
                    let entries = count(server.record()?.len(), "entry", "entries");
                    // The same form, filled in well, is good.
                    wire.retry("survey", &json!({}), &answer(&survey()), again.state()?)
                        .await?;
                    match kept(&server.record()?, &survey(), "kept").as_str() {
                        "kept" => Ok(format!("{words}, {entries}")),
                        other => Err(Fault(format!("after a good answer: {other}"))),
                    }
                }
            },
        )
    };
    vec![
        Case::new(
            SECTION,
            "a form with confirmation, choice, number, email",
            "1 prompt, 2 requests with different ids, typed",
            PLAIN,
            |stage| async move {
                let server = stage.start(&stage.plan("questions")?).await?;
                let desk = Desk::new(&server.url, Person::fills_in(json!({ "survey": survey() })))?;
                desk.call("survey", json!({})).await?;
                Ok(format!(
                    "{}, {}, {}",
                    prompted(&desk.person),
                    desk.requests_in_words(),
                    kept(&server.record()?, &survey(), "typed")
                ))
            },
        ),
        bad("the confirmation is \"yes\"", "consent", json!("yes")),
        bad(
            "the choice is none of those offered",
            "place",
            json!("roof"),
        ),
        bad("the number is out of bounds", "guests", json!(13)),
        bad("the email is none", "email", json!("ada at example")),
    ]
}

fn targets() -> Vec<Case> {
    vec![
        Case::new(
            SECTION,
            "a round on prompts/get",
            "completed, 1 prompt, 2 requests with different ids",
            PLAIN,
            |stage| async move {
                let server = stage.start(&stage.plan("briefing")?).await?;
                let person = Person::fills_in(json!({ "audience": { "audience": "board" } }));
                let (client, recording) =
                    host(&server.url, |builder| builder.on_form(person.clone()))?;
                let result = client.get_prompt("briefing", topic()).await?;
                let text = match result.messages.as_slice() {
                    [only] => match &only.content {
                        ContentBlock::Text(content) => content.text.as_str(),
                        _ => "no text",
                    },
                    _ => "not one message",
                };
                Ok(format!(
                    "{}, {}, {}",
                    completed(
                        text,
                        "Brief the board about the harvest, in three sentences."
                    ),
                    prompted(&person),
                    recording.requests_in_words()
                ))
            },
        ),
        Case::new(
            SECTION,
            "a round on resources/read",
            "completed, 1 prompt, 2 requests with different ids",
            PLAIN,
            |stage| async move {
                let server = stage.start(&stage.plan("briefing")?).await?;
                let person = Person::fills_in(json!({ "audience": { "audience": "public" } }));
                let (client, recording) =
                    host(&server.url, |builder| builder.on_form(person.clone()))?;
                let result = client.read_resource("briefing://today").await?;
                let hoped = ResourceContents::text(
                    "briefing://today",
                    "Today, for the public: nothing has happened yet.",
                );
                let completed = if result.contents == [hoped] {
                    "completed".into()
                } else {
                    format!("{:?}", result.contents)
                };
                Ok(format!(
                    "{completed}, {}, {}",
                    prompted(&person),
                    recording.requests_in_words()
                ))
            },
        ),
        Case::new(
            SECTION,
            "a state of the tool `briefing` on the prompt `briefing`",
            "belongs to a different request",
            Governed::By(Guard::Request),
            |stage| async move {
                let server = stage.start(&stage.plan("briefing")?).await?;
                let wire = server.wire();
                let topic = topic();
                let (tool, prompt) = (
                    Target::Tool("briefing", &topic),
                    Target::Prompt("briefing", &topic),
                );
                let asked = wire.request(tool, &json!({})).await?;
                let retry = json!({
                    "inputResponses": { "audience": { "action": "accept", "content": { "audience": "board" } } },
                    "requestState": asked.state()?,
                });
                let crossed = wire.request(prompt, &retry).await?;
                // At home it is good, and so is a state of the prompt's own.
                let at_home = wire.request(tool, &retry).await?.in_words();
                let asked = wire.request(prompt, &json!({})).await?;
                let mut retry = retry;
                retry["requestState"] = asked.state()?.into();
                let own = wire.request(prompt, &retry).await?.in_words();
                match (at_home.as_str(), own.as_str()) {
                    ("accepted", "accepted") => Ok(crossed.in_words()),
                    _ => Err(Fault(format!("at home: {at_home}; its own: {own}"))),
                }
            },
        ),
    ]
}

/// A kind that the client did not declare is not asked for; the client is told what it would have to declare.
fn undeclared() -> Vec<Case> {
    let row = |case: &str,
               example: &'static str,
               tool: &'static str,
               declared: Value,
               required: Value| {
        Case::new(
            SECTION,
            case,
            format!("-32021 requiring {required}, nothing asked"),
            Governed::Not("the client did not declare it; there is no switch"),
            move |stage| {
                let (declared, required) = (declared.clone(), required.clone());
                async move {
                    let server = stage.start(&stage.plan(example)?).await?;
                    let answer = server
                        .wire()
                        .declaring(declared)
                        .call(tool, &json!({}))
                        .await?;
                    // A client that declares what is required is asked.
                    let declaring = server.wire().declaring(required);
                    declaring.call(tool, &json!({})).await?.state()?;
                    Ok(answer.undeclared_in_words())
                }
            },
        )
    };
    let form = json!({ "elicitation": { "form": {} } });
    let url = json!({ "elicitation": { "url": {} } });
    let sampling = json!({ "sampling": {} });
    vec![
        row(
            "a page to a client that declared forms only",
            "link-account",
            "link_account",
            form.clone(),
            url.clone(),
        ),
        row(
            "a form to a client that declared pages only",
            "questions",
            "survey",
            url,
            form.clone(),
        ),
        row(
            "sampling, undeclared",
            "briefing",
            "sentence",
            form.clone(),
            sampling.clone(),
        ),
        row(
            "sampling with tools to a client that declared sampling",
            "briefing",
            "sentence_with_tools",
            sampling,
            json!({ "sampling": { "tools": {} } }),
        ),
        row(
            "roots, undeclared",
            "briefing",
            "folders",
            form,
            json!({ "roots": {} }),
        ),
    ]
}
