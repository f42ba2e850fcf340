//! Effects that a handler repeats from round to round.

use std::collections::BTreeMap;
use std::fmt;

use crate::effects::Effects;
use crate::raw::RawCall;
use crate::reply::Reply;
use crate::script::Script;

/// More rounds than this are taken for a tool that asks for ever.
pub const MAX_ROUNDS: usize = 100;

/// Carries a call through all its rounds, and tells which effects happened in which. Fails when one happened more than once.
///
/// A body runs again from the top in every round, so that an effect before a question happens once a round. This finds it:
///
/// ```
/// # use mrtr_server::{Flow, Form, Server, State, tool};
/// # use mrtr_state::KeyRing;
/// # use mrtr_testkit::{Effects, Harness, RoundsError, Script, check_rounds};
/// # use serde_json::json;
/// # #[derive(serde::Deserialize, schemars::JsonSchema)]
/// # struct Confirm { ok: bool }
/// async fn charge_bad(flow: Flow, State(effects): State<Effects>) -> &'static str {
///     effects.happened("charge");
///     let _ = flow.ask("confirm", Form::<Confirm>::new("Charge?")).await;
///     "charged"
/// }
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let effects = Effects::new();
/// # let server = Server::builder("bank", "1.0.0")
/// #     .audience("https://bank.example/mcp")
/// #     .codec(mrtr_state_hmac::HmacCodec::new(KeyRing::generate()?)?)
/// #     .allow_anonymous()
/// #     .state(effects.clone())
/// #     .tool(tool("charge_bad", charge_bad))
/// #     .build()?;
/// let call = Harness::new(server).raw("charge_bad");
/// let yes = Script::new().accept("confirm", json!({ "ok": true }));
/// let error = check_rounds(&call, yes, &effects).await.unwrap_err();
/// assert!(matches!(error, RoundsError::Repeated(_)));
/// println!("{error}"); // which effect, in which rounds, and what to do
/// # Ok(())
/// # }
/// ```
///
/// Play every way that matters: accepted, declined, dismissed. One check at a time may use an `effects`; what happened before
/// does not count.
///
/// **Not found:** effects that nobody reports, and effects of tasks that go on after the answer. That a state is answered
/// twice is [`replay`](crate::replay())'s.
///
/// # Errors
///
/// [`RoundsError::Repeated`] is what it looks for; the others say why there was nothing to look at.
pub async fn check_rounds(
    call: &RawCall,
    script: Script,
    effects: &Effects,
) -> Result<Rounds, RoundsError> {
    let rounds = play(call, script, effects).await?;
    if rounds.len() < 2 {
        return Err(RoundsError::NeverAsked(rounds));
    }
    if rounds.repeated().is_empty() {
        Ok(rounds)
    } else {
        Err(RoundsError::Repeated(rounds))
    }
}

/// Carries a call through all its rounds as [`check_rounds`] does, and leaves it to the caller what to make of them.
///
/// # Errors
///
/// When the call has no end: never [`RoundsError::Repeated`] or [`RoundsError::NeverAsked`].
pub async fn play(
    call: &RawCall,
    mut script: Script,
    effects: &Effects,
) -> Result<Rounds, RoundsError> {
    let before = effects.enter(1);
    let mut rounds = Rounds(Vec::new());
    let mut next = call.clone().id(1);
    loop {
        let number = rounds.len() + 1;
        if number > MAX_ROUNDS {
            return Err(RoundsError::Endless(rounds));
        }
        effects.enter(number);
        let reply = next.send().await;
        let asked: Vec<String> = reply.asks().into_iter().map(ToOwned::to_owned).collect();
        rounds.0.push(Round {
            effects: effects.of_round(number, before),
            asked: asked.clone(),
            reply: reply.clone(),
        });
        if reply.result().is_none() {
            return Err(RoundsError::Refused(rounds));
        }
        if !reply.is_input_required() {
            return Ok(rounds);
        }
        next = call.clone().id(number + 1);
        if let Some(state) = reply.state() {
            next = next.state(state);
        }
        for key in asked {
            let Some(answer) = script.next(&key) else {
                return Err(RoundsError::Unanswered { key, rounds });
            };
            next = next.answer(&key, answer);
        }
    }
}

