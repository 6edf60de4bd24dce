//! One daemon replaces another: the old one sends its listening sockets and its lock, stops, and confirms; only then does
//! the new one start. Clients that connect meanwhile are not refused: they wait in the socket's queue.

use std::io::{BufRead, BufReader, Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};

use anyhow::{Context, anyhow, bail, ensure};
use portolan_dataplane::{Listeners, NamedSocket, receive_sockets, send_sockets};
use portolan_model::{Family, Protocol};

use super::{Answer, Lock, Question, Server, TIMEOUT};

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

/// What the old daemon has handed over.
pub(crate) struct Replaced {
    pub(crate) sockets: Vec<NamedSocket>,
    pub(crate) lock: Option<Lock>,
}

/// The old daemon's side. Nothing changes here until the new daemon has all sockets.
pub(super) fn hand_over(mut stream: &UnixStream, server: &Server) -> anyhow::Result<()> {
    stream.set_read_timeout(Some(TIMEOUT))?;
    stream.set_write_timeout(Some(TIMEOUT))?;
    let listeners = server.published.lock().map_err(|_| failed())?.listeners.clone();
    let listeners = listeners.as_deref();
    let sockets = listeners.map_or(Ok(Vec::new()), Listeners::sockets)?;
    let lock = server.lock.lock().map_err(|_| failed())?.as_ref().map(Lock::duplicate).transpose()?;
    stream.write_all((serde_json::to_string(&Answer::SocketsAndLock)? + "\n").as_bytes())?;
    send_sockets(stream, &sockets)?;
    send_sockets(stream, &lock.map(in_a_list).into_iter().collect::<Vec<_>>())?;
    let mut reply = [0; TAKEN.len()];
    stream.read_exact(&mut reply).context("waiting for the other process to take the sockets")?;
    ensure!(&reply == TAKEN, "unexpected answer from the new process");
    let (stopped, is_stopped) = sync_channel(1);
    let (_goodbye, confirmed) = sync_channel(0);
    (server.replaced)(Replacement { stopped, confirmed });
    is_stopped.recv_timeout(TIMEOUT).context("stopping")?;
    listeners.map_or(Ok(()), Listeners::leave)?;
    // This process may live on for its connections, and is no daemon any more.
    drop(server.lock.lock().map_err(|_| failed())?.take());
    Ok(stream.write_all(STOPPED)?)
}

fn failed() -> anyhow::Error {
    anyhow!("the daemon has failed")
}

/// The new daemon's side. `None` if no daemon runs.
pub(crate) fn replace(path: &Path) -> anyhow::Result<Option<Replaced>> {
    let Ok(mut stream) = UnixStream::connect(path) else { return Ok(None) };
    let attempt = || format!("replacing the portolan proxy at {}", path.display());
    stream.set_read_timeout(Some(TIMEOUT)).with_context(attempt)?;
    stream.set_write_timeout(Some(TIMEOUT)).with_context(attempt)?;
    stream.write_all((serde_json::to_string(&Question::Replace)? + "\n").as_bytes()).with_context(attempt)?;
    let replaced = take(&stream).with_context(attempt)?;
    stream.write_all(TAKEN).with_context(attempt)?;
    let mut reply = [0; STOPPED.len()];
    stream.read_exact(&mut reply).context("waiting for it to stop").with_context(attempt)?;
    ensure!(&reply == STOPPED, "{}: unexpected answer", attempt());
    Ok(Some(replaced))
}

/// Descriptors travel beside the bytes, so the line before them is read without reading ahead.
pub(super) fn take(stream: &UnixStream) -> anyhow::Result<Replaced> {
    let mut line = String::new();
    BufReader::with_capacity(1, stream).read_line(&mut line)?;
    match serde_json::from_str(&line).context("it is of a version that cannot be replaced while it runs")? {
        Answer::Sockets => Ok(Replaced { sockets: receive_sockets(stream)?, lock: None }),
        Answer::SocketsAndLock => {
            let sockets = receive_sockets(stream)?;
            let lock = receive_sockets(stream)?.pop().map(|(_, _, _, descriptor)| Lock::adopt(descriptor));
            Ok(Replaced { sockets, lock })
        }
        Answer::Failure(reason) => bail!("it failed: {reason}"),
        _ => bail!("unexpected answer"),
    }
}

/// Descriptors travel in lists of sockets; protocol and family do not matter here.
fn in_a_list(lock: OwnedFd) -> NamedSocket {
    ("lock".to_owned(), Protocol::Tcp, Family::V4, lock)
}
