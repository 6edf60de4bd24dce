//! One resource: a list, then a watch, which continues where it ended after every interruption.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use super::ended::Ended;
use crate::cluster::facts::Listing;
use crate::cluster::pace::{Backoff, random};
use crate::cluster::request::Requests;
use crate::cluster::resource::Resource;
use crate::cluster::shared::Shared;

pub(in crate::cluster) struct Watcher {
    pub(super) requests: Requests,
    pub(super) shared: Arc<Shared>,
    backoff: Backoff,
    /// The resource version to continue from. `None` if a list is needed first.
    pub(super) version: Option<String>,
    /// Whether to request initial events in place of a list.
    streaming: bool,
    /// Whether the list must be the newest, after `410 Gone`.
    pub(super) newest: bool,
    /// Whether the resource was ever listed: then it exists, whatever a restarting server responds.
    pub(super) known: bool,
    /// The initial events so far.
    pub(super) listing: Option<Listing>,
    /// When the resource was last listed.
    listed: Option<Instant>,
}

impl Watcher {
    pub(in crate::cluster) fn new(requests: Requests, shared: Arc<Shared>) -> Self {
        let tuning = &shared.tuning;
        let backoff = Backoff::new(tuning.first_pause, tuning.longest_pause);
        let streaming = tuning.streaming;
        Self {
            requests,
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

    pub(in crate::cluster) async fn run(mut self) {
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

    /// Updates the state after an attempt. Returns the pause before the next one.
    fn conclude(&mut self, ended: Ended) -> Duration {
        let resource = self.resource();
        match ended {
            Ended::Normally => {
                self.shared.renewing(resource);
                Duration::ZERO
            }
            Ended::Gone => {
                tracing::info!("{}: the resource version has expired, listing again", resource.what());
                self.shared.renewing(resource);
                (self.version, self.newest) = (None, true);
                // A server whose versions expire at once is retried with backoff.
                let has_lasted = |listed: Instant| listed.elapsed() >= self.shared.tuning.settled;
                if self.listed.take().is_some_and(has_lasted) { Duration::ZERO } else { self.backoff.pause() }
            }
            Ended::NoInitialEvents { reason, permanently } => {
                tracing::info!("{}: no initial events, listing instead: {reason}", resource.what());
                self.streaming &= !permanently;
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

    pub(super) fn resource(&self) -> Resource {
        self.requests.resource
    }

    /// Resets the backoff.
    pub(super) fn succeeded(&mut self) {
        self.backoff.reset();
        self.newest = false;
    }

    /// A server that has just started forbids what it allows a moment later, so the first retries follow quickly.
    fn absent_pause(&mut self) -> Duration {
        let tuning = &self.shared.tuning;
        let pause = self.backoff.pause();
        if pause < tuning.longest_pause { pause.min(tuning.absent_pause) } else { tuning.absent_pause }
    }

    /// The resource has been listed as of a version.
    pub(super) fn complete(&mut self, version: String) {
        self.shared.listed(self.resource());
        self.version = Some(version);
        (self.known, self.listed) = (true, Some(Instant::now()));
    }

    /// Differs between watches, so that they do not all end together.
    pub(super) fn watch_timeout(&self) -> Duration {
        self.shared.tuning.watch.mul_f64(1.0 + random())
    }
}
