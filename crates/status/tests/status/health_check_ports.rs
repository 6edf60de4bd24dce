//! Health-check node ports, from the plan to the response.

use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;

use portolan_model::{
    Family, Node, Protocol, Service, ServiceKind, ServiceName, ServicePort, Slice, SliceEndpoint, SlicePort, Slices,
    Snapshot, TrafficPolicy,
};
use portolan_plan::{AddressSelector, Plan, PlanConfig, plan};
use portolan_status::Synced;

use crate::fixture::Fixture;
use crate::http::{connect, get, request};

/// Services with their health-check port and the number of ready local endpoints.
fn planned(services: &[(&str, u16, u8)], served: AddressSelector) -> Plan {
    let addresses: Box<[IpAddr]> = ["127.0.0.1", "127.0.0.5", "::1"].map(|it| it.parse().unwrap()).into();
    let node = Node { name: "here".into(), interface_addresses: addresses, ..Node::default() };
    let mut snapshot = Snapshot { node: Arc::new(node), ..Snapshot::default() };
    for (index, (name, port, endpoints)) in services.iter().enumerate() {
        let name = ServiceName::new("shop", name);
        snapshot.services.insert(name.clone(), Arc::new(service(name.clone(), index, *port)));
        snapshot.slices.insert(name, Arc::new(Slices([Arc::new(slice(*endpoints))].into())));
    }
    plan(&snapshot, &Plan::default(), &PlanConfig { node_port_addresses: vec![served], ..PlanConfig::default() })
}

fn service(name: ServiceName, index: usize, port: u16) -> Service {
    let cluster_ips = [format!("10.96.0.{}", index + 1), format!("fd00::{}", index + 1)];
    Service {
        kind: ServiceKind::LoadBalancer,
        external_policy: TrafficPolicy::Local,
        cluster_ips: cluster_ips.map(|it| it.parse().unwrap()).into(),
        ports: [ServicePort { name: "".into(), protocol: Protocol::Tcp, port: 80, node_port: None }].into(),
        health_check_node_port: Some(port),
        ..Service::empty(name)
    }
}

fn slice(endpoints: u8) -> Slice {
    let endpoint = |number: u8| SliceEndpoint::on("here", IpAddr::from([10, 244, 0, number]));
    let ports = [SlicePort { name: "".into(), protocol: Protocol::Tcp, port: 8080 }].into();
    Slice {
        name: "s".into(),
        family: Family::V4,
        is_for_names_only: false,
        ports,
        endpoints: (0..endpoints).map(endpoint).collect(),
    }
}

fn everywhere(services: &[(&str, u16, u8)]) -> Plan {
    planned(services, AddressSelector::All)
}

fn socket(text: &str) -> SocketAddr {
    text.parse().unwrap()
}

fn is_open(address: &str) -> bool {
    TcpStream::connect(socket(address)).is_ok()
}

#[test]
fn the_number_of_local_endpoints_is_reported() {
    let it = Fixture::new();
    it.status.synced(&Synced::default());
    assert!(it.status.follow(&everywhere(&[("web", 31_000, 2)])).is_empty());
    let reply = get(socket("127.0.0.5:31000"), "/whatever");
    let body = "{\n\t\"service\": {\n\t\t\"namespace\": \"shop\",\n\t\t\"name\": \"web\"\n\t},\n\
                \t\"localEndpoints\": 2,\n\t\"serviceProxyHealthy\": true\n}";
    assert_eq!((reply.status, reply.body.as_str()), (200, body));
    assert_eq!(reply.header("content-type"), Some("application/json"));
    assert_eq!(reply.header("x-content-type-options"), Some("nosniff"));
    assert_eq!(reply.header("x-load-balancing-endpoint-weight"), Some("2"));
    assert_eq!(request(socket("127.0.0.1:31000"), "POST", "/", "x").status, 200);
}

#[test]
fn each_family_answers_for_itself() {
    let it = Fixture::new();
    it.status.follow(&everywhere(&[("web", 31_000, 2)]));
    let reply = get(socket("[::1]:31000"), "/");
    assert_eq!((reply.status, reply.json()["localEndpoints"].as_u64()), (503, Some(0)));
    assert_eq!(get(socket("127.0.0.1:31000"), "/").status, 200);
}

#[test]
fn an_unhealthy_proxy_fails_the_check_but_a_terminating_node_does_not() {
    let it = Fixture::new();
    it.status.synced(&Synced::default());
    it.status.follow(&everywhere(&[("web", 31_000, 1)]));
    it.status.health.set_node_eligible(false);
    assert_eq!(get(socket("127.0.0.1:31000"), "/").status, 200);
    it.status.sync_queued();
    it.time.pass(61);
    let reply = get(socket("127.0.0.1:31000"), "/");
    assert_eq!((reply.status, reply.json()["serviceProxyHealthy"].as_bool()), (503, Some(false)));
    assert_eq!(reply.header("x-load-balancing-endpoint-weight"), Some("1"));
}

