//! The metrics that kube-proxy has in every mode and in nftables mode, with its names, types, labels and buckets.
//!
//! Dashboards and alerts depend on them. Names that break current conventions are kept.

use std::sync::Arc;

use portolan_model::Family;

use super::descriptor::{Descriptor, Kind};
use super::registry::{Metric, Registry};

const FAMILY: &[&str] = &["ip_family"];

#[derive(Debug)]
pub(crate) struct KubeProxyMetrics {
    pub(crate) sync: Metric,
    pub(crate) full_sync: Metric,
    pub(crate) partial_sync: Metric,
    pub(crate) last_sync: Metric,
    pub(crate) last_queued: Metric,
    pub(crate) network_programming: Metric,
    pub(crate) endpoint_changes_pending: Metric,
    pub(crate) endpoint_changes: Metric,
    pub(crate) service_changes_pending: Metric,
    pub(crate) service_changes: Metric,
    pub(crate) no_local_endpoints: Metric,
    pub(crate) healthz: Metric,
    pub(crate) livez: Metric,
    pub(crate) sync_failures: Metric,
    pub(crate) cleanup_failures: Metric,
    pub(crate) conntrack_sync: Metric,
    pub(crate) conntrack_deleted: Metric,
}

impl KubeProxyMetrics {
    pub(crate) fn register(registry: &mut Registry) -> Self {
        let mut add = |name, kind, labels, help| registry.register(Descriptor { name, kind, labels, help });
        let metrics = Self {
            sync: add(
                "kubeproxy_sync_proxy_rules_duration_seconds",
                sync_buckets(),
                FAMILY,
                "Duration of a sync, from planning to the end of the kernel transaction.",
            ),
            full_sync: add(
                "kubeproxy_sync_full_proxy_rules_duration_seconds",
                sync_buckets(),
                FAMILY,
                "Duration of a full sync, which compares everything with the kernel.",
            ),
            partial_sync: add(
                "kubeproxy_sync_partial_proxy_rules_duration_seconds",
                sync_buckets(),
                FAMILY,
                "Duration of a partial sync, which writes only what changed.",
            ),
            last_sync: add(
                "kubeproxy_sync_proxy_rules_last_timestamp_seconds",
                Kind::Gauge,
                FAMILY,
                "Time of the last successful sync, in seconds since 1970.",
            ),
            last_queued: add(
                "kubeproxy_sync_proxy_rules_last_queued_timestamp_seconds",
                Kind::Gauge,
                FAMILY,
                "Time when a sync was last queued, in seconds since 1970.",
            ),
            network_programming: add(
                "kubeproxy_network_programming_duration_seconds",
                network_programming_buckets(),
                FAMILY,
                "Time from the change of a Pod or Service, according to the EndpointSlice, to the end of the kernel transaction.",
            ),
            endpoint_changes_pending: add(
                "kubeproxy_sync_proxy_rules_endpoint_changes_pending",
                Kind::Gauge,
                &[],
                "Pending changes of EndpointSlices.",
            ),
            endpoint_changes: add(
                "kubeproxy_sync_proxy_rules_endpoint_changes_total",
                Kind::Counter,
                &[],
                "Changes of EndpointSlices.",
            ),
            service_changes_pending: add(
                "kubeproxy_sync_proxy_rules_service_changes_pending",
                Kind::Gauge,
                &[],
                "Pending changes of Services.",
            ),
            service_changes: add(
                "kubeproxy_sync_proxy_rules_service_changes_total",
                Kind::Counter,
                &[],
                "Changes of Services.",
            ),
            no_local_endpoints: add(
                "kubeproxy_sync_proxy_rules_no_local_endpoints_total",
                Kind::Gauge,
                &["ip_family", "traffic_policy"],
                "Service ports whose traffic policy of this kind is Local and that have endpoints, but none on this node.",
            ),
            healthz: add(
                "kubeproxy_proxy_healthz_total",
                Kind::Counter,
                &["code"],
                "Responses of /healthz by HTTP status.",
            ),
            livez: add("kubeproxy_proxy_livez_total", Kind::Counter, &["code"], "Responses of /livez by HTTP status."),
            sync_failures: add(
                "kubeproxy_sync_proxy_rules_nftables_sync_failures_total",
                Kind::Counter,
                FAMILY,
                "Failed syncs.",
            ),
            cleanup_failures: add(
                "kubeproxy_sync_proxy_rules_nftables_cleanup_failures_total",
                Kind::Counter,
                FAMILY,
                "Syncs that left stale chains. Always 0, because removal is part of the same transaction.",
            ),
            conntrack_sync: add(
                "kubeproxy_conntrack_reconciler_sync_duration_seconds",
                sync_buckets(),
                FAMILY,
                "Time to find and delete stale flows.",
            ),
            conntrack_deleted: add(
                "kubeproxy_conntrack_reconciler_deleted_entries_total",
                Kind::Counter,
                FAMILY,
                "Deleted stale flows.",
            ),
        };
        metrics.announce();
        metrics
    }

    /// Series with known labels exist from the start, so that rates over them are complete.
    fn announce(&self) {
        let by_family = [
            &self.sync,
            &self.full_sync,
            &self.partial_sync,
            &self.last_sync,
            &self.last_queued,
            &self.network_programming,
            &self.sync_failures,
            &self.cleanup_failures,
            &self.conntrack_sync,
            &self.conntrack_deleted,
        ];
        for family in Family::BOTH.map(|family| family.to_string()) {
            by_family.iter().for_each(|metric| metric.announce(&[&family]));
            ["internal", "external"].iter().for_each(|policy| self.no_local_endpoints.announce(&[&family, policy]));
        }
        for code in ["200", "503"] {
            self.healthz.announce(&[code]);
            self.livez.announce(&[code]);
        }
    }
}

fn sync_buckets() -> Kind {
    Kind::doubling(0.001, 15)
}

/// 0.25 s, 0.5 s, each second up to a minute, then wider steps up to five minutes.
fn network_programming_buckets() -> Kind {
    let seconds = (1..60).chain((60..120).step_by(5)).chain((120..=300).step_by(30));
    let bounds: Arc<[f64]> = [0.25, 0.5].into_iter().chain(seconds.map(f64::from)).collect();
    Kind::Histogram(bounds)
}
