use super::*;

fn raw(text: &str) -> Box<RawValue> {
    serde_json::from_str(text).unwrap()
}

const FORM: &str = r#"{"method":"elicitation/create","params":{"mode":"form","message":"m","requestedSchema":{"type":"object","properties":{}}}}"#;

#[test]
fn the_type_of_a_result_is_told_by_its_name_alone() {
    let of = |text: &str| ResultType::of(&raw(text));
    assert_eq!(of(r#"{"content":[]}"#), Ok(ResultType::Complete));
    assert_eq!(of(r#"{"resultType":"complete"}"#), Ok(ResultType::Complete));
    for order in [
        r#"{"resultType":"input_required","content":[],"isError":false,"_meta":{"x/y":1},"requestState":"S"}"#,
        r#"{"_meta":{"x/y":1},"requestState":"S","content":[],"resultType":"input_required"}"#,
    ] {
        assert_eq!(of(order), Ok(ResultType::InputRequired));
        assert_eq!(
            InputRequiredResult::parse(&raw(order))
                .unwrap()
                .request_state(),
            Some("S")
        );
    }
    for bad in [r#""Input_Required""#, r#""task""#, "1", "null", r#""""#] {
        assert_eq!(
            of(&format!(r#"{{"resultType":{bad}}}"#)),
            Err(ResultTypeError::Unknown),
            "{bad}"
        );
    }
    assert_eq!(
        of(r#"{"resultType":"complete","resultType":"input_required"}"#),
        Err(ResultTypeError::NotAnObject)
    );
}

#[test]
fn case_114_a_round_needs_a_question_or_a_state() {
    let of = |text: &str| InputRequiredResult::parse(&raw(text));
    assert!(of(&format!(r#"{{"inputRequests":{{"a":{FORM}}}}}"#)).is_ok());
    assert!(
        of(r#"{"requestState":""}"#).is_ok(),
        "the empty string is a state"
    );
    assert!(
        of(r#"{"requestState":"S","inputRequests":{}}"#)
            .unwrap()
            .input_requests()
            .is_none()
    );
    for (bad, error) in [
        ("{}", RoundError::Empty),
        (r#"{"inputRequests":{}}"#, RoundError::Empty),
        (
            r#"{"inputRequests":{},"requestState":null}"#,
            RoundError::StateNotAString,
        ),
        (r#"{"requestState":{"a":1}}"#, RoundError::StateNotAString),
        (r#"{"requestState":7}"#, RoundError::StateNotAString),
        (
            r#"{"requestState":"S","inputRequests":[]}"#,
            RoundError::Requests,
        ),
        (
            r#"{"requestState":"S","inputRequests":null}"#,
            RoundError::Requests,
        ),
        (
            r#"{"requestState":"S","inputRequests":{"a":["elicitation/create"]}}"#,
            RoundError::Requests,
        ),
        (
            r#"{"requestState":"S","inputRequests":{"a":{"method":"roots/list","params":null}}}"#,
            RoundError::Requests,
        ),
        (
            r#"{"requestState":"S","inputRequests":{"a":{"method":"roots/list","params":[]}}}"#,
            RoundError::Requests,
        ),
        (
            r#"{"requestState":"S","_meta":[]}"#,
            RoundError::NotAnObject,
        ),
    ] {
        assert_eq!(of(bad), Err(error), "{bad}");
    }
}

#[test]
fn the_state_survives_exactly_and_stays_out_of_debug() {
    for state in [
        "",
        "0",
        "null",
        " a ",
        "a\u{2028}b",
        "\0",
        "é",
        "e\u{301}",
        "+/=%20",
        "\"",
        "secret-state",
    ] {
        let round = InputRequiredResult::new(InputRequests::new(), Some(state.to_owned())).unwrap();
        let text = serde_json::to_string(&round).unwrap();
        assert_eq!(
            InputRequiredResult::parse(&raw(&text))
                .unwrap()
                .request_state(),
            Some(state)
        );
    }
    let round =
        InputRequiredResult::new(InputRequests::new(), Some("secret-state".to_owned())).unwrap();
    assert!(!format!("{round:?}").contains("secret"));
}

#[test]
fn questions_keep_their_order_and_their_keys_apart() {
    let text = format!(r#"{{"z":{FORM},"a":{FORM}}}"#);
    let requests: InputRequests = serde_json::from_str(&text).unwrap();
    assert_eq!(
        requests.iter().map(|(key, _)| key).collect::<Vec<_>>(),
        ["z", "a"]
    );
    assert_eq!(serde_json::to_string(&requests).unwrap(), text);
    assert!(
        serde_json::from_str::<InputRequests>(&format!(r#"{{"a":{FORM},"a":{FORM}}}"#)).is_err()
    );
    let mut twice = requests.clone();
    let form = requests.get("a").unwrap().clone();
    assert_eq!(
        twice.insert("a", form.clone()),
        Err(DuplicateKey("a".to_owned()))
    );
    assert_eq!(twice.insert("b", form), Ok(()));
}

#[test]
fn a_question_has_the_kind_that_it_asks() {
    let of = |text: &str| serde_json::from_str::<InputRequest>(text).unwrap().kind();
    let elicit = |params: &str| {
        of(&format!(
            r#"{{"method":"elicitation/create","params":{params}}}"#
        ))
    };
    let sample = |params: &str| {
        of(&format!(
            r#"{{"method":"sampling/createMessage","params":{params}}}"#
        ))
    };
    assert_eq!(of(FORM), Ok(Kind::Form));
    assert_eq!(
        elicit(r#"{"message":"m"}"#),
        Ok(Kind::Form),
        "no mode means form"
    );
    assert_eq!(
        elicit(r#"{"mode":"url","url":"https://a.example"}"#),
        Ok(Kind::Url)
    );
    for mode in [r#""FORM""#, r#""""#, "null", "1"] {
        assert_eq!(
            elicit(&format!(r#"{{"mode":{mode}}}"#)),
            Err(QuestionError::UnknownMode),
            "{mode}"
        );
    }
    assert_eq!(sample(r#"{"messages":[]}"#), Ok(Kind::Sampling));
    assert_eq!(
        sample(r#"{"messages":[],"tools":[]}"#),
        Ok(Kind::SamplingWithTools)
    );
    assert_eq!(
        sample(r#"{"messages":[],"toolChoice":{}}"#),
        Ok(Kind::SamplingWithTools)
    );
    assert_eq!(of(r#"{"method":"roots/list"}"#), Ok(Kind::Roots));
    for method in ["tools/call", "x/y", "Roots/list", ""] {
        assert_eq!(
            of(&format!(r#"{{"method":"{method}"}}"#)),
            Err(QuestionError::UnknownMethod),
            "{method}"
        );
    }
}

#[test]
fn a_question_is_read_as_its_own_kind_alone() {
    let form = InputRequest::form(&ElicitForm::new("m", JsonObject::empty()));
    let page = ElicitUrl::new("m", "https://a.example/go");
    let url = InputRequest::url(&page);
    let said = CreateMessageParams::new(vec![], 1);
    let sampling = InputRequest::sampling(&said);
    let roots = InputRequest::roots();
    assert!(form.as_form().is_ok());
    assert_eq!(url.as_url(), Ok(page));
    assert_eq!(sampling.as_sampling(), Ok(said));
    assert_eq!(
        serde_json::to_string(&roots).unwrap(),
        r#"{"method":"roots/list"}"#
    );
    for (question, kind) in [
        (&form, Kind::Form),
        (&url, Kind::Url),
        (&sampling, Kind::Sampling),
        (&roots, Kind::Roots),
    ] {
        assert_eq!(question.kind(), Ok(kind));
        assert_eq!(question.as_form().is_ok(), kind == Kind::Form, "{kind}");
        assert_eq!(question.as_url().is_ok(), kind == Kind::Url, "{kind}");
        assert_eq!(
            question.as_sampling().is_ok(),
            kind == Kind::Sampling,
            "{kind}"
        );
    }
    // A form with a URL, and a URL with a form, are neither.
    for (text, kind) in [
        (
            FORM.replace(r#""message""#, r#""url":"https://a.example","message""#),
            Kind::Form,
        ),
        (FORM.replace(r#""form""#, r#""url""#), Kind::Url),
        (
            FORM.replace(r#""form""#, r#""url","url":"https://a.example""#),
            Kind::Url,
        ),
    ] {
        let question: InputRequest = serde_json::from_str(&text).unwrap();
        assert_eq!(question.kind(), Ok(kind));
        assert_eq!(question.as_form(), Err(QuestionError::Malformed), "{text}");
        assert_eq!(question.as_url(), Err(QuestionError::Malformed), "{text}");
    }
}

#[test]
fn answers_are_an_object_of_objects() {
    let good = raw(r#"{"a":{"action":"cancel"},"b":{}}"#);
    let answers = InputResponses::parse(&good).unwrap();
    assert_eq!(answers.get("a").unwrap().get(), r#"{"action":"cancel"}"#);
    assert!(answers.get("c").is_none());
    for (bad, error) in [
        ("null", InputResponsesError::NotAnObject),
        ("[]", InputResponsesError::NotAnObject),
        ("\"x\"", InputResponsesError::NotAnObject),
        (r#"{"a":{},"a":{}}"#, InputResponsesError::NotAnObject),
        (r#"{"a":null}"#, InputResponsesError::AnswerNotAnObject),
        (r#"{"a":[]}"#, InputResponsesError::AnswerNotAnObject),
        (
            r#"{"a":{},"b":true}"#,
            InputResponsesError::AnswerNotAnObject,
        ),
    ] {
        assert_eq!(
            InputResponses::parse(&raw(bad)).unwrap_err(),
            error,
            "{bad}"
        );
    }
    let many = |n: usize| {
        raw(&format!(
            "{{{}}}",
            (0..n)
                .map(|k| format!("\"{k}\":{{}}"))
                .collect::<Vec<_>>()
                .join(",")
        ))
    };
    assert!(InputResponses::parse(&many(InputResponses::LIMIT)).is_ok());
    assert_eq!(
        InputResponses::parse(&many(InputResponses::LIMIT + 1)).unwrap_err(),
        InputResponsesError::TooMany
    );
}
