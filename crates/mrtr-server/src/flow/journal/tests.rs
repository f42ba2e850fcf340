use proptest::prelude::*;
use serde_json::json;

use super::*;

fn raw(text: impl ToString) -> Box<RawValue> {
    RawValue::from_string(text.to_string()).unwrap()
}

fn asked(keys: &[(&str, u8)]) -> Journal {
    let open = keys
        .iter()
        .map(|(key, digest)| OpenQuestion((*key).to_owned(), Kind::Form, Base64([*digest; 32])));
    Journal {
        open: open.collect(),
        ..Journal::open().unwrap()
    }
}

fn receive(journal: &mut Journal, responses: &serde_json::Value) -> Result<(), MalformedAnswer> {
    let raw = raw(responses);
    journal.receive(&InputResponses::parse(&raw).unwrap())
}

#[test]
fn only_open_questions_receive_answers() {
    let mut journal = asked(&[("a", 1), ("b", 2)]);
    let yes = json!({ "action": "accept", "content": { "ok": true } });
    receive(&mut journal, &json!({ "a": yes, "z": yes })).unwrap();
    assert!(journal.open.is_empty());
    assert_eq!(journal.answers.keys().collect::<Vec<_>>(), ["a"]);
    let given = &journal.answers["a"];
    assert_eq!(given.question, Base64([1; 32]));
    assert!(matches!(&given.action, Action::Accept(content) if content.get() == r#"{"ok":true}"#));
}

#[test]
fn an_earlier_answer_is_not_overwritten() {
    let mut journal = asked(&[("a", 1)]);
    receive(&mut journal, &json!({ "a": { "action": "decline" } })).unwrap();
    journal.open = asked(&[("a", 9)]).open;
    receive(
        &mut journal,
        &json!({ "a": { "action": "accept", "content": {} } }),
    )
    .unwrap();
    assert!(
        matches!(journal.answers["a"], Given { question: Base64(digest), action: Action::Decline } if digest == [1; 32])
    );
}

#[test]
fn a_malformed_answer_is_named() {
    let mut journal = asked(&[("a", 1), ("b", 2)]);
    let answers = json!({ "a": { "action": "decline" }, "b": { "action": "maybe" } });
    assert_eq!(receive(&mut journal, &answers).unwrap_err().key, "b");
}

#[test]
fn the_content_of_a_no_is_not_kept() {
    for action in ["decline", "cancel"] {
        let mut journal = asked(&[("a", 1)]);
        receive(
            &mut journal,
            &json!({ "a": { "action": action, "content": { "pin": 4711 } } }),
        )
        .unwrap();
        assert!(!serde_json::to_string(&journal).unwrap().contains("4711"));
    }
}

#[test]
fn what_is_not_a_journal_is_not_read() {
    let good = json!({ "s": "AAAAAAAAAAAAAAAAAAAAAA" });
    assert!(Journal::read(&raw(&good)).is_some());
    for bad in [
        json!({}),
        json!([]),
        json!(["AAAAAAAAAAAAAAAAAAAAAA"]),
        json!({ "s": "AAAAAAAAAAAAAAAAAAAAAB" }),
        json!({ "s": "AAAA" }),
        json!({ "s": "AAAAAAAAAAAAAAAAAAAAAA", "zz": 1 }),
        json!({ "s": "AAAAAAAAAAAAAAAAAAAAAA", "q": [["a", "telepathy", "AA"]] }),
        json!("S"),
    ] {
        assert!(Journal::read(&raw(&bad)).is_none(), "{bad}");
    }
}

fn any_action() -> impl Strategy<Value = Action> {
    prop_oneof![
        any::<(String, i64)>()
            .prop_map(|(name, value)| Action::Accept(raw(json!({ name: value })))),
        Just(Action::Decline),
        Just(Action::Cancel),
    ]
}

fn any_journal() -> impl Strategy<Value = Journal> {
    let kind = prop::sample::select(&Kind::ALL[..]);
    let open = (any::<String>(), kind, any::<[u8; 32]>())
        .prop_map(|(key, kind, digest)| OpenQuestion(key, kind, Base64(digest)));
    let given = (any::<[u8; 32]>(), any_action()).prop_map(|(digest, action)| Given {
        question: Base64(digest),
        action,
    });
    let memo = any::<(String, f64)>().prop_map(|(text, number)| raw(json!([text, number])));
    (
        any::<[u8; 16]>(),
        prop::collection::vec(open, 0..4),
        prop::collection::btree_map(any::<String>(), given, 0..4),
        prop::collection::btree_map(any::<String>(), memo, 0..4),
    )
        .prop_map(|(secret, open, answers, memos)| Journal {
            secret: Base64(secret),
            open,
            answers,
            memos,
            handles: BTreeMap::from([("k".to_owned(), "h".to_owned())]),
            state: None,
            unasked: BTreeMap::new(),
        })
}

proptest! {
    #[test]
    fn a_journal_survives_the_way_through_a_client(journal in any_journal()) {
        let text = serde_json::to_string(&journal).unwrap();
        let back = Journal::read(&raw(&text)).expect("it is a journal");
        prop_assert_eq!(serde_json::to_string(&back).unwrap(), text);
        prop_assert_eq!(back.open.len(), journal.open.len());
        prop_assert_eq!(back.answers.len(), journal.answers.len());
    }

    #[test]
    fn no_answer_appears_for_a_question_that_is_not_open(
        mut journal in any_journal(),
        keys in prop::collection::btree_set("[a-c]", 0..3),
    ) {
        let open: Vec<String> = journal.open.iter().map(|OpenQuestion(key, ..)| key.clone()).collect();
        let before: Vec<String> = journal.answers.keys().cloned().collect();
        let answers: serde_json::Map<_, _> =
            keys.iter().map(|key| (key.clone(), json!({ "action": "cancel" }))).collect();
        receive(&mut journal, &answers.into()).ok();
        for key in journal.answers.keys() {
            prop_assert!(before.contains(key) || (open.contains(key) && keys.contains(key)));
        }
    }
}
