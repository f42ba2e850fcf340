//! The ledger of the model: rows in a world, and the decisions of `mrtr_ledger::rules`.
//!
//! Each operation here is one atomic step, as the contract has it. What to answer and what to write is never decided
//! here: that is asked of the very functions that the real ledgers ask. A turned rule changes what they are asked, or
//! what is made of their answer.

use std::convert::Infallible;
use std::time::Duration;

use mrtr_ledger::rules::{self, Present, Write};
use mrtr_ledger::{
    Account, Claim, Claimed, Fingerprint, Found, Kept, Kind, Note, Owner, RowKey, Settled,
    Settlement, Token,
};
use mrtr_state::{Epoch, Timestamp};

use crate::label::Said;
use crate::machine::Machine;
use crate::turn::Turn;
use crate::world::{
    END_OF_FLOW, END_OF_STATE_1, END_OF_TIME, LEASE, NO_MARK, Outcome, RETENTION, Row, Status,
    World, at_hour, end, hour_of, shelf,
};

/// The epoch under which the flow opened, and every other.
const OPENED: Epoch = Epoch::from_bytes([1; 16]);
const ROTATED: Epoch = Epoch::from_bytes([2; 16]);

const LEASES: Duration = Duration::from_millis(LEASE);

/// Which row of a kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    pub(crate) kind: Kind,
    pub(crate) slot: usize,
}

impl Place {
    pub(crate) const fn round(state: usize) -> Self {
        Self {
            kind: Kind::Round,
            slot: state,
        }
    }

    pub(crate) const fn step(slot: usize) -> Self {
        Self {
            kind: Kind::Step,
            slot,
        }
    }

    pub(crate) const NOTE: Self = Self {
        kind: Kind::Note,
        slot: 0,
    };
}

/// A claim of a round or step, as the model has it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Asks {
    pub(crate) place: Place,
    pub(crate) token: u8,
    pub(crate) print: u8,
    /// The state whose round a step is reached in, and the round's token.
    pub(crate) under: Option<(usize, u8)>,
    pub(crate) has_room: bool,
}

/// What a claim that was decided in two statements goes by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Seen {
    /// Everything, at the moment of the claim.
    Now,
    /// Clock and mark, from before: both let it pass.
    ClockAndMark,
    /// The epoch, from before.
    Epoch,
    /// The round's owner, from before.
    Owner,
}

impl Machine {
    pub(crate) fn claim(&self, world: &mut World, asks: &Asks, seen: Seen) -> Said {
        let Place { kind, slot } = asks.place;
        let row = row(world, asks.place);
        let mut claim = self.claim_of(asks);
        let marked = world
            .marks
            .get(shelf(kind))
            .is_some_and(|mark| *mark >= self.end_of(asks.place));
        let mut present = self.present(world, kind);
        let mut round = None;
        if let Some((state, token)) = asks
            .under
            .filter(|_| seen != Seen::Owner && !self.is(Turn::StepNeedsItsRound))
        {
            round = self.round_of_a_step(world, state);
            claim = claim.under(Owner {
                key: self.key(Place::round(state)),
                token: token_of(token),
            });
        }
        if seen == Seen::ClockAndMark {
            present.mark = None;
        }
        if seen == Seen::ClockAndMark || self.is(Turn::ExpiryRefuses) && !marked {
            // What is asked for has no end.
            claim.key.expiry = Timestamp::MAX;
        }
        claim.checks_limits |= self.is(Turn::BegunIsNeverRefusedForRoom);
        if seen == Seen::Epoch || self.is(Turn::EpochIsCompared) || self.is(Turn::EpochOfOpening) {
            claim.epoch = present.epoch;
        }
        if kind == Kind::Round && self.runs_again() {
            claim = claim.run_again();
        }
        let other = row.is_some_and(|row| row.print != asks.print);
        let blind = [Turn::FingerprintIsCompared, Turn::FingerprintFirst];
        if let Some(row) = row.filter(|_| blind.iter().any(|turn| self.is(*turn))) {
            claim.fingerprint = print_of(row.print);
        }

        let stored = row.map(|row| self.stored(row));
        let decided: Result<_, Infallible> =
            rules::claim(&claim, stored.as_ref(), round.as_ref(), present, || {
                Ok(asks.has_room)
            });
        let Ok((mut claimed, mut write)) = decided;
        if self.is(Turn::FingerprintFirst) && other && claimed == Claimed::First {
            (claimed, write) = (Claimed::Conflict, Write::Nothing);
        }
        self.turn_claim(world, asks, row, &mut claimed, &mut write);

        let lease = |lease| hour_of(lease);
        let status = match write {
            Write::Nothing => None,
            Write::Insert { lease: until } => Some(Status::Owned {
                lease: lease(until),
                again: false,
            }),
            Write::Own {
                lease: until,
                again,
            } => Some(Status::Owned {
                lease: lease(until),
                again,
            }),
            Write::Abandon => {
                if let Some(row) = row_mut(world, kind, slot) {
                    row.status = Status::Abandoned;
                }
                None
            }
        };
        if let (Some(status), Some(row)) = (status, row_mut(world, kind, slot)) {
            *row = Row {
                status,
                token: asks.token,
                print: asks.print,
            };
        }
        said(claimed)
    }

