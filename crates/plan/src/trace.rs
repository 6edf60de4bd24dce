//! The path of a packet according to the plan alone: the reference for every mode.

use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use portolan_model::{Family, Protocol};

use crate::claims::Claim;
use crate::connect::AtConnect;
use crate::endpoint::Endpoint;
use crate::node::NodePlan;
use crate::plan::Plan;
use crate::service::{Frontend, FrontendAddress, PortKey, ServicePlan, is_even};
use crate::verdict::{Origin, Pool, Reason, Refusal, Verdict};

/// The first packet of a connection, as it reaches the node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Packet {
    pub source: IpAddr,
    /// The interface that the packet arrives on; `None` if the node itself sends it, or if the interface is unknown.
    pub interface: Option<Arc<str>>,
    pub destination: IpAddr,
    pub port: u16,
    pub protocol: Protocol,
    /// A socket of this node or of one of its pods sends it, so that hooks at connect(2) see it, in a mode that has them.
    pub is_from_socket: bool,
}

impl fmt::Display for Packet {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let destination = SocketAddr::new(self.destination, self.port);
        write!(formatter, "{} -> {destination}/{}", self.source, self.protocol)
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Trace {
    pub steps: Vec<Step>,
    pub fate: Fate,
    /// The Service port that decides, if any.
    pub service: Option<PortKey>,
    /// How a refusal reaches the client, where no packet is sent: as an error of its system call.
    pub refused_by: Option<String>,
    /// What limits the answer, such as rules of other programs that are not understood.
    pub notes: Vec<String>,
}

/// One step on the path of a packet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Step {
    /// What was matched: a decision, a rule, an element.
    pub met: String,
    /// Why it is there, or why it matters.
    pub because: String,
}

