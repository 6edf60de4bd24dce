//! One Service that is balanced by what is observed.

use std::collections::{BTreeMap, HashMap};
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use portolan_model::{Algorithm, Balancing, Observation, Observed, Slices};

use crate::evidence::Memory;
use crate::silence::{Change, Silence};
use crate::{load, warming};

/// What a Service wants to be observed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Wanted {
    slow_start: Duration,
    pub(crate) quarantine: bool,
    pub(crate) load: bool,
    /// Whether a client keeps its endpoint.
    is_sticky: bool,
}

impl Wanted {
    /// `None` if that is nothing.
    pub(crate) fn by(balancing: &Balancing, is_sticky: bool, counts_load: bool) -> Option<Self> {
        let wanted = Self {
            slow_start: balancing.slow_start.unwrap_or_default(),
            quarantine: balancing.quarantine.unwrap_or_default(),
            load: counts_load && balancing.algorithm == Some(Algorithm::LeastConnections),
            is_sticky,
        };
        (!wanted.slow_start.is_zero() || wanted.quarantine || wanted.load).then_some(wanted)
    }

    pub(crate) fn sightings(&self) -> bool {
        self.quarantine || self.load
    }
}

#[derive(Debug)]
pub(crate) struct Tracked {
    pub(crate) wanted: Wanted,
    endpoints: BTreeMap<SocketAddr, Endpoint>,
}

#[derive(Clone, Copy, Debug)]
struct Endpoint {
    /// `None` if it was ready before the Service was tracked.
    ready_since: Option<Duration>,
    silence: Silence,
    room: u16,
}

impl Endpoint {
    fn new(ready_since: Option<Duration>) -> Self {
        Self { ready_since, silence: Silence::default(), room: Observation::WHOLE }
    }
}

impl Tracked {
    /// Its endpoints count as warm: a restart of the daemon does not make them new.
    pub(crate) fn new(wanted: Wanted, slices: &Slices) -> Self {
        let endpoints = ready(slices).map(|address| (address, Endpoint::new(None))).collect();
        Self { wanted, endpoints }
    }

    pub(crate) fn follow(&mut self, wanted: Wanted, slices: &Slices, now: Duration) {
        self.wanted = wanted;
        let mut before = std::mem::take(&mut self.endpoints);
        for address in ready(slices) {
            let known = before.remove(&address);
            self.endpoints.entry(address).or_insert_with(|| known.unwrap_or(Endpoint::new(Some(now))));
        }
    }

    pub(crate) fn addresses(&self) -> impl Iterator<Item = SocketAddr> {
        self.endpoints.keys().copied()
    }

    pub(crate) fn note_load(&mut self, open: &HashMap<SocketAddr, u32>) {
        let of = |address: &SocketAddr| open.get(address).copied().unwrap_or(0);
        let least = self.endpoints.keys().map(of).min().unwrap_or(0);
        for (address, endpoint) in &mut self.endpoints {
            endpoint.room = load::room(of(address), least);
        }
    }

    pub(crate) fn note_silence(
        &mut self,
        memory: &Memory,
        now: Duration,
        is_inside: impl Fn(IpAddr) -> bool,
    ) -> Vec<(SocketAddr, Change)> {
        let mut changes = Vec::new();
        for address in self.addresses().collect::<Vec<_>>() {
            let Some(silence) = self.endpoints.get(&address).map(|endpoint| endpoint.silence) else { continue };
            // A client with session affinity has no other endpoint.
            let vouches =
                |other: &SocketAddr| self.endpoints.contains_key(other) && (*other != address || self.wanted.is_sticky);
            let evidence = memory.about(address, silence.since(), now, vouches, &is_inside);
            let endpoint = self.endpoints.get_mut(&address).filter(|_| self.wanted.quarantine);
            changes.extend(endpoint.and_then(|it| it.silence.note(evidence, now)).map(|change| (address, change)));
        }
        changes
    }

    /// Endpoints that do not answer. One on trial does not count: its connections are evidence.
    pub(crate) fn silent(&self) -> impl Iterator<Item = SocketAddr> {
        let silent = self.endpoints.iter().filter(|(_, endpoint)| endpoint.silence.is_quarantined());
        silent.map(|(address, _)| *address)
    }

    /// Time alone: endpoints that have become warm are like all others.
    pub(crate) fn advance(&mut self, now: Duration) {
        let slow_start = self.wanted.slow_start;
        for endpoint in self.endpoints.values_mut() {
            endpoint.ready_since = endpoint.ready_since.filter(|since| now < *since + slow_start);
        }
    }

    pub(crate) fn observed(&self, now: Duration) -> Observed {
        Observed::new(self.endpoints.iter().map(|(address, endpoint)| (*address, self.observation(endpoint, now))))
    }

    fn observation(&self, endpoint: &Endpoint, now: Duration) -> Observation {
        let Wanted { slow_start, quarantine, load, .. } = self.wanted;
        let ready_for = endpoint.ready_since.map(|since| now.saturating_sub(since));
        let warming = ready_for.map_or(Observation::WHOLE, |time| warming::warmth(time, slow_start));
        let trial = if quarantine { endpoint.silence.warmth(now) } else { Observation::WHOLE };
        Observation {
            warmth: warming.min(trial),
            room: if load { endpoint.room } else { Observation::WHOLE },
            silent: (quarantine && endpoint.silence.is_left_out()).then(|| endpoint.silence.since().as_secs() as u32),
        }
    }

    /// When time alone changes an observation. Quarantines follow the sightings, which are frequent.
    pub(crate) fn next(&self, now: Duration) -> Option<Duration> {
        let new = self.endpoints.values().filter_map(|endpoint| endpoint.ready_since);
        let step = |since| Some(since + warming::next_step(now.saturating_sub(since), self.wanted.slow_start)?);
        new.filter_map(step).min()
    }
}

/// Every address and port of ready endpoints, once.
fn ready(slices: &Slices) -> impl Iterator<Item = SocketAddr> {
    slices.0.iter().filter(|slice| !slice.is_for_names_only).flat_map(|slice| {
        let ready = slice.endpoints.iter().filter(|endpoint| endpoint.conditions.ready);
        ready.flat_map(|endpoint| slice.ports.iter().map(|port| SocketAddr::new(endpoint.address, port.port)))
    })
}
