//! Accepts clients, up to the connection limit.

use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::{Duration, Instant};

use portolan_model::Protocol;
use rustix::io::Errno;
use rustix::net::{SocketFlags, acceptfrom_with};

use super::Worker;
use super::choice::Choice;
use super::connection::reset_on_close;
use super::dialing::is_shortage;
use super::poller::Source;
use super::redirected::is_redirected;
use super::slots::Key;
use super::timers::Alarm;
use crate::counters::Tally;

/// Clients that are accepted per turn.
const MAX_PER_TURN: usize = 64;

/// The delay before a retry when the process is out of descriptors.
pub(super) const RETRY_DELAY: Duration = Duration::from_millis(500);

pub(super) struct Listener {
    pub(super) protocol: Protocol,
    pub(super) port: u16,
    /// `None` once it is closed; the listener remains while clients are waiting for an endpoint.
    pub(super) socket: Option<Arc<OwnedFd>>,
    pub(super) choice: Choice,
    pub(super) has_targets: bool,
    pub(super) tally: Arc<Tally>,
    /// Clients that are waiting for an endpoint.
    pub(super) pending_clients: usize,
}

enum Accepted {
    Client(OwnedFd, SocketAddr),
    /// The connection has failed already; there may be others.
    Failed,
    WouldBlock,
    /// The process is out of descriptors, or the socket no longer listens because another process has shut it down.
    Exhausted,
}

impl Worker {
    pub(super) fn watch_listener(&mut self, key: Key) {
        let Some(socket) = self.listeners.get(key).and_then(|listener| listener.socket.as_ref()) else { return };
        if let Err(error) = self.poller.watch_for_input(socket, Source::Listener(key)) {
            tracing::warn!(%error, "watching a listening socket failed; retrying");
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
        for _ in 0..MAX_PER_TURN {
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

    /// Accepts every client in the queue, even beyond the limit.
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
            // The kernel reports errors of connections that have already failed.
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

    /// Leaves clients in the accept queue.
    fn pause(&mut self, key: Key) {
        let Some(listener) = self.listeners.get(key) else { return };
        if let Some(socket) = &listener.socket {
            self.poller.forget(socket);
        }
        listener.tally.refused_at_limit.add(1);
        self.paused.push_back(key);
        self.warnings.at_limit(self.now, self.max_connections);
    }

    /// One at a time: the first listener with clients uses up the free connections.
    pub(super) fn resume_a_listener(&mut self) {
        while let Some(key) = self.paused.pop_front() {
            if self.listeners.get(key).is_some_and(|listener| listener.socket.is_some()) {
                return self.watch_listener(key);
            }
        }
    }

    /// Closes our copy of the socket; other processes may have duplicates.
    pub(super) fn release(&mut self, key: Key) {
        if let Some(socket) = self.listeners.get_mut(key).and_then(|listener| listener.socket.take()) {
            // A duplicate in another process would keep it in the epoll set.
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

/// Limits how often a warning about a lasting state is logged.
#[derive(Default)]
pub(super) struct Warnings {
    last: Option<Instant>,
}

const WARNING_INTERVAL: Duration = Duration::from_secs(10);

impl Warnings {
    pub(super) fn at_limit(&mut self, now: Instant, connections: usize) {
        if self.last.is_none_or(|last| now >= last + WARNING_INTERVAL) {
            self.last = Some(now);
            tracing::warn!(connections, "connection limit reached: new connections wait until others end");
        }
    }
}
