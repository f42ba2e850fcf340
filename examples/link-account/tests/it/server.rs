//! The server's process.

use std::process::Stdio;
use std::time::Duration;

use reqwest::header::{CONTENT_TYPE, COOKIE};
use serde_json::Value;
use stage::record::Record;
use tempfile::TempDir;
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, BufReader};
use tokio::process::{Child, Command};
use tokio::task::JoinHandle;
use tokio::time::timeout;

/// How long a process may take to start or to end.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// A server that runs. Killed when it is dropped.
pub(crate) struct Server {
    pub(crate) url: String,
    pub(crate) pages: String,
    data: TempDir,
    child: Child,
    log: JoinHandle<String>,
}

/// What it wrote beside the vault.
pub(crate) struct Told {
    pub(crate) record: String,
    pub(crate) log: String,
}

impl Server {
    pub(crate) async fn start() -> Server {
        let data = tempfile::tempdir().unwrap();
        // stdin stays open while the test lives: its end is the server's end.
        let mut child = Command::new(env!("CARGO_BIN_EXE_link-account"))
            .args(["--until-stdin-closes", "--data"])
            .arg(data.path())
            .env_remove("MRTR_KEYS")
            .env("RUST_LOG", "debug")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .unwrap();
        let mut stderr = child.stderr.take().unwrap();
        let log = tokio::spawn(async move {
            let mut log = String::new();
            stderr.read_to_string(&mut log).await.unwrap();
            log
        });
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let mut announced = async |prefix| {
            let line = timeout(PATIENCE, lines.next_line()).await.unwrap().unwrap();
            let line = line.unwrap_or_default();
            line.strip_prefix(prefix)
                .unwrap_or_else(|| panic!("{line:?} instead of {prefix:?}"))
                .to_owned()
        };
        Server {
            url: announced("listening on ").await,
            pages: announced("pages on ").await,
            data,
            child,
            log,
        }
    }

    /// Host and port of the pages.
    pub(crate) fn host(&self) -> String {
        let rest = self.pages.strip_prefix("http://").unwrap();
        rest.split('/').next().unwrap().to_owned()
    }

    /// What is in the vault, if there is one.
    pub(crate) fn vault(&self) -> Option<Value> {
        let text = std::fs::read(self.data.path().join("vault.json")).ok()?;
        Some(serde_json::from_slice(&text).unwrap())
    }

    /// Submits a key with a browser's cookie; the status that comes back.
    pub(crate) async fn submit(&self, url: &str, cookie: &Value, key: &str) -> u16 {
        let [name, value] = ["name", "value"].map(|part| cookie[part].as_str().unwrap());
        let sent = reqwest::Client::new()
            .post(url)
            .header(COOKIE, format!("{name}={value}"))
            .header(CONTENT_TYPE, "application/x-www-form-urlencoded")
            .body(format!("api_key={key}&do=link"))
            .send();
        sent.await.unwrap().status().as_u16()
    }

    /// Ends it gracefully.
    pub(crate) async fn end(mut self) -> Told {
        drop(self.child.stdin.take());
        let ended = timeout(PATIENCE, self.child.wait()).await.unwrap().unwrap();
        assert!(ended.success(), "{ended}");
        let record = std::fs::read_to_string(self.data.path().join(Record::FILE)).unwrap();
        Told {
            record,
            log: self.log.await.unwrap(),
        }
    }
}
