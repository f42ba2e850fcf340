//! Questions for folders. Deprecated since 2026-07-28: a new server takes folders as parameters, resource URIs or configuration.

use mrtr_client::{
    Abandoned, CallError, Progress, Refusal, RequestError, RootsQuestion, UrlAnswer,
};
use mrtr_protocol::Root;
use serde_json::json;

use crate::script::{Recorder, done, in_process, puts};

fn asking() -> Recorder {
    Recorder::new(|n, _| {
        if n == 1 {
            puts(&json!({"method": "roots/list"}), "S")
        } else {
            done("x")
        }
    })
}

#[tokio::test]
async fn folders_go_to_the_server_that_asks() {
    let recorder = asking();
    let client = in_process(&recorder)
        .on_roots(async |question: RootsQuestion| {
            assert_eq!(
                (
                    question.key.as_str(),
                    question.target.as_ref().unwrap().to_string().as_str()
                ),
                ("k", "resource note://1")
            );
            Ok(vec![
                Root::new("file:///home/ada/notes").unwrap().named("Notes"),
                Root::new("file:///tmp").unwrap(),
            ])
        })
        .build()
        .unwrap();
    // The script completes with a tool's result, which is none of a resource.
    let error = client.read_resource("note://1").await.unwrap_err();
    assert!(
        matches!(
            &error,
            CallError::OutcomeUnknown { source: RequestError::Protocol(_), pending } if pending.has_state()
        ),
        "{error}"
    );
    assert_eq!(
        recorder.seen()[1].param("inputResponses"),
        Some(
            &json!({"k": {"roots": [{"uri": "file:///home/ada/notes", "name": "Notes"}, {"uri": "file:///tmp"}]}})
        )
    );
}

#[tokio::test]
async fn no_folders_are_an_answer_and_a_refusal_is_none() {
    let recorder = asking();
    let client = in_process(&recorder)
        .on_roots(async |_: RootsQuestion| Ok(vec![]))
        .build()
        .unwrap();
    client.call_tool("t", ()).await.unwrap();
    assert_eq!(
        recorder.seen()[1].param("inputResponses"),
        Some(&json!({"k": {"roots": []}}))
    );

    let recorder = asking();
    let client = in_process(&recorder)
        .on_roots(async |_: RootsQuestion| Err(Refusal::new("private")))
        .build()
        .unwrap();
    assert!(matches!(
        client.call_tool("t", ()).await,
        Err(CallError::Abandoned {
            why: Abandoned::Refused { .. },
            ..
        })
    ));
    assert_eq!(recorder.count(), 1);
}

#[tokio::test]
async fn folders_are_given_by_hand() {
    let recorder = asking();
    let client = in_process(&recorder).build().unwrap();
    let Progress::InputRequired(mut pending) = client.begin("t", ()).await.unwrap() else {
        panic!()
    };
    assert!(pending.answer_url("k", UrlAnswer::Accept).is_err());
    pending
        .answer_roots("k", &[Root::new("file:///a").unwrap()])
        .unwrap();
    client.resume(*pending).await.unwrap();
    assert_eq!(
        recorder.seen()[1].param("inputResponses"),
        Some(&json!({"k": {"roots": [{"uri": "file:///a"}]}}))
    );
}
