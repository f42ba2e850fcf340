//! What the documents promise: links that lead somewhere, code that compiles, crates that are named.

use super::{File, Finding, Workspace, line_of, numbered};

/// The file that holds the README's code, between [`START`] and [`END`].
const README_CODE: &str = "examples/readme/src/main.rs";
const START: &str = "readme:start";
const END: &str = "readme:end";

/// The words that open a bullet of the changelog.
const KINDS: &[&str] = &["added", "changed", "fixed", "breaking"];

pub(super) fn links(workspace: &Workspace) -> Vec<Finding> {
    let mut findings = Vec::new();
    for file in workspace
        .files
        .iter()
        .filter(|file| is_document(&file.path))
    {
        for (number, target) in link_targets(&file.text) {
            if let Some(problem) = broken(workspace, file, target) {
                findings.push(Finding::new(
                    &file.path,
                    number,
                    format!("the link to `{target}` leads nowhere: {problem}"),
                    "correct the link; local ones are relative to the file they stand in",
                ));
            }
        }
    }
    findings
}

/// README.md is where people begin: whatever stands in docs/ is linked from there.
pub(super) fn guides(workspace: &Workspace) -> Vec<Finding> {
    const PATH: &str = "README.md";
    let linked: Vec<String> = workspace
        .file(PATH)
        .map(|readme| link_targets(&readme.text))
        .unwrap_or_default()
        .into_iter()
        .filter_map(|(_, target)| joined(PATH, target.split('#').next().unwrap_or_default()))
        .collect();
    workspace
        .files
        .iter()
        .filter(|file| file.path.starts_with("docs/") && file.path.ends_with(".md"))
        .filter(|file| !linked.contains(&file.path))
        .map(|file| {
            Finding::new(
                PATH,
                1,
                format!("no link to {}", file.path),
                "link it where the other guides are, and say for whom it is",
            )
        })
        .collect()
}

pub(super) fn readme_code(workspace: &Workspace) -> Vec<Finding> {
    let finding = |file: &str, line, what: &str| {
        let mend = format!(
            "put the lines between `// {START}` and `// {END}` of {README_CODE} into README.md's block"
        );
        vec![Finding::new(file, line, what, mend)]
    };
    let Some(readme) = workspace.file("README.md") else {
        return finding("README.md", 1, "there is no README.md");
    };
    let Some(example) = workspace.file(README_CODE) else {
        return finding(
            README_CODE,
            1,
            "the example that holds the README's code is missing",
        );
    };
    let Some((line, block)) = region(&readme.text).and_then(|(line, lines)| fenced(line, &lines))
    else {
        return finding(
            "README.md",
            1,
            "no fenced block of Rust between the marks readme:start and readme:end",
        );
    };
    let Some((_, code)) = region(&example.text) else {
        return finding(
            README_CODE,
            1,
            "no region between the marks readme:start and readme:end",
        );
    };
    let code = without_indent(&code);
    if code.is_empty() {
        return finding(
            README_CODE,
            line_of(&example.text, START),
            "the region is empty",
        );
    }
    let longest = block.len().max(code.len());
    for index in 0..longest {
        if block.get(index) != code.get(index).map(String::as_str).as_ref() {
            return finding(
                "README.md",
                line + index,
                "differs from the example from this line on",
            );
        }
    }
    Vec::new()
}

/// docs/errors.md explains every code of the protocol crate and every reason of a rejection.
pub(super) fn error_page(workspace: &Workspace) -> Vec<Finding> {
    const PAGE: &str = "docs/errors.md";
    const CODES: &str = "crates/mrtr-protocol/src/error.rs";
    const REASONS: &str = "crates/mrtr-state/src/reason.rs";
    let text = |path| workspace.file(path).map_or("", |file| file.text.as_str());
    let mut findings = Vec::new();
    for (source, explained) in [
        (CODES, codes(text(CODES))),
        (REASONS, reasons(text(REASONS))),
    ] {
        if explained.is_empty() {
            findings.push(Finding::new(
                source,
                1,
                "no codes or reasons were found here",
                "if they moved, name their new place in xtask/src/tidy/documents.rs",
            ));
        }
        for (line, cell) in explained {
            let row = format!("| {cell} |");
            if !text(PAGE).lines().any(|line| line.starts_with(&row)) {
                findings.push(Finding::new(
                    source,
                    line,
                    format!("{PAGE} has no row that begins with {cell}"),
                    "say there what it means and who should do what",
                ));
            }
        }
    }
    findings
}

