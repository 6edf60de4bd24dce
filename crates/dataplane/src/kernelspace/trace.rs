//! A packet through the objects: which load balancer takes it, which endpoints it can reach, and what source they see.

use std::net::SocketAddr;

use portolan_model::Family;
use portolan_plan::{Candidate, Fate, NodePlan, Packet, Step, Trace};

use super::Kernelspace;
use super::objects::{Balancer, Front, Key, Target, Value};
use crate::Objects;

pub(super) fn trace(objects: &Objects<Kernelspace>, node: &NodePlan, packet: &Packet) -> Trace {
    let mut steps = Vec::new();
    let fate = match taken_by(objects, node, packet) {
        Some((key, balancer)) => {
            steps.push(Step::new(key.to_string(), "the virtual switch translates what is sent to its front end"));
            forwarded(balancer, &mut steps)
        }
        None => {
            steps.push(Step::new("no load balancer takes it", "none has this address, port and protocol"));
            Fate::Pass
        }
    };
    Trace { steps, fate, service: None, refused_by: None, notes: Vec::new() }
}

/// The load balancer of the address itself, or else that of the node port.
fn taken_by<'a>(objects: &'a Objects<Kernelspace>, node: &NodePlan, packet: &Packet) -> Option<(Key, &'a Balancer)> {
    let family = Family::of(packet.destination);
    let front = |address| Front { family, protocol: packet.protocol, address, port: packet.port };
    let own = front(Some(packet.destination));
    let of_node = node.serves_node_ports(family, packet.destination).then(|| front(None));
    let keys = [Key::Balancer(own), Key::HealthCheck(own)].into_iter().chain(of_node.map(Key::Balancer));
    keys.into_iter().find_map(|key| match objects.0.get(&key) {
        Some(Value::Balancer(balancer)) => Some((key, balancer)),
        _ => None,
    })
}

fn forwarded(balancer: &Balancer, steps: &mut Vec<Step>) -> Fate {
    let masquerade = !balancer.keeps_source();
    let mut candidates = Vec::new();
    for target in &balancer.targets {
        match target {
            Target::Address(address) => {
                let endpoint = SocketAddr::new(*address, balancer.target_port);
                candidates.push(Candidate { endpoint, masquerade });
            }
            Target::Named(name) => {
                steps.push(Step::new(format!("endpoint {name}"), "it leads to the node itself"));
                return Fate::Pass;
            }
            Target::Unknown(id) => {
                return Fate::Unknown {
                    because: format!("the load balancer names {id}, which is no endpoint of the network"),
                };
            }
        }
    }
    let because = match masquerade {
        true => "it sees an address of this node as the source",
        false => "it sees the client's own address, and answers it directly (DSR)",
    };
    steps.push(Step::new(format!("one of {} endpoints", candidates.len()), because));
    candidates.sort_unstable();
    Fate::Forward(candidates)
}
