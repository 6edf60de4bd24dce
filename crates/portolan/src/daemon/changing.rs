//! Changes of the configuration while the daemon runs: settings, the mode, and the source of facts.

use portolan_dataplane::peers::Takeover;

use super::Daemon;
use super::facts::Facts;
use crate::node_setup;
use crate::settings::Settings;

impl Daemon {
    /// Puts the changed configuration file in force. An invalid file changes nothing.
    pub(super) fn change_settings(&mut self) {
        match self.settings.read_again() {
            Ok(settings) if settings.document == self.settings.document => self.change_names(settings.dns),
            Ok(settings) => self.use_settings(settings),
            Err(error) => {
                tracing::error!("the new configuration is not used: {error:#}");
                self.observers.status.metrics.config_reloaded(false);
            }
        }
    }

    fn use_settings(&mut self, mut settings: Settings) {
        tracing::info!("the configuration has changed");
        self.recorder.note_settings(settings.config_file.as_deref());
        crate::log::set(&settings.log);
        crate::log::notices(&settings.notices);
        if settings.traffic.mode != self.settings.traffic.mode {
            if !self.change_mode(&settings) {
                settings.keep_traffic_of(&self.settings);
            }
        } else if let Err(error) = self.engine.mode.use_settings(&settings.traffic.mode_settings) {
            let name = settings.traffic.mode.name();
            tracing::error!("the new settings of mode {name} are not used: {error}");
            settings.traffic.mode_settings = self.settings.traffic.mode_settings.clone();
        }
        if settings.facts != self.settings.facts {
            self.change_facts(&settings);
        }
        let dns = std::mem::replace(&mut settings.dns, self.settings.dns.take());
        self.settings = settings;
        self.change_names(dns);
        self.setup = node_setup::apply(&self.settings);
        self.observers.use_settings(&self.settings);
        self.publish(|published, daemon| published.settings = daemon.settings.clone());
        self.observers.status.metrics.config_reloaded(true);
    }

    /// The new mode's rules are written first; then the takeover removes the old ones. Returns whether the new mode is
    /// active.
    fn change_mode(&mut self, settings: &Settings) -> bool {
        let (old, new) = (self.settings.traffic.mode, settings.traffic.mode);
        tracing::info!("changing from mode {} to mode {}", old.name(), new.name());
        if let Err(error) = self.engine.change_mode(&settings.traffic) {
            tracing::error!("the mode stays {}, with its settings: {error:#}", old.name());
            return false;
        }
        self.takeover = Takeover::new(self.engine.mode.owned());
        (self.watch, self.is_watch_started) = (None, false);
        self.publish(|published, daemon| {
            published.listeners = daemon.engine.mode.listeners();
            published.traffic_reader = daemon.engine.traffic_reader();
        });
        true
    }

    /// The plan of the old source stays in force until the new one has synced.
    fn change_facts(&mut self, settings: &Settings) {
        match Facts::open(&settings.facts, self.observers.runtime(), &self.events) {
            Ok(facts) => {
                self.observers.follow_watches(&facts);
                let watches = facts.watch_states();
                self.publish(|published, _| published.watches = watches);
                self.facts = facts;
            }
            Err(error) => tracing::error!("the new source of facts is not used: {error:#}"),
        }
    }
}
