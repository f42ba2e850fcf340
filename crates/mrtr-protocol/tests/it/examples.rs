//! Each example that the specification publishes for a type of ours is read, written, and compared as JSON.

use std::path::{Path, PathBuf};

use mrtr_protocol::content::{
    AudioContent, EmbeddedResource, ImageContent, ResourceContents, ResourceLink, TextContent,
};
use mrtr_protocol::jsonrpc::{serialize_result, write_error, write_notification, write_request};
use mrtr_protocol::notification::ListChangedParams;
use mrtr_protocol::object::read;
use mrtr_protocol::sampling::{ModelPreferences, SamplingBlock, ToolResultContent, ToolUseContent};
use mrtr_protocol::{
    AcknowledgedParams, CallToolParams, CallToolResult, CancelledParams, ClientCapabilities,
    CompleteParams, CompleteResult, ContentBlock, CreateMessageParams, CreateMessageResult,
    DiscoverResult, ElicitForm, ElicitUrl, ErrorObject, FormSchema, GetPromptParams,
    GetPromptResult, InputAnswer, InputRequest, InputRequests, InputRequiredResult, InputResponses,
    JsonObject, Kind, ListPromptsResult, ListResourceTemplatesResult, ListResourcesResult,
    ListRootsResult, ListToolsResult, ListenParams, ListenResult, LogParams, Members, Message,
    Object, PaginatedParams, ProgressParams, ReadResourceParams, ReadResourceResult, RequestMeta,
    Resource, ResourceUpdatedParams, Response, ResultType, Root, SamplingMessage,
    ServerCapabilities, Tool, method, strict,
};
use serde::{Serialize, de::DeserializeOwned};
use serde_json::Value;
use serde_json::value::RawValue;

/// The published examples lie beside the checkout, not in it.
fn examples() -> Option<PathBuf> {
    let folder =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/spec/2026-07-28/examples");
    if folder.is_dir() {
        return Some(folder);
    }
    println!("skipped: no published examples at {}", folder.display());
    None
}

/// What to do with every file of a folder that is named for a type.
type Check = fn(&str);

