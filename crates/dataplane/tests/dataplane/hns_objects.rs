//! The objects of the mode of Windows nodes, with the settings and annotations that scenario files do not have.

use std::net::IpAddr;
use std::sync::Arc;

use portolan_dataplane::kernelspace::{InMemory, Settings};
use portolan_dataplane::mode::{Mode, Synchronize};
use portolan_dataplane::{ModeSettings, OptionValue, Options, Trust, kernelspace};
use portolan_hns::{Habits, Network, NetworkPolicy};
use portolan_model::{
    Family, Protocol, Service, ServiceKind, ServiceName, ServicePort, Slice, SliceEndpoint, SlicePort, Slices,
    Snapshot, TrafficPolicy,
};
use portolan_plan::{Plan, PlanConfig, plan};

use crate::history::{beginning, config};

const MODE: &dyn Mode = &kernelspace::MODE;

fn address(text: &str) -> IpAddr {
    text.parse().expect("an address")
}

fn with_options(options: &[(&str, OptionValue)]) -> ModeSettings {
    let mut given = Options::default();
    options.iter().for_each(|(name, value)| given.set(name, value.clone()));
    ModeSettings { options: given, ..ModeSettings::default() }
}

/// Behind a load balancer, with an endpoint on this node and one on another.
fn service() -> Service {
    let ports = [ServicePort { name: "".into(), protocol: Protocol::Tcp, port: 80, node_port: Some(30_080) }].into();
    Service {
        kind: ServiceKind::LoadBalancer,
        cluster_ips: [address("10.96.0.10")].into(),
        load_balancer_ips: [address("198.51.100.10")].into(),
        external_ips: [address("198.51.100.20")].into(),
        ports,
        ..Service::empty(ServiceName::new("default", "web"))
    }
}

fn planned(service: Service, settings: &ModeSettings) -> Plan {
    let endpoint = |text: &str, node: &str| SliceEndpoint::on(node, address(text));
    let ports = [SlicePort { name: "".into(), protocol: Protocol::Tcp, port: 8080 }].into();
    let endpoints = [endpoint("10.244.0.2", "node-0"), endpoint("10.244.2.2", "elsewhere")].into();
    let slice = Slice { name: "web".into(), family: Family::V4, is_for_names_only: false, ports, endpoints };
    let mut snapshot: Snapshot = beginning();
    snapshot.slices.insert(service.name.clone(), Arc::new(Slices([Arc::new(slice)].into())));
    snapshot.services.insert(service.name.clone(), Arc::new(service));
    plan(&snapshot, &Plan::default(), &PlanConfig { limits: MODE.limits_with(settings), ..config() })
}

fn listing(service: Service, settings: &ModeSettings) -> String {
    MODE.view(settings, None).render(&planned(service, settings)).listing
}

#[test]
fn traffic_to_cluster_ips_keeps_its_source_with_direct_return() {
    let settings = with_options(&[("winkernel.enableDSR", OptionValue::Boolean(true))]);
    let expected = "\
endpoint 10.244.2.2 remote
load balancer *:30080/tcp by connection LocalRoutedVIP VipExternalIP
    to 10.244.0.2:8080
    to 10.244.2.2:8080
load balancer 10.96.0.10:80/tcp by connection DSR
    to 10.244.0.2:8080
    to 10.244.2.2:8080
load balancer 198.51.100.10:80/tcp by connection VipExternalIP
    to 10.244.0.2:8080
    to 10.244.2.2:8080
load balancer 198.51.100.20:80/tcp by connection VipExternalIP
    to 10.244.0.2:8080
    to 10.244.2.2:8080
";
    assert_eq!(listing(service(), &settings), expected);
}

/// The load-balancer IP keeps source and destination, and the node port has the same endpoints. External IPs do not change.
#[test]
fn a_preserved_destination_is_for_what_a_load_balancer_sends() {
    let preserved = Service { preserve_destination: true, ..service() };
    let expected = "\
endpoint 10.244.2.2 remote
load balancer *:30080/tcp by connection LocalRoutedVIP VipExternalIP
    to 10.244.0.2:8080
load balancer 10.96.0.10:80/tcp by connection
    to 10.244.0.2:8080
    to 10.244.2.2:8080
load balancer 198.51.100.10:80/tcp by connection DSR UseMux PreserveDIP VipExternalIP
    to 10.244.0.2:8080
load balancer 198.51.100.20:80/tcp by connection VipExternalIP
    to 10.244.0.2:8080
    to 10.244.2.2:8080
";
    assert_eq!(listing(preserved, &ModeSettings::default()), expected);
}

