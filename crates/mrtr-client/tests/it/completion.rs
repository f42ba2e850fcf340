//! `completion/complete`, in both eras.

use mrtr_client::EraChoice;
use mrtr_protocol::{CompleteParams, CompletionReference};
use serde_json::json;

use crate::script::{Recorder, Reply, in_process, session};

#[tokio::test]
async fn suggestions_are_asked_for_with_what_was_chosen_already() {
    for (era, result) in [
        (
            EraChoice::Modern,
            json!({"resultType": "complete", "completion": {"values": ["flask"], "total": 1, "hasMore": false}}),
        ),
        (
            EraChoice::Earlier,
            json!({"completion": {"values": ["flask"], "total": 1, "hasMore": false}}),
        ),
    ] {
        let recorder = Recorder::new(session("2025-11-25", move |seen| {
            (seen.what() == "completion/complete").then(|| Reply::Result(result.clone()))
        }));
        let client = in_process(&recorder).era(era).build().unwrap();
        let mut typed =
            CompleteParams::new(CompletionReference::prompt("review"), "framework", "fla");
        typed.context = vec![("language".into(), "python".into())];
        let found = client.complete(&typed).await.unwrap();
        assert_eq!(
            (found.values, found.total, found.has_more),
            (vec!["flask".to_owned()], Some(1), Some(false))
        );
        let seen = recorder.until("completion/complete", 1).await;
        let mut params = seen.params().clone();
        let meta = params.as_object_mut().unwrap().remove("_meta");
        assert_eq!(meta.is_some(), era == EraChoice::Modern);
        assert_eq!(
            params,
            json!({"ref": {"type": "ref/prompt", "name": "review"}, "argument": {"name": "framework", "value": "fla"},
                "context": {"arguments": {"language": "python"}}})
        );
        let template =
            CompleteParams::new(CompletionReference::resource("note://{day}"), "day", "");
        client.complete(&template).await.unwrap();
        let seen = recorder.until("completion/complete", 2).await;
        assert_eq!(
            seen.params()["ref"],
            json!({"type": "ref/resource", "uri": "note://{day}"})
        );
        assert!(seen.param("context").is_none());
    }
}
