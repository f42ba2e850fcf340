//! What a server says while a request is open: how far it is (*Progress*), and log messages (*Logging*, deprecated since 2026-07-28).

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use mrtr_protocol::object::read;
use mrtr_protocol::{
    LogLevel, LogParams, Notification, ProgressParams, ProgressToken, RequestId, method,
};
use serde_json::value::RawValue;
use tokio::time::Instant;

use crate::handler::plain;
use crate::patience::Patience;
use crate::target::Target;

/// How far a request has come, in the server's words.
///
/// Guaranteed: it belongs to a request of this client that is open, and the number is larger than the one before. Not guaranteed: that it
/// is true, or that it ever reaches the total.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct ProgressReport {
    /// The method of the request.
    pub method: &'static str,
    /// What the request is for, if it is a call.
    pub target: Option<Target>,
    /// How far it is, in whatever unit.
    pub progress: f64,
    /// How far it will be, in the same unit, if the server knows.
    pub total: Option<f64>,
    /// For a person to read. Untrusted: it may hold markup or control characters.
    pub message: Option<String>,
}

impl ProgressReport {
    /// The message without control characters and without characters that change the direction of text.
    #[must_use]
    pub fn plain_message(&self) -> Option<String> {
        self.message.as_deref().map(plain)
    }
}

/// A log message of the server. Deprecated since 2026-07-28, as logging is: read the server's stderr, or OpenTelemetry.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct LogMessage {
    /// How severe it is.
    pub level: LogLevel,
    /// Who says it.
    pub logger: Option<String>,
    /// What it says: any JSON. Untrusted: it goes to a log or a screen as data, never as markup.
    pub data: Box<RawValue>,
}

/// Who hears of progress. Called where the message is read, so it must return soon.
pub(crate) type ProgressListener = Arc<dyn Fn(ProgressReport) + Send + Sync>;
/// Who hears of log messages. Called where the message is read, so it must return soon.
pub(crate) type LogListener = Arc<dyn Fn(LogMessage) + Send + Sync>;

/// The listeners, and the requests whose progress they hear of.
pub(crate) struct Notices {
    on_log: Option<LogListener>,
    /// What requests ask for.
    level: Mutex<Option<LogLevel>>,
    watched: Mutex<HashMap<ProgressToken, Arc<Watched>>>,
    log_allowance: Mutex<Allowance>,
}

struct Watched {
    method: &'static str,
    target: Option<Target>,
    listener: ProgressListener,
    patience: Arc<Patience>,
    seen: Mutex<Seen>,
}

struct Seen {
    /// The last number; each must be larger.
    progress: f64,
    allowance: Allowance,
}

/// Where a notification came in.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Origin<'a> {
    /// On the response of this request: it can be about that one only.
    Response(&'a RequestId),
    /// On a channel that requests share.
    Channel,
}

impl Notices {
    pub(crate) fn new(log: Option<(LogLevel, LogListener)>) -> Self {
        let (level, on_log) = log.unzip();
        Self {
            on_log,
            level: Mutex::new(level),
            watched: Mutex::default(),
            log_allowance: Mutex::new(Allowance::new()),
        }
    }

    /// The least severe message that somebody listens for.
    pub(crate) fn log_level(&self) -> Option<LogLevel> {
        *lock(&self.level)
    }

    /// Without a listener nothing is asked for.
    pub(crate) fn set_log_level(&self, level: LogLevel) {
        if self.on_log.is_some() {
            *lock(&self.level) = Some(level);
        }
    }

    /// Reports progress under this token to the listener, until the guard is dropped.
    pub(crate) fn watch(
        self: &Arc<Self>,
        token: ProgressToken,
        method: &'static str,
        target: Option<&Target>,
        listener: &ProgressListener,
        patience: &Arc<Patience>,
    ) -> Watch {
        let watched = Watched {
            method,
            target: target.cloned(),
            listener: Arc::clone(listener),
            patience: Arc::clone(patience),
            seen: Mutex::new(Seen {
                progress: f64::NEG_INFINITY,
                allowance: Allowance::new(),
            }),
        };
        lock(&self.watched).insert(token.clone(), Arc::new(watched));
        Watch {
            notices: Arc::clone(self),
            token,
        }
    }

