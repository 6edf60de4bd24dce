//! The commands of other threads, and their execution.

use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Sender, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use portolan_model::Protocol;

use super::Worker;
use super::accepting::Listener;
use super::choice::Choice;
use super::listing::Listed;
use super::pausing::Doorway;
use super::slots::Key;
use super::timers::Alarm;
use crate::error::Error;
use crate::system::tally::Tally;
use crate::targets::{Resets, Targets};

/// Clients may still complete a handshake with a listener for this long after its packet rules are removed.
const HANDSHAKE_GRACE: Duration = Duration::from_secs(1);

pub(crate) enum Command {
    Open { name: String, protocol: Protocol, port: u16, socket: Arc<OwnedFd>, tally: Arc<Tally> },
    SetTargets { name: String, targets: Targets },
    Close { name: String },
    Reset { wanted: Resets, count: Arc<AtomicUsize> },
    List { most: usize, found: Arc<Mutex<Vec<Listed>>> },
    StopAccepting,
    End,
}

/// A command, and the channel that reports its completion.
pub(crate) type Request = (Command, SyncSender<()>);

/// The sending side of the command channel.
pub(crate) struct Commands {
    sender: Sender<Request>,
    waker: Arc<OwnedFd>,
}

impl Commands {
    pub(crate) fn new(sender: Sender<Request>, waker: Arc<OwnedFd>) -> Self {
        Commands { sender, waker }
    }

    /// Returns when the command has completed.
    pub(crate) fn run(&self, command: Command) -> Result<(), Error> {
        let (done, is_done) = sync_channel(1);
        self.sender.send((command, done)).map_err(|_| Error::Ended)?;
        rustix::io::write(&*self.waker, &1_u64.to_ne_bytes())
            .map_err(|source| Error::io("waking the relay's thread", source))?;
        is_done.recv().map_err(|_| Error::Ended)
    }
}

impl Worker {
    pub(super) fn run_commands(&mut self) {
        while let Ok((command, done)) = self.requests.try_recv() {
            self.execute(command);
            // The receiver is gone if the calling thread has ended.
            let _ = done.send(());
        }
    }

    fn execute(&mut self, command: Command) {
        match command {
            Command::Open { name, protocol, port, socket, tally } => {
                let listener = Listener {
                    share: name.as_str().into(),
                    protocol,
                    port,
                    socket: Some(socket),
                    choice: Choice::new(self.affinity_budget.clone()),
                    has_targets: false,
                    tally,
                    pending_clients: 0,
                };
                let key = self.listeners.insert(listener);
                self.names.insert(name, key);
                self.divide_descriptors();
            }
            Command::SetTargets { name, targets } => self.set_targets(&name, targets),
            Command::Close { name } => self.close(&name),
            Command::Reset { wanted, count } => count.store(self.reset_connections(&wanted), Ordering::Release),
            Command::List { most, found } => {
                *found.lock().unwrap_or_else(PoisonError::into_inner) = self.list(most);
            }
            Command::StopAccepting => self.stop_accepting(),
            Command::End => self.has_ended = true,
        }
    }

    fn set_targets(&mut self, name: &str, targets: Targets) {
        let Some(&key) = self.names.get(name) else { return };
        let Some(listener) = self.listeners.get_mut(key) else { return };
        if let Some(share) = &targets.share {
            listener.share = Arc::clone(share);
        }
        listener.choice.set(targets);
        listener.tally.keep_endpoints(|endpoint| listener.choice.has(endpoint));
        let protocol = listener.protocol;
        if !listener.has_targets {
            listener.has_targets = true;
            self.start_watching(key);
        }
        if protocol == Protocol::Udp {
            self.end_associations_to_others(key);
        }
    }

    /// Clients in the accept queue or in the middle of a handshake would be reset, so that closing is delayed.
    fn close(&mut self, name: &str) {
        let Some(key) = self.names.remove(name) else { return };
        self.timers.set(self.now + HANDSHAKE_GRACE, Alarm::Closed(key));
    }

    pub(super) fn finish_closing(&mut self, key: Key) {
        self.accept_all(key);
        self.release(key);
        self.divide_descriptors();
    }

    fn stop_accepting(&mut self) {
        let keys: Vec<_> = self.names.drain().map(|(_, key)| key).collect();
        keys.into_iter().for_each(|key| self.release(key));
    }
}
