//! The number of rules for few and for many Services of the same mix.

use portolan_dataplane::nft::{Nftables, NftablesKernel, TABLE};
use portolan_dataplane::{Reconciler, Trust, peers};
use portolan_kernel::nftables::Nftables as Handle;
use portolan_model::Family;
use portolan_plan::{Plan, PlanConfig, plan};

use crate::{cluster, table};

pub(crate) fn run() {
    std::thread::spawn(measure).join().expect("the part succeeds");
}

fn measure() {
    portolan_kernel::enter_new_network_namespace().expect("root is needed to make a network namespace");
    let rows = [10, 10_000].map(|services| {
        let plan = plan(&cluster::facts(services, 3), &Plan::default(), &PlanConfig::default());
        let mut reconciler = Reconciler::new(Nftables::new(14), NftablesKernel::open().expect("root"));
        reconciler.sync(&plan, Trust::Memory).expect("the kernel takes it");
        let rules = Handle::open().expect("root").rules(Family::V4, TABLE).expect("the kernel answers").len();
        assert!(peers::cleanup_own().is_complete(), "the table can go");
        vec![services.to_string(), rules.to_string()]
    });
    table::print("Rules in table ip portolan", &["Services", "rules"], &rows);
}
