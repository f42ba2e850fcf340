//! What a server asks in a session: the same handlers, the same checks, and an answer by POST.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use mrtr_client::{
    CallError, ClientBuilder, EraChoice, FormAnswer, FormQuestion, Refusal, RequestError,
    UrlAnswer, UrlQuestion,
};
use mrtr_protocol::sampling::SamplingBlock;
use mrtr_protocol::{CreateMessageResult, Root};
use serde_json::{Value, json};
use tokio::sync::Notify;

use crate::script::{
    Recorder, Reply, Seen, Streams, accepted, form, form_request, in_process, request, response,
    session, text, yes,
};

fn earlier(recorder: &Recorder) -> ClientBuilder {
    in_process(recorder).era(EraChoice::Earlier)
}

/// A server whose `tools/call` opens a stream for the test to write to.
fn asking(streams: &Streams) -> Recorder {
    let streams = streams.clone();
    Recorder::new(session("2025-11-25", move |seen| {
        (seen.what() == "tools/call").then(|| streams.open())
    }))
}

/// Calls a tool, puts these questions, and gives the answers when all have come. The call is then answered.
async fn answers(
    recorder: &Recorder,
    streams: &Streams,
    client: ClientBuilder,
    questions: &[Value],
) -> Vec<Value> {
    let client = client.build().unwrap();
    let call = tokio::spawn(async move { client.call_tool("t", ()).await });
    let seen = recorder.until("tools/call", 1).await;
    for question in questions {
        streams.send(0, question);
    }
    recorder.until("response", questions.len()).await;
    streams.send(0, &response(seen.id(), text("done")));
    assert_eq!(call.await.unwrap().unwrap().joined_text(), "done");
    let all: Vec<Seen> = recorder.seen();
    all.iter()
        .filter(|seen| seen.what() == "response")
        .map(|seen| {
            assert_eq!(seen.header("mcp-session-id"), "s-1");
            assert_eq!(seen.header("mcp-protocol-version"), "2025-11-25");
            seen.body.clone()
        })
        .collect()
}

async fn one_answer(client: impl FnOnce(ClientBuilder) -> ClientBuilder, question: Value) -> Value {
    let streams = Streams::default();
    let recorder = asking(&streams);
    let client = client(earlier(&recorder));
    answers(&recorder, &streams, client, &[question])
        .await
        .remove(0)
}

#[tokio::test]
async fn a_form_is_put_to_the_same_handler_and_answered_by_post() {
    let asked: Arc<Mutex<Vec<FormQuestion>>> = Arc::default();
    let into = Arc::clone(&asked);
    let handler = move |question: FormQuestion| {
        into.lock().unwrap().push(question.clone());
        yes(question)
    };
    let answer = one_answer(
        |client| client.on_form(handler).label("Bank"),
        form_request("q-1"),
    )
    .await;
    assert_eq!(
        answer,
        json!({"jsonrpc": "2.0", "id": "q-1", "result": accepted()})
    );
    let question = asked.lock().unwrap().remove(0);
    assert_eq!(question.target.unwrap().to_string(), "tool t");
    assert_eq!(
        (question.key.as_str(), question.message.as_str()),
        ("\"q-1\"", "Sure?")
    );
    assert_eq!(question.server.label.as_deref(), Some("Bank"));
    assert_eq!(question.server.self_reported.as_deref(), Some("old"));
}

