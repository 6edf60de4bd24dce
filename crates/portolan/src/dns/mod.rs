//! `portolan dns`: DNS from the same facts as the rules.

mod pages;
mod serve;
mod untracked;

use std::sync::mpsc::{Receiver, sync_channel};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use anyhow::Context;
use portolan_kernel::signal::block_termination_signals;

use crate::daemon::events::{self, Event};
use crate::daemon::facts::Facts;
use crate::daemon::runtime;
use crate::exit::SUCCESS;
use crate::flags::DnsFlags;
use crate::log::{self, LogFormat, LogSettings};
use crate::settings::DnsSettings;

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
    let names = Names::start(settings, &runtime)?;
    let facts = Facts::open(&names.settings().facts(flags)?, &runtime, &sender)?;
    follow(facts, &names, &receiver, start);
    std::thread::sleep(names.settings().lameduck);
    Ok(SUCCESS)
}

/// Publishes the facts until SIGTERM.
fn follow(mut facts: Facts, names: &Names, events: &Receiver<Event>, start: Instant) {
    let mut is_ready = false;
    loop {
        facts.refresh();
        if let Some(snapshot) = facts.snapshot() {
            names.publish(&snapshot);
            facts.keep();
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
        if let Ok(Event::Stop) = events.recv_timeout(REFRESH) {
            return;
        }
    }
}

/// Seconds since 1970, for the SOA serial number.
fn now_in_seconds() -> u32 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(1, |since| since.as_secs() as u32)
}