    /// Where a claim's rule is turned after the decision.
    fn turn_claim(
        &self,
        world: &World,
        asks: &Asks,
        row: Option<Row>,
        claimed: &mut Claimed,
        write: &mut Write,
    ) {
        let Some(row) = row.filter(|row| row.print == asks.print) else {
            return;
        };
        let lapses = at_hour(world.hour).saturating_add(LEASES);
        let first = |claimed: &mut Claimed, write: &mut Write| {
            *claimed = Claimed::First;
            *write = Write::Own {
                lease: lapses,
                again: false,
            };
        };
        let is_round = asks.place.kind == Kind::Round;
        let refused = matches!(
            claimed,
            Claimed::StaleEpoch | Claimed::StaleOwner | Claimed::Expired
        );
        let own = row.token == asks.token;
        let owned = matches!(row.status, Status::Owned { .. });
        match self.turn() {
            Some(Turn::OneTokenOwns) if is_round && !refused => first(claimed, write),
            Some(Turn::SameTokenIsFirst) if own && *claimed == Claimed::First => {
                let retry_after = LEASES;
                *claimed = Claimed::InProgress { retry_after };
                *write = Write::Nothing;
            }
            Some(Turn::ClaimWithdraws) if is_round && *write == Write::Abandon => {
                *write = Write::Nothing;
            }
            Some(Turn::TakeOverWithdraws)
                if is_round && owned && !own && *claimed == Claimed::First =>
            {
                *write = Write::Nothing;
            }
            Some(Turn::NothingRunsAgain) if is_round && *claimed == Claimed::Abandoned => {
                first(claimed, write);
            }
            Some(Turn::RunningIsNotTakenOver)
                if is_round && matches!(claimed, Claimed::InProgress { .. }) =>
            {
                *claimed = Claimed::First;
                *write = Write::Own {
                    lease: lapses,
                    again: true,
                };
            }
            Some(Turn::StepIsNeverTakenOver) if !is_round && *claimed == Claimed::Abandoned => {
                first(claimed, write);
            }
            Some(Turn::StepSettlesLate) if !is_round && owned && *claimed == Claimed::Abandoned => {
                *write = Write::Abandon;
            }
            Some(Turn::SettledStepsReturn)
                if !is_round && matches!(claimed, Claimed::Settled(_)) =>
            {
                first(claimed, write);
            }
            Some(Turn::RepeatedClaimStaysATakeOver) if own => {
                if let Write::Own { again, .. } = write {
                    *again = false;
                }
            }
            _ => {}
        }
    }

    /// Looks a row up.
    pub(crate) fn look_up(&self, world: &mut World, place: Place, print: u8) -> Said {
        let row = row(world, place);
        let stored = row.map(|row| self.stored(row));
        let print = match row {
            Some(row) if self.is(Turn::LookupComparesFingerprint) => row.print,
            _ => print,
        };
        let (found, abandon) = rules::lookup(
            place.kind,
            &print_of(print),
            stored.as_ref(),
            at_hour(world.hour),
        );
        if abandon
            && !self.is(Turn::LookupWithdraws)
            && let Some(row) = row_mut(world, place.kind, place.slot)
        {
            row.status = Status::Abandoned;
        }
        match found {
            Found::Absent => Said::Absent,
            Found::InProgress { .. } => Said::InProgress,
            Found::Settled(outcome) => Said::Settled(outcome_of(&outcome)),
            Found::Conflict => Said::Conflict,
            _ => Said::Unknown,
        }
    }

    /// Settles with an outcome, or as abandoned.
    pub(crate) fn settle(
        &self,
        world: &mut World,
        place: Place,
        token: u8,
        outcome: Option<Outcome>,
    ) -> Said {
        let row = row(world, place);
        let stored = row.map(|row| self.stored(row));
        let settlement = match outcome {
            Some(outcome) => Settlement::Outcome(bytes_of(outcome)),
            None => Settlement::Abandoned,
        };
        let lapsed = row.is_some_and(
            |row| matches!(row.status, Status::Owned { lease, .. } if world.hour >= lease),
        );
        if self.is(Turn::LapsedMaySettle) && lapsed && place.kind == Kind::Round {
            return Said::Refused;
        }
        let mine = match row {
            // Whoever asks is taken for the owner, and a row that was given up for an owned one.
            Some(row) if self.is(Turn::OnlyOwnersSettle) => {
                let mut own = self.stored(row);
                own.token = token_of(token);
                if row.status == Status::Abandoned {
                    own.status = rules::Status::Owned {
                        lease: at_hour(world.hour),
                        again: false,
                    };
                }
                Some(own)
            }
            _ => stored,
        };
        let (mut settled, status) = rules::settle(mine.as_ref(), &token_of(token), &settlement);
        if self.is(Turn::RepeatedSettlementIsStored) && status.is_none() {
            settled = Settled::Refused;
        }
        if let (Some(status), Some(row)) = (status, row_mut(world, place.kind, place.slot)) {
            row.status = status_of(&status);
        }
        match settled {
            Settled::Stored => Said::Stored,
            Settled::Refused => Said::Refused,
        }
    }

