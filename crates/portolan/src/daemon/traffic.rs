//! The active mode's counters, for the metrics.
//!
//! They are read beside the run loop. Deleting one is a write to the mode's tables, which only the run loop may do: a
//! write by any other thread would look like a foreign change.

use std::sync::mpsc::{SyncSender, sync_channel};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use anyhow::{Context, anyhow};
use portolan_dataplane::Error;
use portolan_dataplane::traffic::{Pair, ServiceTraffic, TrafficSample as Sample, Usage};
use portolan_kernel::nftables::Count;
use portolan_plan::{Reason, Refusal};
use portolan_status::{Counters, ReadTraffic, Relayed, TrafficSample, Volume};

use super::events::{Event, Forget};
use super::loads::Loads;
use crate::control::Published;

pub(crate) fn reader(published: Arc<Mutex<Published>>, events: SyncSender<Event>) -> ReadTraffic {
    let loads = Mutex::new(Loads::default());
    Arc::new(move || {
        let (plan, reader) = {
            let published = published.lock().map_err(|_| anyhow!("the daemon has failed"))?;
            (published.plan.clone(), published.traffic_reader.clone())
        };
        let plan = plan.context("nothing is programmed yet")?;
        let loads = loads.lock().map_err(|_| anyhow!("an earlier read has failed"))?.read(&plan);
        let Some(reader) = reader else { return Ok(TrafficSample { loads, ..TrafficSample::default() }) };
        let mut reader = reader.lock().map_err(|_| anyhow!("an earlier read has failed"))?;
        let sample =
            reader.read(&plan, &mut |pairs| forget(&events, pairs)).context("reading the kernel's counters")?;
        Ok(TrafficSample { loads, ..shown(sample) })
    })
}

/// Reads the counters, and takes what is wanted of them. `None` where the mode does not count.
pub(crate) fn read_with<T>(
    published: &Mutex<Published>,
    events: &SyncSender<Event>,
    take: impl FnOnce(&Sample) -> T,
) -> anyhow::Result<Option<T>> {
    let (plan, reader) = {
        let published = published.lock().map_err(|_| anyhow!("the daemon has failed"))?;
        (published.plan.clone(), published.traffic_reader.clone())
    };
    let (Some(plan), Some(reader)) = (plan, reader) else { return Ok(None) };
    let mut reader = reader.lock().map_err(|_| anyhow!("an earlier read has failed"))?;
    let sample = reader.read(&plan, &mut |pairs| forget(events, pairs)).context("reading the kernel's counters")?;
    Ok(Some(take(sample)))
}

/// How often counters are read although nothing scrapes them. Two reads in a row find a counter unused.
pub(crate) const RECLAIM_EVERY: Duration = Duration::from_secs(300);

/// Reads the counters now and then, which deletes those that are not needed any more. Otherwise only a scrape would, and
/// without one the kernel's sets would fill up with pairs of earlier endpoints. Then `rest` frees what else is unused.
pub(crate) fn reclaim(read: ReadTraffic, rest: impl Fn() + Send + 'static, every: Duration) -> anyhow::Result<()> {
    let run = move || {
        loop {
            thread::sleep(every);
            rest();
            if let Err(error) = read() {
                tracing::debug!("reclaiming counters: {error:#}; retrying in {every:?}");
            }
        }
    };
    thread::Builder::new().name("counters".into()).spawn(run).context("starting a thread")?;
    Ok(())
}

/// Waits for the run loop: a counter that is read again after its deletion was requested would count twice. A run loop
/// that has ended does not answer, and then no thread reads counters either.
pub(super) fn forget(events: &SyncSender<Event>, pairs: &[(Pair, Usage)]) -> Result<(), Error> {
    let (done, answer) = sync_channel(1);
    let sent = events.send(Event::Forget(Forget { pairs: pairs.to_vec(), done }));
    sent.ok().and_then(|()| answer.recv().ok()).unwrap_or(Ok(()))
}

fn shown(sample: &Sample) -> TrafficSample {
    let services = sample.services.iter().map(|(port, traffic)| (port.clone(), service_counters(traffic)));
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
        invalid_dropped: sample.invalid_dropped,
        loopback_accepted: sample.loopback_accepted,
        carried: sample.carried,
        loads: Vec::new(),
    }
}

fn reason(refusal: Refusal) -> Reason {
    match refusal {
        Refusal::Reject(reason) | Refusal::Drop(reason) => reason,
    }
}

fn service_counters(traffic: &ServiceTraffic) -> Counters {
    let portolan_dataplane::traffic::Relayed { dial_errors, retries, failed, waits } = traffic.relayed;
    Counters { relayed: Relayed { dial_errors, retries, failed, waits }, ..counters(&traffic.total) }
}

fn counters(usage: &Usage) -> Counters {
    let volume = |count: Count| Volume { packets: count.packets, bytes: count.bytes };
    let Usage { connections, requests, replies } = *usage;
    Counters { connections, requests: volume(requests), replies: volume(replies), ..Counters::default() }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::channel;

    use super::*;

    /// Without a scrape, and also after a failed read.
    #[test]
    fn counters_are_read_again_and_again() {
        let (sender, reads) = channel();
        let read: ReadTraffic = Arc::new(move || {
            _ = sender.send(());
            Err(anyhow!("nothing is programmed yet"))
        });
        reclaim(read, || (), Duration::from_millis(1)).unwrap();
        for _ in 0..3 {
            reads.recv_timeout(Duration::from_secs(20)).unwrap();
        }
    }
}
