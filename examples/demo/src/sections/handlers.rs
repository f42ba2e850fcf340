//! Every handler of every example, called in both eras: the same results and the same effects.
//!
//! What is called is what the server lists, so that a handler which is added without arguments here is a row that cannot be
//! measured.

use mrtr_client::{Client, ClientBuilder, Refusal, RootsQuestion};
use mrtr_protocol::Root;
use serde::Serialize;
use serde_json::{Value, json};

use super::url::visited;
use crate::Fault;
use crate::board::{Case, Governed};
use crate::people::{Model, Person, earlier_host, host};
use crate::servers::{Server, Stage};

const SECTION: &str = "handlers";
const SAME: Governed =
    Governed::Not("one code path serves both eras; there is no switch between them");

/// An example, and what its handlers are called with.
struct Example {
    name: &'static str,
    expected: &'static str,
    /// Arguments, by the name of the tool or prompt.
    arguments: fn() -> Value,
    /// What the person fills in, by the field's name.
    fills_in: fn() -> Value,
    /// What the model says, by what it is asked.
    says: fn() -> Value,
}

const NOTHING: fn() -> Value = || json!({});
const CONFIRMED: fn() -> Value = || json!({ "ok": true });

const EXAMPLES: [Example; 11] = [
    Example {
        name: "expenses",
        expected: "2 handlers: alike",
        arguments: || json!({ "submit_expense": { "amount": 250, "memo": "train" }, "expenses_submitted": {} }),
        fills_in: CONFIRMED,
        says: NOTHING,
    },
    Example {
        name: "charges",
        // Its charge comes before its question, and in the modern era its body runs again.
        expected: "8 handlers: alike but charge_bad, with 2 effects and 1",
        arguments: || {
            let charge = json!({ "amount": 30 });
            let slowly = json!({ "amount": 30, "millis": 20 });
            json!({
                "charge_bad": charge, "charge_good": charge, "charge_once": charge, "charge_insistent": charge,
                "charge_for_a_receipt": charge, "charge_or_reject": charge,
                "charge_and_receipt": slowly, "charge_and_receipt_again": slowly,
            })
        },
        fills_in: CONFIRMED,
        says: NOTHING,
    },
    Example {
        name: "tickets",
        expected: "4 handlers: alike",
        arguments: || {
            json!({
                "buy_ticket": { "quantity": 2 }, "buy_ticket_unpinned": { "quantity": 1 }, "buy_pair": {},
                "set_list_price": { "price": 210.0 },
            })
        },
        fills_in: CONFIRMED,
        says: NOTHING,
    },
    Example {
        name: "voucher",
        expected: "4 handlers: alike",
        arguments: || {
            json!({
                "redeem_voucher": { "code": "MAY-2026" }, "redeem_slowly": { "code": "JUNE-2026", "millis": 20 },
                "reveal": { "secret": "under the stone" }, "vouchers_redeemed": {},
            })
        },
        fills_in: CONFIRMED,
        says: NOTHING,
    },
    Example {
        name: "questions",
        expected: "3 handlers: alike",
        arguments: || json!({ "survey": {}, "several": {}, "two_rounds": {} }),
        fills_in: || {
            json!({
                "consent": true, "place": "garden", "guests": 4, "email": "ada@example.com",
                "dish": "soup", "town": "Bergen", "nights": 3,
            })
        },
        says: NOTHING,
    },
    Example {
        name: "briefing",
        expected: "6 handlers: alike",
        arguments: || {
            json!({
                "briefing": { "topic": "the harvest" }, "folders": {}, "sentence": {}, "sentence_with_tools": {},
            })
        },
        fills_in: || json!({ "audience": "board" }),
        says: || json!({ "one sentence": "It rains.", "seven words": "It rains on all seven of them." }),
    },
    Example {
        name: "kitchen",
        expected: "1 handler: alike",
        arguments: || json!({ "bake": {} }),
        fills_in: NOTHING,
        says: || json!({ "breakfast or for dinner": "breakfast", "Which of these jars": "plum" }),
    },
    Example {
        name: "link-account",
        expected: "2 handlers: alike",
        arguments: || json!({ "link_account": {}, "account_status": {} }),
        fills_in: NOTHING,
        says: NOTHING,
    },
    Example {
        name: "minimal",
        expected: "1 handler: alike",
        arguments: || json!({ "greet": {} }),
        fills_in: || json!({ "name": "Ada" }),
        says: NOTHING,
    },
    Example {
        name: "readme",
        expected: "1 handler: alike",
        arguments: || json!({ "submit_expense": { "amount": 250, "memo": "chairs" } }),
        fills_in: CONFIRMED,
        says: NOTHING,
    },
    Example {
        name: "conformance-server",
        expected: "37 handlers: alike; test_error_handling fails",
        arguments: conformance,
        fills_in: || {
            json!({
                "name": "Ada", "color": "blue", "ok": true, "username": "ada", "email": "ada@example.com",
                "context": "a test", "age": 36, "score": 90.5, "status": "pending", "verified": false,
                "legacyEnum": "opt2", "titledMulti": ["value1", "value3"],
            })
        },
        says: || json!({ "capital of France": "Paris.", "greeting": "Good day", "Say yes": "Yes." }),
    },
];

