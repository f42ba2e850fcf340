//! The state itself: changed, spelt otherwise, cut, made up.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::{Value, json};

use crate::decode::{edits, flipped, parts, segments, unused_bits};
use crate::subject::{Stop, Subject};
use crate::trial::{Finding, Flows, Try};

/// How many edits of a journal are tried.
const EDITS: usize = 48;

/// A try with another state, made of the one that was issued; `None` where the one at hand has nothing to make it of.
fn instead<'t>(
    what: impl Into<String>,
    make: impl Fn(&str) -> Option<String> + Send + Sync + 't,
) -> Try<'t> {
    Try::new(what, move |subject, prey| {
        // A state of another length than the first has no such position; nothing is then as good as another spelling.
        let other = make(prey.text()).unwrap_or_else(|| format!("{}!", prey.text()));
        subject.retry_with(prey, other).message()
    })
}

/// Positions of a text of this length, all or evenly spread.
fn spread(length: usize, most: usize) -> Vec<usize> {
    let most = most.max(1);
    if length <= most {
        return (0..length).collect();
    }
    (0..most).map(|index| index * length / most).collect()
}

pub(super) async fn changed(subject: &Subject<'_>) -> Result<Finding, Stop> {
    let length = subject.open().await?.text().len();
    let positions = spread(length, subject.target.max_positions);
    let tried = positions.len();
    let tries = positions
        .into_iter()
        .map(|at| instead(format!("position {at}"), move |state| flipped(state, at)));
    let mut finding = subject.none_acts(tries.collect(), Flows::Shared).await?;
    if tried < length {
        finding
            .note
            .push_str(&format!("; {tried} of {length} positions, evenly spread"));
    }
    Ok(finding)
}

/// Texts that a careless decoder takes for the same bytes.
fn spellings(state: &str) -> Vec<(String, String)> {
    let mut all = Vec::new();
    let mut add = |what: &str, text: String| {
        if text != state && !all.iter().any(|(_, other)| *other == text) {
            all.push((what.to_owned(), text));
        }
    };
    for (name, end) in [
        ("=", "="),
        ("==", "=="),
        ("a space", " "),
        ("a line feed", "\n"),
        ("CR LF", "\r\n"),
        ("a tab", "\t"),
        ("%3D", "%3D"),
        ("a NUL", "\0"),
    ] {
        add(&format!("{name} behind it"), format!("{state}{end}"));
        add(&format!("{name} before it"), format!("{end}{state}"));
    }
    if let Some((start, end)) = state.split_at_checked(state.len() / 2) {
        add("a line feed in the middle", format!("{start}\n{end}"));
        add("a space in the middle", format!("{start} {end}"));
    }
    add(
        "the other alphabet",
        state.replace('-', "+").replace('_', "/"),
    );
    add(
        "the URL-safe alphabet",
        state.replace('+', "-").replace('/', "_"),
    );
    add("without padding", state.replace('=', ""));
    add("in capitals", state.to_uppercase());
    add("in small letters", state.to_lowercase());
    add(
        "percent-encoded",
        state.bytes().map(|byte| format!("%{byte:02X}")).collect(),
    );
    add("in quotes", format!("\"{state}\""));
    let segments = segments(state);
    for (index, segment) in segments.iter().enumerate() {
        let with = |other: &str| {
            let mut segments = segments.clone();
            if let Some(segment) = segments.get_mut(index) {
                *segment = other;
            }
            segments.join(".")
        };
        for other in unused_bits(segment) {
            add(&format!("unused bits of segment {index}"), with(&other));
        }
        let padding = "=".repeat((4 - segment.len() % 4) % 4);
        add(
            &format!("segment {index} padded"),
            with(&format!("{segment}{padding}")),
        );
    }
    all
}

pub(super) async fn spelled(subject: &Subject<'_>) -> Result<Finding, Stop> {
    let prey = subject.open().await?;
    let count = spellings(prey.text()).len();
    // Each is made of the state at hand, which may be another by then.
    let tries = (0..count).map(|index| {
        let what = spellings(prey.text())
            .get(index)
            .map(|(what, _)| what.clone());
        instead(what.unwrap_or_default(), move |state| {
            Some(spellings(state).get(index)?.1.clone())
        })
    });
    subject.none_acts(tries.collect(), Flows::Shared).await
}