#[tokio::test]
async fn every_kind_is_answered_and_ids_keep_their_type() {
    let streams = Streams::default();
    let recorder = asking(&streams);
    let client = earlier(&recorder)
        .on_form(async |_| Ok(FormAnswer::Decline))
        .on_url(async |page: UrlQuestion| {
            assert_eq!(page.url.host(), "a.example");
            Ok(UrlAnswer::Accept)
        })
        .on_sampling(async |_| Ok(CreateMessageResult::new("m", SamplingBlock::text("hi"))))
        .on_roots(async |_| Ok(vec![Root::new("file:///a").unwrap()]));
    let page = json!({"mode": "url", "elicitationId": "e1", "url": "https://a.example/go", "message": "Log in"});
    let prompt = json!({"messages": [{"role": "user", "content": {"type": "text", "text": "?"}}], "maxTokens": 5});
    let answers = answers(
        &recorder,
        &streams,
        client,
        &[
            request(1, "ping", json!({})),
            form_request("1"),
            request(9_007_199_254_740_993_u64, "elicitation/create", page),
            request(-3, "sampling/createMessage", prompt),
            json!({"jsonrpc": "2.0", "id": "r", "method": "roots/list"}),
        ],
    )
    .await;
    let to = |id: &Value| {
        let answer = answers.iter().find(|answer| answer["id"] == *id);
        answer.unwrap()["result"].clone()
    };
    assert_eq!(to(&json!(1)), json!({}));
    assert_eq!(to(&json!("1")), json!({"action": "decline"}));
    assert_eq!(
        to(&json!(9_007_199_254_740_993_u64)),
        json!({"action": "accept"})
    );
    assert_eq!(to(&json!(-3))["content"]["text"], "hi");
    assert_eq!(to(&json!("r")), json!({"roots": [{"uri": "file:///a"}]}));
}

#[tokio::test]
async fn what_was_not_declared_is_an_error_and_asks_nobody() {
    let sampling = json!({"messages": [], "maxTokens": 5});
    let with_tools = json!({"messages": [], "maxTokens": 5, "tools": []});
    let url =
        json!({"mode": "url", "elicitationId": "e", "url": "https://a.example/", "message": "m"});
    let other_mode = json!({"mode": "voice", "message": "m"});
    // Nothing declared at all.
    for (method, params, code) in [
        ("elicitation/create", form()["params"].clone(), -32601),
        ("elicitation/create", url.clone(), -32601),
        ("sampling/createMessage", sampling, -32601),
        ("roots/list", json!({}), -32601),
        ("tools/call", json!({"name": "rm"}), -32601),
        ("x/y", json!({}), -32601),
    ] {
        let answer = one_answer(|client| client, request(7, method, params)).await;
        assert_eq!(
            (&answer["id"], &answer["error"]["code"]),
            (&json!(7), &json!(code)),
            "{answer}"
        );
    }
    // Another mode, or another use, of what was declared.
    let forms_and_models = |client: ClientBuilder| {
        client
            .on_form(async |_: FormQuestion| -> Result<FormAnswer, Refusal> { panic!("asked") })
            .on_sampling(async |_| panic!("asked"))
    };
    for (method, params) in [
        ("elicitation/create", url),
        ("elicitation/create", other_mode),
        ("sampling/createMessage", with_tools),
    ] {
        let answer = one_answer(forms_and_models, request(7, method, params)).await;
        assert_eq!(answer["error"]["code"], -32602, "{answer}");
    }
    let only_pages = |client: ClientBuilder| client.on_url(async |_| panic!("asked"));
    let answer = one_answer(only_pages, form_request(7)).await;
    assert_eq!(answer["error"]["code"], -32602, "{answer}");
}

#[tokio::test]
async fn a_kind_that_the_revision_does_not_have_was_not_declared() {
    let page =
        json!({"mode": "url", "elicitationId": "e", "url": "https://a.example/", "message": "m"});
    let page = || request(1, "elicitation/create", page.clone());
    for (revision, question, code) in [
        ("2025-11-25", form_request(1), None),
        ("2025-11-25", page(), None),
        ("2025-06-18", form_request(1), None),
        ("2025-06-18", page(), Some(-32602)),
        ("2025-03-26", form_request(1), Some(-32601)),
        ("2025-03-26", page(), Some(-32601)),
    ] {
        let streams = Streams::default();
        let open = streams.clone();
        let recorder = Recorder::new(session(revision, move |seen| {
            (seen.what() == "tools/call").then(|| open.open())
        }));
        let client = earlier(&recorder)
            .on_form(yes)
            .on_url(async |_| Ok(UrlAnswer::Decline))
            .build()
            .unwrap();
        let call = tokio::spawn(async move { client.call_tool("t", ()).await });
        let seen = recorder.until("tools/call", 1).await;
        streams.send(0, &question);
        let answer = recorder.until("response", 1).await.body;
        assert_eq!(
            answer["error"]["code"].as_i64(),
            code,
            "{revision} {answer}"
        );
        streams.send(0, &response(seen.id(), text("x")));
        call.await.unwrap().unwrap();
    }
}

