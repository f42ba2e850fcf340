//! Every row that can say *unsafe* is shown to say it, by a server that is weak in one thing; and the others do not.

use std::net::Ipv4Addr;
use std::time::Duration;

use mrtr_probe::{Report, Target, Verdict};
use serde_json::json;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};

use crate::ours::{rows, target};
use crate::weak::{Weak, serve};

/// Longer than a run, for the servers whose weakness is another.
const LONG: Duration = Duration::from_secs(600);
/// Short enough to be waited for.
const SHORT: Duration = Duration::from_secs(2);

fn weak_target(url: &str) -> Target {
    let mut target = target(url);
    target.arguments = json!({ "to": "bob", "amount": 100 });
    target.other_tool = Some("donate".into());
    target.lifetime = None;
    // Enough to see every segment changed; `ours` tries all.
    target.max_positions = 48;
    target
}

async fn probed(weak: Weak) -> Report {
    let url = serve(weak, LONG).await;
    mrtr_probe::run(&weak_target(&url), |_| {}).await.unwrap()
}

fn assert_finds(weak: Weak, report: &Report, expected: &[&str], unknown: &[&str]) {
    assert_eq!(
        rows(report, Verdict::Unsafe),
        expected,
        "{weak:?}\n{report}"
    );
    assert_eq!(
        rows(report, Verdict::Unknown),
        unknown,
        "{weak:?}\n{report}"
    );
    for id in expected {
        let row = report.row(id).unwrap();
        assert!(!row.note.is_empty() && !row.rule.is_empty(), "{row:?}");
    }
}

macro_rules! finds {
    ($($name:ident: $weak:ident => [$($row:literal),*] $(unknown [$($unknown:literal),*])?;)*) => {
        $(#[tokio::test]
        async fn $name() {
            let report = probed(Weak::$weak).await;
            let unknown: &[&str] = &[$($($unknown),*)?];
            assert_finds(Weak::$weak, &report, &[$($row),*], unknown);
        })*
        /// The rows that some server above turns red.
        const SHOWN: &[&str] = &[$($($row,)*)*];
    };
}

finds! {
    a_server_that_is_strict: Nowhere => [];
    no_signature: Unsigned => ["changed-character", "truncated", "extended", "spliced", "forged-journal"];
    a_tag_in_part: TagInPart => ["truncated", "forged-journal"];
    a_tag_and_more: TagAndMore => ["extended"];
    aliases_of_base64: Spelling => ["other-spelling"];
    a_state_in_clear: InClear => ["made-up"];
    too_large_to_verify: TooLargeToVerify => ["oversized-state"];
    a_state_that_is_no_string: NoString => ["no-string"];
    no_binding_to_arguments: Arguments => ["other-arguments", "used-other-arguments"];
    no_binding_to_the_tool: Tool => ["other-tool"];
    no_binding_to_the_method: Method => ["other-method"];
    no_binding_to_the_principal: Principal => ["other-principal", "used-by-other"];
    stored_results_for_all: StoredForAll => ["used-by-other"];
    no_credentials_on_retries: NoCredentials => ["no-credentials"];
    answers_without_a_state: NoState => ["no-state", "misspelt"];
    members_without_case: CaseOfMembers => ["misspelt"];
    answers_under_any_key: AnyKey => ["other-key"];
    answers_of_any_kind: AnyKind => ["other-kind"];
    coerced_answers: Coerced => ["wrong-type"];
    any_action: AnyAction => ["no-answer"];
    a_no_with_content: NoWithContent => ["refusal"];
    a_list_that_runs_the_tool: Elsewhere => ["elsewhere"];
    no_single_use: Reusable => ["replay", "lost-response", "fork", "decline-then-accept", "cancel-then-accept", "concurrent-replay"];
    single_use_for_each_answer: Forks => ["fork", "decline-then-accept", "cancel-then-accept"];
    looked_up_and_then_used: Race => ["concurrent-replay"];
    spent_before_checked: BurnsFirst => ["spent-by-refusal"] unknown ["other-arguments", "other-tool", "other-method", "other-principal"];
    asks_whoever_calls: Undeclared => ["undeclared"];
    the_earlier_era_believes: EarlierEra => ["earlier-era"];
    headers_are_not_compared: HeadersUncompared => ["header-mismatch"];
    headers_are_not_required: HeadersMissing => ["header-missing"];
    the_first_of_two_headers: HeadersTwice => ["header-twice"];
    any_origin: Origin => ["foreign-origin"];
    any_host: Host => ["foreign-host"];
    any_media_type: MediaType => ["media-type"];
    the_last_of_two_members: MembersTwice => ["member-twice"];
    anything_behind_the_first_value: Trailing => ["member-twice", "broken-body"];
    arrays_of_requests: Batches => ["batch"];
    requests_without_ids: Notifications => ["notification"];
    bodies_of_any_size: LargeBodies => ["oversized-body"];
    a_deep_body_ends_it: DeepBodies => ["deep-body"];
    the_token_is_in_the_state: TokenInState => ["credentials-in-state"];
    errors_that_tell: Talkative => ["leaks"];
    internal_errors: Crashes => ["internal-errors"];
    gives_up: GivesUp => ["deep-body", "survives"] unknown ["credentials-in-state"];
}

