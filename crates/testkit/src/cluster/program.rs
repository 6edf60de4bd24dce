//! One program of the control plane: started on a host of the lab, with its output in a file, killed when dropped.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};
use std::{env, thread};

use rustix::process::{Pid, Signal, kill_process};

use crate::error::Error;
use crate::lab::Host;

const SHOWN_LINES: usize = 60;
const BETWEEN_LOOKS: Duration = Duration::from_millis(20);

/// A child process. The last output of a proxy is shown when the test fails.
pub struct Program {
    name: String,
    child: Child,
    log: PathBuf,
}

impl Program {
    /// Starts the command in the host's namespace; its output is appended to the log.
    pub fn start(host: &Host, name: &str, mut command: Command, log: &Path) -> Result<Program, Error> {
        let failed = |source| Error::Start { host: host.name(), program: name.to_owned(), source };
        let file = File::options().create(true).append(true).open(log).map_err(failed)?;
        let errors = file.try_clone().map_err(failed)?;
        command.stdin(Stdio::null()).stdout(file).stderr(errors);
        let child = host.run(|| command.spawn()).map_err(failed)?;
        Ok(Program { name: name.to_owned(), child, log: log.to_owned() })
    }

    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Sends the signal, and waits until the process has ended.
    pub fn end(mut self, signal: Signal) -> Option<ExitStatus> {
        let _ = kill_process(Pid::from_child(&self.child), signal);
        self.child.wait().ok()
    }

    /// Its output, across restarts.
    pub fn log(&self) -> String {
        fs::read_to_string(&self.log).unwrap_or_default()
    }

    pub fn has_ended(&mut self) -> bool {
        matches!(self.child.try_wait(), Ok(Some(_)))
    }

    /// Polls until the program is ready; the error has its last output.
    pub(super) fn wait_until(&mut self, within: Duration, mut is_ready: impl FnMut() -> bool) -> Result<(), Error> {
        let deadline = Instant::now() + within;
        while !is_ready() {
            if self.has_ended() || Instant::now() > deadline {
                return Err(Error::NotReady { program: self.name.clone(), output: self.last_output() });
            }
            thread::sleep(BETWEEN_LOOKS);
        }
        Ok(())
    }

    fn is_proxy(&self) -> bool {
        matches!(self.name.as_str(), "kube-proxy" | "portolan")
    }

    fn last_output(&self) -> String {
        let log = self.log();
        let lines: Vec<&str> = log.lines().collect();
        lines[lines.len().saturating_sub(SHOWN_LINES)..].join("\n")
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        if thread::panicking() && self.is_proxy() {
            eprintln!("the last lines of {}:\n{}\n", self.name, self.last_output());
        }
    }
}

/// The path of a Kubernetes program that `tests/cluster/build` has built.
pub fn kubernetes_program(name: &str) -> Result<PathBuf, Error> {
    let path = folder().join(name);
    if path.exists() { Ok(path) } else { Err(Error::NotBuilt { path }) }
}

/// The folder that `tests/cluster/build` fills; the script derives it in the same way.
fn folder() -> PathBuf {
    let variable = |name: &str| env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let in_home = || variable("HOME").unwrap_or_default().join(".cache");
    let cache = || variable("XDG_CACHE_HOME").unwrap_or_else(in_home).join("portolan");
    variable("PORTOLAN_CACHE").unwrap_or_else(cache).join("cluster")
}