#[test]
fn ports_come_and_go_with_their_services() {
    let it = Fixture::new();
    it.status.follow(&everywhere(&[("web", 31_000, 1), ("api", 31_001, 1)]));
    assert!(is_open("127.0.0.1:31000") && is_open("127.0.0.1:31001"));
    it.status.follow(&everywhere(&[("web", 31_002, 1)]));
    assert!(!is_open("127.0.0.1:31000") && !is_open("127.0.0.1:31001") && is_open("127.0.0.1:31002"));
    it.status.follow(&Plan::default());
    assert!(!is_open("127.0.0.1:31002"));
}

/// A daemon that is replaced may live on for the connections that it carries.
#[test]
fn closed_ports_are_free_for_the_next_daemon() {
    let (before, after) = (Fixture::new(), Fixture::new());
    let plan = everywhere(&[("web", 31_000, 1)]);
    before.status.follow(&plan);
    assert_eq!(after.status.follow(&plan).len(), 2, "one for each family");
    before.status.close();
    assert!(after.status.follow(&plan).is_empty());
    assert!(before.status.metrics_address().is_none() && before.status.healthz_address().is_none());
}

#[test]
fn a_port_that_stays_is_not_opened_again() {
    let it = Fixture::new();
    it.status.follow(&everywhere(&[("web", 31_000, 1)]));
    let mut waiting = connect(socket("127.0.0.1:31000"));
    it.status.follow(&everywhere(&[("web", 31_000, 0)]));
    it.status.follow(&everywhere(&[("new", 31_000, 3)]));
    std::io::Write::write_all(&mut waiting, b"GET / HTTP/1.1\r\nHost: a\r\n\r\n").unwrap();
    let reply = crate::http::parse(&crate::http::read_all(&mut waiting));
    assert_eq!((reply.status, reply.json()["service"]["name"].as_str()), (200, Some("new")));
    assert_eq!(reply.json()["localEndpoints"], 3);
}

#[test]
fn only_the_addresses_of_node_ports_are_used() {
    let it = Fixture::new();
    // Loopback addresses serve no node ports, so that none is opened there.
    let range = AddressSelector::Range("192.0.2.0/24".parse().unwrap());
    let plan = planned(&[("web", 31_000, 1)], range);
    assert!(it.status.follow(&plan).is_empty());
    assert!(!is_open("127.0.0.1:31000") && is_open("[::1]:31000"), "a family without a range is unrestricted");
    it.status.follow(&everywhere(&[("web", 31_000, 1)]));
    assert!(is_open("127.0.0.1:31000"));
}

#[test]
fn the_size_of_the_plan_is_shown() {
    let it = Fixture::new();
    it.status.follow(&everywhere(&[("web", 31_000, 2), ("api", 31_001, 1)]));
    let page = get(it.metrics(), "/metrics").body;
    for line in [
        "portolan_services 2",
        "portolan_service_ports{ip_family=\"IPv4\"} 2",
        "portolan_service_ports{ip_family=\"IPv6\"} 2",
        "portolan_endpoints{ip_family=\"IPv4\"} 3",
        "portolan_endpoints{ip_family=\"IPv6\"} 0",
        "portolan_health_check_ports{ip_family=\"IPv4\",state=\"open\"} 2",
    ] {
        assert!(page.lines().any(|other| other == line), "{line}\n{page}");
    }
}

#[test]
fn services_without_local_endpoints_are_counted_by_policy() {
    let it = Fixture::new();
    let mut facts = everywhere(&[("web", 31_000, 1), ("api", 31_001, 1)]).facts().clone();
    facts.node = Arc::new(Node { name: "elsewhere".into(), ..Node::default() });
    let mut service = (*facts.services[&ServiceName::new("shop", "web")]).clone();
    service.internal_policy = TrafficPolicy::Local;
    service.load_balancer_ips = ["203.0.113.1".parse().unwrap()].into();
    facts.services.insert(service.name.clone(), Arc::new(service));
    it.status.follow(&plan(&facts, &Plan::default(), &PlanConfig::default()));
    let page = get(it.metrics(), "/metrics").body;
    let name = "kubeproxy_sync_proxy_rules_no_local_endpoints_total";
    for (labels, count) in [
        ("IPv4\",traffic_policy=\"internal", 1),
        ("IPv4\",traffic_policy=\"external", 1),
        ("IPv6\",traffic_policy=\"internal", 0),
    ] {
        assert!(page.contains(&format!("{name}{{ip_family=\"{labels}\"}} {count}\n")), "{labels}\n{page}");
    }
}

#[test]
fn a_port_in_use_is_reported_and_retried() {
    let it = Fixture::new();
    let taken = TcpListener::bind("127.0.0.1:31000").unwrap();
    let plan = everywhere(&[("web", 31_000, 1)]);
    let failures = it.status.follow(&plan);
    let errors: Vec<String> = failures.iter().map(ToString::to_string).collect();
    assert_eq!(errors.len(), 1, "{errors:?}");
    assert!(errors[0].starts_with("opening health check port 0.0.0.0:31000 of Service shop/web: "), "{errors:?}");
    let page = get(it.metrics(), "/metrics").body;
    assert!(page.contains("portolan_health_check_ports{ip_family=\"IPv4\",state=\"failed\"} 1\n"));
    assert!(page.contains("portolan_health_check_ports{ip_family=\"IPv6\",state=\"open\"} 1\n"));
    drop(taken);
    assert!(it.status.follow(&plan).is_empty());
    assert_eq!(get(socket("127.0.0.1:31000"), "/").status, 200);
}