/// Each folder, in order, and how its type is read and written.
const COVERED: &[(&str, Check)] = &[
    ("AudioContent", block::<AudioContent>),
    ("BlobResourceContents", round_trip::<ResourceContents>),
    ("BooleanSchema", form_field),
    ("CallToolRequest", request),
    ("CallToolRequestParams", call_tool_params),
    ("CallToolResult", result::<CallToolResult>),
    ("CallToolResultResponse", response),
    ("CancelledNotification", notification::<CancelledParams>),
    ("CancelledNotificationParams", round_trip::<CancelledParams>),
    ("ClientCapabilities", round_trip::<ClientCapabilities>),
    ("CompleteRequest", request),
    ("CompleteRequestParams", complete_params),
    ("CompleteResult", result::<CompleteResult>),
    ("CompleteResultResponse", response),
    ("CreateMessageRequest", question),
    ("CreateMessageRequestParams", sampling_params),
    ("CreateMessageResult", sampling_answer),
    ("DiscoverRequest", request),
    ("DiscoverResult", result::<DiscoverResult>),
    ("DiscoverResultResponse", response),
    ("ElicitRequest", question),
    ("ElicitRequestFormParams", form),
    ("ElicitRequestURLParams", round_trip::<ElicitUrl>),
    ("ElicitResult", elicit_answer),
    ("EmbeddedResource", block::<EmbeddedResource>),
    ("GetPromptRequest", request),
    ("GetPromptRequestParams", get_prompt_params),
    ("GetPromptResult", result::<GetPromptResult>),
    ("GetPromptResultResponse", response),
    ("HeaderMismatchError", error_response),
    ("ImageContent", block::<ImageContent>),
    ("InputRequests", round_trip::<InputRequests>),
    ("InputRequiredResult", round),
    ("InputResponses", input_responses),
    ("InternalError", round_trip::<ErrorObject>),
    ("InvalidParamsError", round_trip::<ErrorObject>),
    ("ListPromptsRequest", request),
    ("ListPromptsResult", result::<ListPromptsResult>),
    ("ListPromptsResultResponse", response),
    ("ListResourceTemplatesRequest", request),
    (
        "ListResourceTemplatesResult",
        result::<ListResourceTemplatesResult>,
    ),
    ("ListResourceTemplatesResultResponse", response),
    ("ListResourcesRequest", request),
    ("ListResourcesResult", result::<ListResourcesResult>),
    ("ListResourcesResultResponse", response),
    ("ListRootsRequest", roots_question),
    ("ListRootsResult", roots_answer),
    ("ListToolsRequest", request),
    ("ListToolsResult", result::<ListToolsResult>),
    ("ListToolsResultResponse", response),
    ("LoggingMessageNotification", notification::<LogParams>),
    ("LoggingMessageNotificationParams", round_trip::<LogParams>),
    ("MethodNotFoundError", round_trip::<ErrorObject>),
    ("MissingRequiredClientCapabilityError", error_response),
    ("ModelPreferences", round_trip::<ModelPreferences>),
    ("NumberSchema", form_field),
    ("PaginatedRequestParams", paginated_params),
    ("ParseError", round_trip::<ErrorObject>),
    ("ProgressNotification", notification::<ProgressParams>),
    ("ProgressNotificationParams", round_trip::<ProgressParams>),
    (
        "PromptListChangedNotification",
        notification::<ListChangedParams>,
    ),
    ("ReadResourceRequest", request),
    ("ReadResourceResult", result::<ReadResourceResult>),
    ("ReadResourceResultResponse", response),
    ("Resource", round_trip::<Resource>),
    ("ResourceLink", block::<ResourceLink>),
    (
        "ResourceListChangedNotification",
        notification::<ListChangedParams>,
    ),
    (
        "ResourceUpdatedNotification",
        notification::<ResourceUpdatedParams>,
    ),
    (
        "ResourceUpdatedNotificationParams",
        round_trip::<ResourceUpdatedParams>,
    ),
    ("Root", round_trip::<Root>),
    ("SamplingMessage", round_trip::<SamplingMessage>),
    ("ServerCapabilities", round_trip::<ServerCapabilities>),
    ("StringSchema", form_field),
    (
        "SubscriptionsAcknowledgedNotification",
        notification::<AcknowledgedParams>,
    ),
    ("SubscriptionsListenRequest", request),
    ("SubscriptionsListenResult", result::<ListenResult>),
    ("SubscriptionsListenResultResponse", response),
    ("TextContent", block::<TextContent>),
    ("TextResourceContents", round_trip::<ResourceContents>),
    ("TitledMultiSelectEnumSchema", form_field),
    ("TitledSingleSelectEnumSchema", form_field),
    ("Tool", round_trip::<Tool>),
    (
        "ToolListChangedNotification",
        notification::<ListChangedParams>,
    ),
    ("ToolResultContent", sampling_block::<ToolResultContent>),
    ("ToolUseContent", sampling_block::<ToolUseContent>),
    ("UnsupportedProtocolVersionError", error_response),
    ("UntitledMultiSelectEnumSchema", form_field),
    ("UntitledSingleSelectEnumSchema", form_field),
];

#[test]
fn every_example_is_read_and_written() {
    let Some(root) = examples() else { return };
    let mut published: Vec<String> = std::fs::read_dir(&root)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    published.sort();
    let known: Vec<&str> = COVERED.iter().map(|(folder, _)| *folder).collect();
    assert_eq!(known, published, "each folder has its line in COVERED");
    for (folder, check) in COVERED {
        let mut seen = 0;
        for entry in std::fs::read_dir(root.join(folder)).unwrap() {
            let path = entry.unwrap().path();
            let text = std::fs::read_to_string(&path).unwrap();
            // Shown when the check fails.
            println!("{}", path.display());
            strict::check(text.as_bytes()).unwrap();
            check(&text);
            seen += 1;
        }
        assert!(seen > 0, "{folder} is empty");
    }
}

fn raw(text: &str) -> Box<RawValue> {
    serde_json::from_str(text).unwrap()
}

/// JSON equality; a number is its value, and `isError: false` is what its absence means.
#[track_caller]
fn same(written: &str, original: &str) {
    fn plain(text: &str) -> Value {
        fn walk(value: &mut Value) {
            match value {
                Value::Object(members) => {
                    members
                        .retain(|name, value| !(name == "isError" && *value == Value::Bool(false)));
                    members.values_mut().for_each(walk);
                }
                Value::Array(items) => items.iter_mut().for_each(walk),
                Value::Number(number) => *value = number.as_f64().unwrap().into(),
                _ => {}
            }
        }
        let mut value = serde_json::from_str(text).unwrap();
        walk(&mut value);
        value
    }
    assert_eq!(plain(written), plain(original));
}

