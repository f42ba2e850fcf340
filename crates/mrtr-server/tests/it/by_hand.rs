//! Questions and states by hand: the boundary seals and verifies them as it does a flow's, in both eras.

use std::time::Duration;

use http::StatusCode;
use mrtr_server::protocol::{ElicitForm, InputRequest, JsonObject};
use mrtr_server::{
    Answer, Args, CreateMessageParams, DurableFlow, Flow, Form, InputRequired, Json, QuestionError,
    Rendered, Resumed, Roots, Sampling, SamplingMessage, Server, State, ToolError, Turn, prompt,
    resource, tool,
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::bank::{Bank, Call, Effects, Reply, accept, codec};
use crate::cases::Refusal;
use crate::session::{Session, everything, text};

#[derive(Deserialize, JsonSchema)]
#[allow(
    dead_code,
    reason = "the arguments matter to the digest, not to the body"
)]
struct Trip {
    to: String,
}

#[derive(Deserialize, JsonSchema)]
struct Seats {
    #[schemars(range(min = 1, max = 9))]
    seats: u8,
}

#[derive(Deserialize, JsonSchema)]
struct Confirm {
    ok: bool,
}

/// What it seals.
#[derive(Serialize, Deserialize)]
struct Quote {
    price: u64,
    seats: Option<u8>,
}

/// How often the price was looked up: it rises with each time.
#[derive(Clone, Default)]
struct LookUps(Effects);

/// Two rounds: how many seats, and is the sum all right? The price is looked up once and sealed.
async fn book(
    _: Args<Trip>,
    resumed: Resumed,
    State(LookUps(look_ups)): State<LookUps>,
    State(effects): State<Effects>,
) -> Result<Turn<String>, ToolError> {
    let quote = match resumed.state::<Quote>()? {
        Some(quote) => quote,
        None => Quote {
            price: 100 * look_ups.happen() as u64,
            seats: None,
        },
    };
    let Some(seats) = quote.seats else {
        let question = Form::<Seats>::new(format!("How many seats at {}?", quote.price));
        let answer = resumed.answer("seats", &question);
        return Ok(match answer {
            Some(Answer::Accept(Seats { seats })) => confirm(
                &resumed,
                Quote {
                    seats: Some(seats),
                    ..quote
                },
                &effects,
            ),
            Some(Answer::Decline) => Turn::Complete("declined".into()),
            Some(Answer::Cancel) => Turn::Complete("cancelled".into()),
            None => InputRequired::new()
                .ask("seats", question)
                .state(&quote)
                .into(),
        });
    };
    Ok(confirm(
        &resumed,
        Quote {
            seats: Some(seats),
            ..quote
        },
        &effects,
    ))
}

fn confirm(resumed: &Resumed, quote: Quote, effects: &Effects) -> Turn<String> {
    let seats = quote.seats.unwrap_or_default();
    let sum = quote.price * u64::from(seats);
    let question = Form::<Confirm>::new(format!("Pay {sum}?"));
    match resumed.answer("confirm", &question) {
        Some(Answer::Accept(Confirm { ok: true })) => {
            effects.happen();
            Turn::Complete(format!("{seats} seats for {sum}"))
        }
        Some(_) => Turn::Complete("not booked".into()),
        None => InputRequired::new()
            .ask("confirm", question)
            .state(&quote)
            .into(),
    }
}

fn seats_form(maximum: u8) -> InputRequest {
    let schema = JsonObject::from_serialize(&json!({
        "type": "object",
        "properties": { "seats": { "type": "integer", "minimum": 1, "maximum": maximum } },
        "required": ["seats"],
    }));
    InputRequest::form(&ElicitForm::new("Seats?", schema.unwrap()))
}

/// A form that was written as JSON.
async fn raw(resumed: Resumed) -> Result<Turn<String>, ToolError> {
    let question = Rendered::request(seats_form(3))?;
    Ok(match resumed.answer("seats", &question) {
        Some(Answer::Accept(content)) => Turn::Complete(content.to_string()),
        Some(_) => Turn::Complete("no".into()),
        None => InputRequired::new().ask("seats", question).into(),
    })
}

