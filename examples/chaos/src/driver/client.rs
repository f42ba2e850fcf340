//! Clients: each goes on errands, one after another, and is as clumsy on the way as clients and networks are.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use fastrand::Rng;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep};

use crate::catalogue::{Arguments, Tool};
use crate::driver::fleet::Fleet;
use crate::driver::wire::{Manner, Wire};
use crate::history::{Errand, Got, Recorder, Reply, Sent, StateId};
use crate::terms::{LEASE, millis};

/// How often an answer is sent before its client turns to something else. The end of the run comes back to it.
const ATTEMPTS: u32 = 60;

/// How many answers are remembered to be sent again later.
const REMEMBERED: usize = 4_000;

/// What all clients share.
#[derive(Debug)]
pub(crate) struct World {
    pub(crate) fleet: Arc<Fleet>,
    pub(crate) wire: Wire,
    pub(crate) seen: Arc<Recorder>,
    /// Of so many pauses of a body one is longer than a lease.
    long_one_in: u32,
    closing: AtomicBool,
    /// Calls whose end has not been written down.
    under_way: AtomicUsize,
    /// Answers that had their result, and some that will never have one.
    spent: Mutex<Vec<Attempt>>,
    /// Answers whose end their client did not live to see.
    open: Mutex<Vec<Attempt>>,
}

/// A state that is to be answered.
#[derive(Clone, Debug)]
pub(crate) struct Attempt {
    errand: Arc<Errand>,
    state: StateId,
    /// What was answered so far, the answer that is tried now last.
    replies: Vec<Reply>,
}

/// Where an attempt has led.
enum Led {
    /// To another question.
    On(StateId),
    /// To the end of the flow.
    Over,
    /// Nowhere yet.
    Nowhere,
}

impl World {
    pub(crate) fn new(
        fleet: Arc<Fleet>,
        wire: Wire,
        seen: Arc<Recorder>,
        long_one_in: u32,
    ) -> Self {
        Self {
            fleet,
            wire,
            seen,
            long_one_in,
            closing: AtomicBool::new(false),
            under_way: AtomicUsize::new(0),
            spent: Mutex::default(),
            open: Mutex::default(),
        }
    }

    /// No errand is begun from here on.
    pub(crate) fn close(&self) {
        self.closing.store(true, Ordering::SeqCst);
    }

    fn is_closing(&self) -> bool {
        self.closing.load(Ordering::SeqCst)
    }

    /// The attempts that nobody has seen the end of, for [`finish`].
    pub(crate) fn unfinished(&self) -> Vec<Attempt> {
        std::mem::take(&mut *lock(&self.open))
    }

    /// Sends to some server that is up. Returns what the client knows of what came of it.
    async fn send(
        &self,
        errand: &Errand,
        sent: Sent,
        manner: Manner,
        rng: &mut Rng,
    ) -> Option<Got> {
        let up = loop {
            match self.fleet.any(rng) {
                Some(up) => break up,
                None => sleep(Duration::from_millis(20)).await,
            }
        };
        self.under_way.fetch_add(1, Ordering::SeqCst);
        let got = self.wire.call(&up, errand, sent, manner, &self.seen).await;
        self.under_way.fetch_sub(1, Ordering::SeqCst);
        got
    }

