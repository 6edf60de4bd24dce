//! One endpoint of one Service is replaced or removed: plan, render and apply, while a process receives the kernel's
//! notifications.

use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;
use std::time::{Duration, Instant};

use portolan_dataplane::nft::{Nftables, NftablesKernel};
use portolan_dataplane::{Reconciler, Trust};
use portolan_kernel::nftables::Monitor;
use portolan_model::Snapshot;
use portolan_plan::{Plan, PlanConfig, plan};

use crate::table::{microseconds, percentile};
use crate::{SIZES, cluster, table};

const CHANGES: u32 = 2000;

pub(crate) fn run() {
    std::thread::spawn(measure).join().expect("the part succeeds");
}

fn measure() {
    let mut worlds = SIZES.map(|(services, endpoints)| World::new(services, endpoints));
    measure_changes(&mut worlds, "One endpoint replaced: plan + render + apply", World::replace);
    measure_changes(&mut worlds, "One endpoint less: plan + render + apply", World::scale);
    measure_changes(&mut worlds, "To a number of endpoints that no other Service has, and back", World::stand_out);
}

/// The sizes take turns, so that other load on the machine affects them alike.
fn measure_changes(worlds: &mut [World; 2], title: &str, change: impl Fn(&mut World, u32)) {
    for number in 0..CHANGES {
        worlds.iter_mut().for_each(|world| change(world, number));
    }
    let rows: Vec<Vec<String>> = worlds.iter_mut().map(World::row).collect();
    table::print(title, &["Services", "endpoints", "median", "p99", "plan (median)"], &rows);
    let median = |world: &World| percentile(&world.all, 0.5).as_secs_f64();
    let ratio = median(&worlds[1]) / median(&worlds[0]);
    println!("  ratio of the medians: {ratio:.2} (target: at most 1 ms each, ratio at most 2)");
    worlds.iter_mut().for_each(World::forget_times);
}

/// A cluster of one size, programmed in a network namespace of its own.
struct World {
    size: (u32, u32),
    snapshot: Snapshot,
    last: Plan,
    reconciler: Reconciler<Nftables, NftablesKernel>,
    _monitor: Monitor,
    all: Vec<Duration>,
    planning: Vec<Duration>,
}

impl World {
    fn new(services: u32, endpoints: u32) -> Self {
        portolan_kernel::enter_new_network_namespace().expect("root is needed to make a network namespace");
        let snapshot = cluster::facts(services, endpoints);
        let last = plan(&snapshot, &Plan::default(), &PlanConfig::default());
        let mut reconciler = Reconciler::new(Nftables::new(14), NftablesKernel::open().expect("root"));
        reconciler.sync(&last, Trust::Memory).expect("the kernel takes it");
        let monitor = Monitor::open(reconciler.kernel_mut().port_id()).expect("root");
        let (all, planning) = (Vec::new(), Vec::new());
        Self { size: (services, endpoints), snapshot, last, reconciler, _monitor: monitor, all, planning }
    }

    fn replace(&mut self, number: u32) {
        let new = Ipv4Addr::from(0x0c00_0000 + number);
        self.change(number, |others| others.chain([new]).map(Into::into).collect());
    }

    fn scale(&mut self, number: u32) {
        self.change(number, |others| others.map(Into::into).collect());
    }

    fn stand_out(&mut self, number: u32) {
        self.change(number / 2, |others| match number % 2 {
            0 => others.take(1).map(Into::into).collect(),
            _ => others.map(Into::into).collect(),
        });
    }

    /// Replaces the endpoints of one Service, based on all of its own but the first.
    fn change(&mut self, number: u32, endpoints: impl Fn(&mut dyn Iterator<Item = Ipv4Addr>) -> Vec<IpAddr>) {
        let service = number * 4 % self.size.0;
        let mut others = (1..self.size.1).map(|index| cluster::endpoint_address(service, index));
        let slices = cluster::slices(endpoints(&mut others).into_iter());
        self.snapshot.slices.insert(cluster::name(service), Arc::new(slices));
        let start = Instant::now();
        self.last = plan(&self.snapshot, &self.last, &PlanConfig::default());
        self.planning.push(start.elapsed());
        self.reconciler.sync(&self.last, Trust::Memory).expect("the kernel takes it");
        self.all.push(start.elapsed());
    }

    fn forget_times(&mut self) {
        self.all.clear();
        self.planning.clear();
    }

    fn row(&mut self) -> Vec<String> {
        self.all.sort_unstable();
        self.planning.sort_unstable();
        vec![
            self.size.0.to_string(),
            self.size.1.to_string(),
            microseconds(percentile(&self.all, 0.5)),
            microseconds(percentile(&self.all, 0.99)),
            microseconds(percentile(&self.planning, 0.5)),
        ]
    }
}
