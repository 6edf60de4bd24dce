//! A watch: events, batch by batch.

use std::time::{Duration, Instant};

use http::StatusCode;
use http_body_util::BodyExt;

use super::answer::ended_by;
use super::ended::Ended;
use super::follow::Watcher;
use crate::cluster::client::{Body, Request};
use crate::cluster::error::chain;
use crate::cluster::facts::{Facts, Listing, report_malformed};
use crate::cluster::resource::{Decoded, Malformed};
use crate::cluster::wire::{Encoding, Event, Frames};
use crate::spec::{Identity, Metadata};

/// The bookmark with this annotation ends the initial events.
const INITIAL_EVENTS_END: &str = "k8s.io/initial-events-end";

/// The state of a watch.
pub(super) struct Progress {
    pub(super) encoding: Encoding,
    pub(super) started: tokio::time::Instant,
    pub(super) timeout: Duration,
    /// A server that sends bookmarks is never silent for long.
    pub(super) has_bookmarks: bool,
    pub(super) has_events: bool,
}

impl Watcher {
    /// All objects as initial events, then changes.
    pub(super) async fn stream_everything(&mut self) -> Ended {
        let timeout = self.watch_timeout();
        let request = self.requests.initial_events(timeout);
        self.listing = Some(Listing::default());
        match self.watch(request, timeout).await {
            Ended::Failed { reason, code: Some(code), .. } if is_refusal(code) => {
                Ended::NoInitialEvents { reason, permanently: code != StatusCode::FORBIDDEN }
            }
            ended => ended,
        }
    }

    /// Changes after a resource version.
    pub(super) async fn follow(&mut self, version: &str) -> Ended {
        let timeout = self.watch_timeout();
        let request = self.requests.changes(version, timeout);
        self.watch(request, timeout).await
    }

    async fn watch(&mut self, request: Result<Request, String>, timeout: Duration) -> Ended {
        let request = match request {
            Ok(request) => request,
            Err(reason) => return Ended::failed(reason),
        };
        let response = match self.shared.access.send(request).await {
            Ok(response) => response,
            Err(reason) => return Ended::failed(reason),
        };
        match self.accept(response).await {
            Ok((encoding, body)) => self.receive(encoding, body, timeout).await,
            Err(ended) => ended,
        }
    }

    async fn receive(&mut self, encoding: Encoding, mut body: Body, timeout: Duration) -> Ended {
        self.shared.connected(self.resource());
        let started = tokio::time::Instant::now();
        let mut progress = Progress { encoding, started, timeout, has_bookmarks: false, has_events: false };
        let mut frames = Frames::new(encoding);
        loop {
            let limit = self.silence_limit(&progress);
            let data = match tokio::time::timeout(limit, body.frame()).await {
                Err(_) => return self.timed_out(limit),
                Ok(None) => return self.closed(&progress, &frames),
                Ok(Some(Err(error))) => return self.interrupted(&progress, &error),
                Ok(Some(Ok(frame))) => frame.into_data().unwrap_or_default(),
            };
            frames.push(&data);
            if let Err(ended) = self.take_batch(&mut frames, &mut progress) {
                return ended;
            }
            if self.listing.is_some() && started.elapsed() > self.shared.tuning.initial_total {
                return self.timed_out(self.shared.tuning.initial_total);
            }
        }
    }

    /// How long the server may be silent.
    fn silence_limit(&self, progress: &Progress) -> Duration {
        let tuning = &self.shared.tuning;
        match (&self.listing, progress.has_bookmarks) {
            (Some(_), _) => tuning.initial_silence,
            (None, true) => tuning.bookmark_silence,
            (None, false) => (progress.timeout + tuning.grace).saturating_sub(progress.started.elapsed()),
        }
    }

    fn timed_out(&mut self, limit: Duration) -> Ended {
        match self.listing.take() {
            Some(_) => {
                Ended::NoInitialEvents { reason: format!("they were not complete within {limit:?}"), permanently: true }
            }
            None => Ended::failed(format!("no data for {limit:?}")),
        }
    }

    /// The server closed the watch, which it does when the timeout is over or it shuts down.
    fn closed(&mut self, progress: &Progress, frames: &Frames) -> Ended {
        if frames.is_torn() {
            return Ended::failed("the watch ended in the middle of an event");
        }
        if self.listing.is_some() {
            return Ended::failed("the watch ended before the initial events were complete");
        }
        if progress.has_events || progress.started.elapsed() >= self.shared.tuning.settled {
            self.succeeded();
            return Ended::Normally;
        }
        Ended::failed("the watch ended at once")
    }

