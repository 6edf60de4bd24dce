//! ebpf mode in the real kernel with maps that are full most of the time: the hooks never know more than the rules.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::atomic::{AtomicBool, Ordering};

use portolan_dataplane::ebpf::{Ebpf, EbpfKernel, FrontendKey, Key, PoolName, Value};
use portolan_dataplane::nft::{Nftables, NftablesKernel};
use portolan_dataplane::{Objects, Observe, Reconciler, Trust, render, verify};
use portolan_plan::{Limits, Plan, PlanConfig, plan};
use portolan_testkit::Cgroup;

use crate::history::random::check;
use crate::history::{beginning, config, happen};
use crate::play::cases;

/// Most histories have more frontends and endpoints.
const ROOM: u32 = 6;

fn mode() -> Ebpf {
    Ebpf::new(Nftables::new(14))
}

/// A frontend that a hook finds has its whole pool, and is as the plan wants it.
fn assert_known(held: &Objects<Ebpf>, wanted: &Objects<Ebpf>) {
    let mut slots: BTreeMap<PoolName, u32> = BTreeMap::new();
    for key in held.0.keys() {
        if let Key::Slot { pool, .. } = key {
            *slots.entry(*pool).or_default() += 1;
        }
    }
    for (key, value) in &held.0 {
        let Value::Frontend(frontend) = value else { continue };
        assert_eq!(wanted.0.get(key), Some(value), "{key}");
        let size: u32 = frontend.pools.iter().map(|(_, size)| size).sum();
        let is_here = frontend.slots.len() == size as usize;
        let is_whole = |(pool, size): &(PoolName, u32)| slots.get(pool).copied().unwrap_or(0) == *size;
        assert!(is_here || frontend.pools.iter().all(is_whole), "{key}{value}");
        if let Key::Frontend(FrontendKey::Address(address)) = key {
            assert_ports_are_held(*address, held, wanted);
        }
    }
}

/// The entry of a whole address refuses all ports without an entry of their own.
fn assert_ports_are_held(address: IpAddr, held: &Objects<Ebpf>, wanted: &Objects<Ebpf>) {
    let is_port = |key: &&Key| matches!(key, Key::Frontend(FrontendKey::Vip(port, _)) if port.ip() == address);
    for key in wanted.0.keys().filter(is_port) {
        assert!(held.0.contains_key(key), "{key} is refused by the entry of {address}");
    }
}

/// The frontends that hooks do not find. The entry of a whole address is none.
fn missing(held: &Objects<Ebpf>, wanted: &Objects<Ebpf>) -> usize {
    let is_port = |key: &&Key| matches!(key, Key::Frontend(FrontendKey::Vip(..) | FrontendKey::NodePort(..)));
    wanted.0.keys().filter(is_port).filter(|key| !held.0.contains_key(key)).count()
}

#[test]
fn full_maps_leave_services_to_the_rules() {
    portolan_kernel::enter_new_network_namespace().expect("root is needed to make a network namespace");
    let cgroup = Cgroup::create().expect("cgroup v2 is mounted");
    let config = PlanConfig { limits: Limits { at_connect: true, ..Limits::default() }, ..config() };
    let was_full = AtomicBool::new(false);
    check(cases(60), |history, random| {
        let kernel = EbpfKernel::with_room(&cgroup.path().display().to_string(), ROOM).expect("maps can be created");
        let mut daemon = Reconciler::new(mode(), kernel);
        let (mut snapshot, mut last) = (beginning(), Plan::default());
        for (position, happening) in history.iter().enumerate() {
            happen(&mut snapshot, happening);
            last = plan(&snapshot, &last, &config);
            let trust = if random >> (position % 64) & 1 == 0 { Trust::Memory } else { Trust::Nothing };
            daemon.sync(&last, trust).expect("a full map is no error of a Service");
            let (held, wanted) = (daemon.kernel_mut().read().expect("maps can be read"), render(&mode(), &last));
            assert_known(&held, &wanted);
            let count = daemon.kernel().unaccelerated();
            assert_eq!(count, missing(&held, &wanted), "frontends that are not accelerated");
            was_full.fetch_or(count > 0, Ordering::Relaxed);
            let rules = &mut NftablesKernel::open().expect("the table can be opened");
            let difference = verify(&Nftables::new(14), rules, &last).expect("the table can be read");
            assert!(difference.is_empty(), "{difference}");
        }
    });
    assert!(was_full.into_inner(), "the histories are larger than the maps");
}