    /// Tells whoever listens. What is malformed, unknown or too much is dropped: a notification has no answer.
    pub(crate) fn take(&self, notification: &Notification<'_>, origin: Origin<'_>) {
        match notification.method.as_ref() {
            method::PROGRESS => self.progress(notification, origin),
            method::MESSAGE => self.log(notification),
            other => tracing::trace!(method = %other, "a notification is ignored"),
        }
    }

    fn progress(&self, notification: &Notification<'_>, origin: Origin<'_>) {
        let Some(params) = params::<ProgressParams>(notification) else {
            return;
        };
        if let Origin::Response(id) = origin
            && params.progress_token != ProgressToken::from(id.clone())
        {
            tracing::debug!("progress of another request is ignored");
            return;
        }
        let Some(watched) = lock(&self.watched).get(&params.progress_token).cloned() else {
            tracing::debug!("progress of no open request is ignored");
            return;
        };
        let finite = params.progress.is_finite() && params.total.is_none_or(f64::is_finite);
        let allowed = {
            let mut seen = lock(&watched.seen);
            let more = finite && params.progress > seen.progress;
            if more {
                seen.progress = params.progress;
            }
            more && seen.allowance.take()
        };
        if !allowed {
            tracing::debug!("progress that does not grow, or comes too often, is ignored");
            return;
        }
        watched.patience.progress();
        (watched.listener)(ProgressReport {
            method: watched.method,
            target: watched.target.clone(),
            progress: params.progress,
            total: params.total,
            message: params.message,
        });
    }

    fn log(&self, notification: &Notification<'_>) {
        let (Some(listener), Some(least)) = (&self.on_log, self.log_level()) else {
            return;
        };
        let Some(params) = params::<LogParams>(notification) else {
            return;
        };
        if params.level < least || !lock(&self.log_allowance).take() {
            return;
        }
        listener(LogMessage {
            level: params.level,
            logger: params.logger,
            data: params.data,
        });
    }
}

/// Params of a notification, or a line in the log.
pub(crate) fn params<T: serde::de::DeserializeOwned>(notification: &Notification<'_>) -> Option<T> {
    let params = notification.params.and_then(|raw| read(raw).ok());
    if params.is_none() {
        tracing::debug!(method = %notification.method, "a malformed notification is ignored");
    }
    params
}

impl fmt::Debug for Notices {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Notices")
            .field("log_level", &self.log_level())
            .field("watched", &lock(&self.watched).len())
            .finish_non_exhaustive()
    }
}

/// A request whose progress is reported.
#[derive(Debug)]
pub(crate) struct Watch {
    notices: Arc<Notices>,
    token: ProgressToken,
}

impl Watch {
    pub(crate) fn token(&self) -> &ProgressToken {
        &self.token
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        lock(&self.notices.watched).remove(&self.token);
    }
}

/// How many messages a listener is called for: 100 at once, and 100 a second. A server that floods is not passed on.
#[derive(Debug)]
struct Allowance {
    left: u32,
    since: Instant,
}

impl Allowance {
    const MOST: u32 = 100;
    const AFTER: Duration = Duration::from_millis(10);

    fn new() -> Self {
        Self {
            left: Self::MOST,
            since: Instant::now(),
        }
    }

