#![forbid(unsafe_code)]
//! Plays attacks on multi round-trip requests against any MCP server of revision 2026-07-28 over HTTP.
//!
//! It calls a tool that asks, answers, and sees it act: the *good path*. Then it repeats states, changes them, and sends what no client
//! would send, and says of each attack whether the server held. **Attack servers that are yours**: what the tool does, it does many times.
//!
//! ```no_run
//! # async fn probe() -> Result<(), mrtr_probe::ProbeError> {
//! use mrtr_probe::Target;
//! use serde_json::json;
//!
//! let mut target = Target::new("http://127.0.0.1:3004/mcp", "redeem_voucher");
//! target.arguments = json!({ "code": "SPRING" });
//! target.answer = json!({ "ok": true });
//! target.effect_tool = Some("vouchers_redeemed".into());
//! let report = mrtr_probe::run(&target, |row| eprintln!("{}", row.title)).await?;
//! println!("{report}");
//! # Ok(())
//! # }
//! ```
//!
//! # What a row says
//!
//! [`Verdict::Unsafe`] where something acted, or was served, that must not be. [`Verdict::Safe`] where every try was held; a result that
//! came again without a second effect is safe. [`Verdict::Unknown`] where that cannot be told apart, and the note says what would tell:
//! most often [`Target::effect_tool`]. [`Verdict::NotApplicable`] where the server has nothing to try it on.
//!
//! A refusal alone proves little: a state may be refused because it has expired meanwhile. So states that are attacked must still work
//! afterwards, and without the good path nothing is claimed at all ([`ProbeError::NoGoodPath`]).
//!
//! **Not guaranteed**: that a server without an unsafe row is safe. Rows are tries, and the list is what its authors thought of.
//!
//! # Map
//!
//! | module | what is in it |
//! |---|---|
//! | [`Target`] | what is attacked, and the bounds |
//! | `http`, `wire` | HTTP by hand, requests that can be spoilt, replies |
//! | `subject`, `trial` | flows, the count of effects, and how tries are judged |
//! | `attacks` | the rows: `seal`, `binding`, `answers`, `replay`, `boundary`, `body`, `era`, `leaks` |
//! | [`Report`] | what was found: as a table (`Display`), as JSON (`Serialize`) and as SARIF ([`Report::to_sarif`]) |

mod attacks;
mod decode;
mod http;
mod redact;
mod report;
mod subject;
mod target;
mod trial;
mod wire;

pub use report::{Report, Row, Totals, Verdict};
pub use target::Target;

use attacks::{ATTACKS, Attack, Needs};
use subject::{Stop, Subject};
use trial::Finding;

/// Why there is no report.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ProbeError {
    /// The URL, or where it leads.
    #[error("{url}: {why}")]
    Endpoint {
        /// The URL.
        url: String,
        /// What is wrong with it.
        why: String,
    },
    /// Without the good path a refusal proves nothing.
    #[error("the good path could not be proven, so nothing is claimed: {0}")]
    NoGoodPath(String),
}

/// Proves the good path, then plays every attack, and tells `progress` of each row as it is done.
///
/// The requests of a run are sent one after the other, but for the rows that are about requests at once.
///
/// # Errors
///
/// [`ProbeError`]. A bound that is reached on the way is no error: the rows that are left are unknown.
pub async fn run(target: &Target, mut progress: impl FnMut(&Row)) -> Result<Report, ProbeError> {
    let endpoint = http::Endpoint::resolve(&target.url, target.allow_remote).await;
    let endpoint = endpoint.map_err(|error| ProbeError::Endpoint {
        url: target.url.clone(),
        why: error.to_string(),
    })?;
    let mut subject = Subject::new(target, endpoint);
    let (sent, received) = subject.prove().await.map_err(|stop| match stop {
        Stop::Bound(why) | Stop::Trouble(why) => ProbeError::NoGoodPath(subject.redact.text(&why)),
    })?;
    let mut rows = vec![good_path(&subject, sent, received)];
    rows.iter().for_each(&mut progress);
    for attack in ATTACKS {
        let row = play(&subject, attack).await;
        progress(&row);
        rows.push(row);
    }
    Ok(Report {
        version: env!("CARGO_PKG_VERSION"),
        revision: mrtr_protocol::REVISION,
        url: target.url.clone(),
        tool: target.tool.clone(),
        effects_counted: target.effect_tool.is_some(),
        requests: subject.requests(),
        millis: u64::try_from(subject.elapsed().as_millis()).unwrap_or(u64::MAX),
        totals: Totals::of(&rows),
        rows,
    })
}

fn good_path(subject: &Subject<'_>, sent: String, received: String) -> Row {
    let rounds = subject.good.rounds;
    let effect = match subject.target.effect_tool {
        Some(_) => ", and there was one effect",
        None => "",
    };
    Row {
        id: "good-path",
        title: "the honest call",
        verdict: Verdict::Safe,
        rule: "basic/patterns/mrtr, Overview",
        note: format!("it asked {rounds}×, was answered and gave a result{effect}"),
        sent,
        received,
    }
}

async fn play(subject: &Subject<'_>, attack: &Attack) -> Row {
    let finding = if attack.needs == Needs::State && !subject.good.has_state {
        Ok(Finding::not_applicable(
            "the server's questions come without a state",
        ))
    } else {
        (attack.play)(subject).await
    };
    let finding = finding.unwrap_or_else(|stop| match stop {
        Stop::Bound(why) | Stop::Trouble(why) => Finding::unknown(why),
    });
    Row {
        id: attack.id,
        title: attack.title,
        verdict: finding.verdict,
        rule: attack.rule,
        note: subject.redact.text(&finding.note),
        sent: finding.sent,
        received: finding.received,
    }
}

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct ReadmeDoctests;