#[tokio::test]
async fn a_question_that_cannot_be_put_is_an_error() {
    let nested = json!({"message": "m", "requestedSchema": {"type": "object", "properties": {"o": {"type": "object"}}}});
    for params in [
        nested,
        json!({"message": "m"}),
        json!({"mode": "url", "url": "javascript:alert(1)", "message": "m", "elicitationId": "e"}),
    ] {
        let never = |client: ClientBuilder| {
            client
                .on_form(async |_| panic!("asked"))
                .on_url(async |_| panic!("asked"))
        };
        let answer = one_answer(never, request(7, "elicitation/create", params)).await;
        assert_eq!(answer["error"]["code"], -32602, "{answer}");
    }
}

#[tokio::test]
async fn a_refusal_is_an_error_and_never_an_answer() {
    let refusing = |client: ClientBuilder| {
        client.on_form(async |_| Err(Refusal::new("the policy of Mr. X says no")))
    };
    let answer = one_answer(refusing, form_request(7)).await;
    assert_eq!(answer["error"]["code"], -1, "{answer}");
    assert!(
        !answer.to_string().contains("Mr. X"),
        "the host's reasons are its own: {answer}"
    );
    let wrong = |client: ClientBuilder| {
        client.on_form(async |_| Ok(FormAnswer::Accept(json!({"ok": "secret-4711"}))))
    };
    let answer = one_answer(wrong, form_request(7)).await;
    assert_eq!(answer["error"]["code"], -32603, "{answer}");
    assert!(!answer.to_string().contains("4711"), "{answer}");
    let broken = |client: ClientBuilder| {
        client.on_form(async |_: FormQuestion| -> Result<FormAnswer, Refusal> { panic!("a bug") })
    };
    let answer = one_answer(broken, form_request(7)).await;
    assert_eq!(answer["error"]["code"], -32603, "{answer}");
}

/// A handler that says when it asks and when its prompt is withdrawn, and never answers.
#[derive(Clone, Default)]
struct Undecided {
    open: Arc<AtomicUsize>,
    changed: Arc<Notify>,
}

impl Undecided {
    async fn ask(self) -> Result<FormAnswer, Refusal> {
        struct Prompt(Undecided);
        impl Drop for Prompt {
            fn drop(&mut self) {
                self.0.open.fetch_sub(1, Ordering::Relaxed);
                self.0.changed.notify_waiters();
            }
        }
        self.open.fetch_add(1, Ordering::Relaxed);
        self.changed.notify_waiters();
        let _prompt = Prompt(self);
        std::future::pending().await
    }

    async fn until(&self, open: usize) {
        let waiting = async {
            loop {
                let changed = self.changed.notified();
                if self.open.load(Ordering::Relaxed) == open {
                    return;
                }
                changed.await;
            }
        };
        tokio::time::timeout(Duration::from_secs(60), waiting)
            .await
            .unwrap();
    }
}

#[tokio::test]
async fn a_cancelled_question_is_withdrawn_and_not_answered() {
    let streams = Streams::default();
    let recorder = asking(&streams);
    let prompts = Undecided::default();
    let handler = prompts.clone();
    let client = earlier(&recorder)
        .on_form(move |_| handler.clone().ask())
        .build()
        .unwrap();
    let call = tokio::spawn({
        let client = client.clone();
        async move { client.call_tool("t", ()).await }
    });
    let seen = recorder.until("tools/call", 1).await;
    streams.send(0, &form_request(1));
    streams.send(0, &form_request("1"));
    prompts.until(2).await;
    let cancel = |id: Value| json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": id}});
    for nobodys in [json!(2), json!("x"), json!(null)] {
        streams.send(0, &cancel(nobodys));
    }
    streams.send(0, &cancel(json!("1")));
    prompts.until(1).await;
    // The answer to the call withdraws the rest.
    streams.send(0, &response(seen.id(), text("x")));
    call.await.unwrap().unwrap();
    prompts.until(0).await;
    client.ping().await.unwrap();
    assert!(!recorder.methods().contains(&"response".to_owned()));
}

