//! As much of WebDriver (W3C) as this test needs.

use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use reqwest::{Client, Method};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::io::{AsyncBufReadExt as _, BufReader, Lines};
use tokio::process::{Child, ChildStdout, Command};
use tokio::time::{sleep, timeout};

use crate::server::PATIENCE;

/// Under this name every element is sent.
const ELEMENT: &str = "element-6066-11e4-a52e-4f735466cecf";

/// Where the browser and its driver are.
pub(crate) struct Programs {
    chromium: PathBuf,
    chromedriver: PathBuf,
}

impl Programs {
    pub(crate) fn find() -> Option<Programs> {
        let path = std::env::var_os("PATH").unwrap_or_default();
        let find = |name| {
            std::iter::once("/usr/bin".into())
                .chain(std::env::split_paths(&path))
                .map(|dir| dir.join(name))
                .find(|program| program.is_file())
        };
        Some(Programs {
            chromium: find("chromium")?,
            chromedriver: find("chromedriver")?,
        })
    }
}

/// A driver that runs.
pub(crate) struct Driver {
    child: Child,
    sessions: Sessions,
    /// Read no further, but open, so that the driver can go on writing.
    _stdout: Lines<BufReader<ChildStdout>>,
    /// Home of driver and browsers: all that they write.
    home: TempDir,
}

/// Opens browsers.
#[derive(Clone)]
pub(crate) struct Sessions {
    http: Client,
    driver: String,
    chromium: PathBuf,
    home: PathBuf,
    open: Arc<Mutex<Vec<String>>>,
}

/// A browser with a profile of its own.
pub(crate) struct Browser {
    http: Client,
    session: String,
}

impl Driver {
    pub(crate) async fn start(programs: &Programs) -> Driver {
        let home = tempfile::Builder::new()
            .prefix("link-account-browser-")
            .tempdir()
            .unwrap();
        let mut child = Command::new(&programs.chromedriver)
            .arg("--port=0")
            .envs(
                ["HOME", "TMPDIR", "XDG_CONFIG_HOME", "XDG_CACHE_HOME"]
                    .map(|name| (name, home.path())),
            )
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .kill_on_drop(true)
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let port = timeout(PATIENCE, async {
            loop {
                let line = lines
                    .next_line()
                    .await
                    .unwrap()
                    .expect("chromedriver ended");
                if let Some((_, port)) = line.split_once("started successfully on port ") {
                    return port.trim_end_matches('.').to_owned();
                }
            }
        });
        let port = port.await.expect("chromedriver did not say its port");
        let sessions = Sessions {
            http: Client::builder()
                .no_proxy()
                .timeout(PATIENCE)
                .build()
                .unwrap(),
            driver: format!("http://127.0.0.1:{port}"),
            chromium: programs.chromium.clone(),
            home: home.path().to_owned(),
            open: Arc::default(),
        };
        Driver {
            child,
            sessions,
            _stdout: lines,
            home,
        }
    }

    pub(crate) fn sessions(&self) -> Sessions {
        self.sessions.clone()
    }

    /// Ends the browsers and the driver. Processes that had to be killed, or could not be.
    pub(crate) async fn end(mut self) -> Vec<String> {
        let open = std::mem::take(&mut *self.sessions.open.lock().unwrap());
        for session in open {
            // One that fails has left something, which is found below.
            _ = self.sessions.http.delete(session).send().await;
        }
        let shutdown = format!("{}/shutdown", self.sessions.driver);
        _ = self.sessions.http.get(shutdown).send().await;
        if timeout(Duration::from_secs(10), self.child.wait())
            .await
            .is_err()
        {
            _ = self.child.kill().await;
        }
        for _ in 0..100 {
            if processes(self.home.path()).is_empty() {
                break;
            }
            sleep(Duration::from_millis(50)).await;
        }
        let left = processes(self.home.path());
        for (pid, _) in &left {
            _ = Command::new("kill").args(["-KILL", pid]).status().await;
        }
        left.into_iter().map(|(_, command)| command).collect()
    }
}

/// Processes with this folder on their command line, by id: every browser's main process has its profile there. Only Linux
/// can be asked so.
fn processes(folder: &Path) -> Vec<(String, String)> {
    let folder = folder.to_string_lossy();
    let all = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    all.filter_map(|entry| {
        let pid = entry.file_name().into_string().ok()?;
        pid.parse::<u32>().ok()?;
        let command = std::fs::read(entry.path().join("cmdline")).ok()?;
        let command = String::from_utf8_lossy(&command).replace('\0', " ");
        command.contains(&*folder).then_some((pid, command))
    })
    .collect()
}