fn conformance() -> Value {
    let mut arguments = json!({
        "json_schema_2020_12_tool": { "name": "Ada", "contactMethod": "phone", "phone": "1815" },
        "test_x_mcp_header": { "region": "north", "level": 2 },
        "test_sampling": { "prompt": "Say yes." },
        "test_elicitation": { "message": "Who are you?" },
        "test_prompt_with_arguments": { "arg1": "a", "arg2": "b" },
        "test_prompt_with_embedded_resource": { "resourceUri": "test://example-resource" },
    });
    for without in [
        "test_simple_text",
        "test_image_content",
        "test_audio_content",
        "test_embedded_resource",
        "test_multiple_content_types",
        "test_error_handling",
        "test_tool_with_progress",
        "test_tool_with_logging",
        "test_logging_tool",
        "test_reconnection",
        "test_input_required_result_elicitation",
        "test_input_required_result_sampling",
        "test_input_required_result_list_roots",
        "test_input_required_result_request_state",
        "test_input_required_result_multiple_inputs",
        "test_input_required_result_multi_round",
        "test_input_required_result_tampered_state",
        "test_input_required_result_capabilities",
        "test_missing_capability",
        "test_streaming_elicitation",
        "test_elicitation_sep1034_defaults",
        "test_elicitation_sep1330_enums",
        "test_trigger_tool_change",
        "test_trigger_prompt_change",
        "test_simple_prompt",
        "test_prompt_with_image",
        "test_input_required_result_prompt",
    ] {
        arguments[without] = json!({});
    }
    arguments
}

pub(crate) fn cases() -> Vec<Case> {
    let case = |example: &'static Example| {
        let what = format!("{}, every handler in both eras", example.name);
        Case::new(SECTION, what, example.expected, SAME, move |stage| {
            compared(stage, example)
        })
    };
    EXAMPLES.iter().map(case).collect()
}

/// What came of one handler.
#[derive(Debug, PartialEq)]
struct Outcome {
    handler: String,
    failed: bool,
    result: Value,
    effects: Vec<Value>,
}

async fn compared(stage: Stage, example: &'static Example) -> Result<String, Fault> {
    let modern = stage.start(&stage.plan(example.name)?).await?;
    let (client, _) = host(&modern.url, |builder| example.attend(builder))?;
    let in_modern = example.called(&client, &modern).await?;

    let earlier = stage.start(&stage.plan(example.name)?).await?;
    let client = earlier_host(&earlier.url, |builder| example.attend(builder))?;
    let in_earlier = example.called(&client, &earlier).await?;
    client.close().await;

    let handlers = match in_modern.len() {
        1 => "1 handler".to_owned(),
        many => format!("{many} handlers"),
    };
    let names = |outcomes: &[Outcome]| -> Vec<String> {
        let names = outcomes.iter().map(|outcome| outcome.handler.clone());
        names.collect()
    };
    if names(&in_modern) != names(&in_earlier) {
        return Ok(format!("{handlers}, and others in the earlier era"));
    }
    let different: Vec<String> = in_modern
        .iter()
        .zip(&in_earlier)
        .filter(|(modern, earlier)| modern != earlier)
        .map(
            |(modern, earlier)| match modern.effects == earlier.effects {
                true => format!(
                    "{}, which says {} and {}",
                    modern.handler, modern.result, earlier.result
                ),
                false => format!(
                    "{}, with {} effects and {}",
                    modern.handler,
                    modern.effects.len(),
                    earlier.effects.len()
                ),
            },
        )
        .collect();
    // A handler that fails in both eras is alike, and shows nothing.
    let failed = in_modern.iter().filter(|outcome| outcome.failed);
    let failed: String = failed
        .map(|outcome| format!("; {} fails", outcome.handler))
        .collect();
    Ok(match different.as_slice() {
        [] => format!("{handlers}: alike{failed}"),
        different => format!("{handlers}: alike but {}{failed}", different.join("; ")),
    })
}

