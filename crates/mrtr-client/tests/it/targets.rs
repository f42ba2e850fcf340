//! Prompts and resources ask as tools do, and every rule of a round holds for them too.

use std::time::Duration;

use axum::http::StatusCode;
use mrtr_client::{
    Abandoned, CallError, Client, Completed, FormAnswer, FormQuestion, PendingCall, Progress,
    ProtocolError, Repeat, RequestError, Target,
};
use serde_json::{Value, json};
use tokio::time::Instant;

use crate::script::{Recorder, Reply, Seen, Server, accepted, asks, form, in_process, yes};

/// The three methods, with what each has beside the others.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Method {
    Tool,
    Prompt,
    Resource,
}

const ALL: [Method; 3] = [Method::Tool, Method::Prompt, Method::Resource];

impl Method {
    fn target(self) -> Target {
        match self {
            Self::Tool => Target::Tool("day".to_owned()),
            Self::Prompt => Target::Prompt("day".to_owned()),
            Self::Resource => Target::Resource("note://tüesday".to_owned()),
        }
    }

    fn result(self, text: &str) -> Reply {
        Reply::Result(match self {
            Self::Tool => {
                json!({"resultType": "complete", "content": [{"type": "text", "text": text}]})
            }
            Self::Prompt => {
                json!({"resultType": "complete", "messages": [{"role": "user", "content": {"type": "text", "text": text}}]})
            }
            Self::Resource => {
                json!({"resultType": "complete", "contents": [{"uri": "note://tüesday", "text": text}], "ttlMs": 60000, "cacheScope": "public"})
            }
        })
    }

    async fn call(self, client: &Client) -> Result<String, CallError> {
        match self {
            Self::Tool => {
                let result = client.call_tool("day", json!({"day": "tue"})).await?;
                Ok(result.joined_text())
            }
            Self::Prompt => {
                let result = client.get_prompt("day", json!({"day": "tue"})).await?;
                Ok(result.joined_text())
            }
            Self::Resource => Ok(client.read_resource("note://tüesday").await?.joined_text()),
        }
    }

    async fn begin(self, client: &Client) -> Result<Progress, CallError> {
        match self {
            Self::Tool => client.begin("day", json!({"day": "tue"})).await,
            Self::Prompt => client.begin_prompt("day", json!({"day": "tue"})).await,
            Self::Resource => client.begin_resource("note://tüesday").await,
        }
    }

    /// Params without `_meta`, answers and state.
    fn own_params(self) -> Value {
        match self {
            Self::Tool | Self::Prompt => json!({"name": "day", "arguments": {"day": "tue"}}),
            Self::Resource => json!({"uri": "note://tüesday"}),
        }
    }
}

fn own_params(seen: &Seen) -> Value {
    let mut params = seen.params().clone();
    for name in ["_meta", "inputResponses", "requestState"] {
        params.as_object_mut().unwrap().remove(name);
    }
    params
}

#[tokio::test]
async fn each_is_asked_and_repeated_with_the_exact_state() {
    for method in ALL {
        for state in ["S", "", "null", " a\u{2028}\0é e\u{301}\""] {
            let server = Server::start(move |n, _| match n {
                1 => asks("k", state),
                2 => Reply::Result(
                    json!({"resultType": "input_required", "inputRequests": {"again": form()}}),
                ),
                _ => method.result("done"),
            })
            .await;
            let client = server
                .client()
                .on_form(move |question: FormQuestion| {
                    assert_eq!(question.target, Some(method.target()));
                    yes(question)
                })
                .build()
                .unwrap();
            assert_eq!(method.call(&client).await.unwrap(), "done", "{method:?}");
            let [first, second, third] = &server.seen()[..] else {
                panic!()
            };
            for seen in [first, second, third] {
                assert_eq!(seen.body["method"], method.target().method());
                assert_eq!(seen.header("mcp-method"), method.target().method());
                assert_eq!(own_params(seen), method.own_params(), "{method:?}");
            }
            assert_eq!(
                first.header("mcp-name"),
                match method {
                    Method::Resource => "=?base64?bm90ZTovL3TDvGVzZGF5?=",
                    _ => "day",
                }
            );
            assert_eq!(second.param("requestState"), Some(&json!(state)));
            assert_eq!(
                second.param("inputResponses"),
                Some(&json!({"k": accepted()}))
            );
            assert!(third.param("requestState").is_none(), "not carried over");
            assert_eq!(
                third.param("inputResponses"),
                Some(&json!({"again": accepted()}))
            );
            assert_ne!(first.id(), second.id());
            assert_ne!(second.id(), third.id());
        }
    }
}

