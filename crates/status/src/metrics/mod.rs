//! The metrics, and the methods by which the rest of the program updates them.

mod descriptor;
mod generic;
mod kube_proxy;
mod load_balancers;
mod own;
pub(crate) mod process;
mod registry;
mod relay;
mod rules;
mod scrape;
mod text;

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::time::{Duration, SystemTime};

use portolan_model::Family;

use crate::clock::Clock;
use generic::GenericMetrics;
use kube_proxy::KubeProxyMetrics;
use load_balancers::LoadBalancerMetrics;
use own::OwnMetrics;
use rules::RuleMetrics;

pub use descriptor::{Descriptor, Kind};
pub use load_balancers::LoadBalancerCall;
pub use registry::Registry;
pub use scrape::BeforeScrape;
pub(crate) use scrape::Scrape;
pub(crate) use text::CONTENT_TYPE;

/// The version of this program.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Build {
    /// Portolan's own version.
    pub version: String,
    /// The Kubernetes version of the kube-proxy that this replaces, such as `v1.37.1`.
    pub kubernetes_version: String,
    /// The proxy mode.
    pub mode: String,
}

/// One completed sync of both families.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Synced {
    /// A full sync: everything was compared with the kernel, not only what changed.
    pub is_full: bool,
    pub duration: Duration,
    pub kernel_time: Duration,
    /// Kernel objects added, changed or removed.
    pub objects: usize,
    /// Those among them that repaired drift: a foreign process had changed them.
    pub repaired: usize,
}

/// All metrics. Every method may be called from any thread.
pub struct Metrics {
    registry: Registry,
    /// The page `/metrics/slis`.
    slis: Registry,
    slis_check: registry::Metric,
    slis_checks: registry::Metric,
    clock: Clock,
    kube_proxy: KubeProxyMetrics,
    rules: RuleMetrics,
    load_balancers: LoadBalancerMetrics,
    own: OwnMetrics,
    generic: GenericMetrics,
    /// When each watch was connected, as of the last scrape.
    connections: Mutex<BTreeMap<String, SystemTime>>,
}

impl Metrics {
    pub fn new(build: &Build, clock: Clock) -> Self {
        let mut registry = Registry::default();
        let kube_proxy = KubeProxyMetrics::register(&mut registry);
        let rules = RuleMetrics::register(&mut registry);
        let load_balancers = LoadBalancerMetrics::register(&mut registry);
        let own = OwnMetrics::register(&mut registry);
        let generic = GenericMetrics::register(&mut registry);
        let mut slis = Registry::default();
        let (slis_check, slis_checks) = register_slis(&mut slis);
        let connections = Mutex::default();
        let metrics = Self {
            registry,
            slis,
            slis_check,
            slis_checks,
            clock,
            kube_proxy,
            rules,
            load_balancers,
            own,
            generic,
            connections,
        };
        metrics.set_build(build);
        metrics
    }

    /// Everything on `/metrics`.
    pub fn registry(&self) -> &Registry {
        &self.registry
    }

    pub fn set_build(&self, build: &Build) {
        let version = build.kubernetes_version.trim_start_matches('v');
        let mut numbers = version.split('.');
        let (major, minor) = (numbers.next().unwrap_or_default(), numbers.next().unwrap_or_default());
        let platform = format!("{}/{}", std::env::consts::OS, go_architecture());
        self.generic.build.clear();
        let labels = ["", "rustc", "", "", &build.kubernetes_version, "", major, minor, &platform];
        self.generic.build.set(&labels, 1.0);
        self.own.build.clear();
        self.own.build.set(&[&build.mode, &build.version], 1.0);
    }

    /// Changes arrived and are pending.
    pub fn changes_received(&self, services: usize, endpoints: usize) {
        let metrics = &self.kube_proxy;
        metrics.service_changes.add(&[], services as f64);
        metrics.service_changes_pending.add(&[], services as f64);
        metrics.endpoint_changes.add(&[], endpoints as f64);
        metrics.endpoint_changes_pending.add(&[], endpoints as f64);
    }

    pub(crate) fn sync_queued(&self) {
        let now = self.clock.now().wall_seconds();
        each_family(|family| self.kube_proxy.last_queued.set(&[family], now));
    }

    pub(crate) fn synced(&self, synced: &Synced) {
        let now = self.clock.now().wall_seconds();
        let seconds = synced.duration.as_secs_f64();
        let metrics = &self.kube_proxy;
        let by_kind = if synced.is_full { &metrics.full_sync } else { &metrics.partial_sync };
        each_family(|family| {
            metrics.sync.observe(&[family], seconds);
            by_kind.observe(&[family], seconds);
            metrics.last_sync.set(&[family], now);
        });
        metrics.service_changes_pending.set(&[], 0.0);
        metrics.endpoint_changes_pending.set(&[], 0.0);
        self.written(synced, now);
    }

    fn written(&self, synced: &Synced, now: f64) {
        self.own.ready.set(&[], 1.0);
        self.own.kernel_transaction.observe(&[], synced.kernel_time.as_secs_f64());
        self.own.objects_written.add(&[], synced.objects as f64);
        self.own.objects_repaired.add(&[], synced.repaired as f64);
        if synced.repaired > 0 {
            self.own.last_drift.set(&[], now);
        }
    }

    /// The number of rules in a table, and the number that the last change wrote.
    pub fn iptables_rules(&self, family: Family, table: &str, rules: usize, written: usize) {
        self.rules.set_rules(family, table, rules, written);
    }

    /// The number of refused changes since the start.
    pub fn iptables_failures(&self, family: Family, whole: u64, partial: u64) {
        self.rules.set_failures(family, whole, partial);
    }

