//! The metrics that only Portolan has.

use super::registry::{Descriptor, Kind, Metric, Registry};
use super::relay::RelayMetrics;

pub(super) const SERVICE: &[&str] = &["namespace", "service", "port", "protocol", "ip_family"];
const SERVICE_VOLUME: &[&str] = &["namespace", "service", "port", "protocol", "ip_family", "direction"];
const ENDPOINT: &[&str] = &["namespace", "service", "port", "protocol", "ip_family", "endpoint"];
const ENDPOINT_VOLUME: &[&str] = &["namespace", "service", "port", "protocol", "ip_family", "endpoint", "direction"];

#[derive(Debug)]
pub(crate) struct OwnMetrics {
    pub(crate) build: Metric,
    pub(crate) ready: Metric,
    pub(crate) change_programming: Metric,
    pub(crate) kernel_transaction: Metric,
    pub(crate) objects_written: Metric,
    pub(crate) objects_repaired: Metric,
    pub(crate) last_drift: Metric,
    pub(crate) services: Metric,
    pub(crate) service_ports: Metric,
    pub(crate) endpoints: Metric,
    pub(crate) health_check_ports: Metric,
    pub(crate) watch_connected: Metric,
    pub(crate) watch_reconnects: Metric,
    pub(crate) config_reloads: Metric,
    pub(crate) refused_packets: Metric,
    pub(crate) service_traffic: TrafficMetrics,
    pub(crate) endpoint_traffic: TrafficMetrics,
    pub(crate) folded: Metric,
    pub(crate) traffic_pairs: Metric,
    pub(crate) traffic_full: Metric,
    pub(crate) traffic_read: Metric,
    pub(crate) traffic_read_failures: Metric,
    pub(crate) relay: RelayMetrics,
}

#[derive(Debug)]
pub(crate) struct TrafficMetrics {
    pub(crate) connections: Metric,
    pub(crate) packets: Metric,
    pub(crate) bytes: Metric,
}

impl OwnMetrics {
    pub(crate) fn register(registry: &mut Registry) -> Self {
        let (service_traffic, endpoint_traffic) = register_traffic(registry);
        let relay = RelayMetrics::register(registry);
        let mut add = |name, kind, labels, help| registry.register(Descriptor { name, kind, labels, help });
        let metrics = Self {
            build: add("portolan_build_info", Kind::Gauge, &["mode", "version"], "Which Portolan this is; always 1."),
            ready: add("portolan_ready", Kind::Gauge, &[], "1 once the first sync is in the kernel."),
            change_programming: add(
                "portolan_change_programming_duration_seconds",
                Kind::doubling(0.000_050, 16),
                &[],
                "From the arrival of a change to the end of the kernel's transaction that holds it.",
            ),
            kernel_transaction: add(
                "portolan_kernel_transaction_duration_seconds",
                Kind::doubling(0.000_010, 18),
                &[],
                "Time of a sync that the kernel took.",
            ),
            objects_written: add(
                "portolan_objects_written_total",
                Kind::Counter,
                &[],
                "Kernel objects that were added, changed or removed.",
            ),
            objects_repaired: add(
                "portolan_objects_repaired_total",
                Kind::Counter,
                &[],
                "Kernel objects that somebody else had changed and that were put right.",
            ),
            last_drift: add(
                "portolan_drift_last_found_timestamp_seconds",
                Kind::Gauge,
                &[],
                "When somebody else's change was last found, in seconds since 1970; 0 if never.",
            ),
            services: add("portolan_services", Kind::Gauge, &[], "Services that are known."),
            service_ports: add(
                "portolan_service_ports",
                Kind::Gauge,
                &["ip_family"],
                "Service ports that have rules, a port counting in each of its families.",
            ),
            endpoints: add(
                "portolan_endpoints",
                Kind::Gauge,
                &["ip_family"],
                "Endpoints in all slices that are known.",
            ),
            health_check_ports: add(
                "portolan_health_check_ports",
                Kind::Gauge,
                &["ip_family", "state"],
                "Health-check node ports of Services by whether they could be opened.",
            ),
            watch_connected: add(
                "portolan_watch_connected",
                Kind::Gauge,
                &["resource"],
                "1 while the source of these objects is connected.",
            ),
            watch_reconnects: add(
                "portolan_watch_reconnects_total",
                Kind::Counter,
                &["resource"],
                "How often the source of these objects had to be connected again.",
            ),
            config_reloads: add(
                "portolan_config_reloads_total",
                Kind::Counter,
                &["result"],
                "Configuration files that were read again while running.",
            ),
            refused_packets: add(
                "portolan_refused_packets_total",
                Kind::Counter,
                &["ip_family", "reason"],
                "Packets to Services that were dropped or rejected, by reason.",
            ),
            folded: add(
                "portolan_traffic_folded",
                Kind::Gauge,
                &["kind"],
                "Service ports and endpoints with traffic that have no series of their own but share \"(others)\".",
            ),
            traffic_pairs: add(
                "portolan_traffic_pairs",
                Kind::Gauge,
                &[],
                "Pairs of a frontend and an endpoint whose traffic the kernel counts.",
            ),
            traffic_full: add(
                "portolan_traffic_full",
                Kind::Gauge,
                &[],
                "1 while the kernel has no room to count more pairs, so that new ones go uncounted.",
            ),
            traffic_read: add(
                "portolan_traffic_read_timestamp_seconds",
                Kind::Gauge,
                &[],
                "When traffic was last read from the kernel, in seconds since 1970.",
            ),
            traffic_read_failures: add(
                "portolan_traffic_read_failures_total",
                Kind::Counter,
                &[],
                "How often traffic could not be read from the kernel; the last figures stand meanwhile.",
            ),
            service_traffic,
            endpoint_traffic,
            relay,
        };
        ["success", "failure"].iter().for_each(|result| metrics.config_reloads.announce(&[result]));
        metrics
    }
}

fn register_traffic(registry: &mut Registry) -> (TrafficMetrics, TrafficMetrics) {
    let mut add = |name, labels, help| registry.register(Descriptor { name, kind: Kind::Counter, labels, help });
    let services = TrafficMetrics {
        connections: add("portolan_service_connections_total", SERVICE, "New connections to a Service port."),
        packets: add(
            "portolan_service_packets_total",
            SERVICE_VOLUME,
            "Packets between clients and a Service port; those that arrived as one (GRO) are one.",
        ),
        bytes: add(
            "portolan_service_bytes_total",
            SERVICE_VOLUME,
            "Bytes of whole IP packets between clients and a Service port.",
        ),
    };
    let endpoints = TrafficMetrics {
        connections: add("portolan_endpoint_connections_total", ENDPOINT, "New connections given to an endpoint."),
        packets: add(
            "portolan_endpoint_packets_total",
            ENDPOINT_VOLUME,
            "Packets between clients and an endpoint of a Service; those that arrived as one (GRO) are one.",
        ),
        bytes: add(
            "portolan_endpoint_bytes_total",
            ENDPOINT_VOLUME,
            "Bytes of whole IP packets between clients and an endpoint of a Service.",
        ),
    };
    (services, endpoints)
}