#[test]
fn health_checks_at_a_load_balancer_ip_reach_the_node() {
    let settings = with_options(&[
        ("winkernel.forwardHealthCheckVip", OptionValue::Boolean(true)),
        ("winkernel.rootHnsEndpointName", OptionValue::Text("root".into())),
        ("healthzBindAddress", OptionValue::Text("0.0.0.0:1256".into())),
    ]);
    let check = |port| {
        format!("load balancer 198.51.100.10:{port}/tcp of health checks by connection\n    to root port {port}\n")
    };
    let text = listing(service(), &settings);
    assert!(text.contains(&check(1256)), "{text}");
    let local = Service {
        external_policy: TrafficPolicy::Local,
        health_check_node_port: Some(31_000),
        ports: [80, 81]
            .map(|port| ServicePort { name: format!("p{port}").into(), port, ..service().ports[0].clone() })
            .into(),
        ..service()
    };
    let text = listing(local, &settings);
    assert!(text.contains(&check(31_000)) && !text.contains("1256"), "{text}");
}

#[test]
fn health_checks_are_written_and_removed() {
    let options = [("winkernel.forwardHealthCheckVip", OptionValue::Boolean(true))];
    let settings = with_options(&options);
    let mut kernel = InMemory::new(Settings::read(&settings), Habits::default(), 0, 1);
    kernel.hns().add_local_endpoint(kernel.network(), "cbr0", address("10.244.0.1"));
    let plan = planned(service(), &settings);
    kernel.sync(&plan, Trust::Memory).expect("HNS answers");
    assert_eq!(kernel.hns().held().1.len(), 5);
    assert!(kernel.verify(&plan).expect("HNS answers").is_empty());
    let mut without = plan.clone();
    without.services = Default::default();
    kernel.sync(&without, Trust::Memory).expect("HNS answers");
    assert_eq!(kernel.hns().held().1.len(), 0);
}

fn overlay() -> Settings {
    let source_vip = Some(address("10.244.0.254"));
    Settings { network: "vxlan0".into(), source_vip, is_overlay: true, ..Settings::read(&ModeSettings::default()) }
}

fn remote_subnet(range: &str, node: &str) -> NetworkPolicy {
    let text = format!(r#"{{"DestinationPrefix":"{range}","IsolationId":4096,"ProviderAddress":"{node}"}}"#);
    NetworkPolicy { kind: "RemoteSubnetRoute".into(), settings: serde_json::from_str(&text).expect("it is JSON") }
}

/// The network learns of the other node after the daemon has started.
#[test]
fn on_an_overlay_endpoints_are_behind_their_node_and_cluster_ips_have_one() {
    let mut kernel = InMemory::new(overlay(), Habits::default(), 0, 1);
    let settings = ModeSettings::default();
    kernel.sync(&planned(Service::empty(ServiceName::new("a", "b")), &settings), Trust::Memory).expect("HNS answers");
    let network = Network { id: kernel.network(), name: "vxlan0".into(), kind: "Overlay".into(), policies: Vec::new() };
    let policies = vec![remote_subnet("10.244.2.0/24", "192.168.50.2")];
    kernel.hns().set_network(Network { policies, ..network });
    let plan = planned(service(), &settings);
    kernel.sync(&plan, Trust::Memory).expect("HNS answers");
    let (endpoints, balancers) = kernel.hns().held();
    let mut shown: Vec<(String, String, bool)> = endpoints
        .iter()
        .filter(|it| !it.policies.is_empty())
        .map(|it| {
            let address = it.ip_configurations[0].ip_address.clone();
            (address, it.provider_address().unwrap_or_default().to_owned(), it.is_remote())
        })
        .collect();
    shown.sort();
    let (here, there) = ("192.168.50.1".to_owned(), "192.168.50.2".to_owned());
    let expected = [
        ("10.244.0.254".to_owned(), here.clone(), false),
        ("10.244.2.2".to_owned(), there, true),
        ("10.96.0.10".to_owned(), here, true),
    ];
    assert_eq!(shown, expected);
    assert!(balancers.iter().all(|it| it.source_vip == "10.244.0.254"), "{balancers:?}");
    assert!(kernel.verify(&plan).expect("HNS answers").is_empty());
}

/// An endpoint outside of all subnets answers the node's own address alone.
#[test]
fn on_an_overlay_the_source_is_the_node_for_endpoints_outside_of_the_cluster() {
    let mut kernel = InMemory::new(overlay(), Habits::default(), 0, 1);
    kernel.sync(&planned(service(), &ModeSettings::default()), Trust::Memory).expect("HNS answers");
    assert!(kernel.hns().held().1.iter().all(|it| it.source_vip == "192.168.50.1"));
}
