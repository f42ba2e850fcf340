//! Headers: what stands before the body, and who decides by it.

use mrtr_protocol::headers::{METHOD, NAME, PROTOCOL_VERSION};

use crate::subject::{Stop, Subject};
use crate::trial::Finding;
use crate::wire::Message;

type Requests = Vec<(String, Message)>;

fn request(what: impl Into<String>, message: Message) -> (String, Message) {
    (what.into(), message)
}

pub(super) async fn mismatch(subject: &Subject<'_>) -> Result<Finding, Stop> {
    let good = subject.first().message();
    let requests = [
        (METHOD, "tools/list"),
        (METHOD, "TOOLS/CALL"),
        (NAME, "another-tool"),
        (NAME, "=?base64?YW5vdGhlcg==?="),
        (PROTOCOL_VERSION, "2025-11-25"),
        (PROTOCOL_VERSION, "2099-01-01"),
    ];
    let requests = requests
        .map(|(name, value)| request(format!("{name}: {value}"), good.clone().header(name, value)));
    subject.none_served(requests.into()).await
}

pub(super) async fn missing(subject: &Subject<'_>) -> Result<Finding, Stop> {
    let good = subject.first().message();
    let mut requests: Requests = [METHOD, NAME, PROTOCOL_VERSION]
        .map(|name| request(format!("no {name}"), good.clone().without(name)))
        .into();
    for name in [METHOD, NAME] {
        requests.push(request(
            format!("{name} empty"),
            good.clone().header(name, ""),
        ));
    }
    subject.none_served(requests).await
}

pub(super) async fn twice(subject: &Subject<'_>) -> Result<Finding, Stop> {
    let good = subject.first().message();
    let mut requests = Requests::new();
    let pairs = [
        (METHOD, "tools/list"),
        (NAME, "another-tool"),
        (PROTOCOL_VERSION, "2025-11-25"),
    ];
    for (name, other) in pairs {
        requests.push(request(
            format!("{name}, the wrong one behind"),
            good.clone().and_header(name, other),
        ));
        requests.push(request(
            format!("{name}, the wrong one before"),
            good.clone().header_first(name, other),
        ));
    }
    if let (Some(_), Some(other)) = (&subject.target.token, &subject.target.other_token) {
        let other = format!("Bearer {other}");
        let behind = good.clone().and_header("authorization", &other);
        requests.push(request(
            "authorization of two people, the other behind",
            behind,
        ));
        let before = good.header_first("authorization", &other);
        requests.push(request(
            "authorization of two people, the other before",
            before,
        ));
    }
    subject.none_served(requests).await
}

pub(super) async fn origin(subject: &Subject<'_>) -> Result<Finding, Stop> {
    let good = subject.first().message();
    let port = subject
        .endpoint
        .authority
        .rsplit(':')
        .next()
        .unwrap_or("80")
        .to_owned();
    let origins = [
        "http://evil.example".to_owned(),
        "https://evil.example".to_owned(),
        "null".to_owned(),
        "file://".to_owned(),
        format!("http://localhost.evil.example:{port}"),
        format!("http://127.0.0.1.evil.example:{port}"),
        format!("http://evil.example:{port}"),
        format!("http://127.0.0.1@evil.example:{port}"),
    ];
    let requests = origins.map(|origin| {
        let message = good.clone().header("origin", &origin);
        request(format!("Origin: {origin}"), message)
    });
    subject.none_served(requests.into()).await
}

pub(super) async fn host(subject: &Subject<'_>) -> Result<Finding, Stop> {
    if !subject.endpoint.is_loopback() {
        return Ok(Finding::not_applicable(
            "the server is not on this machine: which names are its own is its operator's to say",
        ));
    }
    let good = subject.first().message();
    let port = subject
        .endpoint
        .authority
        .rsplit(':')
        .next()
        .unwrap_or("80")
        .to_owned();
    let hosts = [
        "evil.example".to_owned(),
        format!("evil.example:{port}"),
        format!("localhost.evil.example:{port}"),
        format!("127.0.0.1.evil.example:{port}"),
        "192.0.2.1".to_owned(),
    ];
    let requests =
        hosts.map(|host| request(format!("Host: {host}"), good.clone().header("host", &host)));
    subject.none_served(requests.into()).await
}

pub(super) async fn media_type(subject: &Subject<'_>) -> Result<Finding, Stop> {
    let good = subject.first().message();
    let types = [
        "text/plain",
        "text/plain; charset=utf-8",
        "application/x-www-form-urlencoded",
        "multipart/form-data; boundary=x",
        "text/plain, application/json",
    ];
    let mut requests: Requests = types
        .map(|media| request(media, good.clone().header("content-type", media)))
        .into();
    requests.push(request("no media type", good.without("content-type")));
    subject.none_served(requests).await
}

pub(super) async fn lengths(subject: &Subject<'_>) -> Result<Finding, Stop> {
    let good = subject.first().message();
    let length = good.text().len();
    let with = |one: String, other: String| {
        let message = good.clone().header("content-length", &one);
        message.and_header("content-length", &other).may_fail()
    };
    let requests = vec![
        request(
            "the shorter one behind",
            with(length.to_string(), (length - 1).to_string()),
        ),
        request(
            "the shorter one before",
            with((length - 1).to_string(), length.to_string()),
        ),
        request("0 before", with("0".to_owned(), length.to_string())),
        request("0 behind", with(length.to_string(), "0".to_owned())),
        request(
            "a list",
            good.clone()
                .header("content-length", &format!("{length}, {}", length + 1))
                .may_fail(),
        ),
        request(
            "with a sign",
            good.clone()
                .header("content-length", &format!("+{length}"))
                .may_fail(),
        ),
    ];
    subject.none_served(requests).await
}
