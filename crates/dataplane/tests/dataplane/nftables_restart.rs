//! A start on the table of an earlier daemon: endpoints are read by their keys, and whatever another process has changed
//! meanwhile is found and repaired.

use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use portolan_dataplane::mode::Synchronize;
use portolan_dataplane::nft::{Nftables, NftablesKernel};
use portolan_dataplane::{Objects, Reconciler, SyncReport, Trust, render, verify};
use portolan_kernel::nftables::{Batch, Nftables as Handle, Options};
use portolan_model::{Family, ServiceName, Snapshot};
use portolan_plan::{Plan, PlanConfig, plan};

use crate::world::{everything, slices};

type Daemon = Reconciler<Nftables, NftablesKernel>;

fn kernel() -> NftablesKernel {
    NftablesKernel::open().expect("the tables can be opened")
}

fn daemon(kernel: NftablesKernel) -> Daemon {
    Reconciler::new(Nftables::new(14), kernel.with_quick_start())
}

/// A new process on the tables of this namespace.
fn start(plan: &Plan) -> (Daemon, SyncReport) {
    let mut daemon = daemon(kernel());
    let report = daemon.sync(plan, Trust::Memory).expect("the plan can be written");
    (daemon, report)
}

fn planned(snapshot: &Snapshot) -> Plan {
    plan(snapshot, &Plan::default(), &PlanConfig::default())
}

/// A namespace with the tables of a daemon that has ended.
fn programmed() -> Plan {
    portolan_kernel::enter_new_network_namespace().expect("root is needed to make a network namespace");
    let plan = planned(&everything());
    start(&plan);
    plan
}

fn assert_holds(plan: &Plan, situation: &str) {
    let difference = verify(&Nftables::new(14), &mut kernel(), plan).expect("the tables can be read");
    assert!(difference.is_empty(), "{situation}: {difference}");
}

fn nft(script: &str) {
    let status = Command::new("nft").arg(script).status().expect("nft runs (Debian package nftables)");
    assert!(status.success(), "nft {script}");
}

/// The Service `plain` with that many of its endpoints.
fn with_endpoints(count: usize) -> Snapshot {
    let pods = [("10.244.1.2", "node-a"), ("10.244.2.2", "node-b"), ("10.244.2.3", "node-b"), ("10.244.2.4", "node-b")];
    let mut snapshot = everything();
    let name = ServiceName::new("default", "plain");
    snapshot.slices.insert(name, Arc::new(slices("plain", Family::V4, &pods[..count])));
    snapshot
}

#[test]
fn a_restart_dumps_no_endpoints_and_writes_nothing() {
    let plan = programmed();
    let (daemon, report) = start(&plan);
    assert_eq!((daemon.kernel().dumped(), report.objects), (&[][..], 0));
}

#[test]
fn what_changed_between_two_daemons_costs_no_dump() {
    programmed();
    let mut smaller = everything();
    smaller.services.remove(&ServiceName::new("default", "sticky"));
    for snapshot in [with_endpoints(1), with_endpoints(4), smaller, Snapshot::default(), everything()] {
        let plan = planned(&snapshot);
        let (daemon, report) = start(&plan);
        assert_eq!(daemon.kernel().dumped(), []);
        assert_ne!(report.objects, 0);
        assert_holds(&plan, "after the change");
    }
}

