//! The end of a daemon. In most modes the rules stay and do their work without us. In userspace mode connections come to
//! this process: somebody else has to take them from then on, and those that are here should end in peace.

use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};

use portolan_dataplane::peers::Takeover;

use super::Daemon;
use super::events::Event;
use super::programmer::Trust;
use crate::control::Replacement;
use crate::flags::Mode;

/// How long connections that we carry may go on after we were told to stop. A pod has 30 seconds.
const PATIENCE: Duration = Duration::from_secs(20);
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// Why the run loop has ended.
#[derive(Debug)]
pub(super) enum Ending {
    Stopped,
    /// Another process has our listeners, and programs the kernel from now on.
    Replaced(Replacement),
}

impl Daemon {
    pub(super) fn leave(&mut self, ending: Ending, events: &Receiver<Event>) {
        self.surroundings.close();
        self.close_names();
        match ending {
            Ending::Replaced(replacement) => {
                make_room(&replacement);
                self.wait_for_connections(None, events);
            }
            Ending::Stopped => {
                self.leave_to_the_kernel();
                self.wait_for_connections(Some(Instant::now() + PATIENCE), events);
            }
        }
    }

    /// Rules of other modes need nobody: with those of iptables mode, new connections are served while no daemon runs.
    fn leave_to_the_kernel(&mut self) {
        // Whoever has not served yet has nothing to hand on, and the rules of an earlier life are better than none.
        if self.programmer.doors().is_none() || !self.is_ready {
            return tracing::info!("stopping; the rules stay in place (portolan cleanup removes them)");
        }
        let mut settings = self.settings.clone();
        (settings.mode, settings.plan.relayed) = (Mode::Iptables, false);
        let changed = self.programmer.change_mode(settings.mode_settings());
        self.settings = settings;
        let synced = changed.map(|()| self.make_plan()).and_then(|_| self.sync(Trust::Nothing).map(drop));
        if let Err(error) = synced {
            return tracing::error!("new connections will be refused until a daemon runs again: {error:#}");
        }
        self.takeover = Takeover::new(self.programmer.successor());
        self.take_over();
        tracing::info!(
            "stopping; until a daemon runs again, rules of iptables mode serve (portolan cleanup removes them)"
        );
    }

    /// Until the last has ended, the time is over, or somebody asks again.
    fn wait_for_connections(&mut self, deadline: Option<Instant>, events: &Receiver<Event>) {
        let carried = self.programmer.carried();
        if carried > 0 {
            tracing::info!("{carried} connections go on; a second signal ends them");
        }
        while self.programmer.carried() > 0 && deadline.is_none_or(|deadline| Instant::now() < deadline) {
            match events.recv_timeout(LOOK_EVERY) {
                Ok(Event::Stop) | Err(RecvTimeoutError::Disconnected) => return,
                Ok(_) | Err(RecvTimeoutError::Timeout) => {}
            }
        }
    }
}

/// The other process begins when it hears that we write no more: until that is said, this one must live.
fn make_room(replacement: &Replacement) {
    _ = replacement.is_said.recv_timeout(PATIENCE);
    tracing::info!("another process has taken our place");
}