async fn probed_for_expiry(weak: Weak) -> Report {
    let url = serve(weak, SHORT).await;
    let mut target = weak_target(&url);
    target.lifetime = Some(SHORT);
    mrtr_probe::run(&target, |_| {}).await.unwrap()
}

#[tokio::test]
async fn no_lifetime() {
    let report = probed_for_expiry(Weak::Lifetime).await;
    assert_finds(Weak::Lifetime, &report, &["expired"], &[]);
}

#[tokio::test]
async fn used_states_are_forgotten() {
    let report = probed_for_expiry(Weak::Forgetful).await;
    assert_finds(
        Weak::Forgetful,
        &report,
        &["expired", "expired-replay"],
        &[],
    );
}

/// No HTTP library serves two lengths; a proxy in front of one may.
#[tokio::test]
async fn the_first_of_two_lengths() {
    let behind = serve(Weak::Nowhere, LONG).await;
    let behind = behind
        .trim_start_matches("http://")
        .trim_end_matches("/mcp")
        .to_owned();
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
    let url = format!("http://{}/mcp", listener.local_addr().unwrap());
    tokio::spawn(async move {
        while let Ok((client, _)) = listener.accept().await {
            tokio::spawn(forwarded(client, behind.clone()));
        }
    });
    let report = mrtr_probe::run(&weak_target(&url), |_| {}).await.unwrap();
    assert_finds(Weak::Nowhere, &report, &["two-lengths"], &[]);
}

/// Passes a request on, with the first of its lengths that reads as a number.
async fn forwarded(mut client: TcpStream, behind: String) -> Option<()> {
    let mut request = Vec::new();
    let end = loop {
        let mut piece = [0; 4096];
        let read = client
            .read(&mut piece)
            .await
            .ok()
            .filter(|read| *read > 0)?;
        request.extend_from_slice(&piece[..read]);
        if let Some(end) = request.windows(4).position(|four| four == b"\r\n\r\n") {
            break end + 4;
        }
    };
    let head = String::from_utf8_lossy(&request[..end]).into_owned();
    let (lengths, others): (Vec<&str>, Vec<&str>) = head
        .trim_end()
        .split("\r\n")
        .partition(|line| line.starts_with("content-length:"));
    let mut length = lengths.iter().filter_map(|line| {
        let first = line
            .trim_start_matches("content-length:")
            .split(',')
            .next()?;
        first.trim().parse::<usize>().ok()
    });
    let mut head = others.join("\r\n");
    if let Some(length) = length.next() {
        head.push_str(&format!("\r\ncontent-length: {length}"));
    }
    let mut server = TcpStream::connect(behind).await.ok()?;
    server
        .write_all(format!("{head}\r\n\r\n").as_bytes())
        .await
        .ok()?;
    server.write_all(&request[end..]).await.ok()?;
    let _ = tokio::io::copy_bidirectional(&mut client, &mut server).await;
    Some(())
}

/// A row that no weak server turns red proves nothing.
#[tokio::test]
async fn every_row_is_shown_to_turn_red() {
    let elsewhere = ["expired", "expired-replay", "two-lengths"];
    let report = probed(Weak::Nowhere).await;
    for row in report.rows.iter().filter(|row| row.id != "good-path") {
        assert!(
            SHOWN.contains(&row.id) || elsewhere.contains(&row.id),
            "{}",
            row.id
        );
    }
    let na = rows(&report, Verdict::NotApplicable);
    assert_eq!(na, ["expired", "expired-replay"], "{report}");
}