const DAMAGES: &[&str] = &[
    "delete element ip portolan endpoints { 10.96.0.10 . tcp . 80 . 2 }",
    "add element ip portolan endpoints { 10.96.0.10 . tcp . 80 . 3 : 10.9.9.9 . 99 }",
    "add element ip portolan endpoints { 10.96.0.10 . tcp . 80 . 65536 : 10.9.9.9 . 99 }",
    "add element ip portolan endpoints { 10.96.77.77 . tcp . 80 . 0 : 10.9.9.9 . 99 }",
    "delete element ip portolan endpoints { 10.96.0.10 . tcp . 80 . 2 }; \
     add element ip portolan endpoints { 10.96.0.10 . tcp . 80 . 2 : 10.9.9.9 . 99 }",
    "delete element ip portolan endpoints { 10.96.0.10 . tcp . 80 . 2 }; \
     add element ip portolan endpoints { 10.96.77.77 . tcp . 80 . 2 : 10.9.9.9 . 99 }",
    "delete element ip portolan services { 10.96.0.10 . tcp . 80 }",
    "delete element ip portolan nodeports { tcp . 30081 }",
    "delete element ip portolan nodeport-endpoints { tcp . 30081 . 0 }",
    "delete element ip6 portolan endpoints { fd00:10:96::11 . tcp . 80 . 1 }",
    "flush map ip portolan endpoints",
    "flush map ip portolan services",
    "add rule ip portolan dispatch counter",
    "insert rule ip portolan cluster-3 drop",
    "flush chain ip portolan cluster-3",
    "add chain ip portolan foreign",
    "delete table ip portolan",
    "delete table ip portolan; add table ip portolan; add chain ip portolan dispatch",
];

#[test]
fn a_change_while_no_daemon_ran_is_found_and_repaired() {
    let plan = programmed();
    for damage in DAMAGES {
        nft(damage);
        let (_, report) = start(&plan);
        assert_ne!(report.objects, 0, "{damage}");
        assert_holds(&plan, damage);
    }
}

/// A daemon reads the kernel while the API server sends its facts, and knows nothing of changes after that.
#[test]
fn a_change_after_the_kernel_was_read_ahead_is_found_and_repaired() {
    let plan = programmed();
    for damage in DAMAGES {
        let mut daemon = daemon(kernel());
        daemon.read_ahead().expect("the tables can be read");
        nft(damage);
        let report = daemon.sync(&plan, Trust::Memory).expect("the plan can be written");
        assert_ne!(report.objects, 0, "{damage}");
        assert_holds(&plan, damage);
    }
}

#[test]
fn what_was_read_ahead_counts_until_the_first_write() {
    let plan = programmed();
    let mut daemon = daemon(kernel());
    daemon.read_ahead().expect("the tables can be read");
    assert_eq!(daemon.sync(&plan, Trust::Memory).unwrap().objects, 0);
    daemon.read_ahead().expect("the tables can be read");
    let other = portolan_plan::plan(&with_endpoints(1), &plan, &PlanConfig::default());
    assert_ne!(daemon.sync(&other, Trust::Memory).unwrap().objects, 0);
    assert!(daemon.verify(&other).unwrap().is_empty(), "a read after a write is not that from before");
}

#[test]
fn reading_ahead_reads() {
    programmed();
    nft("delete element ip portolan endpoints { 10.96.0.10 . tcp . 80 . 2 }");
    let mut daemon = daemon(kernel());
    assert_eq!(daemon.kernel().dumped(), []);
    daemon.read_ahead().expect("the tables can be read");
    assert_eq!(daemon.kernel().dumped().len(), 1, "the map that lacks an element");
}

/// Facts often change while rules are missing: the log, metrics and history must show the repair nevertheless.
#[test]
fn a_repair_is_counted_apart_from_a_change_of_the_plan() {
    let first = programmed();
    let (mut daemon, _) = start(&first);
    let second = plan(&with_endpoints(1), &first, &PlanConfig::default());
    nft("delete element ip portolan hairpins { 10.244.1.2 . 10.244.1.2 }; flush chain ip portolan cluster-3");
    let report = daemon.sync(&second, Trust::Nothing).expect("the plan can be written");
    assert_eq!(report.repaired, 2);
    assert!(report.objects > 2);
    let third = daemon.sync(&first, Trust::Nothing).expect("the plan can be written");
    assert_eq!((third.repaired, third.objects), (0, report.objects - 2));
}

