//! Programs under wine, which end in time.

use std::fs::File;
use std::io::{Read, Seek};
use std::process::{Child, Command, ExitStatus, Output};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// A daemon. It is ended when this is dropped.
pub(crate) struct Daemon(Child);

impl Drop for Daemon {
    fn drop(&mut self) {
        _ = self.0.kill();
        _ = self.0.wait();
    }
}

impl Daemon {
    pub(crate) fn start(mut command: Command) -> Self {
        Self(command.spawn().expect("wine"))
    }

    pub(crate) fn has_ended(&mut self) -> bool {
        self.0.try_wait().expect("it is our child").is_some()
    }

    /// As Ctrl+C at its console, and returns how it ends.
    pub(crate) fn interrupt(mut self) -> ExitStatus {
        let process = Pid::from_child(&self.0);
        kill_process(process, Signal::INT).expect("it runs");
        self.ending().expect("it ends")
    }

    /// How it ends, if it does so in time.
    fn ending(&mut self) -> Option<ExitStatus> {
        let start = Instant::now();
        while start.elapsed() < PATIENCE {
            if let Some(status) = self.0.try_wait().expect("it is our child") {
                return Some(status);
            }
            std::thread::park_timeout(Duration::from_millis(20));
        }
        None
    }
}

/// Runs a command to its end. A command that hangs is killed and named, so that it fails its test alone.
///
/// Output goes to files: the services of wine inherit the standard error of the program that happens to start them, and a pipe has
/// its end only after them.
pub(crate) fn finish(mut command: Command) -> Result<Output, String> {
    let [mut stdout, mut stderr] = [(); 2].map(|()| tempfile::tempfile().expect("a file"));
    let copy = |file: &File| file.try_clone().expect("a file");
    command.stdout(copy(&stdout)).stderr(copy(&stderr));
    let ending = Daemon(command.spawn().expect("wine")).ending();
    let [stdout, stderr] = [&mut stdout, &mut stderr].map(written);
    match ending {
        Some(status) => Ok(Output { status, stdout, stderr }),
        None => Err(format!("{command:?} does not end; so far it has written: {}", String::from_utf8_lossy(&stderr))),
    }
}

fn written(file: &mut File) -> Vec<u8> {
    let mut bytes = Vec::new();
    file.rewind().and_then(|()| file.read_to_end(&mut bytes)).expect("a file");
    bytes
}
