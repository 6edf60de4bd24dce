//! The open listeners: the port of each, and its targets.

use std::collections::{BTreeMap, HashMap};
use std::net::SocketAddr;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use portolan_model::{Family, Protocol};
use portolan_plan::{Pool, PortKey};
use portolan_relay::{Carried, Counters, EndpointCounters, Limits, NamedSocket, Relay, Resets};

use super::objects::{Listener, Targets};
use crate::Error;

/// The running relay and its listening sockets. The run loop, the control socket and the metrics reader share it.
pub struct Listeners {
    relay: Relay,
    open: Mutex<Open>,
}

#[derive(Default)]
struct Open {
    listeners: BTreeMap<Listener, OpenListener>,
    by_port: HashMap<(Family, Protocol, u16), Listener>,
}

struct OpenListener {
    port: u16,
    /// `None` for a socket adopted from another process, until its targets are set.
    targets: Option<Targets>,
}

impl Listeners {
    /// Listens in the network namespace of the calling thread.
    pub fn open(limits: Limits) -> Result<Self, Error> {
        Ok(Self { relay: Relay::start(limits)?, open: Mutex::default() })
    }

    /// Takes over listening sockets of another process. Skips those that no listener of this mode can have.
    pub fn adopt(&self, sockets: Vec<NamedSocket>) -> Result<usize, Error> {
        let mut count = 0;
        for (name, protocol, family, socket) in sockets {
            let is_that = |it: &Listener| kinds(it) == Some((protocol, family));
            let Some(listener) = Listener::named(&name).filter(is_that) else { continue };
            let port = self.relay.adopt(&name, protocol, family, socket)?;
            self.lock().insert(listener, OpenListener { port, targets: None });
            count += 1;
        }
        Ok(count)
    }

    pub fn sockets(&self) -> Result<Vec<NamedSocket>, Error> {
        Ok(self.relay.sockets()?)
    }

    /// Stops accepting: another process has adopted the sockets. Open connections continue.
    pub fn leave(&self) -> Result<(), Error> {
        *self.lock() = Open::default();
        Ok(self.relay.stop_accepting()?)
    }

    /// Accepts what is queued, then closes all listeners. Open connections continue.
    pub fn close_all(&self) -> Result<(), Error> {
        let listeners = std::mem::take(&mut *self.lock()).listeners;
        listeners.keys().try_for_each(|listener| self.close(listener))
    }

    /// Connections and UDP associations that have not ended.
    pub fn active(&self) -> usize {
        self.relay.active()
    }

    /// Ends connections of a Service to an endpoint with a reset of both sides: those that have been idle for as long, and at
    /// most so many. Returns how many.
    pub fn reset(&self, port: &PortKey, endpoint: SocketAddr, idle: Duration, most: usize) -> Result<usize, Error> {
        let service = Listener::new(port, Pool::Cluster).share();
        Ok(self.relay.reset(Resets { service, endpoint, idle, most })?)
    }

    /// Counters by listener, including closed listeners that still have connections.
    pub fn counters(&self) -> Vec<(Listener, Counters)> {
        let named = self.relay.counters().into_iter();
        named.filter_map(|(name, counters)| Some((Listener::named(&name)?, counters))).collect()
    }

    /// What each endpoint of a listener has carried.
    pub(super) fn endpoint_counters(&self) -> Vec<(Listener, SocketAddr, EndpointCounters)> {
        let named = self.relay.endpoint_counters().into_iter();
        named.filter_map(|(name, endpoint, counters)| Some((Listener::named(&name)?, endpoint, counters))).collect()
    }

    /// Open connections, at most so many.
    pub(crate) fn connections(&self, most: usize) -> Result<Vec<(Listener, Carried)>, Error> {
        let carried = self.relay.connections(most)?.into_iter();
        Ok(carried.filter_map(|carried| Some((Listener::named(&carried.listener)?, carried))).collect())
    }

    /// Opens a listener, at the preferred port if that is free, and sets its targets.
    pub(super) fn lead(&self, listener: &Listener, targets: &Targets, preferred: Option<u16>) -> Result<(), Error> {
        let name = listener.relay_name();
        let mut open = self.lock();
        if !open.listeners.contains_key(listener) {
            let port = self.listen(listener, &name, preferred)?;
            open.insert(listener.clone(), OpenListener { port, targets: None });
        }
        self.relay.set_targets(&name, targets.for_relay(listener))?;
        if let Some(opened) = open.listeners.get_mut(listener) {
            opened.targets = Some(targets.clone());
        }
        Ok(())
    }

    fn listen(&self, listener: &Listener, name: &str, preferred: Option<u16>) -> Result<u16, Error> {
        let (protocol, family) = kinds(listener).ok_or_else(|| unsupported(listener))?;
        if let Some(port) = preferred.and_then(|port| self.relay.listen_at(name, protocol, family, port).ok()) {
            return Ok(port);
        }
        Ok(self.relay.listen(name, protocol, family)?)
    }

    pub(super) fn close(&self, listener: &Listener) -> Result<(), Error> {
        self.lock().remove(listener);
        Ok(self.relay.close(&listener.relay_name())?)
    }

    pub(super) fn port(&self, listener: &Listener) -> Option<u16> {
        self.lock().listeners.get(listener).map(|open| open.port)
    }

    pub(super) fn at(&self, family: Family, protocol: Protocol, port: u16) -> Option<Listener> {
        self.lock().by_port.get(&(family, protocol, port)).cloned()
    }

    /// All open listeners with their targets; none for those whose targets are not set yet.
    pub(super) fn all(&self) -> Vec<(Listener, Targets)> {
        let open = self.lock();
        let each = open.listeners.iter();
        each.map(|(listener, open)| (listener.clone(), open.targets.clone().unwrap_or_default())).collect()
    }

    fn lock(&self) -> MutexGuard<'_, Open> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Open {
    fn insert(&mut self, listener: Listener, open: OpenListener) {
        self.by_port.insert((listener.family, listener.protocol, open.port), listener.clone());
        self.listeners.insert(listener, open);
    }

    fn remove(&mut self, listener: &Listener) {
        if let Some(open) = self.listeners.remove(listener) {
            self.by_port.remove(&(listener.family, listener.protocol, open.port));
        }
    }
}

fn kinds(listener: &Listener) -> Option<(Protocol, Family)> {
    (listener.protocol != Protocol::Sctp).then_some((listener.protocol, listener.family))
}

fn unsupported(listener: &Listener) -> Error {
    Error::Program {
        attempted: format!("listening for {listener}"),
        reason: "userspace mode carries TCP and UDP only".into(),
    }
}
