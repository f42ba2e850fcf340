//! Long random walks over every operation, with a clock that jumps, a purge and a rotation now and then. They look for
//! what the other tests did not think of.

use super::*;

const WALKS: u64 = 8;
const LENGTH: u32 = 1_200;

/// Whatever happened before: a row is run by one token at a time, and by no other once that one is not released, but for a
/// round that is lost and may run again; its outcome never changes; what a round was told *unknown* about is never stored
/// or added to by who ran it then; a note keeps its first value.
pub async fn no_walk_breaks_a_promise(bench: &Bench) {
    let (mut ran, mut settled, mut unknown, mut taken_over, mut noted) = (0, 0, 0, 0, 0);
    for seed in 0..WALKS {
        let mut walk = Walk::new(bench.desk().await, seed);
        for _ in 0..LENGTH {
            walk.take_a_step().await;
        }
        walk.renew();
        ran += walk.past.iter().filter(|row| row.runs > 0).count();
        settled += walk.past.iter().filter(|row| row.outcome.is_some()).count();
        unknown += walk.past.iter().filter(|row| row.given_up).count();
        taken_over += walk.past.iter().filter(|row| row.again).count();
        noted += walk.noted;
    }
    let went = format!(
        "{ran} rows ran, {settled} settled, {unknown} were given up, {taken_over} taken over, {noted} notes"
    );
    assert!(
        ran > 150 && settled > 25 && unknown > 10 && taken_over > 5 && noted > 3,
        "the walks went nowhere: {went}"
    );
}

/// What the world has seen of a row.
struct Seen {
    claim: Claim,
    /// Every token that was used for it, so that old ones come back.
    tokens: Vec<Token>,
    /// Who was told `First` and has not released.
    running: Option<Token>,
    runs: u32,
    outcome: Option<Vec<u8>>,
    /// Somebody was told that its outcome is unknown, and it is a round, or was abandoned by its owner.
    given_up: bool,
    /// Until when whoever runs it need not be heard of.
    lease: Timestamp,
    /// It was taken over.
    again: bool,
}

struct Walk {
    desk: Desk,
    dice: Dice,
    rows: Vec<Seen>,
    /// The values of notes, by number.
    notes: Vec<Option<Vec<u8>>>,
    /// Rows and notes of epochs that are over.
    past: Vec<Seen>,
    noted: usize,
    epochs: u8,
    first_epoch: Epoch,
}

impl Walk {
    fn new(desk: Desk, seed: u64) -> Self {
        let mut walk = Self {
            first_epoch: desk.epoch,
            desk,
            dice: Dice(seed),
            rows: Vec::new(),
            notes: Vec::new(),
            past: Vec::new(),
            noted: 0,
            epochs: 0,
        };
        walk.renew();
        walk
    }

    /// A new epoch has new flows, and theirs are other rows.
    fn renew(&mut self) {
        self.past.append(&mut self.rows);
        self.noted += self.notes.iter().flatten().count();
        self.notes = vec![None; 12];
        let minutes = |minutes: u32| {
            Timestamp::from_millis(START).saturating_add(Duration::from_secs(60) * minutes)
        };
        for number in 0..30 {
            let named = number + 1_000 * u32::from(self.epochs);
            let (round, step) = (self.desk.round(named), self.desk.step(named));
            for claim in [
                round.expiring(minutes(2 + number)),
                step.expiring(minutes(4 + number)),
            ] {
                self.rows.push(Seen {
                    tokens: vec![claim.token],
                    claim,
                    running: None,
                    runs: 0,
                    outcome: None,
                    given_up: false,
                    lease: Timestamp::from_millis(0),
                    again: false,
                });
            }
        }
        self.epochs += 1;
    }

    async fn take_a_step(&mut self) {
        let which = self.dice.below(self.rows.len());
        match self.dice.below(100) {
            0..40 => self.claim(which).await,
            40..52 => self.settle(which).await,
            52..62 => self.look(which).await,
            62..72 => self.release(which).await,
            72..80 => self.beat(which).await,
            80..92 => self.move_the_clock(),
            92..95 => self.note(which).await,
            95..98 => _ = self.desk.purge().await,
            98 if self.dice.below(8) == 0 => {
                self.desk.epoch = self.desk.ledger.rotate_epoch().await.expect("an epoch");
                self.renew();
            }
            _ => {}
        }
    }