    fn interrupted(&self, progress: &Progress, error: &(dyn std::error::Error + 'static)) -> Ended {
        let after = progress.started.elapsed();
        Ended::failed(format!("the connection was lost after {after:.0?}: {}", chain(error)))
    }

    /// All events that have arrived, in one batch.
    pub(super) fn take_batch(&mut self, frames: &mut Frames, progress: &mut Progress) -> Result<(), Ended> {
        let shared = self.shared.clone();
        let mut facts = shared.facts();
        let now = Instant::now();
        let mut result = Ok(());
        while result.is_ok() {
            result = match frames.next() {
                Ok(Some(event)) => self.take(&mut facts, &event, progress, now),
                Ok(None) => break,
                Err(reason) => Err(Ended::failed(reason)),
            };
        }
        let has_changed = facts.finish();
        drop(facts);
        if has_changed {
            (shared.notify)();
        }
        result
    }

    fn take(&mut self, facts: &mut Facts, event: &Event, progress: &mut Progress, now: Instant) -> Result<(), Ended> {
        let encoding = progress.encoding;
        match event.kind.as_str() {
            "ADDED" | "MODIFIED" | "DELETED" => {
                let object = self.resource().read(encoding, &event.object);
                let metadata = self.take_object(facts, &event.kind, &object, now);
                self.advance(metadata);
            }
            "BOOKMARK" => {
                let bookmark = encoding.unwrap(&event.object).and_then(|object| encoding.read::<Identity>(&object));
                let bookmark = bookmark.unwrap_or_default();
                self.take_bookmark(facts, &bookmark.metadata, progress, now);
            }
            "ERROR" => return Err(ended_by(&encoding.read_status(&event.object))),
            other => tracing::debug!("{}: unknown event {other:?}", self.resource().what()),
        }
        if !progress.has_events && self.listing.is_none() {
            progress.has_events = true;
            self.succeeded();
        }
        Ok(())
    }

    fn take_object<'a>(
        &mut self,
        facts: &mut Facts,
        kind: &str,
        object: &'a Result<Decoded, Malformed>,
        now: Instant,
    ) -> Option<&'a Metadata> {
        let resource = self.requests.resource;
        let metadata = match object {
            Ok(object) => Some(object.metadata()),
            Err(malformed) => malformed.metadata.as_deref(),
        };
        match (object, metadata, &mut self.listing) {
            // The name is enough, whatever the rest.
            (_, Some(metadata), Some(listing)) if kind == "DELETED" => listing.remove(resource, metadata),
            (_, Some(metadata), None) if kind == "DELETED" => facts.remove(resource, metadata, now),
            (Ok(object), _, Some(listing)) => facts.collect(listing, object),
            (Ok(object), _, None) => facts.put(object, kind == "ADDED", now),
            (Err(malformed), metadata, listing) => {
                report_malformed(resource.kind(), malformed);
                if let (Some(listing), Some(metadata)) = (listing, metadata) {
                    facts.collect_last_good(listing, metadata, resource);
                }
            }
        }
        metadata
    }

    fn take_bookmark(&mut self, facts: &mut Facts, bookmark: &Metadata, progress: &mut Progress, now: Instant) {
        let is_end = bookmark.annotation(INITIAL_EVENTS_END) == Some("true");
        match self.listing.take() {
            Some(listing) if is_end => {
                facts.replace(self.resource(), listing, now);
                self.complete(bookmark.resource_version.clone());
            }
            listing => {
                self.listing = listing;
                progress.has_bookmarks = true;
                self.advance(Some(bookmark));
            }
        }
    }

    /// The version to continue from after an interruption. Initial events have none.
    fn advance(&mut self, metadata: Option<&Metadata>) {
        let Some(metadata) = metadata.filter(|metadata| !metadata.resource_version.is_empty()) else { return };
        if self.listing.is_none() {
            self.version.get_or_insert_default().clone_from(&metadata.resource_version);
        }
    }
}

/// Whether the server does not support initial events, or forbids them.
fn is_refusal(code: StatusCode) -> bool {
    matches!(code.as_u16(), 400 | 403 | 405 | 406 | 415 | 422 | 501)
}
