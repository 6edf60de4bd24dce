//! The handle by which other threads control the relay.

use std::collections::{BTreeMap, HashMap};
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

use portolan_model::{Family, Protocol};

use crate::carried::Carried;
use crate::counters::{Counters, EndpointCounters};
use crate::error::Error;
use crate::limits::Limits;
use crate::system::handover::NamedSocket;
use crate::system::listening;
use crate::system::shares::{max_listeners, raise_descriptor_limit};
use crate::system::tally::{Ledger, Tally};
use crate::system::worker::{self, Command, Commands, Listed};
use crate::targets::{Resets, Targets};

/// A running relay. Dropping it closes its connections.
pub struct Relay {
    commands: Commands,
    listeners: Mutex<BTreeMap<String, Listener>>,
    ledger: Ledger,
    active: Arc<AtomicUsize>,
    thread: Option<JoinHandle<()>>,
    max_listeners: usize,
}

/// A listening socket.
struct Listener {
    protocol: Protocol,
    family: Family,
    port: u16,
    socket: Arc<OwnedFd>,
}

impl Relay {
    /// Starts the worker thread, in the network namespace of the caller.
    pub fn start(limits: Limits) -> Result<Relay, Error> {
        let active = Arc::new(AtomicUsize::new(0));
        let descriptors = raise_descriptor_limit();
        let (commands, thread) = worker::start(limits, descriptors, Arc::clone(&active))?;
        let (listeners, ledger, thread) = (Mutex::default(), Ledger::default(), Some(thread));
        Ok(Relay { commands, listeners, ledger, active, thread, max_listeners: max_listeners(descriptors) })
    }

    /// Listens on all local addresses and returns the port. A repeated call with the same name returns the same port.
    /// Clients wait in the accept queue until the first [`set_targets`](Relay::set_targets).
    pub fn listen(&self, name: &str, protocol: Protocol, family: Family) -> Result<u16, Error> {
        self.listen_at(name, protocol, family, 0)
    }

    /// The same on a given port, for packet rules that refer to it already.
    pub fn listen_at(&self, name: &str, protocol: Protocol, family: Family, port: u16) -> Result<u16, Error> {
        let mut listeners = self.listeners();
        if let Some(listener) = listeners.get(name) {
            let is_same =
                (listener.protocol, listener.family) == (protocol, family) && (port == 0 || port == listener.port);
            return if is_same { Ok(listener.port) } else { Err(Error::Taken { name: name.to_owned() }) };
        }
        if listeners.len() >= self.max_listeners {
            return Err(Error::TooMany { name: name.to_owned(), listeners: listeners.len() });
        }
        let socket = listening::open(protocol, family, port)?;
        self.open(&mut listeners, name, protocol, family, socket)
    }

    /// Takes over a listening socket of another process, and returns its port.
    pub fn adopt(&self, name: &str, protocol: Protocol, family: Family, socket: OwnedFd) -> Result<u16, Error> {
        let mut listeners = self.listeners();
        if listeners.contains_key(name) {
            return Err(Error::Taken { name: name.to_owned() });
        }
        listening::check(&socket, protocol, family)?;
        listening::prepare(&socket, protocol, family)?;
        self.open(&mut listeners, name, protocol, family, socket)
    }

    fn open(
        &self,
        listeners: &mut BTreeMap<String, Listener>,
        name: &str,
        protocol: Protocol,
        family: Family,
        socket: OwnedFd,
    ) -> Result<u16, Error> {
        let port = listening::port(&socket)?;
        let socket = Arc::new(socket);
        let tally = self.ledger.open(name);
        let name = name.to_owned();
        self.commands.run(Command::Open { name: name.clone(), protocol, port, socket: Arc::clone(&socket), tally })?;
        listeners.insert(name, Listener { protocol, family, port, socket });
        Ok(port)
    }

