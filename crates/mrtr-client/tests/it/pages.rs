//! Pages to be opened: what reaches a handler, what is sent, and how the loop waits for a person in the browser.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use mrtr_client::{
    Abandoned, AnswerError, CallError, FormAnswer, PendingCall, Progress, QuestionProblem, Refusal,
    UrlAnswer, UrlProblem, UrlQuestion, UrlWarning,
};
use serde_json::{Value, json};
use tokio::time::Instant;

use crate::script::{Recorder, Server, done, in_process, puts, yes};

const PAGE: &str = "https://pages.example/go/7f3a";

fn page(url: &str) -> Value {
    json!({"method": "elicitation/create", "params": {"mode": "url", "url": url, "message": "Link your account"}})
}

async fn consent(_: UrlQuestion) -> Result<UrlAnswer, Refusal> {
    Ok(UrlAnswer::Accept)
}

#[tokio::test]
async fn case_146_a_page_is_put_and_its_accept_has_no_content() {
    let server = Server::start(|n, _| {
        if n == 1 {
            puts(&page(PAGE), "S1")
        } else {
            done("linked")
        }
    })
    .await;
    let client = server
        .client()
        .label("Bank")
        .on_url(async |question: UrlQuestion| {
            assert_eq!(question.url.as_str(), PAGE);
            assert_eq!(question.url.host(), "pages.example");
            assert!(question.url.warnings().is_empty());
            assert_eq!(question.plain_message(), "Link your account");
            assert_eq!(question.target.unwrap().to_string(), "tool link");
            assert!(question.server.to_string().starts_with("Bank (http://"));
            assert_eq!((question.key.as_str(), question.repeated), ("k", 0));
            Ok(UrlAnswer::Accept)
        })
        .build()
        .unwrap();
    let result = client.call_tool("link", ()).await.unwrap();
    assert_eq!(result.joined_text(), "linked");
    let second = server.seen().pop().unwrap();
    assert_eq!(
        second.param("inputResponses"),
        Some(&json!({"k": {"action": "accept"}}))
    );
    assert_eq!(second.param("requestState"), Some(&json!("S1")));
}

#[tokio::test]
async fn case_144_decline_cancel_and_refusal_are_told_apart() {
    for (answer, sent) in [
        (Ok(UrlAnswer::Decline), Some("decline")),
        (Ok(UrlAnswer::Cancel), Some("cancel")),
        (Err(Refusal::new("policy")), None),
    ] {
        let server = Server::start(|n, _| {
            if n == 1 {
                puts(&page(PAGE), "S1")
            } else {
                done("x")
            }
        })
        .await;
        let client = server
            .client()
            .on_url(move |_: UrlQuestion| std::future::ready(answer.clone()))
            .build()
            .unwrap();
        let result = client.call_tool("link", ()).await;
        match sent {
            Some(action) => {
                result.unwrap();
                assert_eq!(
                    server.seen()[1].param("inputResponses"),
                    Some(&json!({"k": {"action": action}}))
                );
            }
            None => {
                assert!(matches!(
                    result,
                    Err(CallError::Abandoned {
                        why: Abandoned::Refused { .. },
                        ..
                    })
                ));
                assert_eq!(server.count(), 1);
            }
        }
    }
}