#[tokio::test(start_paused = true)]
async fn limits_kinds_and_pacing_hold_for_each() {
    for method in ALL {
        let greedy = Recorder::new(|_, _| asks("k", "S"));
        let client = in_process(&greedy)
            .on_form(yes)
            .max_rounds(3)
            .build()
            .unwrap();
        let error = method.call(&client).await.unwrap_err();
        assert!(matches!(
            error,
            CallError::Abandoned {
                why: Abandoned::TooManyRounds { limit: 3 },
                ..
            }
        ));
        assert_eq!(greedy.count(), 4);

        let undeclared = Recorder::new(|_, _| asks("k", "S"));
        let client = in_process(&undeclared).build().unwrap();
        let error = method.call(&client).await.unwrap_err();
        assert!(matches!(
            error,
            CallError::Abandoned {
                why: Abandoned::Unhandled { .. },
                ..
            }
        ));
        assert_eq!(undeclared.count(), 1);

        let busy = Recorder::new(move |n, _| match n {
            1..=3 => Reply::Result(json!({"resultType": "input_required", "requestState": "S"})),
            _ => method.result("done"),
        });
        let begun = Instant::now();
        let client = in_process(&busy).build().unwrap();
        method.call(&client).await.unwrap();
        assert!(begun.elapsed() >= Duration::from_millis(350), "{method:?}");
    }
}

#[tokio::test]
async fn an_outcome_that_is_unknown_is_said_for_each() {
    for method in ALL {
        let server = Server::start(move |n, _| match n {
            1 => asks("k", "S"),
            2 => Reply::Raw(StatusCode::BAD_GATEWAY, "text/plain", String::new()),
            _ => method.result("stored"),
        })
        .await;
        let client = server.client().on_form(yes).build().unwrap();
        let error = method.call(&client).await.unwrap_err();
        assert_eq!(error.repeat(), Some(Repeat::SafeWithLedger), "{error}");
        assert_eq!(server.count(), 2, "nothing is repeated unasked");
        let pending = error.into_pending().unwrap();
        let done = client.finish(pending).await.unwrap();
        assert_eq!(done.joined_text(), "stored");
        let [_, second, third] = &server.seen()[..] else {
            panic!()
        };
        assert_eq!(
            second.params(),
            third.params(),
            "the same again, under another id"
        );
        assert_ne!(second.id(), third.id());
    }
}

#[tokio::test]
async fn a_stored_call_says_which_method_it_is() {
    for method in ALL {
        let server = Server::start(move |n, _| match n {
            1 => asks("k", "S"),
            _ => method.result("done"),
        })
        .await;
        let client = server.client().build().unwrap();
        let Progress::InputRequired(pending) = method.begin(&client).await.unwrap() else {
            panic!()
        };
        let stored = serde_json::to_string(&pending).unwrap();
        let mut pending: PendingCall = serde_json::from_str(&stored).unwrap();
        assert_eq!(pending.target(), &method.target());
        pending
            .answer("k", &FormAnswer::Accept(json!({"ok": true})))
            .unwrap();
        let Progress::Done(done) = client.resume(pending).await.unwrap() else {
            panic!()
        };
        assert_eq!(done.joined_text(), "done");
        let fits = match method {
            Method::Tool => matches!(done, Completed::Tool(_)) && done.into_tool().is_some(),
            Method::Prompt => matches!(done, Completed::Prompt(_)) && done.into_prompt().is_some(),
            Method::Resource => {
                matches!(done, Completed::Resource(_)) && done.into_resource().is_some()
            }
        };
        assert!(fits, "{method:?}");
        assert_eq!(own_params(&server.seen()[1]), method.own_params());
    }
}

#[tokio::test]
async fn a_result_is_that_of_its_method_or_none() {
    for method in ALL {
        for other in ALL {
            let server = Server::start(move |_, _| other.result("x")).await;
            let client = server.client().build().unwrap();
            let result = method.call(&client).await;
            if method == other {
                assert_eq!(result.unwrap(), "x");
            } else {
                let error = result.unwrap_err();
                assert!(is_unreadable(&error), "{other:?} for {method:?}: {error}");
                assert_eq!(error.pending().unwrap().target(), &method.target());
            }
        }
    }
}

fn is_unreadable(error: &CallError) -> bool {
    matches!(
        error,
        CallError::OutcomeUnknown {
            source: RequestError::Protocol(ProtocolError::Result { .. }),
            ..
        }
    )
}

