//! The whole page `/metrics`.

use std::io::Write;
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};

use portolan_model::{Family, Protocol, ServiceName, ServicePortName};
use portolan_plan::{PortKey, Reason, Refusal};
use portolan_status::{LoadBalancerCall, PortLoad, Synced, TrafficLimits, TrafficSample};

use crate::fixture::Fixture;
use crate::http::get;
use crate::lint;
use crate::traffic::{counted, port};

/// kube-proxy's names that we keep, although they break a convention.
const INHERITED: &[&str] = &[
    "kubeproxy_sync_proxy_rules_iptables_total: only a counter should end in _total",
    "kubeproxy_sync_proxy_rules_no_local_endpoints_total: only a counter should end in _total",
];

/// A page on which every metric has samples, some of them with impossible object names.
fn full() -> (Fixture, String) {
    let hostile = ServiceName::new("a\"b\\", "c\nd{e=\"f\"} 1");
    let name = ServicePortName { service: hostile, port: "}".into(), protocol: Protocol::Sctp };
    let hostile = PortKey { name: Arc::new(name), family: Family::V6 };
    let sample = move || TrafficSample {
        services: vec![(hostile.clone(), counted(5)), (port("web"), counted(3)), (port("api"), counted(2))],
        endpoints: vec![
            ((hostile.clone(), "[fd00::1]:80".parse().unwrap()), counted(5)),
            ((port("web"), "10.0.0.1:80".parse().unwrap()), counted(3)),
        ],
        refusals: Refusal::ALL.map(Refusal::reason).map(|reason: Reason| (reason, Family::V4, 1)).into(),
        invalid_dropped: Some(6),
        loopback_accepted: Some(7),
        loads: vec![PortLoad { port: port("web"), imbalance: 1.5, open: vec![("10.0.0.1:80".parse().unwrap(), 3)] }],
        ..TrafficSample::default()
    };
    let it = Fixture::with(|options| {
        options.read_traffic = Some(Arc::new(move || Ok(sample())));
        options.traffic_limits = TrafficLimits { service_ports: 2, endpoints: 1 };
    });
    record_everything(&it);
    let page = get(it.metrics(), "/metrics").body;
    (it, page)
}

fn record_everything(it: &Fixture) {
    let (status, metrics) = (&it.status, &it.status.metrics);
    let duration = Duration::from_micros(700);
    metrics.changes_received(2, 3);
    status.sync_queued();
    status.sync_failed();
    status.synced(&Synced { is_full: true, duration, kernel_time: duration, objects: 10, repaired: 2 });
    status.synced(&Synced { is_full: false, duration, kernel_time: duration, objects: 1, repaired: 0 });
    metrics.change_programmed(duration);
    metrics.network_programmed(Family::V4, Duration::from_secs(2));
    metrics.flows_forgotten(Family::V4, duration, 4);
    metrics.watch_connected("services", true);
    metrics.watch_reconnected("services");
    metrics.watch_panics("services", 1);
    metrics.config_reloaded(true);
    metrics.connections_reset("endpoint_removed", 1);
    metrics.iptables_rules(Family::V4, "nat", 40, 4);
    metrics.iptables_failures(Family::V4, 2, 1);
    for call in [LoadBalancerCall::Create, LoadBalancerCall::Update, LoadBalancerCall::Delete] {
        metrics.load_balancer_failures(call, Family::V4, "nodePort", "unknown", 2);
    }
    metrics.set_feature("SomeGate", "BETA", true);
    metrics.api_request("200", "GET", "10.0.0.1:6443");
    status.follow(&portolan_plan::Plan::default());
    get(it.healthz(), "/healthz");
}

#[test]
fn the_page_keeps_every_rule_of_the_format() {
    let (it, page) = full();
    let problems: Vec<String> = lint::problems(&page);
    assert_eq!(problems, INHERITED, "{page}");
    get(it.metrics(), "/healthz");
    assert_eq!(lint::problems(&get(it.metrics(), "/metrics/slis").body), Vec::<String>::new());
}

#[test]
fn an_initial_page_keeps_them_too() {
    let it = Fixture::new();
    let page = get(it.metrics(), "/metrics").body;
    // Without iptables mode, one of them has no series.
    assert_eq!(lint::problems(&page), INHERITED[1..]);
    for family in ["IPv4", "IPv6"] {
        let line = format!("kubeproxy_sync_proxy_rules_duration_seconds_count{{ip_family=\"{family}\"}} 0\n");
        assert!(page.contains(&line), "{line}");
    }
}

#[test]
fn every_registered_metric_is_on_the_full_page() {
    let (it, page) = full();
    let missing: Vec<&str> = it
        .status
        .metrics
        .registry()
        .descriptors()
        .map(|it| it.name)
        .filter(|name| !page.contains(&format!("# TYPE {name} ")))
        .collect();
    assert_eq!(missing, Vec::<&str>::new());
}

