//! Random histories of a cluster: whatever happened before, the kernel ends up with the plan of the last state.

use std::sync::Arc;

use portolan_dataplane::fake::FakeKernel;
use portolan_dataplane::iptables::{Iptables, IptablesKernel};
use portolan_dataplane::nftables::{Nftables, NftablesKernel};
use portolan_dataplane::tables::Variant;
use portolan_dataplane::userspace::{Listeners, RelayLimits, Userspace, UserspaceKernel};
use portolan_dataplane::{Dataplane, Observe, Program, Reconciler, Trust, render};
use portolan_plan::{Limits, Plan, PlanConfig, plan};
use proptest::prelude::*;

use crate::history::{Happening, beginning, config, happen, history};

/// Plays a history with one sync per happening, and gives the last plan.
fn play<D: Dataplane, K: Program<D>>(history: &[Happening], reconciler: &mut Reconciler<D, K>) -> Plan {
    play_with(&config(), history, reconciler)
}

fn play_with<D: Dataplane, K: Program<D>>(
    config: &PlanConfig,
    history: &[Happening],
    reconciler: &mut Reconciler<D, K>,
) -> Plan {
    let (mut snapshot, mut last) = (beginning(), Plan::default());
    for happening in history {
        happen(&mut snapshot, happening);
        last = plan(&snapshot, &last, config);
        sync(reconciler, &last);
    }
    last
}

/// A kernel that fails now and then is tried again; one that always fails has a reason to tell.
fn sync<D: Dataplane, K: Program<D>>(reconciler: &mut Reconciler<D, K>, plan: &Plan) {
    for attempt in 1.. {
        match reconciler.sync(plan, Trust::Memory) {
            Ok(_) => return,
            Err(error) => assert!(attempt < 100, "{error}"),
        }
    }
}

/// HISTORIES=10 for a slow machine.
fn cases(usual: u32) -> u32 {
    std::env::var("HISTORIES").ok().and_then(|text| text.parse().ok()).unwrap_or(usual)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: cases(2000), failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_failing_kernel_ends_up_with_the_plan(history in history(), seed in any::<u64>()) {
        let mut reconciler = Reconciler::new(Nftables::new(14), FakeKernel::failing(10, seed));
        let last = play(&history, &mut reconciler);
        prop_assert!(reconciler.kernel_mut().objects == render(&Nftables::new(14), &last));
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: cases(500), failure_persistence: None, ..ProptestConfig::default() })]

    /// The real kernel keeps its table from one history to the next, as a restarted daemon would find it.
    #[test]
    fn the_real_kernel_ends_up_with_the_plan(history in history()) {
        in_private_namespace();
        let mut reconciler = Reconciler::new(Nftables::new(14), NftablesKernel::open().unwrap());
        let last = play(&history, &mut reconciler);
        let held = reconciler.kernel_mut().read().unwrap();
        prop_assert!(held == render(&Nftables::new(14), &plan(last.facts(), &Plan::default(), &config())));
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: cases(100), failure_persistence: None, ..ProptestConfig::default() })]

    /// The same in both variants of iptables, whose programs take their time.
    #[test]
    fn iptables_end_up_with_the_plan(history in history(), is_legacy in any::<bool>()) {
        in_private_namespace();
        let variant = if is_legacy { Variant::Legacy } else { Variant::Nft };
        let mut reconciler = Reconciler::new(Iptables::new(14), IptablesKernel::open(variant).unwrap());
        let last = play(&history, &mut reconciler);
        let held = reconciler.kernel_mut().read().unwrap();
        prop_assert!(held == render(&Iptables::new(14), &plan(last.facts(), &Plan::default(), &config())));
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: cases(50), failure_persistence: None, ..ProptestConfig::default() })]

    /// Every process finds the rules of the one before, which has ended with its listeners.
    #[test]
    fn rules_and_listeners_end_up_with_the_plan(history in history()) {
        in_private_namespace();
        let config = PlanConfig { limits: Limits { relayed: true, ..Limits::default() }, ..config() };
        let listeners = Arc::new(Listeners::open(RelayLimits::default()).unwrap());
        let kernel = UserspaceKernel::open(Variant::Nft, listeners).unwrap();
        let mut reconciler = Reconciler::new(Userspace, kernel);
        let last = play_with(&config, &history, &mut reconciler);
        let held = reconciler.kernel_mut().read().unwrap();
        prop_assert!(held == render(&Userspace, &plan(last.facts(), &Plan::default(), &config)));
    }
}

/// Enters a namespace of its own once for each thread that tests.
fn in_private_namespace() {
    use std::cell::OnceCell;
    thread_local!(static ENTERED: OnceCell<()> = const { OnceCell::new() });
    let enter = || portolan_kernel::enter_new_network_namespace().expect("root is needed to make a network namespace");
    ENTERED.with(|entered| *entered.get_or_init(enter));
}