/// Three rounds without a question.
async fn counting(resumed: Resumed) -> Result<Turn<Json<u32>>, ToolError> {
    let count: u32 = resumed.state()?.unwrap_or(0);
    Ok(match count {
        3 => Turn::Complete(Json(count)),
        _ => InputRequired::new().state(&(count + 1)).into(),
    })
}

async fn other_kinds(resumed: Resumed) -> Turn<String> {
    let ask = CreateMessageParams::new(vec![SamplingMessage::user("Capital?")], 10);
    let (capital, roots) = (Sampling::new(ask), Roots::new());
    match (
        resumed.answer("capital", &capital),
        resumed.answer("roots", &roots),
    ) {
        (Some(Answer::Accept(message)), Some(Answer::Accept(roots))) => {
            Turn::Complete(format!("{} {}", message.joined_text(), roots.len()))
        }
        _ => InputRequired::new()
            .ask("capital", capital)
            .ask("roots", roots)
            .into(),
    }
}

/// Puts what was declined again, and again.
async fn stubborn(resumed: Resumed) -> Turn<&'static str> {
    let question = || Form::<Confirm>::new("Really?");
    match resumed.answer("ok", &question()) {
        Some(Answer::Accept(_)) => Turn::Complete("yes"),
        _ => InputRequired::new()
            .ask("again", question())
            .ask("ok", question())
            .into(),
    }
}

async fn act(
    resumed: Resumed,
    flow: DurableFlow,
    State(effects): State<Effects>,
) -> Result<Turn<String>, ToolError> {
    let question = Form::<Confirm>::new("Act?");
    let Some(answer) = resumed.answer("ok", &question) else {
        return Ok(InputRequired::new().ask("ok", question).into());
    };
    if answer.accepted().is_none_or(|Confirm { ok }| !ok) {
        return Ok(Turn::Complete("no".into()));
    }
    let count = flow
        .once("act", async || Ok::<_, ToolError>(effects.happen()))
        .await?;
    // A question of the flow's own, after one by hand.
    let sure = flow
        .ask("sure", Form::<Confirm>::new("Sure?"))
        .await
        .accepted();
    Ok(Turn::Complete(format!("{count} {}", sure.is_some())))
}

fn bank() -> Bank {
    Bank::with(tools)
}

fn tools(builder: mrtr_server::ServerBuilder) -> mrtr_server::ServerBuilder {
    builder
        .state(LookUps::default())
        .limits(|limits| limits.rounds = 6)
        .tool(tool("book", book))
        .tool(tool("raw", raw))
        .tool(tool("counting", counting))
        .tool(tool("other_kinds", other_kinds))
        .tool(tool("stubborn", stubborn))
        .tool(tool("act", act))
        .tool(tool("open", raw).accept_answers_without_state())
        .tool(tool("for_ever", async |_: Resumed| -> Turn<String> {
            InputRequired::new().state(&1).into()
        }))
        .tool(tool("nothing", async |_: Resumed| -> Turn<String> {
            InputRequired::new().into()
        }))
        .tool(tool("twice", async |_: Resumed| -> Turn<String> {
            let ask = || Form::<Confirm>::new("Twice?");
            InputRequired::new().ask("a", ask()).ask("a", ask()).into()
        }))
        .tool(tool("infinite", async |_: Resumed| -> Turn<String> {
            InputRequired::new().state(&f64::INFINITY).into()
        }))
        .tool(tool(
            "mistyped",
            async |resumed: Resumed| -> Result<Turn<String>, ToolError> {
                let _: Option<Quote> = resumed.state()?;
                Ok(InputRequired::new().state("a secret").into())
            },
        ))
        .prompt(prompt("raw", raw))
        .resource(resource("r://raw", raw))
}

fn trip() -> Call {
    Call::of("book", json!({ "to": "Ulm" }))
}

fn seats(n: i64) -> Value {
    accept(json!({ "seats": n }))
}

fn yes() -> Value {
    accept(json!({ "ok": true }))
}

fn message<'r>(reply: &'r Reply, key: &str) -> &'r Value {
    &reply.body["result"]["inputRequests"][key]["params"]["message"]
}