#[tokio::test]
async fn case_168_what_must_not_be_opened_reaches_no_handler() {
    let long = format!("https://a.example/{}", "x".repeat(100 * 1024));
    for (url, problem) in [
        (PAGE, None),
        ("javascript:alert(1)", Some(UrlProblem::Scheme)),
        ("file:///etc/passwd", Some(UrlProblem::Scheme)),
        ("data:text/html,x", Some(UrlProblem::Scheme)),
        ("ms-settings:", Some(UrlProblem::Scheme)),
        ("https://a.example/\r\nX", Some(UrlProblem::Characters)),
        (
            "https://a.example/\"; rm -rf ~",
            Some(UrlProblem::Characters),
        ),
        ("https://", Some(UrlProblem::Invalid)),
        (&long, Some(UrlProblem::TooLong)),
    ] {
        let question = page(url);
        let server = Server::start(move |n, _| {
            if n == 1 {
                puts(&question, "S")
            } else {
                done("x")
            }
        })
        .await;
        let shown = Arc::new(Mutex::new(0));
        let counter = Arc::clone(&shown);
        let client = server
            .client()
            .on_url(move |question| {
                *counter.lock().unwrap() += 1;
                consent(question)
            })
            .build()
            .unwrap();
        let result = client.call_tool("link", ()).await;
        match problem {
            None => {
                result.unwrap();
                assert_eq!((*shown.lock().unwrap(), server.count()), (1, 2));
            }
            Some(problem) => {
                let error = result.unwrap_err();
                let CallError::Abandoned {
                    why: Abandoned::Question { key, problem: told },
                    ..
                } = &error
                else {
                    panic!("{error}")
                };
                assert_eq!(
                    (key.as_str(), told),
                    ("k", &QuestionProblem::Url(problem)),
                    "{url:.40}"
                );
                assert_eq!((*shown.lock().unwrap(), server.count()), (0, 1));
            }
        }
    }
}

#[tokio::test]
async fn what_may_mislead_reaches_the_handler_with_a_warning() {
    let server = Server::start(|n, _| {
        if n == 1 {
            puts(&page("http://bank.example@аpple.com/login"), "S")
        } else {
            done("x")
        }
    })
    .await;
    let client = server
        .client()
        .on_url(async |question: UrlQuestion| {
            assert_eq!(
                question.url.parts(),
                ("http://bank.example@", "xn--pple-43d.com", "/login")
            );
            assert_eq!(
                question.url.warnings(),
                [
                    UrlWarning::NotEncrypted,
                    UrlWarning::UserInfo,
                    UrlWarning::InternationalHost
                ]
            );
            Ok(UrlAnswer::Decline)
        })
        .build()
        .unwrap();
    client.call_tool("link", ()).await.unwrap();
}

/// Asks for the page in the first `rounds` answers, each time with another state.
fn waiting(rounds: usize) -> Recorder {
    Recorder::new(move |n, _| {
        if n <= rounds {
            puts(&page(PAGE), &format!("S{n}"))
        } else {
            done("linked")
        }
    })
}

#[tokio::test(start_paused = true)]
async fn case_172_a_page_that_is_asked_for_again_is_told_and_paced() {
    let recorder = waiting(4);
    let told = Arc::new(Mutex::new(Vec::new()));
    let log = Arc::clone(&told);
    let begun = Instant::now();
    let client = in_process(&recorder)
        .on_url(move |question: UrlQuestion| {
            log.lock().unwrap().push(question.repeated);
            consent(question)
        })
        .build()
        .unwrap();
    client.call_tool("link", ()).await.unwrap();
    assert_eq!(*told.lock().unwrap(), [0, 1, 2, 3]);
    // The first accept is sent at once; then 1 + 2 + 4 seconds, and up to half as much again.
    let took = begun.elapsed();
    assert!(
        took >= Duration::from_secs(7) && took < Duration::from_secs(11),
        "{took:?}"
    );
    assert_eq!(recorder.count(), 5);
}

