//! Questions for a model. Deprecated since 2026-07-28: a new server calls a model provider itself.

use mrtr_client::{
    Abandoned, AnswerError, CallError, Progress, QuestionProblem, Refusal, SamplingQuestion,
};
use mrtr_protocol::sampling::{SamplingBlock, StopReason, ToolUseContent};
use mrtr_protocol::{CreateMessageResult, JsonObject, Kind, RawObject, Role};
use serde_json::{Value, json};

use crate::script::{Recorder, Server, done, in_process, puts};

fn said() -> CreateMessageResult {
    CreateMessageResult::new("small-1", "A sentence.").stopped(StopReason::EndTurn)
}

fn uses(tool: &str) -> CreateMessageResult {
    let tool_use = ToolUseContent {
        id: "u1".to_owned(),
        name: tool.to_owned(),
        input: JsonObject::parse(r#"{"city":"Bern"}"#).unwrap(),
        meta: RawObject::new(),
    };
    CreateMessageResult::new("small-1", SamplingBlock::ToolUse(tool_use))
        .stopped(StopReason::ToolUse)
}

fn sentence() -> Value {
    json!({"method": "sampling/createMessage", "params": {"messages": [{"role": "user", "content": {"type": "text", "text": "One sentence."}}], "maxTokens": 50}})
}

fn with_tools(choice: Option<&str>) -> Value {
    let mut question = sentence();
    question["params"]["tools"] = json!([{"name": "weather", "inputSchema": {"type": "object"}}]);
    if let Some(mode) = choice {
        question["params"]["toolChoice"] = json!({"mode": mode});
    }
    question
}

#[tokio::test]
async fn a_question_goes_to_the_host_s_model() {
    let server = Server::start(|n, _| {
        if n == 1 {
            puts(&sentence(), "S1")
        } else {
            done("thanks")
        }
    })
    .await;
    let client = server
        .client()
        .on_sampling(async |question: SamplingQuestion| {
            assert_eq!(
                (question.key.as_str(), question.params.max_tokens),
                ("k", 50)
            );
            assert_eq!(question.target.unwrap().to_string(), "tool write");
            Ok(said())
        })
        .build()
        .unwrap();
    client.call_tool("write", ()).await.unwrap();
    let second = server.seen().pop().unwrap();
    assert_eq!(
        second.param("inputResponses"),
        Some(
            &json!({"k": {"role": "assistant", "content": {"type": "text", "text": "A sentence."}, "model": "small-1", "stopReason": "endTurn"}})
        )
    );
    assert_eq!(second.param("requestState"), Some(&json!("S1")));
}

/// What a client with a sampling handler, with or without tools, does with a question and the handler's answer.
async fn ask(
    question: Value,
    tools: bool,
    answer: Result<CreateMessageResult, Refusal>,
) -> Result<Value, CallError> {
    let recorder = Recorder::new(move |n, _| {
        if n == 1 {
            puts(&question, "S")
        } else {
            done("x")
        }
    });
    let mut client = in_process(&recorder)
        .on_sampling(move |_: SamplingQuestion| std::future::ready(answer.clone()));
    if tools {
        client = client.with_sampling_tools();
    }
    let result = client.build().unwrap().call_tool("write", ()).await;
    match &result {
        Ok(_) => assert_eq!(recorder.count(), 2),
        Err(_) => assert_eq!(recorder.count(), 1, "nothing was sent"),
    }
    result.map(|_| recorder.seen()[1].params()["inputResponses"]["k"].clone())
}

#[tokio::test]
async fn case_180_tools_are_for_those_who_declared_them() {
    let sent = ask(with_tools(None), true, Ok(uses("weather")))
        .await
        .unwrap();
    assert_eq!(
        sent["content"],
        json!({"type": "tool_use", "id": "u1", "name": "weather", "input": {"city": "Bern"}})
    );
    assert!(
        ask(with_tools(Some("none")), true, Ok(said()))
            .await
            .is_ok()
    );
    assert!(ask(sentence(), true, Ok(said())).await.is_ok());

    let error = ask(with_tools(None), false, Ok(said())).await.unwrap_err();
    assert!(
        matches!(
            &error,
            CallError::Abandoned {
                why: Abandoned::Unhandled {
                    kind: Kind::SamplingWithTools,
                    ..
                },
                ..
            }
        ),
        "{error}"
    );
}

#[tokio::test]
async fn a_message_that_is_not_one_to_the_question_is_not_sent() {
    let mut by_the_user = said();
    by_the_user.role = Role::User;
    for (question, answer, problem) in [
        (sentence(), by_the_user, AnswerError::NotTheAssistant),
        (
            sentence(),
            uses("weather"),
            AnswerError::Message(mrtr_protocol::AnswerError::ToolContent),
        ),
        (
            with_tools(None),
            uses("pay"),
            AnswerError::ToolNotOffered {
                name: "pay".to_owned(),
            },
        ),
        (
            with_tools(Some("none")),
            uses("weather"),
            AnswerError::ToolNotOffered {
                name: "weather".to_owned(),
            },
        ),
    ] {
        match ask(question, true, Ok(answer)).await {
            Err(CallError::InvalidAnswer {
                key, problem: told, ..
            }) => assert_eq!((key.as_str(), told), ("k", problem)),
            other => panic!("{other:?}"),
        }
    }
}

#[tokio::test]
async fn a_refusal_abandons_the_call() {
    let error = ask(sentence(), false, Err(Refusal::new("not today")))
        .await
        .unwrap_err();
    assert_eq!(
        error.to_string(),
        "the call was abandoned: the host refused to answer \"k\": not today"
    );
}

#[tokio::test]
async fn a_conversation_that_cannot_go_on_reaches_no_model() {
    let mut open = with_tools(None);
    open["params"]["messages"] = json!([{"role": "assistant", "content": {"type": "tool_use", "id": "u1", "name": "weather", "input": {}}}]);
    let mut answered = open.clone();
    answered["params"]["messages"].as_array_mut().unwrap().push(
        json!({"role": "user", "content": {"type": "tool_result", "toolUseId": "u1", "content": []}}),
    );
    assert!(ask(answered, true, Ok(said())).await.is_ok());
    let mut shapeless = sentence();
    shapeless["params"]["maxTokens"] = json!("many");
    for (question, malformed) in [(open, false), (shapeless, true)] {
        match ask(question, true, Ok(said())).await {
            Err(CallError::Abandoned {
                why: Abandoned::Question { problem, .. },
                ..
            }) => assert_eq!(
                matches!(problem, QuestionProblem::Malformed(_)),
                malformed,
                "{problem}"
            ),
            other => panic!("{other:?}"),
        }
    }
}

#[tokio::test]
async fn a_question_is_answered_by_hand() {
    let recorder = Recorder::new(|n, _| {
        if n == 1 {
            puts(&sentence(), "S")
        } else {
            done("x")
        }
    });
    let client = in_process(&recorder).build().unwrap();
    let Progress::InputRequired(mut pending) = client.begin("write", ()).await.unwrap() else {
        panic!()
    };
    assert!(matches!(
        pending.answer_sampling("k", &uses("weather")),
        Err(AnswerError::Message(_))
    ));
    assert!(pending.answer_roots("k", &[]).is_err());
    pending.answer_sampling("k", &said()).unwrap();
    assert!(matches!(
        client.resume(*pending).await,
        Ok(Progress::Done(_))
    ));
    assert_eq!(
        recorder.seen()[1].params()["inputResponses"]["k"]["model"],
        "small-1"
    );
}