    fn take(&mut self) -> bool {
        let now = Instant::now();
        let grown = now.saturating_duration_since(self.since).as_millis() / Self::AFTER.as_millis();
        if grown > 0 {
            let grown = u32::try_from(grown).unwrap_or(Self::MOST);
            self.left = self.left.saturating_add(grown).min(Self::MOST);
            self.since = now;
        }
        let allowed = self.left > 0;
        self.left = self.left.saturating_sub(1);
        allowed
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use mrtr_protocol::Incoming;
    use serde_json::json;

    use super::*;
    use crate::patience::Thinking;

    fn take(notices: &Notices, method: &str, params: serde_json::Value, origin: Origin<'_>) {
        let text = json!({"jsonrpc": "2.0", "method": method, "params": params}).to_string();
        let Ok(Incoming::Notification(notification)) = Incoming::parse(text.as_bytes()) else {
            panic!("{text}")
        };
        notices.take(&notification, origin);
    }

    fn listener() -> (ProgressListener, Arc<Mutex<Vec<f64>>>) {
        let heard: Arc<Mutex<Vec<f64>>> = Arc::default();
        let into = Arc::clone(&heard);
        (
            Arc::new(move |report: ProgressReport| into.lock().unwrap().push(report.progress)),
            heard,
        )
    }

    #[tokio::test(start_paused = true)]
    async fn progress_goes_to_its_own_request_and_grows() {
        let notices = Arc::new(Notices::new(None));
        let (listener, heard) = listener();
        let patience = Patience::new(&Thinking::new(), None, None);
        let (id, other) = (RequestId::from(7), RequestId::from(8));
        let watch = notices.watch(id.clone().into(), "tools/call", None, &listener, &patience);
        let report = |token: serde_json::Value, progress: serde_json::Value, origin| {
            let params = json!({"progressToken": token, "progress": progress});
            take(&notices, method::PROGRESS, params, origin);
        };
        report(json!(7), json!(1), Origin::Response(&id));
        report(json!(7), json!(2.5), Origin::Channel);
        for (token, progress) in [
            (json!(7), json!(2.5)),
            (json!(7), json!(2)),
            (json!("7"), json!(3)),
            (json!(8), json!(3)),
            (json!(7), json!("3")),
            (json!(null), json!(3)),
        ] {
            report(token, progress, Origin::Channel);
        }
        // On the response of another request.
        report(json!(7), json!(3), Origin::Response(&other));
        assert_eq!(*heard.lock().unwrap(), [1.0, 2.5]);
        drop(watch);
        report(json!(7), json!(4), Origin::Channel);
        assert_eq!(heard.lock().unwrap().len(), 2);
    }

    #[tokio::test(start_paused = true)]
    async fn a_flood_is_not_passed_on() {
        let notices = Arc::new(Notices::new(None));
        let (listener, heard) = listener();
        let patience = Patience::new(&Thinking::new(), None, None);
        let _watch = notices.watch(7.into(), "tools/call", None, &listener, &patience);
        let flood = |from: u32| {
            for progress in from..from + 10_000 {
                let params = json!({"progressToken": 7, "progress": progress});
                take(&notices, method::PROGRESS, params, Origin::Channel);
            }
            heard.lock().unwrap().len()
        };
        assert_eq!(flood(0), 100);
        tokio::time::advance(Duration::from_millis(500)).await;
        assert_eq!(flood(20_000), 150);
        tokio::time::advance(Duration::from_secs(3_600)).await;
        assert_eq!(flood(40_000), 250);
    }

    #[tokio::test(start_paused = true)]
    async fn log_messages_below_the_level_are_dropped() {
        let heard: Arc<Mutex<Vec<LogLevel>>> = Arc::default();
        let into = Arc::clone(&heard);
        let listener: LogListener = Arc::new(move |message: LogMessage| {
            into.lock().unwrap().push(message.level);
        });
        let notices = Notices::new(Some((LogLevel::Warning, listener)));
        for level in ["error", "info", "warning", "loud"] {
            let params = json!({"level": level, "data": {"x": 1}});
            take(&notices, method::MESSAGE, params, Origin::Channel);
        }
        take(
            &notices,
            method::MESSAGE,
            json!({"level": "error"}),
            Origin::Channel,
        );
        assert_eq!(*heard.lock().unwrap(), [LogLevel::Error, LogLevel::Warning]);
        notices.set_log_level(LogLevel::Debug);
        take(
            &notices,
            method::MESSAGE,
            json!({"level": "info", "data": 1}),
            Origin::Channel,
        );
        assert_eq!(heard.lock().unwrap().len(), 3);
    }
}
