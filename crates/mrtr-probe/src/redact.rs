//! What is printed: no bearer tokens, states in short, no control characters, and not much.

/// The longest text that is shown of a request or a reply, in characters.
const SHOWN: usize = 800;
/// A run of token characters of this length is a state, a key or something like it.
const TOKEN: usize = 40;
/// How much of one is shown.
const KEPT: usize = 12;

/// The words that must not be printed.
#[derive(Clone, Default)]
pub(crate) struct Redact {
    secrets: Vec<String>,
}

impl std::fmt::Debug for Redact {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(out, "Redact({} secrets)", self.secrets.len())
    }
}

impl Redact {
    pub(crate) fn new<S: Into<String>>(secrets: impl IntoIterator<Item = S>) -> Self {
        let mut secrets: Vec<String> = secrets.into_iter().map(Into::into).collect();
        secrets.retain(|secret| !secret.is_empty());
        // One may be the beginning of another.
        secrets.sort_by_key(|secret| std::cmp::Reverse(secret.len()));
        Self { secrets }
    }

    /// The text as it may be printed.
    pub(crate) fn text(&self, text: &str) -> String {
        // A mark that no secret holds, so that none is looked for inside of it.
        let mut text = text.replace('\u{1}', " ");
        for secret in &self.secrets {
            text = text.replace(secret, "\u{1}");
        }
        let text = abbreviated(&text.replace('\u{1}', "[token]"));
        let mut shown: String = text.chars().take(SHOWN).collect();
        if text.chars().count() > SHOWN {
            shown.push('…');
        }
        shown
    }

    /// Whether a text holds one of the words.
    pub(crate) fn occurs_in(&self, text: &str) -> bool {
        self.secrets.iter().any(|secret| text.contains(secret))
    }
}

fn is_token(character: char) -> bool {
    character.is_ascii_alphanumeric() || "-_.+/=%".contains(character)
}

/// Long runs of token characters in short, and control characters as spaces.
fn abbreviated(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut run = String::new();
    let flush = |run: &mut String, out: &mut String| {
        if run.len() >= TOKEN {
            out.push_str(run.get(..KEPT).unwrap_or_default());
            out.push_str(&format!("…({})", run.len()));
        } else {
            out.push_str(run);
        }
        run.clear();
    };
    for character in text.chars() {
        if is_token(character) {
            run.push(character);
            continue;
        }
        flush(&mut run, &mut out);
        out.push(if character.is_control() {
            ' '
        } else {
            character
        });
    }
    flush(&mut run, &mut out);
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_and_states_are_not_shown() {
        let redact = Redact::new(["tok", "tok-en", ""]);
        assert_eq!(redact.text("Bearer tok-en, tok"), "Bearer [token], [token]");
        let state = "mrtr1.h.".to_owned() + &"a".repeat(100);
        assert_eq!(
            redact.text(&format!("\"{state}\"")),
            "\"mrtr1.h.aaaa…(108)\""
        );
        assert_eq!(redact.text("a\x1b[31mb\nc"), "a [31mb c");
        assert_eq!(redact.text(&"é ".repeat(SHOWN)).chars().count(), SHOWN + 1);
        assert!(redact.occurs_in("xtok-enx") && !redact.occurs_in("to"));
        assert!(!format!("{redact:?}").contains("tok"));
    }
}
