//! Cases 142 to 179: what is not put, not sent and not filled in, and who is asking.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use mrtr_client::{
    Abandoned, AnswerError, CallError, FormAnswer, FormQuestion, QuestionProblem, Refusal,
};
use mrtr_protocol::Kind;
use serde_json::{Value, json};
use tokio::sync::Barrier;

use crate::script::{Recorder, Reply, Server, asks, done, form, in_process, puts, yes};

/// Puts `question` beside a good form, and counts prompts.
async fn asked_beside_a_form(question: Value) -> (CallError, usize, usize) {
    let server = Server::start(move |_, _| Reply::Result(json!({"resultType": "input_required", "requestState": "S", "inputRequests": {"good": form(), "bad": question}}))).await;
    let prompts = Arc::new(AtomicUsize::new(0));
    let counter = Arc::clone(&prompts);
    let counting = move |question| {
        counter.fetch_add(1, Ordering::Relaxed);
        yes(question)
    };
    let error = server
        .client()
        .on_form(counting)
        .build()
        .unwrap()
        .call_tool("t", ())
        .await
        .unwrap_err();
    (error, prompts.load(Ordering::Relaxed), server.count())
}

/// None of these questions is put, nor the good one beside it, and nothing is sent.
async fn none_is_put(questions: impl IntoIterator<Item = Value>) {
    for question in questions {
        let (error, prompts, requests) = asked_beside_a_form(question.clone()).await;
        assert!(
            matches!(&error, CallError::Abandoned { why: Abandoned::Question { key, .. }, .. } if key == "bad"),
            "{question}: {error}"
        );
        assert_eq!((prompts, requests), (0, 1), "{question}");
    }
}

#[tokio::test]
async fn case_142_questions_that_were_not_declared_are_not_put() {
    for (question, expected) in [
        (
            json!({"method": "elicitation/create", "params": {"mode": "url", "url": "https://a.example", "message": "m"}}),
            Kind::Url,
        ),
        (
            json!({"method": "sampling/createMessage", "params": {"messages": [], "maxTokens": 1}}),
            Kind::Sampling,
        ),
        (
            json!({"method": "sampling/createMessage", "params": {"messages": [], "maxTokens": 1, "tools": []}}),
            Kind::SamplingWithTools,
        ),
        (json!({"method": "roots/list"}), Kind::Roots),
    ] {
        let (error, prompts, requests) = asked_beside_a_form(question).await;
        let CallError::Abandoned {
            why: Abandoned::Unhandled { key, kind },
            ..
        } = &error
        else {
            panic!("{error}")
        };
        assert_eq!((key.as_str(), *kind), ("bad", expected));
        assert_eq!((prompts, requests), (0, 1), "{expected}");
    }
}

#[tokio::test]
async fn case_142_questions_that_are_none_are_not_put() {
    none_is_put([
        json!({"method": "tools/call", "params": {"name": "pay"}}),
        json!({"method": "x/y"}),
        json!({"method": "Elicitation/Create", "params": form()["params"]}),
        json!({"method": "notifications/cancelled", "params": {"requestId": 1}}),
        json!({"method": "elicitation/create", "params": {"message": "m"}}),
        json!({"method": "elicitation/create"}),
    ])
    .await;
    // What is no request at all makes the whole round unreadable.
    for request in [
        json!({"method": 1}),
        json!({"params": form()["params"]}),
        json!("roots/list"),
    ] {
        let (error, prompts, requests) = asked_beside_a_form(request.clone()).await;
        assert!(error.repeat().is_some(), "{request}: {error}");
        assert_eq!((prompts, requests), (0, 1), "{request}");
    }
    let (error, ..) = asked_beside_a_form(json!({"method": "x/y"})).await;
    assert!(matches!(
        error,
        CallError::Abandoned {
            why: Abandoned::Question {
                problem: QuestionProblem::Malformed(_),
                ..
            },
            ..
        }
    ));
}

/// A client without handlers declares nothing; a server that asks all the same is told nothing, and the host at once.
#[tokio::test]
async fn case_143_without_a_handler_a_round_ends_the_call() {
    let server = Server::start(|n, _| if n == 1 { asks("k", "S") } else { done("x") }).await;
    let bare = server.client().build().unwrap();
    let error = bare.call_tool("t", ()).await.unwrap_err();
    assert!(
        matches!(
            &error,
            CallError::Abandoned {
                why: Abandoned::Unhandled {
                    kind: Kind::Form,
                    ..
                },
                ..
            }
        ),
        "{error}"
    );
    let [seen] = &server.seen()[..] else { panic!() };
    let meta = &seen.params()["_meta"];
    assert_eq!(
        meta["io.modelcontextprotocol/clientCapabilities"],
        json!({})
    );
    // The call is there for whoever has one.
    let able = server.client().on_form(yes).build().unwrap();
    able.finish(error.into_pending().unwrap()).await.unwrap();
}