#[tokio::test]
async fn questions_and_states_by_hand_go_on_over_rounds() {
    let bank = bank();
    let first = bank.send(&trip()).await;
    assert_eq!(
        (first.asks(), message(&first, "seats")),
        (vec!["seats"], &json!("How many seats at 100?"))
    );
    let second = bank
        .send(&trip().id(2).state(first.state()).answer("seats", seats(3)))
        .await;
    // The price is the sealed one, and the look-up did not happen again.
    assert_eq!(
        (second.asks(), message(&second, "confirm")),
        (vec!["confirm"], &json!("Pay 300?"))
    );
    assert_ne!(first.state(), second.state());
    let last = trip().id(3).state(second.state()).answer("confirm", yes());
    let done = bank.send(&last).await;
    assert_eq!((done.text(), bank.effects.count()), ("3 seats for 300", 1));
    let again = bank.send(&last).await;
    assert!(
        again.is_replayed() && again.text() == "3 seats for 300",
        "{again:?}"
    );
    assert_eq!(bank.effects.count(), 1);
    // Another flow looks up anew: nothing is held here.
    assert_eq!(
        message(&bank.send(&trip()).await, "seats"),
        "How many seats at 200?"
    );
}

#[tokio::test]
async fn the_boundary_verifies_what_a_handler_sealed_by_hand() {
    let bank = bank();
    let first = bank.send(&trip()).await;
    let retry = |state: &str| trip().id(2).state(state).answer("seats", seats(2));
    for (reason, bent) in [
        ("malformed", retry(&format!("{}x", first.state()))),
        (
            "different_request",
            Call::of("book", json!({ "to": "Bonn" }))
                .id(2)
                .state(first.state()),
        ),
        (
            "different_request",
            Call::of("raw", json!({})).id(2).state(first.state()),
        ),
        ("different_principal", retry(first.state()).by("user-b")),
    ] {
        Refusal::state(reason).check(reason, &bank.send(&bent).await);
    }
    for bad in [
        json!({}),
        json!({ "action": "maybe" }),
        json!({ "roots": [] }),
    ] {
        let bent = trip()
            .id(2)
            .state(first.state())
            .answer("seats", bad.clone());
        Refusal::params().check(&bad.to_string(), &bank.send(&bent).await);
    }
    let asked = bank.send(&retry(first.state())).await;
    assert_eq!(
        asked.asks(),
        ["confirm"],
        "and the honest retry is good still"
    );
    let used = trip().id(4).state(first.state()).answer("seats", seats(9));
    Refusal::state("already_used").check("fork", &bank.send(&used).await);
    bank.advance(Duration::from_secs(601));
    let late = trip().id(5).state(asked.state()).answer("confirm", yes());
    Refusal::state("expired").check("late", &bank.send(&late).await);
    assert_eq!(bank.effects.count(), 0);
}

#[tokio::test]
async fn an_answer_counts_for_the_question_that_was_put_and_no_other() {
    let bank = bank();
    let first = bank.send(&trip()).await;
    // What does not fit the schema is put again; so is what is not answered; so is what answers a key that is not open.
    let mut asked = first;
    for answer in [
        Some(("seats", seats(0))),
        Some(("seats", seats(10))),
        None,
        Some(("confirm", yes())),
    ] {
        let call = trip().id(2).state(asked.state());
        let call = match answer {
            Some((key, answer)) => call.answer(key, answer),
            None => call,
        };
        asked = bank.send(&call).await;
        assert_eq!(
            (asked.asks(), message(&asked, "seats")),
            (vec!["seats"], &json!("How many seats at 100?"))
        );
    }
    // 3 at 100 is asked; an acceptance is of "Pay 300?".
    let confirm = bank
        .send(&trip().id(2).state(asked.state()).answer("seats", seats(3)))
        .await;
    assert_eq!(message(&confirm, "confirm"), "Pay 300?");
    for (action, said) in [("decline", "declined"), ("cancel", "cancelled")] {
        let bank = super::by_hand::bank();
        let first = bank.send(&trip()).await;
        let no = json!({ "action": action, "content": { "seats": 3 } });
        let reply = bank
            .send(&trip().id(2).state(first.state()).answer("seats", no))
            .await;
        assert_eq!(reply.text(), said);
    }
}

