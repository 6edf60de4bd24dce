//! Renders the page: stored metrics, and those that are computed on each scrape.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use portolan_model::Family;
use portolan_plan::{FrontendKind, Plan, PortKey, Reason, Refusal, Routes, ServicePlan, Verdict};

use super::Metrics;
use super::own::TrafficMetrics;
use super::process::Process;
use super::registry::{Computed, Metric};
use super::relay::RelayMetrics;
use crate::counters::{Counters, Volume};
use crate::fold::Fold;
use crate::traffic::{Loads, READ_AT_MOST_EVERY, ReadTraffic, Traffic, TrafficLimits};

const OTHERS: &str = "(others)";
/// The policy, and whether it applies to internal traffic.
const POLICIES: [(&str, bool); 2] = [("internal", true), ("external", false)];

/// Updates metrics that are better read than reported, such as whether a connection is up. It runs before each
/// scrape.
pub type BeforeScrape = Arc<dyn Fn(&Metrics) + Send + Sync>;

/// Everything that a scrape needs.
pub(crate) struct Scrape {
    metrics: Arc<Metrics>,
    plan: Arc<Mutex<Plan>>,
    read_traffic: Option<ReadTraffic>,
    traffic: Mutex<TrafficCache>,
    before: Mutex<Option<BeforeScrape>>,
}

struct TrafficCache {
    traffic: Traffic,
    read_at: Option<Duration>,
}

impl Scrape {
    pub(crate) fn new(
        metrics: Arc<Metrics>,
        plan: Arc<Mutex<Plan>>,
        read_traffic: Option<ReadTraffic>,
        limits: TrafficLimits,
    ) -> Self {
        let traffic = Mutex::new(TrafficCache { traffic: Traffic::new(limits), read_at: None });
        Self { metrics, plan, read_traffic, traffic, before: Mutex::default() }
    }

    pub(crate) fn set_before(&self, before: BeforeScrape) {
        *self.before.lock().unwrap_or_else(PoisonError::into_inner) = Some(before);
    }

    /// May take as long as reading the kernel's counters; concurrent scrapes wait for one read.
    pub(crate) fn page(&self) -> String {
        let before = self.before.lock().unwrap_or_else(PoisonError::into_inner).clone();
        before.iter().for_each(|callback| callback(&self.metrics));
        self.count_process();
        let plan = self.plan.lock().expect("the lock is not poisoned").clone();
        self.metrics.count_plan(&plan);
        // If a reader of traffic panics, the previous values are kept, as after an error.
        let mut cache = self.traffic.lock().unwrap_or_else(PoisonError::into_inner);
        self.refresh(&mut cache);
        self.metrics.registry.render(self.metrics.computed(&cache.traffic))
    }

    fn count_process(&self) {
        match Process::read() {
            Ok(process) => self.metrics.generic.set_process(&process),
            Err(error) => tracing::debug!("{error:#}; the process_ metrics are not updated"),
        }
        portolan_kernel::heap_bytes().into_iter().for_each(|bytes| self.metrics.own.heap.set(&[], bytes as f64));
    }

    fn refresh(&self, cache: &mut TrafficCache) {
        let now = self.metrics.clock.now();
        let is_fresh = cache.read_at.is_some_and(|at| now.since_start.saturating_sub(at) < READ_AT_MOST_EVERY);
        let Some(read) = self.read_traffic.as_ref().filter(|_| !is_fresh) else { return };
        cache.read_at = Some(now.since_start);
        match read() {
            Ok(sample) => {
                self.metrics.own.traffic_read.set(&[], now.wall_seconds());
                self.metrics.own.traffic_pairs.set(&[], sample.pairs as f64);
                self.metrics.rules.note_counters(&sample);
                self.metrics.own.relay.carried.set(&[], sample.carried as f64);
                self.metrics.own.traffic_full.set(&[], f64::from(u8::from(sample.is_full)));
                cache.traffic.update(sample);
            }
            Err(error) => {
                tracing::warn!("reading traffic from the kernel: {error:#}; /metrics shows the previous values");
                self.metrics.own.traffic_read_failures.add(&[], 1.0);
            }
        }
        self.count_folded(&cache.traffic);
    }

    fn count_folded(&self, traffic: &Traffic) {
        let folded = &self.metrics.own.folded;
        folded.set(&["service_port"], traffic.services.n_folded() as f64);
        folded.set(&["endpoint"], traffic.endpoints.n_folded() as f64);
    }
}

impl Metrics {
    /// The metrics about the size of the cluster and about this node. The cost follows the size of the cluster, so
    /// that they are computed on each scrape and not on each sync.
    fn count_plan(&self, plan: &Plan) {
        self.own.services.set(&[], plan.facts().services.len() as f64);
        for family in Family::BOTH {
            let ports = plan.services.values().filter(|port| port.key.family == family);
            self.own.service_ports.set(&[&family.to_string()], ports.count() as f64);
            self.own.endpoints.set(&[&family.to_string()], n_endpoints(plan, family) as f64);
        }
        let quarantined: usize = plan.services.values().map(|port| port.quarantined.len()).sum();
        self.own.quarantined.set(&[], quarantined as f64);
        self.count_services_without_local_endpoints(plan);
    }

    fn count_services_without_local_endpoints(&self, plan: &Plan) {
        for (family, (policy, is_internal)) in Family::BOTH.iter().flat_map(|it| POLICIES.map(|policy| (*it, policy))) {
            let ports = plan.services.values().filter(|port| port.key.family == family);
            let count = ports.filter(|port| lacks_local(port, is_internal)).count();
            self.kube_proxy.no_local_endpoints.set(&[&family.to_string(), policy], count as f64);
        }
    }

