//! A token, changed in every way that is cheap to try.

use std::fmt;

/// A token that is not the one it was made from.
///
/// Debug prints how it was changed and its length, and not the token.
#[derive(Clone, PartialEq, Eq)]
pub struct Tampered {
    /// What was done to it, for a failed test's message.
    pub how: String,
    /// The token.
    pub token: String,
}

impl fmt::Debug for Tampered {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({} bytes)", self.how, self.token.len())
    }
}

/// The alphabet of base64url, by value.
const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

/// Put behind, before and into a segment by those who think that a decoder does not look.
const FILLERS: [(&str, &str); 10] = [
    ("padding", "="),
    ("more padding", "=="),
    ("escaped padding", "%3D"),
    ("a space", " "),
    ("a tab", "\t"),
    ("a line feed", "\n"),
    ("a line break", "\r\n"),
    ("a zero byte", "\0"),
    ("a zero-width space", "\u{200b}"),
    ("a letter", "A"),
];

/// Everything that this knows to do to a token: none of the results is the token, and none may be taken for it.
///
/// * at every position several other characters: neighbours in base64url, the other case, a dot, what base64 does not have;
/// * every character removed, doubled, swapped with the next; the token cut off at every position, from both ends;
/// * other spellings of the same bytes: padding, white space, percent-encoding, the other alphabet, other letters in the bits
///   that a segment's last character does not use;
/// * segments swapped, dropped, doubled, emptied; other versions and variants.
///
/// The number grows with the token's length, about fifteen for each character. A token of any shape will do; what is said of segments is
/// about the parts between dots.
///
/// ```
/// use mrtr_testkit::tamper;
///
/// let token = "mrtr1.h.AAAAAAAAAAA.eyJ2IjoxfQ.c2lnbmF0dXJl";
/// assert!(tamper(token).all(|tampered| tampered.token != token));
/// assert!(tamper(token).any(|tampered| tampered.token == format!("{token}=")));
/// ```
///
/// **What it does not try:** forging with a key, mixing parts of two good tokens (`mrtr_state::codec_suite!` does), and a token
/// that is good and belongs to somebody or something else.
pub fn tamper(token: &str) -> impl Iterator<Item = Tampered> {
    let token = token.to_owned();
    let original = token.clone();
    characters(token.clone())
        .chain(cuts(token.clone()))
        .chain(whole(token.clone()))
        .chain(spellings(token.clone()))
        .chain(segments(token))
        .filter(move |tampered| tampered.token != original)
}

fn tampered(how: impl Into<String>, token: impl Into<String>) -> Tampered {
    Tampered {
        how: how.into(),
        token: token.into(),
    }
}

/// What lies before a character, it, and what lies behind it, with its position in bytes.
fn positions(token: String) -> impl Iterator<Item = (usize, String, char, String)> {
    let at: Vec<(usize, char)> = token.char_indices().collect();
    at.into_iter().map(move |(at, present)| {
        let (before, rest) = token.split_at(at);
        let (_, after) = rest.split_at(present.len_utf8());
        (at, before.to_owned(), present, after.to_owned())
    })
}

fn characters(token: String) -> impl Iterator<Item = Tampered> {
    positions(token).flat_map(|(at, before, present, after)| {
        let mut all: Vec<Tampered> = others(present)
            .into_iter()
            .map(|other| {
                tampered(
                    format!("character {at}: {present:?} became {other:?}"),
                    format!("{before}{other}{after}"),
                )
            })
            .collect();
        all.push(tampered(
            format!("character {at}: {present:?} removed"),
            format!("{before}{after}"),
        ));
        all.push(tampered(
            format!("character {at}: {present:?} doubled"),
            format!("{before}{present}{present}{after}"),
        ));
        let mut rest = after.chars();
        if let Some(next) = rest.next() {
            all.push(tampered(
                format!("character {at}: {present:?} swapped with the next"),
                format!("{before}{next}{present}{}", rest.as_str()),
            ));
        }
        all
    })
}

/// Characters to stand in a character's place, itself left out.
fn others(present: char) -> Vec<char> {
    let mut others = vec!['.', '=', ' ', '+', '\n', '\u{e9}'];
    let value = ALPHABET.iter().position(|&own| char::from(own) == present);
    if let Some(value) = value {
        // The lowest bit, which a segment's last character may not use; the highest; and a bit between.
        let neighbours = [value ^ 1, value ^ 8, value ^ 32];
        others.extend(
            neighbours
                .into_iter()
                .filter_map(|value| ALPHABET.get(value))
                .map(|&c| char::from(c)),
        );
    }
    if present.is_ascii_alphabetic() {
        others.push(if present.is_ascii_lowercase() {
            present.to_ascii_uppercase()
        } else {
            present.to_ascii_lowercase()
        });
    }
    others.retain(|&other| other != present);
    others.sort_unstable();
    others.dedup();
    others
}

