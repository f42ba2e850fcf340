//! Sampling and roots are deprecated since revision 2026-07-28, and whatever is public of them says so.
//!
//! What belongs to them is known by its file (named `sampling..` or `roots..`, or in a folder of such a name) or by its own
//! name. The head of a file that is named for them says it too, and what a new server does instead. In such files the fields
//! and methods of a type that says so need not repeat it; elsewhere whatever has such a name does.

use super::rust_text;
use super::{File, Finding, Workspace, numbered};

/// In names of types, variants and traits.
const CAMEL: &[&str] = &["Sampling", "CreateMessage", "Roots"];
/// In names of functions, fields, modules and constants, whatever their case.
const SNAKE: &[&str] = &["sampling", "create_message", "roots"];

/// The words that stand between `pub` and an item's name.
const BEFORE_NAMES: &[&str] = &[
    "async", "const", "enum", "extern", "fn", "mod", "static", "struct", "trait", "type", "union",
];

pub(super) fn sampling_and_roots(workspace: &Workspace) -> Vec<Finding> {
    let mut findings = Vec::new();
    for file in workspace.files.iter().filter(|file| is_library(&file.path)) {
        let of_the_two = is_of_the_two(&file.path);
        if is_named_file(&file.path) && !says_what_instead(&head(&file.text)) {
            findings.push(Finding::new(
                &file.path,
                1,
                "the file's head does not say that it is deprecated, and what to do instead",
                "begin it with `//!`: deprecated since 2026-07-28, and what a new server does instead",
            ));
        }
        for item in public_items(file) {
            let belongs = if of_the_two {
                item.depth == 0
            } else {
                is_named_for_them(&item.name)
            };
            let says = |docs: &str| says_what_instead(&docs.to_lowercase());
            let module_says = item.is_module && is_named_for_them(&item.name);
            if belongs && !module_says && !says(&item.docs) {
                findings.push(Finding::new(
                    &file.path,
                    item.line,
                    format!(
                        "`{}` does not say that it is deprecated, and what to do instead",
                        item.name
                    ),
                    "say in its docs: deprecated since 2026-07-28, and what to do instead",
                ));
            }
        }
    }
    findings
}

fn is_library(path: &str) -> bool {
    path.starts_with("crates/")
        && path.contains("/src/")
        && path.ends_with(".rs")
        && !path.ends_with("/tests.rs")
        && !path.contains("/tests/")
}

/// Whether a part of the path behind `src/` is named for sampling or roots.
fn is_of_the_two(path: &str) -> bool {
    let inside = path.split_once("/src/").map_or("", |(_, inside)| inside);
    inside
        .split('/')
        .any(|part| part.starts_with("sampling") || part.starts_with("roots"))
}

/// Whether the file itself, or the folder that it is the `mod.rs` of, is named for sampling or roots.
fn is_named_file(path: &str) -> bool {
    let path = path.strip_suffix("/mod.rs").unwrap_or(path);
    path.rsplit_once('/')
        .is_some_and(|(_, name)| name.starts_with("sampling") || name.starts_with("roots"))
}

/// Whether docs (in small letters) say that it is deprecated, and name what a new server does: call a model provider itself;
/// take folders as parameters, resource URIs or configuration.
fn says_what_instead(docs: &str) -> bool {
    docs.contains("deprecated")
        && ["provider", "parameters", "configuration", "instead"]
            .iter()
            .any(|word| docs.contains(word))
}

fn is_named_for_them(name: &str) -> bool {
    let lower = name.to_lowercase();
    let whole_words = |word: &&str| format!("_{lower}_").contains(&format!("_{word}_"));
    CAMEL.iter().any(|word| name.contains(word)) || SNAKE.iter().any(whole_words)
}

/// The lines that open a file with `//!`.
fn head(text: &str) -> String {
    text.lines()
        .skip_while(|line| line.starts_with("#!["))
        .take_while(|line| line.starts_with("//!"))
        .collect::<Vec<_>>()
        .join("\n")
        .to_lowercase()
}

/// Something that others can name: an item, a field, or a variant of a public enum.
#[derive(Debug, PartialEq, Eq)]
struct Item {
    name: String,
    line: usize,
    /// Braces around it.
    depth: usize,
    is_module: bool,
    docs: String,
}

