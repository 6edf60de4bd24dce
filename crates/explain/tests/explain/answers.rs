//! Answers as people read them.

use std::sync::Arc;
use std::time::Duration;

use portolan_dataplane::mode::ModeView;
use portolan_dataplane::{ModeSettings, modes};
use portolan_explain::{Style, difference, explain_packet, services, verify_answer};
use portolan_model::{
    Balancing, Family, Node, Protocol, RemovedConnections, Service, ServiceKind, ServiceName, ServicePort, Slice,
    SliceEndpoint, SlicePort, Slices, Snapshot,
};
use portolan_plan::{DetectLocal, Limits, Packet, Plan, PlanConfig, plan};

/// A load balancer's Service with source ranges and these endpoints, and a headless one.
fn plan_with(endpoints: &[&str]) -> Plan {
    plan_within(Limits::default(), endpoints)
}

fn plan_within(limits: Limits, endpoints: &[&str]) -> Plan {
    plan_by(PlanConfig { limits, ..PlanConfig::default() }, endpoints)
}

fn plan_by(config: PlanConfig, endpoints: &[&str]) -> Plan {
    let mut web = Service::empty(ServiceName::new("default", "web"));
    web.kind = ServiceKind::LoadBalancer;
    web.cluster_ips = ["10.96.0.10".parse().expect("an address")].into();
    web.load_balancer_ips = ["198.51.100.10".parse().expect("an address")].into();
    web.source_ranges = ["203.0.113.0/24".parse().expect("a range")].into();
    web.ports = [ServicePort { name: "http".into(), protocol: Protocol::Tcp, port: 80, node_port: Some(30080) }].into();
    let headless = Service::empty(ServiceName::new("default", "headless"));
    let node = Node { addresses: ["192.168.50.1".parse().expect("an address")].into(), ..Node::default() };
    let mut snapshot = Snapshot { node: Arc::new(node), ..Snapshot::default() };
    snapshot.slices.insert(web.name.clone(), Arc::new(slices(endpoints)));
    snapshot.services.insert(web.name.clone(), Arc::new(web));
    snapshot.services.insert(headless.name.clone(), Arc::new(headless));
    let pods = vec!["10.244.0.0/16".parse().expect("a range")];
    let config = PlanConfig { detect_local: DetectLocal::ClusterRange(pods), ..config };
    plan(&snapshot, &Plan::default(), &config)
}

fn slices(addresses: &[&str]) -> Slices {
    let endpoint = |address: &&str| SliceEndpoint::new(address.parse().expect("an address"));
    let ports = [SlicePort { name: "http".into(), protocol: Protocol::Tcp, port: 8080 }].into();
    let endpoints = addresses.iter().map(endpoint).collect();
    Slices(
        [Arc::new(Slice { name: "web".into(), family: Family::V4, is_for_names_only: false, ports, endpoints })].into(),
    )
}

fn view() -> Box<dyn ModeView> {
    modes::default().view(&ModeSettings::default(), None)
}

fn explained(plan: &Plan, source: &str, destination: &str) -> String {
    answered(plan, &*view(), &packet(source, destination))
}

fn answered(plan: &Plan, view: &dyn ModeView, packet: &Packet) -> String {
    let answer = explain_packet(plan, packet, &view.trace(plan, packet), "the objects");
    assert_eq!(answer.disagreement, None);
    answer.text(Style::PLAIN)
}

/// Advice follows it.
fn outcome(text: &str) -> String {
    text.lines().rfind(|line| !line.starts_with(' ')).unwrap_or("").to_string()
}

fn packet(source: &str, destination: &str) -> Packet {
    let destination: std::net::SocketAddr = destination.parse().expect("an address");
    Packet {
        source: source.parse().expect("an address"),
        interface: None,
        destination: destination.ip(),
        port: destination.port(),
        protocol: Protocol::Tcp,
        is_from_socket: false,
    }
}

#[test]
fn a_forwarded_packet_is_explained_to_its_endpoints() {
    let expected = "\
203.0.113.9 -> 198.51.100.10:80/tcp

decided
  203.0.113.9 is outside                                          neither a detected pod nor an address of the node
  198.51.100.10:80/tcp is a load-balancer IP of default/web:http  status.loadBalancer.ingress
  one of 2 endpoints of the cluster pool                          traffic from outside to this load-balancer IP uses the cluster pool
met in the objects
  map services: 198.51.100.10 . tcp . 80                  0x00001999 . 2 . 0 (default/web:http)
  map ways: 0x00001999 . 2 . 0                            goto sources-snat-cluster-2
  set sources: 198.51.100.10 . tcp . 80 . 203.0.113.0/24  is in the set
  map endpoints: 198.51.100.10 . tcp . 80 . 0             10.244.1.2:8080
forwarded to one of 2 endpoints
  10.244.1.2:8080           50.0 %  sees the node's address (masquerade)
  10.244.2.2:8080           50.0 %  sees the node's address (masquerade)
";
    let plan = plan_with(&["10.244.1.2", "10.244.2.2"]);
    assert_eq!(explained(&plan, "203.0.113.9", "198.51.100.10:80"), expected);
}

