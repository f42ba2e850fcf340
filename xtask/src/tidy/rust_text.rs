//! Rust source with parts blanked out, so that a search for words finds code alone.
//!
//! Lines keep their numbers. This is a scanner, not a parser: it knows comments, strings, characters and braces.

/// The source with comments, and what stands in strings and characters, replaced by spaces.
pub(super) fn code(source: &str) -> String {
    let mut out = String::with_capacity(source.len());
    let mut rest = source;
    let mut previous = ' ';
    while let Some(next) = rest.chars().next() {
        let blanked = blanked_length(rest, previous);
        let length = blanked.unwrap_or(next.len_utf8());
        let (token, after) = rest.split_at(length);
        if blanked.is_some() {
            out.extend(token.chars().map(|c| if c == '\n' { '\n' } else { ' ' }));
            previous = ' ';
        } else {
            out.push(next);
            previous = next;
        }
        rest = after;
    }
    out
}

/// The code of [`code`] without the items under `#[cfg(test)]`.
pub(super) fn code_outside_tests(source: &str) -> String {
    const MARK: &str = "#[cfg(test)]";
    let mut code = code(source);
    while let Some(start) = code.find(MARK) {
        let item = code.get(start + MARK.len()..).unwrap_or_default();
        let end = start + MARK.len() + item_length(item);
        let blank: String = code
            .get(start..end)
            .unwrap_or_default()
            .chars()
            .map(|c| if c == '\n' { '\n' } else { ' ' })
            .collect();
        code.replace_range(start..end, &blank);
    }
    code
}

/// How many bytes from here on are a comment, a string or a character; `None` where it is code.
fn blanked_length(rest: &str, previous: char) -> Option<usize> {
    if rest.starts_with("//") {
        return Some(rest.find('\n').unwrap_or(rest.len()));
    }
    if rest.starts_with("/*") {
        return Some(block_comment_length(rest));
    }
    if rest.starts_with('"') {
        return Some(quoted_length(rest, '"'));
    }
    // r"..", r#".."#, br".."; not the end of a name such as `for` or `r#type`.
    if !is_word(previous) && rest.starts_with(['r', 'b', 'c']) {
        let after = rest.trim_start_matches(['b', 'c']);
        if let Some(raw) = after.strip_prefix('r') {
            let hashes = raw.len() - raw.trim_start_matches('#').len();
            let body = raw.get(hashes..).unwrap_or_default();
            if let Some(body) = body.strip_prefix('"') {
                let close = format!("\"{}", "#".repeat(hashes));
                let prefix = rest.len() - body.len();
                return Some(
                    body.find(&close)
                        .map_or(rest.len(), |at| prefix + at + close.len()),
                );
            }
        }
    }
    if rest.starts_with('\'') {
        return character_length(rest);
    }
    None
}

fn block_comment_length(rest: &str) -> usize {
    let mut depth = 0_usize;
    let mut at = 0;
    while let Some(here) = rest.get(at..).filter(|here| !here.is_empty()) {
        if here.starts_with("/*") {
            depth += 1;
            at += 2;
        } else if here.starts_with("*/") {
            depth -= 1;
            at += 2;
            if depth == 0 {
                return at;
            }
        } else {
            at += here.chars().next().map_or(1, char::len_utf8);
        }
    }
    rest.len()
}

fn quoted_length(rest: &str, quote: char) -> usize {
    let mut escaped = false;
    for (at, c) in rest.char_indices().skip(1) {
        match c {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            _ if c == quote => return at + c.len_utf8(),
            _ => {}
        }
    }
    rest.len()
}

/// `'x'` and `'\n'` are characters, `'a` in `&'a str` is a lifetime.
fn character_length(rest: &str) -> Option<usize> {
    let mut chars = rest.char_indices().skip(1);
    let (_, first) = chars.next()?;
    if first == '\\' {
        return Some(quoted_length(rest, '\''));
    }
    match chars.next() {
        Some((at, '\'')) => Some(at + 1),
        _ => None,
    }
}

/// The length of the item that follows an attribute: to its `;`, or to the end of its braces.
fn item_length(item: &str) -> usize {
    let mut depth = 0_usize;
    let mut nested = 0_usize;
    for (at, c) in item.char_indices() {
        match c {
            '(' | '[' => nested += 1,
            ')' | ']' => nested = nested.saturating_sub(1),
            '{' => depth += 1,
            '}' => {
                depth = depth.saturating_sub(1);
                if depth == 0 {
                    return at + 1;
                }
            }
            ';' if depth == 0 && nested == 0 => return at + 1,
            _ => {}
        }
    }
    item.len()
}

fn is_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

/// Whether a source holds a text that is not part of a longer word.
pub(super) fn holds_word(source: &str, word: &str) -> bool {
    source.match_indices(word).any(|(at, _)| {
        let before = source
            .get(..at)
            .and_then(|before| before.chars().next_back());
        let after = source
            .get(at + word.len()..)
            .and_then(|after| after.chars().next());
        let longer =
            before.is_some_and(is_word) || after.is_some_and(is_word) && word.ends_with(is_word);
        !longer
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comments_strings_and_characters_are_blank() {
        let source = "a(); // b()\n/* c() /* d() */ e() */ f(\"g() \\\" h()\", 'i', '\\'', '\"');\nlet r = r#\"j() \" k()\"#; br\"l()\"; m::<'n>();";
        let code = code(source);
        assert_eq!(code.lines().count(), source.lines().count());
        for kept in ["a();", "f(", "let r =", "m::<'n>();"] {
            assert!(code.contains(kept), "{kept} in {code}");
        }
        for gone in [
            "b()", "c()", "d()", "e()", "g()", "h()", "'i'", "j()", "k()", "l()",
        ] {
            assert!(!code.contains(gone), "{gone} in {code}");
        }
    }

    #[test]
    fn names_that_end_in_r_and_raw_names_are_code() {
        assert_eq!(code("for x in r#type {}"), "for x in r#type {}");
        assert_eq!(code("char\"x\"").trim_end(), "char");
    }

    #[test]
    fn test_items_are_blank_and_the_rest_stays() {
        let source = "one();\n#[cfg(test)]\nmod tests {\n    fn f() { two(); }\n}\n#[cfg(test)]\nmod more;\nthree();\n#[cfg(test)]\nfn f(a: [u8; 2]) { four(); }\nfive();";
        let code = code_outside_tests(source);
        assert_eq!(code.lines().count(), source.lines().count());
        for kept in ["one();", "three();", "five();"] {
            assert!(code.contains(kept), "{kept} in {code}");
        }
        for gone in ["two()", "more", "four()"] {
            assert!(!code.contains(gone), "{gone} in {code}");
        }
    }

    #[test]
    fn an_open_comment_or_string_ends_with_the_file() {
        for source in ["a /* b", "a \"b", "a r#\"b\"", "a // b"] {
            assert_eq!(code(source).trim_end(), "a", "{source}");
        }
    }

    #[test]
    fn words_are_found_whole() {
        assert!(holds_word("x = SystemTime::now();", "SystemTime::now"));
        assert!(holds_word(
            "(std::time::SystemTime::now)()",
            "SystemTime::now"
        ));
        assert!(!holds_word("MySystemTime::now()", "SystemTime::now"));
        assert!(!holds_word("SystemTime::nowhere()", "SystemTime::now"));
    }
}
