//! The listeners that are open: which port each has, and where it leads.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Mutex, MutexGuard, PoisonError};

use portolan_model::{Family, Protocol};
use portolan_relay::{Counters, Limits, NamedSocket, Relay};

use super::objects::{Listener, Targets};
use crate::Error;

/// The running relay, and what it is known to do. Shared by those who program, those who ask and those who count.
pub struct Doors {
    relay: Relay,
    open: Mutex<Open>,
}

#[derive(Default)]
struct Open {
    listeners: BTreeMap<Listener, Door>,
    by_port: HashMap<(Family, Protocol, u16), Listener>,
}

struct Door {
    port: u16,
    /// `None` for one that another process has left to us, until it is told where it leads.
    targets: Option<Targets>,
}

impl Doors {
    /// In the network namespace that the calling thread is in.
    pub fn open(limits: Limits) -> Result<Self, Error> {
        Ok(Self { relay: Relay::start(limits)?, open: Mutex::default() })
    }

    /// Goes on with listeners of another process. One that is not ours is left alone.
    pub fn adopt(&self, sockets: Vec<NamedSocket>) -> Result<usize, Error> {
        let mut count = 0;
        for (name, protocol, family, socket) in sockets {
            let is_that = |it: &Listener| kinds(it) == Some((protocol, family));
            let Some(listener) = Listener::named(&name).filter(is_that) else { continue };
            let port = self.relay.adopt(&name, protocol, family, socket)?;
            self.open_doors().insert(listener, Door { port, targets: None });
            count += 1;
        }
        Ok(count)
    }

    pub fn sockets(&self) -> Result<Vec<NamedSocket>, Error> {
        Ok(self.relay.sockets()?)
    }

    /// Leaves all listeners to the process that has adopted them; connections go on.
    pub fn leave(&self) -> Result<(), Error> {
        *self.open_doors() = Open::default();
        Ok(self.relay.stop_accepting()?)
    }

    /// Takes those who are still on their way, and then nobody; connections go on.
    pub fn close_all(&self) -> Result<(), Error> {
        let listeners = std::mem::take(&mut *self.open_doors()).listeners;
        listeners.keys().try_for_each(|listener| self.close(listener))
    }

    /// Connections and UDP associations that have not ended.
    pub fn active(&self) -> usize {
        self.relay.active()
    }

    /// What was counted by each listener, also by those that are closed and still have connections.
    pub fn counters(&self) -> Vec<(Listener, Counters)> {
        let named = self.relay.counters().into_iter();
        named.filter_map(|(name, counters)| Some((Listener::named(&name)?, counters))).collect()
    }

    /// Opens a listener, at the given port if that is free, and tells where it leads.
    pub(super) fn lead(&self, listener: &Listener, targets: &Targets, wished: Option<u16>) -> Result<(), Error> {
        let name = listener.relay_name();
        let mut open = self.open_doors();
        if !open.listeners.contains_key(listener) {
            let port = self.listen(listener, &name, wished)?;
            open.insert(listener.clone(), Door { port, targets: None });
        }
        self.relay.set_targets(&name, targets.for_relay())?;
        if let Some(door) = open.listeners.get_mut(listener) {
            door.targets = Some(targets.clone());
        }
        Ok(())
    }

    fn listen(&self, listener: &Listener, name: &str, wished: Option<u16>) -> Result<u16, Error> {
        let (protocol, family) = kinds(listener).ok_or_else(|| unsupported(listener))?;
        if let Some(port) = wished.and_then(|port| self.relay.listen_at(name, protocol, family, port).ok()) {
            return Ok(port);
        }
        Ok(self.relay.listen(name, protocol, family)?)
    }

    pub(super) fn close(&self, listener: &Listener) -> Result<(), Error> {
        self.open_doors().remove(listener);
        Ok(self.relay.close(&listener.relay_name())?)
    }

    pub(super) fn port(&self, listener: &Listener) -> Option<u16> {
        self.open_doors().listeners.get(listener).map(|door| door.port)
    }

    pub(super) fn at(&self, family: Family, protocol: Protocol, port: u16) -> Option<Listener> {
        self.open_doors().by_port.get(&(family, protocol, port)).cloned()
    }

    /// All that are open, with where they lead; those of which that is not known lead nowhere.
    pub(super) fn all(&self) -> Vec<(Listener, Targets)> {
        let open = self.open_doors();
        let each = open.listeners.iter();
        each.map(|(listener, door)| (listener.clone(), door.targets.clone().unwrap_or_default())).collect()
    }

    fn open_doors(&self) -> MutexGuard<'_, Open> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Open {
    fn insert(&mut self, listener: Listener, door: Door) {
        self.by_port.insert((listener.family, listener.protocol, door.port), listener.clone());
        self.listeners.insert(listener, door);
    }

    fn remove(&mut self, listener: &Listener) {
        if let Some(door) = self.listeners.remove(listener) {
            self.by_port.remove(&(listener.family, listener.protocol, door.port));
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