impl Sessions {
    pub(crate) async fn open_browser(&self) -> Browser {
        let number = self.open.lock().unwrap().len();
        let profile = self.home.join(format!("profile-{number}"));
        let capabilities = json!({ "capabilities": { "alwaysMatch": {
            "browserName": "chrome",
            "timeouts": { "implicit": 20_000, "pageLoad": 60_000 },
            "goog:chromeOptions": {
                "binary": self.chromium,
                "args": [
                    "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run",
                    "--disable-background-networking", "--disable-component-update", "--disable-sync",
                    "--no-proxy-server", "--hide-scrollbars", "--window-size=860,1000",
                    format!("--user-data-dir={}", profile.display()),
                ],
            },
        } } });
        let new = format!("{}/session", self.driver);
        let value = command(&self.http, Method::POST, &new, Some(capabilities)).await;
        let session = format!("{new}/{}", value["sessionId"].as_str().unwrap());
        self.open.lock().unwrap().push(session.clone());
        Browser {
            http: self.http.clone(),
            session,
        }
    }
}

impl Browser {
    pub(crate) async fn go(&self, url: &str) {
        self.post("url", json!({ "url": url })).await;
    }

    pub(crate) async fn url(&self) -> String {
        self.get("url").await.as_str().unwrap().to_owned()
    }

    /// The HTTP status of the page that is shown.
    pub(crate) async fn status(&self) -> u64 {
        let script = "return performance.getEntriesByType('navigation')[0].responseStatus";
        let status = self.post("execute/sync", json!({ "script": script, "args": [] }));
        status.await.as_u64().unwrap()
    }

    /// The text of an element, as it is shown.
    pub(crate) async fn text(&self, css: &str) -> String {
        let element = self.element(css).await;
        let text = self.get(&format!("element/{element}/text")).await;
        text.as_str().unwrap().to_owned()
    }

    pub(crate) async fn write(&self, css: &str, text: &str) {
        let element = self.element(css).await;
        self.post(&format!("element/{element}/value"), json!({ "text": text }))
            .await;
    }

    /// Clicks what leads to another page, and waits until the page that it was on is gone: the driver may answer before.
    pub(crate) async fn click(&self, css: &str) {
        let element = self.element(css).await;
        self.post(&format!("element/{element}/click"), json!({}))
            .await;
        let clicked = format!("{}/element/{element}/name", self.session);
        let gone = async {
            while ask(&self.http, Method::GET, &clicked, None).await.is_ok() {
                sleep(Duration::from_millis(20)).await;
            }
        };
        timeout(Duration::from_secs(20), gone)
            .await
            .unwrap_or_else(|_| panic!("{css} was clicked, and its page is still there"));
    }

    pub(crate) async fn cookie(&self, name: &str) -> Value {
        self.get(&format!("cookie/{name}")).await
    }

    /// Prefers light or dark pages.
    pub(crate) async fn prefer(&self, scheme: &str) {
        let features = json!([{ "name": "prefers-color-scheme", "value": scheme }]);
        let media =
            json!({ "cmd": "Emulation.setEmulatedMedia", "params": { "features": features } });
        self.post("goog/cdp/execute", media).await;
    }

    /// Writes a picture of the page into the target directory.
    pub(crate) async fn screenshot(&self, name: &str) {
        let picture = self.get("screenshot").await;
        let picture = STANDARD.decode(picture.as_str().unwrap()).unwrap();
        let target = Path::new(env!("CARGO_TARGET_TMPDIR")).parent().unwrap();
        std::fs::write(target.join(name), picture).unwrap();
    }

    async fn element(&self, css: &str) -> String {
        let found = self
            .post("element", json!({ "using": "css selector", "value": css }))
            .await;
        found[ELEMENT].as_str().unwrap().to_owned()
    }

    async fn get(&self, path: &str) -> Value {
        let url = format!("{}/{path}", self.session);
        command(&self.http, Method::GET, &url, None).await
    }

    async fn post(&self, path: &str, body: Value) -> Value {
        let url = format!("{}/{path}", self.session);
        command(&self.http, Method::POST, &url, Some(body)).await
    }
}

/// Sends a command; its value. The test is over where the driver cannot do it.
async fn command(http: &Client, method: Method, url: &str, body: Option<Value>) -> Value {
    ask(http, method, url, body)
        .await
        .unwrap_or_else(|answer| panic!("{url}: {answer}"))
}

/// Sends a command; its value, or the driver's whole answer if it cannot do it.
async fn ask(
    http: &Client,
    method: Method,
    url: &str,
    body: Option<Value>,
) -> Result<Value, Value> {
    let mut request = http.request(method, url);
    if let Some(body) = body {
        request = request
            .header("content-type", "application/json")
            .body(body.to_string());
    }
    let response = request.send().await.unwrap();
    let status = response.status();
    let mut answer: Value = serde_json::from_slice(&response.bytes().await.unwrap()).unwrap();
    if !status.is_success() {
        return Err(answer);
    }
    Ok(answer["value"].take())
}
