//! All Services that are balanced by what is observed. The cost of a change follows the Services that change, and the cost of
//! time follows the endpoints that are warming up.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use portolan_model::{Balancing, Observed, OrdMap, ServiceName, Slices, Snapshot, note_changed};

use crate::evidence::Memory;
use crate::sighting::{Sighting, Watch};
use crate::silence::Change;
use crate::tracked::{Tracked, Wanted};

#[derive(Default)]
pub struct Balancer {
    /// The operator's settings, for what a Service leaves out.
    defaults: Balancing,
    /// Whether connections are counted for least connections. Modes that count for themselves do without.
    counts_load: bool,
    facts: Snapshot,
    services: BTreeMap<ServiceName, Tracked>,
    observed: OrdMap<ServiceName, Arc<Observed>>,
    /// When time alone changes what is observed of a Service.
    restless: BTreeMap<ServiceName, Duration>,
    memory: Memory,
    watched: Option<Arc<HashSet<SocketAddr>>>,
}

/// What changed about an endpoint, for logs and Events.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Verdict {
    pub service: ServiceName,
    pub endpoint: SocketAddr,
    /// For how long it gets no new connections; `None` if it is released.
    pub quarantine: Option<Duration>,
}

impl Balancer {
    pub fn follow(&mut self, snapshot: &Snapshot, defaults: &Balancing, counts_load: bool, now: Duration) {
        let mut changed = BTreeSet::new();
        if self.defaults == *defaults && self.counts_load == counts_load {
            note_changed(&self.facts.services, &snapshot.services, &mut changed);
            note_changed(&self.facts.slices, &snapshot.slices, &mut changed);
        } else {
            changed.extend(snapshot.services.keys().chain(self.facts.services.keys()).cloned());
        }
        (self.defaults, self.counts_load, self.facts) = (defaults.clone(), counts_load, snapshot.clone());
        let was_tracking = !self.services.is_empty();
        for name in &changed {
            self.follow_service(name, now);
        }
        if was_tracking || !self.services.is_empty() {
            self.watch();
        }
    }

    fn follow_service(&mut self, name: &ServiceName, now: Duration) {
        let Some(wanted) = self.wanted(name) else {
            self.services.remove(name);
            self.restless.remove(name);
            self.observed.remove(name);
            return;
        };
        let none = Slices::default();
        let slices = self.facts.slices.get(name).map_or(&none, |slices| slices);
        match self.services.get_mut(name) {
            Some(tracked) => tracked.follow(wanted, slices, now),
            None => _ = self.services.insert(name.clone(), Tracked::new(wanted, slices)),
        }
        self.observe(name, now);
    }

    fn wanted(&self, name: &ServiceName) -> Option<Wanted> {
        let service = self.facts.services.get(name)?;
        let is_sticky = service.affinity_seconds.is_some();
        match &service.balancing {
            Some(balancing) => Wanted::by(&balancing.or(&self.defaults), is_sticky, self.counts_load),
            None => Wanted::by(&self.defaults, is_sticky, self.counts_load),
        }
    }

    fn watch(&mut self) {
        let sighted = self.services.values().filter(|tracked| tracked.wanted.sightings());
        let watched: HashSet<SocketAddr> = sighted.flat_map(Tracked::addresses).collect();
        self.memory.retain(|endpoint| watched.contains(endpoint));
        self.watched = (!watched.is_empty()).then(|| Arc::new(watched));
    }

    /// What the next walk of the connection table looks for, if there is anything.
    pub fn watched(&self) -> Option<Watch> {
        let endpoints = self.watched.clone()?;
        let Memory { unserved, answered, .. } = &self.memory;
        Some(Watch { endpoints, unserved: unserved.clone(), answered: answered.clone() })
    }

    /// Endpoints that do not answer.
    pub fn silent(&self) -> HashSet<SocketAddr> {
        let wanted = self.services.values().filter(|tracked| tracked.wanted.quarantine);
        wanted.flat_map(Tracked::silent).collect()
    }

    /// What a walk of the connection table shows. Pods and the node itself are inside.
    pub fn note(&mut self, sighting: Sighting, now: Duration, is_inside: impl Fn(IpAddr) -> bool) -> Vec<Verdict> {
        let open = sighting.open.clone();
        self.memory.note(sighting, now);
        let mut verdicts = Vec::new();
        let mut touched = Vec::new();
        for (name, tracked) in self.services.iter_mut().filter(|(_, tracked)| tracked.wanted.sightings()) {
            tracked.note_load(&open);
            let changes = tracked.note_silence(&self.memory, now, &is_inside);
            verdicts.extend(changes.iter().filter_map(|(endpoint, change)| verdict(name, *endpoint, *change)));
            touched.push(name.clone());
        }
        touched.iter().for_each(|name| self.observe(name, now));
        verdicts
    }

    /// Time alone.
    pub fn advance(&mut self, now: Duration) {
        let due = self.restless.iter().filter(|(_, time)| **time <= now);
        for name in due.map(|(name, _)| name.clone()).collect::<Vec<_>>() {
            self.observe(&name, now);
        }
    }

    /// When [`Balancer::advance`] has something to do.
    pub fn next(&self) -> Option<Duration> {
        self.restless.values().min().copied()
    }

    pub fn observed(&self) -> &OrdMap<ServiceName, Arc<Observed>> {
        &self.observed
    }

    /// What is unchanged keeps its `Arc`, so that the plan does not see a change.
    fn observe(&mut self, name: &ServiceName, now: Duration) {
        let Some(tracked) = self.services.get_mut(name) else { return };
        tracked.advance(now);
        match tracked.next(now) {
            Some(next) => _ = self.restless.insert(name.clone(), next),
            None => _ = self.restless.remove(name),
        }
        let observed = tracked.observed(now);
        if observed.is_empty() {
            self.observed.remove(name);
        } else if self.observed.get(name).is_none_or(|before| **before != observed) {
            self.observed.insert(name.clone(), Arc::new(observed));
        }
    }
}

/// A trial is no news: it ends with one of the other two.
fn verdict(service: &ServiceName, endpoint: SocketAddr, change: Change) -> Option<Verdict> {
    let quarantine = match change {
        Change::Quarantined(time) => Some(time),
        Change::Released => None,
        Change::Trial => return None,
    };
    Some(Verdict { service: service.clone(), endpoint, quarantine })
}
