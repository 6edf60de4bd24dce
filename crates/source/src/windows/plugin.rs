//! Runs a program for a limited time.

use std::io::{self, Read};
use std::process::{Child, Command, Output, Stdio};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

const LOOK_EVERY: Duration = Duration::from_millis(20);

/// The output of a program. Without one it ran into the timeout and was killed; processes that it has started continue.
pub(crate) fn output(mut program: Command, timeout: Option<Duration>) -> io::Result<Option<Output>> {
    let Some(timeout) = timeout else { return program.output().map(Some) };
    let mut child = program.stdout(Stdio::piped()).spawn()?;
    let (stdout, stderr) = (gather(child.stdout.take()), gather(child.stderr.take()));
    let Some(status) = ended(&mut child, timeout)? else { return Ok(None) };
    let [stdout, stderr] = [stdout, stderr].map(|thread| thread.join().unwrap_or_default());
    Ok(Some(Output { status, stdout, stderr }))
}

fn ended(child: &mut Child, timeout: Duration) -> io::Result<Option<std::process::ExitStatus>> {
    let start = Instant::now();
    while start.elapsed() < timeout {
        if let Some(status) = child.try_wait()? {
            return Ok(Some(status));
        }
        thread::sleep(LOOK_EVERY);
    }
    child.kill()?;
    child.wait().map(|_| None)
}

/// Reads on a thread of its own, so that a program that writes much does not wait.
fn gather(pipe: Option<impl Read + Send + 'static>) -> JoinHandle<Vec<u8>> {
    thread::spawn(move || {
        let mut bytes = Vec::new();
        // What was read before an error is all there is.
        _ = pipe.map(|mut pipe| pipe.read_to_end(&mut bytes));
        bytes
    })
}
