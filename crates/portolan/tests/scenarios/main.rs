//! Every scenario file, four times: as golden objects, by the tracers, on a failing kernel, and with real packets.
//! Beside them, the scenarios against the recorded rules of kube-proxy.

mod bench;
mod equivalence;
mod legacy;
mod live;
mod mode;
mod open;
mod shadow;
#[path = "../support/mod.rs"]
mod support;
mod takeover;

use bench::check_on_bench;
use mode::Tested;
use std::net::SocketAddr;

use portolan_dataplane::Trust;
use portolan_dataplane::mode::Synchronize;
use portolan_dataplane::tables::Variant;
use portolan_plan::{Candidate, Fate, Plan, Refusal, trace};
use portolan_testkit::{Expected, PacketLine, Scenario};
use support::{check_all, folder, for_each_scenario, packet, scenarios};

/// Only what the scenario's Services add to an empty node, so that each file shows only its own objects.
fn golden_text(tested: Tested, scenario: &Scenario) -> String {
    let last = tested.plans(scenario, 1).pop().unwrap_or_default();
    let mut empty = last.clone();
    empty.services = Default::default();
    tested.view(scenario).difference(&empty, &last).text
}

fn check_golden(tested: Tested) {
    let update = std::env::var_os("UPDATE_EXPECT").is_some();
    for_each_scenario(2, |scenario| {
        let text = golden_text(tested, scenario);
        let expected = scenario.golden.get(tested.name()).map_or("", String::as_str);
        if text == expected {
            return Ok(());
        }
        if update {
            let path = folder().join(format!("{}.txt", scenario.name));
            let text = scenario.with_golden(tested.name(), &text);
            return std::fs::write(&path, text).map_err(|error| error.to_string());
        }
        Err(format!("the objects differ (UPDATE_EXPECT=1 rewrites them); they are now:\n{text}"))
    });
}

/// One mode after the other, because their goldens are in the same files.
#[test]
fn objects_are_as_written() {
    mode::all().for_each(check_golden);
}

#[test]
fn plan_and_objects_send_packets_as_written() {
    mode::all().for_each(check_traces);
}

fn check_traces(tested: Tested) {
    for_each_scenario(2, |scenario| {
        let view = tested.view(scenario);
        let mut failures = Vec::new();
        for (step, plan) in scenario.steps.iter().zip(tested.plans(scenario, 1)) {
            let packets: Vec<PacketLine> = step.packets.iter().map(|line| tested.adapted(line)).collect();
            let traces = view.trace_all(&plan, &packets.iter().map(packet).collect::<Vec<_>>());
            for (line, met) in packets.iter().zip(traces) {
                let decided = trace(&plan, &packet(line)).fate;
                failures.extend(disagreement(line, &decided));
                if met.fate != decided {
                    let (number, name) = (line.line_number, tested.name());
                    failures.push(format!("line {number}: plan {decided}, but objects {} ({name})", met.fate));
                }
            }
        }
        if failures.is_empty() { Ok(()) } else { Err(failures.join("\n  ")) }
    });
}

fn disagreement(line: &PacketLine, fate: &Fate) -> Option<String> {
    let agrees = match (&line.expected, fate) {
        (Expected::Forward { endpoints, shares, masquerade }, Fate::Forward(candidates)) => {
            candidates.iter().all(|it| it.masquerade == *masquerade) && are_candidates(endpoints, shares, candidates)
        }
        (Expected::Reject(reason), Fate::Refuse(Refusal::Reject(other))) => *reason == other.to_string(),
        (Expected::Drop(reason), Fate::Refuse(Refusal::Drop(other))) => *reason == other.to_string(),
        (Expected::Pass, Fate::Pass) => true,
        _ => false,
    };
    (!agrees)
        .then(|| format!("line {}: {line}: expected {:?}, but the plan has {fate}", line.line_number, line.expected))
}

/// Endpoints with shares are slots of a pool, as many as their share demands.
fn are_candidates(endpoints: &[SocketAddr], shares: &[u32], candidates: &[Candidate]) -> bool {
    if shares.is_empty() {
        let mut expected = endpoints.to_vec();
        expected.sort();
        return candidates.iter().map(|it| it.endpoint).eq(expected);
    }
    let is_share = |(endpoint, share): (&SocketAddr, &u32)| {
        let slots = candidates.iter().filter(|it| it.endpoint == *endpoint).count();
        (slots * 1000).abs_diff(*share as usize * candidates.len()) <= 5 * candidates.len()
    };
    candidates.iter().all(|it| endpoints.contains(&it.endpoint)) && endpoints.iter().zip(shares).all(is_share)
}

/// One call in ten fails, and a failed write stops anywhere; after every step the kernel still holds exactly the plan.
#[test]
fn a_failing_kernel_ends_up_right() {
    mode::all().for_each(check_failing_kernel);
}

fn check_failing_kernel(tested: Tested) {
    for_each_scenario(2, |scenario| {
        let plans = tested.plans(scenario, 2);
        for seed in 1..=3 {
            let mut kernel = tested.on_failing_kernel(scenario, seed * 7919);
            for plan in &plans {
                sync_until_it_works(&mut *kernel, plan).map_err(|error| format!("seed {seed}: {error}"))?;
            }
        }
        Ok(())
    });
}

/// Also compares. Reads fail at random, too.
fn sync_until_it_works(kernel: &mut dyn Synchronize, plan: &Plan) -> Result<(), String> {
    let mut works = |_: &u32| kernel.sync(plan, Trust::Memory).is_ok_and(|report| report.failure.is_none());
    (0..100).find(&mut works).ok_or("a hundred syncs failed")?;
    let difference = (0..100).find_map(|_| kernel.verify(plan).ok()).ok_or("a hundred reads failed")?;
    if difference.is_empty() { Ok(()) } else { Err(format!("the kernel differs:\n{}", difference.text)) }
}

/// Twice the processors of a small machine: a worker mostly waits for packets.
const WORKERS: usize = 4;

/// Modes that this kernel lacks run in the VM: `make test-vm`.
#[test]
fn real_packets_go_as_written() {
    std::thread::scope(|scope| {
        for tested in mode::all() {
            match tested.mode.missing() {
                Some(missing) => println!("{} mode is left to the VM: {missing}", tested.name()),
                None => _ = scope.spawn(move || check_packets(scenarios(), tested)),
            }
        }
    });
}

/// The rules of a mode with hooks serve everything that meets none.
#[test]
fn real_packets_past_the_hooks_go_as_written() {
    let has_hooks = |tested: &Tested| tested.mode.missing().is_none() && tested.has_hooks();
    for tested in mode::all().filter(has_hooks) {
        check_packets(scenarios(), Tested { is_hooked: false, ..tested });
    }
}

/// The modes with iptables rules, in the legacy tables.
#[test]
fn real_packets_go_as_written_with_legacy_tables() {
    let has_tables = |tested: &Tested| tested.mode.missing().is_none() && tested.has_tables();
    for tested in mode::all().filter(has_tables) {
        check_packets(legacy::chosen(), Tested { variant: Variant::Legacy, ..tested });
    }
}

fn check_packets(scenarios: Vec<Scenario>, tested: Tested) {
    check_all(scenarios, WORKERS, || None, |bench, scenario| check_on_bench(bench, scenario, tested));
}