impl Example {
    /// Handlers of every kind.
    fn attend(&self, builder: ClientBuilder) -> ClientBuilder {
        let folders = async |_: RootsQuestion| {
            let root = Root::new("file:///home/alice/notes");
            let root = root.map_err(|error| Refusal::new(error.to_string()))?;
            Ok(vec![root])
        };
        builder
            .on_form(Person::fills_in_fields((self.fills_in)()))
            .on_sampling(Model::saying((self.says)()))
            .with_sampling_tools()
            .on_roots(folders)
            .on_url(visited)
    }

    /// Calls everything that is listed, and looks at what came of it.
    async fn called(&self, client: &Client, server: &Server) -> Result<Vec<Outcome>, Fault> {
        let arguments = (self.arguments)();
        let arguments = |name: &str| match &arguments[name] {
            Value::Null => Err(Fault(format!("nothing is known to call {name} with"))),
            arguments => Ok(arguments.clone()),
        };
        let mut outcomes = Outcomes {
            server,
            before: 0,
            all: Vec::new(),
        };
        let mut tools = client.list_tools().await?;
        // Whose effects differ comes last: the entries of all others have the same numbers then.
        tools.sort_by_key(|tool| tool.name == "charge_bad");
        for tool in tools {
            let result = client.call_tool(&tool.name, arguments(&tool.name)?).await?;
            outcomes.note(tool.name, result.is_error, &result.content)?;
        }
        // A server without prompts or resources has no such methods.
        let capabilities = client.server().await?.capabilities;
        if capabilities.prompts.is_some() {
            for prompt in client.list_prompts().await? {
                let result = client.get_prompt(&prompt.name, arguments(&prompt.name)?);
                outcomes.note(prompt.name.clone(), false, &result.await?.messages)?;
            }
        }
        if capabilities.resources.is_some() {
            for resource in client.list_resources().await? {
                let result = client.read_resource(&resource.uri).await?;
                outcomes.note(resource.uri, false, &result.contents)?;
            }
            for template in client.list_resource_templates().await? {
                let uri = template.uri_template.replace("{id}", "123");
                let result = client.read_resource(&uri).await?;
                outcomes.note(template.uri_template, false, &result.contents)?;
            }
        }
        Ok(outcomes.all)
    }
}

/// What came of the handlers so far.
struct Outcomes<'a> {
    server: &'a Server,
    before: usize,
    all: Vec<Outcome>,
}

impl Outcomes<'_> {
    fn note(
        &mut self,
        handler: String,
        failed: bool,
        result: &impl Serialize,
    ) -> Result<(), Fault> {
        let effects = effects(self.server)?;
        let new = effects.get(self.before..).unwrap_or_default().to_vec();
        self.before = effects.len();
        self.all.push(Outcome {
            handler,
            failed,
            result: serde_json::to_value(result)?,
            effects: new,
        });
        Ok(())
    }
}

/// What the example has recorded. `readme` has a book of its own.
fn effects(server: &Server) -> Result<Vec<Value>, Fault> {
    let book = server.path("mrtr-readme/book.txt");
    if book.exists() {
        let book = std::fs::read_to_string(book)?;
        return Ok(book.lines().map(|line| json!(line)).collect());
    }
    let entries = server.record()?;
    let effects = entries
        .into_iter()
        .map(|entry| json!([entry.kind, entry.value]));
    Ok(effects.collect())
}
