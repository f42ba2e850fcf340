//! The rules, each of which can be turned.
//!
//! A rule is a sentence of the contract, or a part of one. Turned, the model goes by its opposite, and the promise that
//! rests on it has to fall: a rule on which nothing rests is none. docs/ledger.md has the same table, with the tests.

use std::fmt;

use crate::machine::Scenario;
use crate::machine::{FORK, FORK_AGAIN, FORK_IN, ROUNDS};
use crate::promise::Promise;

/// What is known of a rule.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rule {
    pub(crate) turn: Turn,
    pub(crate) name: &'static str,
    pub(crate) text: &'static str,
    /// Where its turning is shown.
    pub(crate) scenario: &'static Scenario,
    /// The promise that rests on it.
    pub(crate) promise: Promise,
}

/// `Turn "name" in SCENARIO for Promise: "rule"`
macro_rules! rules {
    ($($turn:ident $name:literal in $scenario:ident for $promise:ident: $text:literal)+) => {
        /// A rule that is turned.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub(crate) enum Turn {
            $(#[doc = $text] $turn,)+
        }

        /// All of them, in the order of the contract.
        pub(crate) const RULES: &[Rule] = &[
            $(Rule {
                turn: Turn::$turn,
                name: $name,
                text: $text,
                scenario: &$scenario,
                promise: Promise::$promise,
            },)+
        ];
    };
}

