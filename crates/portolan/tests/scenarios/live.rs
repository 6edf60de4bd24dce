//! Scenarios with real packets: the objects are programmed on the lab's node, and the packets are sent.

use portolan_dataplane::{Change, Observe, Reconciler, Trust, render};
use portolan_plan::Plan;
use portolan_testkit::{Lab, PacketLine, Protocol, Scenario, topology};

use crate::mode::Mode;

/// Programs each step and sends its packets. Returns the plan of the last step, which stays programmed.
pub(crate) fn check_steps<M: Mode>(
    lab: &Lab,
    scenario: &Scenario,
    reconciler: &mut Reconciler<M, M::Kernel>,
) -> Result<Plan, String> {
    let plans = M::plans(scenario, 1);
    for (number, (step, plan)) in (1..).zip(scenario.steps.iter().zip(&plans)) {
        program(lab, reconciler, plan).map_err(|error| format!("step {number}: {error}"))?;
        let packets: Vec<PacketLine> = step.packets.iter().map(M::adapted).collect();
        let packets = sendable(lab, scenario, &packets);
        lab.verify_all(&packets).map_err(|error| format!("step {number}: {error}"))?;
    }
    Ok(plans.into_iter().next_back().unwrap_or_default())
}

/// Syncs, and compares the kernel with the plan.
pub(crate) fn program<M: Mode>(
    lab: &Lab,
    reconciler: &mut Reconciler<M, M::Kernel>,
    plan: &Plan,
) -> Result<(), String> {
    let node = lab.host(topology::NODE);
    let held = node.run(|| reconciler.sync(plan, Trust::Memory).and_then(|_| reconciler.kernel_mut().read()));
    let held = held.map_err(|error| error.to_string())?;
    let difference = Change::between(held, render(reconciler.dataplane(), plan));
    if difference.is_empty() { Ok(()) } else { Err(format!("the kernel differs:\n{difference}")) }
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