/// A limit on the whole call is the host's, around it. It closes the prompt that is open and sends nothing more; without it a person may
/// take as long as they like.
#[tokio::test(start_paused = true)]
async fn case_147_a_limit_on_the_whole_call_counts_the_person() {
    let call = |open: &Arc<AtomicUsize>| {
        let recorder = Recorder::new(|n, _| if n < 5 { asks("k", "S") } else { done("x") });
        let open = Arc::clone(open);
        let client = in_process(&recorder)
            .request_timeout(Duration::from_secs(60))
            .on_form(move |question: FormQuestion| {
                let open = Arc::clone(&open);
                async move {
                    open.fetch_add(1, Ordering::Relaxed);
                    tokio::time::sleep(Duration::from_secs(600)).await;
                    open.fetch_sub(1, Ordering::Relaxed);
                    yes(question).await
                }
            })
            .build()
            .unwrap();
        (recorder, client)
    };
    for (minutes, rounds) in [(5, 1), (15, 2), (60, 5)] {
        let prompts = Arc::new(AtomicUsize::new(0));
        let (recorder, client) = call(&prompts);
        let limit = Duration::from_secs(minutes * 60);
        let result = tokio::time::timeout(limit, client.call_tool("t", ())).await;
        assert_eq!(result.is_ok(), rounds == 5, "{minutes}");
        assert_eq!(recorder.count(), rounds, "{minutes}");
        assert_eq!(prompts.load(Ordering::Relaxed), usize::from(rounds < 5));
        tokio::time::sleep(limit * 10).await;
        assert_eq!(recorder.count(), rounds, "nothing is sent afterwards");
    }
}

/// A server sends no requests in this era. Those that it sends all the same are neither put nor answered, and the call goes on.
#[tokio::test]
async fn case_154_a_request_on_the_stream_is_not_answered() {
    let requests = [
        json!({"jsonrpc": "2.0", "id": 7, "method": "elicitation/create", "params": form()["params"]}),
        json!({"jsonrpc": "2.0", "id": "8", "method": "sampling/createMessage", "params": {"messages": [], "maxTokens": 1}}),
        json!({"jsonrpc": "2.0", "id": 9, "method": "roots/list"}),
        json!({"jsonrpc": "2.0", "id": 10, "method": "ping"}),
    ];
    let server = Server::start(move |_, seen| {
        let result =
            json!({"resultType": "complete", "content": [{"type": "text", "text": "done"}]});
        let response = json!({"jsonrpc": "2.0", "id": seen.id(), "result": result});
        let messages = requests.iter().chain([&response]);
        Reply::Stream(
            messages
                .map(|message| format!("data: {message}\n\n"))
                .collect(),
            false,
        )
    })
    .await;
    let prompts = Arc::new(AtomicUsize::new(0));
    let counter = Arc::clone(&prompts);
    let client = server
        .client()
        .on_form(move |question| {
            counter.fetch_add(1, Ordering::Relaxed);
            yes(question)
        })
        .build()
        .unwrap();
    let result = client.call_tool("t", ()).await.unwrap();
    assert_eq!(result.joined_text(), "done");
    assert_eq!((prompts.load(Ordering::Relaxed), server.count()), (0, 1));
}

fn form_with(params: Value) -> Value {
    json!({"method": "elicitation/create", "params": params})
}

#[tokio::test]
async fn case_162_a_form_that_is_not_flat_is_not_put() {
    let fields = |fields: Value| {
        form_with(
            json!({"message": "m", "requestedSchema": {"type": "object", "properties": fields}}),
        )
    };
    none_is_put([
        fields(json!({"f": {"type": "object", "properties": {}}})),
        fields(json!({"f": {"type": "array", "items": {"type": "object"}}})),
        fields(json!({"f": {"$ref": "https://a.example/s"}})),
        fields(json!({"f": {"type": "string", "pattern": "(?=x)"}})),
        fields(json!({"f": {"type": ["string", "null"]}})),
        fields(json!([])),
        form_with(json!({"message": "m", "requestedSchema": {"type": "object", "properties": {}, "oneOf": [{}]}})),
        form_with(json!({"message": "m", "requestedSchema": true})),
    ])
    .await;
    // What the form may have is there for the handler: the dialect, and that nothing else may be said.
    let schema = json!({"$schema": "https://json-schema.org/draft/2020-12/schema", "type": "object", "properties": {}, "additionalProperties": false});
    let question = form_with(json!({"message": "m", "requestedSchema": schema}));
    let recorder = Recorder::new(move |n, _| {
        if n == 1 {
            puts(&question, "S")
        } else {
            done("x")
        }
    });
    let client = in_process(&recorder).on_form(move |question: FormQuestion| {
        let seen: Value = serde_json::from_str(question.requested_schema.as_str()).unwrap();
        assert_eq!(seen, schema);
        std::future::ready(Ok(FormAnswer::Accept(json!({}))))
    });
    client.build().unwrap().call_tool("t", ()).await.unwrap();
}

