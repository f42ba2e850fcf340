//! Tools that say something before their result, and one that lets go of its connection.
//!
//! Logging is deprecated since 2026-07-28; it is here because clients and the suite still have it.

use std::time::Duration;

use mrtr_server::protocol::LogLevel;
use mrtr_server::{Log, Polling, Progress, ServerBuilder, tool};
use tokio::time::sleep;

pub(crate) fn add(server: ServerBuilder) -> ServerBuilder {
    server
        .tool(
            tool("test_tool_with_progress", progress)
                .description("Reports how far it has come, three times."),
        )
        .tool(
            tool("test_tool_with_logging", logging)
                .description("Sends three messages to the client's log."),
        )
        .tool(
            tool("test_logging_tool", logging)
                .description("Sends messages to the client's log, if the request wants them."),
        )
        .tool(
            tool("test_reconnection", reconnection)
                .description("Lets go of its connection before its result, where it can."),
        )
}

/// Between two messages, so that each is seen to come by itself.
const PAUSE: Duration = Duration::from_millis(50);

async fn progress(progress: Progress) -> &'static str {
    progress.report(0.0, Some(100.0), None);
    sleep(PAUSE).await;
    progress.report(50.0, Some(100.0), None);
    sleep(PAUSE).await;
    progress.report(100.0, Some(100.0), None);
    "Tool with progress executed successfully"
}

async fn logging(log: Log) -> &'static str {
    log.send(LogLevel::Info, None, "Tool execution started");
    sleep(PAUSE).await;
    log.send(LogLevel::Info, None, "Tool processing data");
    sleep(PAUSE).await;
    log.send(LogLevel::Info, None, "Tool execution completed");
    "Tool with logging executed successfully"
}

async fn reconnection(polling: Polling) -> &'static str {
    polling.hang_up(Duration::from_millis(100));
    sleep(PAUSE).await;
    "Reconnection test completed successfully"
}
