//! Services that need IPVS schedulers which a kernel does not have.

use std::sync::Arc;

use portolan_dataplane::ipvs::{self, Ipvs};
use portolan_dataplane::mode::Mode;
use portolan_model::{Balancing, PlaceWeights, Service, ServiceName, Snapshot, Weight};
use portolan_plan::{Plan, PlanConfig, plan};

use crate::world::named;

fn change(snapshot: &mut Snapshot, name: &str, change: impl Fn(&mut Service)) {
    let name = ServiceName::new("default", name);
    let mut service = Service::clone(snapshot.services.get(&name).expect("it was put there"));
    service.ports = [service.ports[0].clone()].into();
    change(&mut service);
    snapshot.services.insert(name, Arc::new(service));
}

/// One that asks for nothing, one by name, and two by weights: of a node, and those that quarantine varies.
fn planned() -> Plan {
    let mut snapshot = named(&["hashed", "plain", "trials", "weights"]);
    change(&mut snapshot, "plain", |_| {});
    change(&mut snapshot, "hashed", |service| service.scheduler = Some("mh".into()));
    let trials = Balancing { quarantine: Some(true), ..Balancing::default() };
    change(&mut snapshot, "trials", |service| service.balancing = Some(trials.clone().into()));
    let nodes = [("node-a".into(), Weight::new(300).expect("a weight"))].into();
    let weights = Balancing { places: PlaceWeights { nodes, zones: [].into() }, ..Balancing::default() };
    change(&mut snapshot, "weights", |service| service.balancing = Some(weights.clone().into()));
    let mode: &dyn Mode = &ipvs::MODE;
    plan(&snapshot, &Plan::default(), &PlanConfig { limits: mode.limits(), ..PlanConfig::default() })
}

fn warnings(offered: &[&str]) -> Vec<String> {
    Ipvs::new(14, "rr").offering(offered.iter().map(|name| (*name).to_owned()).collect()).missing_schedulers(&planned())
}

#[test]
fn a_service_whose_scheduler_the_kernel_lacks_is_named_with_the_one_that_it_gets() {
    let warning = |name, needs| {
        format!("default/{name} needs the IPVS scheduler {needs}, which this kernel does not have: it gets rr")
    };
    let expected = [warning("hashed", "mh"), warning("trials", "wrr"), warning("weights", "wrr")];
    assert_eq!(warnings(&["rr"]), expected);
    assert_eq!(warnings(&["rr", "wrr"]), expected[..1]);
    assert_eq!(warnings(&["rr", "wrr", "mh"]), [""; 0]);
}