/// What a server suggests is shown and never sent for the person.
#[tokio::test]
async fn case_164_a_default_is_not_filled_in() {
    let ok = json!({"type": "boolean", "default": true});
    let question = form_with(
        json!({"message": "m", "requestedSchema": {"type": "object", "properties": {"ok": ok}, "required": ["ok"]}}),
    );
    let server = Server::start(move |_, seen| match seen.param("inputResponses") {
        None => puts(&question, "S"),
        Some(_) => done("x"),
    })
    .await;
    for (answer, sent) in [
        (FormAnswer::Accept(json!({})), None),
        (FormAnswer::Decline, Some(json!({"action": "decline"}))),
        (
            FormAnswer::Accept(json!({"ok": false})),
            Some(json!({"action": "accept", "content": {"ok": false}})),
        ),
    ] {
        let client = server
            .client()
            .on_form(move |_| std::future::ready(Ok(answer.clone())));
        let result = client.build().unwrap().call_tool("t", ()).await;
        let last = server.seen().pop().unwrap();
        match sent {
            None => {
                assert!(matches!(
                    result,
                    Err(CallError::InvalidAnswer {
                        problem: AnswerError::DoesNotFit { .. },
                        ..
                    })
                ));
                assert_eq!(last.param("inputResponses"), None);
            }
            Some(answer) => {
                result.unwrap();
                assert_eq!(last.param("inputResponses"), Some(&json!({"k": answer})));
            }
        }
    }
}

#[tokio::test]
async fn case_167_a_mode_that_is_wrong_is_not_put() {
    let schema = json!({"type": "object", "properties": {}});
    none_is_put([
        form_with(json!({"mode": "FORM", "message": "m", "requestedSchema": schema})),
        form_with(json!({"mode": null, "message": "m", "requestedSchema": schema})),
        form_with(json!({"mode": "form", "url": "https://a.example", "message": "m", "requestedSchema": schema})),
        form_with(json!({"mode": "voice", "message": "m", "requestedSchema": schema})),
    ])
    .await;
    // Without a mode it is a form.
    let question = form_with(json!({"message": "m", "requestedSchema": schema}));
    let recorder = Recorder::new(move |n, _| {
        if n == 1 {
            puts(&question, "S")
        } else {
            done("x")
        }
    });
    let accepts = async |_: FormQuestion| Ok::<_, Refusal>(FormAnswer::Accept(json!({})));
    let client = in_process(&recorder).on_form(accepts).build().unwrap();
    client.call_tool("t", ()).await.unwrap();
    // A page without its URL is no page.
    for params in [
        json!({"mode": "url", "message": "m"}),
        json!({"mode": "url", "message": "m", "url": null}),
        json!({"mode": "url", "message": "m", "url": "https://a.example", "requestedSchema": {}}),
    ] {
        let question = form_with(params.clone());
        let recorder = Recorder::new(move |_, _| puts(&question, "S"));
        let never = async |_| panic!("it is put");
        let client = in_process(&recorder).on_url(never).build().unwrap();
        let error = client.call_tool("t", ()).await.unwrap_err();
        let CallError::Abandoned { why, .. } = &error else {
            panic!("{params}: {error}")
        };
        assert!(matches!(why, Abandoned::Question { .. }), "{params}: {why}");
        assert_eq!(recorder.count(), 1);
    }
}

/// Two servers that call themselves the same ask at the same time: each question says by the host's own words whose it is.
#[tokio::test]
async fn case_179_the_host_knows_which_server_asks() {
    let asked = Arc::new(Mutex::new(Vec::new()));
    let (open, script) = (Arc::new(Barrier::new(2)), |n, _: &_| match n {
        1 => Reply::Result(json!({
            "resultType": "input_required", "requestState": "S", "inputRequests": {"k": form()},
            "_meta": {"io.modelcontextprotocol/serverInfo": {"name": "Your bank", "version": "1"}},
        })),
        _ => done("x"),
    });
    let (bank, other) = (Server::start(script).await, Server::start(script).await);
    let client = |server: &Server, label: &str| {
        let (asked, open) = (Arc::clone(&asked), Arc::clone(&open));
        let builder = server.client().label(label);
        builder
            .on_form(move |question: FormQuestion| {
                let (asked, open) = (Arc::clone(&asked), Arc::clone(&open));
                async move {
                    open.wait().await;
                    asked.lock().unwrap().push(question.server.clone());
                    yes(question).await
                }
            })
            .build()
            .unwrap()
    };
    let (one, two) = (client(&bank, "Bank"), client(&other, "Weather"));
    let (one, two) = tokio::join!(one.call_tool("t", ()), two.call_tool("t", ()));
    one.unwrap();
    two.unwrap();
    let asked = asked.lock().unwrap();
    for (server, label) in [(&bank, "Bank"), (&other, "Weather")] {
        let of_it = asked.iter().find(|asking| asking.url == server.url);
        let of_it = of_it.unwrap();
        assert_eq!(of_it.label.as_deref(), Some(label));
        assert_eq!(of_it.self_reported.as_deref(), Some("Your bank"));
        assert_eq!(of_it.to_string(), format!("{label} ({})", server.url));
    }
}
