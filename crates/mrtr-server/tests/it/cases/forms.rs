//! Cases 156 to 177: what a form may ask, and what counts as an answer to it.

use std::time::{Duration, Instant};

use mrtr_server::protocol::{FormSchema, InputRequest, JsonObject};
use mrtr_server::{Answer, Flow, Form, QuestionError, Rendered, State, ToolError, tool};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};

use super::{Refusal, asked_again, refused, works};
use crate::bank::{Bank, Call, Effects, Reply, accept};

/// A form's `requestedSchema`, as an author writes it by hand.
#[derive(Clone)]
struct Schema(&'static str);

impl Schema {
    fn render(&self) -> Result<Rendered, QuestionError> {
        let schema = JsonObject::parse(self.0).unwrap();
        Rendered::form(&mrtr_server::protocol::ElicitForm::new("What?", schema))
    }
}

/// Says what was accepted, as it came through.
async fn asks(
    flow: Flow,
    State(schema): State<Schema>,
    State(effects): State<Effects>,
) -> Result<String, ToolError> {
    Ok(match flow.ask("k", schema.render()?).await {
        Answer::Accept(content) => {
            effects.happen();
            content.get().to_owned()
        }
        Answer::Decline => "declined".into(),
        Answer::Cancel => "cancelled".into(),
    })
}

struct Asking(Bank);

impl Asking {
    fn by(schema: &'static str) -> Self {
        let builder = |tools: mrtr_server::ServerBuilder| {
            tools.state(Schema(schema)).tool(tool("asks", asks))
        };
        Self(Bank::with(builder))
    }

    async fn first(&self) -> Reply {
        let asked = self.0.send(&Call::of("asks", json!({}))).await;
        assert_eq!(asked.asks(), ["k"], "{asked:?}");
        asked
    }

    /// What comes of this answer to a first round.
    async fn answer(&self, answer: Value) -> Reply {
        let asked = self.first().await;
        let retry = Call::of("asks", json!({})).id(2).state(asked.state());
        self.0.send(&retry.answer("k", answer)).await
    }

    async fn accepts(&self, content: Value) {
        let done = self.answer(accept(content.clone())).await;
        let said: Value = serde_json::from_str(done.text()).unwrap();
        assert_eq!(said, content);
    }

    async fn asks_again(&self, content: Value) {
        let effects = self.0.effects.count();
        let again = self.answer(accept(content.clone())).await;
        assert_eq!(again.asks(), ["k"], "{content}: {again:?}");
        assert_eq!(self.0.effects.count(), effects, "{content}");
    }
}

const NUMBER: &str =
    r#"{"type":"object","properties":{"rate":{"type":"number"}},"required":["rate"]}"#;

#[tokio::test]
async fn case_156_a_no_is_not_validated() {
    let asking = Asking::by(NUMBER);
    asking.accepts(json!({ "rate": 1 })).await;
    for (action, text) in [("decline", "declined"), ("cancel", "cancelled")] {
        for content in [
            None,
            Some(json!({})),
            Some(json!({ "rate": "seven" })),
            Some(json!({ "ok": 7 })),
            Some(json!([1])),
            Some(json!("yes")),
            Some(Value::Null),
        ] {
            let mut no = json!({ "action": action });
            if let Some(content) = content {
                no["content"] = content;
            }
            let reply = asking.answer(no.clone()).await;
            assert_eq!(reply.text(), text, "{no}");
        }
    }
    assert_eq!(asking.0.effects.count(), 1);
}

#[derive(Deserialize, JsonSchema)]
struct Rate {
    rate: f64,
}

async fn rates(flow: Flow) -> String {
    let rate = flow.ask("k", Form::<Rate>::new("Rate?")).await.accepted();
    rate.map_or_else(String::new, |Rate { rate }| rate.to_string())
}

/// The schema file says integer where the prose says number; numbers are what a form asks for.
#[tokio::test]
async fn case_159_a_number_may_have_a_fraction() {
    let (asking, bank) = (
        Asking::by(NUMBER),
        Bank::with(|builder| builder.tool(tool("rates", rates))),
    );
    for (rate, text) in [
        (json!(1.5), "1.5"),
        (json!(-0.25), "-0.25"),
        (json!(3), "3"),
        (json!(1e-3), "0.001"),
    ] {
        asking.accepts(json!({ "rate": rate })).await;
        let call = || Call::of("rates", json!({}));
        let state = bank.send(&call()).await.state().to_owned();
        let retry = call().id(2).state(&state);
        let retry = retry.answer("k", accept(json!({ "rate": rate })));
        assert_eq!(bank.send(&retry).await.text(), text);
    }
    asking.asks_again(json!({ "rate": "1.5" })).await;
}

/// The four spellings of a choice reach the wire to the byte, are read by what a client reads them with, and take values and no titles.
#[tokio::test]
async fn case_160_each_spelling_of_a_choice() {
    for (schema, good, bad) in [
        (
            r##"{"type":"object","properties":{"c":{"type":"string","title":"Color Selection","description":"Choose your favorite color","enum":["Red","Green","Blue"],"default":"Red"}}}"##,
            json!("Green"),
            vec![json!("green"), json!(["Green"]), json!(null)],
        ),
        (
            r##"{"type":"object","properties":{"c":{"type":"string","title":"Color Selection","oneOf":[{"const":"#FF0000","title":"Red"},{"const":"#00FF00","title":"Green"}],"default":"#FF0000"}}}"##,
            json!("#00FF00"),
            vec![
                json!("Green"),
                json!("#00ff00"),
                json!({"const": "#00FF00"}),
            ],
        ),
        (
            r##"{"type":"object","properties":{"c":{"type":"array","title":"Color Selection","minItems":1,"maxItems":2,"items":{"type":"string","enum":["Red","Green","Blue"]},"default":["Red","Green"]}}}"##,
            json!(["Red", "Blue"]),
            vec![
                json!("Red"),
                json!([]),
                json!(["Red", "Green", "Blue"]),
                json!(["Rouge"]),
            ],
        ),
        (
            r##"{"type":"object","properties":{"c":{"type":"array","minItems":1,"maxItems":2,"items":{"anyOf":[{"const":"#FF0000","title":"Red"},{"const":"#00FF00","title":"Green"}]},"default":["#FF0000","#00FF00"]}}}"##,
            json!(["#FF0000"]),
            vec![json!(["Red"]), json!([["#FF0000"]]), json!([null])],
        ),
    ] {
        let asking = Asking::by(schema);
        let text = asking.0.send_for_text(&Call::of("asks", json!({}))).await;
        assert!(text.contains(schema), "{schema}: {text}");
        FormSchema::parse(&JsonObject::parse(schema).unwrap()).unwrap();
        asking.accepts(json!({ "c": good })).await;
        for bad in bad {
            asking.asks_again(json!({ "c": bad })).await;
        }
    }
}

fn is_refused(schema: &'static str) -> bool {
    Schema(schema).render().is_err()
}

/// What a form may not have is not put; the dialect that a schema names stays where it was.
#[tokio::test]
async fn case_162_a_schema_by_hand_is_flat_or_refused() {
    let named = r#"{"$schema":"https://json-schema.org/draft/2020-12/schema","type":"object","properties":{"a":{"type":"string"}},"additionalProperties":false}"#;
    let asking = Asking::by(named);
    let text = asking.0.send_for_text(&Call::of("asks", json!({}))).await;
    assert!(text.contains(named), "{text}");
    asking.accepts(json!({ "a": "x" })).await;
    for refused in [
        r#"{"type":"object","properties":{"a":{"type":"object","properties":{"b":{"type":"string"}}}}}"#,
        r#"{"type":"object","properties":{"a":{"type":"array","items":{"type":"object"}}}}"#,
        r##"{"type":"object","properties":{"a":{"$ref":"#/$defs/a"}},"$defs":{"a":{"type":"string"}}}"##,
        r#"{"type":"object","properties":{"a":{"$ref":"https://a.example/s.json"}}}"#,
        r#"{"type":"object","properties":{"a":{"type":"string"}},"oneOf":[{"required":["a"]}]}"#,
        r#"{"$schema":"http://json-schema.org/draft-07/schema#","type":"object","properties":{"a":{"type":"string"}}}"#,
        r#"{"type":"string"}"#,
        r#"{"type":"object"}"#,
    ] {
        assert!(is_refused(refused), "{refused}");
    }
}

/// Patterns and formats take time in proportion to the answer; a pattern that would need another engine is refused when it is put, where
/// nobody could ever have answered it.
#[tokio::test]
async fn case_163_no_answer_makes_validation_explode() {
    let asking = Asking::by(
        r#"{"type":"object","properties":{"a":{"type":"string","pattern":"^(a+)+$"},"m":{"type":"string","format":"email"},"u":{"type":"string","format":"uri"},"d":{"type":"string","format":"date-time"}}}"#,
    );
    let good = json!({ "a": "aaa", "m": "a@b.example", "u": "https://a.example/", "d": "2026-07-28T00:00:00Z" });
    asking.accepts(good).await;
    let begun = Instant::now();
    for hostile in [
        json!({ "a": format!("{}!", "a".repeat(100_000)) }),
        json!({ "m": format!("a@{}", "a.".repeat(50_000)) }),
        json!({ "m": format!("{}@", "\"".repeat(50_000)) }),
        json!({ "u": format!("https://{}", "[".repeat(50_000)) }),
        json!({ "d": "2026-".repeat(20_000) }),
    ] {
        asking.asks_again(hostile).await;
    }
    assert!(begun.elapsed() < Duration::from_secs(30));
    for unusable in [
        r#"{"type":"object","properties":{"a":{"type":"string","pattern":"(?=a)b"}}}"#,
        r#"{"type":"object","properties":{"a":{"type":"string","pattern":"(a)\\1"}}}"#,
        r#"{"type":"object","properties":{"a":{"type":"string","pattern":"("}}}"#,
        r#"{"type":"object","properties":{"a":{"type":"string","pattern":"((a{100}){100}){100}"}}}"#,
    ] {
        assert!(is_refused(unusable), "{unusable}");
    }
}

/// A default is what a client may show. Nobody fills it in for the person.
#[tokio::test]
async fn case_164_a_default_is_no_answer() {
    let required = Asking::by(
        r#"{"type":"object","properties":{"ok":{"type":"boolean","default":true}},"required":["ok"]}"#,
    );
    required.accepts(json!({ "ok": true })).await;
    required.asks_again(json!({})).await;
    let no = required.answer(json!({ "action": "decline" })).await;
    assert_eq!(no.text(), "declined");
    let optional = Asking::by(
        r#"{"type":"object","properties":{"ok":{"type":"boolean","default":true},"n":{"type":"integer","default":7}}}"#,
    );
    optional.accepts(json!({})).await;
    optional.accepts(json!({ "n": 1 })).await;
}

#[derive(Deserialize, JsonSchema)]
struct Nothing {}

async fn yes_or_no(flow: Flow, State(message): State<&'static str>) -> &'static str {
    match flow.ask("k", Form::<Nothing>::new(message)).await {
        Answer::Accept(Nothing {}) => "yes",
        _ => "no",
    }
}

/// A form without fields asks for yes or no; a question without words asks for nothing.
#[tokio::test]
async fn case_166_a_form_may_be_empty_and_a_message_may_not() {
    let bank = |message: &'static str| {
        Bank::with(|builder| builder.state(message).tool(tool("yes_or_no", yes_or_no)))
    };
    let call = || Call::of("yes_or_no", json!({}));
    let asks = bank("Sure?");
    for (answer, text) in [
        (accept(json!({})), "yes"),
        (accept(json!({ "zz": 1 })), "yes"),
        (json!({ "action": "decline" }), "no"),
    ] {
        let asked = asks.send(&call()).await;
        let schema = &asked.body["result"]["inputRequests"]["k"]["params"]["requestedSchema"];
        assert_eq!(*schema, json!({ "type": "object", "properties": {} }));
        let retry = call().id(2).state(asked.state()).answer("k", answer);
        assert_eq!(asks.send(&retry).await.text(), text);
    }
    for message in ["", " ", "\n\t", "\u{3000}"] {
        let reply = bank(message).send(&call()).await;
        assert_eq!(reply.code(), Some(-32603), "{message:?}: {reply:?}");
        let form = json!({ "message": message, "requestedSchema": { "type": "object", "properties": {} } });
        assert!(Rendered::form(&form).is_err(), "{message:?}");
    }
}

/// What is put says its mode, and says it right.
#[test]
fn case_167_a_mode_is_right_or_not_put() {
    let form = |mode: Option<Value>| {
        let mut params =
            json!({ "message": "?", "requestedSchema": { "type": "object", "properties": {} } });
        if let Some(mode) = mode {
            params["mode"] = mode;
        }
        params
    };
    for good in [None, Some(json!("form"))] {
        Rendered::form(&form(good)).unwrap();
    }
    for bad in [json!("FORM"), json!("url"), json!(null), json!(1)] {
        assert!(Rendered::form(&form(Some(bad.clone()))).is_err(), "{bad}");
    }
    let mut both = form(Some(json!("form")));
    both["url"] = json!("https://a.example/");
    assert!(Rendered::form(&both).is_err());
    let page = json!({ "method": "elicitation/create", "params": { "mode": "url", "message": "?", "url": "https://a.example/" } });
    let mut without = page.clone();
    without["params"].as_object_mut().unwrap().remove("url");
    for page in [page, without] {
        let request: InputRequest = serde_json::from_value(page).unwrap();
        assert!(Rendered::request(request).is_err());
    }
}

/// By hand as by type: no name that asks for a secret, and no field that says it is a password.
#[test]
fn case_173_no_form_asks_for_a_secret() {
    assert!(!is_refused(
        r#"{"type":"object","properties":{"word":{"type":"string","format":"email"}}}"#
    ));
    for refused in [
        r#"{"type":"object","properties":{"password":{"type":"string"}}}"#,
        r#"{"type":"object","properties":{"api_key":{"type":"string"}}}"#,
        r#"{"type":"object","properties":{"accessToken":{"type":"string"}}}"#,
        r#"{"type":"object","properties":{"cvv":{"type":"string"}}}"#,
        r#"{"type":"object","properties":{"word":{"type":"string","format":"password"}}}"#,
        r#"{"type":"object","properties":{"word":{"type":"string","format":"Password"}}}"#,
        r#"{"type":"object","properties":{"word":{"type":"string","writeOnly":true}}}"#,
    ] {
        let error = Schema(refused).render().unwrap_err();
        assert!(error.to_string().contains("secret"), "{refused}: {error}");
    }
}

#[tokio::test]
async fn case_176_values_that_no_field_has() {
    let good = json!({ "age": 5, "mail": "a@b.example", "c": "R", "tags": ["R"] });
    for field in ["age", "mail", "c", "tags"] {
        for value in [
            json!(null),
            json!({}),
            json!([1]),
            json!([null]),
            json!([["a"]]),
            json!({ "R": null }),
            json!([{}]),
        ] {
            let bank = Bank::new();
            let call = || Call::of("survey", json!({}));
            let mut content = good.clone();
            content[field] = value;
            let state = bank.send(&call()).await.state().to_owned();
            let retry = |state: &str, content: Value| {
                let answer = accept(content);
                call().id(2).state(state).answer("confirm", answer)
            };
            let again = bank.send(&retry(&state, content.clone())).await;
            assert_eq!(again.asks(), ["confirm"], "{content}: {again:?}");
            assert_eq!(bank.effects.count(), 0, "{content}");
            let done = bank.send(&retry(again.state(), good.clone())).await;
            assert_eq!(done.text(), "done", "{content}");
        }
    }
}

/// A word that is none of the three is no answer, and least of all a yes.
#[tokio::test]
async fn case_177_another_word_is_no_answer() {
    for action in [
        json!("reject"),
        json!("declined"),
        json!("cancelled"),
        json!("Accept"),
        json!("ACCEPT"),
        json!("accept "),
        json!("accepted"),
        json!("yes"),
        json!(""),
        json!(true),
        json!(1),
        json!(null),
        json!({ "accept": true }),
    ] {
        let name = action.to_string();
        refused(&name, &Refusal::params(), |state| {
            let answer = json!({ "action": action, "content": { "ok": true } });
            Call::retry(state).answer("confirm", answer)
        })
        .await;
    }
    refused("absent", &Refusal::params(), |state| {
        Call::retry(state).answer("confirm", json!({ "content": { "ok": true } }))
    })
    .await;
    let bank = Bank::new();
    let state = bank.open().await;
    works("accept", &bank, &state).await;
    let nothing = Call::first().param("inputResponses", json!({}));
    asked_again("no answer at all", &Bank::new(), &nothing).await;
}
