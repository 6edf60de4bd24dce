//! A process with a low limit of open files. A separate test program, because the limit applies to the whole process.

#[path = "dataplane/world.rs"]
#[expect(dead_code, reason = "this test uses a part of it")]
mod world;

use std::process::Command;
use std::sync::Arc;

use portolan_dataplane::userspace::{Key, Listeners, RelayLimits, Userspace, UserspaceKernel};
use portolan_dataplane::{Observe, Reconciler, Trust, tables::Variant};
use portolan_plan::{Limits, Plan, PlanConfig, plan};
use world::named;

const FILES: usize = 120;
const SERVICES: usize = 100;

#[test]
fn services_without_a_listener_do_not_harm_the_others() {
    portolan_kernel::enter_new_network_namespace().expect("root is needed to make a network namespace");
    let limit = [format!("--pid={}", std::process::id()), format!("--nofile={FILES}:{FILES}")];
    assert!(Command::new("prlimit").args(limit).status().expect("prlimit is installed").success());
    let names: Vec<String> = (1..=SERVICES).map(|number| format!("web-{number}")).collect();
    let snapshot = named(&names.iter().map(String::as_str).collect::<Vec<_>>());
    let plan = plan(
        &snapshot,
        &Plan::default(),
        &PlanConfig { limits: Limits { relayed: true, ..Limits::default() }, ..PlanConfig::default() },
    );
    let listeners = Arc::new(Listeners::open(RelayLimits::default()).unwrap());
    let mut reconciler = Reconciler::new(Userspace, UserspaceKernel::open(Variant::Nft, listeners).expect("root"));
    for _ in 0..2 {
        let error = reconciler.sync(&plan, Trust::Memory).unwrap_err().to_string();
        assert!(error.contains("raise its limit"), "{error}");
        let held = reconciler.kernel_mut().read().expect("there are files left to read with").0;
        let listeners = held.keys().filter(|key| matches!(key, Key::Listener(_))).count();
        let rules = held.keys().filter(|key| key.to_string().contains("KUBE-PORTALS-CONTAINER -d")).count();
        assert_eq!((listeners, rules), (FILES / 2, FILES / 2), "as many as there may be, each with its rule");
    }
}