    async fn claim(&mut self, which: usize) {
        let token = if self.dice.below(2) == 0 {
            token()
        } else {
            self.token(which)
        };
        let under = self.round_for(which);
        let row = &mut self.rows[which];
        row.tokens.push(token);
        let epoch = if self.dice.below(8) == 0 {
            self.first_epoch
        } else {
            self.desk.epoch
        };
        let mut claim = Claim {
            token,
            epoch,
            ..row.claim.clone()
        };
        if let Some(owner) = under {
            claim = claim.under(owner);
        }
        claim.run_again = self.dice.below(3) == 0;
        // A claim that makes the row says what its fingerprint is.
        if row.runs > 0 && self.dice.below(10) == 0 {
            claim.fingerprint = fingerprint(1);
        }
        let claimed = self.desk.claim(&claim).await;

        let withdrawn =
            under.is_some_and(|owner| self.rows.iter().any(|row| row.is_lost_to(&owner)));
        let row = &mut self.rows[which];
        match claimed {
            Claimed::First => {
                assert_eq!(claim.fingerprint, row.claim.fingerprint);
                assert_eq!(claim.epoch, self.desk.epoch);
                assert!(self.desk.clock.now() < claim.key.expiry);
                assert!(!withdrawn, "a step of a round that is lost");
                assert_eq!(row.outcome, None, "run again after its end");
                let now = self.desk.clock.now();
                let is_own = row.running.is_none_or(|running| running == token);
                if row.given_up || !is_own {
                    assert!(claim.run_again && claim.kind == Kind::Round, "run again");
                    assert!(row.given_up || row.lease <= now, "two runs of one row");
                    row.again = true;
                    row.given_up = false;
                }
                row.running = Some(token);
                row.lease = now.saturating_add(LEASE);
                row.runs += 1;
            }
            Claimed::InProgress { .. } => {
                assert!(row.running.is_some_and(|running| running != token));
                assert!(self.desk.clock.now() < row.lease, "its lease has lapsed");
            }
            Claimed::Settled(outcome) => assert_eq!(Some(outcome), row.outcome),
            Claimed::Abandoned => row.told_unknown(),
            Claimed::Conflict => assert_ne!(claim.fingerprint, row.claim.fingerprint),
            Claimed::StaleOwner => assert!(under.is_some()),
            Claimed::StaleEpoch => assert_ne!(claim.epoch, self.desk.epoch),
            Claimed::Expired => {}
            Claimed::Full => panic!("there is room"),
        }
    }

    async fn settle(&mut self, which: usize) {
        let (key, token) = (self.key(which), self.token(which));
        let outcome = vec![u8::try_from(self.dice.below(3)).unwrap_or(0)];
        let abandons = self.dice.below(8) == 0;
        let settlement = if abandons {
            Settlement::Abandoned
        } else {
            Settlement::Outcome(outcome.clone())
        };
        let answer = self
            .desk
            .ledger
            .settle(key, token, settlement)
            .await
            .expect("word");
        let row = &mut self.rows[which];
        if answer == Settled::Refused {
            return;
        }
        assert_eq!(row.running, Some(token), "only who runs it settles");
        if abandons {
            assert_eq!(row.outcome, None);
            row.given_up = true;
        } else {
            assert!(!row.given_up, "somebody was told that it is unknown");
            assert!(
                row.outcome.as_ref().is_none_or(|before| *before == outcome),
                "an outcome changed"
            );
            row.outcome = Some(outcome);
        }
    }

    async fn look(&mut self, which: usize) {
        let found = self.desk.lookup(&self.rows[which].claim).await;
        let row = &mut self.rows[which];
        match found {
            Found::Absent => {}
            Found::InProgress { .. } => {
                assert!(row.running.is_some() && row.outcome.is_none() && !row.given_up)
            }
            Found::Settled(outcome) => assert_eq!(Some(outcome), row.outcome),
            Found::Abandoned => row.told_unknown(),
            Found::Conflict => panic!("it is the row's own fingerprint"),
        }
    }