/// Some of what is missing had to go in any case.
#[test]
fn a_repair_is_counted_where_the_plan_changes_the_same_map() {
    let first = programmed();
    let (mut daemon, _) = start(&first);
    let second = plan(&with_endpoints(1), &first, &PlanConfig::default());
    let (before, after) = (render(&Nftables::new(14), &first), render(&Nftables::new(14), &second));
    let endpoints = |it: &Objects<Nftables>| it.to_string().lines().filter(|it| is_endpoint(it)).count();
    assert!(endpoints(&before) > endpoints(&after) && endpoints(&after) > 0);
    nft("flush map ip portolan endpoints");
    let report = daemon.sync(&second, Trust::Nothing).expect("the plan can be written");
    assert_eq!(report.repaired, endpoints(&after));
}

fn is_endpoint(line: &str) -> bool {
    line.starts_with("element ip endpoints ")
}

/// Commits to other tables advance the kernel's generation, but neither falsify nor slow down a read by keys.
#[test]
fn commits_to_other_tables_cause_no_dump() {
    let plan = programmed();
    nft("add table ip neighbour");
    assert_eq!(start(&plan).0.kernel().dumped(), []);
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        // A new thread is in the same namespace.
        scope.spawn(|| {
            let mut handle = Handle::open().unwrap();
            while !is_over.load(Ordering::Relaxed) {
                let mut batch = Batch::new();
                batch.add_table(Family::V4, "busy");
                batch.delete_table(Family::V4, "busy");
                handle.commit(batch).unwrap();
            }
        });
        let (daemon, report) = start(&plan);
        is_over.store(true, Ordering::Relaxed);
        assert_eq!((daemon.kernel().dumped(), report.objects), (&[][..], 0));
    });
    assert_holds(&plan, "after the neighbour");
}

/// Linux 6.12 and older: only a dump can show that there are no other elements.
fn on_an_older_kernel() -> NftablesKernel {
    let options = Options { hides_counts: true, ..Options::default() };
    let handle = Handle::open_with(options).expect("the tables can be opened");
    NftablesKernel::with(handle).expect("the tables can be opened")
}

#[test]
fn on_a_kernel_that_does_not_count_only_the_first_read_goes_without_a_dump() {
    let plan = programmed();
    let mut daemon = daemon(on_an_older_kernel());
    assert_eq!(daemon.sync(&plan, Trust::Memory).unwrap().objects, 0);
    assert_eq!(daemon.kernel().dumped(), []);
    daemon.sync(&plan, Trust::Nothing).unwrap();
    assert_eq!(daemon.kernel().dumped().len(), 4, "two maps of each family");
}

/// A foreign commit after a read ahead must not cost a dump, either.
#[test]
fn on_a_kernel_that_does_not_count_a_read_ahead_is_no_first_read() {
    let plan = programmed();
    let mut daemon = daemon(on_an_older_kernel());
    daemon.read_ahead().unwrap();
    nft("add table ip neighbour");
    assert_eq!(daemon.sync(&plan, Trust::Memory).unwrap().objects, 0);
    assert_eq!(daemon.kernel().dumped(), []);
}

#[test]
fn on_a_kernel_that_does_not_count_a_missing_element_is_found_at_the_start() {
    let plan = programmed();
    nft("delete element ip portolan endpoints { 10.96.0.10 . tcp . 80 . 2 }");
    assert_eq!(daemon(on_an_older_kernel()).sync(&plan, Trust::Memory).unwrap().objects, 1);
    assert_holds(&plan, "after the repair");
}

/// An element that no packet reaches until its Service grows: then the kernel refuses the change once.
#[test]
fn on_a_kernel_that_does_not_count_a_surplus_element_is_found_when_it_is_in_the_way() {
    let first = programmed();
    nft("add element ip portolan endpoints { 10.96.0.10 . tcp . 80 . 3 : 10.9.9.9 . 99 }");
    let mut daemon = daemon(on_an_older_kernel());
    assert_eq!(daemon.sync(&first, Trust::Memory).unwrap().objects, 0);
    let second = plan(&with_endpoints(4), &first, &PlanConfig::default());
    let error = daemon.sync(&second, Trust::Memory).unwrap_err();
    assert!(error.to_string().contains("endpoints"), "{error}");
    daemon.sync(&second, Trust::Memory).unwrap();
    assert_holds(&second, "after the second attempt");
}