#[test]
fn a_refused_packet_is_explained_by_its_reason() {
    let plan = plan_with(&[]);
    let last = |source, destination| outcome(&explained(&plan, source, destination));
    assert_eq!(
        last("192.0.2.1", "198.51.100.10:80"),
        "dropped without an answer: the client's address is in none of spec.loadBalancerSourceRanges"
    );
    assert!(last("10.244.1.2", "10.96.0.10:80").starts_with("refused at once (ICMP port unreachable): no endpoint"));
    assert!(last("10.244.1.2", "10.96.0.10:81").contains("no such port"));
    assert_eq!(last("10.244.1.2", "192.0.2.7:80"), "not touched: no Service has this address and port");
}

/// A hook refuses the system call of a socket, and no packet is sent. Other packets meet the rules.
#[test]
fn a_refusal_at_connect_is_explained_by_the_error_of_the_system_call() {
    let mode = modes::ALL.iter().find(|mode| mode.limits().at_connect).expect("a mode has hooks");
    let (plan, view) = (plan_within(mode.limits(), &[]), mode.view(&ModeSettings::default(), None));
    let last = |packet: &Packet| outcome(&answered(&plan, &*view, packet));
    let packet = packet("10.244.1.2", "10.96.0.10:80");
    assert!(last(&packet).starts_with("refused at once (ICMP port unreachable): no endpoint"), "{}", last(&packet));
    let socket = Packet { is_from_socket: true, ..packet };
    assert!(
        last(&socket).starts_with("refused at once (connect(2) fails with ECONNREFUSED): no endpoint"),
        "{}",
        last(&socket)
    );
    let message = Packet { protocol: Protocol::Udp, port: 81, ..socket };
    assert!(
        last(&message).starts_with("refused at once (sendmsg(2) fails with ECONNREFUSED): the address"),
        "{}",
        last(&message)
    );
}

#[test]
fn services_are_a_table() {
    let expected = "\
SERVICE           PROTOCOL  READY  FRONTENDS                          POLICY   AFFINITY
default/headless  -         -      none: headless                     Cluster  -
default/web:http  tcp       1/1    ClusterIP 10.96.0.10:80            Cluster  -
                                   load-balancer IP 198.51.100.10:80
                                   node port *:30080
";
    assert_eq!(services(&plan_with(&["10.244.1.2"])).text(Style::PLAIN), expected);
}

/// Of a Service, or of the operator for all of them.
#[test]
fn what_happens_to_open_connections_is_shown_where_it_is_not_the_default() {
    let removed_connections = Some(RemovedConnections::Reset(Duration::from_secs(30)));
    let balancing = Balancing { removed_connections, rebalance: "on".parse().ok(), ..Balancing::default() };
    let plan = plan_by(PlanConfig { balancing, ..PlanConfig::default() }, &["10.244.1.2"]);
    let expected = "\
SERVICE           PROTOCOL  READY  FRONTENDS                          POLICY   AFFINITY  OPEN CONNECTIONS
default/headless  -         -      none: headless                     Cluster  -         -
default/web:http  tcp       1/1    ClusterIP 10.96.0.10:80            Cluster  -         removed endpoints: reset-after=30s
                                   load-balancer IP 198.51.100.10:80                     rebalance: idle=60s
                                   node port *:30080
";
    assert_eq!(services(&plan).text(Style::PLAIN), expected);
    let row = serde_json::to_value(&services(&plan).services[1]).expect("it is JSON");
    assert_eq!(row["connections_of_removed_endpoints"], "reset-after=30s");
    assert_eq!(row["rebalance"], "idle=60s");
    let text = explained(&plan, "10.244.1.4", "10.96.0.10:80");
    assert!(text.contains("\n  open connections: removed endpoints: reset-after=30s\n"), "{text}");
    assert!(text.contains("\n  open connections: rebalance: idle=60s\n"), "{text}");
    assert!(!explained(&plan_with(&["10.244.1.2"]), "10.244.1.4", "10.96.0.10:80").contains("open connections"));
}

#[test]
fn a_difference_is_told_as_behaviour_and_as_objects() {
    let (before, after) = (plan_with(&["10.244.1.2"]), plan_with(&[]));
    let text = difference(&before, &after, &view().difference(&before, &after)).text(Style::PLAIN);
    assert!(
        text.contains("    - to 10.244.1.2:8080, masqueraded, except for pods\n    + reject no-endpoints\n"),
        "{text}"
    );
    assert!(text.contains("  - element ip endpoints 10.96.0.10 . tcp . 80 . 0 : 10.244.1.2 . 8080\n"), "{text}");
    assert_eq!(difference(&after, &after, &view().difference(&after, &after)).text(Style::PLAIN), "no difference\n");
}

#[test]
fn what_differs_in_the_kernel_is_named() {
    let (held, wanted) = (plan_with(&["10.244.1.2"]), plan_with(&["10.244.1.3"]));
    let answer = verify_answer("nftables", &view().difference(&held, &wanted));
    let text = answer.text(Style::PLAIN);
    assert!(!answer.agrees());
    let line = "different    element ip endpoints 10.96.0.10 . tcp . 80 . 0: is 10.244.1.2 . 8080, should be 10.244.1.3 . 8080";
    assert!(text.contains(line), "{text}");
}
