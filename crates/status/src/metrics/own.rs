//! The metrics that only Portolan has.

use super::descriptor::{Descriptor, Kind};
use super::registry::{Metric, Registry};
use super::relay::{RelayMetrics, SERVICE};

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
    pub(crate) heap: Metric,
    pub(crate) services: Metric,
    pub(crate) service_ports: Metric,
    pub(crate) endpoints: Metric,
    pub(crate) unaccelerated: Metric,
    pub(crate) quarantined: Metric,
    pub(crate) quarantines: Metric,
    pub(crate) connections_reset: Metric,
    pub(crate) imbalance: Metric,
    pub(crate) open_connections: Metric,
    pub(crate) health_check_ports: Metric,
    pub(crate) watch_connected: Metric,
    pub(crate) watch_reconnects: Metric,
    pub(crate) watch_panics: Metric,
    pub(crate) config_reloads: Metric,
    pub(crate) dns_restarts: Metric,
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
            build: add(
                "portolan_build_info",
                Kind::Gauge,
                &["mode", "version"],
                "The version and mode of Portolan; always 1.",
            ),
            ready: add("portolan_ready", Kind::Gauge, &[], "1 after the first sync."),
            change_programming: add(
                "portolan_change_programming_duration_seconds",
                Kind::doubling(0.000_050, 16),
                &[],
                "Time from the arrival of a change to the end of the kernel transaction that contains it.",
            ),
            kernel_transaction: add(
                "portolan_kernel_transaction_duration_seconds",
                Kind::doubling(0.000_010, 18),
                &[],
                "Time that the kernel took for a sync.",
            ),
            objects_written: add(
                "portolan_objects_written_total",
                Kind::Counter,
                &[],
                "Kernel objects added, changed or removed.",
            ),
            objects_repaired: add(
                "portolan_objects_repaired_total",
                Kind::Counter,
                &[],
                "Kernel objects repaired after a foreign change.",
            ),
            last_drift: add(
                "portolan_drift_last_found_timestamp_seconds",
                Kind::Gauge,
                &[],
                "Time when a foreign change was last found, in seconds since 1970; 0 if never.",
            ),
            heap: add(
                "portolan_heap_bytes",
                Kind::Gauge,
                &[],
                "Memory that the program has allocated and not freed; 0 where it is not counted: with musl and on Windows.",
            ),
            services: add("portolan_services", Kind::Gauge, &[], "Services."),
            service_ports: add(
                "portolan_service_ports",
                Kind::Gauge,
                &["ip_family"],
                "Service ports with rules, counted per family.",
            ),
            endpoints: add("portolan_endpoints", Kind::Gauge, &["ip_family"], "Endpoints in all EndpointSlices."),
            unaccelerated: add(
                "portolan_unaccelerated_frontends",
                Kind::Gauge,
                &[],
                "Frontends without room in the maps of the socket hooks, so that the rules serve them.",
            ),
            quarantined: add(
                "portolan_quarantined_endpoints",
                Kind::Gauge,
                &[],
                "Endpoints of Service ports that get no new connections because they do not answer.",
            ),
            quarantines: add(
                "portolan_quarantines_total",
                Kind::Counter,
                &[],
                "Quarantines of endpoints that did not answer.",
            ),
            imbalance: add(
                "portolan_service_imbalance_ratio",
                Kind::Gauge,
                SERVICE,
                "Open TCP connections of the most loaded endpoint, divided by its share; 1 is even.",
            ),
            open_connections: add(
                "portolan_endpoint_open_connections",
                Kind::Gauge,
                ENDPOINT,
                "Open TCP connections through the Service to an endpoint.",
            ),
            connections_reset: add(
                "portolan_connections_reset_total",
                Kind::Counter,
                &["reason"],
                "Open connections that were ended with a reset of both sides.",
            ),
            health_check_ports: add(
                "portolan_health_check_ports",
                Kind::Gauge,
                &["ip_family", "state"],
                "Health check node ports, by whether they could be opened.",
            ),
            watch_connected: add(
                "portolan_watch_connected",
                Kind::Gauge,
                &["resource"],
                "1 while the watch of these objects is connected.",
            ),
            watch_reconnects: add(
                "portolan_watch_reconnects_total",
                Kind::Counter,
                &["resource"],
                "Reconnects of the watch of these objects.",
            ),
            watch_panics: add(
                "portolan_watch_panics_total",
                Kind::Counter,
                &["resource"],
                "Panics of the task that watches these objects; it is started again.",
            ),
            config_reloads: add(
                "portolan_config_reloads_total",
                Kind::Counter,
                &["result"],
                "Reloads of the configuration file.",
            ),
            dns_restarts: add(
                "portolan_dns_process_restarts_total",
                Kind::Counter,
                &[],
                "Restarts of the DNS process.",
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
                "Service ports and endpoints with traffic that share the series \"(others)\".",
            ),
            traffic_pairs: add(
                "portolan_traffic_pairs",
                Kind::Gauge,
                &[],
                "Pairs of a frontend and an endpoint that the kernel counts.",
            ),
            traffic_full: add(
                "portolan_traffic_full",
                Kind::Gauge,
                &[],
                "1 while the counter sets of the kernel are full, so that new pairs are not counted.",
            ),
            traffic_read: add(
                "portolan_traffic_read_timestamp_seconds",
                Kind::Gauge,
                &[],
                "Time when traffic counters were last read from the kernel, in seconds since 1970.",
            ),
            traffic_read_failures: add(
                "portolan_traffic_read_failures_total",
                Kind::Counter,
                &[],
                "Failed reads of the traffic counters; /metrics shows the previous values meanwhile.",
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
            "Packets between clients and a Service port; packets merged by GRO count as one.",
        ),
        bytes: add(
            "portolan_service_bytes_total",
            SERVICE_VOLUME,
            "Bytes between clients and a Service port, including IP headers.",
        ),
    };
    let endpoints = TrafficMetrics {
        connections: add("portolan_endpoint_connections_total", ENDPOINT, "New connections to an endpoint."),
        packets: add(
            "portolan_endpoint_packets_total",
            ENDPOINT_VOLUME,
            "Packets between clients and an endpoint of a Service; packets merged by GRO count as one.",
        ),
        bytes: add(
            "portolan_endpoint_bytes_total",
            ENDPOINT_VOLUME,
            "Bytes between clients and an endpoint of a Service, including IP headers.",
        ),
    };
    (services, endpoints)
}
