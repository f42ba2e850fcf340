//! Cases 14, 15 and 17: how long a state lives, in which unit, and by whose clock.

use std::time::Duration;

use mrtr_server::{BuildError, ServerBuilder, tool};
use mrtr_state::{Purpose, StateCodec, Timestamp, WireState};
use mrtr_testkit::ManualClock;

use super::fleet::Fleet;
use super::{Refusal, refused, works};
use crate::bank::{Bank, Call, T0, codec};

const MALFORMED: Refusal = Refusal::state("malformed");
const EXPIRED: Refusal = Refusal::state("expired");
const NOT_YET_VALID: Refusal = Refusal::state("not_yet_valid");

fn living(lifetime: Duration) -> impl FnOnce(ServerBuilder) -> ServerBuilder {
    move |builder| {
        builder.limits(|limits| {
            limits.lifetime = lifetime;
            limits.flow_lifetime = limits.flow_lifetime.max(lifetime);
        })
    }
}

/// No number means *for ever*. What is negative, infinite or no number is no [`Duration`].
#[test]
fn case_014_a_lifetime_of_nothing_is_refused() {
    for none in [-1.0, f64::NAN, f64::INFINITY, f64::MAX] {
        Duration::try_from_secs_f64(none).expect_err("no duration");
    }
    let builder = || {
        mrtr_server::Server::builder("s", "1")
            .audience("a")
            .allow_anonymous()
            .codec(codec())
    };
    builder().build().expect("the usual lifetime");
    for nothing in [Duration::ZERO, Duration::from_nanos(999_999)] {
        let refused = living(nothing)(builder()).build().unwrap_err();
        assert!(matches!(refused, BuildError::ZeroLimit("lifetime")));
        let of_flow = builder().limits(|limits| limits.flow_lifetime = nothing);
        let refused = of_flow.build().unwrap_err();
        assert!(matches!(refused, BuildError::ZeroLimit("flow_lifetime")));
        let of_tool = builder().tool(tool("t", async || "done").lifetime(nothing));
        let refused = of_tool.build().unwrap_err();
        assert!(matches!(refused, BuildError::Handler { .. }), "{refused}");
    }
}

#[tokio::test]
async fn case_014_a_lifetime_is_kept_to_the_millisecond() {
    let century = Duration::from_secs(100 * 365 * 24 * 60 * 60);
    for now in [0, 1, T0] {
        for (told, kept) in [
            (Duration::from_millis(1), Duration::from_millis(1)),
            (Duration::from_millis(500), Duration::from_millis(500)),
            (Duration::from_secs(600), Duration::from_secs(600)),
            (Duration::from_millis(i64::MAX as u64), century),
            (Duration::MAX, century),
        ] {
            for over in [false, true] {
                let name = format!("{told:?} from {now}, over: {over}");
                let fleet = Fleet::at(Timestamp::from_millis(now));
                let bank = fleet.instance(living(told));
                let state = bank.open().await;
                bank.advance(kept - Duration::from_millis(1));
                if over {
                    bank.advance(Duration::from_millis(1));
                    EXPIRED.check(&name, &bank.send(&Call::retry(&state)).await);
                    assert_eq!(bank.effects.count(), 0, "{name}");
                } else {
                    works(&name, &bank, &state).await;
                }
            }
        }
    }
}