/// One round: a request, and what came of it.
#[derive(Clone, Debug)]
pub struct Round {
    effects: Vec<String>,
    asked: Vec<String>,
    reply: Reply,
}

impl Round {
    /// The effects that happened in it, in order.
    #[must_use]
    pub fn effects(&self) -> &[String] {
        &self.effects
    }

    /// The keys of the questions that it ended with; none when it ended the call.
    #[must_use]
    pub fn asked(&self) -> &[String] {
        &self.asked
    }

    /// What the server said.
    #[must_use]
    pub fn reply(&self) -> &Reply {
        &self.reply
    }
}

impl fmt::Display for Round {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.effects.as_slice() {
            [] => f.write_str("no effect")?,
            effects => write!(f, "{}", effects.join(", "))?,
        }
        match self.asked.as_slice() {
            asked @ [_, ..] => return write!(f, "; then it asked {}", asked.join(", ")),
            [] => f.write_str("; then it ended")?,
        }
        match self.reply.text() {
            Some(text) => write!(f, ": {text:?}"),
            None => Ok(()),
        }
    }
}

/// An effect that happened more than once in one call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Repetition {
    effect: String,
    rounds: Vec<usize>,
}

impl Repetition {
    /// Its name.
    #[must_use]
    pub fn effect(&self) -> &str {
        &self.effect
    }

    /// The rounds in which it happened, from 1, each as often as it did.
    #[must_use]
    pub fn rounds(&self) -> &[usize] {
        &self.rounds
    }

    fn within_one_round(&self) -> bool {
        self.rounds.first() == self.rounds.last()
    }
}

impl fmt::Display for Repetition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Repetition { effect, rounds } = self;
        let times = rounds.len();
        let numbers: Vec<String> = rounds.iter().map(ToString::to_string).collect();
        if self.within_one_round() {
            let round = numbers.first().map_or("", String::as_str);
            write!(
                f,
                "`{effect}` happened {times} times in round {round}. If it should, report each under a name of its own"
            )
        } else {
            write!(
                f,
                "`{effect}` happened {times} times, in rounds {}: the body runs again from the top in every round. Ask first and act last; or put the effect inside `flow.once(..)`, and a value that must stay the same inside `flow.memo(..)`",
                numbers.join(" and ")
            )
        }
    }
}

/// The rounds of one call, the first request's at the beginning.
#[derive(Clone, Debug)]
#[must_use = "a report fails no test; its assertions do"]
pub struct Rounds(Vec<Round>);

impl Rounds {
    /// How many requests the call took.
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether nothing was sent.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Round by round.
    pub fn iter(&self) -> impl Iterator<Item = &Round> {
        self.0.iter()
    }

    /// The server's last word.
    #[must_use]
    pub fn last(&self) -> Option<&Reply> {
        self.0.last().map(Round::reply)
    }

    /// What the model reads in the end.
    #[must_use]
    pub fn text(&self) -> Option<&str> {
        self.last()?.text()
    }

    /// Every effect, and the rounds in which it happened, from 1.
    #[must_use]
    pub fn effects(&self) -> BTreeMap<&str, Vec<usize>> {
        let mut effects: BTreeMap<&str, Vec<usize>> = BTreeMap::new();
        for (number, round) in self.0.iter().enumerate() {
            for effect in &round.effects {
                effects.entry(effect).or_default().push(number + 1);
            }
        }
        effects
    }

    /// The effects that happened more than once.
    #[must_use]
    pub fn repeated(&self) -> Vec<Repetition> {
        let effects = self.effects().into_iter();
        effects
            .filter(|(_, rounds)| rounds.len() > 1)
            .map(|(effect, rounds)| Repetition {
                effect: effect.to_owned(),
                rounds,
            })
            .collect()
    }

