//! The driver's process, and its one session.

use std::io::{BufRead, BufReader};
use std::os::unix::process::CommandExt;
use std::process::{Child, ChildStdout, Command, Stdio};

use rustix::process::{Pid, Signal, kill_process_group};
use serde_json::{Value, json};
use tempfile::TempDir;

use super::wire::request;
use crate::error::Error;

const PROGRAM: &str = "chromedriver";
const STARTED: &str = "started successfully on port ";
/// How long a script may wait for a condition; long, because a loaded machine must not fail a test that is only slow.
const SCRIPT_TIMEOUT_MS: u32 = 60_000;

pub(super) struct Driver {
    process: Child,
    /// Kept open, because the driver ends when it cannot write.
    _output: BufReader<ChildStdout>,
    port: u16,
    session: String,
    browser: Option<Pid>,
    /// The profile, and everything else that the browser writes.
    _folder: TempDir,
}

impl Driver {
    pub(super) fn start() -> Result<Driver, Error> {
        let folder = tempfile::tempdir().map_err(|source| Error::Folder { source })?;
        let mut process = spawn(&folder).map_err(|error| failed("start", error))?;
        let output = process.stdout.take().ok_or_else(|| failed("start", "it has no output"))?;
        let mut output = BufReader::new(output);
        let port = port_of(&mut output)?;
        let session = String::new();
        let mut driver = Driver { process, _output: output, port, session, browser: None, _folder: folder };
        driver.open_session()?;
        Ok(driver)
    }

    fn open_session(&mut self) -> Result<(), Error> {
        let profile = self._folder.path().join("profile").display().to_string();
        let answer = self.send("POST", "/session", &capabilities(&profile))?;
        self.session = answer["sessionId"].as_str().unwrap_or_default().to_owned();
        let browser = answer["capabilities"]["goog:processID"].as_i64().and_then(|it| i32::try_from(it).ok());
        self.browser = browser.and_then(Pid::from_raw);
        Ok(())
    }

    pub(super) fn post(&self, command: &str, parameters: &Value) -> Result<Value, Error> {
        self.send("POST", &format!("/session/{}/{command}", self.session), parameters)
    }

    pub(super) fn get(&self, command: &str) -> Result<Value, Error> {
        self.send("GET", &format!("/session/{}/{command}", self.session), &Value::Null)
    }

    fn send(&self, method: &str, path: &str, body: &Value) -> Result<Value, Error> {
        let body = if body.is_null() { String::new() } else { body.to_string() };
        let what = path.rsplit('/').next().unwrap_or_default();
        let answer = request(self.port, method, path, &body).map_err(|error| failed(what, error))?;
        let answer: Value = serde_json::from_str(&answer).map_err(|error| failed(what, error))?;
        match answer["value"].get("error") {
            Some(error) => Err(failed(what, format!("{error}: {}", answer["value"]["message"]))),
            None => Ok(answer["value"].clone()),
        }
    }
}

/// The driver starts the browser in a process group of its own, so there are two groups to end.
impl Drop for Driver {
    fn drop(&mut self) {
        let _ = self.send("DELETE", &format!("/session/{}", self.session), &Value::Null);
        let groups = [self.browser, Some(Pid::from_child(&self.process))];
        for group in groups.into_iter().flatten() {
            let _ = kill_process_group(group, Signal::KILL);
        }
        let _ = self.process.wait();
    }
}

fn spawn(folder: &TempDir) -> std::io::Result<Child> {
    let mut command = Command::new(PROGRAM);
    command.arg("--port=0").env("HOME", folder.path()).env("TMPDIR", folder.path());
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null()).process_group(0).spawn()
}

/// The driver chooses a free port and prints it.
fn port_of(output: &mut impl BufRead) -> Result<u16, Error> {
    let mut line = String::new();
    while output.read_line(&mut line).map_err(|error| failed("start", error))? > 0 {
        let port = line.split(STARTED).nth(1).and_then(|rest| rest.trim().trim_end_matches('.').parse().ok());
        if let Some(port) = port {
            return Ok(port);
        }
        line.clear();
    }
    Err(failed("start", "it ended at once"))
}

/// Root has no sandbox in chromium; in a container /dev/shm is small.
fn capabilities(profile: &str) -> Value {
    let arguments = [
        "--headless=new",
        "--no-sandbox",
        "--disable-dev-shm-usage",
        "--disable-gpu",
        "--disable-background-networking",
        "--disable-component-update",
        "--no-first-run",
        "--hide-scrollbars",
        "--force-color-profile=srgb",
        "--window-size=1440,900",
        &format!("--user-data-dir={profile}"),
    ];
    json!({"capabilities": {"alwaysMatch": {
        "browserName": "chrome",
        "goog:chromeOptions": {"args": arguments},
        "goog:loggingPrefs": {"browser": "ALL", "performance": "ALL"},
        "timeouts": {"script": SCRIPT_TIMEOUT_MS},
    }}})
}

fn failed(what: &str, reason: impl ToString) -> Error {
    Error::Browser { what: what.into(), reason: reason.to_string() }
}
