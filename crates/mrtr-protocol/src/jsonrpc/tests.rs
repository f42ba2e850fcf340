use super::*;

fn problem(body: &str) -> EnvelopeProblem {
    match Message::parse(body.as_bytes()) {
        Err(EnvelopeError::Invalid { problem, .. }) => problem,
        other => panic!("{body}: {other:?}"),
    }
}

#[test]
fn reads_requests_and_notifications() {
    let body = br#" {"id":"a","params":{"x":1},"method":"m\u002fn","jsonrpc":"2.0","other":[1]} "#;
    let Ok(Message::Request(request)) = Message::parse(body) else {
        panic!()
    };
    assert_eq!(
        (request.id, request.method.as_ref()),
        (RequestId::from("a"), "m/n")
    );
    assert_eq!(request.params.unwrap().get(), r#"{"x":1}"#);

    let Ok(Message::Notification(note)) = Message::parse(br#"{"jsonrpc":"2.0","method":"n"}"#)
    else {
        panic!()
    };
    assert_eq!(note.method, "n");
    assert!(note.params.is_none());
}

#[test]
fn names_what_is_wrong() {
    use EnvelopeProblem::*;
    for (body, expected) in [
        ("[]", Batch),
        (r#"[{"jsonrpc":"2.0","id":1,"method":"m"}]"#, Batch),
        (r#"["2.0",1,"m"]"#, Batch),
        ("1", NotAnObject),
        ("null", NotAnObject),
        ("{}", Version),
        (r#"{"jsonrpc":"1.0","id":1,"method":"m"}"#, Version),
        (r#"{"jsonrpc":2.0,"id":1,"method":"m"}"#, Version),
        (r#"{"id":1,"method":"m"}"#, Version),
        (r#"{"jsonrpc":"2.0","id":null,"method":"m"}"#, Id),
        (r#"{"jsonrpc":"2.0","id":1.5,"method":"m"}"#, Id),
        (r#"{"jsonrpc":"2.0","id":{},"method":"m"}"#, Id),
        (r#"{"jsonrpc":"2.0","id":1}"#, NoMethod),
        (r#"{"jsonrpc":"2.0","id":1,"Method":"m"}"#, NoMethod),
        (r#"{"jsonrpc":"2.0","id":1,"method":null}"#, Method),
        (
            r#"{"jsonrpc":"2.0","id":1,"method":"m","params":null}"#,
            Params,
        ),
        (
            r#"{"jsonrpc":"2.0","id":1,"method":"m","params":[]}"#,
            Params,
        ),
        (r#"{"jsonrpc":"2.0","id":1,"result":{}}"#, NoMethod),
        (
            r#"{"jsonrpc":"2.0","id":1,"method":"m","result":{}}"#,
            MethodAndOutcome,
        ),
        (
            r#"{"jsonrpc":"2.0","id":1,"method":"m","method":"n"}"#,
            DuplicateMember,
        ),
        (
            r#"{"jsonrpc":"2.0","id":1,"\u0069d":2,"method":"m"}"#,
            DuplicateMember,
        ),
    ] {
        assert_eq!(problem(body), expected, "{body}");
    }
}

#[test]
fn broken_json_is_a_parse_error_even_behind_a_wrong_type() {
    for body in [
        "",
        "{",
        "[1,",
        "nul",
        r#"{"jsonrpc":"2.0","id":1,"method":"m"} x"#,
        r#"{"jsonrpc":"2.0","id":1,"method":"m",}"#,
        "NaN",
    ] {
        assert_eq!(
            Message::parse(body.as_bytes()).unwrap_err(),
            EnvelopeError::Parse,
            "{body}"
        );
    }
    assert_eq!(
        Message::parse(b"{\"a\":\"\xff\"}").unwrap_err(),
        EnvelopeError::Parse
    );
}

#[test]
fn an_invalid_request_carries_its_id_where_there_is_one() {
    let id = |body: &str| Message::parse(body.as_bytes()).unwrap_err().id().cloned();
    assert_eq!(
        id(r#"{"jsonrpc":"1.0","id":"7","method":"m"}"#),
        Some(RequestId::from("7"))
    );
    assert_eq!(
        id(r#"{"jsonrpc":"2.0","id":9,"method":"m","params":[]}"#),
        Some(RequestId::from(9))
    );
    assert_eq!(id(r#"{"jsonrpc":"2.0","id":null,"method":"m"}"#), None);
    assert_eq!(
        id(r#"{"jsonrpc":"2.0","id":1,"id":2,"method":"m"}"#),
        None,
        "which of the two is not ours to choose"
    );
}

#[test]
fn reads_responses() {
    let Response { id, outcome } =
        Response::parse(br#"{"jsonrpc":"2.0","id":1,"result":{"a":1}}"#).unwrap();
    assert_eq!(
        (id, outcome.unwrap().get()),
        (Some(RequestId::from(1)), r#"{"a":1}"#)
    );
    for id in ["", r#""id":null,"#] {
        let body = format!(r#"{{"jsonrpc":"2.0",{id}"error":{{"code":-32700,"message":"x"}}}}"#);
        let response = Response::parse(body.as_bytes()).unwrap();
        assert_eq!(
            (response.id, response.outcome.unwrap_err().code),
            (None, -32700)
        );
    }
    for bad in [
        r#"{"jsonrpc":"2.0","result":{}}"#,
        r#"{"jsonrpc":"2.0","id":null,"result":{}}"#,
        r#"{"jsonrpc":"2.0","id":1,"result":[]}"#,
        r#"{"jsonrpc":"2.0","id":1,"result":null}"#,
        r#"{"jsonrpc":"2.0","id":1,"result":{},"error":{"code":1,"message":""}}"#,
        r#"{"jsonrpc":"2.0","id":1}"#,
        r#"{"jsonrpc":"2.0","id":1,"error":[1,"m"]}"#,
        r#"{"jsonrpc":"2.0","id":1,"error":{"code":1.5,"message":"m"}}"#,
        r#"{"jsonrpc":"2.0","id":1.5,"error":{"code":1,"message":"m"}}"#,
        r#"{"jsonrpc":"2.0","id":1,"method":"m"}"#,
        r#"{"jsonrpc":"2.0","method":"m"}"#,
    ] {
        assert!(Response::parse(bad.as_bytes()).is_err(), "{bad}");
    }
}

#[test]
fn writes_what_it_reads() {
    let id = RequestId::from(7);
    let request = write_request(&id, "tools/list", &serde_json::json!({})).unwrap();
    assert_eq!(
        request,
        br#"{"jsonrpc":"2.0","id":7,"method":"tools/list","params":{}}"#
    );
    assert_eq!(
        write_result(&id, r#"{"a":1}"#),
        br#"{"jsonrpc":"2.0","id":7,"result":{"a":1}}"#
    );
    assert_eq!(
        serialize_result(&id, &serde_json::json!({"a":1})).unwrap(),
        write_result(&id, r#"{"a":1}"#)
    );
    let error = ErrorObject::new(-32700, "x");
    assert_eq!(
        write_error(Some(&id), &error),
        br#"{"jsonrpc":"2.0","id":7,"error":{"code":-32700,"message":"x"}}"#
    );
    assert_eq!(
        write_error(None, &error),
        br#"{"jsonrpc":"2.0","error":{"code":-32700,"message":"x"}}"#
    );
}

#[test]
fn batches_are_read_message_by_message() {
    let batch = br#" [{"jsonrpc":"2.0","id":1,"method":"ping"},{"jsonrpc":"2.0","method":"x"},7,{"jsonrpc":"2.0","id":2,"result":{}}]"#;
    assert!(is_batch(batch));
    let messages = parse_batch(batch, 4).unwrap();
    assert!(matches!(&messages[0], Ok(Incoming::Request(request)) if request.method == "ping"));
    assert!(matches!(&messages[1], Ok(Incoming::Notification(_))));
    assert_eq!(
        messages[2].as_ref().unwrap_err(),
        &EnvelopeError::invalid(None, EnvelopeProblem::NotAnObject)
    );
    assert!(matches!(&messages[3], Ok(Incoming::Response(_))));
    let problem = |body: &[u8], limit| match parse_batch(body, limit) {
        Err(EnvelopeError::Invalid { id: None, problem }) => Some(problem),
        Err(_) => None,
        Ok(_) => panic!("{body:?}"),
    };
    assert_eq!(problem(batch, 3), Some(EnvelopeProblem::LargeBatch));
    assert_eq!(problem(b"[]", 4), Some(EnvelopeProblem::EmptyBatch));
    assert_eq!(problem(b"{}", 4), Some(EnvelopeProblem::NotABatch));
    for broken in [&b"[1"[..], b"[1]]", b"[1,]", b"[\xff]", b"{", b""] {
        assert_eq!(problem(broken, 4), None, "{broken:?}");
    }
    assert!(!is_batch(b"{}") && !is_batch(b""));
}

#[test]
fn a_batch_is_answered_by_a_batch() {
    let (one, two) = (write_result(&1.into(), "{}"), write_result(&2.into(), "{}"));
    assert_eq!(
        write_batch([one.as_slice(), &two]).unwrap(),
        br#"[{"jsonrpc":"2.0","id":1,"result":{}},{"jsonrpc":"2.0","id":2,"result":{}}]"#
    );
    assert_eq!(write_batch([]), None);
}

#[test]
fn notifications_are_written_without_an_id() {
    let written = write_notification("notifications/x", &serde_json::json!({"a": 1})).unwrap();
    let Ok(Message::Notification(read)) = Message::parse(&written) else {
        panic!("{written:?}")
    };
    assert_eq!(read.method, "notifications/x");
    assert_eq!(read.params.unwrap().get(), r#"{"a":1}"#);
}

#[test]
fn case_259_envelope_members_have_one_case() {
    let request = r#"{"jsonrpc":"2.0","id":1,"method":"m","params":{"a":1}}"#;
    let renamed =
        |from: &str, to: &str| request.replace(&format!("\"{from}\":"), &format!("\"{to}\":"));
    let spellings = |name: &str| {
        let mut first = name.to_owned();
        first[..1].make_ascii_uppercase();
        [
            first,
            name.to_ascii_uppercase(),
            format!("{name} "),
            name.replace('s', "\u{17f}"),
        ]
    };
    assert!(
        matches!(Message::parse(request.as_bytes()), Ok(Message::Request(request)) if request.params.is_some())
    );
    for name in ["jsonrpc", "id", "method", "params"] {
        for other in spellings(name).iter().filter(|other| *other != name) {
            let body = renamed(name, other);
            let read = Message::parse(body.as_bytes());
            let as_if_absent = match name {
                "id" => matches!(read, Ok(Message::Notification(_))),
                "params" => {
                    matches!(&read, Ok(Message::Request(request)) if request.params.is_none())
                }
                _ => matches!(read, Err(EnvelopeError::Invalid { .. })),
            };
            assert!(as_if_absent, "{body}");
            // Beside the real one it is nobody's, and no second one either.
            let beside = request.replacen('{', &format!("{{\"{other}\":null,"), 1);
            assert!(
                matches!(Message::parse(beside.as_bytes()), Ok(Message::Request(_))),
                "{beside}"
            );
        }
    }
    for (good, name) in [
        (r#"{"jsonrpc":"2.0","id":1,"result":{}}"#, "result"),
        (
            r#"{"jsonrpc":"2.0","id":1,"error":{"code":1,"message":"x"}}"#,
            "error",
        ),
        (
            r#"{"jsonrpc":"2.0","id":1,"error":{"code":1,"message":"x"}}"#,
            "code",
        ),
        (
            r#"{"jsonrpc":"2.0","id":1,"error":{"code":1,"message":"x"}}"#,
            "message",
        ),
    ] {
        assert!(Response::parse(good.as_bytes()).is_ok(), "{good}");
        for other in spellings(name).iter().filter(|other| *other != name) {
            let body = good.replace(&format!("\"{name}\":"), &format!("\"{other}\":"));
            assert!(Response::parse(body.as_bytes()).is_err(), "{body}");
        }
    }
}