    /// Requires that effects happened, and each of them once.
    ///
    /// # Panics
    ///
    /// When one happened more than once; when none did, for then the double is not wired to the list, or the call did not
    /// come to its effect.
    #[track_caller]
    pub fn assert_each_effect_once(&self) {
        assert!(
            !self.effects().is_empty(),
            "no effect happened: does the double report to the `Effects` of the check, and does this script lead to the effect?\n{self}"
        );
        let repeated = self.repeated();
        assert!(repeated.is_empty(), "{}\n{self}", Each(&repeated));
    }

    /// Requires that no effect happened at all: what a declined question should come to.
    ///
    /// # Panics
    ///
    /// When one did.
    #[track_caller]
    pub fn assert_no_effect(&self) {
        let effects = self.effects();
        assert!(
            effects.is_empty(),
            "{} happened, and nothing should have\n{self}",
            effects.into_keys().collect::<Vec<_>>().join(", ")
        );
    }

    /// Requires *ask first, act last*: rounds that ended with a question had no effect.
    ///
    /// Stricter than [`assert_each_effect_once`](Self::assert_each_effect_once): an effect inside `once` before a question
    /// happens once, and is not taken back when the person says no.
    ///
    /// # Panics
    ///
    /// When there was one; when the call never asked.
    #[track_caller]
    pub fn assert_no_effect_before_ask(&self) {
        let asking = || self.0.iter().filter(|round| !round.asked.is_empty());
        assert!(
            asking().next().is_some(),
            "the call never asked, so nothing came before a question: choose arguments for which it does\n{self}"
        );
        let early: Vec<&str> = asking()
            .flat_map(Round::effects)
            .map(String::as_str)
            .collect();
        assert!(
            early.is_empty(),
            "{} happened before a question, so that no answer can prevent it. Ask first and act last\n{self}",
            early.join(", ")
        );
    }
}

/// A line for each round.
impl fmt::Display for Rounds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (number, round) in self.0.iter().enumerate() {
            let line_break = if number > 0 { "\n" } else { "" };
            write!(f, "{line_break}  round {}: {round}", number + 1)?;
        }
        Ok(())
    }
}

/// A sentence for each.
struct Each<'a>(&'a [Repetition]);

impl fmt::Display for Each<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (number, repetition) in self.0.iter().enumerate() {
            let line_break = if number > 0 { "\n" } else { "" };
            write!(f, "{line_break}{repetition}.")?;
        }
        Ok(())
    }
}

/// Why a check of a call's rounds fails, with the rounds up to there.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RoundsError {
    /// Effects happened more than once.
    #[error("{}\n{_0}", Each(&_0.repeated()))]
    Repeated(Rounds),
    /// The call ended in its first round, so that nothing could be repeated.
    #[error(
        "the call never asked, so there was nothing to check: choose arguments for which it does\n{_0}"
    )]
    NeverAsked(Rounds),
    /// The script has no answer to a question.
    #[error("the tool asks {key:?}, and the script has no answer to it\n{rounds}")]
    Unanswered {
        /// The question's key.
        key: String,
        /// The rounds.
        rounds: Rounds,
    },
    /// The server answered with an error.
    #[error("the server answered with an error: {:?}\n{_0}", _0.last())]
    Refused(Rounds),
    /// The tool asked in more than [`MAX_ROUNDS`] rounds.
    #[error("the tool still asks after {MAX_ROUNDS} rounds\n{_0}")]
    Endless(Rounds),
}

impl RoundsError {
    /// The rounds up to there.
    pub fn rounds(&self) -> &Rounds {
        match self {
            Self::Repeated(rounds)
            | Self::NeverAsked(rounds)
            | Self::Unanswered { rounds, .. }
            | Self::Refused(rounds)
            | Self::Endless(rounds) => rounds,
        }
    }
}
