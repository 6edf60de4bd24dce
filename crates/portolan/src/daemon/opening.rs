//! Opens the parts of the daemon: the mode, the source of facts, and all that observes them.

use std::sync::mpsc::SyncSender;
use std::sync::{Arc, Mutex};
use std::time::Instant;

use anyhow::Context;
use portolan_dataplane::FlowWorker;
use portolan_dataplane::connections::ConnectionWorker;
use portolan_dataplane::peers::Takeover;
use portolan_plan::Plan;

use super::balancing::Balance;
use super::engine::Engine;
use super::events::Event;
use super::facts::Facts;
use super::observers::Observers;
use super::recorder::Recorder;
use super::schedule::Schedule;
use super::top::Top;
use super::{Daemon, runtime, traffic};
use crate::control::Published;
use crate::host;
use crate::node_setup::Outcome;
use crate::page::{self, Live};
use crate::settings::Settings;

impl Daemon {
    pub(super) fn open(
        settings: Settings,
        events: SyncSender<Event>,
        start: Instant,
        is_replacing: bool,
    ) -> anyhow::Result<Self> {
        let runtime = runtime::start()?;
        let engine = Engine::open(&settings.traffic)?;
        let takeover = Takeover::new(engine.mode.owned());
        let facts = Facts::open(&settings.facts, &runtime, &events)?;
        let recorder = Recorder::default();
        let published = Arc::new(Mutex::new(Published {
            plan: None,
            history: recorder.history(),
            settings: settings.clone(),
            listeners: engine.mode.listeners(),
            traffic_reader: engine.traffic_reader(),
            node: facts.node_lookup(),
            page: None,
            watches: facts.watch_states(),
            health: None,
            top: None,
        }));
        let read_traffic = traffic::reader(published.clone(), events.clone());
        let top = Top::new(published.clone(), events.clone());
        let live = Arc::new(Live::new(events.clone()));
        let ask = page::of_daemon(published.clone(), live.clone());
        {
            let mut published = published.lock().expect("no other thread has it yet");
            (published.top, published.page) = (Some(top.answerer()), Some(ask.clone()));
        }
        let rest = move || {
            top.rest();
            live.rest();
        };
        traffic::reclaim(read_traffic.clone(), rest, traffic::RECLAIM_EVERY)?;
        let observers = Observers::open(&settings, &facts, runtime, read_traffic, ask, is_replacing)?;
        published.lock().expect("no thread panics while publishing").health = Some(observers.status.health.clone());
        let flows = FlowWorker::start(observers.note_flows()).context("opening the kernel's connection table")?;
        let connections = ConnectionWorker::start(observers.note_resets())?;
        Ok(Self {
            facts,
            addresses: host::addresses(),
            plan: Plan::default(),
            engine,
            flows,
            connections,
            balance: Balance::new(start, events.clone()),
            takeover,
            observers,
            recorder,
            names: None,
            published,
            events,
            schedule: Schedule::new(Instant::now()),
            start,
            is_ready: false,
            is_kernel_logged: false,
            setup: Outcome::Done,
            watch: None,
            is_watch_started: false,
            confirmation: None,
            loopback_problem: None,
            awaited: None,
            settings,
        })
    }
}
