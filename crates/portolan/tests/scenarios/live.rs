//! Scenarios with real packets: the objects are programmed on the lab's node, and the packets are sent.

use portolan_dataplane::mode::ActiveMode;
use portolan_dataplane::{SyncReport, Trust};
use portolan_plan::Plan;
use portolan_testkit::{Lab, PacketLine, Protocol, Scenario};

use crate::mode::Tested;
use crate::open::OpenConnections;

/// Programs each step and sends its packets. Returns the plan of the last step, which stays programmed.
pub(crate) fn check_steps(
    lab: &Lab,
    scenario: &Scenario,
    tested: Tested,
    active: &mut dyn ActiveMode,
) -> Result<Plan, String> {
    let plans = tested.plans(scenario, 1);
    let mut open = OpenConnections::new(lab, scenario)?;
    for (number, (step, plan)) in (1..).zip(scenario.steps.iter().zip(&plans)) {
        let in_step = |error: String| format!("step {number}: {error}");
        let report = program(lab, tested, active, plan).map_err(in_step)?;
        open.follow(&report, plan, active.listeners());
        let packets: Vec<PacketLine> = step.packets.iter().map(|line| tested.adapted(line)).collect();
        let packets = sendable(lab, scenario, &packets);
        lab.verify_all(&packets).map_err(in_step)?;
        open.check(lab, &step.open).map_err(in_step)?;
    }
    Ok(plans.into_iter().next_back().unwrap_or_default())
}

/// Syncs, and compares the kernel with the plan.
pub(crate) fn program(
    lab: &Lab,
    tested: Tested,
    active: &mut dyn ActiveMode,
    plan: &Plan,
) -> Result<SyncReport, String> {
    let synced = tested.run(lab, || {
        let report = active.sync(plan, Trust::Memory)?;
        active.verify(plan).map(|difference| (report, difference))
    });
    let (report, difference) = synced.map_err(|error| error.to_string())?;
    if difference.is_empty() { Ok(report) } else { Err(format!("the kernel differs:\n{}", difference.text)) }
}

/// All packets but those of a protocol that this kernel lacks; the output lists those. `make test-vm` sends them.
fn sendable(lab: &Lab, scenario: &Scenario, packets: &[PacketLine]) -> Vec<PacketLine> {
    let has_sctp = packets.iter().any(|line| line.protocol == Protocol::Sctp);
    if !has_sctp || lab.supports_sctp() {
        return packets.to_vec();
    }
    let sent: Vec<PacketLine> = packets.iter().filter(|line| line.protocol != Protocol::Sctp).cloned().collect();
    println!("{}: {} SCTP packets not sent: this kernel has no SCTP", scenario.name, packets.len() - sent.len());
    sent
}