/// `pub const NAME: i64 = -32700;` as the code that it declares.
fn codes(source: &str) -> Vec<(usize, String)> {
    numbered(source)
        .filter_map(|(number, line)| {
            let (_, value) = line
                .trim()
                .strip_prefix("pub const ")?
                .split_once(": i64 = ")?;
            Some((number, value.trim_end_matches(';').to_owned()))
        })
        .collect()
}

/// The words that `Reason::as_str` gives, as they stand in a table.
fn reasons(source: &str) -> Vec<(usize, String)> {
    numbered(source)
        .skip_while(|(_, line)| !line.contains("fn as_str"))
        .take_while(|(_, line)| !line.contains("fn in_words"))
        .filter_map(|(number, line)| {
            let (_, word) = line.trim().strip_prefix("Reason::")?.split_once("=> \"")?;
            Some((number, format!("`{}`", word.trim_end_matches(['"', ',']))))
        })
        .collect()
}

pub(super) fn architecture(workspace: &Workspace) -> Vec<Finding> {
    let text = workspace
        .file("ARCHITECTURE.md")
        .map_or("", |file| file.text.as_str());
    workspace
        .crates()
        .filter(|member| !text.contains(&format!("`{}`", member.name)))
        .map(|member| {
            Finding::new(
                "ARCHITECTURE.md",
                1,
                format!("`{}` is not named", member.name),
                "say in the code map what the crate is for and what it must not know",
            )
        })
        .collect()
}

pub(super) fn changelog(workspace: &Workspace) -> Vec<Finding> {
    const PATH: &str = "CHANGELOG.md";
    let text = workspace.file(PATH).map_or("", |file| file.text.as_str());
    let mut findings = Vec::new();
    if !text
        .lines()
        .any(|line| matches!(line.trim_end(), "## [Unreleased]" | "## Unreleased"))
    {
        findings.push(Finding::new(
            PATH,
            1,
            "no section for what is not released yet",
            "add a heading `## [Unreleased]` above the releases",
        ));
    }
    for (number, line) in numbered(text) {
        let Some(bullet) = line.strip_prefix("- ") else {
            continue;
        };
        if !KINDS
            .iter()
            .any(|kind| bullet.starts_with(&format!("**{kind}:** ")))
        {
            findings.push(Finding::new(
                PATH,
                number,
                "a bullet that does not say what kind of change it is",
                format!("open it with one of {KINDS:?} as in `- **added:** ..`"),
            ));
        }
    }
    findings
}

/// The documents that people read in the repository.
fn is_document(path: &str) -> bool {
    let is_markdown = path.ends_with(".md");
    let in_root = !path.contains('/');
    is_markdown && (in_root || path.starts_with("docs/") || path.ends_with("/README.md"))
}

/// Why a link leads nowhere; `None` where it leads somewhere, or out of the repository.
fn broken(workspace: &Workspace, from: &File, target: &str) -> Option<String> {
    if target.contains("://") || target.starts_with("mailto:") {
        return None;
    }
    let (path, anchor) = target
        .split_once('#')
        .map_or((target, None), |(path, anchor)| (path, Some(anchor)));
    let path = if path.is_empty() {
        from.path.clone()
    } else {
        match joined(&from.path, path) {
            Some(path) => path,
            None => return Some("it leaves the repository".to_owned()),
        }
    };
    if !path.is_empty() && !workspace.exists(&path) {
        return Some(format!("there is no {path}"));
    }
    let anchor = anchor?;
    let text = &workspace.file(&path)?.text;
    let found = headings(text).any(|heading| slug(heading) == anchor);
    (path.ends_with(".md") && !found).then(|| format!("{path} has no heading for #{anchor}"))
}

/// A relative path, seen from a file, as a path from the root.
fn joined(from: &str, path: &str) -> Option<String> {
    let mut parts: Vec<&str> = from.split('/').collect();
    parts.pop();
    for part in path.split('/') {
        match part {
            "" | "." => {}
            ".." => {
                parts.pop()?;
            }
            part => parts.push(part),
        }
    }
    Some(parts.join("/"))
}

