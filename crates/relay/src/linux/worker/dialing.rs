//! Connects a client to an endpoint. Dials are hedged: if an endpoint is slow, the next one is dialed as well, and
//! the first to answer gets the client. The slower dial continues for a while, to learn whether the endpoint is only
//! slow.

use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::Duration;

use portolan_model::Protocol;
use rustix::io::Errno;
use rustix::net::connect;
use rustix::net::sockopt::socket_error;

use super::Worker;
use super::admission::Seat;
use super::connection::reset_on_close;
use super::load::Held;
use super::pausing::Doorway;
use super::poller::Source;
use super::slots::Key;
use super::timers::Alarm;
use crate::system::listening::outgoing;
use crate::system::tally::Tally;

/// An endpoint that has not answered within this time is avoided by other clients.
const HEDGE_DELAY: Duration = Duration::from_millis(100);

/// The timeouts of the first dial to an endpoint, the second, and so on.
const DIAL_TIMEOUTS: [Duration; 4] =
    [Duration::from_millis(250), Duration::from_millis(500), Duration::from_secs(1), Duration::from_secs(2)];

/// Every endpoint is dialed once, and some again until this number of attempts.
const MIN_ATTEMPTS: usize = 8;

/// A client that is waiting for an endpoint.
pub(super) struct PendingClient {
    client: OwnedFd,
    address: SocketAddr,
    listener: Key,
    seat: Seat,
    attempts: Vec<Attempt>,
    tries: usize,
    /// The client is among those that wait for a descriptor.
    lacks_descriptor: bool,
}

/// The dials of a client to one endpoint.
struct Attempt {
    endpoint: SocketAddr,
    times: usize,
    is_pending: bool,
    has_refused: bool,
}

/// A connection in progress. Its client may have got another endpoint in the meantime.
pub(super) struct Dial {
    pending: Key,
    socket: OwnedFd,
    endpoint: SocketAddr,
    timeout: Duration,
    tally: Arc<Tally>,
    held: Held,
}

/// Which endpoints are considered.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Candidates {
    /// Endpoints that are not suspect.
    Trusted,
    Any,
}

impl PendingClient {
    /// The number of dials to an endpoint; `None` if it must not be dialed now.
    fn times_dialed(&self, endpoint: SocketAddr) -> Option<usize> {
        match self.attempts.iter().find(|attempt| attempt.endpoint == endpoint) {
            Some(attempt) if attempt.is_pending || attempt.has_refused => None,
            attempt => Some(attempt.map_or(0, |attempt| attempt.times)),
        }
    }

    fn attempt(&mut self, endpoint: SocketAddr) -> &mut Attempt {
        let index = self.attempts.iter().position(|attempt| attempt.endpoint == endpoint).unwrap_or_else(|| {
            self.attempts.push(Attempt { endpoint, times: 0, is_pending: false, has_refused: false });
            self.attempts.len() - 1
        });
        &mut self.attempts[index]
    }

    fn is_waiting(&self) -> bool {
        self.attempts.iter().any(|attempt| attempt.is_pending)
    }
}

impl Worker {
    pub(super) fn find_endpoint(&mut self, listener: Key, client: OwnedFd, address: SocketAddr, seat: Seat) {
        if let Some(listener) = self.listeners.get_mut(listener) {
            listener.pending_clients += 1;
        }
        let pending =
            PendingClient { client, address, listener, seat, attempts: Vec::new(), tries: 0, lacks_descriptor: false };
        let pending = self.pending_clients.insert(pending);
        self.dial_next(pending, Candidates::Any);
    }

    /// Dials the next endpoint. If none is left, the client is rejected.
    fn dial_next(&mut self, pending: Key, candidates: Candidates) {
        while let Some(endpoint) = self.next_endpoint(pending, candidates) {
            match self.dial(pending, endpoint) {
                Ok(()) => return,
                Err(error) if is_shortage(error) => return self.wait_for_descriptor(pending),
                Err(error) => self.note_refusal(pending, endpoint, error),
            }
        }
        if self.pending_clients.get(pending).is_some_and(|pending| !pending.is_waiting()) {
            self.reject(pending);
        }
    }