    async fn beat(&mut self, which: usize) {
        let (key, token) = (self.key(which), self.token(which));
        if self
            .desk
            .ledger
            .beat(key, token, LEASE)
            .await
            .expect("word")
        {
            let now = self.desk.clock.now();
            let row = &mut self.rows[which];
            assert_eq!(row.running, Some(token), "only who runs it beats");
            assert!(row.outcome.is_none() && !row.given_up);
            row.lease = row.lease.max(now.saturating_add(LEASE));
        }
    }

    async fn release(&mut self, which: usize) {
        let (key, token) = (self.key(which), self.token(which));
        if self.desk.ledger.release(key, token).await.expect("word") {
            let row = &mut self.rows[which];
            assert!(row.outcome.is_none() && !row.given_up);
            // Released before, perhaps, and then nobody runs it already.
            assert!(row.running.is_none_or(|running| running == token));
            if row.again {
                // What ran before it may have done something, so it stays as it is.
                row.given_up = true;
            } else {
                row.running = None;
            }
        }
    }

    async fn note(&mut self, which: usize) {
        let number = self.dice.below(self.notes.len());
        let named = u32::try_from(number).unwrap_or(0) + 1_000 * u32::from(self.epochs);
        let value = vec![u8::try_from(self.dice.below(250)).unwrap_or(0)];
        let note = Note {
            epoch: self.desk.epoch,
            ..self.desk.note(named, &value)
        };
        let round = which / 2 * 2;
        let owner = Owner {
            key: self.key(round),
            token: self.token(round),
        };
        match self.desk.keep(&note.under(owner)).await {
            Kept::Stored => {
                assert_eq!(self.notes[number], None, "written twice");
                assert!(
                    !self.rows[round].is_lost_to(&owner),
                    "of a round that is lost"
                );
                self.notes[number] = Some(value);
            }
            Kept::Before(before) => assert_eq!(Some(before), self.notes[number]),
            Kept::StaleOwner | Kept::Expired => {}
            kept => panic!("{kept:?}"),
        }
    }

    fn move_the_clock(&mut self) {
        let minutes = u64::try_from(self.dice.below(34)).unwrap_or(0);
        let millis = u64::try_from(self.dice.below(60_000)).unwrap_or(0);
        match self.dice.below(8) {
            // Anywhere, and mostly a little further.
            0 => self
                .desk
                .clock
                .set(Timestamp::from_millis(START + minutes * 60_000 + millis)),
            _ => self.desk.clock.advance(Duration::from_millis(millis / 6)),
        }
    }

    /// A step is mostly claimed under a round, sometimes with a token that is not the round's any more.
    fn round_for(&mut self, which: usize) -> Option<Owner> {
        if self.rows[which].claim.kind == Kind::Round || self.dice.below(5) == 0 {
            return None;
        }
        let round = self.dice.below(self.rows.len() / 2) * 2;
        Some(Owner {
            key: self.key(round),
            token: self.token(round),
        })
    }

    fn key(&self, which: usize) -> RowKey {
        self.rows[which].claim.key
    }

    /// Mostly that of who runs it, or any that was ever used for it.
    fn token(&mut self, which: usize) -> Token {
        let row = &self.rows[which];
        match row.running {
            Some(running) if self.dice.below(4) != 0 => running,
            _ => row.tokens[self.dice.below(row.tokens.len())],
        }
    }
}

impl Seen {
    fn told_unknown(&mut self) {
        assert_eq!(self.outcome, None, "its outcome was known");
        assert!(self.running.is_some(), "nobody ran it");
        // A step may still be settled by its owner.
        self.given_up |= self.claim.kind == Kind::Round;
    }

    /// The owner that a step's claim names is known to have lost its round.
    fn is_lost_to(&self, owner: &Owner) -> bool {
        let is_it = self.claim.kind == Kind::Round && self.claim.key == owner.key;
        is_it && (self.given_up || self.outcome.is_some() || self.running != Some(owner.token))
    }
}

/// Numbers that look random and are the same in every run (SplitMix64).
struct Dice(u64);

impl Dice {
    fn below(&mut self, end: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut bits = self.0;
        bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        bits ^= bits >> 31;
        usize::try_from(bits % (end as u64)).unwrap_or(0)
    }
}
