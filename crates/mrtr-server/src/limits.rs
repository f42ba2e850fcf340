//! Limits, and why each is what it is.

use std::time::Duration;

use tokio::sync::Semaphore;

/// What a server allows. Every limit can be changed; each has a reason. A time of more than 100 years means 100 years.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Limits {
    /// Largest request body, in bytes: 4 MiB. Larger ones are refused with 413 before they are read whole. It bounds the
    /// memory that a stranger can make a server hold.
    pub body: usize,
    /// Time to receive a body: 30 seconds. It bounds how long a slow sender can hold a connection's buffers.
    pub body_timeout: Duration,
    /// Deepest nesting of a request's JSON: 128, which is also serde_json's own bound.
    pub depth: usize,
    /// Largest state in both directions, in bytes: 32 KiB. A client has to send it back with every retry, and some
    /// intermediaries refuse larger requests.
    pub state: usize,
    /// How long a state may be answered: 10 minutes. Long enough for a person to think, short enough to bound replay.
    pub lifetime: Duration,
    /// How long a flow may take from its first request to its last: 1 hour. No state outlives it; a step in the ledger
    /// is kept that long. A tool whose states live longer raises it to their lifetime.
    pub flow_lifetime: Duration,
    /// How far a state's birth may lie in the future: 60 seconds. Instances' clocks differ.
    pub skew: Duration,
    /// Rounds in a flow: 16. A tool that asks for ever is a fault or an attack on the person's patience.
    pub rounds: u32,
    /// Largest final result that the ledger keeps for a repeated retry, in bytes: 64 KiB. A larger one is answered with
    /// "done, too large to repeat".
    pub stored_result: usize,
    /// How long an expired state is still looked up (never claimed) so that a late repeat of a lost response gets it: 10
    /// minutes. The ledger must keep its rows at least as long after they expire.
    pub retention: Duration,
    /// How long a claim stands without a sign of life: 30 seconds. Signs are given three times as often. Shorter means that
    /// a crash is noticed sooner; longer, that a stalled server is given up later. The signs are given beside the body, in one task: a
    /// body that blocks its thread for longer than this (by computing, or by blocking I/O) counts as lost while it runs.
    pub lease: Duration,
    /// Connections that [`serve`](crate::Server::serve) holds at a time: 1,024. Further ones wait to be accepted. It bounds
    /// file descriptors and buffers.
    pub connections: usize,
    /// Time for a request's head to arrive, and for a connection to be idle between requests: 15 seconds.
    pub head_timeout: Duration,
    /// How long a client may leave an answer unread while it is being written: 30 seconds. It bounds how long an answer's
    /// buffers are held for somebody who does not take it.
    pub write_timeout: Duration,
    /// How long a graceful shutdown waits for calls to end and connections to close: 30 seconds. Connections are cut then, and
    /// what is not settled is unknown to whoever repeats it.
    pub shutdown: Duration,
    /// Bodies of one principal that run at the same time: 256. One caller cannot take the whole server.
    pub running_per_principal: usize,
    /// How long a stream of events may be silent before a comment is sent on it: 15 seconds. Proxies and clients close what is silent
    /// for longer.
    pub keep_alive: Duration,
    /// Sessions of the earlier era that are open over HTTP at a time: 4,096. They are what this server holds for its clients: beside what
    /// its bodies hold, a session keeps 1 MiB for each call that runs and 256 KiB of those that have ended, at most.
    pub sessions: usize,
    /// Those of one principal: 64; of anonymous callers, per address.
    pub sessions_per_principal: usize,
    /// How long such a session lives without a request, a running call or a reader: 30 minutes. It is let go of when the next one is
    /// opened or it is asked for again.
    pub session_idle: Duration,
    /// Completions that one principal may ask for in a second, and at once: 20. Faster than anybody types; it bounds what
    /// guessing at suggestions is good for.
    pub completions_per_second: u32,
    /// Subscriptions (`subscriptions/listen`) that are open at a time: 512. Over HTTP each holds a connection for as long as it is
    /// open, so this is half of [`connections`](Self::connections), and calls find one; raise both. What the server itself holds for
    /// a subscription is small, and does not grow while nobody reads.
    pub subscriptions: usize,
    /// Those of one principal: 64; of anonymous callers, per address.
    pub subscriptions_per_principal: usize,
    /// Resources that one subscription, or one session of the earlier era, is subscribed to: 128, of URIs of 2 KiB at most. It bounds
    /// what the server holds for a subscriber.
    pub subscribed_resources: usize,
}

/// Times that are longer mean this one: later moments cannot be told on every system.
const LONGEST: Duration = Duration::from_secs(100 * 365 * 24 * 60 * 60);

impl Limits {
    /// The same, with what cannot be counted or timed brought down to what can.
    pub(crate) fn within_reason(mut self) -> Self {
        for time in [
            &mut self.body_timeout,
            &mut self.lifetime,
            &mut self.flow_lifetime,
            &mut self.skew,
            &mut self.retention,
            &mut self.lease,
            &mut self.head_timeout,
            &mut self.write_timeout,
            &mut self.shutdown,
            &mut self.keep_alive,
            &mut self.session_idle,
        ] {
            *time = (*time).min(LONGEST);
        }
        self.connections = self.connections.min(Semaphore::MAX_PERMITS);
        self
    }
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            body: 4 << 20,
            body_timeout: Duration::from_secs(30),
            depth: 128,
            state: 32 << 10,
            lifetime: Duration::from_secs(600),
            flow_lifetime: Duration::from_secs(3600),
            skew: Duration::from_secs(60),
            rounds: 16,
            stored_result: 64 << 10,
            retention: Duration::from_secs(600),
            lease: Duration::from_secs(30),
            connections: 1024,
            head_timeout: Duration::from_secs(15),
            write_timeout: Duration::from_secs(30),
            shutdown: Duration::from_secs(30),
            running_per_principal: 256,
            keep_alive: Duration::from_secs(15),
            sessions: 4096,
            sessions_per_principal: 64,
            session_idle: Duration::from_secs(1800),
            completions_per_second: 20,
            subscriptions: 512,
            subscriptions_per_principal: 64,
            subscribed_resources: 128,
        }
    }
}
