//! The process that keeps a server: it ends and removes it when its own input ends.

use std::collections::hash_map::RandomState;
use std::env;
use std::fs;
use std::hash::{BuildHasher as _, Hasher as _};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use super::binaries::{self, User};
use crate::failure::Failure;

/// Says that this process is the guard.
pub(super) const ARGUMENT: &str = "--guard";

/// Below what a server has by default where it is memory, so that several of them fit on one machine. What makes
/// commits durable stays as it is: `fsync` and `synchronous_commit` are on.
const SETTINGS: &str = "
listen_addresses = ''
max_connections = 200
shared_buffers = 32MB
log_min_messages = warning
# A standby that is made later must find what it has missed.
wal_keep_size = 64MB
";

pub(super) fn run() -> Result<(), Failure> {
    let binaries = match binaries::find() {
        Ok(binaries) => binaries,
        Err(why) => return say(&format!("skip: {why}")),
    };
    let mut cluster = Cluster::create(binaries)?;
    let connection = cluster.main.connection(&cluster.folder);
    say(&connection)?;
    for line in io::stdin().lines() {
        let answer = match cluster.obey(line?.trim()) {
            Ok(answer) => answer,
            Err(why) => format!("failed: {why}"),
        };
        // Whoever asked may have gone; then the next line is the end of the input.
        if say(answer.trim_end()).is_err() {
            break;
        }
    }
    Ok(())
}

fn say(line: &str) -> Result<(), Failure> {
    let mut out = io::stdout();
    writeln!(out, "{line}")?;
    Ok(out.flush()?)
}

/// A folder with a server, and perhaps a standby beside it. Both end, and the folder goes, when it is dropped.
struct Cluster {
    binaries: PathBuf,
    user: Option<User>,
    folder: PathBuf,
    main: Place,
    standby: Option<Place>,
}

/// Where one server has its files, and its number among those of the folder.
#[derive(Clone, Copy)]
struct Place {
    name: &'static str,
    port: u16,
}

const MAIN: Place = Place {
    name: "main",
    port: 5432,
};
const STANDBY: Place = Place {
    name: "standby",
    port: 5433,
};

impl Place {
    fn data(self, folder: &Path) -> PathBuf {
        folder.join(self.name)
    }

    fn connection(self, folder: &Path) -> String {
        format!(
            "host={} port={} user=postgres dbname=postgres",
            folder.display(),
            self.port
        )
    }
}

impl Cluster {
    fn create(binaries: PathBuf) -> Result<Self, Failure> {
        let user = User::other_than_root()
            .map_err(|why| Failure::failed(why, "run the tests as somebody else than root"))?;
        let folder = new_folder(user.as_ref())?;
        let cluster = Self {
            binaries,
            user,
            folder,
            main: MAIN,
            standby: None,
        };
        cluster.initialize().map_err(|why| {
            Failure::failed(
                format!("no PostgreSQL server could be made: {why}"),
                "the lines above are PostgreSQL's own",
            )
        })?;
        Ok(cluster)
    }

    fn initialize(&self) -> Result<(), String> {
        let data = self.main.data(&self.folder);
        let data = data.to_string_lossy();
        // Only the socket's folder leads in, and only its owner (and root) may open that. Nothing of what initdb writes
        // need survive a power cut that comes while it runs.
        let args = [
            "--pgdata",
            &data,
            "--username=postgres",
            "--auth=trust",
            "--encoding=UTF8",
            "--locale=C",
            "--no-sync",
        ];
        self.call("initdb", &args)?;
        self.configure(self.main, SETTINGS)?;
        self.start(self.main)
    }

    fn obey(&mut self, order: &str) -> Result<String, String> {
        let ok = |()| "ok".to_owned();
        match order {
            "stop" => self.stop(self.main, "fast").map(ok),
            "crash" => self.stop(self.main, "immediate").map(ok),
            "start" => self.start(self.main).map(ok),
            "standby" => self.follow(),
            "promote" => self.promote(),
            _ => Err(format!("`{order}` is no order")),
        }
    }

