//! `--shadow`: programs nothing, and reports where the plan differs from what kube-proxy has programmed on this node.

use std::sync::mpsc::{Receiver, RecvTimeoutError, sync_channel};
use std::time::{Duration, Instant};

use anyhow::Context;
use portolan_kernel::signal::block_termination_signals;
use portolan_plan::{Plan, plan};
use portolan_shadow::{Report, Shadow, compare, read_peer};

use super::events::{self, Event};
use super::facts::Facts;
use super::{EVENTS, runtime};
use crate::commands;
use crate::exit::{DIFFERENT, SUCCESS};
use crate::flags::OutputFlags;
use crate::host;
use crate::settings::Settings;

/// The two receive a change at different times; an immediate comparison would only show the delay.
const LOOK_EVERY: Duration = Duration::from_secs(5);

pub(super) fn run(settings: &Settings) -> anyhow::Result<u8> {
    let signals = block_termination_signals().context("preparing for SIGTERM and SIGINT")?;
    let (sender, receiver) = sync_channel(EVENTS);
    events::watch_signals(signals, sender.clone())?;
    let runtime = runtime::start()?;
    let mut facts = Facts::open(&settings.facts, &runtime, &sender)?;
    tracing::info!("shadow mode: nothing is programmed");
    match settings.once {
        Some(output) => look_once(settings, &mut facts, &receiver, output),
        None => look_again_and_again(settings, &mut facts, &receiver),
    }
}

fn look_once(
    settings: &Settings,
    facts: &mut Facts,
    events: &Receiver<Event>,
    output: OutputFlags,
) -> anyhow::Result<u8> {
    loop {
        if let Some(plan) = plan_of(settings, facts) {
            let report = Report::from(&compare(&plan, &read_peer()?));
            return commands::show_comparison(&output, &report);
        }
        if let Ok(Event::Stop) | Err(_) = events.recv() {
            return Ok(DIFFERENT);
        }
    }
}

fn look_again_and_again(settings: &Settings, facts: &mut Facts, events: &Receiver<Event>) -> anyhow::Result<u8> {
    let mut shadow = Shadow::default();
    while wait(events, Instant::now() + LOOK_EVERY) {
        let Some(plan) = plan_of(settings, facts) else { continue };
        match shadow.look(&plan) {
            Ok(look) => look.log(),
            Err(error) => tracing::error!("reading what kube-proxy has programmed: {error}"),
        }
        tracing::debug!("{} differences between Portolan and kube-proxy", shadow.count());
    }
    Ok(SUCCESS)
}

fn plan_of(settings: &Settings, facts: &mut Facts) -> Option<Plan> {
    facts.refresh();
    facts.keep();
    let mut snapshot = facts.snapshot()?;
    host::add_addresses(&mut snapshot, &host::addresses(), settings.bind_address);
    Some(plan(&snapshot, &Plan::default(), &settings.traffic.plan))
}

/// Ignores events until the next comparison is due. Returns whether there is one.
fn wait(events: &Receiver<Event>, until: Instant) -> bool {
    loop {
        match events.recv_timeout(until.saturating_duration_since(Instant::now())) {
            Ok(Event::Stop) | Err(RecvTimeoutError::Disconnected) => return false,
            Err(RecvTimeoutError::Timeout) => return true,
            Ok(_) => {}
        }
    }
}
