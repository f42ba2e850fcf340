//! Method names of the specification, of both eras.

/// `server/discover`: what the server is and speaks.
pub const DISCOVER: &str = "server/discover";
/// `tools/list`: the tools that the caller may use.
pub const TOOLS_LIST: &str = "tools/list";
/// `tools/call`: may be answered with `input_required`.
pub const TOOLS_CALL: &str = "tools/call";
/// `prompts/list`: the prompts that the caller may use.
pub const PROMPTS_LIST: &str = "prompts/list";
/// `prompts/get`: may be answered with `input_required`.
pub const PROMPTS_GET: &str = "prompts/get";
/// `resources/list`: the resources that the caller may read.
pub const RESOURCES_LIST: &str = "resources/list";
/// `resources/templates/list`: the families of resources that the caller may read.
pub const RESOURCES_TEMPLATES_LIST: &str = "resources/templates/list";
/// `resources/read`: may be answered with `input_required`.
pub const RESOURCES_READ: &str = "resources/read";
/// `completion/complete`: suggestions for an argument.
pub const COMPLETION_COMPLETE: &str = "completion/complete";
/// `subscriptions/listen`: opens a stream of notifications.
pub const SUBSCRIPTIONS_LISTEN: &str = "subscriptions/listen";
/// `elicitation/create`: a question for a person, inside `inputRequests`; in the earlier era a request of the server.
pub const ELICITATION_CREATE: &str = "elicitation/create";
/// `sampling/createMessage`: a question for a model, inside `inputRequests`; in the earlier era a request of the server. Deprecated since
/// 2026-07-28: a new server calls a model provider itself.
pub const SAMPLING_CREATE_MESSAGE: &str = "sampling/createMessage";
/// `roots/list`: the client's folders, inside `inputRequests`; in the earlier era a request of the server. Deprecated since 2026-07-28: a
/// new server takes folders as parameters, resource URIs or configuration.
pub const ROOTS_LIST: &str = "roots/list";

/// `initialize`: opens a session. The earlier era only.
pub const INITIALIZE: &str = "initialize";
/// `ping`: from either side. The earlier era only.
pub const PING: &str = "ping";
/// `logging/setLevel`: the least severe log message that the session wants. The earlier era only.
pub const LOGGING_SET_LEVEL: &str = "logging/setLevel";
/// `resources/subscribe`: asks for updates of one resource. The earlier era only.
pub const RESOURCES_SUBSCRIBE: &str = "resources/subscribe";
/// `resources/unsubscribe`: wants no more of them. The earlier era only.
pub const RESOURCES_UNSUBSCRIBE: &str = "resources/unsubscribe";

/// `notifications/cancelled`: a request need not be answered any more.
pub const CANCELLED: &str = "notifications/cancelled";
/// `notifications/progress`: how far a request has come.
pub const PROGRESS: &str = "notifications/progress";
/// `notifications/message`: a log message. Deprecated since 2026-07-28: log to stderr or OpenTelemetry.
pub const MESSAGE: &str = "notifications/message";
/// `notifications/tools/list_changed`.
pub const TOOLS_LIST_CHANGED: &str = "notifications/tools/list_changed";
/// `notifications/prompts/list_changed`.
pub const PROMPTS_LIST_CHANGED: &str = "notifications/prompts/list_changed";
/// `notifications/resources/list_changed`: the list of resources, or of templates.
pub const RESOURCES_LIST_CHANGED: &str = "notifications/resources/list_changed";
/// `notifications/resources/updated`: what one resource holds.
pub const RESOURCES_UPDATED: &str = "notifications/resources/updated";
/// `notifications/subscriptions/acknowledged`: the first message of a subscription.
pub const SUBSCRIPTIONS_ACKNOWLEDGED: &str = "notifications/subscriptions/acknowledged";
/// `notifications/initialized`: the client is ready. The earlier era only.
pub const INITIALIZED: &str = "notifications/initialized";
/// `notifications/roots/list_changed`: the client's folders. The earlier era only. Deprecated since 2026-07-28: take folders as
/// parameters, resource URIs or configuration.
pub const ROOTS_LIST_CHANGED: &str = "notifications/roots/list_changed";
/// `notifications/elicitation/complete`: a page was done with. Revision 2025-11-25 only.
pub const ELICITATION_COMPLETE: &str = "notifications/elicitation/complete";

/// The methods that a server may answer with `input_required` (*Multi Round-Trip Requests, Supported Requests*).
pub const MAY_ASK: [&str; 3] = [TOOLS_CALL, PROMPTS_GET, RESOURCES_READ];
