//! UDP: each client gets an endpoint and a socket to it. Replies are sent from the address that the client sent to.

use std::collections::HashMap;
use std::io::ErrorKind;
use std::net::SocketAddr;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::time::Instant;

use portolan_kernel::datagram::{self, LocalAddress, Received};
use portolan_model::Protocol;
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags, connect, recv, send};

use super::Worker;
use super::admission::Seat;
use super::dialing::is_local;
use super::listing::Listed;
use super::pausing::Doorway;
use super::poller::Source;
use super::slots::{Key, Slots};
use super::timers::Alarm;
use crate::system::listening::outgoing;

/// Datagrams per turn.
const MAX_PER_TURN: usize = 64;

/// The number of endpoints to try before a datagram is dropped.
const TRIES: usize = 4;

/// The largest UDP datagram.
const LARGEST: usize = 65_535;

/// A client and the address that it sends to: two addresses of a node are two flows.
type FlowKey = (Key, SocketAddr, LocalAddress);

pub(super) struct Association {
    flow: FlowKey,
    endpoint: SocketAddr,
    socket: OwnedFd,
    /// The socket of the listener, which another process may have taken over since.
    answers: Arc<OwnedFd>,
    seat: Seat,
    started: Instant,
    /// Bytes from and to the client.
    sent: u64,
    received: u64,
    last_used: Instant,
    /// When its timer fires.
    checked_at: Instant,
}

pub(super) struct Associations {
    slots: Slots<Association>,
    by_flow: HashMap<FlowKey, Key>,
    buffer: Vec<u8>,
}

impl Associations {
    pub(super) fn new() -> Self {
        Associations { slots: Slots::new(), by_flow: HashMap::new(), buffer: vec![0; LARGEST] }
    }
}

impl Worker {
    /// From clients to endpoints.
    pub(super) fn relay_to_endpoints(&mut self, listener: Key) {
        let Some(socket) = self.listeners.get(listener).and_then(|listener| listener.socket.clone()) else { return };
        let mut buffer = std::mem::take(&mut self.associations.buffer);
        for _ in 0..MAX_PER_TURN {
            match datagram::receive(socket.as_fd(), &mut buffer) {
                Ok(received) => self.relay_to_endpoint(listener, &socket, received, &buffer[..received.length]),
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                // A pending error of an earlier datagram; receiving clears it.
                Err(_) => {}
            }
        }
        self.associations.buffer = buffer;
    }

    fn relay_to_endpoint(&mut self, listener: Key, socket: &Arc<OwnedFd>, received: Received, content: &[u8]) {
        let flow = (listener, received.from, received.at);
        for _ in 0..TRIES {
            let known = self.associations.by_flow.get(&flow).copied();
            let Some(key) = known.or_else(|| self.associate(flow, socket)) else { return };
            match self.send_to_endpoint(key, content) {
                Ok(()) => return,
                Err(_) => self.endpoint_is_gone(key),
            }
        }
    }

    fn send_to_endpoint(&mut self, key: Key, content: &[u8]) -> Result<(), Errno> {
        let Some(association) = self.associations.slots.get_mut(key) else { return Ok(()) };
        association.last_used = self.now;
        match send(&association.socket, content, SendFlags::NOSIGNAL) {
            Ok(bytes) => {
                association.sent += bytes as u64;
                association.seat.count_from_client(bytes as u64);
            }
            // The datagram is dropped.
            Err(error) if is_local(error) => {}
            Err(Errno::MSGSIZE | Errno::INTR) => {}
            Err(error) => return Err(error),
        }
        Ok(())
    }

    /// Assigns an endpoint to the client; `None` if it was not redirected, the limit is reached or there is no endpoint.
    fn associate(&mut self, flow: FlowKey, answers: &Arc<OwnedFd>) -> Option<Key> {
        let listener = self.listeners.get(flow.0)?;
        let (share, tally, port) = (Arc::clone(&listener.share), Arc::clone(&listener.tally), listener.port);
        if !self.admission.allows_service(&share) {
            self.note_limit(flow.0);
            return None;
        }
        if !self.is_redirected(flow, port) {
            return None;
        }
        if !self.admission.allows_client(flow.1.ip()) {
            self.refuse_client(flow.0, flow.1);
            return None;
        }
        let Some(endpoint) = self.endpoint_for(flow) else {
            tally.failed.add(1);
            return None;
        };
        let socket = self.reach_endpoint(flow.0, endpoint)?;
        let mut seat = self.admission.take(&share, flow.1.ip(), &tally);
        seat.lead_to(endpoint, self.load.hold(endpoint));
        self.connection_started(&seat);
        let answers = Arc::clone(answers);
        self.add(Association {
            flow,
            endpoint,
            socket,
            answers,
            seat,
            started: self.now,
            sent: 0,
            received: 0,
            last_used: self.now,
            checked_at: self.now + self.limits.udp_idle,
        })
    }

    fn is_redirected(&mut self, (_, client, at): FlowKey, port: u16) -> bool {
        let own = SocketAddr::new(at.address, port);
        self.redirections.as_mut().is_none_or(|redirections| redirections.has(client, own))
    }