    fn computed<'a>(&'a self, traffic: &Traffic) -> Vec<Computed<'a>> {
        let refusals = traffic.refusals.iter();
        let refused =
            refusals.map(|(reason, family, packets)| (vec![family.to_string(), reason.to_string()], *packets));
        let mut computed = vec![compute(&self.own.refused_packets, summed(refused))];
        computed.extend(compute_traffic(&self.own.service_traffic, &traffic.services, service_labels, 5));
        computed.extend(compute_relay(&self.own.relay, &traffic.services));
        computed.extend(compute_traffic(&self.own.endpoint_traffic, &traffic.endpoints, endpoint_labels, 6));
        computed.extend(self.computed_loads(&traffic.loads));
        computed
    }
}

impl Metrics {
    fn computed_loads<'a>(&'a self, loads: &Loads) -> [Computed<'a>; 2] {
        let imbalances = loads.imbalances.iter().map(|(port, ratio)| (service_labels(port), *ratio)).collect();
        let mut open: Vec<(Vec<String>, u64)> =
            loads.open.iter().map(|(key, open)| (endpoint_labels(key), u64::from(*open))).collect();
        if loads.others > 0 {
            open.push((vec![OTHERS.to_owned(); 6], loads.others));
        }
        [
            Computed { descriptor: self.own.imbalance.descriptor(), series: imbalances },
            compute(&self.own.open_connections, open),
        ]
    }
}

fn n_endpoints(plan: &Plan, family: Family) -> usize {
    let slices = plan.facts().slices.values().flat_map(|slices| slices.0.iter());
    slices.filter(|slice| slice.family == family).map(|slice| slice.endpoints.len()).sum()
}

/// Whether traffic is refused for lack of local endpoints, under the internal or the external policy.
fn lacks_local(port: &ServicePlan, is_internal: bool) -> bool {
    let by_policy = port.frontends.iter().filter(|it| (it.kind == FrontendKind::ClusterIp) == is_internal);
    let lacks = Verdict::Refuse(Refusal::Drop(Reason::NoLocalEndpoints));
    let refuses = |routes: &Routes| [routes.pod, routes.node, routes.outside].iter().any(|it| it.verdict == lacks);
    by_policy.map(|frontend| &frontend.routes).any(refuses)
}

fn compute(metric: &Metric, series: Vec<(Vec<String>, u64)>) -> Computed<'_> {
    let series = series.into_iter().map(|(labels, count)| (labels, count as f64)).collect();
    Computed { descriptor: metric.descriptor(), series }
}

/// A page must not contain a series twice, whatever the sample contains.
fn summed(series: impl Iterator<Item = (Vec<String>, u64)>) -> Vec<(Vec<String>, u64)> {
    let mut sums = BTreeMap::new();
    series.for_each(|(labels, count)| *sums.entry(labels).or_insert(0) += count);
    sums.into_iter().collect()
}

fn compute_traffic<'a, Key: Ord + Clone>(
    metrics: &'a TrafficMetrics,
    fold: &Fold<Key>,
    labels: fn(&Key) -> Vec<String>,
    n_labels: usize,
) -> [Computed<'a>; 3] {
    let shown = || fold.shown().map(|(key, counters)| (labels(key), counters));
    let others = || fold.others().map(|counters| (vec![OTHERS.to_owned(); n_labels], counters));
    let all = || shown().chain(others());
    // A mode that does not count packets or bytes has no series for them: zero would be wrong.
    let is_counted = |it: &Counters, value: fn(Volume) -> u64| value(it.requests) + value(it.replies) > 0;
    let volumes = |value: fn(Volume) -> u64| {
        let counted = all().filter(|(_, it)| is_counted(it, value));
        counted.flat_map(move |(labels, it)| directed(labels, it, value)).collect()
    };
    [
        compute(&metrics.connections, all().map(|(labels, it)| (labels, it.connections)).collect()),
        compute(&metrics.packets, volumes(|it| it.packets)),
        compute(&metrics.bytes, volumes(|it| it.bytes)),
    ]
}

fn compute_relay<'a>(metrics: &'a RelayMetrics, fold: &Fold<PortKey>) -> impl Iterator<Item = Computed<'a>> {
    metrics.of_services.iter().map(|(metric, value)| {
        let shown = fold.shown().map(|(key, counters)| (service_labels(key), counters));
        let others = fold.others().map(|counters| (vec![OTHERS.to_owned(); 5], counters));
        let counted = shown.chain(others).map(|(labels, counters)| (labels, value(counters.relayed)));
        compute(metric, counted.filter(|(_, count)| *count > 0).collect())
    })
}

fn directed(mut labels: Vec<String>, counters: Counters, value: fn(Volume) -> u64) -> [(Vec<String>, u64); 2] {
    let mut replies = labels.clone();
    labels.push("request".to_owned());
    replies.push("reply".to_owned());
    [(labels, value(counters.requests)), (replies, value(counters.replies))]
}

fn service_labels(key: &PortKey) -> Vec<String> {
    let name = &key.name;
    let service = &name.service;
    vec![
        service.namespace.to_string(),
        service.name.to_string(),
        name.port.to_string(),
        name.protocol.to_string(),
        key.family.to_string(),
    ]
}

fn endpoint_labels((service, endpoint): &(PortKey, SocketAddr)) -> Vec<String> {
    let mut labels = service_labels(service);
    labels.push(endpoint.to_string());
    labels
}
