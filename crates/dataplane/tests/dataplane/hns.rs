//! The mode of Windows nodes on an HNS in memory: what it leaves after failures and deaths, and how many calls it makes.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;

use portolan_dataplane::kernelspace::{InMemory, Settings};
use portolan_dataplane::mode::{Mode, Synchronize};
use portolan_dataplane::{ModeSettings, Trust, kernelspace};
use portolan_hns::{Guid, Habits, Hns, LoadBalancer, MemoryHns, Network, Operation, Version};
use portolan_model::{
    Family, Protocol, Service, ServiceKind, ServiceName, ServicePort, Slice, SliceEndpoint, SlicePort, Slices, Snapshot,
};
use portolan_plan::{Plan, PlanConfig, plan};

use crate::history::random::check;
use crate::history::{Happening, beginning, config, happen};
use crate::play::cases;

/// A recent HNS, one that cannot modify, one that does not say so, and one that chooses identities by itself.
const HABITS: [Habits; 4] = [
    Habits { version: Version::MODIFIES, ignores_identities: false, lacks_modification: false },
    Habits { version: Version::OLDEST, ignores_identities: false, lacks_modification: false },
    Habits { version: Version::MODIFIES, ignores_identities: false, lacks_modification: true },
    Habits { version: Version::MODIFIES, ignores_identities: true, lacks_modification: false },
];

pub(crate) fn settings(is_overlay: bool) -> Settings {
    let source_vip = is_overlay.then(|| "10.244.1.254".parse().expect("an address"));
    Settings { network: "cbr0".into(), source_vip, is_overlay, ..Settings::read(&ModeSettings::default()) }
}

/// What HNS holds, with addresses instead of identities.
fn content(hns: &MemoryHns) -> BTreeMap<String, String> {
    let (endpoints, balancers) = hns.held();
    let addresses: BTreeMap<_, String> = endpoints
        .iter()
        .filter_map(|it| {
            let addresses: Vec<&str> = it.ip_configurations.iter().map(|ip| &*ip.ip_address).collect();
            Some((it.id?, format!("{} remote: {}", addresses.join(" "), it.is_remote())))
        })
        .collect();
    let mut content: BTreeMap<String, String> = endpoints
        .iter()
        .zip(addresses.values())
        .map(|(it, text)| (text.clone(), format!("{:?}", it.policies)))
        .collect();
    assert_eq!(content.len(), endpoints.len(), "no two endpoints have the same address");
    for mut balancer in balancers {
        let mut targets: Vec<String> = balancer
            .host_compute_endpoints
            .iter()
            .map(|id| addresses.get(id).cloned().unwrap_or_else(|| "dangling".into()))
            .collect();
        targets.sort();
        let key = format!("{:?} {:?} {}", balancer.frontend_vips, balancer.port_mappings, balancer.flags & 2);
        (balancer.id, balancer.host_compute_endpoints) = (None, Vec::new());
        let former = content.insert(key, format!("{balancer:?} to {targets:?}"));
        assert_eq!(former, None, "no two load balancers have the same front end");
    }
    content
}

pub(crate) fn until_synced(kernel: &mut InMemory, plan: &Plan) {
    let mut works = |_: &u32| kernel.sync(plan, Trust::Memory).is_ok_and(|report| report.failure.is_none());
    assert!((0..100).any(|attempt| works(&attempt)), "a hundred syncs failed");
}

fn check_history(history: &[Happening], random: u64, is_overlay: bool) {
    let mode: &dyn Mode = &kernelspace::MODE;
    let config = PlanConfig { limits: mode.limits(), ..config() };
    let habits = HABITS[(random % 4) as usize];
    let mut kernel = InMemory::new(settings(is_overlay), habits, 10, random);
    let (mut snapshot, mut last) = (beginning(), Plan::default());
    for happening in history {
        happen(&mut snapshot, happening);
        last = plan(&snapshot, &last, &config);
        until_synced(&mut kernel, &last);
        let mut fresh = InMemory::new(settings(is_overlay), habits, 0, 1);
        until_synced(&mut fresh, &last);
        assert_eq!(content(kernel.hns()), content(fresh.hns()), "{habits:?} after {happening:?}");
    }
}

/// One call in ten fails, before or after its effect, and now and then the daemon dies between two calls.
#[test]
fn whatever_fails_hns_ends_up_with_what_a_fresh_start_has() {
    check(cases(200), |history, random| check_history(history, random, false));
}

