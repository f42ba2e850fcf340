use super::*;
use crate::elicit::ElicitForm;
use crate::error::{ErrorObject, KnownError, code};
use crate::mrtr::InputRequest;
use crate::object::JsonObject;
use crate::object::Object;

fn with_members<T>(text: &str, read: impl FnOnce(&Members<'_>) -> T) -> T {
    let raw: Box<RawValue> = serde_json::from_str(text).unwrap();
    read(&Members::parse(&raw).unwrap())
}

const INITIALIZE: &str = r#"{"protocolVersion":"2025-11-25","capabilities":{"elicitation":{},"roots":{"listChanged":true}},"clientInfo":{"name":"c","version":"1"}}"#;

#[test]
fn initialize_is_read_member_by_member() {
    let params = with_members(INITIALIZE, InitializeParams::of).unwrap();
    assert_eq!(serde_json::to_string(&params).unwrap(), INITIALIZE);
    for (from, to, error) in [
        (
            r#""protocolVersion":"2025-11-25","#,
            "",
            ParamsError::Missing("protocolVersion"),
        ),
        (
            r#""2025-11-25""#,
            "20251125",
            ParamsError::Mistyped("protocolVersion"),
        ),
        ("capabilities", "x", ParamsError::Missing("capabilities")),
        (
            r#"{"elicitation":{},"roots":{"listChanged":true}}"#,
            "[]",
            ParamsError::Malformed("capabilities"),
        ),
        (
            r#""elicitation":{}"#,
            r#""elicitation":null"#,
            ParamsError::Malformed("capabilities"),
        ),
        ("clientInfo", "x", ParamsError::Missing("clientInfo")),
        (
            r#"{"name":"c","version":"1"}"#,
            r#"["c","1"]"#,
            ParamsError::Malformed("clientInfo"),
        ),
        (
            r#","version":"1""#,
            "",
            ParamsError::Malformed("clientInfo"),
        ),
    ] {
        assert!(INITIALIZE.contains(from), "{from}");
        let bad = INITIALIZE.replacen(from, to, 1);
        assert_eq!(
            with_members(&bad, InitializeParams::of),
            Err(error),
            "{bad}"
        );
    }
}

#[test]
fn a_session_asks_only_what_its_revision_has() {
    let all = INITIALIZE.replace(
        r#"{"elicitation":{},"#,
        r#"{"elicitation":{"form":{},"url":{}},"sampling":{"tools":{}},"#,
    );
    let params = with_members(&all, InitializeParams::of).unwrap();
    let kinds = |revision| params.kinds(revision).iter().collect::<Vec<_>>();
    assert_eq!(kinds(EarlierRevision::V2025_11_25), Kind::ALL);
    let has = |revision, kind| kinds(revision).contains(&kind);
    assert!(has(EarlierRevision::V2025_06_18, Kind::Form));
    assert!(!has(EarlierRevision::V2025_06_18, Kind::Url));
    assert!(!has(EarlierRevision::V2025_03_26, Kind::Form));
    assert!(has(EarlierRevision::V2025_03_26, Kind::Roots));
    let few = with_members(INITIALIZE, InitializeParams::of).unwrap();
    assert!(!few.kinds(EarlierRevision::LATEST).contains(Kind::Sampling));
}

#[test]
fn revisions_are_ordered_and_negotiated() {
    assert!(EarlierRevision::ALL.is_sorted());
    for revision in EarlierRevision::ALL {
        assert_eq!(EarlierRevision::negotiate(revision.as_str()), revision);
        assert_eq!(
            revision.has_batches(),
            revision == EarlierRevision::V2025_03_26
        );
    }
    for other in ["2024-11-05", "2026-07-28", "1.0.0", ""] {
        assert_eq!(
            EarlierRevision::negotiate(other),
            EarlierRevision::V2025_11_25
        );
    }
}

#[test]
fn a_server_introduces_itself_without_what_the_era_lacks() {
    let mut capabilities = ServerCapabilities::with_tools();
    capabilities.extensions.insert("a/b", &1).unwrap();
    let info = Implementation::new("s", "1");
    let result = InitializeResult::new(EarlierRevision::V2025_06_18, capabilities, info);
    let text = serde_json::to_string(&result).unwrap();
    assert_eq!(
        text,
        r#"{"protocolVersion":"2025-06-18","capabilities":{"tools":{}},"serverInfo":{"name":"s","version":"1"}}"#
    );
    let read = |text: &str| {
        serde_json::from_str::<Object<InitializeResult>>(text).map(|Object(result)| result)
    };
    assert_eq!(read(&text).unwrap(), result);
    assert_eq!(result.revision(), Some(EarlierRevision::V2025_06_18));
    let newer = read(&text.replace("2025-06-18", "2030-01-01")).unwrap();
    assert_eq!(newer.revision(), None);
    for (from, to) in [
        (r#"{"tools":{}}"#, "[]"),
        (r#"{"tools":{}}"#, r#"{"tools":true}"#),
        (r#"{"name":"s","version":"1"}"#, r#"["s","1"]"#),
        (r#""protocolVersion":"2025-06-18","#, ""),
    ] {
        assert!(text.contains(from), "{from}");
        assert!(read(&text.replace(from, to)).is_err(), "{to}");
    }
}

#[test]
fn levels_and_subscriptions_are_read_strictly() {
    let level = |text: &str| with_members(text, SetLevelParams::of);
    assert_eq!(
        level(r#"{"level":"error"}"#),
        Ok(SetLevelParams::new(LogLevel::Error))
    );
    for (bad, error) in [
        ("{}", ParamsError::Missing("level")),
        (r#"{"level":3}"#, ParamsError::Mistyped("level")),
        (r#"{"level":null}"#, ParamsError::Mistyped("level")),
        (r#"{"level":"warn"}"#, ParamsError::Malformed("level")),
    ] {
        assert_eq!(level(bad), Err(error), "{bad}");
    }
    let uri = |text: &str| {
        with_members(text, |members| {
            SubscribeParams::of(members).map(|params| params.uri.into_owned())
        })
    };
    assert_eq!(uri(r#"{"uri":"note://1"}"#), Ok("note://1".to_owned()));
    assert_eq!(uri("{}"), Err(ParamsError::Missing("uri")));
    assert_eq!(uri(r#"{"uri":["x"]}"#), Err(ParamsError::Mistyped("uri")));
    assert_eq!(
        serde_json::to_string(&SubscribeParams::new("note://1")).unwrap(),
        r#"{"uri":"note://1"}"#
    );
}

#[test]
fn pages_have_an_id() {
    let page = ElicitUrl::new("Log in", "https://a.example/go");
    let question = ElicitUrlEarlier::new(page.clone(), "e1");
    let text = serde_json::to_string(&question).unwrap();
    assert_eq!(
        text,
        r#"{"mode":"url","elicitationId":"e1","url":"https://a.example/go","message":"Log in"}"#
    );
    // A reader that does not know the id sees the same page.
    assert_eq!(serde_json::from_str::<ElicitUrl>(&text).unwrap(), page);
    let read = |text: &str| serde_json::from_str::<ElicitUrlEarlier>(text);
    assert_eq!(read(&text).unwrap().into_page(), page);
    for (from, to) in [
        (r#""elicitationId":"e1","#, ""),
        (r#""e1""#, "null"),
        (r#""mode":"url","#, ""),
        (r#""mode":"url""#, r#""mode":"form""#),
    ] {
        assert!(text.contains(from), "{from}");
        assert!(read(&text.replace(from, to)).is_err(), "{to}");
    }

    let error = ErrorObject::url_elicitation_required("Log in first.", vec![question.clone()]);
    assert_eq!(error.code, code::URL_ELICITATION_REQUIRED);
    let data = error.data.as_ref().unwrap().get();
    assert_eq!(data, format!(r#"{{"elicitations":[{text}]}}"#));
    assert_eq!(
        error.known(),
        Some(KnownError::UrlElicitationRequired(UrlElicitationRequired {
            elicitations: vec![question]
        }))
    );
    let mut cut = error;
    cut.data = serde_json::from_str(r#"{"elicitations":[{}]}"#).unwrap();
    assert_eq!(cut.known(), None);

    let done = serde_json::to_string(&ElicitationCompleteParams::new("e1")).unwrap();
    assert_eq!(done, r#"{"elicitationId":"e1"}"#);
    assert!(serde_json::from_str::<Object<ElicitationCompleteParams>>("{}").is_err());
}

#[test]
fn case_129_results_lose_what_is_modern_and_nothing_else() {
    for (modern, earlier) in [
        (r#"{"resultType":"complete"}"#, "{}"),
        (
            r#"{"resultType":"complete","content":[ {"type":"text","text":"\u0061"} ],"isError":true,"_meta":{"mrtr/replayed":true,"io.modelcontextprotocol/serverInfo":{"name":"s","version":"1"},"x":1.00}}"#,
            r#"{"content":[ {"type":"text","text":"\u0061"} ],"isError":true,"_meta":{"mrtr/replayed":true,"x":1.00}}"#,
        ),
        (
            r#"{"contents":[{"uri":"a:b","text":"","_meta":{"ttlMs":1}}],"ttlMs":5,"cacheScope":"public","resultType":"complete","_meta":{"io.modelcontextprotocol/serverInfo":{}}}"#,
            r#"{"contents":[{"uri":"a:b","text":"","_meta":{"ttlMs":1}}]}"#,
        ),
        (
            r#"{"resultType":"complete","content":[],"structuredContent":{"resultType":1}}"#,
            r#"{"content":[],"structuredContent":{"resultType":1}}"#,
        ),
        (
            r#"{"resultType":"complete","content":[],"structuredContent":[1]}"#,
            r#"{"content":[]}"#,
        ),
        (
            r#"{"tools":[{"name":"a","outputSchema":{"type":"object"}},{"name":"b","outputSchema":{"type":"array"},"inputSchema":{}},{"name":"c","outputSchema":{"$ref":"x"}}],"ttlMs":0}"#,
            r#"{"tools":[{"name":"a","outputSchema":{"type":"object"}},{"name":"b","inputSchema":{}},{"name":"c"}]}"#,
        ),
        (
            r#"{"resultType":"complete","tools":[{"name": "a"}],"nextCursor":"n"}"#,
            r#"{"tools":[{"name": "a"}],"nextCursor":"n"}"#,
        ),
    ] {
        assert_eq!(result(modern).unwrap(), earlier);
        // Once more changes nothing, and copies nothing.
        assert!(matches!(result(earlier), Ok(Cow::Borrowed(same)) if same == earlier));
    }
    for whole in [
        "{ }",
        r#"{"_meta":{}}"#,
        r#"{ "a" : [ ] }"#,
        r#"{"_meta":7}"#,
    ] {
        assert_eq!(result(whole).unwrap(), whole);
    }
    for bad in ["", "[]", "null", r#"{"a":1,"a":2}"#] {
        assert_eq!(result(bad), Err(EarlierResultError::NotAnObject), "{bad}");
    }
    for bad in [r#""input_required""#, r#""other""#, "null"] {
        let text = format!(r#"{{"resultType":{bad}}}"#);
        assert_eq!(result(&text), Err(EarlierResultError::NotComplete), "{bad}");
    }
}

#[test]
fn case_160_choices_are_spelt_as_the_revision_has_them() {
    let form = |schema: &str| {
        InputRequest::form(&ElicitForm::new(
            "Which?",
            JsonObject::parse(schema).unwrap(),
        ))
    };
    let modern = form(
        r#"{"type":"object","properties":{"b":{"type":"string","title":"B","oneOf":[{"const":"x","title":"The X"},{"const":"y","title":"The Y"}],"default":"y"},"a":{"type":"number","minimum":1.50},"c":{"type":"string","enum":["p","q"]}},"required":["b"]}"#,
    );
    let earlier = question(EarlierRevision::V2025_06_18, &modern);
    assert_eq!(
        serde_json::to_string(&earlier).unwrap(),
        r#"{"method":"elicitation/create","params":{"message":"Which?","requestedSchema":{"type":"object","properties":{"b":{"type":"string","title":"B","default":"y","enum":["x","y"],"enumNames":["The X","The Y"]},"a":{"type":"number","minimum":1.50},"c":{"type":"string","enum":["p","q"]}},"required":["b"]}}}"#
    );
    // The other revisions spell it as it is, and nothing else is touched.
    for same in [EarlierRevision::V2025_11_25, EarlierRevision::V2025_03_26] {
        assert!(matches!(question(same, &modern), Cow::Borrowed(_)));
    }
    let roots = InputRequest::roots();
    let odd = form(r#"{"type":"object"}"#);
    for other in [&roots, &odd] {
        let kept = question(EarlierRevision::V2025_06_18, other);
        assert!(matches!(kept, Cow::Borrowed(_)));
    }
    let list = r#"{"type":"object","properties":{"l":{"type":"array","items":{"anyOf":[{"const":"x","title":"X"}]}},"o":{"oneOf":[{"const":1,"title":"one"}]}}}"#;
    let kept = question(EarlierRevision::V2025_06_18, &form(list)).into_owned();
    assert!(serde_json::to_string(&kept).unwrap().contains(list));
}