    fn follow(&mut self) -> Result<String, String> {
        let data = STANDBY.data(&self.folder);
        let (data, host) = (data.to_string_lossy(), self.folder.to_string_lossy());
        let port = self.main.port.to_string();
        let args = [
            "--pgdata",
            &data,
            "--host",
            &host,
            "--port",
            &port,
            "--username=postgres",
            "--write-recovery-conf",
            "--wal-method=stream",
            "--checkpoint=fast",
            "--no-sync",
        ];
        self.call("pg_basebackup", &args)?;
        self.configure(STANDBY, "")?;
        self.standby = Some(STANDBY);
        self.start(STANDBY)?;
        Ok(format!("ok {}", STANDBY.connection(&self.folder)))
    }

    fn promote(&mut self) -> Result<String, String> {
        let standby = self.standby.ok_or("there is no standby")?;
        self.stop(self.main, "immediate")?;
        let data = standby.data(&self.folder);
        self.call(
            "pg_ctl",
            &["promote", "--wait", "--pgdata", &data.to_string_lossy()],
        )?;
        Ok(format!("ok {}", standby.connection(&self.folder)))
    }

    fn configure(&self, place: Place, settings: &str) -> Result<(), String> {
        let file = place.data(&self.folder).join("postgresql.conf");
        let folder = self.folder.to_string_lossy();
        let own = format!(
            "{settings}\nport = {}\nunix_socket_directories = '{folder}'\n",
            place.port
        );
        let appended = fs::OpenOptions::new()
            .append(true)
            .open(&file)
            .and_then(|mut file| file.write_all(own.as_bytes()));
        appended.map_err(|error| format!("{}: {error}", file.display()))
    }

    fn start(&self, place: Place) -> Result<(), String> {
        let (data, log) = (
            place.data(&self.folder),
            self.folder.join(place.name).with_extension("log"),
        );
        let (data, log) = (data.to_string_lossy(), log.to_string_lossy());
        self.call(
            "pg_ctl",
            &["start", "--wait", "--pgdata", &data, "--log", &log],
        )
        .map_err(|why| format!("{why}\n{}", fs::read_to_string(&*log).unwrap_or_default()))
    }

    fn stop(&self, place: Place, mode: &str) -> Result<(), String> {
        let data = place.data(&self.folder);
        self.call(
            "pg_ctl",
            &[
                "stop",
                "--wait",
                "--mode",
                mode,
                "--pgdata",
                &data.to_string_lossy(),
            ],
        )
    }

    fn call(&self, program: &str, args: &[&str]) -> Result<(), String> {
        let path = self.binaries.join(program);
        let mut command = match &self.user {
            Some(user) => user.command(&path),
            None => Command::new(&path),
        };
        // The server's own processes must hold none of our pipes, or their ends would never come.
        command.args(args).current_dir(&self.folder);
        command.stdin(Stdio::null()).stdout(Stdio::null());
        let log = self.folder.join("calls.log");
        let errors = fs::File::create(&log).map_err(|error| error.to_string())?;
        let status = command
            .stderr(errors)
            .status()
            .map_err(|error| error.to_string())?;
        match status.success() {
            true => Ok(()),
            false => Err(format!(
                "{program} failed ({status}): {}",
                fs::read_to_string(&log).unwrap_or_default().trim_end()
            )),
        }
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        for place in self.standby.into_iter().chain([self.main]) {
            // One that does not run has nothing to be ended.
            _ = self.stop(place, "immediate");
        }
        if let Err(error) = fs::remove_dir_all(&self.folder) {
            eprintln!("xtask: {} is left behind: {error}", self.folder.display());
        }
    }
}

/// A new folder under a name that nobody could know, for its owner alone.
fn new_folder(owner: Option<&User>) -> Result<PathBuf, Failure> {
    // Short: the path of a socket has room for about a hundred bytes.
    let name = format!(
        "mrtr-postgres-{:016x}",
        RandomState::new().build_hasher().finish()
    );
    let folder = env::temp_dir().join(name);
    fs::create_dir(&folder)?;
    belong_to(&folder, owner)?;
    Ok(folder)
}

#[cfg(unix)]
fn belong_to(folder: &Path, owner: Option<&User>) -> io::Result<()> {
    use std::os::unix::fs::PermissionsExt as _;
    fs::set_permissions(folder, fs::Permissions::from_mode(0o700))?;
    match owner {
        Some(user) => std::os::unix::fs::chown(folder, Some(user.uid), Some(user.gid)),
        None => Ok(()),
    }
}

#[cfg(not(unix))]
fn belong_to(_: &Path, _: Option<&User>) -> io::Result<()> {
    Ok(())
}