#[tokio::test]
async fn a_dropped_call_takes_its_questions_along() {
    let streams = Streams::default();
    let recorder = asking(&streams);
    let prompts = Undecided::default();
    let handler = prompts.clone();
    let client = earlier(&recorder)
        .on_form(move |_| handler.clone().ask())
        .build()
        .unwrap();
    let call = tokio::spawn(async move { client.call_tool("t", ()).await });
    recorder.until("tools/call", 1).await;
    streams.send(0, &form_request(1));
    prompts.until(1).await;
    call.abort();
    prompts.until(0).await;
    recorder.until("notifications/cancelled", 1).await;
    assert!(!recorder.methods().contains(&"response".to_owned()));
}

#[tokio::test]
async fn nobody_is_asked_twice_under_one_id() {
    let streams = Streams::default();
    let recorder = asking(&streams);
    let prompts = Undecided::default();
    let handler = prompts.clone();
    let client = earlier(&recorder)
        .on_form(move |_| handler.clone().ask())
        .build()
        .unwrap();
    let call = tokio::spawn(async move { client.call_tool("t", ()).await });
    let seen = recorder.until("tools/call", 1).await;
    for _ in 0..5 {
        streams.send(0, &form_request(1));
    }
    // What comes after them has been read when this is answered.
    streams.send(0, &request(2, "ping", json!({})));
    assert_eq!(recorder.until("response", 1).await.body["id"], 2);
    assert_eq!(prompts.open.load(Ordering::Relaxed), 1);
    streams.send(0, &response(seen.id(), text("x")));
    call.await.unwrap().unwrap();
}

#[tokio::test]
async fn floods_of_questions_and_pings_are_bounded() {
    let streams = Streams::default();
    let recorder = asking(&streams);
    let prompts = Undecided::default();
    let handler = prompts.clone();
    let client = earlier(&recorder)
        .max_questions(3)
        .on_form(move |_| handler.clone().ask())
        .build()
        .unwrap();
    let call = tokio::spawn(async move { client.call_tool("t", ()).await });
    let seen = recorder.until("tools/call", 1).await;
    for id in 0..100 {
        streams.send(0, &form_request(id));
    }
    for id in 100..300 {
        streams.send(0, &request(id, "ping", json!({})));
    }
    recorder.until("response", 297).await;
    assert_eq!(prompts.open.load(Ordering::Relaxed), 3);
    let refused = recorder
        .seen()
        .iter()
        .filter(|seen| seen.body["error"]["message"] == "the client was asked too many questions")
        .count();
    assert_eq!(refused, 97);
    streams.send(0, &response(seen.id(), text("x")));
    call.await.unwrap().unwrap();
}

