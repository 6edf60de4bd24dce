//! DNS beside the rules: names are published after the rules that serve them, and withdrawn before those go.

use super::Daemon;
use crate::dns::Names;

impl Daemon {
    /// Rules do not wait for DNS: if its port is in use, every sync retries.
    pub(super) fn open_names(&mut self) {
        let Some(settings) = self.settings.dns.as_ref().filter(|_| self.names.is_none()) else { return };
        match Names::start_beside_rules(settings, self.observers.runtime()) {
            Ok(names) => self.names = Some(names),
            Err(error) => tracing::error!("{error:#}; retrying with the next sync"),
        }
    }

    pub(super) fn withdraw_names(&self) {
        self.names.iter().for_each(|names| names.withdraw(self.plan.facts()));
    }

    pub(super) fn publish_names(&mut self) {
        self.open_names();
        self.names.iter().for_each(|names| names.publish(self.plan.facts()));
    }

    /// Frees the ports for the next daemon.
    pub(super) fn close_names(&mut self) {
        self.settings.dns = None;
        self.names = None;
    }
}
