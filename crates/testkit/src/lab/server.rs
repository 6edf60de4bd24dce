//! Servers that answer with their own name and the client's address, and then echo.

use std::collections::BTreeSet;
use std::io::{self, PipeReader, PipeWriter, Read, Write};
use std::net::{SocketAddr, UdpSocket};
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, poll};
use socket2::Socket;

use super::host::Host;
use crate::packet::Protocol;

const BACKLOG: i32 = 128;
const BIND_WITHIN: Duration = Duration::from_secs(5);
const BIND_PAUSE: Duration = Duration::from_millis(5);

/// The servers of a lab; they end when this is dropped.
pub(super) struct Servers {
    served: BTreeSet<(SocketAddr, Protocol)>,
    listeners: Vec<JoinHandle<()>>,
    /// The only writer of the pipe: closing it stops every server.
    _stop: PipeWriter,
    watcher: Watcher,
}

type Watcher = Arc<PipeReader>;

impl Servers {
    pub(super) fn new() -> io::Result<Servers> {
        let (reader, writer) = io::pipe()?;
        Ok(Servers { served: BTreeSet::new(), listeners: Vec::new(), _stop: writer, watcher: Arc::new(reader) })
    }

    /// Starts a server unless it runs already.
    pub(super) fn start(&mut self, host: &Host, address: SocketAddr, protocol: Protocol) -> io::Result<()> {
        if !self.served.contains(&(address, protocol)) {
            self.listeners.push(start(host, address, protocol, self.watcher.clone())?);
            self.served.insert((address, protocol));
        }
        Ok(())
    }

    /// Ends all servers. Their addresses are free when this returns.
    pub(super) fn stop(self) {
        let Servers { listeners, _stop: stop, .. } = self;
        drop(stop);
        for listener in listeners {
            let _ = listener.join();
        }
    }
}

/// The server listens when this returns.
fn start(host: &Host, address: SocketAddr, protocol: Protocol, stop: Watcher) -> io::Result<JoinHandle<()>> {
    let name = host.name();
    let socket = host.socket(address, protocol)?;
    socket.set_reuse_address(true)?;
    bind(&socket, address, protocol)?;
    socket.set_nonblocking(true)?;
    if protocol == Protocol::Udp {
        spawn(move || answer_datagrams(name, &UdpSocket::from(socket), &stop))
    } else {
        spawn(move || accept_connections(name, &socket, &stop))
    }
}

/// A program that another thread is starting holds a copy of every descriptor until it runs, also of a server that has
/// ended. So an address in use is tried again for a while.
fn bind(socket: &Socket, address: SocketAddr, protocol: Protocol) -> io::Result<()> {
    let deadline = Instant::now() + BIND_WITHIN;
    let mut is_bound = false;
    loop {
        let bound = if is_bound { Ok(()) } else { socket.bind(&address.into()) };
        is_bound |= bound.is_ok();
        let listens = bound.and_then(|()| if protocol == Protocol::Udp { Ok(()) } else { socket.listen(BACKLOG) });
        match listens {
            Err(error) if error.kind() == io::ErrorKind::AddrInUse && Instant::now() < deadline => {
                thread::sleep(BIND_PAUSE);
            }
            other => return other,
        }
    }
}

fn spawn(job: impl FnOnce() + Send + 'static) -> io::Result<JoinHandle<()>> {
    thread::Builder::new().name("lab-server".to_owned()).spawn(job)
}

/// A receive error is about an earlier reply, such as an ICMP error, and no reason to stop.
fn answer_datagrams(name: &str, socket: &UdpSocket, stop: &Watcher) {
    let mut buffer = [0; 2048];
    while readable(socket.as_fd(), stop) {
        if let (Ok((_, peer)), Ok(local)) = (socket.recv_from(&mut buffer), socket.local_addr()) {
            let _ = socket.send_to(line(name, peer, local).as_bytes(), peer);
        }
    }
}

fn accept_connections(name: &'static str, listener: &Socket, stop: &Watcher) {
    while readable(listener.as_fd(), stop) {
        if let Ok((connection, _)) = listener.accept() {
            let stop = stop.clone();
            let _ = spawn(move || drop(greet_and_echo(name, &connection, &stop)));
        }
    }
}

fn greet_and_echo(name: &str, mut connection: &Socket, stop: &Watcher) -> io::Result<()> {
    let peer = connection.peer_addr()?.as_socket().ok_or(io::ErrorKind::InvalidData)?;
    let local = connection.local_addr()?.as_socket().ok_or(io::ErrorKind::InvalidData)?;
    connection.write_all(line(name, peer, local).as_bytes())?;
    let mut buffer = [0; 2048];
    while readable(connection.as_fd(), stop) {
        match connection.read(&mut buffer)? {
            0 => break,
            n_bytes => connection.write_all(&buffer[..n_bytes])?,
        }
    }
    Ok(())
}

fn line(name: &str, peer: SocketAddr, local: SocketAddr) -> String {
    format!("{name} {} {} {local}\n", peer.ip(), peer.port())
}

/// Waits for the socket; false when the lab is dropped.
fn readable(socket: BorrowedFd<'_>, stop: &Watcher) -> bool {
    let mut watched = [PollFd::from_borrowed_fd(socket, PollFlags::IN), PollFd::new(stop, PollFlags::IN)];
    loop {
        match poll(&mut watched, None) {
            Err(rustix::io::Errno::INTR) => {}
            Err(_) => return false,
            Ok(_) => return watched[1].revents().is_empty(),
        }
    }
}
