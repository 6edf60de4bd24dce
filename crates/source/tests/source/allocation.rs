//! Which Service gets which ClusterIP and node port, and that it keeps them.

use std::net::IpAddr;
use std::path::Path;

use portolan_source::{Manifests, Options, Report, State};

use crate::common::{find, good, load, named, options, printed, service, web};

fn addresses(manifests: &Manifests, name: &str) -> Vec<String> {
    service(manifests, name).cluster_ips.iter().map(IpAddr::to_string).collect()
}

fn node_ports(manifests: &Manifests, name: &str) -> Vec<u16> {
    service(manifests, name).ports.iter().filter_map(|port| port.node_port).collect()
}

#[test]
fn a_pick_is_in_the_upper_band_and_always_the_same() {
    let first = addresses(&good(&web(&[])), "web");
    let octets = first[0].parse::<std::net::Ipv4Addr>().unwrap().octets();
    assert!(octets[..2] == [10, 96] && (octets[2] > 1 || octets[2] == 1 && octets[3] > 0), "{first:?}");
    assert_eq!(addresses(&good(&(named("other", &[]) + &web(&[]))), "web"), first);
}

#[test]
fn families_and_policies() {
    for (spec, expected) in [
        (&[][..], "4"),
        (&["ipFamilyPolicy: SingleStack"], "4"),
        (&["ipFamilyPolicy: PreferDualStack"], "46"),
        (&["ipFamilyPolicy: RequireDualStack"], "46"),
        (&["ipFamilies: [IPv6]"], "6"),
        (&["ipFamilies: [IPv6, IPv4]"], "64"),
        (&["ipFamilies: [IPv6]", "ipFamilyPolicy: PreferDualStack"], "64"),
        (&["clusterIP: 'fd00:96::5'"], "6"),
        (&["clusterIPs: ['fd00:96::5', 10.96.0.5]"], "64"),
        (&["clusterIP: 'fd00:96::5'", "ipFamilyPolicy: PreferDualStack"], "64"),
    ] {
        let addresses = addresses(&good(&web(spec)), "web");
        let families: String = addresses.iter().map(|address| if address.contains(':') { '6' } else { '4' }).collect();
        assert_eq!(families, expected, "{spec:?}");
    }
}

#[test]
fn prefer_dual_stack_accepts_one_family() {
    let (manifests, report) = Manifests::from_text(Options::default(), "a", &web(&["ipFamilyPolicy: PreferDualStack"]));
    assert_eq!((addresses(&manifests, "web").len(), report.problems.len()), (1, 0));
}

#[test]
fn an_explicit_address_goes_before_any_pick() {
    let picked = addresses(&good(&web(&[])), "web");
    let manifests = good(&(web(&[]) + &named("zeta", &[&format!("clusterIP: {}", picked[0])])));
    assert_eq!(addresses(&manifests, "zeta"), picked);
    assert_ne!(addresses(&manifests, "web"), picked);
}

#[test]
fn leading_zeros_are_decimal() {
    assert_eq!(addresses(&good(&web(&["clusterIP: 10.096.000.010"])), "web"), ["10.96.0.10"]);
}

#[test]
fn of_two_explicit_requests_the_first_in_file_order_wins() {
    let (manifests, report) = load(&(named("b", &["clusterIP: 10.96.0.9"]) + &named("a", &["clusterIP: 10.96.0.9"])));
    assert_eq!(addresses(&manifests, "b"), ["10.96.0.9"]);
    assert!(find(&manifests, "a").is_none());
    let expected =
        "text.yaml:10: Service default/a: spec.clusterIP: 10.96.0.9 is held by Service default/b (text.yaml:2)\n";
    assert_eq!(printed(&report), expected);
}

#[test]
fn a_refused_request_succeeds_when_the_address_is_released() {
    let refused = named("a", &["clusterIP: 10.96.0.9"]);
    let (mut manifests, _) = load(&(named("b", &["clusterIP: 10.96.0.9"]) + &refused));
    let report = manifests.set_text(&refused);
    assert!(report.problems.is_empty() && report.changed);
    assert_eq!(addresses(&manifests, "a"), ["10.96.0.9"]);
}