    fn next_endpoint(&mut self, pending: Key, candidates: Candidates) -> Option<SocketAddr> {
        let pending = self.pending_clients.get(pending)?;
        let choice = &mut self.listeners.get_mut(pending.listener)?.choice;
        let is_trusted = |endpoint: &SocketAddr| !self.health.is_suspect(Protocol::Tcp, *endpoint, self.now);
        if pending.tries == 0
            && let Some(endpoint) = choice.bound(pending.address.ip(), self.now).filter(is_trusted)
        {
            return Some(endpoint);
        }
        let (client, load) = (pending.address, &self.load);
        let fresh =
            choice.next(client, load, |endpoint| pending.times_dialed(endpoint) == Some(0) && is_trusted(&endpoint));
        if fresh.is_some()
            || candidates == Candidates::Trusted
            || pending.tries >= choice.n_endpoints().max(MIN_ATTEMPTS)
        {
            return fresh;
        }
        let mut again = |times| choice.next(client, load, |endpoint| pending.times_dialed(endpoint) == Some(times));
        (0..DIAL_TIMEOUTS.len()).find_map(&mut again)
    }

    fn dial(&mut self, key: Key, endpoint: SocketAddr) -> Result<(), Errno> {
        let socket = outgoing(Protocol::Tcp, endpoint)?;
        let Some(pending) = self.pending_clients.get_mut(key) else { return Ok(()) };
        pending.seat.tally.retries.add(u64::from(pending.tries > 0));
        pending.tries += 1;
        let tally = Arc::clone(&pending.seat.tally);
        let attempt = pending.attempt(endpoint);
        let timeout = DIAL_TIMEOUTS[attempt.times.min(DIAL_TIMEOUTS.len() - 1)];
        attempt.times += 1;
        start_connect(&socket, endpoint)?;
        self.health.dialed(Protocol::Tcp, endpoint, self.now);
        let held = self.load.hold(endpoint);
        self.watch_dial(Dial { pending: key, socket, endpoint, timeout, tally, held })
    }

    fn watch_dial(&mut self, dial: Dial) -> Result<(), Errno> {
        let key = self.dials.insert(dial);
        let Some(dial) = self.dials.get(key) else { return Ok(()) };
        let outcome = self.poller.watch_dial(&dial.socket, Source::Dial(key));
        match outcome {
            Ok(()) => {
                self.timers.set(self.now + HEDGE_DELAY, Alarm::Stalled(key));
                if let Some(pending) = self.pending_clients.get_mut(dial.pending) {
                    pending.attempt(dial.endpoint).is_pending = true;
                }
            }
            Err(_) => drop(self.dials.remove(key)),
        }
        outcome
    }

    /// The process is out of descriptors: the client waits for a retry.
    fn wait_for_descriptor(&mut self, key: Key) {
        let Some(pending) = self.pending_clients.get_mut(key) else { return };
        if !std::mem::replace(&mut pending.lacks_descriptor, true) {
            self.without_descriptor.push_back(key);
        }
        self.retry_later();
    }

    /// In the order of their arrival, until descriptors run out again.
    pub(super) fn dial_for_waiting(&mut self) {
        while let Some(key) = self.without_descriptor.pop_front() {
            let Some(pending) = self.pending_clients.get_mut(key) else { continue };
            pending.lacks_descriptor = false;
            if pending.is_waiting() {
                continue;
            }
            self.dial_next(key, Candidates::Any);
            if self.pending_clients.get(key).is_some_and(|pending| pending.lacks_descriptor) {
                return;
            }
        }
    }

