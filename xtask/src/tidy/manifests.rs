//! What each package's folder and manifest must hold.

use super::{Finding, Member, Workspace, line_of, numbered};

pub(super) fn folder_names(workspace: &Workspace) -> Vec<Finding> {
    workspace
        .members
        .iter()
        .filter(|member| member.folder.rsplit('/').next() != Some(member.name.as_str()))
        .map(|member| {
            Finding::new(
                &member.manifest(),
                1,
                format!(
                    "package `{}` lives in the folder `{}`",
                    member.name, member.folder
                ),
                "give both the same name",
            )
        })
        .collect()
}

pub(super) fn lints(workspace: &Workspace) -> Vec<Finding> {
    let mut findings = Vec::new();
    let root = manifest_text(workspace, "Cargo.toml");
    if value(root, "workspace.lints.rust", "unsafe_code") != Some("\"forbid\"") {
        findings.push(Finding::new(
            "Cargo.toml",
            line_of(root, "[workspace.lints.rust]"),
            "the workspace does not forbid unsafe code",
            "put unsafe_code = \"forbid\" into [workspace.lints.rust]",
        ));
    }
    for member in &workspace.members {
        let text = manifest_text(workspace, &member.manifest());
        if value(text, "lints", "workspace") != Some("true") {
            findings.push(Finding::new(
                &member.manifest(),
                line_of(text, "[lints]"),
                format!("`{}` does not take the workspace's lints", member.name),
                "add [lints] with workspace = true",
            ));
        }
    }
    findings
}

pub(super) fn inherited(workspace: &Workspace) -> Vec<Finding> {
    let mut findings = Vec::new();
    for member in &workspace.members {
        let text = manifest_text(workspace, &member.manifest());
        for key in ["license", "rust-version"] {
            let dotted = value(text, "package", &format!("{key}.workspace"));
            let table = value(text, "package", key).map(|value| value.replace(' ', ""));
            if dotted != Some("true") && table.as_deref() != Some("{workspace=true}") {
                findings.push(Finding::new(
                    &member.manifest(),
                    line_of(text, key),
                    format!("`{}` does not take the workspace's {key}", member.name),
                    format!("write {key}.workspace = true into [package]"),
                ));
            }
        }
    }
    findings
}

pub(super) fn readmes(workspace: &Workspace) -> Vec<Finding> {
    let mut findings = Vec::new();
    for member in workspace.crates() {
        let path = member.path("README.md");
        match workspace.file(&path).map(|file| file.text.lines().count()) {
            None => findings.push(Finding::new(
                &path,
                1,
                format!("`{}` has no README.md", member.name),
                "write about 30 lines: when to take the crate, when not, a small example",
            )),
            Some(lines) if !(15..=60).contains(&lines) => findings.push(Finding::new(
                &path,
                lines.max(1),
                format!("{lines} lines"),
                "say when to take the crate, when not, and show a small example; the rest belongs into its docs",
            )),
            Some(_) => {}
        }
    }
    findings
}

pub(super) fn integration_binaries(workspace: &Workspace) -> Vec<Finding> {
    workspace
        .members
        .iter()
        .flat_map(|member| {
            let tests = member.path("tests/");
            workspace.files.iter().filter_map(move |file| {
                let inside = file.path.strip_prefix(&tests)?;
                let is_binary = match inside.split_once('/') {
                    None => inside.ends_with(".rs"),
                    Some((folder, rest)) => rest == "main.rs" && folder != "it",
                };
                is_binary.then_some(&file.path)
            })
        })
        .map(|path| {
            Finding::new(
                path,
                1,
                "a second integration binary, which is linked on its own",
                "make it a module of tests/it/main.rs",
            )
        })
        .collect()
}

pub(super) fn run_commands(workspace: &Workspace) -> Vec<Finding> {
    workspace
        .members
        .iter()
        .filter(|member| member.folder.starts_with("examples/"))
        .filter_map(|member| run_command(workspace, member))
        .collect()
}

fn run_command(workspace: &Workspace, member: &Member) -> Option<Finding> {
    let file = workspace
        .file(&member.path("src/main.rs"))
        .or_else(|| workspace.file(&member.path("src/lib.rs")));
    let command = format!("cargo run -p {}", member.name);
    // The demo is started through xtask, which builds the servers first.
    let through_xtask = format!("cargo xtask {}", member.name);
    let opening: Vec<&str> = file
        .map_or("", |file| file.text.as_str())
        .lines()
        .take_while(|line| line.starts_with("//!"))
        .collect();
    if opening
        .iter()
        .any(|line| holds_command(line, &command) || holds_command(line, &through_xtask))
    {
        return None;
    }
    let path = file.map_or_else(|| member.path("src/main.rs"), |file| file.path.clone());
    Some(Finding::new(
        &path,
        1,
        format!("the opening doc comment does not hold `{command}`"),
        "open the file with `//!` lines that say what it shows and how to run it",
    ))
}

/// Whether a line holds a command whose last word ends there: `-p ticket` is not in `-p tickets`.
fn holds_command(line: &str, command: &str) -> bool {
    line.split(command).skip(1).any(|rest| {
        !rest.starts_with(|next: char| next.is_alphanumeric() || next == '-' || next == '_')
    })
}

pub(super) fn lock_file(workspace: &Workspace) -> Vec<Finding> {
    match workspace.file("Cargo.lock") {
        Some(file) if file.committed => Vec::new(),
        _ => vec![Finding::new(
            "Cargo.lock",
            1,
            "Cargo.lock is not under version control",
            "git add Cargo.lock: everybody builds and tests with the same versions",
        )],
    }
}

fn manifest_text<'a>(workspace: &'a Workspace, path: &str) -> &'a str {
    workspace.file(path).map_or("", |file| file.text.as_str())
}

/// The value of a key in a table of a manifest, as it is spelt. Enough of TOML for the lines that are asked for:
/// one key and its value on a line.
fn value<'a>(text: &'a str, table: &str, key: &str) -> Option<&'a str> {
    let mut inside = false;
    for (_, line) in numbered(text) {
        let line = line.trim();
        if let Some(header) = line
            .strip_prefix('[')
            .and_then(|rest| rest.strip_suffix(']'))
        {
            inside = header == table;
        } else if inside
            && let Some((name, value)) = line.split_once('=')
            && name.trim() == key
        {
            return Some(value.trim());
        }
    }
    None
}
