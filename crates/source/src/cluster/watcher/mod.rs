//! One resource, followed for ever: everything once, then changes, and after every interruption from where it ended.

mod answer;
mod list;
mod stream;

use std::sync::Arc;
use std::time::Duration;

use http::StatusCode;
use tokio::time::Instant;

use super::facts::Listing;
use super::pace::{Backoff, chance};
use super::request::Asking;
use super::resource::Resource;
use super::shared::Shared;

pub(super) struct Watcher {
    asking: Asking,
    shared: Arc<Shared>,
    backoff: Backoff,
    /// Where to go on. `None` when everything must be listed first.
    version: Option<String>,
    /// Whether the server is known to send everything as events of a watch.
    streaming: bool,
    /// Whether only the newest list will do, because the server said that we fell too far behind.
    newest: bool,
    /// Whether the server has ever shown us the resource: then there is one, whatever a restarting server says.
    known: bool,
    /// What has been gathered of the initial events.
    listing: Option<Listing>,
    /// When everything was last known.
    listed: Option<Instant>,
}

/// How an attempt ended.
#[derive(Debug)]
enum Ended {
    /// The server closed a watch in good order, or a list is complete.
    Well,
    /// The server has forgotten the version that we know.
    Gone,
    /// Initial events are not to be had; the list must be asked for. Whether to try them again some time.
    NoInitialEvents { reason: String, for_good: bool },
    /// There is no such resource, or it is not for us.
    Absent(String),
    /// With what the server answered, if it did, and how long it asked us to stay away.
    Failed { reason: String, code: Option<StatusCode>, pause: Option<Duration> },
}

impl Ended {
    fn failed(reason: impl Into<String>) -> Self {
        Self::Failed { reason: reason.into(), code: None, pause: None }
    }
}

impl Watcher {
    pub(super) fn new(asking: Asking, shared: Arc<Shared>) -> Self {
        let tuning = &shared.tuning;
        let backoff = Backoff::new(tuning.first_pause, tuning.longest_pause);
        let streaming = tuning.streaming;
        Self {
            asking,
            shared,
            backoff,
            version: None,
            streaming,
            newest: false,
            known: false,
            listing: None,
            listed: None,
        }
    }

    pub(super) async fn run(mut self) {
        let mut list_once = false;
        loop {
            let ended = self.attempt(list_once).await;
            list_once = matches!(ended, Ended::NoInitialEvents { .. });
            let pause = self.conclude(ended);
            tokio::time::sleep(pause).await;
        }
    }

    async fn attempt(&mut self, list_once: bool) -> Ended {
        self.listing = None;
        match self.version.clone() {
            Some(version) => self.follow(&version).await,
            None if self.streaming && !list_once => self.stream_everything().await,
            None => self.list().await,
        }
    }

    /// Learns from how an attempt ended, and says how long to wait before the next.
    fn conclude(&mut self, ended: Ended) -> Duration {
        let resource = self.resource();
        match ended {
            Ended::Well => {
                self.shared.paused(resource);
                Duration::ZERO
            }
            Ended::Gone => {
                tracing::info!("{}: the API server has forgotten where we were; listing everything", resource.what());
                self.shared.paused(resource);
                (self.version, self.newest) = (None, true);
                // A server that forgets at once what it has just told is left alone for a while.
                let has_lasted = |listed: Instant| listed.elapsed() >= self.shared.tuning.settled;
                if self.listed.take().is_some_and(has_lasted) { Duration::ZERO } else { self.backoff.pause() }
            }
            Ended::NoInitialEvents { reason, for_good } => {
                tracing::info!("{}: no initial events, asking for a list instead: {reason}", resource.what());
                self.streaming &= !for_good;
                Duration::ZERO
            }
            Ended::Absent(reason) => {
                self.shared.absent(resource, &reason);
                self.absent_pause()
            }
            Ended::Failed { reason, pause, .. } => {
                let pause = self.backoff.pause().max(pause.unwrap_or_default());
                self.shared.failed(resource, &reason, pause);
                pause
            }
        }
    }

    fn resource(&self) -> Resource {
        self.asking.resource
    }

    /// All is well: the next failure is the first.
    fn succeeded(&mut self) {
        self.backoff.reset();
        self.newest = false;
    }

    /// A server that has just started forbids what it allows a moment later, so the first questions follow quickly.
    fn absent_pause(&mut self) -> Duration {
        let tuning = &self.shared.tuning;
        let pause = self.backoff.pause();
        if pause < tuning.longest_pause { pause.min(tuning.absent_pause) } else { tuning.absent_pause }
    }

    /// Everything is known as of a version.
    fn complete(&mut self, version: String) {
        self.version = Some(version);
        (self.known, self.listed) = (true, Some(Instant::now()));
    }

    /// Differs from watch to watch, so that not all end together.
    fn watch_timeout(&self) -> Duration {
        self.shared.tuning.watch.mul_f64(1.0 + chance())
    }
}