#[test]
fn recorded_values_are_shown() {
    let (_it, page) = full();
    for line in [
        "kubeproxy_sync_proxy_rules_service_changes_total 2",
        "kubeproxy_sync_proxy_rules_endpoint_changes_total 3",
        "kubeproxy_sync_proxy_rules_endpoint_changes_pending 0",
        "kubeproxy_sync_proxy_rules_last_timestamp_seconds{ip_family=\"IPv6\"} 1793534400.5",
        "kubeproxy_sync_full_proxy_rules_duration_seconds_bucket{ip_family=\"IPv4\",le=\"0.001\"} 1",
        "kubeproxy_sync_proxy_rules_duration_seconds_count{ip_family=\"IPv4\"} 2",
        "kubeproxy_sync_proxy_rules_nftables_sync_failures_total{ip_family=\"IPv4\"} 1",
        "kubeproxy_network_programming_duration_seconds_bucket{ip_family=\"IPv4\",le=\"2\"} 1",
        "kubeproxy_conntrack_reconciler_deleted_entries_total{ip_family=\"IPv4\"} 4",
        "kubeproxy_sync_proxy_rules_winkernel_lb_update_failures_total{error=\"unknown\",ip_family=\"IPv4\",lb_type=\"nodePort\"} 2",
        "portolan_objects_written_total 11",
        "portolan_objects_repaired_total 2",
        "portolan_drift_last_found_timestamp_seconds 1793534400.5",
        "portolan_watch_connected{resource=\"services\"} 1",
        "portolan_watch_reconnects_total{resource=\"services\"} 1",
        "portolan_config_reloads_total{result=\"success\"} 1",
        "portolan_build_info{mode=\"nftables\",version=\"0.1.0\"} 1",
        "portolan_ready 1",
        "kubernetes_feature_enabled{name=\"SomeGate\",stage=\"BETA\"} 1",
        "rest_client_requests_total{code=\"200\",host=\"10.0.0.1:6443\",method=\"GET\"} 1",
    ] {
        assert!(page.lines().any(|other| other == line), "{line}\n{page}");
    }
    assert!(page.contains("git_version=\"v1.37.1\",go_version=\"\",major=\"1\",minor=\"37\""));
}

#[test]
fn a_lost_connection_is_visible_without_an_event() {
    let it = Fixture::new();
    let state = Arc::new(Mutex::new((true, 1)));
    let asked = state.clone();
    it.status.before_scrape(Arc::new(move |metrics| {
        let (is_connected, since) = *asked.lock().unwrap();
        metrics.watch_state("Services", is_connected, SystemTime::UNIX_EPOCH + Duration::from_secs(since));
    }));
    for (now, connected, reconnects) in [((true, 1), 1, 0), ((false, 2), 0, 0), ((true, 3), 1, 1), ((true, 5), 1, 2)] {
        *state.lock().unwrap() = now;
        let page = get(it.metrics(), "/metrics").body;
        assert!(page.contains(&format!("portolan_watch_connected{{resource=\"Services\"}} {connected}\n")), "{now:?}");
        let line = format!("portolan_watch_reconnects_total{{resource=\"Services\"}} {reconnects}\n");
        assert!(page.contains(&line), "{now:?}");
    }
}

#[test]
fn hostile_names_come_back_as_they_were() {
    let (_it, page) = full();
    let lines = page.lines().filter(|line| line.starts_with("portolan_service_connections_total"));
    let samples: Vec<_> = lines.map(|line| lint::parse_sample(line).unwrap()).collect();
    let names: Vec<&str> = samples.iter().map(|(_, labels, _)| labels[1].1.as_str()).collect();
    assert_eq!(names, ["(others)", "c\nd{e=\"f\"} 1", "web"]);
}

/// Prometheus' own check, where it is installed (Debian: prometheus). Our own check runs everywhere.
#[test]
fn promtool_agrees_where_it_is_present() {
    let (_it, page) = full();
    let child = Command::new("promtool")
        .args(["check", "metrics"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn();
    let Ok(mut child) = child else {
        eprintln!("promtool is not installed; our own rules have been checked");
        return;
    };
    child.stdin.take().unwrap().write_all(page.as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    let printed = String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
    let is_inherited =
        |line: &&str| INHERITED.iter().any(|it| it.split(':').next().is_some_and(|name| line.starts_with(name)));
    let others: Vec<&str> = printed.lines().filter(|line| !is_inherited(line)).collect();
    assert_eq!(others, Vec::<&str>::new());
    assert_eq!(printed.lines().count(), INHERITED.len(), "{printed}");
}
