//! The end of the daemon. In most modes the rules stay and need no process. Where the daemon carries connections, a
//! stand-in mode takes over, and open connections get a grace period.

use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};

use portolan_dataplane::peers::Takeover;
use portolan_dataplane::{Trust, modes};

use super::Daemon;
use super::events::Event;
use crate::control::{Replacement, Successor};
use crate::host;

/// How long carried connections may continue after SIGTERM. A pod has 30 seconds.
const GRACE_PERIOD: Duration = Duration::from_secs(20);
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// Why the run loop ended.
#[derive(Debug)]
pub(super) enum Ending {
    Stopped,
    /// Another process has the listeners and programs the kernel from now on.
    Replaced(Replacement),
}

impl Daemon {
    /// The ports of the pages are free before the new daemon starts to serve. `None` if it has given up waiting.
    pub(super) fn give_way(&self, replacement: Replacement) -> Option<Ending> {
        self.observers.close();
        if replacement.stopped.send(()).is_err() {
            tracing::warn!("another process requested a takeover and has given up waiting");
            self.observers.use_settings(&self.settings);
            return None;
        }
        Some(Ending::Replaced(replacement))
    }

    /// Returns whether the process ends. If not, the daemon works on.
    pub(super) fn leave(&mut self, ending: Ending, events: &Receiver<Event>) -> bool {
        self.observers.close();
        let dns = self.close_names();
        match ending {
            Ending::Replaced(replacement) => {
                if successor(&replacement, events) == Successor::Gone {
                    self.settings.dns = dns;
                    self.return_to_service();
                    return false;
                }
                tracing::info!("replaced by another process");
                self.wait_for_connections(None, events);
            }
            Ending::Stopped => {
                self.leave_to_the_kernel();
                self.wait_for_connections(Some(Instant::now() + GRACE_PERIOD), events);
            }
        }
        true
    }

    fn return_to_service(&mut self) {
        tracing::error!("the process that replaced this one has ended before it served: this one serves again");
        self.observers.use_settings(&self.settings);
        self.addresses = host::addresses();
    }

    /// The stand-in mode's rules need no process: new connections are served while no daemon runs.
    fn leave_to_the_kernel(&mut self) {
        // Before the first sync there is nothing to hand on, and the rules of an earlier daemon are better than none.
        if self.engine.mode.listeners().is_none() || !self.is_ready {
            return tracing::info!("stopping; the rules stay in place (portolan cleanup removes them)");
        }
        let stand_in = modes::STAND_IN;
        self.settings.traffic.use_mode(stand_in);
        let changed = self.engine.change_mode(&self.settings.traffic);
        let synced = changed.map(|()| self.make_plan()).and_then(|_| self.program(Trust::Nothing).map(drop));
        if let Err(error) = synced {
            return tracing::error!("new connections are refused until a daemon runs again: {error:#}");
        }
        self.takeover = Takeover::new(self.engine.mode.owned());
        self.take_over();
        let name = stand_in.name();
        tracing::info!(
            "stopping; rules of {name} mode serve until a daemon runs again (portolan cleanup removes them)"
        );
    }

    /// Waits until the last connection has ended, the deadline has passed, or a second signal arrives.
    fn wait_for_connections(&mut self, deadline: Option<Instant>, events: &Receiver<Event>) {
        let carried = self.engine.carried();
        if carried > 0 {
            tracing::info!("waiting for {carried} open connections; a second signal ends them");
        }
        while self.engine.carried() > 0 && deadline.is_none_or(|deadline| Instant::now() < deadline) {
            match events.recv_timeout(LOOK_EVERY) {
                Ok(Event::Stop) | Err(RecvTimeoutError::Disconnected) => return,
                Ok(_) | Err(RecvTimeoutError::Timeout) => {}
            }
        }
    }
}

/// Waits until the new daemon serves or has ended. Events are dropped: if this daemon works on, it reads everything again.
fn successor(replacement: &Replacement, events: &Receiver<Event>) -> Successor {
    loop {
        match replacement.outcome.recv_timeout(LOOK_EVERY) {
            Ok(successor) => return successor,
            Err(RecvTimeoutError::Disconnected) => return Successor::Serves,
            Err(RecvTimeoutError::Timeout) if events.try_iter().any(|event| matches!(event, Event::Stop)) => {
                return Successor::Serves;
            }
            Err(RecvTimeoutError::Timeout) => {}
        }
    }
}
