//! Taking clients in, for as long as there is room.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::{Duration, Instant};

use portolan_model::Protocol;
use rustix::io::Errno;
use rustix::net::sockopt::{ip_original_dst, ipv6_original_dst};
use rustix::net::{SocketFlags, acceptfrom_with, getsockname};

use super::Worker;
use super::choice::Choice;
use super::connection::reset_on_close;
use super::dialing::is_shortage;
use super::poller::Source;
use super::slots::Key;
use super::timers::Alarm;
use crate::counters::Tally;

/// Clients that are taken in one turn.
const AT_ONCE: usize = 64;

/// How long to wait for descriptors that somebody else in the process has.
pub(super) const RETRY_DELAY: Duration = Duration::from_millis(500);

pub(super) struct Listener {
    pub(super) protocol: Protocol,
    pub(super) port: u16,
    /// Nothing, once it is closed; it stays for as long as its clients are looking for an endpoint.
    pub(super) socket: Option<Arc<OwnedFd>>,
    pub(super) choice: Choice,
    pub(super) has_targets: bool,
    pub(super) tally: Arc<Tally>,
    /// Clients who are looking for an endpoint.
    pub(super) pending_clients: usize,
}

enum Accepted {
    Client(OwnedFd, SocketAddr),
    /// This one has gone already; there may be others.
    Failed,
    WouldBlock,
    /// There are no descriptors, or the socket does not listen for a reason that only its other owners know.
    Exhausted,
}

impl Worker {
    pub(super) fn watch_listener(&mut self, key: Key) {
        let Some(socket) = self.listeners.get(key).and_then(|listener| listener.socket.as_ref()) else { return };
        if let Err(error) = self.poller.watch_for_input(socket, Source::Listener(key)) {
            tracing::warn!(%error, "a listening socket cannot be watched now; trying again");
            self.paused.push_back(key);
            self.timers.set(self.now + RETRY_DELAY, Alarm::Retry);
        }
    }

    pub(super) fn receive_clients(&mut self, key: Key) {
        match self.listeners.get(key).map(|listener| listener.protocol) {
            Some(Protocol::Tcp) => self.accept_some(key),
            Some(Protocol::Udp) => self.relay_to_endpoints(key),
            // No SCTP listener is ever opened.
            Some(Protocol::Sctp) | None => {}
        }
    }

    fn accept_some(&mut self, key: Key) {
        for _ in 0..AT_ONCE {
            if self.is_full() {
                return self.pause(key);
            }
            match self.accept(key) {
                Accepted::Client(socket, address) => self.admit(key, socket, address),
                Accepted::Failed => {}
                Accepted::WouldBlock => return,
                Accepted::Exhausted => {
                    self.timers.set(self.now + RETRY_DELAY, Alarm::Retry);
                    return self.pause(key);
                }
            }
        }
    }

    /// Takes in everybody who waits, even beyond the limit.
    pub(super) fn accept_all(&mut self, key: Key) {
        if self.listeners.get(key).is_none_or(|listener| listener.protocol == Protocol::Udp) {
            return;
        }
        loop {
            match self.accept(key) {
                Accepted::Client(socket, address) => self.admit(key, socket, address),
                Accepted::Failed => {}
                Accepted::WouldBlock | Accepted::Exhausted => return,
            }
        }
    }

    fn accept(&self, key: Key) -> Accepted {
        let Some(socket) = self.listeners.get(key).and_then(|listener| listener.socket.as_ref()) else {
            return Accepted::WouldBlock;
        };
        match acceptfrom_with(socket, SocketFlags::NONBLOCK | SocketFlags::CLOEXEC) {
            Ok((client, address)) => match address.map(SocketAddr::try_from) {
                Some(Ok(address)) => Accepted::Client(client, address),
                _ => Accepted::Failed,
            },
            Err(Errno::AGAIN) => Accepted::WouldBlock,
            Err(error) if is_shortage(error) || error == Errno::INVAL => Accepted::Exhausted,
            // The kernel hands out errors of clients that have already failed.
            Err(_) => Accepted::Failed,
        }
    }

    fn admit(&mut self, key: Key, client: OwnedFd, address: SocketAddr) {
        let Some(listener) = self.listeners.get(key) else { return };
        if self.limits.only_redirected && !is_redirected(&client, address, listener.port) {
            reset_on_close(&client);
            return;
        }
        let tally = Arc::clone(&listener.tally);
        self.connection_started(&tally);
        self.find_endpoint(key, client, address, tally);
    }

    /// Lets clients wait in the kernel's queue.
    fn pause(&mut self, key: Key) {
        let Some(listener) = self.listeners.get(key) else { return };
        if let Some(socket) = &listener.socket {
            self.poller.forget(socket);
        }
        listener.tally.refused_at_limit.add(1);
        self.paused.push_back(key);
        self.warnings.at_limit(self.now, self.max_connections);
    }

    /// One at a time: the first that has clients fills the room again.
    pub(super) fn resume_a_listener(&mut self) {
        while let Some(key) = self.paused.pop_front() {
            if self.listeners.get(key).is_some_and(|listener| listener.socket.is_some()) {
                return self.watch_listener(key);
            }
        }
    }

    /// Leaves the socket to others, if there are any.
    pub(super) fn release(&mut self, key: Key) {
        if let Some(socket) = self.listeners.get_mut(key).and_then(|listener| listener.socket.take()) {
            // A duplicate elsewhere would keep it among those that are waited for.
            self.poller.forget(&*socket);
        }
        self.remove_if_unused(key);
    }

    pub(super) fn remove_if_unused(&mut self, key: Key) {
        let is_unused = |listener: &Listener| listener.socket.is_none() && listener.pending_clients == 0;
        if self.listeners.get(key).is_some_and(is_unused) {
            self.listeners.remove(key);
        }
    }

    pub(super) fn expire_affinity(&mut self) {
        let now = self.now;
        self.listeners.iter_mut().for_each(|listener| listener.choice.expire(now));
    }
}

/// Whether a packet rule brought the client here, and it had asked for another address.
fn is_redirected(socket: &OwnedFd, client: SocketAddr, own_port: u16) -> bool {
    let original = match client {
        SocketAddr::V4(_) => ip_original_dst(socket).map(SocketAddr::V4),
        SocketAddr::V6(_) => ipv6_original_dst(socket).map(SocketAddr::V6),
    };
    // Without connection tracking nothing is redirected.
    original.is_ok_and(|it| it.port() != own_port || it.ip() != local_address(socket))
}

fn local_address(socket: &OwnedFd) -> IpAddr {
    let address = getsockname(socket).and_then(SocketAddr::try_from);
    address.map_or(IpAddr::V4(Ipv4Addr::UNSPECIFIED), |address| address.ip())
}

/// Warnings about a state that may last are given once in a while.
#[derive(Default)]
pub(super) struct Warnings {
    last: Option<Instant>,
}

const WARNING_INTERVAL: Duration = Duration::from_secs(10);

impl Warnings {
    pub(super) fn at_limit(&mut self, now: Instant, connections: usize) {
        if self.last.is_none_or(|last| now >= last + WARNING_INTERVAL) {
            self.last = Some(now);
            tracing::warn!(connections, "too many connections: new ones wait until others end");
        }
    }
}