fn public_items(file: &File) -> Vec<Item> {
    let code = rust_text::code_outside_tests(&file.text);
    let mut items = Vec::new();
    let mut depth = 0_usize;
    // The depth inside the braces of a public enum, while there.
    let mut variants = None;
    for (line, text) in numbered(&code) {
        if variants.is_some_and(|inside| depth < inside) {
            variants = None;
        }
        let name = public_name(text).or_else(|| {
            (variants == Some(depth))
                .then(|| word(text.trim_start()))
                .filter(|name| name.starts_with(char::is_uppercase))
        });
        if let Some(name) = name {
            items.push(Item {
                name: name.to_owned(),
                line,
                depth,
                is_module: text.trim_start().starts_with("pub mod "),
                docs: docs_above(&file.text, line),
            });
        }
        if text.trim_start().starts_with("pub enum ") {
            variants = Some(depth + 1);
        }
        for c in text.chars() {
            match c {
                '{' => depth += 1,
                '}' => depth = depth.saturating_sub(1),
                _ => {}
            }
        }
    }
    items
}

/// The name that a line makes public: `f` in `pub async fn f(`, `x` in `pub x: u8`. What is exported again has its docs
/// where it is declared.
fn public_name(line: &str) -> Option<&str> {
    let mut rest = line.trim_start().strip_prefix("pub ")?;
    if rest.starts_with("use ") {
        return None;
    }
    loop {
        let name = word(rest);
        if !BEFORE_NAMES.contains(&name) {
            return Some(name).filter(|name| !name.is_empty());
        }
        rest = rest.get(name.len()..).unwrap_or_default().trim_start();
    }
}

/// The word at the start of a text.
fn word(text: &str) -> &str {
    let end = text
        .find(|c: char| !c.is_alphanumeric() && c != '_')
        .unwrap_or(text.len());
    text.get(..end).unwrap_or_default()
}

/// The `///` lines above a line, attributes between them left out.
fn docs_above(text: &str, line: usize) -> String {
    let lines: Vec<&str> = text.lines().take(line.saturating_sub(1)).collect();
    let mut docs = Vec::new();
    let mut inside_attribute = false;
    for line in lines.iter().rev().map(|line| line.trim()) {
        if let Some(doc) = line.strip_prefix("///") {
            docs.push(doc);
        } else if line.starts_with("#[") {
            inside_attribute = false;
        } else if line.ends_with(")]") || inside_attribute {
            inside_attribute = true;
        } else {
            break;
        }
    }
    docs.reverse();
    docs.join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn items(text: &str) -> Vec<Item> {
        public_items(&File {
            path: "crates/a/src/lib.rs".to_owned(),
            text: text.to_owned(),
            committed: true,
        })
    }

    fn names(text: &str) -> Vec<String> {
        items(text).into_iter().map(|item| item.name).collect()
    }

    #[test]
    fn what_others_can_name_is_found() {
        let text = "pub struct A {\n    pub b: u8,\n    c: u8,\n}\npub enum D {\n    #[x]\n    E,\n    F { g: u8 },\n}\nenum H {\n    I,\n}\nimpl A {\n    pub const fn j() {}\n    pub(crate) fn k() {}\n    pub const L: u8 = 1;\n}\npub use m::N;\npub mod o;\n// pub struct P;\n";
        assert_eq!(names(text), ["A", "b", "D", "E", "F", "j", "L", "o"]);
    }

    #[test]
    fn docs_are_read_over_attributes() {
        let text = "/// One.\n#[must_use]\n/// Two.\n#[diagnostic::x(\n    message = \"m\",\n)]\npub fn f() {}\n\n/// Not g's.\n\npub fn g() {}\n";
        let docs: Vec<String> = items(text).into_iter().map(|item| item.docs).collect();
        assert_eq!(docs, [" One.\n Two.", ""]);
    }

    #[test]
    fn names_of_the_two_are_known_whole() {
        for name in [
            "SamplingMessage",
            "CreateMessageResult",
            "Roots",
            "on_sampling",
            "ROOTS_LIST",
            "create_message",
        ] {
            assert!(is_named_for_them(name), "{name}");
        }
        for name in [
            "Root",
            "resampling",
            "grassroots",
            "CreateTask",
            "Upsampler",
        ] {
            assert!(!is_named_for_them(name), "{name}");
        }
    }

    #[test]
    fn files_of_the_two_are_known_by_their_path() {
        for path in [
            "crates/a/src/sampling.rs",
            "crates/a/src/roots/list.rs",
            "crates/a/src/sampling_tools.rs",
        ] {
            assert!(is_library(path) && is_of_the_two(path), "{path}");
        }
        assert!(
            is_named_file("crates/a/src/sampling/mod.rs") && is_named_file("crates/a/src/roots.rs")
        );
        assert!(!is_named_file("crates/a/src/sampling/tools.rs"));
        assert!(!is_of_the_two("crates/roots/src/lib.rs"));
        assert!(!is_library("crates/a/src/sampling/tests.rs"));
    }
}
