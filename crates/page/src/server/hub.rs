//! Streams of events. One task asks once a second while there is a stream, and ends with the last one.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use portolan_explain::ChangeEntry;
use serde::Serialize;
use serde_json::json;
use tokio::runtime::Handle;
use tokio::sync::mpsc::{Receiver, Sender, channel};
use tokio::time::MissedTickBehavior;

use super::Ask;
use super::lifetime::Lifetime;
use super::thread::answered;
use crate::answers::{LiveAnswer, Overview, Rates};
use crate::question::Question;

/// Streams at the same time.
const MOST_STREAMS: usize = 16;
/// Events that wait for a reader. One that does not read is disconnected.
const MOST_WAITING: usize = 16;
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// Looks between two comments, which find connections that are gone.
const COMMENT_EVERY: u32 = 15;

pub(super) struct Hub {
    ask: Ask,
    handle: Handle,
    streams: Mutex<Streams>,
}

#[derive(Default)]
struct Streams {
    list: Vec<Stream>,
    is_fed: bool,
}

struct Stream {
    events: Sender<Bytes>,
    lifetime: Arc<Lifetime>,
    service: Option<String>,
    is_new: bool,
}

impl Hub {
    pub(super) fn new(ask: Ask, handle: Handle) -> Arc<Self> {
        Arc::new(Self { ask, handle, streams: Mutex::default() })
    }

    /// `None` if there are too many.
    pub(super) fn subscribe(
        self: &Arc<Self>,
        service: Option<String>,
        lifetime: Arc<Lifetime>,
    ) -> Option<Receiver<Bytes>> {
        let mut streams = self.streams.lock().expect("the lock is not poisoned");
        streams.list.retain(|stream| !stream.events.is_closed());
        if streams.list.len() >= MOST_STREAMS {
            return None;
        }
        lifetime.become_stream();
        let (events, receiver) = channel(MOST_WAITING);
        streams.list.push(Stream { events, lifetime, service, is_new: true });
        if !std::mem::replace(&mut streams.is_fed, true) {
            self.handle.spawn(feed(self.clone()));
        }
        Some(receiver)
    }

    /// The Services that streams are about; `None` if there is no stream, and the task ends.
    fn wanted(&self) -> Option<Vec<String>> {
        let mut streams = self.streams.lock().expect("the lock is not poisoned");
        streams.list.retain(|stream| !stream.events.is_closed());
        streams.is_fed = !streams.list.is_empty();
        let mut services: Vec<String> = streams.list.iter().filter_map(|stream| stream.service.clone()).collect();
        services.sort();
        services.dedup();
        streams.is_fed.then_some(services)
    }

    async fn look(&self, sent: &Sent, services: Vec<String>) -> Option<LiveAnswer> {
        let reply = answered(&self.ask, Question::Live { after: sent.change, reading: sent.reading, services }).await?;
        if reply.status == 200 { serde_json::from_str(&reply.body).ok() } else { None }
    }

    fn send(&self, events: &Events) {
        let mut streams = self.streams.lock().expect("the lock is not poisoned");
        streams.list.retain_mut(|stream| stream.send(events));
    }
}

impl Stream {
    /// Returns whether the reader keeps up.
    fn send(&mut self, events: &Events) -> bool {
        let is_new = std::mem::take(&mut self.is_new);
        let overview = if is_new { events.full_overview.as_ref() } else { events.overview.as_ref() };
        let own = self.service.as_ref().and_then(|service| events.service(service));
        let all = overview.into_iter().chain(&events.common).cloned().chain(own);
        let keeps_up = all.into_iter().all(|event| self.events.try_send(event).is_ok());
        if !keeps_up {
            self.lifetime.end();
        }
        keeps_up
    }
}

/// What one look has found.
#[derive(Default)]
struct Events {
    full_overview: Option<Bytes>,
    /// If it differs from the last one.
    overview: Option<Bytes>,
    common: Vec<Bytes>,
    rates: Option<Rates>,
}

impl Events {
    fn service(&self, name: &str) -> Option<Bytes> {
        let endpoints = self.rates.as_ref()?.endpoints.get(name)?;
        Some(event("service", &json!({ "name": name, "endpoints": endpoints })))
    }
}

/// What was sent last.
#[derive(Default)]
struct Sent {
    overview: Option<Overview>,
    change: Option<u64>,
    reading: u64,
}

impl Sent {
    fn events(&mut self, live: LiveAnswer) -> Events {
        let LiveAnswer { overview, changes, rows, removed, reload, rates } = live;
        let mut events = Events { full_overview: Some(event("overview", &overview)), ..Events::default() };
        let is_first = self.change.replace(changes.newest).is_none();
        if !changes.changes.is_empty() && !is_first {
            events.common.push(changes_event(changes.newest, &changes.changes));
            let change = json!({ "change": changes.newest, "rows": rows, "removed": removed, "reload": reload });
            events.common.push(event("services", &change));
        }
        let is_other = self.overview.replace(overview.clone()).is_none_or(|last| !is_alike(last, &overview));
        events.overview = events.full_overview.clone().filter(|_| is_other);
        if let Some(rates) = rates.filter(|rates| rates.reading != self.reading) {
            self.reading = rates.reading;
            events.common.push(event("rates", &json!({ "seconds": rates.seconds, "services": rates.services })));
            events.rates = Some(rates);
        }
        events
    }
}

/// Time alone is no news.
fn is_alike(last: Overview, now: &Overview) -> bool {
    Overview { now_unix_ms: now.now_unix_ms, ..last } == *now
}

fn changes_event(newest: u64, changes: &[ChangeEntry]) -> Bytes {
    event("changes", &json!({ "newest": newest, "changes": changes }))
}

/// JSON has no line breaks outside of strings, and escapes them inside.
fn event<T: Serialize>(name: &str, data: &T) -> Bytes {
    let data = serde_json::to_string(data).unwrap_or_else(|_| "null".into());
    format!("event: {name}\ndata: {data}\n\n").into()
}

async fn feed(hub: Arc<Hub>) {
    let mut sent = Sent::default();
    let mut clock = tokio::time::interval(LOOK_EVERY);
    clock.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut looks = 0;
    loop {
        clock.tick().await;
        let Some(services) = hub.wanted() else { return };
        let live = hub.look(&sent, services).await;
        let mut events = live.map_or_else(Events::default, |live| sent.events(live));
        if looks % COMMENT_EVERY == 0 {
            events.common.push(Bytes::from_static(b": still here\n\n"));
        }
        looks = looks.wrapping_add(1);
        hub.send(&events);
    }
}
