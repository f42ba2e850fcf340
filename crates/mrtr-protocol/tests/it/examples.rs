//! Each example that the specification publishes for a type of ours is read, written, and compared as JSON.

use std::fmt::Debug;
use std::path::{Path, PathBuf};

use mrtr_protocol::content::{
    AudioContent, EmbeddedResource, ImageContent, ResourceContents, ResourceLink, TextContent,
};
use mrtr_protocol::jsonrpc::{serialize_result, write_error, write_request};
use mrtr_protocol::{
    CallToolParams, CallToolResult, ClientCapabilities, ContentBlock, DiscoverResult, ElicitAction,
    ElicitForm, ErrorObject, FormSchema, InputRequest, InputRequests, InputRequiredResult,
    InputResponses, JsonObject, Kind, PaginatedParams, ListToolsResult, Members, Message, Object,
    RequestMeta, Response, ResultType, ServerCapabilities, Tool, strict,
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

/// Runs `check` on every file of a folder; a folder that is there must not be empty.
fn each(folder: &str, check: impl Fn(&str)) {
    let Some(root) = examples() else { return };
    let mut seen = 0;
    for entry in std::fs::read_dir(root.join(folder)).unwrap() {
        let path = entry.unwrap().path();
        let text = std::fs::read_to_string(&path).unwrap();
        println!("{}", path.display());
        strict::check(text.as_bytes()).unwrap();
        check(&text);
        seen += 1;
    }
    assert!(seen > 0, "{folder} is empty");
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

fn round_trip<T: Serialize + DeserializeOwned + Debug>(text: &str) {
    let Object(value) = serde_json::from_str::<Object<T>>(text).unwrap();
    same(&serde_json::to_string(&value).unwrap(), text);
}

/// For a type that refuses arrays by itself, because it reads the object's text.
fn round_trip_block(text: &str) {
    let block: ContentBlock = serde_json::from_str(text).unwrap();
    same(&serde_json::to_string(&block).unwrap(), text);
}

macro_rules! round_trips {
    ($($test:ident: $folder:literal as $type:ty;)*) => {
        $(#[test] fn $test() { each($folder, round_trip::<$type>); })*
    };
}

round_trips! {
    audio: "AudioContent" as AudioContent;
    image: "ImageContent" as ImageContent;
    text: "TextContent" as TextContent;
    embedded_resource: "EmbeddedResource" as EmbeddedResource;
    resource_link: "ResourceLink" as ResourceLink;
    text_resource: "TextResourceContents" as ResourceContents;
    blob_resource: "BlobResourceContents" as ResourceContents;
    call_tool_result: "CallToolResult" as CallToolResult;
    list_tools_result: "ListToolsResult" as ListToolsResult;
    discover_result: "DiscoverResult" as DiscoverResult;
    server_capabilities: "ServerCapabilities" as ServerCapabilities;
    client_capabilities: "ClientCapabilities" as ClientCapabilities;
    tool: "Tool" as Tool;
    elicit_request: "ElicitRequest" as InputRequest;
    form: "ElicitRequestFormParams" as ElicitForm;
    input_requests: "InputRequests" as InputRequests;
    sampling_request: "CreateMessageRequest" as InputRequest;
    internal_error: "InternalError" as ErrorObject;
    invalid_params_error: "InvalidParamsError" as ErrorObject;
    method_not_found_error: "MethodNotFoundError" as ErrorObject;
    parse_error: "ParseError" as ErrorObject;
}

#[test]
fn content_blocks() {
    for folder in [
        "AudioContent",
        "ImageContent",
        "TextContent",
        "EmbeddedResource",
        "ResourceLink",
    ] {
        each(folder, round_trip_block);
    }
    // A type of content that no tool result has: kept whole.
    each("ToolUseContent", |text| {
        assert!(matches!(
            serde_json::from_str(text),
            Ok(ContentBlock::Other(_))
        ));
        round_trip_block(text);
    });
}

#[test]
fn kinds_of_questions() {
    let kind = |text: &str| serde_json::from_str::<InputRequest>(text).unwrap().kind();
    each("ElicitRequest", |text| {
        assert_eq!(kind(text), Ok(Kind::Form))
    });
    each("ListRootsRequest", |text| {
        assert_eq!(kind(text), Ok(Kind::Roots))
    });
    each("CreateMessageRequest", |text| {
        assert!(matches!(
            kind(text),
            Ok(Kind::Sampling | Kind::SamplingWithTools)
        ))
    });
    each("ElicitRequestURLParams", |text| {
        assert_eq!(
            kind(&format!(
                r#"{{"method":"elicitation/create","params":{text}}}"#
            )),
            Ok(Kind::Url)
        );
        assert!(serde_json::from_str::<ElicitForm>(text).is_err());
    });
}

#[test]
fn form_schemas() {
    each("ElicitRequestFormParams", |text| {
        let form: ElicitForm = serde_json::from_str(text).unwrap();
        assert!(
            !FormSchema::parse(&form.requested_schema)
                .unwrap()
                .fields
                .is_empty()
        );
    });
    for folder in [
        "BooleanSchema",
        "NumberSchema",
        "StringSchema",
        "TitledMultiSelectEnumSchema",
        "TitledSingleSelectEnumSchema",
        "UntitledMultiSelectEnumSchema",
        "UntitledSingleSelectEnumSchema",
    ] {
        each(folder, |text| {
            let schema = JsonObject::parse(&format!(
                r#"{{"type":"object","properties":{{"f":{text}}}}}"#
            ))
            .unwrap();
            assert_eq!(FormSchema::parse(&schema).unwrap().fields.len(), 1);
        });
    }
}

#[test]
fn answers() {
    each("ElicitResult", |text| {
        let value = raw(text);
        let has_content = Members::parse(&value).unwrap().get("content").is_some();
        let kind = if has_content { Kind::Form } else { Kind::Url };
        let action = ElicitAction::parse(&value, kind).unwrap();
        same(&serde_json::to_string(&action).unwrap(), text);
    });
    each("InputResponses", |text| {
        let value = raw(text);
        let answers = InputResponses::parse(&value).unwrap();
        assert!(!answers.is_empty());
        for (key, answer) in answers.iter() {
            let by_form = ElicitAction::parse(answer, Kind::Form);
            assert_eq!(
                by_form.is_ok(),
                answer.get().contains("\"action\""),
                "{key}"
            );
        }
    });
}

#[test]
fn rounds() {
    each("InputRequiredResult", |text| {
        let value = raw(text);
        assert_eq!(ResultType::of(&value), Ok(ResultType::InputRequired));
        let round = InputRequiredResult::parse(&value).unwrap();
        same(&serde_json::to_string(&round).unwrap(), text);
    });
    for folder in ["CallToolResult", "ListToolsResult", "DiscoverResult"] {
        each(folder, |text| {
            assert_eq!(ResultType::of(&raw(text)), Ok(ResultType::Complete))
        });
    }
}

#[test]
fn params() {
    each("CallToolRequestParams", |text| {
        let value = raw(text);
        let members = Members::parse(&value).unwrap();
        let params = CallToolParams::of(&members).unwrap();
        same(&serde_json::to_string(&params).unwrap(), text);
        let meta = RequestMeta::of(&members).unwrap();
        assert_eq!(meta.protocol_version().unwrap(), mrtr_protocol::REVISION);
        meta.client_capabilities().unwrap();
        meta.client_info().unwrap();
    });
    each("PaginatedRequestParams", |text| {
        let value = raw(text);
        assert!(
            PaginatedParams::of(&Members::parse(&value).unwrap())
                .unwrap()
                .cursor
                .is_some()
        );
    });
}

#[test]
fn requests() {
    for folder in ["CallToolRequest", "DiscoverRequest", "ListToolsRequest"] {
        each(folder, |text| {
            let Ok(Message::Request(request)) = Message::parse(text.as_bytes()) else {
                panic!("{text}")
            };
            let written =
                write_request(&request.id, &request.method, request.params.unwrap()).unwrap();
            same(std::str::from_utf8(&written).unwrap(), text);
        });
    }
    each("CancelledNotification", |text| {
        assert!(matches!(
            Message::parse(text.as_bytes()),
            Ok(Message::Notification(_))
        ))
    });
}

#[test]
fn responses() {
    for folder in [
        "CallToolResultResponse",
        "DiscoverResultResponse",
        "ListToolsResultResponse",
    ] {
        each(folder, |text| {
            let response = Response::parse(text.as_bytes()).unwrap();
            let written =
                serialize_result(&response.id.unwrap(), response.outcome.unwrap()).unwrap();
            same(std::str::from_utf8(&written).unwrap(), text);
        });
    }
    for folder in [
        "HeaderMismatchError",
        "MissingRequiredClientCapabilityError",
        "UnsupportedProtocolVersionError",
    ] {
        each(folder, |text| {
            let response = Response::parse(text.as_bytes()).unwrap();
            let error = response.outcome.unwrap_err();
            assert!(error.known().is_some());
            same(
                std::str::from_utf8(&write_error(response.id.as_ref(), &error)).unwrap(),
                text,
            );
        });
    }
}
