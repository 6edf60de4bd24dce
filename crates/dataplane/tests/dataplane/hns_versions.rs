//! The mode of Windows nodes on older versions of HNS, and its count of refused calls.

use std::sync::Arc;

use portolan_dataplane::Trust;
use portolan_dataplane::kernelspace::{self, InMemory};
use portolan_dataplane::mode::{BalancerCall, BalancerFailure, Mode, Synchronize};
use portolan_hns::{Habits, LoadBalancer, Version, balancer_flags};
use portolan_model::{Family, Service, ServiceName, Snapshot};
use portolan_plan::{Limits, LoadBalancers, Plan, PlanConfig, plan};

use crate::history::{beginning, config};
use crate::hns::{one_service, planned, pod, put_service, settings, until_synced};

fn habits(major: u32, minor: u32) -> Habits {
    Habits { version: Version::new(major, minor), ..Habits::default() }
}

/// A Service with session affinity, on a node with direct server return.
fn demanding() -> Plan {
    let mut snapshot: Snapshot = beginning();
    put_service(&mut snapshot, 1, [pod(1, 1), pod(1, 2)]);
    let name = ServiceName::new("default", "service-1");
    let service = Service::clone(snapshot.services.get(&name).expect("it was put there"));
    snapshot.services.insert(name, Arc::new(Service { affinity_seconds: Some(600), ..service }));
    let mode: &dyn Mode = &kernelspace::MODE;
    let limits = Limits {
        load_balancers: Some(LoadBalancers { direct_return: true, ..LoadBalancers::default() }),
        ..mode.limits()
    };
    plan(&snapshot, &Plan::default(), &PlanConfig { limits, ..config() })
}

/// What HNS holds for the ClusterIP: whether endpoints answer directly, and whether clients are kept on one endpoint.
fn held(major: u32, minor: u32) -> (bool, bool) {
    let mut kernel = InMemory::new(settings(false), habits(major, minor), 0, 1);
    let plan = demanding();
    until_synced(&mut kernel, &plan);
    assert!(kernel.verify(&plan).expect("HNS answers").is_empty(), "{major}.{minor}");
    let balancers = kernel.hns().held().1;
    let of_cluster_ip = |it: &&LoadBalancer| it.frontend_vips == ["10.96.0.1"];
    let balancer = balancers.iter().find(of_cluster_ip).expect("it has a load balancer");
    (balancer.flags & balancer_flags::DSR != 0, balancer.port_mappings[0].distribution_type != 0)
}

#[test]
fn an_old_hns_gets_what_it_understands() {
    let versions = [(9, 2), (9, 3), (10, 0), (11, 10), (12, 0), (15, 5)];
    let expected = [(false, false), (true, false), (false, false), (true, false), (true, true), (true, true)];
    assert_eq!(versions.map(|(major, minor)| held(major, minor)), expected);
}

fn failure(call: BalancerCall, kind: &'static str) -> (BalancerFailure, u64) {
    (BalancerFailure { call, family: Family::V4, kind, error: "other" }, 1)
}

#[test]
fn refused_calls_are_counted_by_what_the_load_balancer_is_for() {
    let mut kernel = InMemory::new(settings(false), Habits::default(), 0, 1);
    let (mut snapshot, before) = one_service(&mut kernel);
    assert!(kernel.failures().is_empty());
    put_service(&mut snapshot, 1, [pod(1, 1), pod(1, 3)]);
    let changed = planned(&snapshot, &before);
    // The new endpoint is created, and nothing else.
    kernel.hns().die_after(1);
    kernel.sync(&changed, Trust::Memory).expect_err("HNS refuses");
    let updates = ["clusterip", "nodeport"].map(|kind| failure(BalancerCall::Update, kind));
    assert_eq!(kernel.failures(), &updates.into());
    until_synced(&mut kernel, &changed);
    snapshot.services = Default::default();
    kernel.hns().die_after(0);
    kernel.sync(&planned(&snapshot, &changed), Trust::Memory).expect_err("HNS refuses");
    let deletions = ["clusterip", "nodeport"].map(|kind| failure(BalancerCall::Delete, kind));
    assert_eq!(kernel.failures(), &updates.into_iter().chain(deletions).collect());
}
