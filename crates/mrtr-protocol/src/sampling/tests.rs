use super::*;
use crate::object::Object;

fn read(text: &str) -> Result<CreateMessageParams, serde_json::Error> {
    serde_json::from_str::<Object<CreateMessageParams>>(text).map(|object| object.0)
}

const FULL: &str = r#"{"messages":[{"role":"user","content":{"type":"text","text":"hi"},"_meta":{"x/y":1}}],"modelPreferences":{"hints":[{"name":"small"}],"costPriority":0.25},"systemPrompt":"Be short.","includeContext":"none","temperature":0.5,"maxTokens":100,"stopSequences":["END"],"metadata":{"a": 1.00},"tools":[{"name":"t","inputSchema":{"type":"object"}}],"toolChoice":{"mode":"required"}}"#;

#[test]
fn requests_go_both_ways() {
    let params = read(FULL).unwrap();
    assert!(params.has_tools());
    assert_eq!(serde_json::to_string(&params).unwrap(), FULL);
    let plain = CreateMessageParams::new(vec![SamplingMessage::user("hi")], 7);
    assert!(!plain.has_tools());
    assert_eq!(
        serde_json::to_string(&plain).unwrap(),
        r#"{"messages":[{"role":"user","content":{"type":"text","text":"hi"}}],"maxTokens":7}"#
    );
    // An empty list of tools is one.
    let empty = read(r#"{"messages":[],"maxTokens":7,"tools":[]}"#).unwrap();
    assert!(empty.has_tools());
    assert!(
        serde_json::to_string(&empty)
            .unwrap()
            .contains(r#""tools":[]"#)
    );
}

#[test]
fn requests_are_objects_all_the_way_down() {
    for (from, to) in [
        (r#""maxTokens":100"#, r#""maxTokens":"100""#),
        (r#""maxTokens":100"#, r#""maxTokens":-1"#),
        (r#""maxTokens":100"#, r#""maxTokens":1.5"#),
        (r#""maxTokens":100,"#, ""),
        (
            r#"[{"role":"user","content":{"type":"text","text":"hi"},"_meta":{"x/y":1}}]"#,
            "null",
        ),
        (
            r#"{"role":"user","content":{"type":"text","text":"hi"},"_meta":{"x/y":1}}"#,
            r#"["user",{"type":"text","text":"hi"}]"#,
        ),
        (r#""role":"user""#, r#""role":"USER""#),
        (r#""role":"user""#, r#""role":{"user":null}"#),
        (r#""type":"text""#, r#""type":"hologram""#),
        (r#"{"type":"text","text":"hi"}"#, r#""hi""#),
        (r#"{"type":"text","text":"hi"}"#, "null"),
        (
            r#"{"type":"text","text":"hi"}"#,
            r#"[[{"type":"text","text":"hi"}]]"#,
        ),
        (r#"{"name":"small"}"#, r#"["small"]"#),
        (
            r#"{"hints":[{"name":"small"}],"costPriority":0.25}"#,
            "null",
        ),
        (r#""Be short.""#, "null"),
        (r#""includeContext":"none""#, r#""includeContext":"all""#),
        (r#""temperature":0.5"#, r#""temperature":null"#),
        (r#"["END"]"#, "null"),
        (r#"{"a": 1.00}"#, "[]"),
        (r#"[{"name":"t","inputSchema":{"type":"object"}}]"#, "null"),
        (r#"{"mode":"required"}"#, r#"["required"]"#),
        (r#"{"mode":"required"}"#, r#"{"mode":"any"}"#),
        (r#"{"mode":"required"}"#, r#"{"mode":{"required":null}}"#),
    ] {
        assert!(FULL.contains(from), "{from}");
        assert!(read(&FULL.replace(from, to)).is_err(), "{to}");
    }
}

#[test]
fn results_go_both_ways() {
    let text = r#"{"role":"assistant","content":[{"type":"text","text":"a"},{"type":"tool_use","id":"u","name":"t","input":{"a": 1},"_meta":{"x/y":1}},{"type":"text","text":"b"}],"model":"m","stopReason":"toolUse"}"#;
    let result: CreateMessageResult = serde_json::from_str(text).unwrap();
    assert_eq!(serde_json::to_string(&result).unwrap(), text);
    assert_eq!(result.joined_text(), "a\nb");
    assert_eq!(result.stop_reason, Some(StopReason::ToolUse));
    assert_eq!(
        result
            .tool_uses()
            .map(|u| u.id.as_str())
            .collect::<Vec<_>>(),
        ["u"]
    );
    assert_eq!(
        serde_json::to_string(
            &CreateMessageResult::new("m", "hi").stopped(StopReason::from("tired".to_owned()))
        )
        .unwrap(),
        r#"{"role":"assistant","content":{"type":"text","text":"hi"},"model":"m","stopReason":"tired"}"#
    );
}

fn uses(ids: &[&str]) -> SamplingMessage {
    let blocks = ids.iter().map(|id| {
        SamplingBlock::ToolUse(ToolUseContent {
            id: (*id).to_owned(),
            name: "t".to_owned(),
            input: JsonObject::empty(),
            meta: RawObject::new(),
        })
    });
    SamplingMessage::assistant(blocks.collect::<Vec<_>>())
}

fn results(ids: &[&str]) -> SamplingMessage {
    let blocks = ids
        .iter()
        .map(|id| SamplingBlock::ToolResult(ToolResultContent::new(*id, vec![])));
    SamplingMessage::user(blocks.collect::<Vec<_>>())
}

fn joined(first: SamplingMessage, second: SamplingMessage) -> SamplingMessage {
    let blocks = [first.content.blocks(), second.content.blocks()].concat();
    SamplingMessage::new(first.role, blocks)
}

#[test]
fn each_use_of_a_tool_has_its_result() {
    use ConversationError::*;
    let check = |messages: Vec<SamplingMessage>| CreateMessageParams::new(messages, 1).check();
    let ask = || SamplingMessage::user("Weather?");
    let say = || SamplingMessage::assistant("Fine.");
    for good in [
        vec![],
        vec![ask()],
        vec![ask(), say(), ask()],
        vec![ask(), uses(&["a", "b"]), results(&["b", "a"])],
        vec![
            ask(),
            joined(say(), uses(&["a"])),
            results(&["a"]),
            uses(&["a"]),
            results(&["a"]),
            say(),
        ],
    ] {
        assert_eq!(check(good.clone()), Ok(()), "{good:?}");
    }
    for (bad, error) in [
        (vec![ask(), uses(&["a"])], Unbalanced { at: 2 }),
        (vec![ask(), uses(&["a"]), ask()], Unbalanced { at: 2 }),
        (
            vec![ask(), uses(&["a", "b"]), results(&["a"])],
            Unbalanced { at: 2 },
        ),
        (
            vec![ask(), uses(&["a"]), results(&["a", "a"])],
            Unbalanced { at: 2 },
        ),
        (
            vec![ask(), uses(&["a"]), results(&["b"])],
            Unbalanced { at: 2 },
        ),
        (
            vec![ask(), uses(&["a", "a"]), results(&["a", "a"])],
            Unbalanced { at: 2 },
        ),
        (vec![results(&["a"])], Unbalanced { at: 0 }),
        (
            vec![uses(&["a"]), results(&["a"]), results(&["a"])],
            Unbalanced { at: 2 },
        ),
        (
            vec![uses(&["a"]), joined(results(&["a"]), ask())],
            MixedResults { at: 1 },
        ),
        (
            vec![SamplingMessage::new(Role::User, uses(&["a"]).content)],
            WrongRole { at: 0 },
        ),
        (
            vec![
                uses(&["a"]),
                SamplingMessage::new(Role::Assistant, results(&["a"]).content),
            ],
            WrongRole { at: 1 },
        ),
    ] {
        assert_eq!(check(bad.clone()), Err(error), "{bad:?}");
    }

    let mut params = CreateMessageParams::new(vec![ask()], 1);
    for temperature in [f64::NAN, f64::INFINITY] {
        params.temperature = Some(temperature);
        assert_eq!(params.check(), Err(NotFinite));
    }
    params.temperature = Some(0.5);
    assert_eq!(params.check(), Ok(()));
    params.model_preferences = Some(ModelPreferences {
        speed_priority: Some(f64::NAN),
        ..Default::default()
    });
    assert_eq!(params.check(), Err(NotFinite));
}
