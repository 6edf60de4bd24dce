//! `portolan dns`: DNS from the same facts as the rules.

mod beside;
mod pages;
mod serve;
mod untracked;
pub(crate) mod worker;

use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use anyhow::Context;
use portolan_kernel::signal::block_termination_signals;
use tokio::runtime::Handle;

use crate::daemon::events::{self, Event};
use crate::daemon::facts::Facts;
use crate::daemon::runtime;
use crate::exit::SUCCESS;
use crate::flags::DnsFlags;
use crate::log::{self, LogFormat, LogSettings};
use crate::settings::{DnsSettings, Facts as FactsSettings};

pub use beside::NodeNames;
pub use serve::Names;
pub(crate) use untracked::remove_table;

/// How often all facts are read again, in case a notification was lost.
const REFRESH: Duration = Duration::from_secs(30);

pub fn run(flags: &DnsFlags) -> anyhow::Result<u8> {
    let start = Instant::now();
    portolan_kernel::share_one_heap();
    log::start(&LogSettings { format: LogFormat::Unset, verbosity: flags.verbosity, patterns: Vec::new() });
    let (settings, notices) = DnsSettings::read(flags)?;
    log::notices(&notices);
    let signals = block_termination_signals().context("preparing for SIGTERM and SIGINT")?;
    let (sender, receiver) = sync_channel(64);
    events::watch_signals(signals, sender.clone())?;
    let runtime = runtime::start()?;
    events::watch_settings(flags.config.as_deref().or(flags.corefile.as_deref()), sender.clone())?;
    let facts_settings = settings.facts(flags)?;
    let facts = Facts::open(&facts_settings, &runtime, &sender)?;
    let names = Names::start(settings, &runtime)?;
    let mut serving = Serving { flags, names, facts, facts_settings, runtime, sender, last_error: String::new() };
    serving.follow(&receiver, start);
    std::thread::sleep(serving.names.settings().lameduck);
    Ok(SUCCESS)
}

/// The server with its settings and facts, which may both change.
struct Serving<'a> {
    flags: &'a DnsFlags,
    names: Names,
    facts: Facts,
    facts_settings: FactsSettings,
    runtime: Handle,
    sender: SyncSender<Event>,
    /// The error of the settings, so that it is logged once.
    last_error: String,
}

impl Serving<'_> {
    /// Publishes the facts until SIGTERM.
    fn follow(&mut self, events: &Receiver<Event>, start: Instant) {
        let mut is_ready = false;
        loop {
            self.facts.refresh();
            if let Some(snapshot) = self.facts.snapshot() {
                self.names.publish(&snapshot);
                self.facts.keep();
                if !is_ready {
                    is_ready = true;
                    portolan_kernel::release_unused_memory();
                    let resident = portolan_kernel::resident_bytes().unwrap_or(0) / 1_000_000;
                    tracing::info!(
                        "ready: names of {} Services, {} ms after the start, {resident} MB resident",
                        snapshot.services.len() + snapshot.foreign.len(),
                        start.elapsed().as_millis(),
                    );
                }
            }
            match events.recv_timeout(REFRESH) {
                Ok(Event::Stop) => return,
                // The files of hosts and of upstream servers are not watched; they are read again with the facts.
                Ok(Event::Settings) | Err(RecvTimeoutError::Timeout) => self.reload(),
                _ => {}
            }
        }
    }

    /// Invalid settings change nothing.
    fn reload(&mut self) {
        match self.try_reload() {
            Ok(()) => self.last_error.clear(),
            Err(error) => {
                let error = format!("{error:#}");
                if error != self.last_error {
                    tracing::error!("the new configuration is not used: {error}");
                    self.names.note_failed_reload();
                }
                self.last_error = error;
            }
        }
    }

    fn try_reload(&mut self) -> anyhow::Result<()> {
        let (settings, notices) = DnsSettings::read(self.flags)?;
        if settings == *self.names.settings() {
            return Ok(());
        }
        tracing::info!("the configuration has changed");
        log::notices(&notices);
        let facts_settings = settings.facts(self.flags)?;
        if facts_settings != self.facts_settings {
            self.facts = Facts::open(&facts_settings, &self.runtime, &self.sender)?;
            self.facts_settings = facts_settings;
        }
        self.names.use_settings(settings, &self.runtime);
        Ok(())
    }
}

/// Seconds since 1970, for the SOA serial number.
fn now_in_seconds() -> u32 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(1, |since| since.as_secs() as u32)
}