#[test]
fn a_held_address_is_not_given_to_a_new_service() {
    let mut manifests = good(&web(&[]));
    let held = addresses(&manifests, "web");
    let report = manifests.set_text(&(named("first", &[&format!("clusterIP: {}", held[0])]) + &web(&[])));
    assert_eq!(addresses(&manifests, "web"), held);
    assert!(printed(&report).contains("is held by Service default/web"), "{}", printed(&report));
}

#[test]
fn a_small_range_fills_up() {
    let options = Options { service_ranges: vec!["10.0.0.0/29".parse().unwrap()], ..options() };
    let text: String = (0..7).map(|number| named(&format!("s{number}"), &[])).collect();
    let (manifests, report) = Manifests::from_text(options, "a", &text);
    assert_eq!(manifests.snapshot().services.len(), 6);
    let expected = "a:44: Service default/s6: spec.clusterIP: there is no free IPv4 address left\n";
    assert_eq!(printed(&report), expected);
}

#[test]
fn node_ports_are_shared_by_number_across_protocols() {
    let ports = "ports: [{name: t, port: 53}, {name: u, port: 53, protocol: UDP}, {name: m, port: 9153}]";
    let manifests = good(&web(&["type: NodePort", ports]));
    let [tcp, udp, metrics] = node_ports(&manifests, "web")[..] else { panic!("three node ports") };
    assert_eq!(tcp, udp);
    assert_ne!(tcp, metrics);
    assert!((30086..=32767).contains(&tcp) && (30086..=32767).contains(&metrics));
}

#[test]
fn an_explicit_node_port_is_shared_too() {
    let ports = "ports: [{name: u, port: 53, protocol: UDP}, {name: t, port: 53, nodePort: 30053}]";
    assert_eq!(node_ports(&good(&web(&["type: NodePort", ports])), "web"), [30053, 30053]);
}

#[test]
fn who_gets_node_ports() {
    let count = |spec: &[&str]| node_ports(&good(&web(spec)), "web").len();
    assert_eq!(count(&["type: ClusterIP"]), 0);
    assert_eq!(count(&["type: NodePort"]), 1);
    assert_eq!(count(&["type: LoadBalancer"]), 1);
    let without = "allocateLoadBalancerNodePorts: false";
    assert_eq!(count(&["type: LoadBalancer", without]), 0);
    assert_eq!(count(&["type: LoadBalancer", without, "ports: [{port: 80, nodePort: 30001}]"]), 1);
}

#[test]
fn a_node_port_that_is_taken_is_refused() {
    let spec = ["type: NodePort", "ports: [{port: 80, nodePort: 30001}]"];
    let (_, report) = load(&(web(&spec) + &named("late", &spec)));
    let expected = "text.yaml:10: Service default/late: spec.ports[0].nodePort: 30001 is held by Service default/web (text.yaml:2)\n";
    assert_eq!(printed(&report), expected);
}

#[test]
fn health_check_ports() {
    let port = |spec: &[&str]| service(&good(&web(spec)), "web").health_check_node_port;
    let local = "externalTrafficPolicy: Local";
    assert!(port(&["type: LoadBalancer", local]).is_some_and(|port| (30086..=32767).contains(&port)));
    assert_eq!(port(&["type: LoadBalancer", local, "healthCheckNodePort: 30002"]), Some(30002));
    assert_eq!(port(&["type: LoadBalancer"]), None);
    assert_eq!(port(&["type: NodePort", local]), None);
}

#[test]
fn a_change_of_type_gives_node_ports_back() {
    let node_port = ["type: NodePort", "ports: [{port: 80, nodePort: 30001}]"];
    let mut manifests = good(&web(&node_port));
    let address = addresses(&manifests, "web");
    manifests.set_text(&web(&[]));
    assert_eq!((node_ports(&manifests, "web"), addresses(&manifests, "web")), (vec![], address));
    assert!(manifests.set_text(&(web(&[]) + &named("other", &node_port))).problems.is_empty());
}

