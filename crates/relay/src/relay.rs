//! The handle by which other threads ask the relay for things.

use std::collections::BTreeMap;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

use portolan_model::{Family, Protocol};

use crate::counters::{Counters, Ledger};
use crate::error::Error;
use crate::handover::NamedSocket;
use crate::limits::{Limits, most_listeners, raise_descriptor_limit};
use crate::listening;
use crate::targets::Targets;
use crate::worker::{self, Command, Commands};

/// A running relay. When it is dropped, its connections end with it.
pub struct Relay {
    commands: Commands,
    doors: Mutex<BTreeMap<String, Door>>,
    ledger: Ledger,
    active: Arc<AtomicUsize>,
    thread: Option<JoinHandle<()>>,
    most_listeners: usize,
}

/// A listening socket as this side knows it.
struct Door {
    protocol: Protocol,
    family: Family,
    port: u16,
    socket: Arc<OwnedFd>,
}

impl Relay {
    /// Starts the thread that does the work, in the network namespace of the caller.
    pub fn start(limits: Limits) -> Result<Relay, Error> {
        let active = Arc::new(AtomicUsize::new(0));
        let descriptors = raise_descriptor_limit();
        let (commands, thread) = worker::start(limits, descriptors, Arc::clone(&active))?;
        let (doors, ledger, thread) = (Mutex::default(), Ledger::default(), Some(thread));
        Ok(Relay { commands, doors, ledger, active, thread, most_listeners: most_listeners(descriptors) })
    }

    /// Listens on all local addresses and returns the port. Asked again for the same name, it returns the same port.
    /// Clients wait in the kernel's queue until the first [`set_targets`](Relay::set_targets).
    pub fn listen(&self, name: &str, protocol: Protocol, family: Family) -> Result<u16, Error> {
        self.listen_at(name, protocol, family, 0)
    }

    /// The same on a given port, for packet rules that name it already.
    pub fn listen_at(&self, name: &str, protocol: Protocol, family: Family, port: u16) -> Result<u16, Error> {
        let mut doors = self.doors();
        if let Some(door) = doors.get(name) {
            let is_same = (door.protocol, door.family) == (protocol, family) && (port == 0 || port == door.port);
            return if is_same { Ok(door.port) } else { Err(Error::Taken { name: name.to_owned() }) };
        }
        if doors.len() >= self.most_listeners {
            return Err(Error::TooMany { name: name.to_owned(), listeners: doors.len() });
        }
        let socket = listening::open(protocol, family, port)?;
        self.open(&mut doors, name, protocol, family, socket)
    }

    /// Goes on with a listening socket of another process, and returns its port.
    pub fn adopt(&self, name: &str, protocol: Protocol, family: Family, socket: OwnedFd) -> Result<u16, Error> {
        let mut doors = self.doors();
        if doors.contains_key(name) {
            return Err(Error::Taken { name: name.to_owned() });
        }
        listening::check(&socket, protocol, family)?;
        listening::prepare(&socket, protocol, family)?;
        self.open(&mut doors, name, protocol, family, socket)
    }

    fn open(
        &self,
        doors: &mut BTreeMap<String, Door>,
        name: &str,
        protocol: Protocol,
        family: Family,
        socket: OwnedFd,
    ) -> Result<u16, Error> {
        let port = listening::port(&socket)?;
        let socket = Arc::new(socket);
        let tally = self.ledger.open(name);
        let name = name.to_owned();
        self.commands.ask(Command::Open { name: name.clone(), protocol, port, socket: Arc::clone(&socket), tally })?;
        doors.insert(name, Door { protocol, family, port, socket });
        Ok(port)
    }

    /// Where new connections go from now on. TCP connections to other endpoints go on; UDP associations to them end, so
    /// that a client's next datagram finds a living one.
    pub fn set_targets(&self, name: &str, targets: Targets) -> Result<(), Error> {
        if !self.doors().contains_key(name) {
            return Err(Error::Unknown { name: name.to_owned() });
        }
        self.commands.ask(Command::SetTargets { name: name.to_owned(), targets })
    }

    /// Takes those who are still on their way, for a second, and then no new connections; those that exist live until they
    /// end. Packet rules should lead elsewhere before. Nothing happens if there is no such listener.
    pub fn close(&self, name: &str) -> Result<(), Error> {
        // Held to the end, so that nobody opens another of that name in between.
        let mut doors = self.doors();
        if doors.remove(name).is_none() {
            return Ok(());
        }
        let outcome = self.commands.ask(Command::Close { name: name.to_owned() });
        self.ledger.close(name);
        outcome
    }

    /// Duplicates of all listening sockets, for another process to [`adopt`](Relay::adopt).
    pub fn sockets(&self) -> Result<Vec<NamedSocket>, Error> {
        let failed = |source| Error::io("duplicating a listening socket", source);
        let doors = self.doors();
        let copies = doors.iter().map(|(name, door)| {
            let socket = door.socket.try_clone().map_err(failed)?;
            Ok((name.clone(), door.protocol, door.family, socket))
        });
        copies.collect()
    }

    /// Leaves all listening sockets to the process that has duplicates of them. Nothing in their queues is lost, and
    /// connections that exist here go on.
    pub fn stop_accepting(&self) -> Result<(), Error> {
        let doors = std::mem::take(&mut *self.doors());
        let outcome = self.commands.ask(Command::StopAccepting);
        doors.keys().for_each(|name| self.ledger.close(name));
        outcome
    }

    /// Connections and UDP associations that have not ended.
    pub fn active(&self) -> usize {
        self.active.load(Ordering::Acquire)
    }

    /// The figures of all listeners, and of those that are closed and still have connections.
    pub fn counters(&self) -> Vec<(String, Counters)> {
        self.ledger.read()
    }

    fn doors(&self) -> MutexGuard<'_, BTreeMap<String, Door>> {
        self.doors.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        // If the thread has ended by itself, there is nobody left to tell.
        let _ = self.commands.ask(Command::End);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}