fn cuts(token: String) -> impl Iterator<Item = Tampered> {
    positions(token).flat_map(|(at, before, present, after)| {
        [
            tampered(format!("cut off before byte {at}"), before),
            tampered(
                format!("everything up to byte {at} cut away"),
                format!("{present}{after}"),
            ),
        ]
    })
}

/// What concerns the token as a whole.
fn whole(token: String) -> impl Iterator<Item = Tampered> {
    [
        tampered("emptied", ""),
        tampered("in capitals", token.to_uppercase()),
        tampered("in small letters", token.to_lowercase()),
        tampered("twice", format!("{token}{token}")),
        tampered("twice, with a dot", format!("{token}.{token}")),
        tampered("a dot behind it", format!("{token}.")),
        tampered("a dot before it", format!(".{token}")),
        tampered("a byte order mark before it", format!("\u{feff}{token}")),
        tampered("in quotes", format!("\"{token}\"")),
        tampered("dots escaped", token.replace('.', "%2E")),
        tampered("dots of full width", token.replace('.', "\u{ff0e}")),
        tampered(
            "in the other alphabet",
            token.replace('-', "+").replace('_', "/"),
        ),
        tampered(
            "its characters reversed",
            token.chars().rev().collect::<String>(),
        ),
    ]
    .into_iter()
}

/// The token's segments, and the token again with one of them replaced.
#[derive(Clone)]
struct Segments(Vec<String>);

impl Segments {
    fn of(token: &str) -> Segments {
        Segments(token.split('.').map(ToOwned::to_owned).collect())
    }

    fn with(&self, index: usize, segment: &str) -> String {
        let mut segments: Vec<&str> = self.0.iter().map(String::as_str).collect();
        if let Some(own) = segments.get_mut(index) {
            *own = segment;
        }
        segments.join(".")
    }
}

/// The same bytes, spelt otherwise, segment by segment.
fn spellings(token: String) -> impl Iterator<Item = Tampered> {
    let all = Segments::of(&token);
    let each: Vec<(usize, String)> = all.0.iter().cloned().enumerate().collect();
    each.into_iter().flat_map(move |(index, segment)| {
        let mut found: Vec<(String, String)> = Vec::new();
        let middle = segment
            .char_indices()
            .nth(segment.chars().count() / 2)
            .map_or(0, |(at, _)| at);
        let (front, back) = segment.split_at(middle);
        for (name, filler) in FILLERS {
            found.push((format!("{name} behind"), format!("{segment}{filler}")));
            found.push((format!("{name} before"), format!("{filler}{segment}")));
            found.push((format!("{name} inside"), format!("{front}{filler}{back}")));
        }
        for (name, from, to) in [
            ("`-` as `+` in", '-', "+"),
            ("`_` as `/` in", '_', "/"),
            ("`-` escaped in", '-', "%2D"),
            ("`_` escaped in", '_', "%5F"),
        ] {
            found.push((name.to_owned(), segment.replace(from, to)));
        }
        let mut characters = segment.chars();
        if let Some(first) = characters.next().filter(char::is_ascii) {
            let rest = characters.as_str();
            found.push((
                "the first character escaped in".to_owned(),
                format!("%{:02X}{rest}", u32::from(first)),
            ));
        }
        for other in with_unused_bits(&segment) {
            found.push(("other unused bits in".to_owned(), other));
        }
        let all = all.clone();
        found.into_iter().map(move |(how, segment)| {
            tampered(format!("{how} segment {index}"), all.with(index, &segment))
        })
    })
}

/// The segment with the bits that its last character does not use set in every way. Wherever those are not looked at, all of
/// them are the same bytes.
fn with_unused_bits(segment: &str) -> Vec<String> {
    let unused = match segment.len() % 4 {
        2 => 4,
        3 => 2,
        _ => return Vec::new(),
    };
    let mut rest = segment.chars();
    let Some(last) = rest.next_back() else {
        return Vec::new();
    };
    let Some(value) = ALPHABET.iter().position(|&own| char::from(own) == last) else {
        return Vec::new();
    };
    let rest = rest.as_str();
    (0..1 << unused)
        .filter_map(|bits| ALPHABET.get((value >> unused << unused) | bits))
        .map(|&other| format!("{rest}{}", char::from(other)))
        .collect()
}