    /// How often calls for load balancers of one kind failed since the start, with the same class of error.
    pub fn load_balancer_failures(&self, call: LoadBalancerCall, family: Family, kind: &str, error: &str, count: u64) {
        self.load_balancers.set(call, family, kind, error, count);
    }

    /// The number of frontends that have no room in a map of the kernel, after a sync.
    pub fn unaccelerated_frontends(&self, count: usize) {
        self.own.unaccelerated.set(&[], count as f64);
    }

    /// Open connections were ended with a reset of both sides.
    pub fn connections_reset(&self, reason: &str, count: usize) {
        self.own.connections_reset.add(&[reason], count as f64);
    }

    /// An endpoint does not answer.
    pub fn endpoint_quarantined(&self) {
        self.own.quarantines.add(&[], 1.0);
    }

    pub(crate) fn sync_failed(&self) {
        each_family(|family| self.kube_proxy.sync_failures.add(&[family], 1.0));
    }

    /// The time of a change from its arrival to the end of the kernel transaction.
    pub fn change_programmed(&self, duration: Duration) {
        self.own.change_programming.observe(&[], duration.as_secs_f64());
    }

    /// The time of a change from the trigger time of its EndpointSlice.
    pub fn network_programmed(&self, family: Family, duration: Duration) {
        self.kube_proxy.network_programming.observe(&[&family.to_string()], duration.as_secs_f64());
    }

    /// Stale flows were looked up, and this number was deleted.
    pub fn flows_forgotten(&self, family: Family, duration: Duration, forgotten: usize) {
        let family = family.to_string();
        self.kube_proxy.conntrack_sync.observe(&[&family], duration.as_secs_f64());
        self.kube_proxy.conntrack_deleted.add(&[&family], forgotten as f64);
    }

    /// The watch of these objects (`services`, `endpointslices`, ...) is connected or disconnected.
    pub fn watch_connected(&self, resource: &str, is_connected: bool) {
        self.own.watch_connected.set(&[resource], f64::from(u8::from(is_connected)));
        self.own.watch_reconnects.announce(&[resource]);
    }

    /// The same from the state of a watch: whether it is connected, and since when. A connection that is younger than
    /// at the last scrape means a reconnect in between, however short.
    pub fn watch_state(&self, resource: &str, is_connected: bool, since: SystemTime) {
        self.watch_connected(resource, is_connected);
        let mut connections = self.connections.lock().expect("the lock is not poisoned");
        let before = is_connected.then(|| connections.insert(resource.to_owned(), since)).flatten();
        if before.is_some_and(|before| before != since) {
            self.watch_reconnected(resource);
        }
    }

    /// How often the task of the watch has panicked.
    pub fn watch_panics(&self, resource: &str, panics: u64) {
        self.own.watch_panics.set(&[resource], panics as f64);
    }

    pub fn watch_reconnected(&self, resource: &str) {
        self.own.watch_reconnects.add(&[resource], 1.0);
    }

    /// The DNS process has ended and is started again.
    pub fn dns_restarted(&self) {
        self.own.dns_restarts.add(&[], 1.0);
    }

    pub fn config_reloaded(&self, is_ok: bool) {
        self.own.config_reloads.add(&[if is_ok { "success" } else { "failure" }], 1.0);
    }

    /// A feature gate with its stage in the spelling of Kubernetes: `ALPHA`, `BETA`, `DEPRECATED`, or empty.
    pub fn set_feature(&self, name: &str, stage: &str, is_on: bool) {
        self.generic.feature.set(&[name, stage], f64::from(u8::from(is_on)));
    }

    /// A request to the API server was answered; the code is `<error>` if there was no response.
    pub fn api_request(&self, code: &str, method: &str, host: &str) {
        self.generic.api_requests.add(&[code, host, method], 1.0);
    }

    pub(crate) fn healthz_answered(&self, code: &str) {
        self.kube_proxy.healthz.add(&[code], 1.0);
    }

    pub(crate) fn livez_answered(&self, code: &str) {
        self.kube_proxy.livez.add(&[code], 1.0);
    }

    /// The number of open health check ports of a family, and of those that could not be opened.
    pub(crate) fn health_check_ports(&self, family: Family, open: usize, failed: usize) {
        let family = family.to_string();
        self.own.health_check_ports.set(&[&family, "open"], open as f64);
        self.own.health_check_ports.set(&[&family, "failed"], failed as f64);
    }

    /// The plain `/healthz` of the metrics server was requested.
    pub(crate) fn pinged(&self) {
        self.slis_check.set(&["ping", "healthz"], 1.0);
        self.slis_checks.add(&["ping", "success", "healthz"], 1.0);
    }

    pub(crate) fn slis_page(&self) -> String {
        self.slis.render(Vec::new())
    }
}

fn register_slis(registry: &mut Registry) -> (registry::Metric, registry::Metric) {
    let check = registry.register(Descriptor {
        name: "kubernetes_healthcheck",
        kind: Kind::Gauge,
        labels: &["name", "type"],
        help: "1 if the last health check succeeded.",
    });
    let checks = registry.register(Descriptor {
        name: "kubernetes_healthchecks_total",
        kind: Kind::Counter,
        labels: &["name", "status", "type"],
        help: "Health checks by result.",
    });
    (check, checks)
}

fn each_family(mut each: impl FnMut(&str)) {
    Family::BOTH.iter().for_each(|family| each(&family.to_string()));
}

/// Kubernetes uses Go's names of architectures.
fn go_architecture() -> &'static str {
    match std::env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        other => other,
    }
}
