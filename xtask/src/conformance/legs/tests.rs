use super::*;
use crate::cargo;

fn committed() -> Required {
    Required::read(&cargo::root().join("conformance/legs.json")).unwrap()
}

/// What a leg must show, and nothing more.
fn just_enough(required: &Required, leg: Leg) -> BTreeMap<String, Outcome> {
    let of_leg = &required.legs[leg.name()];
    let good = of_leg.scenarios.iter().map(|(name, least)| {
        let outcome = Outcome {
            success: *least,
            client_done: leg.side == Side::Client,
            ..Outcome::default()
        };
        (name.clone(), outcome)
    });
    let bad = of_leg.expected_failures.iter().map(|name| {
        let outcome = Outcome {
            failures: vec!["no token".to_owned()],
            ..Outcome::default()
        };
        (name.clone(), outcome)
    });
    good.chain(bad).collect()
}

#[test]
fn the_committed_totals_are_those_that_are_promised() {
    let required = committed();
    for (leg, scenarios, checks) in [
        ("server-2026-07-28", 40, 152),
        ("server-2025-11-25", 33, 84),
        ("client-2026-07-28", 33, 402),
        ("client-2025-11-25", 19, 257),
        ("client-extensions", 6, 59),
    ] {
        let of_leg = &required.legs[leg];
        assert_eq!(of_leg.scenarios.len(), scenarios, "{leg}");
        assert_eq!(of_leg.checks, checks, "{leg}");
        assert_eq!(of_leg.scenarios.values().sum::<u64>(), checks, "{leg}");
    }
    assert_eq!(required.legs.len(), 5);
}

#[test]
fn nothing_is_expected_to_fail_and_nothing_is_skipped_but_initialize() {
    for (leg, of_leg) in &committed().legs {
        assert!(of_leg.expected_failures.is_empty(), "{leg}");
        for (scenario, checks) in &of_leg.skipped {
            assert_eq!(scenario, "http-standard-headers", "{leg}");
            assert!(
                checks.iter().all(|check| check.contains("initialize")),
                "{leg}"
            );
            assert_eq!(checks.len(), 2, "{leg}");
        }
    }
}

#[test]
fn just_enough_is_enough_and_anything_less_is_not() {
    let required = committed();
    for leg in Leg::ALL {
        let good = required.judge(leg, &just_enough(&required, leg));
        assert!(good.is_ok(), "{:?}", good.problems);
        assert_eq!(good.passed, good.required);
        assert_eq!(good.success, good.required_checks);

        let scenario = required.legs[leg.name()].scenarios.keys().next().unwrap();
        type Change = fn(&mut Outcome);
        let mut changes: Vec<(&str, Change)> = vec![
            ("one check less", |outcome| outcome.success -= 1),
            ("a failure", |outcome| outcome.failures.push("F".into())),
            ("a warning", |outcome| outcome.warnings.push("W".into())),
            ("a skipped check", |outcome| {
                outcome.skipped.push("S".into())
            }),
        ];
        if leg.side == Side::Client {
            changes.push(("a client that said nothing of its end", |outcome| {
                outcome.client_done = false
            }));
        }
        for (what, change) in changes {
            let mut outcomes = just_enough(&required, leg);
            change(outcomes.get_mut(scenario).unwrap());
            let verdict = required.judge(leg, &outcomes);
            assert!(!verdict.is_ok(), "{leg}: {what}");
            assert_eq!(verdict.passed, verdict.required - 1, "{leg}: {what}");
            assert!(verdict.problems_shown().contains(scenario.as_str()));
            assert!(verdict.line().contains("FALLS SHORT"));
        }

        let mut outcomes = just_enough(&required, leg);
        outcomes.remove(scenario);
        assert!(!required.judge(leg, &outcomes).is_ok(), "{leg}: no result");

        let mut outcomes = just_enough(&required, leg);
        outcomes.insert("brand-new".to_owned(), Outcome::default());
        assert!(
            !required.judge(leg, &outcomes).is_ok(),
            "{leg}: unknown scenario"
        );
    }
}

#[test]
fn skipped_checks_pass_where_they_are_listed_and_never_count() {
    let required = committed();
    let leg = Leg::ALL[2];
    let mut outcomes = just_enough(&required, leg);
    let headers = outcomes.get_mut("http-standard-headers").unwrap();
    headers.skipped = vec![
        "ClientMcpMethodHeader_initialize".to_owned(),
        "ClientMcpMethodHeader_notifications_initialized".to_owned(),
    ];
    let verdict = required.judge(leg, &outcomes);
    assert!(verdict.is_ok(), "{:?}", verdict.problems);
    assert_eq!((verdict.skipped, verdict.success), (2, 402));

    let headers = outcomes.get_mut("http-standard-headers").unwrap();
    headers
        .skipped
        .push("ClientMcpMethodHeader_tools_list".to_owned());
    headers.success -= 1;
    assert!(!required.judge(leg, &outcomes).is_ok());
}

#[test]
fn an_expected_failure_that_passes_is_to_be_moved() {
    let mut required = committed();
    let leg = Leg::ALL[2];
    let name = "auth/brand-new";
    let of_leg = required.legs.get_mut(leg.name()).unwrap();
    of_leg.expected_failures.insert(name.to_owned());
    for (outcome, still_fails) in [
        (
            Outcome {
                success: 3,
                client_done: true,
                ..Outcome::default()
            },
            false,
        ),
        // A client that gave up, or a scenario in which nothing was checked, has not passed.
        (
            Outcome {
                success: 3,
                ..Outcome::default()
            },
            true,
        ),
        (Outcome::default(), true),
    ] {
        let mut outcomes = just_enough(&required, leg);
        outcomes.insert(name.to_owned(), outcome);
        let verdict = required.judge(leg, &outcomes);
        assert_eq!(verdict.is_ok(), still_fails, "{:?}", verdict.problems);
    }
    let mut outcomes = just_enough(&required, leg);
    outcomes.remove(name);
    assert!(!required.judge(leg, &outcomes).is_ok());
}

#[test]
fn a_file_that_lacks_a_leg_or_a_member_is_refused() {
    let text = fs::read_to_string(cargo::root().join("conformance/legs.json")).unwrap();
    assert!(Required::parse(&text).is_ok());
    for (from, to) in [
        ("server-2025-11-25", "server-2024-11-05"),
        ("\"checks\": 152", "\"checks\": \"152\""),
        ("\"caching\": 8", "\"caching\": \"8\""),
        ("expectedFailures", "expected"),
        ("\"skipped\"", "\"left out\""),
    ] {
        assert!(
            Required::parse(&text.replacen(from, to, 1)).is_err(),
            "{to}"
        );
    }
}
