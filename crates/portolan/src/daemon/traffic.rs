//! What the kernel has counted, for those who ask for metrics.
//!
//! Reading happens beside the run loop. Forgetting is a write to our table, which is the run loop's alone: anybody else's
//! write would look like a disturbance.

use std::collections::HashMap;
use std::sync::mpsc::{SyncSender, sync_channel};
use std::sync::{Arc, Mutex};

use anyhow::{Context, anyhow};
use portolan_dataplane::Error;
use portolan_dataplane::iptables;
use portolan_dataplane::nftables::NftablesKernel;
use portolan_dataplane::traffic::{CountTraffic, Counts, Pair, Traffic, TrafficSample as Sample, Usage};
use portolan_dataplane::userspace::{self, Doors};
use portolan_kernel::accounting::Accounting;
use portolan_kernel::nftables::Count;
use portolan_model::Family;
use portolan_plan::{Plan, PortKey, Reason, Refusal};
use portolan_status::{Counters, ReadTraffic, Relayed, TrafficSample, Volume};

use super::events::Event;
use crate::control::Published;
use crate::flags::Mode;

/// A wish to the run loop, and where it says what came of it.
#[derive(Debug)]
pub(crate) struct Forget {
    pub(crate) pairs: Vec<(Pair, Usage)>,
    pub(crate) done: SyncSender<Result<(), Error>>,
}

struct Counter {
    kernel: NftablesKernel,
    events: SyncSender<Event>,
}

impl CountTraffic for Counter {
    fn read_counts(&mut self) -> Result<Counts, Error> {
        self.kernel.read_counts()
    }

    /// Waits for the run loop, because a pair that is read once more after it was given up would count twice.
    fn forget_counts(&mut self, pairs: &[(Pair, Usage)]) -> Result<(), Error> {
        let (done, answer) = sync_channel(1);
        let sent = self.events.send(Event::Forget(Forget { pairs: pairs.to_vec(), done }));
        // A run loop that has ended answers nobody, and nobody reads counters after it.
        sent.ok().and_then(|()| answer.recv().ok()).unwrap_or(Ok(()))
    }
}

pub(crate) fn reader(published: Arc<Mutex<Published>>, events: SyncSender<Event>) -> anyhow::Result<ReadTraffic> {
    let kernel = NftablesKernel::open().context("opening the kernel's tables to read counters")?;
    let state = Mutex::new((Traffic::new(), Counter { kernel, events }));
    Ok(Arc::new(move || {
        let (plan, mode, doors) = {
            let published = published.lock().map_err(|_| anyhow!("the daemon has failed"))?;
            (published.plan.clone(), published.settings.mode, published.doors.clone())
        };
        // The mode may change while we run.
        match (mode, &plan, doors) {
            (Mode::Nftables, ..) => {}
            (Mode::Userspace, Some(plan), Some(doors)) => return Ok(relayed(&doors, plan)),
            (Mode::Iptables, ..) => return counted_by_rules(),
            _ => return Ok(TrafficSample::default()),
        }
        let mut state = state.lock().map_err(|_| anyhow!("an earlier reading has failed"))?;
        let (traffic, counter) = &mut *state;
        let plan = plan.context("nothing is programmed yet")?;
        Ok(shown(traffic.read(counter, &plan).context("reading the kernel's counters")?))
    }))
}

fn shown(sample: &Sample) -> TrafficSample {
    let services = sample.services.iter().map(|(port, traffic)| (port.clone(), counters(&traffic.total)));
    let endpoints = sample.services.iter().flat_map(|(port, traffic)| {
        traffic.endpoints.iter().map(|(endpoint, usage)| ((port.clone(), *endpoint), counters(usage)))
    });
    let refusals = sample.refusals.iter().map(|((family, refusal), count)| (reason(*refusal), *family, count.packets));
    TrafficSample {
        services: services.collect(),
        endpoints: endpoints.collect(),
        refusals: refusals.collect(),
        pairs: sample.pairs,
        is_full: sample.is_full,
        ..TrafficSample::default()
    }
}

/// In iptables mode the kernel counts what kube-proxy has it count.
fn counted_by_rules() -> anyhow::Result<TrafficSample> {
    let mut accounting = Accounting::open()?;
    let mut packets = |name| accounting.packets(name);
    let (invalid_dropped, loopback_accepted) =
        (packets(iptables::INVALID_DROPPED)?, packets(iptables::LOOPBACK_ACCEPTED)?);
    Ok(TrafficSample { invalid_dropped, loopback_accepted, ..TrafficSample::default() })
}

/// In userspace mode everything passes through this process, which counts bytes and no packets.
fn relayed(doors: &Doors, plan: &Plan) -> TrafficSample {
    let ports: HashMap<(Family, String), &PortKey> =
        plan.services.keys().map(|port| ((port.family, format!("{port}/{}", port.name.protocol)), port)).collect();
    let counters = doors.counters().into_iter().filter_map(|(listener, counted)| {
        let port = ports.get(&(listener.family, listener.port_name().to_owned()))?;
        Some(((*port).clone(), relay_counters(&counted)))
    });
    TrafficSample { services: counters.collect(), carried: doors.active(), ..TrafficSample::default() }
}

fn relay_counters(counted: &userspace::Counters) -> Counters {
    let volume = |bytes| Volume { packets: 0, bytes };
    let userspace::Counters { dial_errors, retries, failed, refused_at_limit: waits, .. } = *counted;
    Counters {
        connections: counted.connections,
        requests: volume(counted.bytes_from_clients),
        replies: volume(counted.bytes_to_clients),
        relayed: Relayed { dial_errors, retries, failed, waits },
    }
}

fn reason(refusal: Refusal) -> Reason {
    match refusal {
        Refusal::Reject(reason) | Refusal::Drop(reason) => reason,
    }
}

fn counters(usage: &Usage) -> Counters {
    let volume = |count: Count| Volume { packets: count.packets, bytes: count.bytes };
    let Usage { connections, requests, replies } = *usage;
    Counters { connections, requests: volume(requests), replies: volume(replies), ..Counters::default() }
}
