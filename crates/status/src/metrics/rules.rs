//! The metrics of kube-proxy's iptables mode, under its names. They exist in that mode only; those about rules also
//! exist in the other modes with iptables rules.

use portolan_model::Family;

use super::descriptor::{Descriptor, Kind};
use super::registry::{Metric, Registry};
use crate::traffic::TrafficSample;

#[derive(Debug)]
pub(crate) struct RuleMetrics {
    rules: Metric,
    written: Metric,
    failures: Metric,
    partial_failures: Metric,
    invalid_dropped: Metric,
    loopback_accepted: Metric,
}

impl RuleMetrics {
    pub(crate) fn register(registry: &mut Registry) -> Self {
        let mut add = |name, kind, labels, help| registry.register(Descriptor { name, kind, labels, help });
        let by_table: &[&str] = &["ip_family", "table"];
        Self {
            rules: add(
                "kubeproxy_sync_proxy_rules_iptables_total",
                Kind::Gauge,
                by_table,
                "Rules of Portolan in the iptables tables.",
            ),
            written: add(
                "kubeproxy_sync_proxy_rules_iptables_last",
                Kind::Gauge,
                by_table,
                "Rules written by the last sync.",
            ),
            failures: add(
                "kubeproxy_sync_proxy_rules_iptables_restore_failures_total",
                Kind::Counter,
                &["ip_family"],
                "Full syncs that iptables-restore refused.",
            ),
            partial_failures: add(
                "kubeproxy_sync_proxy_rules_iptables_partial_restore_failures_total",
                Kind::Counter,
                &["ip_family"],
                "Partial syncs that iptables-restore refused.",
            ),
            invalid_dropped: add(
                "kubeproxy_iptables_ct_state_invalid_dropped_packets_total",
                Kind::Counter,
                &[],
                "Packets dropped because their connection tracking state was INVALID.",
            ),
            loopback_accepted: add(
                "kubeproxy_iptables_localhost_nodeports_accepted_packets_total",
                Kind::Counter,
                &[],
                "New connections to node ports on 127.0.0.1.",
            ),
        }
    }

    /// A kernel without these counters has no such series.
    pub(super) fn note_counters(&self, sample: &TrafficSample) {
        let set = |metric: &Metric, count: Option<u64>| count.into_iter().for_each(|it| metric.set(&[], it as f64));
        set(&self.invalid_dropped, sample.invalid_dropped);
        set(&self.loopback_accepted, sample.loopback_accepted);
    }

    pub(super) fn set_rules(&self, family: Family, table: &str, rules: usize, written: usize) {
        let labels = [&*family.to_string(), table];
        self.rules.set(&labels, rules as f64);
        self.written.set(&labels, written as f64);
    }

    pub(super) fn set_failures(&self, family: Family, whole: u64, partial: u64) {
        let labels = [&*family.to_string()];
        self.failures.set(&labels, whole as f64);
        self.partial_failures.set(&labels, partial as f64);
    }
}