fn round_trip<T: Serialize + DeserializeOwned>(text: &str) {
    let Object(value) = serde_json::from_str::<Object<T>>(text).unwrap();
    same(&serde_json::to_string(&value).unwrap(), text);
}

/// By itself, and as one block of a result.
fn block<T: Serialize + DeserializeOwned>(text: &str) {
    round_trip::<T>(text);
    let block: ContentBlock = serde_json::from_str(text).unwrap();
    assert!(!matches!(block, ContentBlock::Other(_)));
    same(&serde_json::to_string(&block).unwrap(), text);
}

/// By itself, and as one block of a message; to a tool's result it is a type from elsewhere, kept whole.
fn sampling_block<T: Serialize + DeserializeOwned>(text: &str) {
    round_trip::<T>(text);
    let block: SamplingBlock = serde_json::from_str(text).unwrap();
    same(&serde_json::to_string(&block).unwrap(), text);
    let elsewhere: ContentBlock = serde_json::from_str(text).unwrap();
    assert!(matches!(elsewhere, ContentBlock::Other(_)));
    same(&serde_json::to_string(&elsewhere).unwrap(), text);
}

fn result<T: Serialize + DeserializeOwned>(text: &str) {
    assert_eq!(ResultType::of(&raw(text)), Ok(ResultType::Complete));
    round_trip::<T>(text);
}

fn round(text: &str) {
    let value = raw(text);
    assert_eq!(ResultType::of(&value), Ok(ResultType::InputRequired));
    let round = InputRequiredResult::parse(&value).unwrap();
    same(&serde_json::to_string(&round).unwrap(), text);
}

/// As a question of a round, and by the type of its kind.
fn question(text: &str) {
    let question: InputRequest = serde_json::from_str(text).unwrap();
    same(&serde_json::to_string(&question).unwrap(), text);
    let again = match question.kind().unwrap() {
        Kind::Form => InputRequest::form(&question.as_form().unwrap()),
        Kind::Url => InputRequest::url(&question.as_url().unwrap()),
        _ => InputRequest::sampling(&question.as_sampling().unwrap()),
    };
    same(&serde_json::to_string(&again).unwrap(), text);
}

/// The example has an id, which no question of this revision has: neither the schema nor the page on sampling or roots knows one.
fn roots_question(text: &str) {
    let question: InputRequest = serde_json::from_str(text).unwrap();
    assert_eq!(question.kind(), Ok(Kind::Roots));
    assert_eq!(question, InputRequest::roots());
    let mut published: Value = serde_json::from_str(text).unwrap();
    published.as_object_mut().unwrap().remove("id");
    same(
        &serde_json::to_string(&question).unwrap(),
        &published.to_string(),
    );
}

fn sampling_params(text: &str) {
    round_trip::<CreateMessageParams>(text);
    let Object(params) = serde_json::from_str::<Object<CreateMessageParams>>(text).unwrap();
    assert_eq!(params.check(), Ok(()));
    let kind = InputRequest::sampling(&params).kind().unwrap();
    assert_eq!(kind == Kind::SamplingWithTools, params.has_tools());
}

fn form(text: &str) {
    round_trip::<ElicitForm>(text);
    let form: ElicitForm = serde_json::from_str(text).unwrap();
    let schema = FormSchema::parse(&form.requested_schema).unwrap();
    assert!(!schema.fields.is_empty());
}