#[tokio::test]
async fn a_call_asks_no_more_than_its_rounds_could() {
    let streams = Streams::default();
    let recorder = asking(&streams);
    let asked = Arc::new(AtomicUsize::new(0));
    let counter = Arc::clone(&asked);
    let client = earlier(&recorder)
        .max_questions(2)
        .max_rounds(3)
        .on_form(move |question| {
            counter.fetch_add(1, Ordering::Relaxed);
            yes(question)
        })
        .build()
        .unwrap();
    let call = tokio::spawn(async move { client.call_tool("t", ()).await });
    let seen = recorder.until("tools/call", 1).await;
    for id in 1..=8 {
        streams.send(0, &form_request(id));
        recorder.until("response", id).await;
    }
    assert_eq!(asked.load(Ordering::Relaxed), 6);
    streams.send(0, &response(seen.id(), text("x")));
    call.await.unwrap().unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_person_may_think_longer_than_a_request_may_take() {
    let streams = Streams::default();
    let recorder = asking(&streams);
    let client = earlier(&recorder)
        .request_timeout(Duration::from_secs(60))
        .max_request_time(Duration::from_secs(90))
        .on_form(async |question| {
            tokio::time::sleep(Duration::from_secs(3_600)).await;
            yes(question).await
        })
        .build()
        .unwrap();
    let call = tokio::spawn({
        let client = client.clone();
        async move { client.call_tool("t", ()).await }
    });
    let seen = recorder.until("tools/call", 1).await;
    streams.send(0, &form_request(1));
    tokio::time::sleep(Duration::from_secs(3_610)).await;
    assert!(!call.is_finished());
    streams.send(0, &response(seen.id(), text("x")));
    call.await.unwrap().unwrap();
    // The server's own time is counted still.
    let call = tokio::spawn(async move { client.call_tool("t", ()).await });
    recorder.until("tools/call", 2).await;
    streams.send(1, &form_request(2));
    tokio::time::sleep(Duration::from_secs(3_610)).await;
    let begun = tokio::time::Instant::now();
    let error = call.await.unwrap().unwrap_err();
    assert!(
        matches!(
            error,
            CallError::OutcomeUnknown {
                source: RequestError::TimedOut { .. },
                ..
            }
        ),
        "{error}"
    );
    assert!(
        begun.elapsed() <= Duration::from_secs(50),
        "{:?}",
        begun.elapsed()
    );
}

#[tokio::test]
async fn a_page_that_is_asked_for_again_says_how_often_it_was_accepted() {
    let streams = Streams::default();
    let recorder = asking(&streams);
    let seen_counts: Arc<Mutex<Vec<u32>>> = Arc::default();
    let into = Arc::clone(&seen_counts);
    let client = earlier(&recorder)
        .on_url(move |page: UrlQuestion| {
            let into = Arc::clone(&into);
            async move {
                into.lock().unwrap().push(page.repeated);
                Ok(if page.repeated < 2 {
                    UrlAnswer::Accept
                } else {
                    UrlAnswer::Decline
                })
            }
        })
        .build()
        .unwrap();
    let call = tokio::spawn(async move { client.call_tool("t", ()).await });
    let seen = recorder.until("tools/call", 1).await;
    for id in 1..=4 {
        let page = json!({"mode": "url", "elicitationId": format!("e{id}"), "url": "https://a.example/go", "message": "m"});
        streams.send(0, &request(id, "elicitation/create", page));
        recorder.until("response", id).await;
    }
    assert_eq!(*seen_counts.lock().unwrap(), [0, 1, 2, 2]);
    streams.send(0, &response(seen.id(), text("x")));
    call.await.unwrap().unwrap();
}

#[tokio::test(start_paused = true)]
async fn an_answer_that_the_server_could_not_take_is_sent_again() {
    let streams = Streams::default();
    let open = streams.clone();
    let tries = Arc::new(AtomicUsize::new(0));
    let nth = Arc::clone(&tries);
    let recorder = Recorder::new(session("2025-11-25", move |seen| match seen.what() {
        "tools/call" => Some(open.open()),
        "response" if nth.fetch_add(1, Ordering::Relaxed) < 2 => Some(Reply::status(503)),
        _ => None,
    }));
    let client = earlier(&recorder).on_form(yes).build().unwrap();
    let call = tokio::spawn(async move { client.call_tool("t", ()).await });
    let seen = recorder.until("tools/call", 1).await;
    streams.send(0, &form_request(1));
    let third = recorder.until("response", 3).await;
    assert_eq!(third.body["result"], accepted());
    streams.send(0, &response(seen.id(), text("x")));
    call.await.unwrap().unwrap();
    assert_eq!(tries.load(Ordering::Relaxed), 3);
}