    /// Sets the endpoints for new connections. Established TCP connections to other endpoints continue; UDP
    /// associations to them end, so that the next datagram of the client selects a current endpoint.
    pub fn set_targets(&self, name: &str, targets: Targets) -> Result<(), Error> {
        if !self.listeners().contains_key(name) {
            return Err(Error::Unknown { name: name.to_owned() });
        }
        self.commands.run(Command::SetTargets { name: name.to_owned(), targets })
    }

    /// Ends TCP connections to an endpoint with a reset of both sides. Returns how many.
    pub fn reset(&self, wanted: Resets) -> Result<usize, Error> {
        let count = Arc::new(AtomicUsize::new(0));
        self.commands.run(Command::Reset { wanted, count: Arc::clone(&count) })?;
        Ok(count.load(Ordering::Acquire))
    }

    /// Accepts clients that are still connecting, for a second, and then no more; established connections continue.
    /// Packet rules should be removed before. Without such a listener this does nothing.
    pub fn close(&self, name: &str) -> Result<(), Error> {
        // Held to the end, so that no listener of the same name is opened in between.
        let mut listeners = self.listeners();
        if listeners.remove(name).is_none() {
            return Ok(());
        }
        let outcome = self.commands.run(Command::Close { name: name.to_owned() });
        self.ledger.close(name);
        outcome
    }

    /// Duplicates of all listening sockets, for another process to [`adopt`](Relay::adopt).
    pub fn sockets(&self) -> Result<Vec<NamedSocket>, Error> {
        let failed = |source| Error::io("duplicating a listening socket", source);
        let listeners = self.listeners();
        let copies = listeners.iter().map(|(name, listener)| {
            let socket = listener.socket.try_clone().map_err(failed)?;
            Ok((name.clone(), listener.protocol, listener.family, socket))
        });
        copies.collect()
    }

    /// Stops accepting, and leaves all listening sockets to the process that has duplicates of them. Their accept
    /// queues are kept, and established connections continue here.
    pub fn stop_accepting(&self) -> Result<(), Error> {
        let listeners = std::mem::take(&mut *self.listeners());
        let outcome = self.commands.run(Command::StopAccepting);
        listeners.keys().for_each(|name| self.ledger.close(name));
        outcome
    }

    /// Connections and UDP associations that have not ended.
    pub fn active(&self) -> usize {
        self.active.load(Ordering::Acquire)
    }

    /// The counters of all listeners, and of closed ones that still have connections.
    pub fn counters(&self) -> Vec<(String, Counters)> {
        self.ledger.read()
    }

    /// The counters of endpoints, with the names of their listeners.
    pub fn endpoint_counters(&self) -> Vec<(String, SocketAddr, EndpointCounters)> {
        self.ledger.read_endpoints()
    }

    /// Open connections and UDP associations, at most so many.
    pub fn connections(&self, most: usize) -> Result<Vec<Carried>, Error> {
        let found = Arc::default();
        self.commands.run(Command::List { most, found: Arc::clone(&found) })?;
        let found = std::mem::take(&mut *found.lock().unwrap_or_else(PoisonError::into_inner));
        let names = self.ledger.names();
        Ok(found.into_iter().filter_map(|listed| carried(listed, &names)).collect())
    }

    fn listeners(&self) -> MutexGuard<'_, BTreeMap<String, Listener>> {
        self.listeners.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn carried(listed: Listed, names: &HashMap<*const Tally, String>) -> Option<Carried> {
    let Listed { tally, client, endpoint, age, idle, bytes_from_client, bytes_to_client } = listed;
    let listener = names.get(&Arc::as_ptr(&tally))?.clone();
    Some(Carried { listener, client, endpoint, age, idle, bytes_from_client, bytes_to_client })
}

impl Drop for Relay {
    fn drop(&mut self) {
        // If the thread has ended by itself, the command fails, which does not matter here.
        let _ = self.commands.run(Command::End);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}