#[tokio::test]
async fn a_call_outlives_a_result_that_cannot_be_read() {
    for method in ALL {
        // Each second request, with the answer, is answered by nonsense: to a call, to a resumed one, and to a finished one.
        let server = Server::start(move |n, _| match n {
            1 => asks("k", "S"),
            2..5 => Reply::Result(json!({"resultType": "complete", "content": 1})),
            _ => method.result("done"),
        })
        .await;
        let client = server.client().on_form(yes).build().unwrap();
        let mut errors = vec![method.call(&client).await.unwrap_err()];
        let again = errors[0].pending().unwrap().clone();
        errors.push(client.resume(again.clone()).await.unwrap_err());
        errors.push(client.finish(again).await.unwrap_err());
        for error in &errors {
            assert!(is_unreadable(error), "{error}");
            assert_eq!(error.repeat(), Some(Repeat::SafeWithLedger), "{error}");
        }
        let last = errors.pop().unwrap().into_pending().unwrap();
        assert_eq!(client.finish(last).await.unwrap().joined_text(), "done");
        let seen = server.seen();
        assert_eq!(seen.len(), 5);
        for seen in &seen[1..] {
            assert_eq!(own_params(seen), method.own_params());
            assert_eq!(seen.param("requestState"), Some(&json!("S")));
            assert_eq!(
                seen.param("inputResponses"),
                Some(&json!({"k": accepted()}))
            );
        }
        // And at the first request.
        let server = Server::start(|_, _| Reply::Result(json!({"resultType": "complete"}))).await;
        let client = server.client().build().unwrap();
        let error = method.begin(&client).await.unwrap_err();
        assert!(is_unreadable(&error), "{error}");
        assert_eq!(error.repeat(), Some(Repeat::MayRepeatEffects));
    }
}

#[tokio::test]
async fn too_many_questions_are_not_asked_for_any_of_them() {
    for method in ALL {
        let recorder = Recorder::new(|_, _| {
            let questions: serde_json::Map<_, _> =
                (0..33).map(|n| (format!("k{n}"), form())).collect();
            Reply::Result(
                json!({"resultType": "input_required", "requestState": "S", "inputRequests": questions}),
            )
        });
        let client = in_process(&recorder)
            .on_form(async |_: FormQuestion| panic!("asked"))
            .build()
            .unwrap();
        let error = method.call(&client).await.unwrap_err();
        assert!(
            matches!(
                error,
                CallError::Abandoned {
                    why: Abandoned::TooManyQuestions {
                        asked: 33,
                        limit: 32
                    },
                    ..
                }
            ),
            "{error}"
        );
        assert_eq!(recorder.count(), 1);
    }
}

#[tokio::test]
async fn a_resource_is_read_anew_each_time() {
    let server = Server::start(|n, _| match n {
        1 => asks("k", "S"),
        _ => Method::Resource.result("x"),
    })
    .await;
    let client = server.client().on_form(yes).build().unwrap();
    let result = client.read_resource("note://1").await.unwrap();
    assert_eq!(result.ttl_ms, 60_000);
    client.read_resource("note://1").await.unwrap();
    let third = server.seen().pop().unwrap();
    assert_eq!(server.count(), 3);
    assert!(third.param("requestState").is_none() && third.param("inputResponses").is_none());
}

#[tokio::test]
async fn arguments_of_a_prompt_are_strings() {
    let server = Server::start(|_, _| Method::Prompt.result("x")).await;
    let client = server.client().build().unwrap();
    client.get_prompt("p", json!({"n": "1"})).await.unwrap();
    client.get_prompt("p", ()).await.unwrap();
    assert!(server.seen()[1].param("arguments").is_none());
    for bad in [
        json!({"n": 1}),
        json!({"n": null}),
        json!(["1"]),
        json!("1"),
    ] {
        assert!(
            matches!(
                client.get_prompt("p", bad.clone()).await,
                Err(CallError::Arguments(_))
            ),
            "{bad}"
        );
    }
    assert_eq!(server.count(), 2);
}

#[tokio::test]
async fn a_header_mismatch_asks_for_tools_only_when_it_is_a_tool() {
    for method in [Method::Prompt, Method::Resource] {
        let server = Server::start(|_, _| {
            Reply::Error(
                StatusCode::BAD_REQUEST,
                json!({"code": -32020, "message": "Header mismatch"}),
            )
        })
        .await;
        let client = server.client().build().unwrap();
        assert!(matches!(
            method.call(&client).await,
            Err(CallError::Rpc { .. })
        ));
        assert_eq!(server.count(), 1, "{method:?}");
    }
}

/// The modern code, and the one that the earlier era had and some servers kept.
#[tokio::test]
async fn case_237_a_resource_that_is_not_there_has_either_code() {
    for code in [-32602, -32002] {
        let recorder = Recorder::new(move |_, _| {
            let error = json!({"code": code, "message": "Resource not found", "data": {"uri": "file:///a"}});
            Reply::Error(StatusCode::OK, error)
        });
        let client = in_process(&recorder).build().unwrap();
        let error = client.read_resource("file:///a").await.unwrap_err();
        assert!(
            matches!(&error, CallError::Rpc { source, .. } if source.error.code == code),
            "{error}"
        );
        assert_eq!(recorder.count(), 1, "it leads to no other era");
    }
}
