//! Where a packet goes by the objects alone: the simulation, run once for every slot that a draw can give.

use portolan_plan::{Candidate, Fate, NodePlan, Packet, Refusal, Step, Trace};

use super::Nftables;
use super::chains::refusal_name;
use super::simulate::{End, Simulation};
use crate::Objects;

pub(super) fn trace(objects: &Objects<Nftables>, node: &NodePlan, packet: &Packet) -> Trace {
    let (first, end, steps, slots) = run(objects, node, packet, 0);
    let fate = match end {
        End::Accept => match first {
            None => Fate::Pass,
            Some(first) => {
                let others = (1..slots.unwrap_or(1)).filter_map(|draw| run(objects, node, packet, draw).0);
                let mut candidates: Vec<Candidate> = [first].into_iter().chain(others).collect();
                candidates.sort_unstable();
                Fate::Forward(candidates)
            }
        },
        End::Drop(chain) | End::Reject(chain) => refusal(&chain),
    };
    Trace { steps, fate, service: None }
}

type Run = (Option<Candidate>, End, Vec<Step>, Option<u32>);

fn run(objects: &Objects<Nftables>, node: &NodePlan, packet: &Packet, draw: u32) -> Run {
    let mut simulation = Simulation::new(objects, node, packet, draw);
    let end = simulation.run();
    let candidate = simulation
        .destination()
        .map(|destination| Candidate { endpoint: destination.into(), masquerade: simulation.masqueraded });
    (candidate, end, simulation.steps, simulation.slots)
}

/// A chain that refuses is named after its reason. A packet that dies anywhere else met a table in mid-change or a
/// foreign rule, and passes for our purposes: no Service asked for that.
fn refusal(chain: &str) -> Fate {
    Refusal::ALL.into_iter().find(|refusal| *refusal_name(*refusal) == *chain).map_or(Fate::Pass, Fate::Refuse)
}
