//! Listeners, and the clients that they accept.

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
use super::pausing::{Accepted, Doorway, Paused};
use super::poller::Source;
use super::redirected::is_redirected;
use super::slots::Key;
use super::timers::Alarm;
use crate::system::listening::QUEUE;
use crate::system::tally::Tally;

/// The delay before a retry when the process is out of descriptors.
const RETRY_DELAY: Duration = Duration::from_millis(200);

pub(super) struct Listener {
    pub(super) protocol: Protocol,
    pub(super) port: u16,
    /// `None` once it is closed; the listener remains while clients are waiting for an endpoint.
    pub(super) socket: Option<Arc<OwnedFd>>,
    pub(super) choice: Choice,
    pub(super) has_targets: bool,
    /// The Service, whose connections have a common share.
    pub(super) share: Arc<str>,
    pub(super) tally: Arc<Tally>,
    /// Clients that are waiting for an endpoint.
    pub(super) pending_clients: usize,
}

/// Clients in the queue of a closing listener are admitted beyond the limit: they would be reset otherwise.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Limit {
    Applies,
    Exceeded,
}

impl Doorway for Worker {
    fn paused(&mut self) -> &mut Paused {
        &mut self.paused
    }

    fn has_room_for(&self, listener: Key) -> bool {
        self.listeners.get(listener).is_none_or(|listener| self.admission.allows_service(&listener.share))
    }

    fn is_full(&self) -> bool {
        self.admission.is_full()
    }

    fn take_has_room(&mut self) -> bool {
        std::mem::take(&mut self.admission.has_room)
    }

    fn accept(&mut self, listener: Key) -> Accepted {
        self.accept_with(listener, Limit::Applies)
    }

    fn watch(&mut self, listener: Key) -> bool {
        let Some(socket) = self.listeners.get(listener).and_then(|listener| listener.socket.as_ref()) else {
            return true;
        };
        let outcome = self.poller.watch_for_input(socket, Source::Listener(listener));
        outcome.inspect_err(|error| tracing::warn!(%error, "watching a listening socket failed; retrying")).is_ok()
    }

    fn unwatch(&mut self, listener: Key) {
        if let Some(socket) = self.listeners.get(listener).and_then(|listener| listener.socket.as_ref()) {
            self.poller.forget(socket);
        }
    }

    fn note_limit(&mut self, listener: Key) {
        let Some(listener) = self.listeners.get(listener) else { return };
        listener.tally.refused_at_limit.add(1);
        self.warnings.at_limit(self.now, self.admission.limit(), &listener.share);
    }

    /// One timer for all that wait: each retry serves them in order, and stops at the next shortage.
    fn retry_later(&mut self) {
        if !std::mem::replace(&mut self.is_retry_set, true) {
            self.timers.set(self.now + RETRY_DELAY, Alarm::Retry);
        }
    }
}

impl Worker {
    pub(super) fn receive_clients(&mut self, key: Key) {
        match self.listeners.get(key).map(|listener| listener.protocol) {
            Some(Protocol::Tcp) => self.on_clients(key),
            Some(Protocol::Udp) => self.relay_to_endpoints(key),
            // No SCTP listener is ever opened.
            Some(Protocol::Sctp) | None => {}
        }
    }

    /// Accepts every client in the queue of a listener that is being closed.
    pub(super) fn accept_all(&mut self, key: Key) {
        if self.listeners.get(key).is_some_and(|listener| listener.protocol == Protocol::Tcp) {
            let mut queue = 0..QUEUE;
            while queue.next().is_some() && self.accept_with(key, Limit::Exceeded) == Accepted::Client {}
        }
    }

    fn accept_with(&mut self, listener: Key, limit: Limit) -> Accepted {
        let Some(socket) = self.listeners.get(listener).and_then(|listener| listener.socket.as_ref()) else {
            return Accepted::WouldBlock;
        };
        match acceptfrom_with(socket, SocketFlags::NONBLOCK | SocketFlags::CLOEXEC) {
            Ok((client, address)) => {
                if let Some(Ok(address)) = address.map(SocketAddr::try_from) {
                    self.admit(listener, client, address, limit);
                }
                Accepted::Client
            }
            Err(Errno::AGAIN) => Accepted::WouldBlock,
            Err(error) if is_shortage(error) || error == Errno::INVAL => Accepted::Exhausted,
            // The kernel reports errors of connections that have already failed.
            Err(_) => Accepted::Client,
        }
    }

    fn admit(&mut self, key: Key, client: OwnedFd, address: SocketAddr, limit: Limit) {
        let Some(listener) = self.listeners.get(key) else { return };
        if self.limits.only_redirected && !is_redirected(&client, address, listener.port) {
            return reset_on_close(&client);
        }
        if limit == Limit::Applies && !self.admission.allows_client(address.ip()) {
            // It cannot wait in the accept queue: clients behind it in the queue would wait, too.
            self.refuse_client(key, address);
            return reset_on_close(&client);
        }
        let seat = self.admission.take(&listener.share, address.ip(), &listener.tally);
        self.connection_started(&seat);
        self.find_endpoint(key, client, address, seat);
    }

    /// The client has its share of all connections.
    pub(super) fn refuse_client(&mut self, key: Key, client: SocketAddr) {
        let Some(listener) = self.listeners.get(key) else { return };
        listener.tally.refused_at_limit.add(1);
        self.warnings.client_at_limit(self.now, self.admission.limit(), client);
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
    pub(super) fn at_limit(&mut self, now: Instant, limit: usize, service: &str) {
        if self.is_due(now) {
            tracing::warn!(limit, service, "connection limit reached: new connections wait until others end");
        }
    }

    fn client_at_limit(&mut self, now: Instant, limit: usize, client: SocketAddr) {
        if self.is_due(now) {
            tracing::warn!(limit, client = %client.ip(), "connection limit reached by one client: it gets no more");
        }
    }

    fn is_due(&mut self, now: Instant) -> bool {
        let is_due = self.last.is_none_or(|last| now >= last + WARNING_INTERVAL);
        self.last = if is_due { Some(now) } else { self.last };
        is_due
    }
}
