//! Events of the run loop: each source is a thread that sends into one channel.

use std::fmt::Display;
use std::net::IpAddr;
use std::panic::{self, AssertUnwindSafe};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::SyncSender;
use std::thread;
use std::time::Duration;

use anyhow::Context;
use portolan_balance::Sighting;
use portolan_dataplane::Error;
use portolan_dataplane::mode::{ForeignChange, WatchForeignChanges};
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
    Foreign(ForeignChange),
    Addresses(Vec<IpAddr>),
    /// Counters to delete.
    Forget(Forget),
    /// The connections of endpoints that are watched.
    Sighting(Box<Sighting>),
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
                ForeignChange::from(format!("watching for foreign changes failed: {error}"))
            }
        };
        is_wanted.strong_count() > 0 && events.send(Event::Foreign(what)).is_ok()
    })?;
    Ok(WatchToken(token))
}

pub(crate) fn watch_addresses(events: SyncSender<Event>) -> anyhow::Result<()> {
    let mut monitor = AddressMonitor::open().context("watching the machine's addresses")?;
    spawn("addresses", move || match monitor.wait(None) {
        Ok(true) => events.send(Event::Addresses(until_known(host::read_addresses, PAUSE))).is_ok(),
        Ok(false) => true,
        Err(error) => {
            tracing::error!("watching the machine's addresses: {error}");
            thread::sleep(PAUSE);
            true
        }
    })
}

/// Reads again after an error: the addresses that were known stay in force until then.
fn until_known<T, E: Display>(read: impl Fn() -> Result<T, E>, pause: Duration) -> T {
    loop {
        match read() {
            Ok(known) => return known,
            Err(error) => tracing::warn!("reading the machine's addresses: {error}; retrying"),
        }
        thread::sleep(pause);
    }
}

pub(crate) fn watch_signals(signals: TerminationSignals, events: SyncSender<Event>) -> anyhow::Result<()> {
    spawn("signals", move || {
        signals.wait();
        events.send(Event::Stop).is_ok()
    })
}

/// Repeats a step on a new thread until it returns false. A step that panics is repeated.
pub(super) fn spawn(name: &'static str, mut step: impl FnMut() -> bool + Send + 'static) -> anyhow::Result<()> {
    let run = move || while attempt(name, &mut step) {};
    thread::Builder::new().name(name.into()).stack_size(256 * 1024).spawn(run).context("starting a thread")?;
    Ok(())
}

fn attempt(name: &str, step: &mut impl FnMut() -> bool) -> bool {
    panic::catch_unwind(AssertUnwindSafe(step)).unwrap_or_else(|_| {
        tracing::error!("the thread {name} has panicked; continuing in {PAUSE:?}");
        thread::sleep(PAUSE);
        true
    })
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    #[test]
    fn a_step_that_panics_is_repeated() {
        let mut rounds = 0;
        let mut step = || {
            rounds += 1;
            assert!(rounds > 1, "this panic is part of the test");
            rounds < 3
        };
        while attempt("test", &mut step) {}
        assert_eq!(rounds, 3);
    }

    #[test]
    fn a_failed_read_of_addresses_is_repeated() {
        let attempts = Cell::new(0);
        let read = || {
            attempts.set(attempts.get() + 1);
            if attempts.get() < 3 { Err("interrupted") } else { Ok(["10.0.0.1"]) }
        };
        assert_eq!((until_known(read, Duration::ZERO), attempts.get()), (["10.0.0.1"], 3));
    }
}
