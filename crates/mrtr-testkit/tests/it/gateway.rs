//! A gateway: what passes a server's questions on to users of its own is a client for each of them.

use mrtr_client::{CallError, Client, FormAnswer, FormQuestion, PendingCall, Progress, Refusal};
use mrtr_testkit::{Effects, Harness};
use serde_json::json;

use crate::bank;

async fn yes(_: FormQuestion) -> Result<FormAnswer, Refusal> {
    Ok(FormAnswer::Accept(json!({"ok": true})))
}

/// What the gateway declares is what its user can be asked; what one user was asked is no other's to answer, and no other's to act on.
#[tokio::test]
async fn case_153_a_gateway_is_a_client_for_each_of_its_users() {
    let effects = Effects::new();
    let harness = Harness::new(bank::server(bank::hmac(), &effects, |server, _| server));
    let amount = || json!({"amount": 5});

    let bare = harness.by("alice").client().build().unwrap();
    let error = bare.call_tool("charge_good", amount()).await.unwrap_err();
    let CallError::Rpc { source, .. } = &error else {
        panic!("{error}")
    };
    assert_eq!(source.error.code, -32021, "{source}");

    let of = |user: &Harness| -> Client { user.client().on_form(yes).build().unwrap() };
    let (alice, bob) = (of(&harness.by("alice")), of(&harness.by("bob")));
    let begin = async |client: &Client| -> PendingCall {
        let Progress::InputRequired(mut pending) =
            client.begin("charge_good", amount()).await.unwrap()
        else {
            panic!()
        };
        let key = pending.unanswered().next().unwrap().to_owned();
        let yes = FormAnswer::Accept(json!({"ok": true}));
        pending.answer(&key, &yes).unwrap();
        *pending
    };
    let (hers, his) = (begin(&alice).await, begin(&bob).await);
    for (client, pending) in [(&bob, &hers), (&alice, &his)] {
        let error = client.resume(pending.clone()).await.unwrap_err();
        let CallError::Rpc { source, .. } = &error else {
            panic!("{error}")
        };
        let data = source.error.data.as_ref().unwrap();
        assert!(data.get().contains("different_principal"), "{data}");
    }
    assert_eq!(effects.count("charge"), 0);
    for (client, pending) in [(&alice, hers), (&bob, his)] {
        client.finish(pending).await.unwrap();
    }
    assert_eq!(effects.count("charge"), 2);
}
