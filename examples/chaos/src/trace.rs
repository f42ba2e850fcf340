//! What a server writes down while it runs, in two files of its own, a line of JSON each time.
//!
//! * `effects-PROCESS.jsonl` is the effects' own record: what a real server would have at a payment provider. A line is on
//!   the disk before its effect counts as done. Nothing in it comes from the ledger.
//! * `ledger-PROCESS.jsonl` says what the ledger was asked and what it answered, each with its moment. A question without an answer is one that the process did not live to hear.
//!
//! A line that was written survives the process, because the kernel holds it.

use std::fmt;
use std::fs::{File, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::path::Path;
use std::sync::{Mutex, PoisonError};

use mrtr_state::{Clock as _, SystemClock};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

/// A moment, in milliseconds since the Unix epoch, by the host's clock. Nobody sets that one: what jumps is a server's own
/// [clock](crate::server::clock), so moments of all processes can be compared.
pub(crate) type Millis = u64;

/// This moment.
pub(crate) fn now() -> Millis {
    SystemClock.now().as_millis()
}

/// One life of a server: its place in the fleet, and how often that place was started.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub(crate) struct Process {
    pub(crate) slot: usize,
    pub(crate) life: u32,
}

impl fmt::Display for Process {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "s{}.{}", self.slot, self.life)
    }
}

impl std::str::FromStr for Process {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let parts = text.strip_prefix('s').and_then(|rest| rest.split_once('.'));
        let parsed = parts.and_then(|(slot, life)| Some((slot.parse().ok()?, life.parse().ok()?)));
        parsed
            .map(|(slot, life)| Self { slot, life })
            .ok_or("a process is written s0.1: its slot and its life")
    }
}

/// An effect that has happened.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Effect {
    /// The flow that it belongs to: its business key, drawn by the client before the first call.
    pub(crate) flow: u64,
    pub(crate) step: String,
    /// A name that no other effect has.
    pub(crate) entry: String,
    /// What the person had answered last, if anything.
    pub(crate) pick: Option<u32>,
    /// The price that the body went by, where it had one.
    pub(crate) price: Option<u32>,
    pub(crate) at: Millis,
}

/// A row of the ledger: its expiry, and as much of its hash as tells rows apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub(crate) struct RowId(pub(crate) Millis, pub(crate) u64);

/// As much of a token as tells tokens apart.
pub(crate) type TokenId = u64;

/// A kind of row.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Kind {
    Round,
    Step,
    Note,
}

/// What a ledger is asked.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Question {
    Claim {
        kind: Kind,
        row: RowId,
        token: TokenId,
        /// As much of the account as tells flows apart: each flow has a principal of its own.
        account: u64,
        /// The round that a step is reached in.
        under: Option<(RowId, TokenId)>,
        /// A round that may take over a lost one.
        #[serde(default, skip_serializing_if = "is_false")]
        again: bool,
        /// A step whose claim, effect and outcome are one transaction.
        #[serde(default, skip_serializing_if = "is_false")]
        whole: bool,
    },
    Settle {
        row: RowId,
        token: TokenId,
        /// Without an outcome: cut off.
        abandoned: bool,
    },
    Beat {
        row: RowId,
        token: TokenId,
    },
    Release {
        row: RowId,
        token: TokenId,
    },
    Keep {
        row: RowId,
        account: u64,
        /// The round that a note is written in.
        under: Option<(RowId, TokenId)>,
    },
    Lookup {
        kind: Kind,
        row: RowId,
    },
    Purge,
    Epoch,
}

/// What it answers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Answer {
    First,
    InProgress,
    Settled,
    Conflict,
    Abandoned,
    Expired,
    StaleEpoch,
    StaleOwner,
    Full,
    Absent,
    Stored,
    Refused,
    /// A step ran and its outcome stands, in one transaction.
    Ran,
    /// A step ran, nothing of it was kept, and it is free.
    Freed,
    /// An effect panicked inside its transaction.
    Panicked,
    /// A note that was written before.
    Before,
    Yes,
    No,
    /// How many rows a purge removed.
    Purged(u64),
    /// The epoch, in short.
    Epoch(u64),
    /// No word, and why.
    NoWord(String),
    /// An answer that this program does not know.
    Unheard,
}

/// A line of the ledger's trace.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Line {
    Asked(u64, Millis, Question),
    Answered(u64, Millis, Answer),
    /// A tool dropped a step half-way, or panicked, on purpose.
    Cut {
        flow: u64,
        step: String,
        at: Millis,
    },
}

fn is_false(value: &bool) -> bool {
    !value
}

/// A file of lines, appended to.
#[derive(Debug)]
pub(crate) struct Lines(Mutex<File>);

impl Lines {
    pub(crate) fn append_to(path: &Path) -> io::Result<Self> {
        let file = OpenOptions::new().create(true).append(true).open(path)?;
        Ok(Self(Mutex::new(file)))
    }

    /// Appends a line: it is the kernel's before this returns, whatever becomes of the process.
    pub(crate) fn write(&self, line: &impl Serialize) -> io::Result<()> {
        self.file(line).map(drop)
    }

    /// Appends a line, and returns when it is on the disk.
    pub(crate) fn write_through(&self, line: &impl Serialize) -> io::Result<()> {
        self.file(line)?.sync_data()
    }

    fn file(&self, line: &impl Serialize) -> io::Result<std::sync::MutexGuard<'_, File>> {
        let mut text = serde_json::to_vec(line)?;
        text.push(b'\n');
        let mut file = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        file.write_all(&text)?;
        Ok(file)
    }
}

/// Reads a file of lines. What stands behind the last line's end was not written to its end, and counts as not written.
pub(crate) fn read<T: DeserializeOwned>(path: &Path) -> io::Result<Vec<T>> {
    let mut text = String::new();
    File::open(path)?.read_to_string(&mut text)?;
    let whole = text
        .rfind('\n')
        .map_or("", |end| text.get(..end).unwrap_or(""));
    whole
        .lines()
        .map(|line| {
            serde_json::from_str(line)
                .map_err(|error| io::Error::other(format!("{}: {error}: {line}", path.display())))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_come_back_as_they_were_written_and_half_a_line_does_not() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("lines");
        let lines = Lines::append_to(&path).unwrap();
        let claim = Question::Claim {
            kind: Kind::Step,
            row: RowId(9, 1),
            token: 2,
            account: 3,
            under: Some((RowId(8, 4), 5)),
            again: false,
            whole: true,
        };
        let written = [
            Line::Asked(1, 5, claim),
            Line::Answered(1, 6, Answer::NoWord("busy".into())),
            Line::Answered(2, 6, Answer::Purged(3)),
        ];
        for line in &written {
            lines.write(line).unwrap();
        }
        assert_eq!(read::<Line>(&path).unwrap(), written);
        let mut file = OpenOptions::new().append(true).open(&path).unwrap();
        file.write_all(b"{\"asked\":[7,").unwrap();
        assert_eq!(read::<Line>(&path).unwrap(), written);
        file.write_all(b"}\n").unwrap();
        assert!(read::<Line>(&path).is_err(), "a whole line that is none");
    }

    #[test]
    fn a_process_is_named_by_slot_and_life() {
        let process = Process { slot: 3, life: 12 };
        assert_eq!(process.to_string(), "s3.12");
        assert_eq!("s3.12".parse(), Ok(process));
        for other in ["", "s3", "3.12", "s3.x"] {
            assert!(other.parse::<Process>().is_err(), "{other}");
        }
    }
}
