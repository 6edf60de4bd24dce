//! The start of the daemon: alone on its control socket, or in place of another daemon.
//!
//! A replacement prepares everything that can fail before it takes over: the mode is open and the facts are read. Until
//! then the other daemon serves, and it continues if this process fails or is stopped. After that it waits until this
//! process serves, and serves again if this process ends before.

use std::path::Path;
use std::sync::mpsc::{Receiver, SyncSender};
use std::time::{Duration, Instant};

use anyhow::bail;

use super::events::Event;
use super::{Daemon, Due};
use crate::control::{self, Claim, Lock};
use crate::settings::Settings;

/// How often to look for another daemon that does not answer.
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// Whether this process is the only daemon.
pub(super) enum Start {
    Alone(Option<Lock>),
    /// In place of the daemon that runs.
    Replacing,
}

impl Start {
    /// A second daemon on the same socket is refused: the two would undo each other's changes.
    pub(super) fn claim(settings: &Settings) -> anyhow::Result<Self> {
        let path = &settings.control_socket;
        let other = match Claim::make(path) {
            // A version without the lock may run.
            Claim::Ours(lock) if !control::is_answered(path) => return Ok(Self::Alone(lock)),
            Claim::Ours(_) | Claim::Taken => path.display(),
        };
        if settings.replace {
            return Ok(Self::Replacing);
        }
        bail!(
            "another portolan proxy uses {other}: stop it, replace it with --replace, or use another --control-socket"
        )
    }

    pub(super) fn is_replacing(&self) -> bool {
        matches!(self, Self::Replacing)
    }
}

impl Daemon {
    /// A daemon that is ready to work, or `None` if a signal came first.
    pub(super) fn start(
        settings: Settings,
        events: &Receiver<Event>,
        sender: SyncSender<Event>,
        begin: Instant,
    ) -> anyhow::Result<Option<Self>> {
        let start = Start::claim(&settings)?;
        let mut daemon = Self::open(settings, sender, begin, start.is_replacing())?;
        let lock = match start {
            Start::Alone(lock) => lock,
            Start::Replacing => {
                tracing::info!("reading Services and endpoints before replacing the running portolan proxy");
                if !daemon.wait_for_facts(events) {
                    return Ok(None);
                }
                daemon.replace()?
            }
        };
        daemon.open_control_socket(lock);
        Ok(Some(daemon))
    }

    /// False if a signal came first.
    fn wait_for_facts(&mut self, events: &Receiver<Event>) -> bool {
        let mut due = Due { refresh: true, ..Due::default() };
        while due.end.is_none() {
            if due.settings {
                self.change_settings();
            }
            if due.refresh {
                self.facts.refresh();
            }
            if self.make_plan() {
                return true;
            }
            self.schedule.wait_for_facts(Instant::now(), self.periods());
            due = self.wait(events);
        }
        false
    }

    /// From here on the other daemon does not serve, so that no failure ends this process.
    fn replace(&mut self) -> anyhow::Result<Option<Lock>> {
        let lock = self.take_over_from_other()?;
        self.observers.use_settings(&self.settings);
        Ok(lock)
    }

    /// The other daemon may be starting, or may have ended meanwhile.
    fn take_over_from_other(&mut self) -> anyhow::Result<Option<Lock>> {
        let path = &self.settings.control_socket;
        let start = Instant::now();
        while start.elapsed() < control::TIMEOUT {
            if let Some(replaced) = control::replace(path)? {
                if let Err(error) = self.engine.adopt(replaced.sockets) {
                    tracing::error!("{error:#}; clients that were connecting are refused");
                }
                self.confirmation = replaced.confirmation;
                // A version without a lock has none to hand over.
                return Ok(replaced.lock.or_else(|| free_lock(path).flatten()));
            }
            if let Some(lock) = free_lock(path) {
                return Ok(lock);
            }
            std::thread::sleep(LOOK_EVERY);
        }
        bail!("the portolan proxy that uses {} does not answer", path.display())
    }

    fn open_control_socket(&self, lock: Option<Lock>) {
        let events = self.events.clone();
        let replaced = move |replacement| _ = events.send(Event::Replaced(replacement));
        control::serve(&self.settings.control_socket, self.published.clone(), lock, Box::new(replaced));
    }
}

/// `None` if another process has it.
fn free_lock(control_socket: &Path) -> Option<Option<Lock>> {
    match Claim::make(control_socket) {
        Claim::Ours(lock) => Some(lock),
        Claim::Taken => None,
    }
}
