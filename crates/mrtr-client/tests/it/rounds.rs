//! Calls of several rounds: questions, answers, states, and reasons to stop.

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use mrtr_client::{
    Abandoned, AnswerError, CallError, FormAnswer, FormQuestion, ProtocolError, Refusal,
    RequestError,
};
use serde_json::{Value, json};
use tokio::sync::Barrier;
use tokio::time::Instant;

use crate::script::{Recorder, Reply, Server, accepted, asks, done, form, in_process, yes};

#[tokio::test]
async fn a_question_is_asked_and_the_call_repeated() {
    let server = Server::start(|n, _| {
        if n == 1 {
            asks("confirm", "S1")
        } else {
            done("booked")
        }
    })
    .await;
    let client = server
        .client()
        .label("Expenses")
        .on_form({
            let url = server.url.clone();
            move |question: FormQuestion| {
                assert_eq!(
                    (
                        question.key.as_str(),
                        question.message.as_str(),
                        question.target.as_ref().unwrap().to_string().as_str()
                    ),
                    ("confirm", "Sure?", "tool submit")
                );
                assert_eq!(question.server.to_string(), format!("Expenses ({url})"));
                assert_eq!(question.schema.fields[0].name, "ok");
                yes(question)
            }
        })
        .build()
        .unwrap();
    let result = client
        .call_tool("submit", json!({"amount": 250}))
        .await
        .unwrap();
    assert_eq!(result.joined_text(), "booked");

    let [first, second] = &server.seen()[..] else {
        panic!()
    };
    assert_ne!(first.id(), second.id());
    assert!(first.param("requestState").is_none() && first.param("inputResponses").is_none());
    assert_eq!(second.param("requestState"), Some(&json!("S1")));
    assert_eq!(
        second.param("inputResponses"),
        Some(&json!({"confirm": accepted()}))
    );
    for name in ["name", "arguments", "_meta"] {
        assert_eq!(first.param(name), second.param(name), "{name}");
    }
}

#[tokio::test]
async fn decline_and_cancel_are_sent_as_such() {
    let server = Server::start(|_, seen| {
        if seen.param("inputResponses").is_none() {
            asks("k", "S")
        } else {
            done("x")
        }
    })
    .await;
    for (answer, wire) in [
        (FormAnswer::Decline, "decline"),
        (FormAnswer::Cancel, "cancel"),
    ] {
        let client = server
            .client()
            .on_form(move |_| std::future::ready(Ok(answer.clone())))
            .build()
            .unwrap();
        client.call_tool("t", ()).await.unwrap();
        assert_eq!(
            server.seen().last().unwrap().param("inputResponses"),
            Some(&json!({"k": {"action": wire}}))
        );
    }
}

#[tokio::test]
async fn case_148_a_greedy_server_is_abandoned() {
    let greedy = || {
        Server::start(|n, _| {
            if n <= 50 {
                asks("k", &format!("S{n}"))
            } else {
                done("at last")
            }
        })
    };
    let server = greedy().await;
    let prompts = Arc::new(AtomicUsize::new(0));
    let counting = {
        let prompts = Arc::clone(&prompts);
        move |question| {
            prompts.fetch_add(1, Ordering::Relaxed);
            yes(question)
        }
    };
    let client = server
        .client()
        .on_form(counting.clone())
        .max_rounds(3)
        .build()
        .unwrap();
    let error = client.call_tool("t", ()).await.unwrap_err();
    assert!(
        matches!(
            error,
            CallError::Abandoned {
                why: Abandoned::TooManyRounds { limit: 3 },
                ..
            }
        ),
        "{error}"
    );
    assert_eq!(
        error.to_string(),
        "the call was abandoned: too many rounds: the server still asks after 3"
    );
    assert_eq!(server.count(), 4);
    assert_eq!(
        prompts.load(Ordering::Relaxed),
        3,
        "a person is not asked what will not be sent"
    );

    // The host may go on with the call that the error holds.
    let patient = server
        .client()
        .on_form(yes)
        .max_rounds(None)
        .build()
        .unwrap();
    let result = patient.finish(error.into_pending().unwrap()).await.unwrap();
    assert_eq!(result.joined_text(), "at last");
    assert_eq!(server.count(), 51);

    // By default there is a limit.
    let server = greedy().await;
    let client = server.client().on_form(yes).build().unwrap();
    assert!(matches!(
        client.call_tool("t", ()).await,
        Err(CallError::Abandoned {
            why: Abandoned::TooManyRounds { limit: 10 },
            ..
        })
    ));
    assert_eq!(server.count(), 11);
    let client = server.client().on_form(yes).max_rounds(0).build().unwrap();
    assert!(matches!(
        client.call_tool("t", ()).await,
        Err(CallError::Abandoned {
            why: Abandoned::TooManyRounds { limit: 0 },
            ..
        })
    ));
    assert_eq!(server.count(), 12);
}

