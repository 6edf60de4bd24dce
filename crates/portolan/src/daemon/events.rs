//! Events of the run loop: each source is a thread that sends into one channel.

use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::SyncSender;
use std::thread;
use std::time::Duration;

use anyhow::Context;
use portolan_dataplane::Error;
use portolan_dataplane::mode::WatchForeignChanges;
use portolan_dataplane::traffic::{Pair, Usage};
use portolan_kernel::addresses::AddressMonitor;
use portolan_kernel::signal::TerminationSignals;
use portolan_source::Watcher;

use crate::control::Replacement;
use crate::host;

#[derive(Debug)]
pub(crate) enum Event {
    /// Facts may have changed.
    Facts,
    /// The configuration file may have changed.
    Settings,
    /// Another process changed objects of the active mode, or may have.
    Foreign(String),
    Addresses(Vec<IpAddr>),
    /// Counters to delete.
    Forget(Forget),
    Stop,
    /// Another process has the listeners. It continues once the run loop has stopped.
    Replaced(Replacement),
}

/// Counters to delete, and where the run loop reports the result.
#[derive(Debug)]
pub(crate) struct Forget {
    pub(crate) pairs: Vec<(Pair, Usage)>,
    pub(crate) done: SyncSender<Result<(), Error>>,
}

/// How long a source waits after an error.
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

/// A file in a ConfigMap's volume changes by a symbolic link beside it, so its whole directory is watched.
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

/// Keeps a watch on foreign changes alive; dropped with the mode that it belongs to.
#[derive(Debug)]
pub(crate) struct WatchToken(#[expect(dead_code, reason = "dropping it ends the watch")] Arc<()>);

/// Watches the active mode's objects for changes by other processes.
pub(crate) fn watch_foreign_changes(
    mut watch: Box<dyn WatchForeignChanges>,
    events: SyncSender<Event>,
) -> anyhow::Result<WatchToken> {
    let token = Arc::new(());
    let is_wanted = Arc::downgrade(&token);
    spawn("kernel", move || {
        let what = match watch.wait() {
            Ok(Some(what)) => what,
            Ok(None) => return is_wanted.strong_count() > 0,
            Err(error) => {
                thread::sleep(PAUSE);
                format!("watching for foreign changes failed: {error}")
            }
        };
        is_wanted.strong_count() > 0 && events.send(Event::Foreign(what)).is_ok()
    })?;
    Ok(WatchToken(token))
}

pub(crate) fn watch_addresses(events: SyncSender<Event>) -> anyhow::Result<()> {
    let mut monitor = AddressMonitor::open().context("watching the machine's addresses")?;
    spawn("addresses", move || match monitor.wait(None) {
        // After a failed read, the known addresses stay.
        Ok(true) => host::try_addresses().is_none_or(|addresses| events.send(Event::Addresses(addresses)).is_ok()),
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

/// Repeats a step on a new thread until it returns false.
fn spawn(name: &str, mut step: impl FnMut() -> bool + Send + 'static) -> anyhow::Result<()> {
    let run = move || while step() {};
    thread::Builder::new().name(name.into()).stack_size(256 * 1024).spawn(run).context("starting a thread")?;
    Ok(())
}
