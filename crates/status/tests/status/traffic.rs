//! Traffic on `/metrics`: read on demand, rate limited, in a bounded number of series.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use portolan_model::{Family, Protocol, ServiceName, ServicePortName};
use portolan_plan::{PortKey, Reason};
use portolan_status::{Counters, PortLoad, ReadTraffic, Relayed, TrafficLimits, TrafficSample, Volume};

use crate::fixture::Fixture;
use crate::http::get;

pub(crate) fn port(service: &str) -> PortKey {
    let service = ServiceName::new("shop", service);
    let name = ServicePortName { service, port: "http".into(), protocol: Protocol::Tcp };
    PortKey { name: Arc::new(name), family: Family::V4 }
}

pub(crate) fn counted(connections: u64) -> Counters {
    let requests = Volume { packets: connections * 10, bytes: connections * 1000 };
    let replies = Volume { packets: connections * 20, bytes: connections * 9000 };
    let relayed =
        Relayed { dial_errors: connections * 4, retries: connections, failed: connections, waits: connections };
    Counters { connections, requests, replies, relayed }
}

fn reader(
    sample: impl Fn(u64) -> anyhow::Result<TrafficSample> + Send + Sync + 'static,
) -> (ReadTraffic, Arc<AtomicU64>) {
    let reads = Arc::new(AtomicU64::new(0));
    let counter = reads.clone();
    (Arc::new(move || sample(counter.fetch_add(1, Ordering::SeqCst) + 1)), reads)
}

fn lines(it: &Fixture, start: &str) -> Vec<String> {
    let page = get(it.metrics(), "/metrics").body;
    page.lines().filter(|line| line.starts_with(start)).map(str::to_owned).collect()
}

#[test]
fn traffic_is_read_at_most_every_few_seconds() {
    let (read, reads) =
        reader(|time| Ok(TrafficSample { services: vec![(port("web"), counted(time))], ..TrafficSample::default() }));
    let it = Fixture::with(|options| options.read_traffic = Some(read));
    let labels = "namespace=\"shop\",service=\"web\",port=\"http\",protocol=\"tcp\",ip_family=\"IPv4\"";
    for _ in 0..3 {
        let found: Vec<String> = lines(&it, "portolan_service_").into_iter().filter(|it| it.contains(labels)).collect();
        let expected = [
            format!("portolan_service_bytes_total{{{labels},direction=\"reply\"}} 9000"),
            format!("portolan_service_bytes_total{{{labels},direction=\"request\"}} 1000"),
            format!("portolan_service_connections_total{{{labels}}} 1"),
            format!("portolan_service_packets_total{{{labels},direction=\"reply\"}} 20"),
            format!("portolan_service_packets_total{{{labels},direction=\"request\"}} 10"),
        ];
        assert_eq!(found, expected);
    }
    it.time.pass(5);
    assert_eq!(
        lines(&it, "portolan_service_connections_total"),
        [format!("portolan_service_connections_total{{{labels}}} 2")]
    );
    assert_eq!(reads.load(Ordering::SeqCst), 2);
}

#[test]
fn endpoints_and_refusals_are_shown() {
    let (read, _) = reader(|_| {
        let endpoints = vec![((port("web"), "10.244.0.5:8080".parse()?), counted(4))];
        let refusals = vec![
            (Reason::NoEndpoints, Family::V4, 3),
            (Reason::NoEndpoints, Family::V4, 4),
            (Reason::SourceNotAllowed, Family::V6, 1),
        ];
        Ok(TrafficSample { endpoints, refusals, pairs: 17, is_full: true, ..TrafficSample::default() })
    });
    let it = Fixture::with(|options| options.read_traffic = Some(read));
    let labels = "namespace=\"shop\",service=\"web\",port=\"http\",protocol=\"tcp\",ip_family=\"IPv4\"";
    let endpoint = |direction, count| {
        let labels = format!("{labels},endpoint=\"10.244.0.5:8080\",direction=\"{direction}\"");
        format!("portolan_endpoint_packets_total{{{labels}}} {count}")
    };
    assert_eq!(lines(&it, "portolan_endpoint_packets"), [endpoint("reply", 80), endpoint("request", 40)]);
    assert_eq!(lines(&it, "portolan_traffic_pairs"), ["portolan_traffic_pairs 17"]);
    assert_eq!(lines(&it, "portolan_traffic_full"), ["portolan_traffic_full 1"]);
    let refused = [
        "portolan_refused_packets_total{ip_family=\"IPv4\",reason=\"no-endpoints\"} 7",
        "portolan_refused_packets_total{ip_family=\"IPv6\",reason=\"source-not-allowed\"} 1",
    ];
    assert_eq!(lines(&it, "portolan_refused"), refused);
}