#[tokio::test]
async fn case_144_a_refusal_sends_nothing() {
    let server = Server::start(|n, _| {
        if n == 1 {
            asks("confirm", "S")
        } else {
            done("x")
        }
    })
    .await;
    let client = server
        .client()
        .on_form(async |_: FormQuestion| Err(Refusal::new("nobody is here")))
        .build()
        .unwrap();
    let error = client.call_tool("t", ()).await.unwrap_err();
    let CallError::Abandoned {
        why: Abandoned::Refused { key, refusal },
        ..
    } = &error
    else {
        panic!("{error}")
    };
    assert_eq!(
        (key.as_str(), refusal.reason.as_str()),
        ("confirm", "nobody is here")
    );
    assert_eq!(server.count(), 1);
    // With the same server, a host that answers gets through.
    let client = server.client().on_form(yes).build().unwrap();
    client.finish(error.into_pending().unwrap()).await.unwrap();
}

#[tokio::test]
async fn case_135_states_come_back_exactly() {
    let states = [
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
        "with \"quotes\" and spaces",
        "Größe 世界 😀",
        "\\u0041",
        "a\r\nb\t",
        &"x".repeat(256 * 1024),
    ];
    for state in states {
        let sent = state.to_owned();
        let server =
            Server::start(move |n, _| if n == 1 { asks("k", &sent) } else { done("x") }).await;
        server
            .client()
            .on_form(yes)
            .build()
            .unwrap()
            .call_tool("t", ())
            .await
            .unwrap();
        let [_, second] = &server.seen()[..] else {
            panic!()
        };
        let echoed = second.param("requestState").unwrap().as_str().unwrap();
        assert_eq!(echoed.as_bytes(), state.as_bytes(), "{state:.20}");
    }
    // Spelt with escapes, it is the same string.
    let server = Server::start(|n, seen| {
        let body = format!(r#"{{"jsonrpc":"2.0","id":{},"result":{{"resultType":"input_required","requestState":"\u0041\ud83d\ude00\/"}}}}"#, seen.id());
        if n == 1 { Reply::Raw(axum::http::StatusCode::OK, "application/json", body) } else { done("x") }
    })
    .await;
    server
        .client()
        .build()
        .unwrap()
        .call_tool("t", ())
        .await
        .unwrap();
    assert_eq!(server.seen()[1].param("requestState").unwrap(), "A😀/");
}

#[tokio::test]
async fn case_136_neither_state_nor_answers_are_carried_over() {
    let server = Server::start(|n, _| match n {
        1 => asks("a", "S1"),
        2 => Reply::Result(json!({"resultType": "input_required", "inputRequests": {"b": form()}})),
        3 => Reply::Result(json!({"resultType": "input_required", "requestState": "S3"})),
        _ => done("x"),
    })
    .await;
    server
        .client()
        .on_form(yes)
        .build()
        .unwrap()
        .call_tool("t", ())
        .await
        .unwrap();
    let [_, second, third, fourth] = &server.seen()[..] else {
        panic!()
    };
    assert_eq!(second.param("requestState"), Some(&json!("S1")));
    assert_eq!(
        third.param("requestState"),
        None,
        "absent, neither null nor S1"
    );
    assert!(!third.text.contains("requestState"));
    assert_eq!(
        third.param("inputResponses"),
        Some(&json!({"b": accepted()}))
    );
    assert_eq!(fourth.param("requestState"), Some(&json!("S3")));
    assert_eq!(fourth.param("inputResponses"), None);
}

#[tokio::test]
async fn an_unrelated_call_during_a_round_carries_neither() {
    let server = Server::start(|_, seen| {
        match (seen.params()["name"].as_str(), seen.param("inputResponses")) {
            (Some("submit"), None) => asks("confirm", "S1"),
            _ => done("x"),
        }
    })
    .await;
    let other = server.client().build().unwrap();
    let client = server
        .client()
        .on_form(move |question| {
            let other = other.clone();
            async move {
                other.call_tool("look_up", json!({})).await.unwrap();
                yes(question).await
            }
        })
        .build()
        .unwrap();
    client.call_tool("submit", json!({})).await.unwrap();
    let [_, unrelated, retry] = &server.seen()[..] else {
        panic!()
    };
    assert_eq!(unrelated.params()["name"], "look_up");
    assert!(!unrelated.text.contains("requestState") && !unrelated.text.contains("inputResponses"));
    assert_eq!(retry.param("requestState"), Some(&json!("S1")));
}

#[tokio::test]
async fn the_same_client_may_call_during_a_round_too() {
    let server = Server::start(|_, seen| {
        match (seen.params()["name"].as_str(), seen.param("inputResponses")) {
            (Some("submit"), None) => asks("confirm", "S1"),
            _ => done("x"),
        }
    })
    .await;
    let client = server.client().on_form(yes).build().unwrap();
    let mrtr_client::Progress::InputRequired(mut pending) =
        client.begin("submit", ()).await.unwrap()
    else {
        panic!()
    };
    client.call_tool("look_up", ()).await.unwrap();
    client.list_tools().await.unwrap_err();
    client.discover().await.unwrap_err();
    for unrelated in &server.seen()[1..] {
        assert!(
            !unrelated.text.contains("requestState") && !unrelated.text.contains("inputResponses"),
            "{}",
            unrelated.text
        );
    }
    pending.answer("confirm", &FormAnswer::Decline).unwrap();
    client.resume(*pending).await.unwrap();
    assert_eq!(
        server.seen().last().unwrap().param("requestState"),
        Some(&json!("S1"))
    );
}

#[tokio::test]
async fn case_137_ids_are_never_used_twice() {
    let server =
        Server::start(
            |_, seen| match seen.param("requestState").and_then(Value::as_str) {
                None => asks("k", "1"),
                Some("9") => done("x"),
                Some(state) => asks("k", &(state.parse::<u32>().unwrap() + 1).to_string()),
            },
        )
        .await;
    let client = server.client().on_form(yes).build().unwrap();
    let clone = client.clone();
    let (a, b) = tokio::join!(client.call_tool("a", ()), clone.call_tool("b", ()));
    a.unwrap();
    b.unwrap();
    let ids: HashSet<String> = server
        .seen()
        .iter()
        .map(|seen| seen.id().to_string())
        .collect();
    assert_eq!((server.count(), ids.len()), (20, 20));
}

#[tokio::test]
async fn a_state_that_is_no_string_is_never_sent_back() {
    let server = Server::start(|_, seen| match &seen.params()["arguments"]["state"] {
        Value::String(state) if seen.param("requestState").is_none() => asks("k", state),
        Value::String(_) => done("x"),
        other => Reply::Result(json!({"resultType": "input_required", "inputRequests": {"k": form()}, "requestState": other})),
    })
    .await;
    let client = server.client().on_form(yes).build().unwrap();
    client.call_tool("t", json!({"state": "S"})).await.unwrap();
    assert_eq!(server.count(), 2);
    for (n, state) in [
        json!({"a": 1}),
        json!(["S"]),
        json!(7),
        json!(true),
        json!(null),
    ]
    .into_iter()
    .enumerate()
    {
        let error = client
            .call_tool("t", json!({"state": state}))
            .await
            .unwrap_err();
        assert!(
            matches!(error, CallError::Protocol(ProtocolError::Round(_))),
            "{state}: {error}"
        );
        assert!(error.pending().is_none());
        assert_eq!(server.count(), 3 + n, "the call is not repeated");
        assert!(
            server
                .seen()
                .last()
                .unwrap()
                .param("requestState")
                .is_none()
        );
    }
}

#[tokio::test]
async fn case_139_a_round_is_a_round_whatever_else_it_holds() {
    let members = [
        r#""resultType":"input_required""#.to_owned(),
        r#""requestState":"S""#.to_owned(),
        format!(r#""inputRequests":{{"k":{}}}"#, form()),
        r#""_meta":{"x/y":1}"#.to_owned(),
        r#""content":[],"isError":false,"structuredContent":{},"later":[1]"#.to_owned(),
    ];
    // Each member first, last and between, and without those that are no part of a round.
    for (turn, count) in (0..members.len()).flat_map(|turn| [(turn, 5), (turn, 3)]) {
        let mut members = members.clone().to_vec();
        members.truncate(count);
        members.rotate_left(turn % count);
        let round = members.join(",");
        let server = Server::start(move |n, seen| match n {
            1 => {
                let body = format!(
                    r#"{{"jsonrpc":"2.0","id":{},"result":{{{round}}}}}"#,
                    seen.id()
                );
                Reply::Raw(axum::http::StatusCode::OK, "application/json", body)
            }
            _ => done("x"),
        })
        .await;
        let client = server.client().on_form(yes).build().unwrap();
        client.call_tool("t", ()).await.unwrap();
        assert_eq!(
            server.seen()[1].param("inputResponses"),
            Some(&json!({"k": accepted()}))
        );
    }
    for empty in [
        json!({"resultType": "input_required"}),
        json!({"resultType": "input_required", "inputRequests": {}}),
        json!({"resultType": "input_required", "inputRequests": []}),
    ] {
        let server = Server::start(move |_, _| Reply::Result(empty.clone())).await;
        let error = server
            .client()
            .on_form(yes)
            .build()
            .unwrap()
            .call_tool("t", ())
            .await
            .unwrap_err();
        assert!(
            matches!(
                error,
                CallError::OutcomeUnknown {
                    source: RequestError::Protocol(ProtocolError::Round(_)),
                    ..
                }
            ),
            "{error}"
        );
        assert_eq!(server.count(), 1);
    }
}

#[tokio::test]
async fn an_answer_that_does_not_fit_is_not_sent() {
    let server = Server::start(|_, seen| {
        if seen.param("inputResponses").is_none() {
            asks("k", "S")
        } else {
            done("x")
        }
    })
    .await;
    for bad in [
        json!({"ok": "yes"}),
        json!({}),
        json!({"ok": null}),
        json!(null),
        json!([true]),
    ] {
        let before = server.count();
        let client = server
            .client()
            .on_form({
                let bad = bad.clone();
                move |_| std::future::ready(Ok(FormAnswer::Accept(bad.clone())))
            })
            .build()
            .unwrap();
        let error = client.call_tool("t", ()).await.unwrap_err();
        let CallError::InvalidAnswer {
            key,
            problem,
            mut pending,
        } = error
        else {
            panic!("{bad}: {error}")
        };
        assert_eq!(key, "k");
        assert!(
            matches!(
                problem,
                AnswerError::DoesNotFit { .. } | AnswerError::NotAnObject
            ),
            "{bad}: {problem}"
        );
        assert_eq!(server.count(), before + 1, "{bad}");
        // The call is still open for a better one.
        pending
            .answer("k", &FormAnswer::Accept(json!({"ok": true})))
            .unwrap();
        client.resume(*pending).await.unwrap();
    }
}

#[tokio::test]
async fn questions_of_one_round_are_asked_at_the_same_time() {
    let server = Server::start(|n, _| match n {
        1 => Reply::Result(
            json!({"resultType": "input_required", "inputRequests": {"b": form(), "a": form()}}),
        ),
        _ => done("x"),
    })
    .await;
    let barrier = Arc::new(Barrier::new(2));
    let client = server
        .client()
        .on_form(move |question| {
            let barrier = Arc::clone(&barrier);
            async move {
                barrier.wait().await;
                yes(question).await
            }
        })
        .build()
        .unwrap();
    let call = client.call_tool("t", ());
    tokio::time::timeout(Duration::from_secs(30), call)
        .await
        .expect("asked one after the other")
        .unwrap();
    assert_eq!(
        server.seen()[1].param("inputResponses"),
        Some(&json!({"a": accepted(), "b": accepted()}))
    );
}

#[tokio::test]
async fn case_149_dropping_the_call_closes_its_prompts() {
    struct Open(Arc<AtomicUsize>);
    impl Drop for Open {
        fn drop(&mut self) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }
    let server = Server::start(|n, _| if n == 1 { asks("k", "S") } else { done("x") }).await;
    let closed = Arc::new(AtomicUsize::new(0));
    let (shown, mut prompt) = tokio::sync::mpsc::unbounded_channel();
    let counter = Arc::clone(&closed);
    let client = server
        .client()
        .on_form(move |question| {
            let (open, shown) = (Open(Arc::clone(&counter)), shown.clone());
            async move {
                shown.send(()).unwrap();
                std::future::pending::<()>().await;
                drop(open);
                yes(question).await
            }
        })
        .build()
        .unwrap();
    tokio::select! {
        result = client.call_tool("t", ()) => panic!("{result:?}"),
        _ = prompt.recv() => {}
    }
    assert_eq!(closed.load(Ordering::Relaxed), 1);
    assert_eq!(server.count(), 1);
}

#[tokio::test(start_paused = true)]
async fn case_148_rounds_without_questions_are_paced() {
    let recorder = Recorder::new(|n, _| match n {
        1..=4 => {
            Reply::Result(json!({"resultType": "input_required", "requestState": format!("S{n}")}))
        }
        _ => done("x"),
    });
    let begun = Instant::now();
    in_process(&recorder)
        .build()
        .unwrap()
        .call_tool("t", ())
        .await
        .unwrap();
    let took = begun.elapsed();
    // 50 + 100 + 200 + 400 ms, and up to half as much again.
    assert!(
        took >= Duration::from_millis(750) && took < Duration::from_millis(1_200),
        "{took:?}"
    );
    let states: Vec<_> = recorder
        .seen()
        .iter()
        .map(|seen| seen.param("requestState").cloned())
        .collect();
    assert_eq!(
        states,
        [
            None,
            Some(json!("S1")),
            Some(json!("S2")),
            Some(json!("S3")),
            Some(json!("S4"))
        ]
    );

    let endless = Recorder::new(|_, _| {
        Reply::Result(json!({"resultType": "input_required", "requestState": "S"}))
    });
    let error = in_process(&endless)
        .build()
        .unwrap()
        .call_tool("t", ())
        .await
        .unwrap_err();
    assert!(matches!(
        error,
        CallError::Abandoned {
            why: Abandoned::TooManyRounds { .. },
            ..
        }
    ));
    assert_eq!(endless.count(), 11);
}

#[tokio::test(start_paused = true)]
async fn case_147_a_person_s_thinking_is_no_timeout() {
    let recorder = Recorder::new(|n, _| if n < 5 { asks("k", "S") } else { done("x") });
    let client = in_process(&recorder)
        .request_timeout(Duration::from_secs(60))
        .on_form(async |question: FormQuestion| {
            tokio::time::sleep(Duration::from_secs(3_600)).await;
            yes(question).await
        })
        .build()
        .unwrap();
    client.call_tool("t", ()).await.unwrap();
    assert_eq!(recorder.count(), 5);
}

#[tokio::test(start_paused = true)]
async fn a_silent_server_is_a_timeout_and_an_unknown_outcome() {
    let recorder = Recorder::new(|_, _| Reply::Silence);
    let client = in_process(&recorder)
        .request_timeout(Duration::from_secs(60))
        .build()
        .unwrap();
    let error = client.call_tool("t", ()).await.unwrap_err();
    assert!(matches!(error, CallError::OutcomeUnknown { .. }), "{error}");
    assert_eq!(recorder.count(), 1);
}

#[tokio::test]
async fn a_round_has_so_many_questions_and_no_more() {
    let server = Server::start(|_, seen| {
        if seen.param("inputResponses").is_some() {
            return done("x");
        }
        let count = seen.params()["arguments"]["count"].as_u64().unwrap();
        let questions: serde_json::Map<_, _> =
            (0..count).map(|n| (format!("k{n}"), form())).collect();
        Reply::Result(json!({"resultType": "input_required", "inputRequests": questions, "requestState": "S"}))
    })
    .await;
    let prompts = Arc::new(AtomicUsize::new(0));
    let client = |limit: Option<Option<usize>>| {
        let counter = Arc::clone(&prompts);
        let builder = server.client().on_form(move |question| {
            counter.fetch_add(1, Ordering::Relaxed);
            yes(question)
        });
        match limit {
            Some(limit) => builder.max_questions(limit),
            None => builder,
        }
        .build()
        .unwrap()
    };
    for (limit, count) in [(None, 32), (Some(Some(2)), 2), (Some(None), 40)] {
        let call = client(limit);
        call.call_tool("t", json!({"count": count})).await.unwrap();
        assert_eq!(prompts.swap(0, Ordering::Relaxed), count);
    }
    let requests = server.count();
    for (limit, count, allowed) in [(None, 33, 32), (Some(Some(2)), 3, 2)] {
        let call = client(limit);
        let error = call
            .call_tool("t", json!({"count": count}))
            .await
            .unwrap_err();
        let CallError::Abandoned {
            why: Abandoned::TooManyQuestions { asked, limit },
            pending,
        } = error
        else {
            panic!("{error}")
        };
        assert_eq!((asked, limit), (count, allowed));
        assert_eq!(pending.unanswered().count(), count);
    }
    assert_eq!(prompts.load(Ordering::Relaxed), 0, "none is asked");
    assert_eq!(server.count(), requests + 2);
}
