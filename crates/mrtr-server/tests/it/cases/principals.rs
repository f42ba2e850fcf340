//! Cases 3 to 43 that are about who asks, who answers, and who may.

use std::future::ready;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use http::request::Parts;
use http::{HeaderValue, StatusCode};
use mrtr_server::{
    AuthError, AuthFuture, Authenticator, BuildError, Flow, Form, Principal, Server, StaticTokens,
    tool,
};
use mrtr_testkit::guards::{AnyPrincipal, AnyRequest};
use schemars::JsonSchema;
use serde::Deserialize;

use super::{Refusal, works};
use crate::bank::{Bank, Call, Reply, codec, tokens};

const DIFFERENT_PRINCIPAL: Refusal = Refusal::state("different_principal");
const DIFFERENT_REQUEST: Refusal = Refusal::state("different_request");
const EXPIRED: Refusal = Refusal::state("expired");

/// Knows the bank's customers until their tokens are revoked.
#[derive(Debug, Clone)]
struct Revocable {
    tokens: StaticTokens,
    revoked: Arc<AtomicBool>,
}

impl Authenticator for Revocable {
    fn authenticate<'a>(&'a self, head: &'a Parts) -> AuthFuture<'a> {
        if self.revoked.load(Ordering::SeqCst) {
            let challenge = HeaderValue::from_static("Bearer error=\"invalid_token\"");
            let revoked = AuthError::unauthenticated("the token was revoked", challenge);
            return Box::pin(ready(Err(revoked)));
        }
        self.tokens.authenticate(head)
    }
}

/// A client without a person can say yes; it cannot say who may.
#[tokio::test]
async fn case_003_a_yes_is_no_permission() {
    let revoked = Arc::new(AtomicBool::new(false));
    let bank = Bank::with(|builder| {
        builder.authenticator(Revocable {
            tokens: tokens(),
            revoked: Arc::clone(&revoked),
        })
    });
    let used = bank.open().await;
    works("a script is a client like others", &bank, &used).await;

    let open = bank.open().await;
    let rows = bank.rows().await;
    revoked.store(true, Ordering::SeqCst);
    for (name, state) in [("a retry", &open), ("a repetition", &used)] {
        let reply = bank.send(&Call::retry(state)).await;
        assert_eq!(reply.status, StatusCode::UNAUTHORIZED, "{name}: {reply:?}");
        assert!(reply.headers.contains_key("www-authenticate"), "{name}");
        assert!(reply.body.get("result").is_none(), "{name}: {reply:?}");
    }
    assert_eq!((bank.effects.count(), bank.rows().await), (1, rows));

    revoked.store(false, Ordering::SeqCst);
    works("what was refused has spent nothing", &bank, &open).await;
}

#[derive(Deserialize, JsonSchema)]
struct Confirm {
    ok: bool,
}

async fn asks(flow: Flow) -> String {
    let answer = flow.ask("q", Form::<Confirm>::new("Sure?")).await;
    format!("{:?}", answer.accepted().map(|confirm| confirm.ok))
}

#[tokio::test]
async fn case_008_nobody_is_anonymous_by_accident() {
    let builder = || {
        Server::builder("bank", "1")
            .audience("https://bank.example/mcp")
            .codec(codec())
            .tool(tool("asks", asks))
    };
    let refused = builder().build().unwrap_err();
    assert!(matches!(refused, BuildError::NoAuthenticator));
    let said = refused.to_string();
    assert!(
        said.contains(".allow_anonymous()") && said.contains("good for whoever holds it"),
        "{said}"
    );
    builder().allow_anonymous().build().unwrap();

    let bank = Bank::with(mrtr_server::ServerBuilder::allow_anonymous);
    let nobody = Call::first().without_header("authorization");
    let state = bank.send(&nobody).await.state().to_owned();
    let of_another = Call::retry(&state).by("whoever").header("x-user", "b");
    assert_eq!(bank.send(&of_another).await.text(), "done 1");
}