#[tokio::test]
async fn an_acceptance_of_another_question_is_none() {
    // The question changes between the rounds, as a price does that is not sealed.
    let prices = LookUps::default();
    let bank = Bank::with(|builder| {
        builder.state(prices.clone()).tool(tool(
            "buy",
            async |resumed: Resumed, State(LookUps(price)): State<LookUps>| {
                let question = Form::<Confirm>::new(format!("Buy for {}?", price.count()));
                match resumed.answer("ok", &question) {
                    Some(answer) => Turn::Complete(format!("{}", answer.accepted().is_some())),
                    None => InputRequired::new().ask("ok", question).into(),
                }
            },
        ))
    });
    let call = || Call::of("buy", json!({}));
    let asked = bank.send(&call()).await;
    assert_eq!(message(&asked, "ok"), "Buy for 0?");
    prices.0.happen();
    let again = bank
        .send(&call().id(2).state(asked.state()).answer("ok", yes()))
        .await;
    assert_eq!(message(&again, "ok"), "Buy for 1?", "{again:?}");
    let done = bank
        .send(&call().id(3).state(again.state()).answer("ok", yes()))
        .await;
    assert_eq!(done.text(), "true");
}

#[tokio::test]
async fn requests_as_json_are_questions_too() {
    let bank = bank();
    let answered = |call: Call, asked: &Reply, answer: Value| {
        call.id(2).state(asked.state()).answer("seats", answer)
    };
    for call in [
        Call::of("raw", json!({})),
        Call::prompt("raw", json!({})),
        Call::resource("r://raw"),
    ] {
        let asked = bank.send(&call).await;
        assert_eq!(asked.asks(), ["seats"], "{asked:?}");
        let bad = bank.send(&answered(call.clone(), &asked, seats(4))).await;
        assert_eq!(bad.asks(), ["seats"], "above the maximum");
        // What nobody asked for is left out.
        let surplus = accept(json!({ "seats": 3, "admin": true }));
        let done = bank.send(&answered(call.clone(), &bad, surplus)).await;
        assert!(
            done.body.to_string().contains(r#"{\"seats\":3}"#),
            "{done:?}"
        );
    }
    // And where it is allowed, an answer may come first.
    let early = Call::of("open", json!({})).answer("seats", seats(2));
    assert_eq!(bank.send(&early).await.text(), r#"{"seats":2}"#);
    let early = Call::of("raw", json!({})).answer("seats", seats(2));
    assert_eq!(bank.send(&early).await.asks(), ["seats"]);
}

#[test]
fn requests_that_may_not_be_put_are_none() {
    assert!(Rendered::request(seats_form(3)).is_ok());
    assert!(Rendered::request(InputRequest::roots()).is_ok());
    let form = |schema: Value| {
        let schema = JsonObject::from_serialize(&schema).unwrap();
        Rendered::request(InputRequest::form(&ElicitForm::new("x", schema)))
    };
    let nested = json!({ "type": "object", "properties": { "a": { "type": "object" } } });
    assert!(matches!(form(nested), Err(QuestionError::Form(_))));
    let secret = json!({ "type": "object", "properties": { "password": { "type": "string" } } });
    assert!(matches!(form(secret), Err(QuestionError::Form(_))));
    let page = mrtr_server::protocol::ElicitUrl::new("x", "https://bank.example/x");
    assert_eq!(
        Rendered::request(InputRequest::url(&page)).unwrap_err(),
        QuestionError::Kind
    );
    for (method, params) in [
        ("tools/call", json!({})),
        ("elicitation/create", json!({ "message": "x" })),
        (
            "elicitation/create",
            json!({ "mode": "post", "message": "x" }),
        ),
        ("sampling/createMessage", json!({ "messages": "x" })),
    ] {
        let params = JsonObject::from_serialize(&params).unwrap();
        let request = InputRequest {
            method: method.into(),
            params: Some(params),
        };
        assert!(
            matches!(
                Rendered::request(request),
                Err(QuestionError::Unwritable(_))
            ),
            "{method}"
        );
    }
}

#[tokio::test]
async fn case_131_a_round_may_have_a_state_alone() {
    let bank = bank();
    let mut reply = bank.send(&Call::of("counting", json!({}))).await;
    for round in 0..3 {
        assert_eq!(
            reply.body["result"]["resultType"], "input_required",
            "{round}: {reply:?}"
        );
        assert!(reply.body["result"].get("inputRequests").is_none());
        reply = bank
            .send(&Call::of("counting", json!({})).id(2).state(reply.state()))
            .await;
    }
    assert_eq!(reply.body["result"]["structuredContent"], 3, "{reply:?}");
    // For ever is not.
    let mut reply = bank.send(&Call::of("for_ever", json!({}))).await;
    for _ in 0..6 {
        reply = bank
            .send(&Call::of("for_ever", json!({})).id(2).state(reply.state()))
            .await;
    }
    assert!(reply.text().contains("6 rounds"), "{reply:?}");
}

#[tokio::test]
async fn case_114_a_round_of_nothing_is_not_sent() {
    let bank = bank();
    let reply = bank.send(&Call::of("nothing", json!({}))).await;
    assert_eq!(reply.code(), Some(-32603), "{reply:?}");
    assert!(reply.body.get("result").is_none());
}

/// A round without a question goes on wherever keys and ledger are the same.
#[tokio::test]
async fn case_131_a_state_alone_goes_on_at_any_replica() {
    let here = bank();
    let (ledger, clock) = (here.ledger.clone().unwrap(), here.clock.clone());
    let there = Bank::with(|builder| tools(builder).ledger(ledger).clock(clock));
    let call = || Call::of("counting", json!({}));
    let mut reply = here.send(&call()).await;
    for replica in [&there, &here, &there] {
        reply = replica.send(&call().id(2).state(reply.state())).await;
    }
    assert_eq!(reply.body["result"]["structuredContent"], 3, "{reply:?}");
}

#[tokio::test]
async fn kinds_are_asked_of_those_who_declared_them() {
    let bank = bank();
    let call = || Call::of("other_kinds", json!({})).declaring(everything());
    let asked = bank.send(&call()).await;
    assert_eq!(asked.asks(), ["capital", "roots"]);
    let model = json!({ "role": "assistant", "content": { "type": "text", "text": "Paris" }, "model": "m" });
    let done = call()
        .id(2)
        .state(asked.state())
        .answer("capital", model)
        .answer("roots", json!({ "roots": [{ "uri": "file:///a" }] }));
    assert_eq!(bank.send(&done).await.text(), "Paris 1");
    let undeclared = bank
        .send(&call().declaring(json!({ "sampling": {} })))
        .await;
    Refusal::http(StatusCode::BAD_REQUEST, -32021).check("roots", &undeclared);
    assert_eq!(
        undeclared.body["error"]["data"]["requiredCapabilities"],
        json!({ "roots": {} })
    );
}

#[tokio::test]
async fn what_a_handler_gets_wrong_ends_the_call_and_says_nothing_of_what_it_kept() {
    let bank = bank();
    for wrong in ["twice", "infinite"] {
        let reply = bank.send(&Call::of(wrong, json!({}))).await;
        let is_error = reply.code() == Some(-32603) || reply.body["result"]["isError"] == true;
        assert!(is_error && reply.asks().is_empty(), "{wrong}: {reply:?}");
    }
    let sealed = bank.send(&Call::of("mistyped", json!({}))).await;
    let reply = bank
        .send(&Call::of("mistyped", json!({})).id(2).state(sealed.state()))
        .await;
    assert_eq!(reply.body["result"]["isError"], true, "{reply:?}");
    assert!(!reply.body.to_string().contains("secret"));
    // A question that was declined is not put again, whatever the handler does.
    let call = || Call::of("stubborn", json!({}));
    let asked = bank.send(&call()).await;
    assert_eq!(asked.asks(), ["again", "ok"]);
    let no = json!({ "action": "decline" });
    let reply = bank
        .send(&call().id(2).state(asked.state()).answer("ok", no))
        .await;
    assert!(
        reply.asks().is_empty() && reply.code() == Some(-32603),
        "{reply:?}"
    );
}

#[tokio::test]
async fn a_flow_beside_it_has_its_steps_and_questions() {
    let bank = bank();
    let call = || Call::of("act", json!({}));
    let first = bank.send(&call()).await;
    assert_eq!(first.asks(), ["ok"]);
    let second = bank
        .send(&call().id(2).state(first.state()).answer("ok", yes()))
        .await;
    assert_eq!((second.asks(), bank.effects.count()), (vec!["sure"], 1));
    let done = bank
        .send(&call().id(3).state(second.state()).answer("sure", yes()))
        .await;
    assert_eq!((done.text(), bank.effects.count()), ("1 true", 1));
}

#[tokio::test]
async fn in_the_earlier_era_the_questions_are_put_and_the_handler_runs_again() {
    let bank = bank();
    let session = Session::open(&bank.server, everything()).await;
    let mut call = session.call(1, "book", json!({ "to": "Ulm" })).await;
    let question = call.message().await;
    assert_eq!(
        (&question["method"], &question["params"]["message"]),
        (
            &json!("elicitation/create"),
            &json!("How many seats at 100?")
        )
    );
    // What does not fit is put again, with what was kept.
    session.answer(&question, seats(10)).await;
    let question = call.message().await;
    assert_eq!(question["params"]["message"], "How many seats at 100?");
    session.answer(&question, seats(2)).await;
    let question = call.message().await;
    assert_eq!(question["params"]["message"], "Pay 200?");
    assert_eq!(bank.effects.count(), 0);
    session.answer(&question, yes()).await;
    assert_eq!(text(&call.message().await), "2 seats for 200");
    assert_eq!(bank.effects.count(), 1);

    let mut call = session.call(2, "counting", json!({})).await;
    assert_eq!(
        text(&call.json().await),
        "3",
        "rounds without questions are run through"
    );
    let mut call = session.call(3, "for_ever", json!({})).await;
    assert!(text(&call.json().await).contains("6 rounds"));

    let mut call = session.call(4, "other_kinds", json!({})).await;
    let (one, other) = (call.message().await, call.message().await);
    let by_method = |method: &str| {
        if one["method"] == method {
            &one
        } else {
            &other
        }
    };
    let model = json!({ "role": "assistant", "content": { "type": "text", "text": "Paris" }, "model": "m" });
    session
        .answer(by_method("sampling/createMessage"), model)
        .await;
    session
        .answer(by_method("roots/list"), json!({ "roots": [] }))
        .await;
    assert_eq!(text(&call.message().await), "Paris 0");

    let mut call = session.call(5, "act", json!({})).await;
    session.answer(&call.message().await, yes()).await;
    let sure = call.message().await;
    assert_eq!(sure["params"]["message"], "Sure?");
    session.answer(&sure, yes()).await;
    assert_eq!(text(&call.message().await), "2 true");
    assert_eq!(bank.effects.count(), 2);

    let mut call = session.call(6, "book", json!({ "to": "Ulm" })).await;
    session
        .answer(&call.message().await, json!({ "action": "decline" }))
        .await;
    assert_eq!(text(&call.message().await), "declined");
    let mut call = session.call(7, "stubborn", json!({})).await;
    let (one, other) = (call.message().await, call.message().await);
    session.answer(&one, json!({ "action": "decline" })).await;
    session.answer(&other, json!({ "action": "decline" })).await;
    let ended = call.message().await;
    assert_eq!(ended["error"]["code"], -32603, "{ended}");

    let deaf = Session::open(&bank.server, json!({})).await;
    let mut call = deaf.call(1, "book", json!({ "to": "Ulm" })).await;
    let ended = call.json().await;
    assert_eq!(ended["result"]["isError"], true, "{ended}");
}

#[test]
fn a_turn_that_nobody_could_read_is_refused() {
    let build = |tool| {
        Server::builder("s", "1")
            .audience("s")
            .codec(codec())
            .allow_anonymous()
            .tool(tool)
            .build()
            .map(drop)
    };
    assert!(build(tool("t", async |_: Resumed| Turn::Complete("x"))).is_ok());
    let error = build(tool("t", async || Turn::Complete("x"))).unwrap_err();
    assert!(error.to_string().contains("`Resumed`"), "{error}");
    let error = build(tool("t", async |_: Flow| {
        Ok::<_, ToolError>(Turn::Complete("x"))
    }))
    .unwrap_err();
    assert!(error.to_string().contains("`Resumed`"), "{error}");
    let without = Server::builder("s", "1").allow_anonymous();
    let error = without
        .tool(tool("t", async |_: Resumed| Turn::Complete("x")))
        .build()
        .unwrap_err();
    assert!(error.to_string().contains(".codec("), "{error}");
}
