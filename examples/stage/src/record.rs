//! The record of effects: one line of JSON each, in a file that is only ever appended to.
//!
//! It is what the examples have instead of a payment provider or a booking system, and what tells how often something
//! happened: `{"entry":3,"kind":"charge","value":{"tool":"charge_good","amount":30.0}}`.

use std::fs::{File, OpenOptions};
use std::io::{self, Read as _, Seek as _, SeekFrom, Write as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// A record in a file. Cheap to clone.
///
/// **Guaranteed**: an entry that was acknowledged is on the disk, once, under a number that no other entry has, also where
/// several processes append to one file: the file is locked while its lines are counted and the next is written.
///
/// **Not guaranteed**: anything about how often [`append`](Self::append) is called. That is what the examples are about.
#[derive(Debug, Clone)]
pub struct Record {
    path: Arc<Path>,
}

/// One effect, as it stands in the file.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Entry<V = Value> {
    /// Its number, from 1.
    pub entry: u64,
    /// What kind of effect.
    pub kind: String,
    /// What is to be known of it.
    pub value: V,
}

impl Record {
    /// The file's name within a data directory.
    pub const FILE: &'static str = "record.jsonl";

    /// Opens a record, or creates it.
    ///
    /// # Errors
    ///
    /// Where the file cannot be opened or created.
    pub fn open(path: impl Into<PathBuf>) -> io::Result<Record> {
        let path = path.into();
        appending(&path)?;
        Ok(Record { path: path.into() })
    }

    /// Records an effect and returns its number, once it is on the disk. The work is done off the async threads; once
    /// begun it is carried through, even if the caller goes away.
    ///
    /// # Errors
    ///
    /// Where the entry cannot be written or flushed to the disk. It may then be there or not.
    pub async fn append(&self, kind: &'static str, value: &impl Serialize) -> io::Result<u64> {
        let value = serde_json::to_value(value)?;
        let path = Arc::clone(&self.path);
        tokio::task::spawn_blocking(move || append(&path, kind, value))
            .await
            .map_err(io::Error::other)?
    }

    /// How many entries there are.
    ///
    /// # Errors
    ///
    /// Where the file cannot be read.
    pub async fn count(&self) -> io::Result<u64> {
        let path = Arc::clone(&self.path);
        tokio::task::spawn_blocking(move || lines(&mut File::open(&path)?))
            .await
            .map_err(io::Error::other)?
    }

    /// Everything that was recorded in a file, in order; nothing where there is no file.
    ///
    /// # Errors
    ///
    /// Where the file cannot be read, or a line is not an entry.
    pub fn read(path: impl AsRef<Path>) -> io::Result<Vec<Entry>> {
        let text = match std::fs::read_to_string(path) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) => return Err(error),
        };
        text.lines()
            .map(|line| Ok(serde_json::from_str(line)?))
            .collect()
    }
}

fn append(path: &Path, kind: &str, value: Value) -> io::Result<u64> {
    let mut file = appending(path)?;
    // Let go when the file is closed, also by the end of the process.
    file.lock()?;
    let entry = 1 + lines(&mut file)?;
    let mut line = serde_json::to_vec(&Entry {
        entry,
        kind: kind.to_owned(),
        value,
    })?;
    line.push(b'\n');
    file.write_all(&line)?;
    file.sync_data()?;
    Ok(entry)
}

fn appending(path: &Path) -> io::Result<File> {
    OpenOptions::new()
        .read(true)
        .append(true)
        .create(true)
        .open(path)
}

fn lines(file: &mut File) -> io::Result<u64> {
    let mut text = Vec::new();
    file.seek(SeekFrom::Start(0))?;
    file.read_to_end(&mut text)?;
    Ok(text.iter().map(|byte| u64::from(*byte == b'\n')).sum())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(flavor = "multi_thread", worker_threads = 4)]
    async fn many_writers_number_their_entries_from_the_file() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join(Record::FILE);
        let mut tasks = Vec::new();
        for number in 0..32_u64 {
            // Each with a record of its own, as processes have.
            let record = Record::open(&path).unwrap();
            tasks.push(tokio::spawn(
                async move { record.append("test", &number).await },
            ));
        }
        let mut numbers = Vec::new();
        for task in tasks {
            numbers.push(task.await.unwrap().unwrap());
        }
        numbers.sort_unstable();
        assert_eq!(numbers, (1..=32).collect::<Vec<u64>>());

        assert_eq!(Record::open(&path).unwrap().count().await.unwrap(), 32);
        let entries = Record::read(&path).unwrap();
        let written: Vec<u64> = entries.iter().map(|entry| entry.entry).collect();
        assert_eq!(written, numbers, "in the file's own order");
        let mut values: Vec<u64> = entries
            .iter()
            .map(|entry| entry.value.as_u64().unwrap())
            .collect();
        values.sort_unstable();
        assert_eq!(values, (0..32).collect::<Vec<u64>>());
    }

    #[test]
    fn no_file_is_no_entries() {
        let dir = tempfile::tempdir().unwrap();
        assert_eq!(Record::read(dir.path().join(Record::FILE)).unwrap(), []);
    }
}
