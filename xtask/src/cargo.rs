//! Starting cargo, and what `cargo metadata` knows.

use std::env;
use std::ffi::OsString;
use std::path::PathBuf;
use std::process::{Command, ExitStatus, Stdio};

use serde_json::Value;

use crate::failure::Failure;

/// The root of the workspace.
pub(crate) fn root() -> PathBuf {
    let manifest_dir =
        env::var_os("CARGO_MANIFEST_DIR").unwrap_or_else(|| env!("CARGO_MANIFEST_DIR").into());
    let mut root = PathBuf::from(manifest_dir);
    root.pop();
    root
}

/// The cargo that started us, at the workspace's root.
///
/// The variables that `cargo run` sets for its program are taken away: some build scripts watch them, and would
/// build their crates again each time cargo is called through xtask and not directly.
pub(crate) fn cargo<I, S>(args: I) -> Command
where
    I: IntoIterator<Item = S>,
    S: AsRef<std::ffi::OsStr>,
{
    let mut command = Command::new(env::var_os("CARGO").unwrap_or_else(|| OsString::from("cargo")));
    command.args(args).current_dir(root());
    without_run_variables(&mut command);
    command
}

/// Takes the variables of `cargo run` from a command's environment.
pub(crate) fn without_run_variables(command: &mut Command) {
    for (name, _) in env::vars_os() {
        let Some(text) = name.to_str() else { continue };
        if text.starts_with("CARGO_PKG_") || text.starts_with("CARGO_MANIFEST_") {
            command.env_remove(&name);
        }
    }
}

/// Runs a command whose output the user sees; an exit code other than 0 is a failure that names it.
pub(crate) fn run(mut command: Command, next: &str) -> Result<(), Failure> {
    let line = shown(&command);
    let status = command
        .status()
        .map_err(|error| not_started(&line, &error))?;
    if status.success() {
        Ok(())
    } else {
        Err(Failure::failed(format!("`{line}` failed ({status})"), next))
    }
}

/// Runs a command and returns what it wrote to stdout; stderr goes to the user.
pub(crate) fn output(mut command: Command, next: &str) -> Result<(ExitStatus, String), Failure> {
    let line = shown(&command);
    let output = command
        .stderr(Stdio::inherit())
        .output()
        .map_err(|error| not_started(&line, &error))?;
    let text = String::from_utf8(output.stdout).map_err(|_| {
        Failure::failed(format!("`{line}` wrote something that is not UTF-8"), next)
    })?;
    Ok((output.status, text))
}

/// Hands over to a program that says itself what is wrong: its exit code is ours.
pub(crate) fn hand_over(mut command: Command) -> Result<(), Failure> {
    let line = shown(&command);
    let status = command
        .status()
        .map_err(|error| not_started(&line, &error))?;
    match status.code() {
        Some(0) => Ok(()),
        Some(code) => Err(Failure::Exit(u8::try_from(code).unwrap_or(1))),
        None => Err(Failure::failed(
            format!("`{line}` was ended by a signal ({status})"),
            "run it again; if it happens again, run it alone from the line above",
        )),
    }
}

/// Where cargo puts what it builds.
pub(crate) fn target(metadata: &Value) -> Result<PathBuf, Failure> {
    let target = text(metadata, "target_directory").map(PathBuf::from);
    target.ok_or_else(|| {
        Failure::failed(
            "`cargo metadata` names no target directory",
            "is this cargo 1.89 or newer?",
        )
    })
}

/// A command as a person would type it.
pub(crate) fn shown(command: &Command) -> String {
    let program = PathBuf::from(command.get_program());
    let mut line = program
        .file_name()
        .unwrap_or(program.as_os_str())
        .to_string_lossy()
        .into_owned();
    for arg in command.get_args() {
        line.push(' ');
        line.push_str(&arg.to_string_lossy());
    }
    line
}