/// Anonymous is a principal of its own, and no name is taken for it.
#[tokio::test]
async fn case_008_anonymous_is_not_a_user_without_a_name() {
    let names = [
        ("", ""),
        ("https://as.example", ""),
        ("", "anonymous"),
        ("", "anon"),
        ("", "a"),
    ];
    for (issuer, subject) in names {
        let name = format!("{issuer:?} {subject:?}");
        let bank = Bank::with(|builder| {
            let user = Principal::user(issuer, subject);
            let tokens = StaticTokens::new().token("user", user.clone());
            builder.authenticator(tokens.token("client", user.with_client("")).or_anonymous())
        });
        let ways = [
            |call: Call| call.without_header("authorization"),
            |call: Call| call.by("user"),
            |call: Call| call.by("client"),
        ];
        for (of, open) in ways.iter().enumerate() {
            let asked = bank.send(&open(Call::first())).await;
            let retry = |way: usize| ways[way](Call::retry(asked.state()));
            for by in (0..ways.len()).filter(|by| *by != of) {
                DIFFERENT_PRINCIPAL.check(&name, &bank.send(&retry(by)).await);
            }
            let honest = bank.send(&retry(of)).await;
            assert_eq!(honest.text(), format!("done {}", of + 1), "{name}");
        }
    }
}

#[tokio::test]
async fn case_011_a_refreshed_token_is_the_same_person() {
    let user = |subject: &str, client: &str| {
        Principal::user("https://as.example", subject).with_client(client)
    };
    let tokens = StaticTokens::new()
        .token("user-a", user("user-a", "app-1"))
        .token("refreshed", user("user-a", "app-1"))
        .token("at another app", user("user-a", "app-2"))
        .token("somebody else's", user("user-b", "app-1"))
        .token(
            "of another issuer",
            Principal::user("https://as2.example", "user-a").with_client("app-1"),
        );
    let bank = Bank::with(|builder| builder.authenticator(tokens));
    let state = bank.open().await;
    for other in ["at another app", "somebody else's", "of another issuer"] {
        DIFFERENT_PRINCIPAL.check(other, &bank.send(&Call::retry(&state).by(other)).await);
    }
    assert_eq!((bank.effects.count(), bank.rows().await), (0, (0, 0)));
    let reply = bank.send(&Call::retry(&state).by("refreshed")).await;
    assert_eq!((reply.text(), bank.effects.count()), ("done 1", 1));
    // And back again: whoever lost the response under the one token gets it under the other.
    let again = bank.send(&Call::retry(&state)).await;
    assert!(again.is_replayed(), "{again:?}");
}

/// Another user's retry, and one for another amount.
async fn strangers(bank: &Bank, state: &str) -> [Reply; 2] {
    [
        bank.send(&Call::retry(state).by("user-b")).await,
        bank.send(&Call::retry(state).argument("amount", 10_000))
            .await,
    ]
}

/// A server that was given what it does not start without, and nothing else.
#[tokio::test]
async fn case_041_states_are_bound_unless_a_guard_is_taken_off_by_name() {
    let bank = Bank::without_ledger();
    let state = bank.open().await;
    let [other_user, other_amount] = strangers(&bank, &state).await;
    DIFFERENT_PRINCIPAL.check("user-b", &other_user);
    DIFFERENT_REQUEST.check("another amount", &other_amount);
    assert_eq!(bank.effects.count(), 0);
    assert_eq!(bank.send(&Call::retry(&state)).await.text(), "done");

    let bank = Bank::without_ledger_with(|builder| builder.codec(AnyPrincipal::new(codec())));
    let state = bank.open().await;
    let [other_user, other_amount] = strangers(&bank, &state).await;
    assert_eq!(other_user.text(), "done", "without the guard");
    DIFFERENT_REQUEST.check("the other guard is on", &other_amount);

    let bank = Bank::without_ledger_with(|builder| builder.codec(AnyRequest::new(codec())));
    let state = bank.open().await;
    let [other_user, other_amount] = strangers(&bank, &state).await;
    DIFFERENT_PRINCIPAL.check("the other guard is on", &other_user);
    assert_eq!(other_amount.text(), "done", "without the guard");
}

/// Without a ledger, so that nothing but the checks of the state itself can refuse what was good a moment ago.
#[tokio::test]
async fn case_043_nothing_is_remembered_of_a_check() {
    let bank = Bank::without_ledger();
    let state = bank.open().await;
    let good = async |bank: &Bank| {
        assert_eq!(bank.send(&Call::retry(&state)).await.text(), "done");
    };
    good(&bank).await;
    let [other_user, other_amount] = strangers(&bank, &state).await;
    DIFFERENT_PRINCIPAL.check("user-b, after user-a", &other_user);
    DIFFERENT_REQUEST.check("another amount, after the first", &other_amount);
    good(&bank).await;
    bank.advance(std::time::Duration::from_secs(600));
    EXPIRED.check("later", &bank.send(&Call::retry(&state)).await);
    let [other_user, _] = strangers(&bank, &state).await;
    EXPIRED.check("user-b, later", &other_user);
    assert_eq!(bank.effects.count(), 2);
}
