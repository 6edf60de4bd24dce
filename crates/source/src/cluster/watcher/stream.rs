//! A watch: events as they come, batch by batch.

use std::time::{Duration, Instant};

use http::StatusCode;
use http_body_util::BodyExt;

use super::answer::ended_by;
use super::{Ended, Watcher};
use crate::cluster::client::{Body, Request};
use crate::cluster::error::chain;
use crate::cluster::facts::{Facts, Listing, complain_of_broken};
use crate::cluster::messages::{Identity, Metadata};
use crate::cluster::resource::{Broken, Document};
use crate::cluster::wire::{Encoding, Event, Frames};

/// The bookmark with this annotation ends the initial events.
const INITIAL_EVENTS_END: &str = "k8s.io/initial-events-end";

/// What is known of a watch while it lasts.
struct Progress {
    encoding: Encoding,
    started: tokio::time::Instant,
    timeout: Duration,
    /// The server sends bookmarks, so that silence means something.
    has_bookmarks: bool,
    has_events: bool,
}

impl Watcher {
    /// Everything as initial events, then changes.
    pub(super) async fn stream_everything(&mut self) -> Ended {
        let timeout = self.watch_timeout();
        let request = self.asking.initial_events(timeout);
        self.listing = Some(Listing::default());
        match self.watch(request, timeout).await {
            Ended::Failed { reason, code: Some(code), .. } if is_refusal(code) => {
                Ended::NoInitialEvents { reason, for_good: code != StatusCode::FORBIDDEN }
            }
            ended => ended,
        }
    }

    /// Changes after what is known.
    pub(super) async fn follow(&mut self, version: &str) -> Ended {
        let timeout = self.watch_timeout();
        let request = self.asking.changes(version, timeout);
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
            let limit = self.patience(&progress);
            let data = match tokio::time::timeout(limit, body.frame()).await {
                Err(_) => return self.too_quiet(limit),
                Ok(None) => return self.closed(&progress, &frames),
                Ok(Some(Err(error))) => return self.broke_off(&progress, &error),
                Ok(Some(Ok(frame))) => frame.into_data().unwrap_or_default(),
            };
            frames.push(&data);
            if let Err(ended) = self.take_in(&mut frames, &mut progress) {
                return ended;
            }
            if self.listing.is_some() && started.elapsed() > self.shared.tuning.initial_total {
                return self.too_quiet(self.shared.tuning.initial_total);
            }
        }
    }

    /// How long the server may be silent. One that sends a bookmark every minute is missed sooner.
    fn patience(&self, progress: &Progress) -> Duration {
        let tuning = &self.shared.tuning;
        match (&self.listing, progress.has_bookmarks) {
            (Some(_), _) => tuning.initial_silence,
            (None, true) => tuning.bookmark_silence,
            (None, false) => (progress.timeout + tuning.grace).saturating_sub(progress.started.elapsed()),
        }
    }

    fn too_quiet(&mut self, limit: Duration) -> Ended {
        match self.listing.take() {
            Some(_) => Ended::NoInitialEvents {
                reason: format!("the server did not say within {limit:?} that they are complete"),
                for_good: true,
            },
            None => Ended::failed(format!("nothing came for {limit:?}; the connection is taken for dead")),
        }
    }

    /// The server closed the watch in good order, which it does when its time is up or it shuts down.
    fn closed(&mut self, progress: &Progress, frames: &Frames) -> Ended {
        if frames.is_torn() {
            return Ended::failed("the watch ended in the middle of an event");
        }
        if self.listing.is_some() {
            return Ended::failed("the watch ended before all initial events had come");
        }
        if progress.has_events || progress.started.elapsed() >= self.shared.tuning.settled {
            self.succeeded();
            return Ended::Well;
        }
        Ended::failed("the watch ended as soon as it began")
    }

    fn broke_off(&self, progress: &Progress, error: &(dyn std::error::Error + 'static)) -> Ended {
        let after = progress.started.elapsed();
        Ended::failed(format!("the connection broke off after {after:.0?}: {}", chain(error)))
    }

    /// All events that are there, in one batch.
    fn take_in(&mut self, frames: &mut Frames, progress: &mut Progress) -> Result<(), Ended> {
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
        let is_news = facts.settle();
        drop(facts);
        if is_news {
            (shared.notify)();
        }
        result
    }

    fn take(&mut self, facts: &mut Facts, event: &Event, progress: &mut Progress, now: Instant) -> Result<(), Ended> {
        let encoding = progress.encoding;
        match event.kind.as_str() {
            "ADDED" | "MODIFIED" | "DELETED" => {
                let document = self.resource().read(encoding, &event.object);
                let metadata = self.take_object(facts, &event.kind, &document, now);
                self.advance(metadata);
            }
            "BOOKMARK" => {
                let bookmark: Identity = encoding.read(&event.object).unwrap_or_default();
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
        document: &'a Result<Document, Broken>,
        now: Instant,
    ) -> Option<&'a Metadata> {
        match (document, &mut self.listing) {
            (Ok(document), Some(listing)) if kind == "DELETED" => listing.remove(document),
            (Ok(document), Some(listing)) => facts.gather(listing, document),
            (Ok(document), None) if kind == "DELETED" => facts.remove(document, now),
            (Ok(document), None) => facts.put(document, kind == "ADDED", now),
            (Err(broken), listing) => {
                complain_of_broken(self.asking.resource.kind(), broken);
                if let (Some(listing), Some(metadata)) = (listing, &broken.metadata) {
                    facts.gather_last_good(listing, metadata, self.asking.resource);
                }
            }
        }
        document.as_ref().map_or_else(|broken| broken.metadata.as_deref(), |document| Some(document.metadata()))
    }

    fn take_bookmark(&mut self, facts: &mut Facts, bookmark: &Metadata, progress: &mut Progress, now: Instant) {
        let is_end = bookmark.annotations.get(INITIAL_EVENTS_END).is_some_and(|value| value == "true");
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

    /// Where to go on after an interruption. While initial events arrive there is no such place.
    fn advance(&mut self, metadata: Option<&Metadata>) {
        let Some(metadata) = metadata.filter(|metadata| !metadata.resource_version.is_empty()) else { return };
        if self.listing.is_none() {
            self.version.get_or_insert_default().clone_from(&metadata.resource_version);
        }
    }
}

/// Whether the server does not know what initial events are, or does not let us have them.
fn is_refusal(code: StatusCode) -> bool {
    matches!(code.as_u16(), 400 | 403 | 405 | 406 | 415 | 422 | 501)
}
