//! One daemon takes the place of another: the old one gives its listening sockets away, stops, and says so; only then
//! does the new one begin. Nobody who connects meanwhile is refused: they wait in the queue of the socket.

use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};

use anyhow::{Context, bail, ensure};
use portolan_dataplane::userspace::{Doors, NamedSocket, receive_sockets, send_sockets};

use super::{Answer, PATIENCE, Question, TellReplaced};

/// What each side says after the sockets.
const TAKEN: &[u8; 6] = b"taken\n";
const STOPPED: &[u8; 8] = b"stopped\n";

/// What the run loop of the side that leaves is told.
#[derive(Debug)]
pub(crate) struct Replacement {
    /// Where it says that it will not write any more.
    pub(crate) stopped: SyncSender<()>,
    /// Ends when the other side has been told: until then, the process must live.
    pub(crate) is_said: Receiver<()>,
}

/// The side that leaves. Until the other one has everything, nothing changes here.
pub(super) fn hand_over(mut stream: &UnixStream, doors: Option<&Doors>, replaced: &TellReplaced) -> anyhow::Result<()> {
    let sockets = doors.map_or(Ok(Vec::new()), Doors::sockets)?;
    stream.write_all((serde_json::to_string(&Answer::Sockets)? + "\n").as_bytes())?;
    send_sockets(stream, &sockets)?;
    let mut said = [0; TAKEN.len()];
    stream.read_exact(&mut said).context("waiting for the other process to take the sockets")?;
    ensure!(&said == TAKEN, "the other process said something else");
    let (stopped, is_stopped) = sync_channel(1);
    let (_goodbye, is_said) = sync_channel(0);
    replaced(Replacement { stopped, is_said });
    is_stopped.recv_timeout(PATIENCE).context("stopping")?;
    doors.map_or(Ok(()), Doors::leave)?;
    Ok(stream.write_all(STOPPED)?)
}

/// The side that comes. `None` if there is nobody to replace.
pub(crate) fn replace(path: &Path) -> anyhow::Result<Option<Vec<NamedSocket>>> {
    let Ok(mut stream) = UnixStream::connect(path) else { return Ok(None) };
    let attempt = || format!("taking the place of the portolan proxy that answers at {}", path.display());
    stream.set_read_timeout(Some(PATIENCE)).with_context(attempt)?;
    stream.write_all((serde_json::to_string(&Question::Replace)? + "\n").as_bytes()).with_context(attempt)?;
    let sockets = take(&stream).with_context(attempt)?;
    stream.write_all(TAKEN).with_context(attempt)?;
    let mut said = [0; STOPPED.len()];
    stream.read_exact(&mut said).context("waiting for it to stop").with_context(attempt)?;
    ensure!(&said == STOPPED, "{}: it said something else", attempt());
    Ok(Some(sockets))
}

/// Descriptors travel beside the bytes, so that the line before them must be read without reading ahead.
fn take(stream: &UnixStream) -> anyhow::Result<Vec<NamedSocket>> {
    let mut line = String::new();
    BufReader::with_capacity(1, stream).read_line(&mut line)?;
    match serde_json::from_str(&line).context("it is of a version that cannot be replaced while it runs")? {
        Answer::Sockets => Ok(receive_sockets(stream)?),
        Answer::Failure(reason) => bail!("it says: {reason}"),
        _ => bail!("it answered another question"),
    }
}
