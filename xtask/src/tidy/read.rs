//! Collects what the checks look at: the metadata of cargo and the files that version control knows.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use serde_json::Value;

use super::graph::Graph;
use super::{File, Member, Workspace};
use crate::cargo::{self, array, text};
use crate::failure::Failure;

pub(super) fn workspace() -> Result<Workspace, Failure> {
    let metadata = cargo::metadata(true)?;
    let workspace = Workspace {
        graph: Graph::from_metadata(&metadata),
        members: members(&metadata),
        files: files(&cargo::root())?,
    };
    // A workspace that was not read would pass every rule.
    if workspace.members.is_empty() || workspace.files.is_empty() {
        return Err(Failure::failed(
            "no packages or no files were found",
            "run it inside of a checkout of the project",
        ));
    }
    Ok(workspace)
}

fn members(metadata: &Value) -> Vec<Member> {
    cargo::members(metadata)
        .into_iter()
        .map(|member| Member {
            declared: declared(metadata, &member.folder, &member.name),
            name: member.name,
            folder: member.folder,
        })
        .collect()
}

/// What a member names in `[dependencies]`.
fn declared(metadata: &Value, folder: &str, name: &str) -> Vec<String> {
    let manifest = format!("{folder}/Cargo.toml");
    array(metadata.get("packages"))
        .filter(|package| text(package, "name") == Some(name))
        .filter(|package| {
            text(package, "manifest_path")
                .is_some_and(|path| path.replace('\\', "/").ends_with(&manifest))
        })
        .flat_map(|package| array(package.get("dependencies")))
        .filter(|dependency| dependency.get("kind").is_none_or(Value::is_null))
        .filter_map(|dependency| text(dependency, "name"))
        .map(str::to_owned)
        .collect()
}

/// The files that are committed, and those that would be: not ignored.
fn files(root: &Path) -> Result<Vec<File>, Failure> {
    let (Some(committed), Some(new)) = (
        listed(root, &["ls-files", "-z", "--cached"]),
        listed(root, &["ls-files", "-z", "--others", "--exclude-standard"]),
    ) else {
        // An archive of the sources has no version control; everything in it was committed.
        let mut paths = Vec::new();
        walk(root, "", &mut paths)?;
        return Ok(paths
            .into_iter()
            .filter_map(|path| read(root, path, true))
            .collect());
    };
    let committed = committed
        .into_iter()
        .filter_map(|path| read(root, path, true));
    let new = new.into_iter().filter_map(|path| read(root, path, false));
    Ok(committed.chain(new).collect())
}

fn listed(root: &Path, args: &[&str]) -> Option<Vec<String>> {
    let output = Command::new("git")
        .args(args)
        .current_dir(root)
        .stderr(Stdio::null())
        .output()
        .ok()
        .filter(|output| output.status.success())?;
    let paths: Vec<String> = String::from_utf8(output.stdout)
        .ok()?
        .split('\0')
        .filter(|path| !path.is_empty())
        .map(str::to_owned)
        .collect();
    Some(paths)
}

fn walk(root: &Path, folder: &str, paths: &mut Vec<String>) -> Result<(), Failure> {
    for entry in fs::read_dir(root.join(folder))? {
        let entry = entry?;
        let name = entry.file_name().to_string_lossy().into_owned();
        let path = if folder.is_empty() {
            name.clone()
        } else {
            format!("{folder}/{name}")
        };
        if !entry.file_type()?.is_dir() {
            paths.push(path);
        } else if name != "target" && name != ".git" {
            walk(root, &path, paths)?;
        }
    }
    Ok(())
}

/// A file that was deleted but is still listed is none.
fn read(root: &Path, path: String, committed: bool) -> Option<File> {
    let bytes = fs::read(root.join(&path)).ok()?;
    Some(File {
        path,
        text: String::from_utf8(bytes).unwrap_or_default(),
        committed,
    })
}