    fn reach_endpoint(&mut self, listener: Key, endpoint: SocketAddr) -> Option<OwnedFd> {
        match open(endpoint) {
            Ok(socket) => return Some(socket),
            Err(error) if is_local(error) => self.note_limit(listener),
            Err(_) => {
                self.health.failed(Protocol::Udp, endpoint, self.now);
                self.listeners.get(listener)?.tally.failed.add(1);
            }
        }
        None
    }

    fn endpoint_for(&mut self, (listener, client, _): FlowKey) -> Option<SocketAddr> {
        let choice = &mut self.listeners.get_mut(listener)?.choice;
        let is_trusted = |endpoint: &SocketAddr| !self.health.is_suspect(Protocol::Udp, *endpoint, self.now);
        let bound = choice.bound(client.ip(), self.now).filter(is_trusted);
        let load = &self.load;
        let trusted = bound.or_else(|| choice.next(client, load, |endpoint| is_trusted(&endpoint)));
        let endpoint = trusted.or_else(|| choice.next(client, load, |_| true))?;
        choice.bind(client.ip(), endpoint, self.now);
        Some(endpoint)
    }

    fn add(&mut self, association: Association) -> Option<Key> {
        let (flow, checked_at) = (association.flow, association.checked_at);
        let key = self.associations.slots.insert(association);
        self.associations.by_flow.insert(flow, key);
        self.timers.set(checked_at, Alarm::Idle(key));
        let socket = &self.associations.slots.get(key)?.socket;
        match self.poller.watch_for_input(socket, Source::Association(key)) {
            Ok(()) => Some(key),
            Err(_) => {
                self.end_association(key);
                None
            }
        }
    }

    /// From an endpoint to its client.
    pub(super) fn relay_to_client(&mut self, key: Key) {
        let mut buffer = std::mem::take(&mut self.associations.buffer);
        for _ in 0..MAX_PER_TURN {
            match self.send_to_client(key, &mut buffer) {
                Ok(()) | Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => break,
                Err(_) => {
                    self.endpoint_is_gone(key);
                    break;
                }
            }
        }
        self.associations.buffer = buffer;
    }

    fn send_to_client(&mut self, key: Key, buffer: &mut [u8]) -> Result<(), Errno> {
        let association = self.associations.slots.get_mut(key).ok_or(Errno::AGAIN)?;
        let (length, _) = recv(&association.socket, &mut *buffer, RecvFlags::empty())?;
        association.last_used = self.now;
        self.health.answered(Protocol::Udp, association.endpoint);
        let (_, client, at) = association.flow;
        if datagram::send(association.answers.as_fd(), &buffer[..length], client, at).is_ok() {
            association.received += length as u64;
            association.seat.count_to_client(length as u64);
        }
        Ok(())
    }

    /// The next datagram of the client goes to another endpoint.
    fn endpoint_is_gone(&mut self, key: Key) {
        let Some(association) = self.associations.slots.get(key) else { return };
        self.health.failed(Protocol::Udp, association.endpoint, self.now);
        association.seat.tally.dial_errors.add(1);
        self.end_association(key);
    }

    pub(super) fn end_if_idle(&mut self, key: Key) {
        let Some(association) = self.associations.slots.get_mut(key) else { return };
        let end = association.last_used + self.limits.udp_idle;
        if self.now < end {
            association.checked_at = end;
            self.timers.set(end, Alarm::Idle(key));
        } else {
            self.end_association(key);
        }
    }

    /// Ends associations to endpoints that the listener no longer has.
    pub(super) fn end_associations_to_others(&mut self, listener: Key) {
        let Some(choice) = self.listeners.get(listener).map(|listener| &listener.choice) else { return };
        let all = self.associations.slots.iter().filter(|(_, it)| it.flow.0 == listener);
        let gone: Vec<Key> = all.filter(|(_, it)| !choice.has(it.endpoint)).map(|(key, _)| key).collect();
        gone.into_iter().for_each(|key| self.end_association(key));
    }

    pub(super) fn list_associations(&self) -> impl Iterator<Item = Listed> {
        self.associations.slots.iter().map(|(_, association)| Listed {
            tally: Arc::clone(&association.seat.tally),
            client: association.flow.1,
            endpoint: association.endpoint,
            age: self.now.saturating_duration_since(association.started),
            idle: self.now.saturating_duration_since(association.last_used),
            bytes_from_client: association.sent,
            bytes_to_client: association.received,
        })
    }

    fn end_association(&mut self, key: Key) {
        let Some(association) = self.associations.slots.remove(key) else { return };
        self.associations.by_flow.remove(&association.flow);
        self.timers.cancel(association.checked_at, Alarm::Idle(key));
        drop(association.socket);
        self.connection_ended(&association.seat);
    }
}

fn open(endpoint: SocketAddr) -> Result<OwnedFd, Errno> {
    let socket = outgoing(Protocol::Udp, endpoint)?;
    connect(&socket, &endpoint)?;
    Ok(socket)
}