#[test]
fn so_it_is_on_an_overlay() {
    check(cases(200), |history, random| check_history(history, random, true));
}

/// A Service with a ClusterIP and a node port, and two endpoints on other nodes.
pub(crate) fn put_service(snapshot: &mut Snapshot, number: u16, endpoints: [IpAddr; 2]) {
    let name = ServiceName::new("default", &format!("service-{number}"));
    let port = ServicePort { name: "".into(), protocol: Protocol::Tcp, port: 80, node_port: Some(30_000 + number) };
    let service = Service {
        kind: ServiceKind::NodePort,
        cluster_ips: [Ipv4Addr::new(10, 96, (number / 256) as u8, (number % 256) as u8).into()].into(),
        ports: [port].into(),
        ..Service::empty(name.clone())
    };
    let endpoint = |address| SliceEndpoint::on("elsewhere", address);
    let ports = [SlicePort { name: "".into(), protocol: Protocol::Tcp, port: 8080 }].into();
    let endpoints = endpoints.map(endpoint).into();
    let slice = Slice { name: "one".into(), family: Family::V4, is_for_names_only: false, ports, endpoints };
    snapshot.services.insert(name.clone(), Arc::new(service));
    snapshot.slices.insert(name, Arc::new(Slices([Arc::new(slice)].into())));
}

pub(crate) fn pod(number: u16, last: u8) -> IpAddr {
    Ipv4Addr::new(10, 10 + (number / 256) as u8, (number % 256) as u8, last).into()
}

pub(crate) fn planned(snapshot: &Snapshot, previous: &Plan) -> Plan {
    let mode: &dyn Mode = &kernelspace::MODE;
    plan(snapshot, previous, &PlanConfig { limits: mode.limits(), ..config() })
}

/// The calls that the change of one endpoint takes, among so many Services.
fn calls_for_one_change(services: u16, habits: Habits) -> usize {
    let mut kernel = InMemory::new(settings(false), habits, 0, 1);
    let mut snapshot = beginning();
    (0..services).for_each(|number| put_service(&mut snapshot, number, [pod(number, 1), pod(number, 2)]));
    let before = planned(&snapshot, &Plan::default());
    until_synced(&mut kernel, &before);
    kernel.hns().take_calls();
    put_service(&mut snapshot, 7, [pod(7, 1), pod(7, 3)]);
    until_synced(&mut kernel, &planned(&snapshot, &before));
    kernel.hns().take_calls().values().sum()
}

/// The new endpoint is created, two load balancers are modified, and the old endpoint is deleted.
#[test]
fn one_endpoint_costs_four_calls_at_any_number_of_services() {
    assert_eq!([100, 1000].map(|services| calls_for_one_change(services, HABITS[0])), [4, 4]);
    // Without modification a load balancer is deleted and created.
    assert_eq!([100, 1000].map(|services| calls_for_one_change(services, HABITS[1])), [6, 6]);
}

pub(crate) fn one_service(kernel: &mut InMemory) -> (Snapshot, Plan) {
    let mut snapshot = beginning();
    put_service(&mut snapshot, 1, [pod(1, 1), pod(1, 2)]);
    let plan = planned(&snapshot, &Plan::default());
    until_synced(kernel, &plan);
    (snapshot, plan)
}

fn writes(hns: &MemoryHns) -> usize {
    let reads = [
        Operation::Version,
        Operation::Network,
        Operation::Endpoints,
        Operation::Identities,
        Operation::LoadBalancers,
        Operation::HostMac,
    ];
    hns.take_calls().iter().filter(|(operation, _)| !reads.contains(operation)).map(|(_, count)| count).sum()
}

#[test]
fn a_restart_adopts_what_it_finds() {
    for habits in HABITS {
        let mut kernel = InMemory::new(settings(false), habits, 0, 1);
        let (_, plan) = one_service(&mut kernel);
        kernel.hns().take_calls();
        kernel.restart();
        until_synced(&mut kernel, &plan);
        assert_eq!(writes(kernel.hns()), 0, "{habits:?}");
    }
}