    /// Waits until the end of every call has been written down.
    pub(crate) async fn quiet(&self) {
        while self.under_way.load(Ordering::SeqCst) > 0 {
            sleep(Duration::from_millis(20)).await;
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A client's life: errands until the run closes. Flows are numbered by client, so that the same seed draws the same ones.
pub(crate) async fn live(world: Arc<World>, client: u64, mut rng: Rng) {
    for number in 0.. {
        if world.is_closing() {
            return;
        }
        let errand = Arc::new(draw(
            client * 1_000_000 + number,
            world.long_one_in,
            &mut rng,
        ));
        world.seen.errand((*errand).clone());
        go(&world, errand, &mut rng).await;
    }
}

fn draw(flow: u64, long_one_in: u32, rng: &mut Rng) -> Errand {
    let tool = rng.choice(Tool::ALL).unwrap_or(Tool::Pay);
    let long = u32::try_from(millis(LEASE) * 5 / 4).unwrap_or(u32::MAX);
    let mut pause = |most: u32| match rng.u32(..long_one_in) {
        // Longer than a lease: only signs of life keep the claim.
        0 => long,
        _ => rng.u32(..most),
    };
    let arguments = Arguments {
        flow,
        before: pause(20),
        inside: pause(15),
        after: pause(15),
        fails: rng.u32(..6) == 0,
        patience: rng.u32(5..60),
        ballast: if rng.bool() { 0 } else { 4_000 },
        panics: 10,
    };
    Errand { tool, arguments }
}

/// One errand, from its first request to its end, or to where it has to be left.
async fn go(world: &Arc<World>, errand: Arc<Errand>, rng: &mut Rng) {
    // A first request is sent once: sent again it would be another flow.
    let manner = match rng.u32(..20) {
        0 => Manner::Cut(Duration::from_millis(rng.u64(..40))),
        _ => Manner::Heed,
    };
    let opened = world.send(&errand, Sent::Opening, manner, rng).await;
    let Some(Got::Asked { mut state, .. }) = opened else {
        return;
    };
    loop {
        let mut attempt = Attempt {
            errand: Arc::clone(&errand),
            state,
            replies: vec![reply(rng)],
        };
        match settle(world, &mut attempt, rng).await {
            Led::On(next) => {
                remember(world, attempt, rng);
                state = next;
            }
            Led::Over => return remember(world, attempt, rng),
            Led::Nowhere => return lock(&world.open).push(attempt),
        }
    }
}

fn reply(rng: &mut Rng) -> Reply {
    match rng.u32(..20) {
        0 => Reply::Cancel,
        1 => Reply::Decline,
        _ => Reply::Pick(rng.u32(1..1_000_000)),
    }
}

/// Answers a state until the answer has led somewhere.
async fn settle(world: &Arc<World>, attempt: &mut Attempt, rng: &mut Rng) -> Led {
    if rng.u32(..12) == 0
        && let Some(sent) = attempt.another(reply(rng))
    {
        // Somebody else is faster with another answer, and may win.
        fork(world, &attempt.errand, sent, rng).await;
    }
    for _ in 0..ATTEMPTS {
        if world.is_closing() {
            return Led::Nowhere;
        }
        if rng.u32(..16) == 0
            && let Some(sent) = attempt.another(reply(rng))
        {
            let (world, errand) = (Arc::clone(world), Arc::clone(&attempt.errand));
            let mut rng = rng.fork();
            tokio::spawn(async move { fork(&world, &errand, sent, &mut rng).await });
        }
        let got = clumsily(world, attempt, rng).await;
        if let Some(led) = led(attempt, got, rng).await {
            return led;
        }
    }
    Led::Nowhere
}

/// Sends the answer in one of the ways in which things go wrong. What came of it, if the client knows.
async fn clumsily(world: &Arc<World>, attempt: &Attempt, rng: &mut Rng) -> Option<Got> {
    let sent = attempt.sent()?;
    let manner = match rng.u32(..20) {
        0..=2 => Manner::Cut(Duration::from_millis(rng.u64(..60))),
        3..=4 => Manner::Lose,
        5..=6 => return race(world, attempt, sent, rng).await,
        _ => Manner::Heed,
    };
    world.send(&attempt.errand, sent, manner, rng).await
}

/// Sends the same to several servers at once; what the first one says that has a result, or the last one.
async fn race(world: &Arc<World>, attempt: &Attempt, sent: Sent, rng: &mut Rng) -> Option<Got> {
    let mut runners = JoinSet::new();
    for _ in 0..rng.u32(2..=4) {
        let (world, errand, mut rng) = (Arc::clone(world), Arc::clone(&attempt.errand), rng.fork());
        runners.spawn(async move { world.send(&errand, sent, Manner::Heed, &mut rng).await });
    }
    let mut last = None;
    while let Some(got) = runners.join_next().await {
        let got = got.ok().flatten();
        let is_result = matches!(got, Some(Got::Asked { .. } | Got::Done { .. }));
        last = got.or(last);
        if is_result {
            // The others go on by themselves, and are written down.
            runners.detach_all();
            break;
        }
    }
    last
}

/// Sends another answer to the same state.
async fn fork(world: &World, errand: &Errand, sent: Sent, rng: &mut Rng) {
    let manner = match rng.u32(..4) {
        0 => Manner::Cut(Duration::from_millis(rng.u64(..40))),
        1 => Manner::Lose,
        _ => Manner::Heed,
    };
    world.send(errand, sent, manner, rng).await;
}

/// Where a response leads; `None` when the answer is to be sent again, after a pause.
async fn led(attempt: &mut Attempt, got: Option<Got>, rng: &mut Rng) -> Option<Led> {
    let pause = match got {
        Some(Got::Asked { state, .. }) => return Some(Led::On(state)),
        Some(Got::Done { .. } | Got::Odd(_)) => return Some(Led::Over),
        // A panic is told with the advice to send the same again, where that helps.
        Some(Got::Refused {
            code: 1001 | -32603,
            ..
        }) => rng.u64(50..300),
        Some(Got::Refused { code: 1003, .. }) => rng.u64(50..400),
        Some(Got::Refused { reason, .. })
            if reason.as_deref() == Some("already_used") && attempt.replies.len() > 1 =>
        {
            // One of the others counted: that is the answer from here on.
            attempt.replies.rotate_right(1);
            0
        }
        Some(Got::Refused { .. }) => return Some(Led::Over),
        Some(Got::Cut | Got::Broken(_) | Got::Silence) | None => rng.u64(5..60),
    };
    sleep(Duration::from_millis(pause)).await;
    None
}

impl Attempt {
    /// The flow that it is in.
    pub(crate) fn flow(&self) -> u64 {
        self.errand.arguments.flow
    }

    /// What is sent for it.
    fn sent(&self) -> Option<Sent> {
        let reply = self.replies.last()?;
        Some(Sent::Retry(self.state, *reply))
    }

    /// What is sent for another reply, which is kept in mind; nothing if that was the reply before.
    fn another(&mut self, reply: Reply) -> Option<Sent> {
        if self.replies.contains(&reply) {
            return None;
        }
        self.replies.insert(0, reply);
        Some(Sent::Retry(self.state, reply))
    }
}

fn remember(world: &World, attempt: Attempt, rng: &mut Rng) {
    let mut spent = lock(&world.spent);
    if spent.len() >= REMEMBERED {
        let some = rng.usize(..spent.len());
        spent.swap_remove(some);
    }
    spent.push(attempt);
}

/// Sends what was answered long ago, the same or something else, until the run closes.
pub(crate) async fn repeat(world: Arc<World>, mut rng: Rng) {
    while !world.is_closing() {
        sleep(Duration::from_millis(rng.u64(..40))).await;
        let Some(mut attempt) = ({
            let spent = lock(&world.spent);
            // Half of them from the latest, which still live.
            let latest = spent.len().saturating_sub(50);
            let from = if rng.bool() { latest } else { 0 };
            let some = (from < spent.len()).then(|| rng.usize(from..spent.len()));
            some.and_then(|some| spent.get(some).cloned())
        }) else {
            continue;
        };
        let sent = match rng.u32(..4) {
            0 => attempt.another(reply(&mut rng)),
            _ => attempt.sent(),
        };
        if let Some(sent) = sent {
            world
                .send(&attempt.errand, sent, Manner::Heed, &mut rng)
                .await;
        }
    }
}

/// Goes on with what was left open, now that nothing goes wrong any more, until everything has come to an end or this
/// much time has passed.
pub(crate) async fn finish(world: &Arc<World>, attempt: Attempt, within: Duration, mut rng: Rng) {
    let mut attempt = attempt;
    let deadline = Instant::now() + within;
    // A call that was begun is carried through and written down. What is open after the last is for the checker to judge.
    while Instant::now() < deadline
        && let Some(sent) = attempt.sent()
    {
        let got = world
            .send(&attempt.errand, sent, Manner::Heed, &mut rng)
            .await;
        match led(&mut attempt, got, &mut rng).await {
            Some(Led::On(state)) => {
                attempt.state = state;
                attempt.replies = vec![reply(&mut rng)];
            }
            Some(_) => return,
            None => {}
        }
    }
}