#[test]
fn a_cluster_of_any_size_has_a_bounded_number_of_series() {
    let (read, _) = reader(|_| {
        let name = |number: u64| port(&format!("service-{number:05}"));
        let services = (0..10_000).map(|number| (name(number), counted(number))).collect();
        let endpoint = |number: u64| ((name(number), "10.244.0.5:8080".parse().unwrap()), counted(number));
        Ok(TrafficSample { services, endpoints: (0..10_000).map(endpoint).collect(), ..TrafficSample::default() })
    });
    let it = Fixture::with(|options| {
        options.read_traffic = Some(read);
        options.traffic_limits = TrafficLimits { service_ports: 100, endpoints: 50 };
    });
    let services = lines(&it, "portolan_service_connections_total{");
    assert_eq!(services.len(), 101);
    let others = "portolan_service_connections_total{namespace=\"(others)\",service=\"(others)\",port=\"(others)\",\
                  protocol=\"(others)\",ip_family=\"(others)\"} ";
    let sum: u64 = (0..9_900).sum();
    assert_eq!(services[0], format!("{others}{sum}"), "the least busy share a series");
    assert_eq!(lines(&it, "portolan_endpoint_bytes_total{").len(), 102);
    let folded =
        ["portolan_traffic_folded{kind=\"endpoint\"} 9949", "portolan_traffic_folded{kind=\"service_port\"} 9899"];
    assert_eq!(lines(&it, "portolan_traffic_folded"), folded, "one is idle and counts nowhere");
}

#[test]
fn after_a_failed_read_the_last_values_are_served() {
    let (read, _) = reader(|time| match time {
        1 => Ok(TrafficSample { services: vec![(port("web"), counted(7))], ..TrafficSample::default() }),
        _ => anyhow::bail!("the kernel does not answer"),
    });
    let it = Fixture::with(|options| options.read_traffic = Some(read));
    let first = lines(&it, "portolan_service_");
    it.time.pass(10);
    assert_eq!(lines(&it, "portolan_service_"), first);
    assert_eq!(lines(&it, "portolan_traffic_read_failures_total"), ["portolan_traffic_read_failures_total 1"]);
}

#[test]
fn a_reader_that_panics_affects_one_page_only() {
    let (read, _) = reader(|time| match time {
        1 => panic!("a bug in the reader"),
        _ => Ok(TrafficSample { services: vec![(port("web"), counted(7))], ..TrafficSample::default() }),
    });
    let it = Fixture::with(|options| options.read_traffic = Some(read));
    assert_eq!(get(it.metrics(), "/metrics").status, 500);
    it.time.pass(10);
    assert_eq!(lines(&it, "portolan_service_packets_total").len(), 2);
}

#[test]
fn a_slow_reader_does_not_delay_other_pages() {
    let gate = Arc::new(Mutex::new(()));
    let closed = gate.lock().unwrap();
    let (waits, reads) = (gate.clone(), Arc::new(AtomicU64::new(0)));
    let begun = reads.clone();
    let read: ReadTraffic = Arc::new(move || {
        begun.fetch_add(1, Ordering::SeqCst);
        drop(waits.lock());
        Ok(TrafficSample::default())
    });
    let it = Fixture::with(|options| options.read_traffic = Some(read));
    let address = it.metrics();
    let scrapes: Vec<_> = (0..3).map(|_| std::thread::spawn(move || get(address, "/metrics").status)).collect();
    crate::poll::until("a scrape reads traffic", || reads.load(Ordering::SeqCst) == 1);
    assert_eq!(get(address, "/healthz").status, 200);
    drop(closed);
    assert!(scrapes.into_iter().all(|scrape| scrape.join().unwrap() == 200));
    assert_eq!(reads.load(Ordering::SeqCst), 1, "concurrent scrapes share one read");
}

/// The busiest Service ports and endpoints have series, and the rest of the connections share one.
#[test]
fn loads_are_shown_for_a_bounded_number_of_endpoints() {
    let (read, _) = reader(|_| {
        let address = |last: u8| SocketAddr::from(([10, 0, 0, last], 80));
        let load = |name: &str, imbalance, open| PortLoad { port: port(name), imbalance, open };
        let loads = vec![
            load("idle", 1.0, vec![(address(1), 1)]),
            load("busy", 1.75, vec![(address(2), 70), (address(3), 10)]),
        ];
        Ok(TrafficSample { loads, ..TrafficSample::default() })
    });
    let it = Fixture::with(|options| {
        options.read_traffic = Some(read);
        options.traffic_limits = TrafficLimits { service_ports: 1, endpoints: 1 };
    });
    let labels = "namespace=\"shop\",service=\"busy\",port=\"http\",protocol=\"tcp\",ip_family=\"IPv4\"";
    let imbalance = format!("portolan_service_imbalance_ratio{{{labels}}} 1.75");
    assert_eq!(lines(&it, "portolan_service_imbalance_ratio"), [imbalance]);
    let mut open = lines(&it, "portolan_endpoint_open_connections");
    open.sort_by_key(|line| line.contains("(others)"));
    assert_eq!(open[0], format!("portolan_endpoint_open_connections{{{labels},endpoint=\"10.0.0.2:80\"}} 70"));
    assert!(open.len() == 2 && open[1].contains("endpoint=\"(others)\"") && open[1].ends_with(" 11"), "{open:?}");
}

/// iptables rules see the first packet of a connection, and a relay sees no packets at all.
#[test]
fn what_a_mode_does_not_count_has_no_series() {
    let (read, _) = reader(|_| {
        let connections = Counters { connections: 7, ..Counters::default() };
        Ok(TrafficSample { services: vec![(port("web"), connections)], ..TrafficSample::default() })
    });
    let it = Fixture::with(|options| options.read_traffic = Some(read));
    let found = lines(&it, "portolan_service_");
    assert!(found.iter().any(|line| line.starts_with("portolan_service_connections_total") && line.ends_with(" 7")));
    assert!(!found.iter().any(|line| line.contains("_packets_total{") || line.contains("_bytes_total{")), "{found:?}");
}