    /// The endpoint refused or is unreachable, or no local port is free for it. This client does not dial it again.
    fn note_refusal(&mut self, pending: Key, endpoint: SocketAddr, error: Errno) {
        let is_endpoints = !is_local(error);
        if is_endpoints {
            self.health.failed(Protocol::Tcp, endpoint, self.now);
        }
        if let Some(pending) = self.pending_clients.get_mut(pending) {
            pending.seat.tally.dial_errors.add(u64::from(is_endpoints));
            let attempt = pending.attempt(endpoint);
            attempt.is_pending = false;
            attempt.has_refused = true;
        }
    }

    pub(super) fn finish_dial(&mut self, key: Key) {
        let Some(dial) = self.dials.remove(key) else { return };
        match socket_error(&dial.socket).and_then(|state| state) {
            Ok(()) => self.dial_succeeded(dial),
            Err(error) => {
                let (pending, endpoint) = (dial.pending, dial.endpoint);
                // The next dial may need its descriptor.
                drop(dial);
                self.note_refusal(pending, endpoint, error);
                self.dial_next(pending, Candidates::Any);
            }
        }
    }

    fn dial_succeeded(&mut self, dial: Dial) {
        self.health.answered(Protocol::Tcp, dial.endpoint);
        let Some(mut pending) = self.pending_clients.remove(dial.pending) else {
            // The client has another endpoint already.
            return reset_on_close(&dial.socket);
        };
        if let Some(listener) = self.listeners.get_mut(pending.listener) {
            listener.pending_clients -= 1;
            listener.choice.bind(pending.address.ip(), dial.endpoint, self.now);
        }
        self.remove_if_unused(pending.listener);
        pending.seat.lead_to(dial.endpoint, dial.held);
        self.connect(pending.client, (dial.socket, dial.endpoint), pending.seat);
    }

    /// Marks the endpoint as suspect, and dials another trusted endpoint in parallel.
    pub(super) fn dial_is_slow(&mut self, key: Key) {
        let Some(dial) = self.dials.get(key) else { return };
        let pending = dial.pending;
        self.health.mark_slow(Protocol::Tcp, dial.endpoint, self.now);
        self.timers.set(self.now + (dial.timeout - HEDGE_DELAY), Alarm::TimedOut(key));
        self.dial_next(pending, Candidates::Trusted);
    }

    pub(super) fn dial_timed_out(&mut self, key: Key) {
        // The next dial may need the descriptor.
        let Some(Dial { pending: key, endpoint, tally, .. }) = self.dials.remove(key) else { return };
        self.health.failed(Protocol::Tcp, endpoint, self.now);
        tally.dial_errors.add(1);
        let Some(pending) = self.pending_clients.get_mut(key) else { return };
        pending.attempt(endpoint).is_pending = false;
        if !pending.is_waiting() {
            self.dial_next(key, Candidates::Any);
        }
    }

    /// No endpoint answers: the client is reset at once.
    fn reject(&mut self, key: Key) {
        let Some(pending) = self.pending_clients.remove(key) else { return };
        reset_on_close(&pending.client);
        pending.seat.tally.failed.add(1);
        if let Some(listener) = self.listeners.get_mut(pending.listener) {
            listener.pending_clients -= 1;
        }
        self.remove_if_unused(pending.listener);
        self.connection_ended(&pending.seat);
    }
}

fn start_connect(socket: &OwnedFd, endpoint: SocketAddr) -> Result<(), Errno> {
    match connect(socket, &endpoint) {
        Ok(()) | Err(Errno::INPROGRESS) => Ok(()),
        Err(error) => Err(error),
    }
}

/// The process is out of descriptors, memory or epoll watches.
pub(super) fn is_shortage(error: Errno) -> bool {
    matches!(error, Errno::MFILE | Errno::NFILE | Errno::NOBUFS | Errno::NOMEM | Errno::NOSPC)
}

/// A shortage of this machine, also of local ports: TCP reports EADDRNOTAVAIL, and UDP EAGAIN. It says nothing about the
/// endpoint.
pub(super) fn is_local(error: Errno) -> bool {
    is_shortage(error) || matches!(error, Errno::ADDRNOTAVAIL | Errno::AGAIN)
}
