//! One daemon replaces another: the old one sends its listening sockets, stops, and confirms; only then does the new one
//! start. Clients that connect meanwhile are not refused: they wait in the socket's queue.

use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};

use anyhow::{Context, bail, ensure};
use portolan_dataplane::{Listeners, NamedSocket, receive_sockets, send_sockets};

use super::{Answer, OnReplaced, Question, TIMEOUT};

/// What each side sends after the sockets.
const TAKEN: &[u8; 6] = b"taken\n";
const STOPPED: &[u8; 8] = b"stopped\n";

/// The old daemon's run loop receives this.
#[derive(Debug)]
pub(crate) struct Replacement {
    /// The run loop confirms here that it writes no more.
    pub(crate) stopped: SyncSender<()>,
    /// Closes when the new daemon has the confirmation; until then the process must live.
    pub(crate) confirmed: Receiver<()>,
}

/// The old daemon's side. Nothing changes here until the new daemon has all sockets.
pub(super) fn hand_over(
    mut stream: &UnixStream,
    listeners: Option<&Listeners>,
    replaced: &OnReplaced,
) -> anyhow::Result<()> {
    let sockets = listeners.map_or(Ok(Vec::new()), Listeners::sockets)?;
    stream.write_all((serde_json::to_string(&Answer::Sockets)? + "\n").as_bytes())?;
    send_sockets(stream, &sockets)?;
    let mut reply = [0; TAKEN.len()];
    stream.read_exact(&mut reply).context("waiting for the other process to take the sockets")?;
    ensure!(&reply == TAKEN, "unexpected answer from the new process");
    let (stopped, is_stopped) = sync_channel(1);
    let (_goodbye, confirmed) = sync_channel(0);
    replaced(Replacement { stopped, confirmed });
    is_stopped.recv_timeout(TIMEOUT).context("stopping")?;
    listeners.map_or(Ok(()), Listeners::leave)?;
    Ok(stream.write_all(STOPPED)?)
}

/// The new daemon's side. `None` if no daemon runs.
pub(crate) fn replace(path: &Path) -> anyhow::Result<Option<Vec<NamedSocket>>> {
    let Ok(mut stream) = UnixStream::connect(path) else { return Ok(None) };
    let attempt = || format!("replacing the portolan proxy at {}", path.display());
    stream.set_read_timeout(Some(TIMEOUT)).with_context(attempt)?;
    stream.write_all((serde_json::to_string(&Question::Replace)? + "\n").as_bytes()).with_context(attempt)?;
    let sockets = take(&stream).with_context(attempt)?;
    stream.write_all(TAKEN).with_context(attempt)?;
    let mut reply = [0; STOPPED.len()];
    stream.read_exact(&mut reply).context("waiting for it to stop").with_context(attempt)?;
    ensure!(&reply == STOPPED, "{}: unexpected answer", attempt());
    Ok(Some(sockets))
}

/// Descriptors travel beside the bytes, so the line before them is read without reading ahead.
pub(super) fn take(stream: &UnixStream) -> anyhow::Result<Vec<NamedSocket>> {
    let mut line = String::new();
    BufReader::with_capacity(1, stream).read_line(&mut line)?;
    match serde_json::from_str(&line).context("it is of a version that cannot be replaced while it runs")? {
        Answer::Sockets => Ok(receive_sockets(stream)?),
        Answer::Failure(reason) => bail!("it failed: {reason}"),
        _ => bail!("unexpected answer"),
    }
}
