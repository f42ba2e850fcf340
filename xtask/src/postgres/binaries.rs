//! Where PostgreSQL's programs are, and as whom they are run.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Everything that the guard calls.
const PROGRAMS: [&str; 4] = ["initdb", "pg_ctl", "postgres", "pg_basebackup"];

/// The folder with the programs, or what was looked for.
pub(super) fn find() -> Result<PathBuf, String> {
    // The programs on the path are often links into the folder where all of them are.
    let on_path = on_path("pg_ctl").and_then(|program| fs::canonicalize(program).ok());
    let on_path = on_path.and_then(|program| program.parent().map(Path::to_owned));
    let configured = output("pg_config", &["--bindir"]).map(PathBuf::from);
    on_path
        .into_iter()
        .chain(configured)
        .chain(debian())
        .find(|folder| is_complete(folder))
        .ok_or_else(|| {
            format!(
                "no PostgreSQL on this machine ({} in one folder: on the path, where `pg_config --bindir` says, or in \
                 /usr/lib/postgresql/*/bin)",
                PROGRAMS.join(", ")
            )
        })
}

fn is_complete(folder: &Path) -> bool {
    PROGRAMS.iter().all(|name| folder.join(name).is_file())
}

/// Debian's packages keep the versions side by side, and none of them on the path. The newest first.
fn debian() -> Vec<PathBuf> {
    let Ok(entries) = fs::read_dir("/usr/lib/postgresql") else {
        return Vec::new();
    };
    let mut versions: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
    let number = |path: &PathBuf| {
        let name = path.file_name().and_then(|name| name.to_str());
        name.and_then(|name| name.parse::<u32>().ok())
    };
    versions.sort_by_key(|path| std::cmp::Reverse(number(path)));
    versions.iter().map(|version| version.join("bin")).collect()
}

/// Somebody else than root: PostgreSQL refuses to be run by root.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct User {
    name: String,
    pub(super) uid: u32,
    pub(super) gid: u32,
    /// The program that changes the user.
    with: PathBuf,
}

impl User {
    /// `None` where we are somebody else already; an error where root has no one to turn into.
    pub(super) fn other_than_root() -> Result<Option<Self>, String> {
        if id(&["-u"]) != Some(0) {
            return Ok(None);
        }
        let with = ["setpriv", "runuser", "su"].into_iter().find_map(on_path);
        let with =
            with.ok_or("root may not run PostgreSQL, and there is no setpriv, runuser or su")?;
        let user = ["postgres", "nobody"].into_iter().find_map(|name| {
            Some(Self {
                name: name.to_owned(),
                uid: id(&["-u", name])?,
                gid: id(&["-g", name])?,
                with: with.clone(),
            })
        });
        let user =
            user.ok_or("root may not run PostgreSQL, and there is no user postgres or nobody")?;
        Ok(Some(user))
    }

    /// A command that runs the program as this user.
    pub(super) fn command(&self, program: &Path) -> Command {
        let mut command = Command::new(&self.with);
        let name = self.with.file_name().and_then(|name| name.to_str());
        match name {
            Some("setpriv") => {
                let ids = [
                    format!("--reuid={}", self.uid),
                    format!("--regid={}", self.gid),
                ];
                command
                    .args(ids)
                    .arg("--clear-groups")
                    .arg("--")
                    .arg(program);
            }
            Some("runuser") => {
                command.args(["-u", &self.name, "--"]).arg(program);
            }
            // `su` starts a shell, which hands the rest of the line on as it is.
            _ => {
                command.args([
                    "-s",
                    "/bin/sh",
                    &self.name,
                    "-c",
                    "exec \"$0\" \"$@\"",
                    "--",
                ]);
                command.arg(program);
            }
        }
        command
    }
}

fn id(args: &[&str]) -> Option<u32> {
    output("id", args)?.parse().ok()
}

fn output(program: &str, args: &[&str]) -> Option<String> {
    let output = Command::new(program).args(args).output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    output.status.success().then(|| text.trim().to_owned())
}

/// A program on the path, or where administrators' programs are, which a plain user's path may not name.
fn on_path(program: &str) -> Option<PathBuf> {
    let path = env::var_os("PATH").unwrap_or_default();
    env::split_paths(&path)
        .chain(["/usr/sbin".into(), "/sbin".into()])
        .map(|folder: PathBuf| folder.join(program))
        .find(|candidate| candidate.is_file())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(with: &str) -> Vec<String> {
        let user = User {
            name: "postgres".to_owned(),
            uid: 101,
            gid: 102,
            with: with.into(),
        };
        let command = user.command(Path::new("/bin/initdb"));
        let args = command
            .get_args()
            .map(|arg| arg.to_string_lossy().into_owned());
        args.collect()
    }

    #[test]
    fn each_way_to_change_the_user_ends_with_the_program() {
        assert_eq!(
            line("/usr/bin/setpriv"),
            [
                "--reuid=101",
                "--regid=102",
                "--clear-groups",
                "--",
                "/bin/initdb"
            ]
        );
        assert_eq!(
            line("/usr/sbin/runuser"),
            ["-u", "postgres", "--", "/bin/initdb"]
        );
        assert_eq!(
            line("/usr/bin/su"),
            [
                "-s",
                "/bin/sh",
                "postgres",
                "-c",
                "exec \"$0\" \"$@\"",
                "--",
                "/bin/initdb"
            ]
        );
    }
}