#[tokio::test(start_paused = true)]
async fn the_time_that_the_person_takes_counts() {
    let recorder = waiting(3);
    let begun = Instant::now();
    let client = in_process(&recorder)
        .on_url(async |question: UrlQuestion| {
            if question.repeated > 0 {
                tokio::time::sleep(Duration::from_secs(20)).await;
            }
            Ok(UrlAnswer::Accept)
        })
        .build()
        .unwrap();
    client.call_tool("link", ()).await.unwrap();
    let took = begun.elapsed();
    assert!(
        took >= Duration::from_secs(40) && took < Duration::from_millis(40_500),
        "{took:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn a_no_is_not_kept_waiting() {
    let recorder = waiting(2);
    let begun = Instant::now();
    let client = in_process(&recorder)
        .on_url(async |question: UrlQuestion| {
            Ok(if question.repeated == 0 {
                UrlAnswer::Accept
            } else {
                UrlAnswer::Cancel
            })
        })
        .build()
        .unwrap();
    client.call_tool("link", ()).await.unwrap();
    assert!(begun.elapsed() < Duration::from_millis(500));
}

#[tokio::test(start_paused = true)]
async fn another_page_is_not_a_repetition() {
    let recorder = Recorder::new(|n, _| match n {
        1..=3 => puts(&page(&format!("{PAGE}/{n}")), "S"),
        4 => puts(&page(&format!("{PAGE}/1")), "S"),
        _ => done("x"),
    });
    let told = Arc::new(Mutex::new(Vec::new()));
    let log = Arc::clone(&told);
    let client = in_process(&recorder)
        .on_url(move |question: UrlQuestion| {
            log.lock().unwrap().push(question.repeated);
            consent(question)
        })
        .build()
        .unwrap();
    client.call_tool("link", ()).await.unwrap();
    assert_eq!(*told.lock().unwrap(), [0, 0, 0, 1]);
}

#[tokio::test(start_paused = true)]
async fn case_172_waiting_is_limited_by_rounds_and_can_go_on() {
    let recorder = waiting(25);
    let begun = Instant::now();
    let client = in_process(&recorder).on_url(consent).build().unwrap();
    let error = client.call_tool("link", ()).await.unwrap_err();
    assert!(matches!(
        error,
        CallError::Abandoned {
            why: Abandoned::TooManyRounds { limit: 10 },
            ..
        }
    ));
    assert_eq!(recorder.count(), 11);
    assert!(begun.elapsed() >= Duration::from_secs(120), "{begun:?}");

    // The count of accepts is stored with the call.
    let pending = error.into_pending().unwrap();
    assert_eq!(pending.repeated("k"), 10);
    let stored = serde_json::to_string(&pending).unwrap();
    let pending: PendingCall = serde_json::from_str(&stored).unwrap();
    assert_eq!(pending.repeated("k"), 10);
    let patient = in_process(&recorder)
        .max_rounds(None)
        .on_url(consent)
        .build()
        .unwrap();
    assert_eq!(
        patient.finish(pending).await.unwrap().joined_text(),
        "linked"
    );
}

#[tokio::test]
async fn a_page_is_answered_by_hand() {
    let recorder = Recorder::new(|n, _| match n {
        1 => puts(&page(PAGE), "S1"),
        2 => puts(&page("javascript:alert(1)"), "S2"),
        _ => done("x"),
    });
    let client = in_process(&recorder).on_form(yes).build().unwrap();
    let Progress::InputRequired(mut pending) = client.begin("link", ()).await.unwrap() else {
        panic!()
    };
    // An answer of another kind is none.
    assert!(matches!(
        pending.answer("k", &FormAnswer::Accept(json!({}))),
        Err(AnswerError::Question(_))
    ));
    assert!(matches!(
        pending.answer_roots("k", &[]),
        Err(AnswerError::Question(_))
    ));
    assert_eq!(
        pending.answer_url("zzz", UrlAnswer::Accept),
        Err(AnswerError::NoSuchQuestion)
    );
    pending.answer_url("k", UrlAnswer::Accept).unwrap();
    let Progress::InputRequired(mut pending) = client.resume(*pending).await.unwrap() else {
        panic!()
    };
    assert_eq!(
        recorder.seen()[1].param("inputResponses"),
        Some(&json!({"k": {"action": "accept"}}))
    );
    assert_eq!(
        pending.answer_url("k", UrlAnswer::Accept),
        Err(AnswerError::Question(QuestionProblem::Url(
            UrlProblem::Scheme
        )))
    );
}