impl Step {
    pub fn new(met: impl Into<String>, because: impl Into<String>) -> Self {
        Self { met: met.into(), because: because.into() }
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fate {
    /// To one of these endpoints with equal probability, ordered by address.
    Forward(Vec<Candidate>),
    Refuse(Refusal),
    /// No Service is concerned.
    Pass,
    /// Dropped or rejected by a rule that belongs to no Service: of another program, or in a table in mid-change.
    Stopped {
        by: String,
    },
    /// A rule cannot be run.
    Unknown {
        because: String,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Candidate {
    pub endpoint: SocketAddr,
    pub masquerade: bool,
}

/// Each candidate once, with its share of new connections. The list has one entry for each slot, ordered by candidate.
pub fn shares(candidates: &[Candidate]) -> Vec<(Candidate, f64)> {
    let slots = candidates.len() as f64;
    candidates.chunk_by(|one, next| one == next).map(|same| (same[0], same.len() as f64 / slots)).collect()
}

impl fmt::Display for Fate {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Refuse(refusal) => write!(formatter, "{refusal}"),
            Self::Pass => formatter.write_str("pass"),
            Self::Stopped { by } => write!(formatter, "stopped by {by}"),
            Self::Unknown { because } => write!(formatter, "unknown: {because}"),
            Self::Forward(candidates) => {
                formatter.write_str("forward")?;
                let shares = shares(candidates);
                let is_even = is_even(shares.iter().map(|(_, share)| *share));
                for (candidate, share) in shares {
                    write!(formatter, " {}", candidate.endpoint)?;
                    if !is_even {
                        write!(formatter, " {:.1}%", share * 100.0)?;
                    }
                    formatter.write_str(if candidate.masquerade { " masquerade" } else { "" })?;
                }
                Ok(())
            }
        }
    }
}

pub fn trace(plan: &Plan, packet: &Packet) -> Trace {
    let mut steps = Vec::new();
    let origin = origin(&plan.node, packet, &mut steps);
    let Some(claim) = holder(plan, packet) else {
        let fate = unclaimed(plan, packet, &mut steps);
        return Trace { steps, fate, service: None, refused_by: None, notes: Vec::new() };
    };
    let fate = claimed(plan, packet, origin, &claim, &mut steps);
    Trace { steps, fate, service: Some(claim.holder), refused_by: None, notes: Vec::new() }
}

/// A frontend that refuses has no load balancer, so that a node port with the same number takes the packet.
fn holder(plan: &Plan, packet: &Packet) -> Option<Claim> {
    let claim = plan.holder(packet.destination, packet.port, packet.protocol)?;
    let has_balancer = |claim: &Claim| matches!(planned(plan, claim).1.routes.outside.verdict, Verdict::Forward(_));
    if plan.node.limits.load_balancers.is_none() || has_balancer(&claim) {
        return Some(claim);
    }
    let (family, port) = (claim.family, FrontendAddress::NodePort(packet.port));
    let is_served = plan.node.serves_node_ports(family, packet.destination);
    let node_port = plan.claims.holder(family, port, packet.protocol).filter(|_| is_served);
    Some(node_port.filter(has_balancer).unwrap_or(claim))
}

fn planned<'a>(plan: &'a Plan, claim: &Claim) -> (&'a ServicePlan, &'a Frontend) {
    let service = plan.services.get(&claim.holder).expect("a claim is inserted together with its plan");
    let frontend = service.frontends.iter().find(|frontend| frontend.address == claim.address);
    (service, frontend.expect("the holder of a claim has its frontend"))
}

fn origin(node: &NodePlan, packet: &Packet, steps: &mut Vec<Step>) -> Origin {
    let detector = node.family(Family::of(packet.source)).pods.as_ref();
    let is_pod = detector.is_some_and(|detector| detector.detects(packet.source, packet.interface.as_deref()));
    let (origin, because) = match (is_pod, node.owns(packet.source)) {
        (true, _) => (Origin::Pod, "the pod detector (--detect-local-mode) matches it"),
        (false, true) => (Origin::Node, "the address is one of the node's own"),
        (false, false) => (Origin::Outside, "neither a detected pod nor an address of the node"),
    };
    steps.push(Step::new(format!("{} is {origin}", packet.source), because));
    origin
}

/// The destination is no frontend. It may still be an address that is used by Services alone.
fn unclaimed(plan: &Plan, packet: &Packet, steps: &mut Vec<Step>) -> Fate {
    let ranges = &plan.node.family(Family::of(packet.destination)).service_ranges;
    let refusal = if plan.owns_address(packet.destination) {
        Refusal::Reject(Reason::UnknownPort)
    } else if ranges.iter().any(|range| range.contains(&packet.destination)) {
        Refusal::Drop(Reason::UnallocatedAddress)
    } else {
        steps.push(Step::new(format!("{} is no Service", packet.destination), "no Service has this address and port"));
        return Fate::Pass;
    };
    refuse(&plan.node, refusal, steps)
}

fn refuse(node: &NodePlan, refusal: Refusal, steps: &mut Vec<Step>) -> Fate {
    if node.limits.load_balancers.is_some() {
        steps.push(Step::new("no load balancer takes it", refusal.reason().in_words()));
        return Fate::Pass;
    }
    steps.push(Step::new(refusal.to_string(), refusal.reason().in_words()));
    Fate::Refuse(refusal)
}

fn claimed(plan: &Plan, packet: &Packet, origin: Origin, claim: &Claim, steps: &mut Vec<Step>) -> Fate {
    let (service, frontend) = planned(plan, claim);
    steps.push(Step::new(
        format!("{}/{} is a {} of {}", claim.address, packet.protocol, claim.kind, claim.holder),
        claim.kind.field(),
    ));
    if !is_allowed(frontend, packet.source) {
        return refuse(&plan.node, Refusal::Drop(Reason::SourceNotAllowed), steps);
    }
    if let Some(verdict) = at_connect(&plan.node, frontend, packet) {
        steps.push(Step::new("decided when the socket connects", "the source address is kept"));
        return decided_at_connect(&plan.node, verdict, service, steps);
    }
    let route = frontend.routes.from(origin);
    match route.verdict {
        Verdict::Refuse(refusal) => refuse(&plan.node, refusal, steps),
        Verdict::Forward(pool) => {
            let because = format!("traffic from {origin} to this {} uses the {pool} pool", claim.kind);
            let slots = service.pool(pool);
            let slot = service.balance.slot_of(packet.source, slots.len());
            let reached = slot.map_or(slots, |slot| &slots[slot..=slot]);
            let candidates = candidates(&plan.node, packet, route.masquerade, reached);
            steps.push(Step::new(one_of(&candidates, pool, slot.map(|slot| (slot, slots.len()))), because));
            Fate::Forward(candidates)
        }
    }
}

/// A client that a hash gives one slot of so many has no choice.
fn one_of(candidates: &[Candidate], pool: Pool, hashed: Option<(usize, usize)>) -> String {
    match hashed {
        Some((slot, slots)) => format!("slot {slot} of {slots} of the {pool} pool, by a hash of the client"),
        None => format!("one of {} endpoints of the {pool} pool", shares(candidates).len()),
    }
}

/// The decision of a hook, for a packet that one sees.
fn at_connect(node: &NodePlan, frontend: &Frontend, packet: &Packet) -> Option<Verdict> {
    let AtConnect { pod, node: of_node } = frontend.at_connect;
    if node.owns(packet.source) { of_node } else { pod }.filter(|_| packet.is_from_socket)
}

fn decided_at_connect(node: &NodePlan, verdict: Verdict, service: &ServicePlan, steps: &mut Vec<Step>) -> Fate {
    match verdict {
        Verdict::Refuse(refusal) => refuse(node, refusal, steps),
        Verdict::Forward(pool) => {
            let candidate = |endpoint: &Endpoint| Candidate { endpoint: endpoint.socket(), masquerade: false };
            let mut candidates: Vec<Candidate> = service.pool(pool).iter().map(candidate).collect();
            candidates.sort_unstable();
            steps.push(Step::new(one_of(&candidates, pool, None), ""));
            Fate::Forward(candidates)
        }
    }
}

fn is_allowed(frontend: &Frontend, source: IpAddr) -> bool {
    frontend.sources.as_ref().is_none_or(|ranges| ranges.iter().any(|range| range.contains(&source)))
}

/// Relayed traffic comes from the node. Traffic of a pod to itself is always masqueraded, or the pod would reply to
/// itself directly. Traffic from elsewhere that ends on the node is never masqueraded: the kernel masquerades only
/// packets that leave. A load balancer of a virtual switch treats all packets alike.
fn candidates(node: &NodePlan, packet: &Packet, masquerade: bool, pool: &[Endpoint]) -> Vec<Candidate> {
    let is_hairpin = |endpoint: &Endpoint| endpoint.may_be_here && endpoint.address == packet.source;
    let leaves = |endpoint: &Endpoint| node.owns(packet.source) || !node.owns(endpoint.address);
    let is_balanced = node.limits.load_balancers.is_some();
    let candidate = |endpoint: &Endpoint| Candidate {
        endpoint: endpoint.socket(),
        masquerade: if is_balanced {
            masquerade
        } else {
            node.limits.relayed || (masquerade || is_hairpin(endpoint)) && leaves(endpoint)
        },
    };
    let mut candidates: Vec<Candidate> = pool.iter().map(candidate).collect();
    candidates.sort_unstable();
    candidates
}
