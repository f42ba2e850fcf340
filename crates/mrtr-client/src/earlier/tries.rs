//! When to come back to a stream that ended, and when to give up (*2025-11-25, Transports, Resumability and Redelivery*).

use std::time::Duration;

use tokio::time::Instant;

/// Counts the tries in a row that brought nothing.
#[derive(Debug)]
pub(crate) struct Tries {
    failed: u32,
    connected: Option<Instant>,
    /// Something came on this connection.
    fruitful: bool,
}

impl Tries {
    /// So many tries in a row may bring nothing.
    pub(crate) const MOST: u32 = 5;
    /// A connection that was held so long was worth it, even if nothing came: a server that is polled answers like that.
    const HELD: Duration = Duration::from_secs(1);
    /// The pause where the server names none.
    const PAUSE: Duration = Duration::from_secs(1);
    /// The least there is, whatever the server says: no server is asked in a circle.
    const LEAST: Duration = Duration::from_millis(100);
    /// What pauses grow to by themselves. A server may ask for longer ones.
    const LONGEST: Duration = Duration::from_secs(30);

    pub(crate) fn new() -> Self {
        Self {
            failed: 0,
            connected: None,
            fruitful: false,
        }
    }

    pub(crate) fn connected(&mut self) {
        self.connected = Some(Instant::now());
        self.fruitful = false;
    }

    /// An event came.
    pub(crate) fn event(&mut self) {
        self.fruitful = true;
    }

    /// The connection ended, or there was none: how long to wait before the next try. `None`: there shall be none.
    ///
    /// Never shorter than `retry`, which is the server's word.
    pub(crate) fn pause(&mut self, retry: Option<Duration>) -> Option<Duration> {
        let held = self
            .connected
            .take()
            .is_some_and(|at| at.elapsed() >= Self::HELD);
        if std::mem::take(&mut self.fruitful) || held {
            self.failed = 0;
        }
        self.failed += 1;
        if self.failed > Self::MOST {
            return None;
        }
        let base = retry.map_or(Self::PAUSE, |retry| retry.max(Self::LEAST));
        let grown = base.saturating_mul(1 << (self.failed - 1));
        Some(grown.min(Self::LONGEST.max(base)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pauses(retry: Option<u64>) -> Vec<u128> {
        let mut tries = Tries::new();
        let retry = retry.map(Duration::from_millis);
        std::iter::from_fn(|| tries.pause(retry))
            .map(|pause| pause.as_millis())
            .collect()
    }

    #[test]
    fn pauses_grow_are_never_early_and_end() {
        assert_eq!(pauses(None), [1_000, 2_000, 4_000, 8_000, 16_000]);
        assert_eq!(pauses(Some(500)), [500, 1_000, 2_000, 4_000, 8_000]);
        assert_eq!(pauses(Some(0)), [100, 200, 400, 800, 1_600]);
        assert_eq!(
            pauses(Some(20_000)),
            [20_000, 30_000, 30_000, 30_000, 30_000]
        );
        assert_eq!(pauses(Some(90_000)), [90_000; 5]);
        let never = u128::from(u64::MAX);
        assert_eq!(pauses(Some(u64::MAX)), [never; 5]);
    }

    #[tokio::test(start_paused = true)]
    async fn what_brings_something_begins_anew() {
        let mut tries = Tries::new();
        for _ in 0..100 {
            tries.connected();
            tries.event();
            assert_eq!(tries.pause(None), Some(Tries::PAUSE));
        }
        for _ in 0..100 {
            tries.connected();
            tokio::time::advance(Tries::HELD).await;
            assert_eq!(tries.pause(None), Some(Tries::PAUSE));
        }
        // Accepted and closed at once is a failure like any other.
        let ended = (0..).find(|_| {
            tries.connected();
            tries.pause(None).is_none()
        });
        assert_eq!(ended, Some(4));
    }
}