    /// A sign of life.
    pub(crate) fn beat(&self, world: &mut World, place: Place, token: u8) -> bool {
        let now = at_hour(world.hour);
        let row = row(world, place);
        let mut stored = row.map(|row| self.stored(row));
        if self.is(Turn::OnlyOwnersBeat)
            && let (Some(stored), Some(row)) = (&mut stored, row)
            && row.status == Status::Abandoned
        {
            stored.status = rules::Status::Owned {
                lease: now,
                again: false,
            };
        }
        let Some(status) = rules::beat(stored.as_ref(), &token_of(token), LEASES, now) else {
            return false;
        };
        if let Some(row) = row_mut(world, place.kind, place.slot) {
            row.status = status_of(&status);
        }
        true
    }

    /// Gives a row back.
    pub(crate) fn release(&self, world: &mut World, place: Place, token: u8) -> bool {
        let mut stored = row(world, place).map(|row| self.stored(row));
        if let Some(row) = &mut stored
            && self.is(Turn::OnlyOwnersRelease)
        {
            row.token = token_of(token);
        }
        let (released, status) = rules::release(stored.as_ref(), &token_of(token));
        if let (Some(status), Some(row)) = (status, row_mut(world, place.kind, place.slot)) {
            row.status = status_of(&status);
            if self.is(Turn::ReleasedTakeOverIsNotFree) {
                row.status = Status::Released;
            }
            if self.is(Turn::ReleaseKeepsFingerprint) {
                *row = Row::default();
            }
        }
        released
    }

    /// Writes a memo's note.
    pub(crate) fn keep(&self, world: &mut World, value: u8, under: (usize, u8)) -> Said {
        let (state, token) = under;
        let note = Note::new(
            self.key(Place::NOTE),
            OPENED,
            print_of(0),
            Account::from_bytes([0; 32]),
            vec![value],
        )
        .under(Owner {
            key: self.key(Place::round(state)),
            token: token_of(token),
        });
        let stored = world.note.filter(|_| !self.is(Turn::FirstMemoStands));
        let stored = stored.map(|value| rules::Row::of_note(print_of(0), vec![value]));
        let round = self.round_of_a_step(world, state);
        let present = self.present(world, Kind::Note);
        let decided: Result<_, Infallible> =
            rules::keep(&note, stored.as_ref(), round.as_ref(), present, || Ok(true));
        let Ok((kept, write)) = decided;
        if write {
            world.note = Some(value);
        }
        match kept {
            Kept::Stored => Said::Stored,
            Kept::Before(value) => Said::Before(value.first().copied().unwrap_or(0)),
            Kept::Conflict => Said::Conflict,
            Kept::Expired => Said::Expired,
            Kept::StaleEpoch => Said::StaleEpoch,
            Kept::StaleOwner => Said::StaleOwner,
            _ => Said::Full,
        }
    }

    /// Whether a purge may remove a row now.
    pub(crate) fn is_removable(&self, world: &World, place: Place) -> bool {
        let status = match place.kind {
            Kind::Note if world.note.is_some() => rules::Status::Settled(Vec::new()),
            Kind::Note => return false,
            Kind::Round | Kind::Step => match row(world, place) {
                Some(row) => self.stored(row).status,
                None => return false,
            },
        };
        let status = match status {
            rules::Status::Owned { .. } if self.is(Turn::PurgeSparesWhatRuns) => {
                rules::Status::Abandoned
            }
            status => status,
        };
        let retention = match self.turn() {
            Some(Turn::PurgeWaitsForRetention) => Duration::ZERO,
            _ => Duration::from_millis(RETENTION),
        };
        rules::is_removable(self.key(place), &status, retention, at_hour(world.hour))
    }

    /// Where a row ends, by number.
    pub(crate) fn end_of(&self, place: Place) -> u8 {
        match place {
            Place {
                kind: Kind::Round,
                slot: 0,
            } => END_OF_STATE_1,
            // Where the step's end is the round's, the first row is that of state 1's round.
            Place {
                kind: Kind::Step,
                slot: 0,
            } if self.is(Turn::StepExpiresWithTheFlow) => END_OF_STATE_1,
            _ => END_OF_FLOW,
        }
    }