/// `cargo metadata`, as JSON. With `resolve`, the graph of every platform and the packages from the registry are in it.
pub(crate) fn metadata(resolve: bool) -> Result<Value, Failure> {
    let mut args = vec!["metadata", "--format-version", "1"];
    if !resolve {
        args.push("--no-deps");
    }
    let next = "run it by hand to see what is wrong with the manifests";
    let (status, text) = output(cargo(args), next)?;
    if !status.success() {
        return Err(Failure::failed(
            format!("`cargo metadata` failed ({status})"),
            next,
        ));
    }
    serde_json::from_str(&text).map_err(|error| {
        Failure::failed(
            format!("`cargo metadata` wrote JSON that does not parse: {error}"),
            next,
        )
    })
}

/// The members of the workspace: name, folder relative to the root, whether there is a binary.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Member {
    pub(crate) name: String,
    pub(crate) folder: String,
    pub(crate) has_binary: bool,
}

/// The members of the workspace in the order of their folders.
pub(crate) fn members(metadata: &Value) -> Vec<Member> {
    let root = metadata
        .get("workspace_root")
        .and_then(Value::as_str)
        .unwrap_or_default();
    let ids: Vec<&str> = strings(metadata.get("workspace_members")).collect();
    let mut members: Vec<Member> = array(metadata.get("packages"))
        .filter(|package| text(package, "id").is_some_and(|id| ids.contains(&id)))
        .filter_map(|package| {
            let manifest = text(package, "manifest_path")?;
            let folder = manifest.strip_prefix(root)?.strip_suffix("Cargo.toml")?;
            Some(Member {
                name: text(package, "name")?.to_owned(),
                folder: folder.replace('\\', "/").trim_matches('/').to_owned(),
                has_binary: array(package.get("targets"))
                    .any(|target| strings(target.get("kind")).any(|kind| kind == "bin")),
            })
        })
        .collect();
    members.sort_by(|a, b| a.folder.cmp(&b.folder));
    members
}

/// The elements of an array; none where there is no array.
pub(crate) fn array(value: Option<&Value>) -> impl Iterator<Item = &Value> {
    value.and_then(Value::as_array).into_iter().flatten()
}

/// The strings of an array.
pub(crate) fn strings(value: Option<&Value>) -> impl Iterator<Item = &str> {
    array(value).filter_map(Value::as_str)
}

/// A member that is a string.
pub(crate) fn text<'a>(value: &'a Value, name: &str) -> Option<&'a str> {
    value.get(name).and_then(Value::as_str)
}

fn not_started(line: &str, error: &std::io::Error) -> Failure {
    Failure::failed(
        format!("`{line}` could not be started: {error}"),
        "is the program installed, and was it built?",
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn members_are_the_packages_of_the_workspace() {
        let metadata = json!({
            "workspace_root": "/w",
            "workspace_members": ["b", "a"],
            "packages": [
                {"id": "b", "name": "beta", "manifest_path": "/w/examples/beta/Cargo.toml", "targets": [{"kind": ["bin"]}]},
                {"id": "a", "name": "alpha", "manifest_path": "/w/crates/alpha/Cargo.toml", "targets": [{"kind": ["lib"]}]},
                {"id": "r", "name": "serde", "manifest_path": "/registry/serde/Cargo.toml", "targets": []},
            ],
        });
        let expected = [
            ("alpha", "crates/alpha", false),
            ("beta", "examples/beta", true),
        ];
        let members = members(&metadata);
        let found: Vec<_> = members
            .iter()
            .map(|member| {
                (
                    member.name.as_str(),
                    member.folder.as_str(),
                    member.has_binary,
                )
            })
            .collect();
        assert_eq!(found, expected);
    }

    #[test]
    fn a_command_is_shown_as_it_is_typed() {
        let mut command = Command::new("/usr/lib/cargo");
        command.args(["test", "--workspace"]);
        assert_eq!(shown(&command), "cargo test --workspace");
    }
}