pub(super) async fn truncated(subject: &Subject<'_>) -> Result<Finding, Stop> {
    let prey = subject.open().await?;
    let length = prey.text().len();
    let mut tries: Vec<Try<'_>> = spread(length, 24)
        .into_iter()
        .chain((1..=4).map(|cut| length.saturating_sub(cut)))
        .map(|kept| {
            instead(format!("the first {kept} characters"), move |state| {
                Some(state.get(..kept)?.to_owned())
            })
        })
        .collect();
    tries.push(instead("without its first character", |state| {
        Some(state.get(1..)?.to_owned())
    }));
    for index in 0..segments(prey.text()).len() {
        tries.push(instead(format!("without segment {index}"), move |state| {
            let mut segments = segments(state);
            (index < segments.len()).then(|| segments.remove(index))?;
            Some(segments.join("."))
        }));
        tries.push(instead(format!("segment {index} empty"), move |state| {
            let mut segments = segments(state);
            *segments.get_mut(index)? = "";
            Some(segments.join("."))
        }));
    }
    subject.none_acts(tries, Flows::Shared).await
}

pub(super) async fn extended(subject: &Subject<'_>) -> Result<Finding, Stop> {
    let behind = ["A", "AAAA", ".", ".AAAA", ",", "\u{0}AAAA", "é"];
    let mut tries: Vec<Try<'_>> = Vec::new();
    for more in behind {
        tries.push(instead(format!("{more:?} behind it"), move |state| {
            Some(format!("{state}{more}"))
        }));
        tries.push(instead(format!("{more:?} before it"), move |state| {
            Some(format!("{more}{state}"))
        }));
    }
    tries.push(instead("twice", |state| Some(format!("{state}{state}"))));
    tries.push(instead("twice, with a dot", |state| {
        Some(format!("{state}.{state}"))
    }));
    tries.push(instead("twice, with a comma", |state| {
        Some(format!("{state},{state}"))
    }));
    subject.none_acts(tries, Flows::Shared).await
}

pub(super) async fn spliced(subject: &Subject<'_>) -> Result<Finding, Stop> {
    let other = subject.open().await?.text().to_owned();
    let shown = subject.open().await?;
    let mut tries = Vec::new();
    // Cut where they differ: elsewhere the parts make one of the two again.
    let pairs = other.bytes().zip(shown.text().bytes()).enumerate();
    let differ: Vec<usize> = pairs
        .filter(|(_, (one, other))| one != other)
        .map(|(at, _)| at)
        .collect();
    let first = differ.first().copied().unwrap_or(0);
    let last = differ.last().copied().unwrap_or(0);
    for cut in [1, 2, 3].map(|quarter| first + (last - first) * quarter / 4) {
        let other = other.clone();
        tries.push(instead(
            format!("one up to {cut}, another behind"),
            move |state| {
                let spliced = format!("{}{}", state.get(..cut)?, other.get(cut..)?);
                (spliced != other && spliced != state).then_some(spliced)
            },
        ));
    }
    let others: Vec<String> = segments(&other).into_iter().map(str::to_owned).collect();
    let differs = |index: usize, segment: &String| {
        segments(shown.text())
            .get(index)
            .is_some_and(|mine| mine != segment)
    };
    // All segments of the other but one are the other itself where two differ in one alone.
    let different = others
        .iter()
        .enumerate()
        .filter(|(index, segment)| differs(*index, segment));
    if different.count() > 1 {
        for (index, segment) in others
            .iter()
            .enumerate()
            .filter(|(index, segment)| differs(*index, segment))
        {
            let segment = segment.clone();
            tries.push(instead(
                format!("another's segment {index}"),
                move |state| {
                    let mut segments = segments(state);
                    *segments.get_mut(index)? = &segment;
                    Some(segments.join("."))
                },
            ));
        }
    }
    subject.none_acts(tries, Flows::Shared).await
}

/// The segments with one replaced.
fn replaced<'s>(pieces: &[&'s str], index: usize, text: &'s str) -> Vec<&'s str> {
    let mut pieces = pieces.to_vec();
    if let Some(piece) = pieces.get_mut(index) {
        *piece = text;
    }
    pieces
}

/// States that hold the same journal or an edited one, with a tag that cannot be right.
fn forgeries(state: &str) -> Vec<(String, String)> {
    let pieces = segments(state);
    let last = pieces.len().saturating_sub(1);
    let mut all = Vec::new();
    let mut add = |what: String, pieces: &[&str]| {
        let text = pieces.join(".");
        if text != state {
            all.push((what, text));
        }
    };
    for part in parts(state) {
        for (number, edited) in edits(&part.json).iter().take(EDITS).enumerate() {
            add(
                format!("edit {number} of segment {}", part.index),
                &replaced(&pieces, part.index, &part.write(edited)),
            );
        }
        if part.json.get("alg").is_some() {
            let mut none = part.json.clone();
            if let Some(algorithm) = none.get_mut("alg") {
                *algorithm = "none".into();
            }
            let written = part.write(&none);
            let mut pieces = replaced(&pieces, part.index, &written);
            add("algorithm none".to_owned(), &pieces);
            if let Some(tag) = pieces.get_mut(last) {
                *tag = "";
            }
            add("algorithm none, no tag".to_owned(), &pieces);
        }
    }
    if pieces.len() > 1 {
        let zeros = "A".repeat(pieces.get(last).map_or(0, |tag| tag.len()));
        add(
            "a tag of zeros".to_owned(),
            &replaced(&pieces, last, &zeros),
        );
        add("no tag".to_owned(), &replaced(&pieces, last, ""));
        add(
            "without its tag".to_owned(),
            pieces.get(..last).unwrap_or_default(),
        );
        for prefix in ["none", "v0", "NONE", "mrtr0", ""] {
            add(format!("prefix {prefix:?}"), &replaced(&pieces, 0, prefix));
        }
        for variant in ["h", "x", "none", "s", "0"] {
            if pieces.len() > 2 {
                add(
                    format!("variant {variant:?}"),
                    &replaced(&pieces, 1, variant),
                );
            }
        }
    }
    all
}

