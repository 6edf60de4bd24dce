//! One daemon replaces another: the old one sends its listening sockets and its lock, stops, and confirms; only then does
//! the new one start. Clients that connect meanwhile are not refused: they wait in the socket's queue. The new daemon
//! confirms in turn when it serves. If it ends before, the old one takes its sockets back and goes on.

use std::io::{self, BufRead, BufReader, ErrorKind, Read, Write};
use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};

use anyhow::{Context, anyhow, bail, ensure};
use portolan_dataplane::{Listeners, NamedSocket, receive_sockets, send_sockets};
use portolan_kernel::fd::OwnedFd;
use portolan_model::{Family, Protocol};

use crate::system::{self, Stream};

use super::{Answer, Lock, Question, Server, TIMEOUT};

/// What each side sends after the sockets.
const TAKEN: &[u8; 6] = b"taken\n";
const STOPPED: &[u8; 8] = b"stopped\n";
const SERVING: &[u8; 8] = b"serving\n";

/// The old daemon's run loop receives this.
#[derive(Debug)]
pub(crate) struct Replacement {
    /// The run loop confirms here that it writes no more.
    pub(crate) stopped: SyncSender<()>,
    /// What became of the new daemon. Until then the process must live.
    pub(crate) outcome: Receiver<Successor>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Successor {
    Serves,
    /// It has ended before it served.
    Gone,
}

/// What the old daemon has handed over.
pub(crate) struct Replaced {
    pub(crate) sockets: Vec<NamedSocket>,
    pub(crate) lock: Option<Lock>,
    /// `None` if the old daemon is of a version that does not wait for it.
    pub(crate) confirmation: Option<Confirmation>,
}

/// The old daemon waits for this. If it is dropped before, the old daemon goes on.
pub(crate) struct Confirmation(Stream);

impl Confirmation {
    /// This daemon serves.
    pub(crate) fn send(mut self) {
        if let Err(error) = self.0.write_all(SERVING) {
            tracing::debug!("confirming to the replaced process: {error}");
        }
    }
}

/// The old daemon's side. Nothing changes here until the new daemon has all sockets.
pub(super) fn hand_over(mut stream: &Stream, server: &Arc<Server>, confirms: bool) -> anyhow::Result<()> {
    stream.set_read_timeout(Some(TIMEOUT))?;
    stream.set_write_timeout(Some(TIMEOUT))?;
    let listeners = server.published.lock().map_err(|_| failed())?.listeners.clone();
    let sockets = listeners.as_deref().map_or(Ok(Vec::new()), Listeners::sockets)?;
    let lock = server.lock.lock().map_err(|_| failed())?.as_ref().map(Lock::duplicate).transpose()?;
    stream.write_all((serde_json::to_string(&Answer::SocketsAndLock)? + "\n").as_bytes())?;
    send_sockets(stream, &sockets)?;
    send_sockets(stream, &lock.map(in_a_list).into_iter().collect::<Vec<_>>())?;
    let mut reply = [0; TAKEN.len()];
    stream.read_exact(&mut reply).context("waiting for the other process to take the sockets")?;
    ensure!(&reply == TAKEN, "unexpected answer from the new process");
    let (stopped, is_stopped) = sync_channel(1);
    let (decided, outcome) = sync_channel(1);
    (server.replaced)(Replacement { stopped, outcome });
    is_stopped.recv_timeout(TIMEOUT).context("stopping")?;
    let successor = leave(stream, listeners.as_deref(), confirms);
    match successor {
        // This process may live on for its connections, and is no daemon any more.
        Successor::Serves => drop(server.lock.lock().map_err(|_| failed())?.take()),
        Successor::Gone => return_to_service(server, listeners.as_deref(), sockets),
    }
    _ = decided.send(successor);
    Ok(())
}

/// Leaves the sockets to the new daemon, and waits until it serves.
fn leave(mut stream: &Stream, listeners: Option<&Listeners>, confirms: bool) -> Successor {
    if let Err(error) = listeners.map_or(Ok(()), Listeners::leave) {
        tracing::error!("leaving the listeners to the new process: {error}");
    }
    let confirmed = stream.write_all(STOPPED).and_then(|()| if confirms { wait_until_serving(stream) } else { Ok(()) });
    match confirmed {
        Ok(()) => Successor::Serves,
        Err(error) => {
            tracing::debug!("waiting for the new process: {error}");
            Successor::Gone
        }
    }
}

/// A new daemon that takes long is not gone.
fn wait_until_serving(mut stream: &Stream) -> io::Result<()> {
    match stream.read_exact(&mut [0; SERVING.len()]) {
        Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => Ok(()),
        outcome => outcome,
    }
}

/// The duplicates that were sent are the sockets that this process had.
fn return_to_service(server: &Arc<Server>, listeners: Option<&Listeners>, sockets: Vec<NamedSocket>) {
    if let Err(error) = listeners.map_or(Ok(0), |listeners| listeners.adopt(sockets)) {
        tracing::error!("taking the listeners back: {error}; clients that were connecting are refused");
    }
    server.listen_again();
}

fn failed() -> anyhow::Error {
    anyhow!("the daemon has failed")
}

/// The new daemon's side. `None` if no daemon runs. A version that does not wait for the confirmation does not know that
/// question, and closes the connection.
pub(crate) fn replace(path: &Path) -> anyhow::Result<Option<Replaced>> {
    let attempt = || format!("replacing the portolan proxy at {}", path.display());
    let Ok(stream) = system::connect(path) else { return Ok(None) };
    if let Some(replaced) = exchange(stream, &Question::ReplaceAndConfirm).with_context(attempt)? {
        return Ok(Some(replaced));
    }
    let Ok(stream) = system::connect(path) else { return Ok(None) };
    let replaced = exchange(stream, &Question::Replace).with_context(attempt)?;
    let replaced =
        replaced.context("it is of a version that cannot be replaced while it runs").with_context(attempt)?;
    Ok(Some(Replaced { confirmation: None, ..replaced }))
}

/// `None` if the other daemon does not answer the question.
fn exchange(mut stream: Stream, question: &Question) -> anyhow::Result<Option<Replaced>> {
    stream.set_read_timeout(Some(TIMEOUT))?;
    stream.set_write_timeout(Some(TIMEOUT))?;
    stream.write_all((serde_json::to_string(question)? + "\n").as_bytes())?;
    let Some(replaced) = take(&stream)? else { return Ok(None) };
    stream.write_all(TAKEN)?;
    let mut reply = [0; STOPPED.len()];
    stream.read_exact(&mut reply).context("waiting for it to stop")?;
    ensure!(&reply == STOPPED, "unexpected answer");
    Ok(Some(Replaced { confirmation: Some(Confirmation(stream)), ..replaced }))
}

/// Descriptors travel beside the bytes, so the line before them is read without reading ahead.
pub(super) fn take(stream: &Stream) -> anyhow::Result<Option<Replaced>> {
    let mut line = String::new();
    if BufReader::with_capacity(1, stream).read_line(&mut line)? == 0 {
        return Ok(None);
    }
    match serde_json::from_str(&line).context("it is of a version that cannot be replaced while it runs")? {
        Answer::Sockets => Ok(Some(Replaced { sockets: receive_sockets(stream)?, lock: None, confirmation: None })),
        Answer::SocketsAndLock => {
            let sockets = receive_sockets(stream)?;
            let lock =
                receive_sockets(stream)?.pop().map(|(_, _, _, descriptor)| Lock::adopt(descriptor)).transpose()?;
            Ok(Some(Replaced { sockets, lock, confirmation: None }))
        }
        Answer::Failure(reason) => bail!("it failed: {reason}"),
        _ => bail!("unexpected answer"),
    }
}

/// Descriptors travel in lists of sockets; protocol and family do not matter here.
fn in_a_list(lock: OwnedFd) -> NamedSocket {
    ("lock".to_owned(), Protocol::Tcp, Family::V4, lock)
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::{UnixListener, UnixStream};
    use std::thread;

    use super::*;

    fn question(stream: &UnixStream) -> String {
        let mut line = String::new();
        BufReader::with_capacity(1, stream).read_line(&mut line).unwrap();
        line
    }

    /// It closes the connection when it cannot read the question, and waits for nothing after it has stopped.
    #[test]
    fn a_daemon_of_an_older_version_is_replaced() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("portolan.sock");
        let listener = UnixListener::bind(&path).unwrap();
        let older = thread::spawn(move || {
            let (first, _) = listener.accept().unwrap();
            assert_ne!(question(&first), "\"Replace\"\n");
            drop(first);
            let (mut second, _) = listener.accept().unwrap();
            assert_eq!(question(&second), "\"Replace\"\n");
            second.write_all(b"\"SocketsAndLock\"\n").unwrap();
            (0..2).for_each(|_| send_sockets(&second, &[]).unwrap());
            second.read_exact(&mut [0; TAKEN.len()]).unwrap();
            second.write_all(STOPPED).unwrap();
        });
        let replaced = replace(&path).unwrap().expect("it is there");
        assert!(replaced.sockets.is_empty() && replaced.confirmation.is_none());
        older.join().unwrap();
    }
}