/// Claims and the times to put into them.
type Times<'a> = &'a [(&'a str, u64)];

/// The state with other times in it, under a genuine seal.
fn with_times(state: &str, times: Times<'_>) -> Call {
    let sealer = codec().sealer(&Purpose::REQUEST_STATE);
    let opened = sealer.open(WireState::new(state)).expect("our own state");
    let mut claims = String::from_utf8(opened.payload).unwrap();
    for (name, time) in times {
        let claim = format!("\"{name}\":");
        let (before, rest) = claims.split_once(&claim).expect("the claim");
        let after = rest.trim_start_matches(|c: char| c.is_ascii_digit());
        claims = format!("{before}{claim}{time}{after}");
    }
    Call::retry(&sealer.seal(claims.as_bytes()).unwrap())
}

#[tokio::test]
async fn case_015_seconds_and_microseconds_are_no_milliseconds() {
    let (flow, exp) = (T0 + 3_600_000, T0 + 600_000);
    let bank = Bank::new();
    let state = bank.open().await;
    let same = with_times(&state, &[("iat", T0), ("exp", exp), ("flow_exp", flow)]);
    assert_eq!(bank.send(&same).await.text(), "done 1", "the good path");

    let seconds = |time: u64| time / 1_000;
    let micros = |time: u64| time * 1_000;
    let tries: [(&str, Times<'_>, Refusal); 8] = [
        ("exp in seconds", &[("exp", seconds(exp))], MALFORMED),
        ("exp in microseconds", &[("exp", micros(exp))], MALFORMED),
        (
            "exp and its flow's in microseconds",
            &[("exp", micros(exp)), ("flow_exp", micros(flow))],
            EXPIRED,
        ),
        ("iat in seconds", &[("iat", seconds(T0))], EXPIRED),
        ("iat in microseconds", &[("iat", micros(T0))], NOT_YET_VALID),
        (
            "all in seconds",
            &[
                ("iat", seconds(T0)),
                ("exp", seconds(exp)),
                ("flow_exp", seconds(flow)),
            ],
            EXPIRED,
        ),
        (
            "all in microseconds",
            &[
                ("iat", micros(T0)),
                ("exp", micros(exp)),
                ("flow_exp", micros(flow)),
            ],
            NOT_YET_VALID,
        ),
        ("no life at all", &[("exp", T0)], MALFORMED),
    ];
    for (name, times, refusal) in tries {
        refused(name, &refusal, |state| with_times(state, times)).await;
    }
}

/// An instance without a ledger, by a clock of its own.
fn with_a_clock(millis: u64) -> (Bank, ManualClock) {
    let clock = ManualClock::at(Timestamp::from_millis(millis));
    let bank = Bank::without_ledger_with(|builder| builder.clock(clock.clone()));
    (bank, clock)
}

#[tokio::test]
async fn case_017_clocks_that_disagree_by_the_skew() {
    let millis = Duration::from_millis;
    let retry = async |bank: &Bank, state: &str| bank.send(&Call::retry(state)).await;
    let (redeems, clock) = with_a_clock(T0);

    // Whoever mints is a minute ahead: good to its last millisecond by the clock of whoever redeems, and no longer.
    let state = with_a_clock(T0 + 60_000).0.open().await;
    assert_eq!(
        retry(&redeems, &state).await.text(),
        "done",
        "from a minute ahead"
    );
    clock.set(Timestamp::from_millis(T0 + 659_999));
    assert_eq!(retry(&redeems, &state).await.text(), "done");
    clock.advance(millis(1));
    EXPIRED.check("a minute after", &retry(&redeems, &state).await);

    // Whoever mints is a minute behind: it is over a minute early.
    clock.set(Timestamp::from_millis(T0));
    let state = with_a_clock(T0 - 60_000).0.open().await;
    clock.advance(millis(539_999));
    assert_eq!(retry(&redeems, &state).await.text(), "done");
    clock.advance(millis(1));
    EXPIRED.check("a minute before", &retry(&redeems, &state).await);

    // More than the skew ahead: not before the clocks have come nearer.
    clock.set(Timestamp::from_millis(T0));
    let state = with_a_clock(T0 + 60_001).0.open().await;
    NOT_YET_VALID.check("too far ahead", &retry(&redeems, &state).await);
    assert_eq!(redeems.effects.count(), 3);
    clock.advance(millis(1));
    assert_eq!(retry(&redeems, &state).await.text(), "done");
}

/// With a ledger its clock decides as well, and the stricter of the two.
#[tokio::test]
async fn case_017_no_clock_lengthens_a_life() {
    let fleet = Fleet::new();
    let at = |millis: u64| ManualClock::at(Timestamp::from_millis(millis));
    let (ahead, behind) = (at(T0 + 30_000), at(T0 - 30_000));
    let mints = fleet.instance(|builder| builder.clock(ahead.clone()));
    let redeems = fleet.instance(|builder| builder.clock(behind.clone()));
    let (early, late) = (mints.open().await, mints.open().await);
    let all = |by: Duration| {
        for clock in [&ahead, &behind, &fleet.clock] {
            clock.advance(by);
        }
    };
    // The ledger is 30 seconds behind whoever minted.
    all(Duration::from_millis(629_999));
    assert_eq!(redeems.send(&Call::retry(&early)).await.text(), "done 1");
    EXPIRED.check(
        "by the clock that minted it",
        &mints.send(&Call::retry(&late)).await,
    );
    all(Duration::from_millis(1));
    EXPIRED.check(
        "by the ledger's clock",
        &redeems.send(&Call::retry(&late)).await,
    );
    all(Duration::from_secs(60));
    EXPIRED.check("after the skew", &redeems.send(&Call::retry(&late)).await);
    assert_eq!(redeems.effects.count(), 1);
}
