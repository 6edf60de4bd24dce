//! Every scenario file, four times: as golden objects, by the tracers, on a kernel that fails, and with real packets.
//! Beside them, the scenarios against the recorded rules of kube-proxy.

mod bench;
mod legacy;
mod likeness;
mod live;
mod mode;
mod shadow;
#[path = "../support/mod.rs"]
mod support;
mod takeover;

use std::sync::Arc;

use bench::check_on_bench;
use mode::Mode;
use portolan_dataplane::fake::FakeKernel;
use portolan_dataplane::iptables::{Iptables, IptablesKernel};
use portolan_dataplane::ipvs::Ipvs;
use portolan_dataplane::nftables::{Nftables, NftablesKernel};
use portolan_dataplane::tables::Variant;
use portolan_dataplane::userspace::{Listeners, RelayLimits, Userspace, UserspaceKernel};
use portolan_dataplane::{Change, Error, Reconciler, Trust, render};
use portolan_plan::{Fate, Plan, Refusal, trace};
use portolan_testkit::{Expected, PacketLine, Scenario};
use support::{check_all, folder, for_each_scenario, packet, scenarios};

/// Only what the scenario's Services add to an empty node, so that each file shows its own point.
fn golden_text<M: Mode>(scenario: &Scenario) -> String {
    let mode = M::make(M::session(scenario).masquerade_bit);
    let last = M::plans(scenario, 1).pop().unwrap_or_default();
    let mut empty = last.clone();
    empty.services = Default::default();
    Change::between(render(&mode, &empty), render(&mode, &last)).to_string()
}

fn check_golden<M: Mode>() {
    let update = std::env::var_os("UPDATE_EXPECT").is_some();
    for_each_scenario(2, |scenario| {
        let text = golden_text::<M>(scenario);
        let expected = scenario.golden.get(M::NAME).map_or("", String::as_str);
        if text == expected {
            return Ok(());
        }
        if update {
            let path = folder().join(format!("{}.txt", scenario.name));
            return std::fs::write(&path, scenario.with_golden(M::NAME, &text)).map_err(|error| error.to_string());
        }
        Err(format!("the objects differ (UPDATE_EXPECT=1 rewrites them); they are now:\n{text}"))
    });
}

/// One mode after the other, because their goldens are in the same files.
#[test]
fn objects_are_as_written() {
    check_golden::<Nftables>();
    check_golden::<Iptables>();
    check_golden::<Userspace>();
    check_golden::<Ipvs>();
}

#[test]
fn plan_and_objects_send_packets_as_written() {
    check_traces::<Nftables>();
    check_traces::<Iptables>();
    check_traces::<Userspace>();
    check_traces::<Ipvs>();
}

fn check_traces<M: Mode>() {
    for_each_scenario(2, |scenario| {
        let mode = M::make(M::session(scenario).masquerade_bit);
        let mut failures = Vec::new();
        for (step, plan) in scenario.steps.iter().zip(M::plans(scenario, 1)) {
            let objects = render(&mode, &plan);
            for line in &step.packets {
                let line = &M::adapted(line);
                let decided = trace(&plan, &packet(line)).fate;
                failures.extend(disagreement(line, &decided));
                let met = mode.trace(&objects, &plan.node, &packet(line)).fate;
                if met != decided {
                    failures.push(format!(
                        "line {}: plan {decided}, but objects {met} ({})",
                        line.line_number,
                        M::NAME
                    ));
                }
            }
        }
        if failures.is_empty() { Ok(()) } else { Err(failures.join("\n  ")) }
    });
}

fn disagreement(line: &PacketLine, fate: &Fate) -> Option<String> {
    let agrees = match (&line.expected, fate) {
        (Expected::Forward { endpoints, masquerade }, Fate::Forward(candidates)) => {
            let mut expected = endpoints.clone();
            expected.sort();
            candidates.iter().map(|it| it.endpoint).eq(expected)
                && candidates.iter().all(|it| it.masquerade == *masquerade)
        }
        (Expected::Reject(reason), Fate::Refuse(Refusal::Reject(other))) => *reason == other.to_string(),
        (Expected::Drop(reason), Fate::Refuse(Refusal::Drop(other))) => *reason == other.to_string(),
        (Expected::Pass, Fate::Pass) => true,
        _ => false,
    };
    (!agrees)
        .then(|| format!("line {}: {line}: expected {:?}, but the plan says {fate}", line.line_number, line.expected))
}

/// One call in ten fails; after every step the kernel still ends up with exactly what the plan asks.
#[test]
fn a_failing_kernel_ends_up_right() {
    check_failing_kernel::<Nftables>();
    check_failing_kernel::<Iptables>();
    check_failing_kernel::<Userspace>();
    check_failing_kernel::<Ipvs>();
}

fn check_failing_kernel<M: Mode>() {
    for_each_scenario(2, |scenario| {
        let masquerade_bit = M::session(scenario).masquerade_bit;
        let plans = M::plans(scenario, 2);
        let wanted: Vec<_> = plans.iter().map(|plan| render(&M::make(masquerade_bit), plan)).collect();
        for seed in 1..=3 {
            let mut reconciler = Reconciler::new(M::make(masquerade_bit), FakeKernel::failing(10, seed * 7919));
            for (plan, wanted) in plans.iter().zip(&wanted) {
                sync_until_it_works(&mut reconciler, plan)?;
                if reconciler.kernel_mut().objects != *wanted {
                    return Err(format!("seed {seed}: the kernel differs from the plan"));
                }
            }
        }
        Ok(())
    });
}

fn sync_until_it_works<M: Mode>(reconciler: &mut Reconciler<M, FakeKernel<M>>, plan: &Plan) -> Result<(), String> {
    for _ in 0..100 {
        if reconciler.sync(plan, Trust::Memory).is_ok() {
            return Ok(());
        }
    }
    Err("a hundred syncs failed".into())
}

/// Twice the processors of a small machine: a worker spends most of its time waiting for packets.
const WORKERS: usize = 4;

#[test]
fn real_packets_go_as_written_in_nftables_mode() {
    check_packets::<Nftables>(scenarios(), NftablesKernel::open);
}

#[test]
fn real_packets_go_as_written_in_iptables_mode() {
    check_packets::<Iptables>(scenarios(), || IptablesKernel::open(Variant::Nft));
}

#[test]
fn real_packets_go_as_written_in_iptables_mode_with_legacy_tables() {
    check_packets::<Iptables>(legacy::chosen(), || IptablesKernel::open(Variant::Legacy));
}

#[test]
fn real_packets_go_as_written_in_userspace_mode() {
    check_packets::<Userspace>(scenarios(), || open_userspace(Variant::Nft));
}

#[test]
fn real_packets_go_as_written_in_userspace_mode_with_legacy_tables() {
    check_packets::<Userspace>(legacy::chosen(), || open_userspace(Variant::Legacy));
}

fn open_userspace(variant: Variant) -> Result<UserspaceKernel, Error> {
    UserspaceKernel::open(variant, Arc::new(Listeners::open(RelayLimits::default())?))
}

fn check_packets<M: Mode>(scenarios: Vec<Scenario>, open: impl Fn() -> Result<M::Kernel, Error> + Sync) {
    check_all(scenarios, WORKERS, || None, |bench, scenario| check_on_bench::<M>(bench, scenario, &open));
}
