//! What an envelope makes of payloads whose seal holds and whose claims do not.

use super::envelope::{accepts, binding, data, draft, envelope, rejects};
use super::*;

/// Genuine seals around claims that are not the claims: unknown, twice, missing, of another
/// type, in an array.
pub fn reads_claims_strictly(make: Make<'_>) {
    let (envelope, sealer) = (envelope(make), sealer(make));
    let data = data();
    let draft = Draft {
        epoch: Some(Epoch::from_bytes([9; 16])),
        ..draft(&data)
    };
    let token = envelope.seal(&binding(), &draft).unwrap();
    let payload = sealer.open(WireState::new(&token)).unwrap().payload;
    let text = String::from_utf8(payload).unwrap();
    let open = |payload: &str| {
        let token = sealer.seal(payload.as_bytes()).unwrap();
        envelope
            .open(&token, &binding(), T0, LIFETIME, draft.epoch)
            .map(|_| ())
            .map_err(|rejected| rejected.reason())
    };
    let malformed = |payload: &str| assert_eq!(open(payload), Err(Reason::Malformed), "{payload}");

    // Members one by one, so that they can be left out and put in.
    let members = [
        "v", "iat", "exp", "aud", "sub", "dig", "nonce", "flow", "flow_exp", "round", "epoch",
        "data",
    ];
    let claims: Vec<(&str, &RawValue)> = {
        let all: std::collections::HashMap<&str, &RawValue> = serde_json::from_str(&text).unwrap();
        assert_eq!(all.len(), members.len());
        members.iter().map(|name| (*name, all[name])).collect()
    };
    let object = |claims: &[(&str, &str)]| {
        let members: Vec<String> = claims
            .iter()
            .map(|(name, value)| format!("\"{name}\":{value}"))
            .collect();
        format!("{{{}}}", members.join(","))
    };
    let claims: Vec<(&str, &str)> = claims.iter().map(|(n, v)| (*n, v.get())).collect();
    assert_eq!(object(&claims), text, "claims are compact, in their order");
    assert_eq!(open(&text), Ok(()));

    for (index, &(name, value)) in claims.iter().enumerate() {
        let with = |name: &str, value: &str| {
            let mut changed: Vec<(&str, &str)> = claims[..index].to_vec();
            changed.push((name, value));
            changed.extend_from_slice(&claims[index + 1..]);
            object(&changed)
        };
        let mut without = claims.clone();
        without.remove(index);
        if name == "epoch" {
            assert_eq!(open(&object(&without)), Err(Reason::StaleEpoch));
        } else {
            malformed(&object(&without));
        }
        let mut twice = claims.clone();
        twice.insert(index, (name, value));
        malformed(&object(&twice));
        malformed(&with(&name.to_uppercase(), value));
        let nul = format!("{name}\\u0000");
        malformed(&with(&nul, value));
        if name != "data" {
            for other in [
                "null", "true", "[]", "{}", "1.5", "-1", "\"\"", "\"x\"", "1e999",
            ] {
                // An audience is any string, and an empty or short one another server's.
                if name == "aud" && other.starts_with('"') {
                    assert_eq!(open(&with(name, other)), Err(Reason::DifferentServer));
                } else {
                    malformed(&with(name, other));
                }
            }
            malformed(&with(name, &format!("[{value}]")));
            malformed(&with(name, &format!("\"{value}\"")));
        }
        if value.starts_with(|c: char| c.is_ascii_digit()) {
            malformed(&with(name, &format!("{value}.0")));
            malformed(&with(name, &format!("{value}e0")));
            malformed(&with(name, "18446744073709551616"));
        } else if value.len() == 24 {
            // Sixteen bytes: one more character, one less, padded.
            let inner = value.trim_matches('"');
            malformed(&with(name, &format!("\"{inner}A\"")));
            malformed(&with(name, &format!("\"{}\"", &inner[1..])));
            malformed(&with(name, &format!("\"{inner}==\"")));
        }
    }
    for version in ["0", "2", "4294967297"] {
        let mut claims = claims.clone();
        claims[0].1 = version;
        malformed(&object(&claims));
    }
    let mut more = claims.clone();
    more.push(("extra", "1"));
    malformed(&object(&more));
    more.last_mut().unwrap().0 = "";
    malformed(&object(&more));
    more.last_mut().unwrap().0 = "$serde_json::private::RawValue";
    malformed(&object(&more));

    // Times that contradict each other, or are in other units.
    let times = |iat: u64, exp: u64, flow_exp: u64| {
        let (iat, exp, flow_exp) = (iat.to_string(), exp.to_string(), flow_exp.to_string());
        let mut changed: Vec<(&str, &str)> = claims.clone();
        for (name, value) in &mut changed {
            match *name {
                "iat" => *value = &iat,
                "exp" => *value = &exp,
                "flow_exp" => *value = &flow_exp,
                _ => {}
            }
        }
        open(&object(&changed))
    };
    let (iat, exp) = (T0.as_millis(), draft.exp.as_millis());
    assert_eq!(times(iat, exp, exp), Ok(()));
    for (iat, exp, flow_exp) in [
        (iat, exp, exp - 1),
        (iat, exp, 0),
        (iat, iat, exp),
        (iat, iat - 1, exp),
        (iat, 0, exp),
        (iat, exp / 1_000, exp),
    ] {
        assert_eq!(times(iat, exp, flow_exp), Err(Reason::Malformed));
    }
    // A life that is longer than is allowed is over, whatever its units.
    for (iat, exp) in [
        (iat, exp + 1),
        (iat - 1, exp),
        (0, exp),
        (iat, exp * 1_000),
        (iat / 1_000, exp),
    ] {
        assert_eq!(times(iat, exp, exp), Err(Reason::Expired));
    }
    let (seconds_iat, seconds_exp) = (iat / 1_000, exp / 1_000);
    assert_eq!(
        times(seconds_iat, seconds_exp, seconds_exp),
        Err(Reason::Expired)
    );
    assert_eq!(
        times(iat * 1_000, exp * 1_000, exp * 1_000),
        Err(Reason::NotYetValid)
    );

    // A structure is readable from an array of its values: not here.
    let values: Vec<&str> = claims.iter().map(|(_, value)| *value).collect();
    malformed(&format!("[{}]", values.join(",")));
    malformed(&format!("[{text}]"));
    for other in [
        format!("{text}x"),
        format!("{text}{text}"),
        format!("\u{feff}{text}"),
    ] {
        malformed(&other);
    }
    assert_eq!(open(&text), Ok(()));
}

/// Genuine seals around what is not even JSON.
pub fn refuses_sealed_nonsense(make: Make<'_>) {
    let (envelope, sealer) = (envelope(make), sealer(make));
    let data = data();
    accepts(
        &envelope,
        &envelope.seal(&binding(), &draft(&data)).unwrap(),
    );

    let nested = [b"{\"data\":".as_slice(), &[b'['; 20_000]].concat();
    for payload in [
        b"".as_slice(),
        b"{",
        b"{}",
        b"null",
        b"\"x\"",
        b"[]",
        b"{\"v\":1}",
        b"{\"aud\":\"\xff\"}",
        b"\xff\xfe",
        &[0; 64],
        &nested,
    ] {
        let token = sealer.seal(payload).unwrap();
        assert_eq!(
            sealer.open(WireState::new(&token)).unwrap().payload,
            payload
        );
        assert_eq!(rejects(&envelope, &token), Reason::Malformed);
    }
}
