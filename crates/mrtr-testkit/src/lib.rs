#![forbid(unsafe_code)]
//! Tools for testing MRTR servers and clients, and for showing what each of their guards is good for.
//!
//! **A dev-dependency.** Some of what is here takes protections away, under names that say so; none of it belongs into a
//! program that serves anybody.
//!
//! # An asking tool, tested from its question to its effect
//!
//! ```
//! use mrtr_client::{FormAnswer, FormQuestion};
//! use mrtr_server::{Answer, Flow, Form, Server, State, tool};
//! use mrtr_state::KeyRing;
//! use mrtr_state_hmac::HmacCodec;
//! use mrtr_testkit::{Effects, Harness, Script, check_rounds, tamper};
//! use serde_json::json;
//!
//! #[derive(serde::Deserialize, schemars::JsonSchema)]
//! struct Confirm {
//!     /// Charge it?
//!     ok: bool,
//! }
//!
//! async fn charge(flow: Flow, State(bank): State<Effects>) -> &'static str {
//!     match flow.ask("confirm", Form::<Confirm>::new("Charge 30.00?")).await {
//!         Answer::Accept(Confirm { ok: true }) => bank.happened("charge"),
//!         _ => return "Nothing was charged.",
//!     }
//!     "Charged."
//! }
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let effects = Effects::new();
//! let server = Server::builder("bank", "1.0.0")
//!     .audience("https://bank.example/mcp")
//!     .codec(HmacCodec::new(KeyRing::generate()?)?)
//!     .allow_anonymous()
//!     .state(effects.clone())
//!     .tool(tool("charge", charge))
//!     .build()?;
//! let harness = Harness::new(server);
//!
//! // As a client sees it.
//! let yes = async |_: FormQuestion| Ok(FormAnswer::Accept(json!({ "ok": true })));
//! let client = harness.client().on_form(yes).build()?;
//! assert_eq!(client.call_tool("charge", ()).await?.joined_text(), "Charged.");
//! assert_eq!((harness.exchanges().len(), effects.count("charge")), (2, 1));
//!
//! // Round by round: nothing happens before the answer, and nothing twice.
//! let call = harness.raw("charge");
//! let yes = Script::new().accept("confirm", json!({ "ok": true }));
//! let rounds = check_rounds(&call, yes, &effects).await?;
//! rounds.assert_each_effect_once();
//! rounds.assert_no_effect_before_ask();
//! check_rounds(&call, Script::new().decline("confirm"), &effects).await?.assert_no_effect();
//!
//! // As an attacker would: a state that was changed is refused, in whatever way.
//! let asked = call.send().await;
//! let retry = call.accept("confirm", json!({ "ok": true }));
//! for tampered in tamper(asked.expect_state()).step_by(50) {
//!     let reply = retry.clone().state(&tampered.token).send().await;
//!     assert!(reply.reason().is_some(), "{tampered:?}: {reply:?}");
//! }
//! # Ok(())
//! # }
//! ```
//!
//! # Map
//!
//! | to | see |
//! |---|---|
//! | call a server in this process, and see what crosses the wire | [`Harness`], [`Exchange`] |
//! | send what no client would send | [`Harness::raw`], [`RawCall`], [`Reply`] |
//! | find effects that happen again in every round | [`check_rounds`], [`Effects`], [`Script`] |
//! | answer one state many times, one after another and at once | [`replay`](replay()), [`Replayed`] |
//! | change a token in every way | [`tamper`](tamper()) |
//! | set the time by hand | [`ManualClock`] |
//! | see what a guard is good for, by taking it off | [`guards`], [`Guard`](guards::Guard) |
//! | read and forge states that nothing protects | [`UnsealedCodec`](guards::UnsealedCodec) |
//! | test a codec or a ledger of your own | `mrtr_state::codec_suite!`, `mrtr_ledger::ledger_suite!` |
//!
//! | specification page | where it is |
//! |---|---|
//! | `basic/patterns/mrtr`, "Security Considerations" | [`tamper`](tamper()), [`replay`](replay()), [`guards`] |
//! | `basic/transports/streamable-http` | [`RawCall`]'s headers and body |

pub mod clock;
pub mod guards;
pub mod harness;
pub mod replay;
pub mod rounds;
pub mod tamper;

mod effects;
mod raw;
mod redacted;
mod reply;
mod script;

pub use clock::ManualClock;
pub use effects::Effects;
pub use harness::{Exchange, Harness};
pub use raw::RawCall;
pub use replay::{Presented, Replayed, replay};
pub use reply::Reply;
pub use rounds::{Rounds, RoundsError, check_rounds};
pub use script::Script;
pub use tamper::{Tampered, tamper};

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct ReadmeDoctests;

/// The guides' code compiles and runs. It stands here because this crate, in its tests, knows all others.
#[cfg(doctest)]
mod guides {
    #[doc = include_str!("../../../docs/authors.md")]
    struct Authors;
    #[doc = include_str!("../../../docs/hosts.md")]
    struct Hosts;
    #[doc = include_str!("../../../docs/state.md")]
    struct State;
    #[doc = include_str!("../../../docs/design.md")]
    struct Design;
    #[doc = include_str!("../../../docs/threat-model.md")]
    struct ThreatModel;
}
