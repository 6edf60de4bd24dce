//! Every scenario file, four times: as golden objects, by the tracers, on a kernel that fails, and with real packets.

mod likeness;
mod live;
mod mode;
mod shadow;
#[path = "../support/mod.rs"]
mod support;
mod takeover;

use std::sync::Arc;

use live::check_packets;
use mode::Mode;
use portolan_dataplane::fake::FakeKernel;
use portolan_dataplane::iptables::{Iptables, IptablesKernel};
use portolan_dataplane::ipvs::Ipvs;
use portolan_dataplane::nftables::{Nftables, NftablesKernel};
use portolan_dataplane::tables::Variant;
use portolan_dataplane::userspace::{Listeners, RelayLimits, Userspace, UserspaceKernel};
use portolan_dataplane::{Change, Error, Reconciler, Trust, render};
use portolan_plan::{Fate, Plan, Refusal, trace};
use portolan_testkit::{Expected, Lab, PacketLine};
use support::{Session, folder, for_each_scenario, packet};

/// Only what the scenario's Services add to an empty node, so that each file shows its own point.
fn golden_text<M: Mode>(session: &Session) -> String {
    let mode = M::make(session.masquerade_bit);
    let mut empty = session.plan.clone();
    empty.services = Default::default();
    Change::between(render(&mode, &empty), render(&mode, &session.plan)).to_string()
}

fn check_golden<M: Mode>() {
    let update = std::env::var_os("UPDATE_EXPECT").is_some();
    for_each_scenario(2, |scenario| {
        let mut session = M::session(scenario);
        for step in &scenario.steps {
            session.step(&scenario.name, &step.objects);
        }
        let text = golden_text::<M>(&session);
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

/// One after the other, because they are written into the same files.
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
        let mut session = M::session(scenario);
        let mode = M::make(session.masquerade_bit);
        let mut failures = Vec::new();
        for step in &scenario.steps {
            let plan = session.step(&scenario.name, &step.objects).clone();
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
        for seed in 1..=3 {
            let mut session = M::session(scenario);
            let mode = M::make(session.masquerade_bit);
            let mut reconciler = Reconciler::new(mode, FakeKernel::failing(10, seed * 7919));
            for _ in 0..2 {
                for step in &scenario.steps {
                    let plan = session.step(&scenario.name, &step.objects).clone();
                    sync_until_it_works(&mut reconciler, &plan)?;
                    let wanted = render(reconciler.dataplane(), &plan);
                    if reconciler.kernel_mut().objects != wanted {
                        return Err(format!("seed {seed}: the kernel holds something else"));
                    }
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
    Err("a hundred tries were not enough".into())
}

#[test]
fn real_packets_go_as_written_in_nftables_mode() {
    check_on_new_labs::<Nftables>(NftablesKernel::open);
}

#[test]
fn real_packets_go_as_written_in_iptables_mode() {
    check_on_new_labs::<Iptables>(|| IptablesKernel::open(Variant::Nft));
}

#[test]
fn real_packets_go_as_written_in_iptables_mode_of_old() {
    check_on_new_labs::<Iptables>(|| IptablesKernel::open(Variant::Legacy));
}

#[test]
fn real_packets_go_as_written_in_userspace_mode() {
    check_on_new_labs::<Userspace>(|| open_userspace(Variant::Nft));
}

#[test]
fn real_packets_go_as_written_in_userspace_mode_of_old() {
    check_on_new_labs::<Userspace>(|| open_userspace(Variant::Legacy));
}

fn open_userspace(variant: Variant) -> Result<UserspaceKernel, Error> {
    UserspaceKernel::open(variant, Arc::new(Listeners::open(RelayLimits::default())?))
}

fn check_on_new_labs<M: Mode>(open: impl Fn() -> Result<M::Kernel, Error> + Sync) {
    for_each_scenario(4, |scenario| {
        let lab = Lab::new().map_err(|error| error.to_string())?;
        check_packets::<M>(&lab, scenario, &open)
    });
}