fn on_disk(directory: &Path) -> (Manifests, Report) {
    let options = Options {
        paths: vec![directory.join("manifests")],
        state: State::ReadWrite(directory.join("state")),
        ..options()
    };
    let mut manifests = Manifests::new(options);
    let report = manifests.reload();
    (manifests, report)
}

fn write(directory: &Path, name: &str, text: &str) {
    std::fs::create_dir_all(directory.join("manifests")).unwrap();
    std::fs::write(directory.join("manifests").join(name), text).unwrap();
}

#[test]
fn a_restart_moves_nothing() {
    let directory = tempfile::tempdir().unwrap();
    let directory = directory.path();
    write(directory, "a.yaml", &(web(&["type: NodePort"]) + &named("block", &["clusterIP: 10.96.7.7"])));
    let (manifests, _) = on_disk(directory);
    let before = service(&manifests, "web");
    // A new Service cannot request an address that is held, even if it comes first in file order.
    write(directory, "0.yaml", &named("late", &[&format!("clusterIP: {}", before.cluster_ips[0])]));
    let (manifests, report) = on_disk(directory);
    assert_eq!(service(&manifests, "web"), before);
    assert!(printed(&report).contains("is held by Service default/web"));
}

#[test]
fn what_is_unchanged_is_not_written_again() {
    let directory = tempfile::tempdir().unwrap();
    write(directory.path(), "a.yaml", &web(&[]));
    on_disk(directory.path());
    let file = directory.path().join("state/allocations.json");
    let stamp = || std::fs::metadata(&file).unwrap().modified().unwrap();
    let before = stamp();
    on_disk(directory.path());
    assert_eq!(stamp(), before);
}

#[test]
fn allocations_are_released_with_the_service_but_not_for_a_malformed_one() {
    let directory = tempfile::tempdir().unwrap();
    let directory = directory.path();
    let state = || std::fs::read_to_string(directory.join("state/allocations.json")).unwrap();
    write(directory, "a.yaml", &web(&[]));
    write(directory, "b.yaml", &named("other", &[]));
    on_disk(directory);
    write(directory, "a.yaml", &web(&["type: 7"]));
    on_disk(directory);
    assert!(state().contains("default/web"), "a malformed document may be corrected");
    write(directory, "a.yaml", ":\n:");
    on_disk(directory);
    assert!(state().contains("default/web"), "an unidentified document may define any object");
    write(directory, "a.yaml", "");
    on_disk(directory);
    assert!(!state().contains("default/web") && state().contains("default/other"));
}

#[test]
fn a_corrupt_state_file_is_renamed_and_reported() {
    let directory = tempfile::tempdir().unwrap();
    let directory = directory.path();
    write(directory, "a.yaml", &web(&[]));
    let (manifests, _) = on_disk(directory);
    let before = addresses(&manifests, "web");
    std::fs::write(directory.join("state/allocations.json"), "{\n\"default").unwrap();
    let (manifests, report) = on_disk(directory);
    assert_eq!(addresses(&manifests, "web"), before, "the hash leads to the same address");
    assert!(printed(&report).contains("allocations.json:2: the state file is corrupt"), "{}", printed(&report));
    assert!(directory.join("state/allocations.json.corrupt").exists());
    assert!(on_disk(directory).1.problems.is_empty());
}

#[test]
fn a_read_only_state_is_not_written() {
    let directory = tempfile::tempdir().unwrap();
    write(directory.path(), "a.yaml", &web(&[]));
    let state = State::ReadOnly(directory.path().join("state"));
    let mut manifests = Manifests::new(Options { paths: vec![directory.path().join("manifests")], state, ..options() });
    assert!(manifests.reload().problems.is_empty());
    assert!(!directory.path().join("state").exists());
}