    fn key(&self, place: Place) -> RowKey {
        let kind = u8::try_from(shelf(place.kind)).unwrap_or(0);
        let slot = u8::try_from(place.slot).unwrap_or(0);
        RowKey {
            expiry: end(self.end_of(place)),
            hash: [kind << 4 | slot; 32],
        }
    }

    fn claim_of(&self, asks: &Asks) -> Claim {
        let make = match asks.place.kind {
            Kind::Round => Claim::round,
            Kind::Step | Kind::Note => Claim::step,
        };
        make(
            self.key(asks.place),
            OPENED,
            print_of(asks.print),
            Account::from_bytes([0; 32]),
            token_of(asks.token),
            LEASES,
        )
    }

    fn present(&self, world: &World, kind: Kind) -> Present {
        let mark = match self.turn() {
            Some(Turn::MarkRefuses) => NO_MARK,
            Some(Turn::StepsHaveAMark) if kind != Kind::Round => NO_MARK,
            Some(Turn::MarksPerKind) => world.marks.iter().copied().max().unwrap_or(NO_MARK),
            // At the mark is not refused: as if it were one lower.
            _ => world.marks.get(shelf(kind)).copied().unwrap_or(NO_MARK),
        };
        let mark = (mark != NO_MARK).then(|| end(mark));
        let mark = match self.turn() {
            Some(Turn::AtTheMarkIsRefused) => {
                mark.map(|mark| Timestamp::from_millis(mark.as_millis() - 1))
            }
            _ => mark,
        };
        Present {
            now: at_hour(world.hour),
            epoch: if world.rotated { ROTATED } else { OPENED },
            mark,
        }
    }

    /// The round of a step's claim, as the claim's statement reads it.
    fn round_of_a_step(&self, world: &World, state: usize) -> Option<rules::Row> {
        let row = row(world, Place::round(state))?;
        let lapsed = matches!(row.status, Status::Owned { lease, .. } if world.hour >= lease);
        (!(lapsed && self.is(Turn::LapsedMayAct))).then(|| self.stored(row))
    }

    fn stored(&self, row: Row) -> rules::Row {
        rules::Row {
            fingerprint: print_of(row.print),
            token: token_of(row.token),
            status: match row.status {
                Status::Absent | Status::Released => rules::Status::Released,
                Status::Owned { lease, again } => rules::Status::Owned {
                    lease: at_hour(lease),
                    again,
                },
                Status::Settled(outcome) => rules::Status::Settled(bytes_of(outcome)),
                Status::Abandoned => rules::Status::Abandoned,
            },
        }
    }
}

/// A row that is there.
pub(crate) fn row(world: &World, place: Place) -> Option<Row> {
    let shelf = match place.kind {
        Kind::Round => &world.rounds,
        Kind::Step => &world.steps,
        Kind::Note => return None,
    };
    shelf.get(place.slot).copied().filter(Row::is_there)
}

fn row_mut(world: &mut World, kind: Kind, slot: usize) -> Option<&mut Row> {
    match kind {
        Kind::Round => world.rounds.get_mut(slot),
        Kind::Step => world.steps.get_mut(slot),
        Kind::Note => None,
    }
}

const fn token_of(token: u8) -> Token {
    Token::from_bytes([token; 16])
}

const fn print_of(print: u8) -> Fingerprint {
    Fingerprint::from_bytes([print; 32])
}

fn bytes_of(outcome: Outcome) -> Vec<u8> {
    vec![outcome.code()]
}

fn outcome_of(bytes: &[u8]) -> Outcome {
    Outcome::from_code(bytes.first().copied().unwrap_or(u8::MAX))
}

fn status_of(status: &rules::Status) -> Status {
    match status {
        rules::Status::Owned { lease, again } => Status::Owned {
            lease: hour_of(*lease),
            again: *again,
        },
        rules::Status::Released => Status::Released,
        rules::Status::Settled(outcome) => Status::Settled(outcome_of(outcome)),
        rules::Status::Abandoned => Status::Abandoned,
    }
}

fn said(claimed: Claimed) -> Said {
    match claimed {
        Claimed::First => Said::First,
        Claimed::InProgress { .. } => Said::InProgress,
        Claimed::Settled(outcome) => Said::Settled(outcome_of(&outcome)),
        Claimed::Conflict => Said::Conflict,
        Claimed::Abandoned => Said::Unknown,
        Claimed::Expired => Said::Expired,
        Claimed::StaleEpoch => Said::StaleEpoch,
        Claimed::StaleOwner => Said::StaleOwner,
        _ => Said::Full,
    }
}

/// The mark that a purge of this kind sets where it goes by the clock.
pub(crate) const MARK_BY_THE_CLOCK: u8 = END_OF_TIME;