/// Segments as pieces.
fn segments(token: String) -> impl Iterator<Item = Tampered> {
    let all = Segments::of(&token).0;
    let count = all.len();
    let mut found = Vec::new();
    let mut keep = |how: String, segments: &[String]| found.push(tampered(how, segments.join(".")));
    for index in 0..count {
        for other in index + 1..count {
            let mut segments = all.clone();
            segments.swap(index, other);
            keep(format!("segments {index} and {other} swapped"), &segments);
        }
        let mut segments = all.clone();
        let segment = segments.remove(index);
        keep(format!("segment {index} dropped"), &segments);
        segments.insert(index, segment.clone());
        segments.insert(index, segment);
        keep(format!("segment {index} doubled"), &segments);
        let mut segments = all.clone();
        if let Some(segment) = segments.get_mut(index) {
            segment.clear();
        }
        keep(format!("segment {index} emptied"), &segments);
    }
    for version in ["mrtr0", "mrtr2", "mrtr01", "mrtr", "1", "v1"] {
        found.push(tampered(
            format!("version {version:?}"),
            Segments(all.clone()).with(0, version),
        ));
    }
    for variant in ["h", "x", "n", "none", "H", "X", "hx", "0"] {
        found.push(tampered(
            format!("variant {variant:?}"),
            Segments(all.clone()).with(1, variant),
        ));
    }
    found.into_iter()
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    const TOKEN: &str = "mrtr1.h.AAAAAAAAAAA.ey-2_joxfQ.c2lnbmF0dXJlcw";

    #[test]
    fn everything_is_another_string() {
        let all: Vec<Tampered> = tamper(TOKEN).collect();
        assert!(all.iter().all(|tampered| tampered.token != TOKEN));
        let distinct: HashSet<&str> = all.iter().map(|one| one.token.as_str()).collect();
        assert!(distinct.len() > TOKEN.len() * 10, "{}", distinct.len());
    }

    #[test]
    fn what_is_promised_is_there() {
        let all: HashSet<String> = tamper(TOKEN).map(|tampered| tampered.token).collect();
        for at in 0..TOKEN.len() {
            let (before, rest) = TOKEN.split_at(at);
            let (present, after) = rest.split_at(1);
            assert!(all.contains(before), "a cut at {at}");
            assert!(
                at == 0 || all.contains(rest),
                "a cut from the front at {at}"
            );
            // Removing or doubling one of a run, or swapping two that are alike, is still a change or none at all.
            assert!(all.contains(&format!("{before}{after}")), "{at} removed");
            assert!(all.contains(&format!("{before}{present}{present}{after}")));
            if let Some(next) = after.get(..1).filter(|next| *next != present) {
                assert!(all.contains(&format!("{before}{next}{present}{}", &after[1..])));
            }
            let changed = all.iter().filter(|other| {
                other.starts_with(before) && other.ends_with(after) && other.len() == TOKEN.len()
            });
            assert!(changed.count() >= 4, "position {at} becomes too little");
        }
        for spelling in [
            "mrtr1.h.AAAAAAAAAAA=.ey-2_joxfQ.c2lnbmF0dXJlcw",
            "mrtr1.h.AAAAAAAAAAA.ey-2_joxfQ==.c2lnbmF0dXJlcw",
            "mrtr1.h.AAAAAAAAAAA.ey-2_joxfQ%3D.c2lnbmF0dXJlcw",
            "mrtr1.h.AAAAAAAAAAA.ey-2_joxfQ.c2lnbmF0dXJlcw\n",
            " mrtr1.h.AAAAAAAAAAA.ey-2_joxfQ.c2lnbmF0dXJlcw",
            "mrtr1.h.AAAAAAAAAAA.ey+2/joxfQ.c2lnbmF0dXJlcw",
            "mrtr1.h.AAAAAAAAAAA.ey+2_joxfQ.c2lnbmF0dXJlcw",
            "mrtr1.h.AAAAAAAAAAA.ey-2_joxfR.c2lnbmF0dXJlcw",
            "mrtr1.h.AAAAAAAAAAA.ey-2_joxff.c2lnbmF0dXJlcw",
            "mrtr1.h.AAAAAAAAAAA.c2lnbmF0dXJlcw.ey-2_joxfQ",
            "mrtr1.h.AAAAAAAAAAA.ey-2_joxfQ",
            "mrtr1.h.AAAAAAAAAAA.ey-2_joxfQ.",
            "mrtr1.h..ey-2_joxfQ.c2lnbmF0dXJlcw",
            "mrtr1.x.AAAAAAAAAAA.ey-2_joxfQ.c2lnbmF0dXJlcw",
            "mrtr2.h.AAAAAAAAAAA.ey-2_joxfQ.c2lnbmF0dXJlcw",
            "",
        ] {
            assert!(all.contains(spelling), "{spelling:?}");
        }
    }

    #[test]
    fn any_string_will_do() {
        for token in ["", ".", "a", "\u{e9}\u{1f600}.\u{e9}", "..", "A=", "\n"] {
            assert!(tamper(token).all(|tampered| tampered.token != token));
            assert!(tamper(token).count() > 10, "{token:?}");
        }
    }

    #[test]
    fn debug_does_not_print_the_token() {
        let text = format!("{:?}", tampered("twice", "secret.secret"));
        assert_eq!(text, "twice (13 bytes)");
    }
}