rules! {
    // The key and its token.
    OneTokenOwns "one-token-owns" in FORK for OneRun:
        "Until a row expires exactly one token owns it."
    ClaimIsRepeatedWithItsToken "claim-is-repeated-with-its-token" in FORK for TrueWords:
        "A claim that got no answer is repeated with its token."
    SameTokenIsFirst "same-token-is-first" in FORK for TrueWords:
        "Repeated with its token, a claim answers `First` again."
    OneStatement "one-statement" in FORK for OneAnswer:
        "One atomic statement decides."
    ExpiryRefuses "expiry-refuses" in FORK for Lifetime:
        "After a row's end the expiry refuses."
    EveryRoundIsClaimed "every-round-is-claimed" in FORK for OneRun:
        "Where a server has a ledger every round is claimed."

    // What is claimed.
    RoundIsKeyedByNonce "round-is-keyed-by-nonce" in ROUNDS for TrueWords:
        "A round's hash comes from the state's nonce."
    StepIsKeyedByFlow "step-is-keyed-by-flow" in ROUNDS for AtMostOnce:
        "A step's hash comes from flow and step name, not from the round."
    StepExpiresWithTheFlow "step-expires-with-the-flow" in ROUNDS for AtMostOnce:
        "A step's expiry is the sealed end of the flow, the same in every round."
    FingerprintIsCompared "fingerprint-is-compared" in FORK for OneAnswer:
        "Another fingerprint is `Conflict`."
    FingerprintFirst "fingerprint-first" in FORK for OwnWords:
        "The fingerprint is compared first, whatever the row's status."
    LookupComparesFingerprint "lookup-compares-fingerprint" in FORK for OwnWords:
        "A lookup compares the fingerprint too."
    PrintCoversAnswers "print-covers-answers" in FORK for OwnWords:
        "A round's fingerprint covers the answers to open keys."
    StepPrintWithoutAnswers "step-print-without-answers" in ROUNDS for UnknownHasACause:
        "A step's fingerprint does not cover answers."

    // What is stored.
    TransientIsNotKept "transient-is-not-kept" in FORK_AGAIN for Completes:
        "1001 to 1003 are never stored: such a run gives its round up."
    StoredQuestionIsChecked "stored-question-is-checked" in ROUNDS for Declared:
        "A stored `input_required` is checked against this request's capabilities first."

    // Who runs it.
    TaskOutlivesConnection "task-outlives-connection" in FORK for UnknownHasACause:
        "One task, which the connection does not end, holds claim, body, settling and heartbeats."
    StepIsCarriedThrough "step-is-carried-through" in FORK for UnknownHasACause:
        "A step in flight is carried to its settling when the connection drops."
    NoStepAfterLeaving "no-step-after-leaving" in FORK for NotForTheGone:
        "The body starts no other step after the disconnect."
    SettlesAfterLeaving "settles-after-leaving" in FORK for UnknownHasACause:
        "A body that ends or asks after the disconnect still settles."
    StoppedIsSettled "stopped-is-settled" in FORK for UnknownHasACause:
        "A round that was stopped so is settled as cancelled."
    ShutdownWaits "shutdown-waits" in FORK for UnknownHasACause:
        "Graceful shutdown waits for the task."
    CutOffIsAbandonedAtOnce "cut-off-is-abandoned-at-once" in FORK for TrueWords:
        "A body cut off leaves its round abandoned at once."
    RespondsAfterSettling "responds-after-settling" in FORK for NoContradiction:
        "No response leaves before its settling is durable."
    NoWordIsNoFirst "no-word-is-no-first" in FORK for OneAnswer:
        "No word on a round's claim is 1003, and nothing runs."
    NoWordOnSettlingIsUnknown "no-word-on-settling-is-unknown" in FORK for NoContradiction:
        "No word on a settling is 1002."
    OwnerKeepsTrying "owner-keeps-trying" in FORK for Kept:
        "The owner keeps trying to settle."

    // When an owner is lost.
    LapsedMaySettle "lapsed-may-settle" in FORK for Undisturbed:
        "A lapsed lease alone withdraws nothing: the owner settles."
    LapsedMayAct "lapsed-may-act" in FORK for Undisturbed:
        "A lapsed lease alone withdraws nothing: the owner starts steps."
    ClaimWithdraws "claim-withdraws" in FORK for UnknownIsFinal:
        "A claim that tells *unknown* withdraws the round's token."
    LookupWithdraws "lookup-withdraws" in FORK for UnknownIsFinal:
        "A lookup that tells *unknown* withdraws it too."
    TakeOverWithdraws "take-over-withdraws" in FORK_AGAIN for UnknownIsFinal:
        "Taking over a round withdraws its token."
    StepNeedsItsRound "step-needs-its-round" in FORK for UnknownIsFinal:
        "A step's claim names its round's token and is refused once that is withdrawn."
    OwnerInTheStatement "owner-in-the-statement" in FORK for UnknownIsFinal:
        "It is refused in the same statement."
    StepIsNeverTakenOver "step-is-never-taken-over" in FORK_AGAIN for AtMostOnce:
        "A step is never taken over."
    StepSettlesLate "step-settles-late" in FORK_AGAIN for Kept:
        "A step's owner may settle late, whoever was told *unknown*."
    RefusedOwnerLooksUp "refused-owner-looks-up" in FORK_AGAIN for NoContradiction:
        "An owner whose settling is refused answers what a lookup says."
    RefusedRunsAgain "refused-runs-again" in FORK_IN for NoUnknown:
        "Where the round may run again, an owner that lost it says *repeat*, not *unknown*."
    OnlyOwnersSettle "only-owners-settle" in FORK for UnknownIsFinal:
        "Only the owner settles."
    RepeatedSettlementIsStored "repeated-settlement-is-stored" in FORK for Undisturbed:
        "The same settlement repeated is `Stored` again."
    OnlyOwnersRelease "only-owners-release" in FORK for OneRun:
        "Only the owner releases."
    OnlyOwnersBeat "only-owners-beat" in FORK for UnknownIsFinal:
        "A beat brings nothing back that was withdrawn."
    NothingRunsAgain "nothing-runs-again" in FORK for OneRun:
        "Nothing runs again, unless the tool says `run_again`."
    EffectsAreInsideOnce "effects-are-inside-once" in FORK_AGAIN for AtMostOnce:
        "`run_again` is for tools whose effects are all inside `once`,"
    PathDependsOnWhatIsKept "path-depends-on-what-is-kept" in FORK_AGAIN for AtMostOnce:
        "and whose path depends only on answers, memos and steps."
    MemoIsKeptFirst "memo-is-kept-first" in FORK_AGAIN for OneValue:
        "Its memos are kept in the ledger before their value is used."
    FirstMemoStands "first-memo-stands" in FORK_AGAIN for OneValue:
        "Of two values of a memo the first stands."
    RunningIsNotTakenOver "running-is-not-taken-over" in FORK_AGAIN for Undisturbed:
        "A round is taken over when its lease has lapsed, and not before."
    SettledStepsReturn "settled-steps-return" in FORK_AGAIN for AtMostOnce:
        "In a round that runs again settled steps return what they returned."
    ReleaseBeforeTheBodyOnly "release-before-the-body-only" in FORK for OneRun:
        "`release` is for a round whose body has not started."
    OnlyNotDoneFrees "only-not-done-frees" in FORK_AGAIN for AtMostOnce:
        "`release` is for a step that says `not_done`, and no other."
    ReleaseKeepsFingerprint "release-keeps-fingerprint" in FORK for OneAnswer:
        "`release` keeps the fingerprint."
    ReleasedTakeOverIsNotFree "released-take-over-is-not-free" in FORK_AGAIN for TrueWords:
        "After a take-over `release` leaves the round abandoned."
    RepeatedClaimStaysATakeOver "repeated-claim-stays-a-take-over" in FORK_AGAIN for TrueWords:
        "A take-over whose claim is repeated stays one."

    // In one transaction.
    OneTransaction "one-transaction" in FORK_IN for NoUnknown:
        "`once_in` puts claim, effect and outcome into one transaction."
    RoundNeedsRunAgain "round-needs-run-again" in FORK_IN for NoUnknown:
        "The round still needs `run_again` for a crash before it settles."
    FailureRollsBack "failure-rolls-back" in FORK_IN for ExactlyOnce:
        "An `Err` rolls back to a savepoint,"
    FailureIsKept "failure-is-kept" in FORK_IN for OneValue:
        "and is kept."
    UnansweredCommitIsAskedFor "unanswered-commit-is-asked-for" in FORK_IN for ExactlyOnce:
        "An unanswered commit is looked up,"
    AskingWaits "asking-waits" in FORK_IN for ExactlyOnce:
        "by a claim, which waits for a commit in flight,"
    AskingLeavesNothing "asking-leaves-nothing" in FORK_IN for NoUnknown:
        "and which is rolled back with the transaction that asked."

    // Limits.
    NoWordIsNoEffect "no-word-is-no-effect" in FORK_AGAIN for AtMostOnce:
        "No word from the ledger means no effect."
    NothingIsEvicted "nothing-is-evicted" in FORK for OneAnswer:
        "What has not expired is never evicted."
    BegunIsNeverRefusedForRoom "begun-is-never-refused-for-room" in FORK for UnknownHasACause:
        "Limits are never checked at later steps."

    // Epoch.
    EpochIsCompared "epoch-is-compared" in FORK for AtMostOnce:
        "The claim compares the epoch,"
    EpochInTheStatement "epoch-in-the-statement" in FORK for OneRun:
        "in its own statement."
    EpochOfOpening "epoch-of-opening" in FORK for AtMostOnce:
        "Every claim of a flow carries the epoch of its opening, never a newer one."
    RestoredIsRotated "restored-is-rotated" in FORK for AtMostOnce:
        "Restored from a backup, the epoch is rotated before any server connects."

    // Purging.
    StepsHaveAMark "steps-have-a-mark" in FORK_AGAIN for AtMostOnce:
        "Rounds and steps have a mark each:"
    MarksPerKind "marks-per-kind" in ROUNDS for TrueWords:
        "each its own."
    MarkIsNeverNow "mark-is-never-now" in ROUNDS for TrueWords:
        "The mark is the largest expiry to be removed, never `now`."
    MarkExcludesClaims "mark-excludes-claims" in FORK for OneRun:
        "It is raised under a lock that excludes claims."
    MarkRefuses "mark-refuses" in FORK for AtMostOnce:
        "Claims below the mark are refused, whatever the clock says by then,"
    AtTheMarkIsRefused "at-the-mark-is-refused" in FORK for AtMostOnce:
        "and so are claims at the mark."
    MarkNeverFalls "mark-never-falls" in ROUNDS for OneRun:
        "The mark never falls."
    RowsGoAfterTheMark "rows-go-after-the-mark" in FORK for AtMostOnce:
        "Rows go after the mark was raised,"
    PurgeWaitsForRetention "purge-waits-for-retention" in FORK for Retained:
        "when expiry and retention have passed,"
    PurgeSparesWhatRuns "purge-spares-what-runs" in FORK for Undisturbed:
        "and no lease runs."

    // Storage.
    DurableBeforeAnswered "durable-before-answered" in FORK for NoContradiction:
        "`First`, and `Stored`, are answered only after the commit is durable."
}

impl fmt::Display for Turn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let rule = RULES.iter().find(|rule| rule.turn == *self);
        f.write_str(rule.map_or("no rule", |rule| rule.name))
    }
}
