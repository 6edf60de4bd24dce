//! Every metric of kube-proxy, compared with ours.

use std::collections::BTreeMap;

use portolan_status::{Build, Clock, Descriptor, Kind, Metrics};

/// The metrics of kube-proxy 1.37 in nftables mode and in iptables mode: name, type, labels, number of buckets.
const KUBE_PROXY: &[(&str, &str, &[&str], usize)] = &[
    ("sync_proxy_rules_duration_seconds", "histogram", &["ip_family"], 15),
    ("sync_full_proxy_rules_duration_seconds", "histogram", &["ip_family"], 15),
    ("sync_partial_proxy_rules_duration_seconds", "histogram", &["ip_family"], 15),
    ("sync_proxy_rules_last_timestamp_seconds", "gauge", &["ip_family"], 0),
    ("sync_proxy_rules_last_queued_timestamp_seconds", "gauge", &["ip_family"], 0),
    ("network_programming_duration_seconds", "histogram", &["ip_family"], 80),
    ("sync_proxy_rules_endpoint_changes_pending", "gauge", &[], 0),
    ("sync_proxy_rules_endpoint_changes_total", "counter", &[], 0),
    ("sync_proxy_rules_service_changes_pending", "gauge", &[], 0),
    ("sync_proxy_rules_service_changes_total", "counter", &[], 0),
    ("sync_proxy_rules_no_local_endpoints_total", "gauge", &["ip_family", "traffic_policy"], 0),
    ("proxy_healthz_total", "counter", &["code"], 0),
    ("proxy_livez_total", "counter", &["code"], 0),
    ("sync_proxy_rules_nftables_sync_failures_total", "counter", &["ip_family"], 0),
    ("sync_proxy_rules_nftables_cleanup_failures_total", "counter", &["ip_family"], 0),
    ("conntrack_reconciler_sync_duration_seconds", "histogram", &["ip_family"], 15),
    ("conntrack_reconciler_deleted_entries_total", "counter", &["ip_family"], 0),
    ("sync_proxy_rules_iptables_total", "gauge", &["ip_family", "table"], 0),
    ("sync_proxy_rules_iptables_last", "gauge", &["ip_family", "table"], 0),
    ("sync_proxy_rules_iptables_restore_failures_total", "counter", &["ip_family"], 0),
    ("sync_proxy_rules_iptables_partial_restore_failures_total", "counter", &["ip_family"], 0),
    ("iptables_ct_state_invalid_dropped_packets_total", "counter", &[], 0),
    ("iptables_localhost_nodeports_accepted_packets_total", "counter", &[], 0),
    ("sync_proxy_rules_winkernel_lb_create_failures_total", "counter", &["error", "ip_family", "lb_type"], 0),
    ("sync_proxy_rules_winkernel_lb_update_failures_total", "counter", &["error", "ip_family", "lb_type"], 0),
    ("sync_proxy_rules_winkernel_lb_delete_failures_total", "counter", &["error", "ip_family", "lb_type"], 0),
];

/// Metrics of kube-proxy that we do not have, and why.
const NOT_HERE: &[(&str, &str)] = &[
    ("nftables_localhost_nodeport_listeners", "behind an alpha gate that we do not have"),
    ("nftables_localhost_nodeport_listener_creation_failures_total", "behind an alpha gate that we do not have"),
    ("nftables_localhost_nodeport_rejected_packets_total", "behind an alpha gate that we do not have"),
];

/// Metrics of every Kubernetes component.
const GENERIC: &[&str] = &[
    "kubernetes_build_info",
    "kubernetes_feature_enabled",
    "process_cpu_seconds_total",
    "process_max_fds",
    "process_open_fds",
    "process_resident_memory_bytes",
    "process_start_time_seconds",
    "process_virtual_memory_bytes",
    "rest_client_requests_total",
];

pub(crate) fn metrics() -> Metrics {
    Metrics::new(&Build::default(), Clock::real())
}

fn ours(metrics: &Metrics) -> BTreeMap<String, Descriptor> {
    metrics.registry().descriptors().map(|it| (it.name.to_owned(), it.clone())).collect()
}

fn bounds(descriptor: &Descriptor) -> &[f64] {
    match &descriptor.kind {
        Kind::Histogram(bounds) => bounds,
        Kind::Counter | Kind::Gauge => &[],
    }
}

#[test]
fn all_of_kube_proxys_metrics_are_here_with_type_labels_and_buckets() {
    let metrics = metrics();
    let ours = ours(&metrics);
    for (name, kind, labels, buckets) in KUBE_PROXY {
        let found = ours.get(&format!("kubeproxy_{name}")).unwrap_or_else(|| panic!("{name} is missing"));
        let shape = (found.kind.name(), found.labels, bounds(found).len());
        assert_eq!(shape, (*kind, *labels, *buckets), "{name}");
    }
}

#[test]
fn under_kube_proxys_prefix_there_is_nothing_else() {
    let metrics = metrics();
    let (mut extra, mut known) = (Vec::new(), KUBE_PROXY.iter().map(|it| it.0).collect::<Vec<_>>());
    known.sort_unstable();
    for name in ours(&metrics).into_keys() {
        let is_known = match name.strip_prefix("kubeproxy_") {
            Some(name) => known.binary_search(&name).is_ok() && NOT_HERE.iter().all(|(other, _)| *other != name),
            None => name.starts_with("portolan_") || GENERIC.contains(&name.as_str()),
        };
        extra.extend((!is_known).then_some(name));
    }
    assert_eq!(extra, Vec::<String>::new());
    assert!(GENERIC.iter().all(|name| ours(&metrics).contains_key(*name)));
}

#[test]
fn buckets_are_where_kube_proxy_has_them() {
    let metrics = metrics();
    let ours = ours(&metrics);
    let sync = bounds(&ours["kubeproxy_sync_proxy_rules_duration_seconds"]);
    assert_eq!((sync[0], sync[1], sync[14]), (0.001, 0.002, 16.384));
    let network = bounds(&ours["kubeproxy_network_programming_duration_seconds"]);
    assert_eq!(network[..4], [0.25, 0.5, 1.0, 2.0]);
    assert_eq!(network[58..64], [57.0, 58.0, 59.0, 60.0, 65.0, 70.0]);
    assert_eq!(network[72..], [115.0, 120.0, 150.0, 180.0, 210.0, 240.0, 270.0, 300.0][..]);
    let change = bounds(&ours["portolan_change_programming_duration_seconds"]);
    assert!(change[0] <= 0.000_05 && *change.last().unwrap() >= 1.0, "from microseconds to seconds");
}