/// The targets of inline links and reference definitions outside of code, with their lines.
fn link_targets(text: &str) -> Vec<(usize, &str)> {
    let mut targets = Vec::new();
    for (number, line) in prose(text) {
        let mut inside_code = false;
        for piece in line.split('`') {
            if !inside_code {
                for rest in piece.split("](").skip(1) {
                    let target = rest.split([')', ' ']).next().unwrap_or_default();
                    targets.push((number, target));
                }
            }
            inside_code = !inside_code;
        }
        // A link whose text ends in code: [`x`](target) leaves `](` at the start of a piece, which is found above.
        if let Some((label, target)) = line.split_once("]: ")
            && label.starts_with('[')
        {
            targets.push((number, target.split(' ').next().unwrap_or_default()));
        }
    }
    targets
}

fn headings(text: &str) -> impl Iterator<Item = &str> {
    prose(text)
        .filter(|(_, line)| line.starts_with('#'))
        .map(|(_, line)| line.trim_start_matches('#').trim())
}

/// The lines outside of fenced blocks.
fn prose(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let mut fenced = false;
    numbered(text).filter(move |(_, line)| {
        let fence = line.trim_start().starts_with("```");
        if fence {
            fenced = !fenced;
        }
        !fenced && !fence
    })
}

/// A heading's anchor as code hosts make it.
fn slug(heading: &str) -> String {
    heading
        .to_lowercase()
        .chars()
        .filter_map(|c| match c {
            ' ' => Some('-'),
            c if c.is_alphanumeric() || c == '-' || c == '_' => Some(c),
            _ => None,
        })
        .collect()
}

/// The lines between the two marks, with the number of the first.
fn region(text: &str) -> Option<(usize, Vec<&str>)> {
    let mut lines = numbered(text)
        .skip_while(|(_, line)| !line.contains(START))
        .skip(1)
        .peekable();
    let first = lines.peek()?.0;
    let mut inside = Vec::new();
    for (_, line) in lines {
        if line.contains(END) {
            return Some((first, inside));
        }
        inside.push(line);
    }
    None
}

/// The lines of the one fenced block of Rust among some lines, with the number of its first line.
fn fenced<'a>(first: usize, lines: &[&'a str]) -> Option<(usize, Vec<&'a str>)> {
    let open = lines.iter().position(|line| line.starts_with("```rust"))?;
    let length = lines
        .iter()
        .skip(open + 1)
        .position(|line| line.starts_with("```"))?;
    let block = lines.iter().skip(open + 1).take(length).copied().collect();
    Some((first + open + 1, block))
}

/// Lines without the indent that all of them share.
fn without_indent(lines: &[&str]) -> Vec<String> {
    let indent = lines
        .iter()
        .filter(|line| !line.trim().is_empty())
        .map(|line| line.len() - line.trim_start_matches(' ').len())
        .min()
        .unwrap_or(0);
    lines
        .iter()
        .map(|line| line.get(indent..).unwrap_or_default().to_owned())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_are_found_in_prose_and_not_in_code() {
        let text = "[a](b.md) and [`c`](d.md#e \"title\")\n```\n[x](y.md)\n```\n`[p](q.md)` ![i](j.png)\n[r]: s.md";
        let found = link_targets(text);
        assert_eq!(
            found,
            [(1, "b.md"), (1, "d.md#e"), (5, "j.png"), (6, "s.md")]
        );
    }

    #[test]
    fn paths_are_joined_and_do_not_leave_the_root() {
        assert_eq!(joined("docs/a.md", "../README.md").unwrap(), "README.md");
        assert_eq!(joined("README.md", "./docs/").unwrap(), "docs");
        assert_eq!(joined("README.md", "../x"), None);
    }

    #[test]
    fn anchors_are_spelt_as_code_hosts_do() {
        assert_eq!(
            slug("What is *not* promised: `x`"),
            "what-is-not-promised-x"
        );
    }

    #[test]
    fn a_region_needs_both_marks() {
        assert_eq!(
            region("a\n// readme:start\nb\n// readme:end\n"),
            Some((3, vec!["b"]))
        );
        assert_eq!(region("a\n// readme:start\nb\n"), None);
        assert_eq!(region("a\nb\n"), None);
    }

    #[test]
    fn the_shared_indent_goes_and_empty_lines_stay() {
        assert_eq!(without_indent(&["    a", "", "      b"]), ["a", "", "  b"]);
    }
}
