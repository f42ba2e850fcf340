//! The file: where it is, who may read it, and whether it is still the one that was opened.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::OpenError;

/// POSIX gives up a process's locks on a file when *any* descriptor of it is closed. SQLite knows that of its own
/// descriptors, not of the one with which the file is created below; so creating and opening exclude each other.
static OPENING: Mutex<()> = Mutex::new(());

/// To be held from [`create`] until SQLite has opened the file.
pub(crate) fn opening() -> MutexGuard<'static, ()> {
    OPENING.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The path by which the file is known from here on, whatever the working directory becomes.
pub(crate) fn resolve(path: &Path) -> Result<PathBuf, OpenError> {
    let name = path.file_name().ok_or(OpenError::NotAFile)?;
    let parent = path
        .parent()
        .filter(|parent| !parent.as_os_str().is_empty())
        .unwrap_or(Path::new("."));
    Ok(parent.canonicalize()?.join(name))
}

/// Creates the file, for its owner only, if there is none.
pub(crate) fn create(path: &Path) -> io::Result<()> {
    let mut options = fs::OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    match options.open(path) {
        Ok(file) => drop(file),
        // Another process, or thread, was first. That is fine.
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => return Ok(()),
        Err(error) => return Err(error),
    }
    // The name must be as durable as what will be written under it.
    #[cfg(unix)]
    if let Some(parent) = path.parent() {
        fs::File::open(parent)?.sync_all()?;
    }
    Ok(())
}

/// Refuses what is no regular file, and what others than the owner may touch.
pub(crate) fn check(path: &Path) -> Result<(), OpenError> {
    check_one(path)?;
    for beside in [beside(path, "-wal"), beside(path, "-shm")] {
        match check_one(&beside) {
            // SQLite makes them with the mode of the file itself.
            Ok(()) | Err(OpenError::Missing) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

fn check_one(path: &Path) -> Result<(), OpenError> {
    let metadata = match fs::symlink_metadata(path) {
        Ok(metadata) => metadata,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Err(OpenError::Missing),
        Err(error) => return Err(error.into()),
    };
    if metadata.is_symlink() {
        return Err(OpenError::Symlink);
    }
    if !metadata.is_file() {
        return Err(OpenError::NotAFile);
    }
    #[cfg(unix)]
    {
        let mode = std::os::unix::fs::PermissionsExt::mode(&metadata.permissions()) & 0o777;
        if mode & 0o077 != 0 {
            return Err(OpenError::Permissions {
                path: path.to_owned(),
                mode,
            });
        }
    }
    Ok(())
}

/// The file and its write-ahead log, told apart from others that may come under the same names.
///
/// SQLite goes on writing to a file that was unlinked or replaced. What it acknowledges then is gone with the process,
/// so the ledger looks before and after each commit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Identity {
    file: Inode,
    log: Option<Inode>,
}

impl Identity {
    pub(crate) fn of(path: &Path) -> io::Result<Self> {
        let log = match inode(&beside(path, "-wal")) {
            Ok(log) => Some(log),
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            Err(error) => return Err(error),
        };
        Ok(Self {
            file: inode(path)?,
            log,
        })
    }

    pub(crate) fn is_same_file(self, other: Self) -> bool {
        self.file == other.file
    }

    /// Whether `now` still has the log. One may appear, with the first write; it does not go, and no other comes,
    /// while the file is open.
    pub(crate) fn keeps_its_log(self, now: Self) -> bool {
        self.log.is_none() || self.log == now.log
    }
}

#[cfg(unix)]
type Inode = (u64, u64);

/// It asks for the inode alone. Since Linux 6.13 a file whose times somebody has asked for gets a new time with the next
/// write, and the commit's `fsync` then writes the inode too: it takes half as long again.
#[cfg(target_os = "linux")]
fn inode(path: &Path) -> io::Result<Inode> {
    use rustix::fs::{AtFlags, CWD, StatxFlags};
    use rustix::io::Errno;

    match rustix::fs::statx(CWD, path, AtFlags::SYMLINK_NOFOLLOW, StatxFlags::INO) {
        Ok(found) => Ok((
            rustix::fs::makedev(found.stx_dev_major, found.stx_dev_minor),
            found.stx_ino,
        )),
        // What keeps system calls from a process may know the older one alone.
        Err(Errno::NOSYS | Errno::PERM) => inode_by_stat(path),
        Err(error) => Err(error.into()),
    }
}

#[cfg(all(unix, not(target_os = "linux")))]
fn inode(path: &Path) -> io::Result<Inode> {
    inode_by_stat(path)
}

#[cfg(unix)]
fn inode_by_stat(path: &Path) -> io::Result<Inode> {
    use std::os::unix::fs::MetadataExt as _;
    let metadata = fs::symlink_metadata(path)?;
    Ok((metadata.dev(), metadata.ino()))
}

// Elsewhere an open file cannot be replaced under its name, so that it is there is all that is to be known.
#[cfg(not(unix))]
type Inode = ();

#[cfg(not(unix))]
fn inode(path: &Path) -> io::Result<Inode> {
    fs::symlink_metadata(path).map(drop)
}

pub(crate) fn beside(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    PathBuf::from(name)
}
