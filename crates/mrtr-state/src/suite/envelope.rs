//! What an envelope around the codec owes.

use super::*;

pub(super) fn envelope(make: Make<'_>) -> Envelope {
    Envelope::new(&*make(ring(0)), PURPOSE, AUDIENCE)
}

pub(super) fn binding() -> Binding {
    Binding {
        principal: Principal::user("https://as.example", "user-a").with_client("app-1"),
        request: RequestDigest::builder("tools/call", "transfer")
            .json("arguments", r#"{"to":"acct-7","amount":100}"#)
            .unwrap()
            .finish(),
    }
}

pub(super) fn data() -> Box<RawValue> {
    RawValue::from_string(r#"{"price":190.00,"note":"caf\u00e9"}"#.to_owned()).unwrap()
}

/// A draft that lives from `T0` for `LIFETIME`.
pub(super) fn draft(data: &RawValue) -> Draft<'_> {
    Draft {
        nonce: Nonce::from_bytes([1; 16]),
        flow: FlowId::from_bytes([2; 16]),
        flow_exp: T0.saturating_add(6 * LIFETIME),
        round: 3,
        epoch: None,
        exp: T0.saturating_add(LIFETIME),
        iat: T0,
        data,
    }
}

pub(super) fn accepts(envelope: &Envelope, token: &str) -> VerifiedState {
    envelope
        .open(token, &binding(), T0, LIFETIME, None)
        .expect("the untouched state must open")
}

pub(super) fn rejects(envelope: &Envelope, token: &str) -> Reason {
    match envelope.open(token, &binding(), T0, LIFETIME, None) {
        Err(rejected) => {
            assert!(rejected.clone().into_late().is_none());
            rejected.reason()
        }
        Ok(_) => panic!("accepted: {token:?}"),
    }
}

/// Everything that was sealed comes back as it was.
pub fn gives_back_all_claims(make: Make<'_>) {
    let envelope = envelope(make);
    let data = data();
    for epoch in [None, Some(Epoch::from_bytes([9; 16]))] {
        let draft = Draft {
            epoch,
            ..draft(&data)
        };
        let token = envelope.seal(&binding(), &draft).unwrap();
        let state = envelope
            .open(&token, &binding(), T0, LIFETIME, epoch)
            .unwrap();
        assert_eq!(state.nonce(), draft.nonce);
        assert_eq!(state.flow(), draft.flow);
        assert_eq!(state.flow_exp(), draft.flow_exp);
        assert_eq!(state.round(), draft.round);
        assert_eq!(state.epoch(), draft.epoch);
        assert_eq!(state.exp(), draft.exp);
        assert_eq!(state.iat(), draft.iat);
        assert_eq!(state.data().get(), data.get());
        assert!(!format!("{state:?} {draft:?} {envelope:?}").contains("price"));
    }
    let (a, b) = (
        Draft::single(T0, LIFETIME, &data).unwrap(),
        Draft::single(T0, LIFETIME, &data).unwrap(),
    );
    assert!(a.nonce != b.nonce && a.flow != b.flow);
    let token = envelope.seal(&binding(), &a).unwrap();
    assert_eq!(accepts(&envelope, &token).nonce(), a.nonce);
}

/// A state of the old key opens, for its binding only, when another key seals.
pub fn keeps_states_through_a_rotation(make: Make<'_>) {
    let data = data();
    let token = envelope(make).seal(&binding(), &draft(&data)).unwrap();
    accepts(&envelope(make), &token);

    let rotated = make(ring(32).and_opens(key(0)).unwrap());
    let rotated = Envelope::new(&*rotated, PURPOSE, AUDIENCE);
    accepts(&rotated, &token);
    let stranger = Binding {
        principal: Principal::Anonymous,
        ..binding()
    };
    let opened = rotated.open(&token, &stranger, T0, LIFETIME, None);
    assert_eq!(opened.unwrap_err().reason(), Reason::DifferentPrincipal);

    let new = rotated.seal(&binding(), &draft(&data)).unwrap();
    accepts(&rotated, &new);
    assert_eq!(rejects(&envelope(make), &new), Reason::BadSignature);
}

/// A real state, each character of which is changed in turn.
pub fn refuses_changed_states(make: Make<'_>) {
    let envelope = envelope(make);
    let data = data();
    let token = envelope.seal(&binding(), &draft(&data)).unwrap();
    accepts(&envelope, &token);
    for (at, present) in token.char_indices() {
        for other in ['A', 'B', 'w', '_'].into_iter().filter(|&c| c != present) {
            rejects(
                &envelope,
                &format!("{}{other}{}", &token[..at], &token[at + 1..]),
            );
        }
    }
    assert_eq!(rejects(&envelope, "hello"), Reason::Malformed);
    assert_eq!(rejects(&envelope, ""), Reason::Malformed);
    accepts(&envelope, &token);
}

/// What is under a wrong seal makes no difference: it is not looked at.
pub fn refuses_a_wrong_seal_whatever_is_under_it(make: Make<'_>) {
    let envelope = envelope(make).with_limits(crate::Limits {
        max_len: 1 << 20,
        ..crate::Limits::default()
    });
    let data = data();
    let token = envelope.seal(&binding(), &draft(&data)).unwrap();
    accepts(&envelope, &token);

    let nested = "[".repeat(100_000);
    let own = sealer(make).open(WireState::new(&token)).unwrap().payload;
    let edited = String::from_utf8(own.clone())
        .unwrap()
        .replace("190.00", "001.00");
    assert_ne!(own, edited.as_bytes());
    for hostile in [
        nested.as_bytes(),
        &[0xff; 100],
        &[0; 100],
        &[b'{'; 100],
        edited.as_bytes(),
    ] {
        let other = with_segment(&token, PAYLOAD_SEGMENT, &token::encode(hostile));
        assert_eq!(rejects(&envelope, &other), Reason::BadSignature);
    }
    accepts(&envelope, &token);
}

/// Any other principal is refused, both ways; the right one still succeeds afterwards.
pub fn binds_the_principal(make: Make<'_>) {
    let envelope = envelope(make);
    let data = data();
    let user = || Principal::user("https://as.example", "user-a");
    let principals = [
        user().with_client("app-1"),
        user().with_client("app-2"),
        user().with_client(""),
        user(),
        Principal::user("https://as.example", "user-b").with_client("app-1"),
        Principal::user("https://as.example", "USER-A").with_client("app-1"),
        Principal::user("https://as.example/", "user-a").with_client("app-1"),
        Principal::user("", ""),
        Principal::Anonymous,
    ];
    let bound = |principal: &Principal| Binding {
        principal: principal.clone(),
        ..binding()
    };
    for of in &principals {
        let token = envelope.seal(&bound(of), &draft(&data)).unwrap();
        for by in &principals {
            let opened = envelope.open(&token, &bound(by), T0, LIFETIME, None);
            match opened {
                Ok(_) => assert_eq!(of, by),
                Err(rejected) => {
                    assert_ne!(of, by);
                    assert_eq!(rejected.reason(), Reason::DifferentPrincipal);
                }
            }
        }
    }
}

/// Any other request is refused; the right one still succeeds afterwards.
pub fn binds_the_request(make: Make<'_>) {
    let envelope = envelope(make);
    let data = data();
    let request = |method, target, arguments: Option<&str>| {
        let builder = RequestDigest::builder(method, target);
        let builder = match arguments {
            Some(arguments) => builder.json("arguments", arguments).unwrap(),
            None => builder.absent("arguments"),
        };
        builder.finish()
    };
    let call = |arguments| request("tools/call", "transfer", Some(arguments));
    let requests = [
        call(r#"{"to":"acct-7","amount":100}"#),
        call(r#"{"to":"acct-7","amount":10000}"#),
        call(r#"{"to":"acct-7","amount":100.0}"#),
        call(r#"{"to":"acct-8","amount":100}"#),
        call(r#"{"to":"acct\u20117","amount":100}"#),
        call(r#"{"to":"acct-7","amount":100,"memo":"x"}"#),
        call("{}"),
        call("null"),
        request("tools/call", "transfer", None),
        request("tools/call", "two", Some(r#"{"to":"acct-7","amount":100}"#)),
        request(
            "prompts/get",
            "transfer",
            Some(r#"{"to":"acct-7","amount":100}"#),
        ),
    ];
    let bound = |request| Binding {
        request,
        ..binding()
    };
    for of in requests {
        let token = envelope.seal(&bound(of), &draft(&data)).unwrap();
        for by in requests {
            match envelope.open(&token, &bound(by), T0, LIFETIME, None) {
                Ok(_) => assert_eq!(of, by),
                Err(rejected) => {
                    assert_ne!(of, by);
                    assert_eq!(rejected.reason(), Reason::DifferentRequest);
                }
            }
        }
    }
    // Another spelling is the same request.
    let token = envelope.seal(&binding(), &draft(&data)).unwrap();
    let respelt = bound(call(r#" { "amount" : 100, "t\u006f" : "acct-7" } "#));
    assert!(envelope.open(&token, &respelt, T0, LIFETIME, None).is_ok());
}

/// Replicas of one server share states, different servers with one key do not.
pub fn binds_the_audience(make: Make<'_>) {
    let data = data();
    let token = envelope(make).seal(&binding(), &draft(&data)).unwrap();
    accepts(&envelope(make), &token);
    for audience in [
        "https://other.example/mcp",
        "https://server.example/mcp/",
        "",
    ] {
        let other = Envelope::new(&*make(ring(0)), PURPOSE, audience);
        assert_eq!(rejects(&other, &token), Reason::DifferentServer);
    }
    // An audience that needs escaping.
    let odd = Envelope::new(&*make(ring(0)), PURPOSE, "a\"b\\c\u{1}\u{7f}\u{1f600}");
    accepts(&odd, &odd.seal(&binding(), &draft(&data)).unwrap());
}

/// A state of another epoch is stale: of an earlier one, of none, or where there is none.
pub fn binds_the_epoch(make: Make<'_>) {
    let envelope = envelope(make);
    let data = data();
    let epochs = [
        None,
        Some(Epoch::from_bytes([8; 16])),
        Some(Epoch::from_bytes([9; 16])),
    ];
    for of in epochs {
        let draft = Draft {
            epoch: of,
            ..draft(&data)
        };
        let token = envelope.seal(&binding(), &draft).unwrap();
        for by in epochs {
            match envelope.open(&token, &binding(), T0, LIFETIME, by) {
                Ok(state) => assert_eq!((of, by), (state.epoch(), of)),
                Err(rejected) => {
                    assert_ne!(of, by);
                    assert_eq!(rejected.reason(), Reason::StaleEpoch);
                }
            }
        }
    }
}

/// `now < exp`, and nothing else.
pub fn expires_to_the_millisecond(make: Make<'_>) {
    let envelope = envelope(make);
    let data = data();
    for lifetime in [1, 500, 600_000].map(Duration::from_millis) {
        let exp = T0.saturating_add(lifetime);
        let draft = Draft {
            exp,
            ..draft(&data)
        };
        let token = envelope.seal(&binding(), &draft).unwrap();
        let at = |millis: u64| {
            let now = Timestamp::from_millis(millis);
            envelope
                .open(&token, &binding(), now, LIFETIME, None)
                .map(|_| ())
                .map_err(|rejected| rejected.reason())
        };
        let exp = exp.as_millis();
        assert_eq!(at(exp - 1), Ok(()));
        assert_eq!(at(exp), Err(Reason::Expired));
        assert_eq!(at(exp + 1), Err(Reason::Expired));
        assert_eq!(at(u64::MAX), Err(Reason::Expired));
    }
}

/// An expired state may be looked up, if it is genuine, whole and its bearer's own.
pub fn gives_a_late_state_only_where_all_else_holds(make: Make<'_>) {
    let envelope = envelope(make);
    let data = data();
    let token = envelope.seal(&binding(), &draft(&data)).unwrap();
    accepts(&envelope, &token);
    let late = T0.saturating_add(LIFETIME);
    let open = |token: &str, binding: &Binding, epoch| {
        envelope
            .open(token, binding, late, LIFETIME, epoch)
            .unwrap_err()
    };

    let rejected = open(&token, &binding(), None);
    assert_eq!(rejected.reason(), Reason::Expired);
    let state = rejected.into_late().expect("all else holds");
    assert_eq!(state.nonce(), Nonce::from_bytes([1; 16]));
    assert_eq!(state.flow(), FlowId::from_bytes([2; 16]));
    assert_eq!((state.exp(), state.round()), (late, 3));
    assert_eq!(state.data().get(), data.get());
    assert!(!format!("{state:?}").contains("price"));

    let stranger = Binding {
        principal: Principal::Anonymous,
        ..binding()
    };
    let other_request = Binding {
        request: RequestDigest::builder("tools/call", "two").finish(),
        ..binding()
    };
    for other in [stranger, other_request] {
        assert!(open(&token, &other, None).into_late().is_none());
    }
    let epoch = Some(Epoch::from_bytes([9; 16]));
    assert!(open(&token, &binding(), epoch).into_late().is_none());
    assert!(open(&token[1..], &binding(), None).into_late().is_none());
}

/// A clock behind the sealing one is borne up to the skew, and never lengthens a life.
pub fn allows_for_skew(make: Make<'_>) {
    let envelope = envelope(make);
    let data = data();
    let token = envelope.seal(&binding(), &draft(&data)).unwrap();
    let skew = envelope.limits().skew.as_millis() as u64;
    let at = |millis: u64| {
        let now = Timestamp::from_millis(millis);
        envelope
            .open(&token, &binding(), now, LIFETIME, None)
            .map(|_| ())
            .map_err(|rejected| rejected.reason())
    };
    let t0 = T0.as_millis();
    assert_eq!(at(t0), Ok(()));
    assert_eq!(at(t0 - skew), Ok(()));
    assert_eq!(at(t0 - skew - 1), Err(Reason::NotYetValid));
    assert_eq!(at(0), Err(Reason::NotYetValid));
}

/// No state lives longer than is allowed, nor longer than its flow, nor not at all; other units
/// do not pass for milliseconds.
pub fn bounds_lifetimes(make: Make<'_>) {
    let envelope = envelope(make);
    let data = data();
    let millis = Timestamp::from_millis;
    let seal = |iat: Timestamp, exp: Timestamp, flow_exp: Timestamp| {
        let draft = Draft {
            iat,
            exp,
            flow_exp,
            ..draft(&data)
        };
        envelope.seal(&binding(), &draft)
    };

    let exp = T0.saturating_add(LIFETIME);
    let too_long = exp.saturating_add(Duration::from_millis(1));
    accepts(&envelope, &seal(T0, exp, exp).unwrap());
    // A longer life than is allowed is over, and what the state held may still be looked up.
    let microseconds = millis(1_800_000_600_000_000);
    for exp in [too_long, microseconds, Timestamp::MAX] {
        let token = seal(T0, exp, exp).unwrap();
        let rejected = envelope
            .open(&token, &binding(), T0, LIFETIME, None)
            .unwrap_err();
        assert_eq!(rejected.reason(), Reason::Expired);
        assert_eq!(
            rejected
                .into_late()
                .expect("it holds in every other way")
                .exp(),
            exp
        );
    }

    // What cannot be opened is not sealed.
    for (iat, exp, flow_exp) in [
        (T0, T0, exp),
        (T0, millis(T0.as_millis() - 1), exp),
        (T0, millis(1_800_000_600), exp),
        (T0, too_long, exp),
    ] {
        let refused = seal(iat, exp, flow_exp).unwrap_err();
        assert!(matches!(refused, crate::SealError::Lifetime), "{refused:?}");
    }
    for lifetime in [Duration::ZERO, Duration::from_nanos(999_999)] {
        let draft = Draft::single(T0, lifetime, &data).unwrap();
        assert!(envelope.seal(&binding(), &draft).is_err());
    }
    // Nor does anything live where nothing may.
    let token = seal(T0, exp, exp).unwrap();
    let opened = envelope.open(&token, &binding(), T0, Duration::ZERO, None);
    assert_eq!(opened.unwrap_err().reason(), Reason::Expired);
}

/// Nothing longer than the limit is opened, and nothing longer is sealed.
pub fn keeps_the_size_limit_in_both_directions(make: Make<'_>) {
    let envelope = envelope(make);
    let limit = envelope.limits().max_len;
    let seal = |len: usize| {
        let data = RawValue::from_string(format!("\"{}\"", "x".repeat(len))).unwrap();
        envelope.seal(&binding(), &draft(&data))
    };
    // The longest that can be sealed.
    let (mut fits, mut does_not) = (0, limit);
    while does_not - fits > 1 {
        let len = fits.midpoint(does_not);
        match seal(len) {
            Ok(_) => fits = len,
            Err(_) => does_not = len,
        }
    }
    let longest = seal(fits).unwrap();
    assert!(longest.len() <= limit && longest.len() > limit - 8);
    accepts(&envelope, &longest);
    match seal(does_not).unwrap_err() {
        crate::SealError::TooLarge { len, limit: told } => assert!(len > limit && told == limit),
        other => panic!("{other:?}"),
    }

    // To the byte.
    let short = seal(10).unwrap();
    let limited = |max_len| {
        envelope.clone().with_limits(crate::Limits {
            max_len,
            ..envelope.limits()
        })
    };
    let data = RawValue::from_string(format!("\"{}\"", "x".repeat(10))).unwrap();
    let (just, less) = (limited(short.len()), limited(short.len() - 1));
    accepts(&just, &just.seal(&binding(), &draft(&data)).unwrap());
    assert_eq!(rejects(&less, &short), Reason::TooLarge);
    assert!(less.seal(&binding(), &draft(&data)).is_err());

    let wide = envelope.clone().with_limits(crate::Limits {
        max_len: usize::MAX,
        ..envelope.limits()
    });
    let data = RawValue::from_string(format!("\"{}\"", "x".repeat(does_not))).unwrap();
    let too_long = wide.seal(&binding(), &draft(&data)).unwrap();
    accepts(&wide, &too_long);
    assert_eq!(rejects(&envelope, &too_long), Reason::TooLarge);
    for len in [limit + 1, 64 * 1024 + 1, 1 << 20] {
        assert_eq!(rejects(&envelope, &"A".repeat(len)), Reason::TooLarge);
    }
    assert_eq!(rejects(&envelope, &"A".repeat(limit)), Reason::Malformed);
}
