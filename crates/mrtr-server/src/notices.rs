//! What a handler may send before its result, and how it learns that nobody waits for it any more.

use std::fmt;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use mrtr_protocol::jsonrpc::write_notification;
use mrtr_protocol::method;
use mrtr_protocol::notification::{LogLevel, LogParams, ProgressParams, ProgressToken};
use serde::Serialize;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::extract::{Call, Extract, ExtractError, Spec};
use crate::outbox::{LogGate, Outbox, in_one_line};

/// Reports how far a call has come. An extractor.
///
/// Reports reach the client before the result, if this request asked for them; otherwise they go nowhere.
///
/// ```
/// use mrtr_server::{Progress, tool};
///
/// async fn import(progress: Progress) -> &'static str {
///     for row in 0..100 {
///         // .. import the row ..
///         progress.report(f64::from(row + 1), Some(100.0), None);
///     }
///     "Imported."
/// }
/// # let _ = tool("import", import);
/// ```
///
/// **Not guaranteed:** that a report arrives. Reports that come sooner than 10 ms after the one before are left out, unless they
/// reach the total; so is one whose value is not larger than the last, as the specification demands, and one that finds too many
/// waiting for a slow client.
///
/// Specification: `basic/patterns/progress`.
pub struct Progress {
    to: Option<(Outbox, ProgressToken)>,
    last: Mutex<Option<(f64, Instant)>>,
}

/// Reports sooner than this after the last are left out.
const PAUSE: Duration = Duration::from_millis(10);

impl Progress {
    /// Whether anybody wants to know.
    #[must_use]
    pub fn is_wanted(&self) -> bool {
        self.to.is_some()
    }

    /// Says how much is done, of how much where that is known, and in words what is being done. Values increase from report to
    /// report, and are finite.
    pub fn report(&self, progress: f64, total: Option<f64>, message: Option<&str>) {
        let Some((outbox, token)) = &self.to else {
            return;
        };
        let now = Instant::now();
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((before, at)) = *last {
            let is_last = total.is_some_and(|total| progress >= total);
            if progress <= before || (now.duration_since(at) < PAUSE && !is_last) {
                return;
            }
        }
        if !progress.is_finite() || total.is_some_and(|total| !total.is_finite()) {
            return;
        }
        *last = Some((progress, now));
        drop(last);
        let mut params = ProgressParams::new(token.clone(), progress);
        params.total = total;
        params.message = message.map(str::to_owned);
        send(outbox, method::PROGRESS, &params);
    }
}

impl Extract for Progress {
    fn describe(spec: &mut Spec) {
        spec.sends = true;
    }

    fn extract(call: &mut Call<'_>) -> Result<Self, ExtractError> {
        Ok(Self {
            to: call.link.outbox.clone().zip(call.link.progress.clone()),
            last: Mutex::new(None),
        })
    }
}

impl fmt::Debug for Progress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Progress")
            .field("is_wanted", &self.is_wanted())
            .finish_non_exhaustive()
    }
}

/// Sends log messages to the client. An extractor. Deprecated since 2026-07-28: a new server logs to stderr or OpenTelemetry.
///
/// A message is sent if this request (in the earlier era: its session) asked for its level; otherwise it goes nowhere. It must hold
/// no secret and nothing that helps an attacker (specification, `server/utilities/logging`, "Security").
///
/// **Not guaranteed:** that a message arrives; one that finds too many waiting for a slow client is left out.
pub struct Log {
    outbox: Option<Outbox>,
    gate: LogGate,
}

impl Log {
    /// Whether messages of this level are sent. Deprecated since 2026-07-28: a new server logs to stderr or OpenTelemetry.
    #[must_use]
    pub fn is_wanted(&self, level: LogLevel) -> bool {
        self.outbox.is_some() && self.gate.lets(level)
    }

    /// Sends a message: any JSON. Deprecated since 2026-07-28: a new server logs to stderr or OpenTelemetry.
    pub fn send(&self, level: LogLevel, logger: Option<&str>, data: impl Serialize) {
        let Some(outbox) = self.outbox.as_ref().filter(|_| self.gate.lets(level)) else {
            return;
        };
        match LogParams::new(level, &data) {
            Ok(mut params) => {
                params.logger = logger.map(str::to_owned);
                send(outbox, method::MESSAGE, &params);
            }
            Err(error) => {
                tracing::warn!(kind = ?error.classify(), "a log message does not serialize")
            }
        }
    }
}

impl Extract for Log {
    fn describe(spec: &mut Spec) {
        spec.sends = true;
        spec.logs = true;
    }

    fn extract(call: &mut Call<'_>) -> Result<Self, ExtractError> {
        Ok(Self {
            outbox: call.link.outbox.clone(),
            gate: call.link.log.clone(),
        })
    }
}

impl fmt::Debug for Log {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Log")
            .field("gate", &self.gate)
            .finish_non_exhaustive()
    }
}

/// Tells a handler that nobody waits for its result any more: the client cancelled, or its connection closed. An extractor.
///
/// A handler that records nothing is dropped then, so that only what it has started elsewhere needs this. One that acts `once` is
/// carried to the end of the step that it is in and starts no other.
///
/// Specification: `basic/patterns/cancellation`.
#[derive(Debug, Clone)]
pub struct Cancelled(CancellationToken);

impl Cancelled {
    /// Whether it has happened.
    #[must_use]
    pub fn has_happened(&self) -> bool {
        self.0.is_cancelled()
    }

    /// Waits until it happens.
    pub async fn happens(&self) {
        self.0.cancelled().await;
    }
}

impl Extract for Cancelled {
    fn extract(call: &mut Call<'_>) -> Result<Self, ExtractError> {
        Ok(Self(call.cancelled.clone()))
    }
}

/// Lets go of a call's connection while the call goes on: the client comes back for the rest. An extractor for calls that take long.
///
/// Only the earlier era over HTTP has this (revision 2025-11-25, `basic/transports`, "Sending Messages to the Server"); it is nothing
/// elsewhere.
pub struct Polling {
    outbox: Option<Outbox>,
}

impl Polling {
    /// Closes the connection; the client reconnects after `retry` and gets what was sent meanwhile. A client that has no event's id
    /// to come back with is not hung up on until it has one.
    pub fn hang_up(&self, retry: Duration) {
        if let Some(outbox) = &self.outbox {
            outbox.hang_up(retry);
        }
    }
}

impl Extract for Polling {
    fn describe(spec: &mut Spec) {
        spec.sends = true;
    }

    fn extract(call: &mut Call<'_>) -> Result<Self, ExtractError> {
        Ok(Self {
            outbox: call.link.outbox.clone(),
        })
    }
}

impl fmt::Debug for Polling {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Polling").finish_non_exhaustive()
    }
}

fn send(outbox: &Outbox, method: &str, params: &impl Serialize) {
    match write_notification(method, params).map(in_one_line) {
        Ok(message) => {
            if !outbox.send(message) {
                tracing::debug!(method, "a notification found no room");
            }
        }
        Err(error) => tracing::warn!(%error, method, "a notification does not serialize"),
    }
}
