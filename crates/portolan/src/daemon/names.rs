//! DNS beside the rules: names are published after the rules that serve them, and withdrawn before those go.

use super::Daemon;
use crate::dns::NodeNames;
use crate::settings::DnsSettings;

impl Daemon {
    /// Rules do not wait for DNS: if its port is in use, every sync retries.
    pub(super) fn open_names(&mut self) {
        let Some(settings) = self.settings.dns.as_ref().filter(|_| self.names.is_none()) else { return };
        let started = match self.settings.dns_user() {
            None => NodeNames::start(settings, self.observers.runtime()),
            Some(user) => {
                let config = self.settings.dns_config_file();
                NodeNames::start_worker(settings, config, user, self.observers.status.metrics.clone())
            }
        };
        match started {
            Ok(names) => self.names = Some(names),
            Err(error) => tracing::error!("{error:#}; retrying with the next sync"),
        }
    }

    /// Puts changed settings of DNS in force.
    pub(super) fn change_names(&mut self, settings: Option<DnsSettings>) {
        let Some(settings) = settings.filter(|settings| self.settings.dns.as_ref() != Some(settings)) else { return };
        if self.settings.dns.is_none() {
            return;
        }
        tracing::info!("the configuration of DNS has changed");
        if let Some(names) = &mut self.names {
            names.use_settings(settings.clone(), self.observers.runtime());
        }
        self.settings.dns = Some(settings);
    }

    pub(super) fn withdraw_names(&self) {
        self.names.iter().for_each(|names| names.withdraw(self.plan.facts()));
    }

    pub(super) fn publish_names(&mut self) {
        self.open_names();
        self.names.iter().for_each(|names| names.publish(self.plan.facts()));
    }

    /// Frees the ports for the next daemon. Returns the settings to open them again.
    pub(super) fn close_names(&mut self) -> Option<DnsSettings> {
        self.names = None;
        self.settings.dns.take()
    }
}
