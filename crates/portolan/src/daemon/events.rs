//! What can happen from outside: each source is a thread that sends into one channel.

use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::sync::mpsc::SyncSender;
use std::thread;
use std::time::Duration;

use anyhow::Context;
use portolan_dataplane::nftables::TABLE;
use portolan_kernel::addresses::AddressMonitor;
use portolan_kernel::nftables::{ForeignChange, Monitor};
use portolan_kernel::signal::TerminationSignals;
use portolan_source::Watcher;

use super::traffic::Forget;
use crate::control::Replacement;
use crate::host;

#[derive(Debug)]
pub(crate) enum Event {
    /// Facts may have changed.
    Facts,
    /// The configuration file may have changed.
    Settings,
    /// Somebody else changed our table, or may have.
    Foreign(String),
    Addresses(Vec<IpAddr>),
    /// Counters that are not needed any more.
    Forget(Forget),
    Stop,
    /// Another process has our listeners. It goes on when it hears that we have stopped.
    Replaced(Replacement),
}

/// How long a source waits after an error before it tries again.
const PAUSE: Duration = Duration::from_secs(1);

pub(crate) fn watch_manifests(paths: &[PathBuf], events: SyncSender<Event>) -> anyhow::Result<()> {
    let mut watcher = Watcher::new(paths).context("watching the manifests for changes")?;
    spawn("manifests", move || match watcher.wait(None) {
        Ok(true) => events.send(Event::Facts).is_ok(),
        Ok(false) => true,
        Err(error) => {
            tracing::error!("watching the manifests: {error}; reading them all again");
            thread::sleep(PAUSE);
            events.send(Event::Facts).is_ok()
        }
    })
}

/// A file in a ConfigMap's volume changes when a symbolic link beside it does, so that its whole directory is watched.
pub(crate) fn watch_settings(file: Option<&Path>, events: SyncSender<Event>) -> anyhow::Result<()> {
    let Some(file) = file else { return Ok(()) };
    let mut watcher = Watcher::new(&[file.into()]).context("watching the configuration file for changes")?;
    spawn("settings", move || match watcher.wait(None) {
        Ok(true) => events.send(Event::Settings).is_ok(),
        Ok(false) => true,
        Err(error) => {
            tracing::error!("watching the configuration file: {error}; reading it again");
            thread::sleep(PAUSE);
            events.send(Event::Settings).is_ok()
        }
    })
}

/// Watches our table for changes by anybody but the given sender, which is ourselves.
pub(crate) fn watch_kernel(own_port: u32, events: SyncSender<Event>) -> anyhow::Result<()> {
    let mut monitor = Monitor::open(own_port).context("watching the kernel's tables for changes by others")?;
    spawn("kernel", move || {
        let what = match monitor.wait(TABLE, None) {
            Ok(Some(ForeignChange::Changed { family, what })) => {
                format!("somebody {what} in table {} {TABLE}", family.nft_name())
            }
            Ok(Some(ForeignChange::Overflow)) => "too many changes by others to follow".into(),
            Ok(None) => return true,
            Err(error) => {
                thread::sleep(PAUSE);
                format!("watching the kernel's tables failed: {error}")
            }
        };
        events.send(Event::Foreign(what)).is_ok()
    })
}

pub(crate) fn watch_addresses(events: SyncSender<Event>) -> anyhow::Result<()> {
    let mut monitor = AddressMonitor::open().context("watching the machine's addresses")?;
    spawn("addresses", move || match monitor.wait(None) {
        Ok(true) => events.send(Event::Addresses(host::addresses())).is_ok(),
        Ok(false) => true,
        Err(error) => {
            tracing::error!("watching the machine's addresses: {error}");
            thread::sleep(PAUSE);
            true
        }
    })
}

pub(crate) fn watch_signals(signals: TerminationSignals, events: SyncSender<Event>) -> anyhow::Result<()> {
    spawn("signals", move || {
        signals.wait();
        events.send(Event::Stop).is_ok()
    })
}

/// Runs a step again and again until it says that nobody listens any more.
fn spawn(name: &str, mut step: impl FnMut() -> bool + Send + 'static) -> anyhow::Result<()> {
    let run = move || while step() {};
    thread::Builder::new().name(name.into()).stack_size(256 * 1024).spawn(run).context("starting a thread")?;
    Ok(())
}