pub(super) async fn forged(subject: &Subject<'_>) -> Result<Finding, Stop> {
    let prey = subject.open().await?;
    let shown = forgeries(prey.text());
    if shown.is_empty() {
        return Ok(Finding::not_applicable(
            "the state is one piece, and without a key nothing of it can be read",
        ));
    }
    let tries = shown.into_iter().enumerate().map(|(index, (what, _))| {
        instead(what, move |state| {
            Some(forgeries(state).get(index)?.1.clone())
        })
    });
    subject.none_acts(tries.collect(), Flows::Shared).await
}

pub(super) async fn made_up(subject: &Subject<'_>) -> Result<Finding, Stop> {
    let encoded = |value: Value| URL_SAFE_NO_PAD.encode(value.to_string());
    let open = json!({ "step": 1, "confirmed": true, "approved": true });
    let states = [
        String::new(),
        " ".into(),
        "hello".into(),
        "null".into(),
        "true".into(),
        "0".into(),
        "{}".into(),
        "[]".into(),
        open.to_string(),
        encoded(json!({})),
        encoded(open.clone()),
        format!("{}.{}.", encoded(json!({ "alg": "none" })), encoded(open)),
        "..".into(),
        "mrtr1.h.AAAAAAAA.e30.AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA".into(),
        "../../etc/passwd".into(),
        "' OR '1'='1".into(),
        "\u{0}".into(),
        "\u{1f510}".into(),
    ];
    let tries = states.into_iter().map(|state| {
        Try::new(format!("{state:?}"), move |subject, prey| {
            subject.retry_with(prey, state.clone()).message()
        })
    });
    subject.none_acts(tries.collect(), Flows::Shared).await
}

pub(super) async fn oversized(subject: &Subject<'_>) -> Result<Finding, Stop> {
    const LARGE: usize = 1024 * 1024;
    let tries = vec![
        instead("1 MiB of A", |_| Some("A".repeat(LARGE))),
        instead("the state and 1 MiB of A", |state| {
            Some(format!("{state}{}", "A".repeat(LARGE)))
        }),
        instead("half a million dots", |_| Some(".".repeat(LARGE / 2))),
    ];
    subject.none_acts(tries, Flows::Shared).await
}

pub(super) async fn no_string(subject: &Subject<'_>) -> Result<Finding, Stop> {
    let mut tries = Vec::new();
    for value in [
        json!(1),
        json!(0),
        json!(1.5),
        json!(true),
        json!(false),
        json!(null),
        json!([]),
        json!({}),
        json!({ "step": 1, "confirmed": true }),
    ] {
        let what = value.to_string();
        tries.push(Try::new(what, move |subject, prey| {
            subject.retry_with(prey, value.clone()).message()
        }));
    }
    tries.push(Try::new("the state in an array", |subject, prey| {
        subject.retry_with(prey, json!([prey.text()])).message()
    }));
    tries.push(Try::new("the state in an object", |subject, prey| {
        subject
            .retry_with(prey, json!({ "requestState": prey.text() }))
            .message()
    }));
    subject.none_acts(tries, Flows::Shared).await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn positions_are_all_or_evenly_spread() {
        assert_eq!(spread(3, 10), [0, 1, 2]);
        assert_eq!(spread(100, 4), [0, 25, 50, 75]);
        assert!(spread(0, 4).is_empty());
    }

    #[test]
    fn no_spelling_and_no_forgery_is_the_state() {
        let state = format!(
            "v1.{}.c2lnbmF0dXJl",
            URL_SAFE_NO_PAD.encode(r#"{"alg":"h","n":1}"#)
        );
        let spelt = spellings(&state);
        let forged = forgeries(&state);
        assert!(spelt.iter().chain(&forged).all(|(_, text)| *text != state));
        assert!(
            forged
                .iter()
                .any(|(what, _)| what == "algorithm none, no tag")
        );
        assert!(
            spelt
                .iter()
                .any(|(what, _)| what.starts_with("unused bits of segment 1"))
        );
    }
}
