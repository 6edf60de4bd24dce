//! A scenario with real packets: its objects programmed on the lab's node, its packets really sent.

use portolan_dataplane::{Error, Reconciler, Trust, verify};
use portolan_testkit::{Lab, PacketLine, Protocol, Scenario, topology};

use crate::mode::Mode;

/// The kernel is opened on a thread of the lab's node.
pub(crate) fn check_packets<M: Mode>(
    lab: &Lab,
    scenario: &Scenario,
    open: &(impl Fn() -> Result<M::Kernel, Error> + Sync),
) -> Result<(), String> {
    let kernel = lab.host(topology::NODE).run(open).map_err(|error| error.to_string())?;
    let masquerade_bit = M::session(scenario).masquerade_bit;
    check_steps(lab, scenario, &mut Reconciler::new(M::make(masquerade_bit), kernel))
}

/// Whatever the reconciler has programmed before is replaced.
pub(crate) fn check_steps<M: Mode>(
    lab: &Lab,
    scenario: &Scenario,
    reconciler: &mut Reconciler<M, M::Kernel>,
) -> Result<(), String> {
    let node = lab.host(topology::NODE);
    let mut session = M::session(scenario);
    for (number, step) in (1..).zip(&scenario.steps) {
        let plan = session.step(&scenario.name, &step.objects).clone();
        node.run(|| reconciler.sync(&plan, Trust::Memory)).map_err(|error| format!("step {number}: {error}"))?;
        let mode = M::make(session.masquerade_bit);
        let difference =
            node.run(|| verify(&mode, reconciler.kernel_mut(), &plan)).map_err(|error| error.to_string())?;
        if !difference.is_empty() {
            return Err(format!("step {number}: the kernel differs:\n{difference}"));
        }
        let packets: Vec<PacketLine> = step.packets.iter().map(M::adapted).collect();
        let packets = sendable(lab, scenario, &packets);
        lab.verify_all(&packets).map_err(|error| format!("step {number}: {error}"))?;
    }
    Ok(())
}

/// All packets but those of a protocol that this kernel does not have; which ones is said, not hidden. `make test-vm` sends
/// them.
fn sendable(lab: &Lab, scenario: &Scenario, packets: &[PacketLine]) -> Vec<PacketLine> {
    let can_send = |line: &&PacketLine| line.protocol != Protocol::Sctp || lab.supports_sctp();
    let sent: Vec<PacketLine> = packets.iter().filter(can_send).cloned().collect();
    if sent.len() < packets.len() {
        println!("{}: {} SCTP packets not sent: this kernel has no SCTP", scenario.name, packets.len() - sent.len());
    }
    sent
}
