//! Runs a program for a limited time.

use std::io;
use std::os::unix::process::CommandExt;
use std::process::{Command, Output, Stdio};
use std::sync::mpsc;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process_group};

/// The output of a program. Without one it ran into the timeout and was killed, with the processes that it has started.
pub(crate) fn output(mut program: Command, timeout: Option<Duration>) -> io::Result<Option<Output>> {
    let Some(timeout) = timeout else { return program.output().map(Some) };
    let child = program.stdout(Stdio::piped()).process_group(0).spawn()?;
    let group = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
    let (sender, receiver) = mpsc::channel();
    // The thread outlives the timeout only until the pipes are closed; then it reaps the program.
    std::thread::spawn(move || sender.send(child.wait_with_output()));
    match receiver.recv_timeout(timeout) {
        Ok(output) => output.map(Some),
        Err(_) => {
            group.map(|group| kill_process_group(group, Signal::KILL)).transpose()?;
            Ok(None)
        }
    }
}