/// A form keeps its schema as text, so what is written is what was read; here it is understood too.
fn form_field(text: &str) {
    let schema = format!(r#"{{"type":"object","properties":{{"f":{text}}}}}"#);
    let schema = JsonObject::parse(&schema).unwrap();
    assert_eq!(FormSchema::parse(&schema).unwrap().fields.len(), 1);
}

fn answer_to(kind: Kind, text: &str) {
    let value = raw(text);
    let answer = InputAnswer::parse(&value, kind).unwrap();
    same(&serde_json::to_string(&answer).unwrap(), text);
}

fn elicit_answer(text: &str) {
    let value = raw(text);
    let has_content = Members::parse(&value).unwrap().get("content").is_some();
    let (own, other) = if has_content {
        (Kind::Form, Kind::Url)
    } else {
        (Kind::Url, Kind::Form)
    };
    answer_to(own, text);
    for other in [other, Kind::SamplingWithTools, Kind::Roots] {
        assert!(InputAnswer::parse(&value, other).is_err(), "{other}");
    }
}

fn sampling_answer(text: &str) {
    round_trip::<CreateMessageResult>(text);
    answer_to(Kind::SamplingWithTools, text);
    let value = raw(text);
    assert_eq!(
        InputAnswer::parse(&value, Kind::Sampling).is_ok(),
        !text.contains("tool_use")
    );
    for other in [Kind::Form, Kind::Url, Kind::Roots] {
        assert!(InputAnswer::parse(&value, other).is_err(), "{other}");
    }
}

fn roots_answer(text: &str) {
    round_trip::<ListRootsResult>(text);
    answer_to(Kind::Roots, text);
    let value = raw(text);
    for other in [Kind::Form, Kind::Url, Kind::SamplingWithTools] {
        assert!(InputAnswer::parse(&value, other).is_err(), "{other}");
    }
}

fn input_responses(text: &str) {
    let value = raw(text);
    let answers = InputResponses::parse(&value).unwrap();
    assert!(!answers.is_empty());
    for (key, answer) in answers.iter() {
        let fitting = Kind::ALL
            .into_iter()
            .filter(|kind| InputAnswer::parse(answer, *kind).is_ok())
            .collect::<Vec<_>>();
        assert!(
            fitting == [Kind::Form] || fitting == [Kind::Sampling, Kind::SamplingWithTools],
            "{key}: {fitting:?}"
        );
        for kind in fitting {
            answer_to(kind, answer.get());
        }
    }
}

/// Reads params with `of`, writes them, and looks at what every request carries.
fn params<'a, T: Serialize>(
    value: &'a RawValue,
    of: impl FnOnce(&Members<'a>) -> T,
) -> RequestMeta<'a> {
    let members = Members::parse(value).unwrap();
    same(&serde_json::to_string(&of(&members)).unwrap(), value.get());
    let meta = RequestMeta::of(&members).unwrap();
    assert_eq!(meta.protocol_version().unwrap(), mrtr_protocol::REVISION);
    meta.client_capabilities().unwrap();
    meta.client_info().unwrap();
    meta
}

fn call_tool_params(text: &str) {
    params(&raw(text), |members| CallToolParams::of(members).unwrap());
}

fn complete_params(text: &str) {
    params(&raw(text), |members| CompleteParams::of(members).unwrap());
}

fn get_prompt_params(text: &str) {
    params(&raw(text), |members| GetPromptParams::of(members).unwrap());
}

/// Only read: a client writes the cursor and `_meta`.
fn paginated_params(text: &str) {
    let value = raw(text);
    let params = PaginatedParams::of(&Members::parse(&value).unwrap()).unwrap();
    assert!(params.cursor.is_some());
}

fn request(text: &str) {
    let Ok(Message::Request(request)) = Message::parse(text.as_bytes()) else {
        panic!("{text}")
    };
    let params = request.params.unwrap();
    let written = write_request(&request.id, &request.method, params).unwrap();
    same(std::str::from_utf8(&written).unwrap(), text);
    match &*request.method {
        method::RESOURCES_READ => {
            self::params(params, |members| ReadResourceParams::of(members).unwrap());
        }
        method::SUBSCRIPTIONS_LISTEN => {
            self::params(params, |members| ListenParams::of(members).unwrap());
        }
        method::COMPLETION_COMPLETE => complete_params(params.get()),
        _ => {}
    }
}

/// Its params by themselves, and the whole message from them.
fn notification<T: Serialize + DeserializeOwned>(text: &str) {
    let Ok(Message::Notification(notification)) = Message::parse(text.as_bytes()) else {
        panic!("{text}")
    };
    let params: T = read(notification.params.unwrap()).unwrap();
    let written = write_notification(&notification.method, &params).unwrap();
    same(std::str::from_utf8(&written).unwrap(), text);
}

fn response(text: &str) {
    let response = Response::parse(text.as_bytes()).unwrap();
    let written = serialize_result(&response.id.unwrap(), response.outcome.unwrap()).unwrap();
    same(std::str::from_utf8(&written).unwrap(), text);
}

fn error_response(text: &str) {
    let response = Response::parse(text.as_bytes()).unwrap();
    let error = response.outcome.unwrap_err();
    assert!(error.known().is_some());
    same(
        std::str::from_utf8(&write_error(response.id.as_ref(), &error)).unwrap(),
        text,
    );
}