/// kube-proxy lets HNS choose identities, and writes the same content.
#[test]
fn what_kube_proxy_has_left_is_adopted() {
    let mut former = InMemory::new(settings(false), HABITS[3], 0, 1);
    let (_, plan) = one_service(&mut former);
    let (endpoints, balancers) = former.hns().held();
    let mut kernel = InMemory::new(settings(false), HABITS[3], 0, 1);
    let mut hns = kernel.hns().clone();
    let ids: Vec<Guid> = endpoints.iter().filter_map(|it| it.id).collect();
    for endpoint in &endpoints {
        hns.create_endpoint(kernel.network(), Guid::default(), endpoint).expect("it can be created");
    }
    let created: Vec<Guid> = hns.held().0.iter().filter_map(|it| it.id).collect();
    assert_eq!(created, ids, "the same endpoints in the same order");
    for balancer in &balancers {
        hns.create_load_balancer(Guid::default(), balancer).expect("it can be created");
    }
    hns.take_calls();
    until_synced(&mut kernel, &plan);
    assert_eq!(writes(kernel.hns()), 0);
}

#[test]
fn what_another_program_deletes_or_adds_is_repaired() {
    let mut kernel = InMemory::new(settings(false), HABITS[0], 0, 1);
    let (_, plan) = one_service(&mut kernel);
    let wanted = content(kernel.hns());
    let mut hns = kernel.hns().clone();
    let (endpoints, balancers) = hns.held();
    hns.delete_load_balancer(balancers[0].id.expect("it has one")).expect("it can be deleted");
    hns.delete_endpoint(endpoints[0].id.expect("it has one")).expect("it can be deleted");
    let foreign = LoadBalancer { frontend_vips: vec!["10.96.9.9".into()], ..balancers[1].clone() };
    let foreign = LoadBalancer { host_compute_endpoints: vec![endpoints[1].id.expect("it has one")], ..foreign };
    hns.create_load_balancer(Guid::of("another"), &foreign).expect("it can be created");
    kernel.sync(&plan, Trust::Nothing).expect("HNS answers");
    assert_eq!(content(kernel.hns()), wanted);
}

/// The endpoint that a CNI plugin creates takes the place of the remote one at the next sync, which the watch asks for.
#[test]
fn a_pod_of_this_node_with_the_address_of_a_remote_endpoint_replaces_it() {
    let mut kernel = InMemory::new(settings(false), HABITS[0], 0, 1);
    let (_, plan) = one_service(&mut kernel);
    kernel.hns().add_local_endpoint(kernel.network(), "pod", pod(1, 2));
    kernel.sync(&plan, Trust::Nothing).expect("HNS answers");
    let (endpoints, balancers) = kernel.hns().held();
    let of_pod: Vec<_> =
        endpoints.iter().filter(|it| it.ip_configurations[0].ip_address == pod(1, 2).to_string()).collect();
    assert_eq!(of_pod.iter().map(|it| it.is_remote()).collect::<Vec<_>>(), [false]);
    assert!(balancers.iter().all(|it| it.host_compute_endpoints.contains(&of_pod[0].id.expect("it has one"))));
    assert!(kernel.verify(&plan).expect("HNS answers").is_empty());
    kernel.hns().remove_local_endpoint(pod(1, 2));
    kernel.sync(&plan, Trust::Nothing).expect("HNS answers");
    assert!(!content(kernel.hns()).values().any(|it| it.contains("dangling")));
}

/// HNS refuses to delete it, and meanwhile it is wanted again: it stays.
#[test]
fn an_object_that_could_not_be_deleted_stays_when_it_is_wanted_again() {
    let mut kernel = InMemory::new(settings(false), HABITS[0], 0, 1);
    let (snapshot, plan) = one_service(&mut kernel);
    let wanted = content(kernel.hns());
    let mut without = snapshot.clone();
    without.services = Default::default();
    kernel.hns().die_after(0);
    kernel.sync(&planned(&without, &plan), Trust::Memory).expect_err("HNS refuses");
    kernel.hns().take_calls();
    until_synced(&mut kernel, &plan);
    assert_eq!((content(kernel.hns()), writes(kernel.hns())), (wanted, 0));
}

#[test]
fn a_network_that_is_made_again_is_filled_again() {
    let mut kernel = InMemory::new(settings(false), HABITS[0], 0, 1);
    let (_, plan) = one_service(&mut kernel);
    let wanted = content(kernel.hns());
    kernel.hns().remove_network("cbr0");
    kernel.sync(&plan, Trust::Nothing).expect_err("there is no network");
    kernel.hns().add_network(Network { id: Guid::of("new"), name: "cbr0".into(), ..Network::default() });
    until_synced(&mut kernel, &plan);
    assert_eq!(content(kernel.hns()), wanted);
}
