//! Where a packet goes: the hooks' own instructions run over the entries, and whatever they pass on continues in the rules.

use std::net::{IpAddr, Ipv6Addr, SocketAddr};

use portolan_model::{Family, Protocol};
use portolan_plan::{Candidate, Fate, NodePlan, Packet, Reason, Refusal, Step, Trace};

use super::Ebpf;
use super::codec::{decode_key, encode_value, number};
use super::kernel::rules_in;
use super::machine::{self, Maps, Outcome, World};
use super::objects::{FrontendKey, Key, MapName, Value};
use super::programs::{constants, object};
use crate::walk::Rules;
use crate::{Objects, nft};

/// Any two numbers: the programs compare the namespace of a socket with that of the node.
const NODE: u64 = 1;
const POD: u64 = 2;

/// `struct bpf_sock_addr`
const CONTEXT_LENGTH: usize = 72;
const IP4: usize = 4;
const IP6: usize = 8;
const PORT: usize = 24;
const PROTOCOL: usize = 36;

pub(super) fn tracer<'a>(
    objects: &'a Objects<Ebpf>,
    foreign: &'a dyn Rules,
    node: &'a NodePlan,
) -> impl Fn(&Packet) -> Trace + 'a {
    let by_rules = nft::trace::tracer(rules_in(&objects.0), foreign, node);
    move |packet| trace(objects, node, packet, &by_rules)
}

fn trace(objects: &Objects<Ebpf>, node: &NodePlan, packet: &Packet, by_rules: impl Fn(&Packet) -> Trace) -> Trace {
    if !packet.is_from_socket || packet.protocol == Protocol::Sctp {
        return by_rules(packet);
    }
    let outcomes = match run(objects, node, packet) {
        Ok(outcomes) => outcomes,
        Err(because) => return ended(Vec::new(), Fate::Unknown { because }),
    };
    let steps = outcomes.first().map(|outcome| steps(packet, outcome)).unwrap_or_default();
    match fate(packet, &outcomes) {
        None => {
            let mut trace = by_rules(packet);
            trace.steps.splice(0..0, steps);
            trace
        }
        Some(Fate::Forward(candidates)) => forwarded(packet, candidates, steps, by_rules),
        Some(fate) => {
            let refused_by = matches!(fate, Fate::Refuse(_)).then(|| refusal_error(packet));
            Trace { refused_by, ..ended(steps, fate) }
        }
    }
}

/// A hook refuses the system call itself.
fn refusal_error(packet: &Packet) -> String {
    let call = if is_message(packet) { "sendmsg(2)" } else { "connect(2)" };
    format!("{call} fails with ECONNREFUSED")
}

fn ended(steps: Vec<Step>, fate: Fate) -> Trace {
    Trace { steps, fate, service: None, refused_by: None, notes: Vec::new() }
}

/// The packet has the endpoint as its destination from the start. Rules of other programs may still stop it.
fn forwarded(
    packet: &Packet,
    candidates: Vec<Candidate>,
    steps: Vec<Step>,
    by_rules: impl Fn(&Packet) -> Trace,
) -> Trace {
    for candidate in &candidates {
        let translated =
            Packet { destination: candidate.endpoint.ip(), port: candidate.endpoint.port(), ..packet.clone() };
        let mut trace = by_rules(&translated);
        if matches!(trace.fate, Fate::Stopped { .. } | Fate::Unknown { .. }) {
            trace.steps.splice(0..0, steps);
            return trace;
        }
    }
    ended(steps, Fate::Forward(candidates))
}

fn run(objects: &Objects<Ebpf>, node: &NodePlan, packet: &Packet) -> Result<Vec<Outcome>, String> {
    let object = object().map_err(|error| error.to_string())?;
    let rodata = constants(&object, NODE, true, &[]).map_err(|error| error.to_string())?;
    let netns_cookie = if node.owns(packet.source) { NODE } else { POD };
    let maps = Entries(objects);
    let world = World { object: &object, maps: &maps, rodata: &rodata, netns_cookie, cgroup: 0, now: 0 };
    let name = program(packet);
    let code = object.program(name).ok_or_else(|| format!("the hooks have no program {name}"))?;
    machine::run(&world, code, &context(packet)).map_err(|error| error.to_string())
}

/// Connected sockets of UDP are passed on, so that the unconnected ones are of interest.
fn is_message(packet: &Packet) -> bool {
    packet.protocol == Protocol::Udp
}

fn program(packet: &Packet) -> &'static str {
    match (is_message(packet), Family::of(packet.destination)) {
        (true, Family::V4) => "sendmsg4",
        (true, Family::V6) => "sendmsg6",
        (false, Family::V4) => "connect4",
        (false, Family::V6) => "connect6",
    }
}

fn context(packet: &Packet) -> Vec<u8> {
    let mut bytes = vec![0; CONTEXT_LENGTH];
    match packet.destination {
        IpAddr::V4(address) => bytes[IP4..IP4 + 4].copy_from_slice(&address.octets()),
        IpAddr::V6(address) => bytes[IP6..IP6 + 16].copy_from_slice(&address.octets()),
    }
    bytes[PORT..PORT + 2].copy_from_slice(&packet.port.to_be_bytes());
    bytes[PROTOCOL] = number(packet.protocol);
    bytes
}

fn destination(packet: &Packet, context: &[u8]) -> Option<SocketAddr> {
    let port = u16::from_be_bytes(*context.get(PORT..)?.first_chunk()?);
    let address: IpAddr = match Family::of(packet.destination) {
        Family::V4 => IpAddr::from(*context.get(IP4..)?.first_chunk::<4>()?),
        Family::V6 => Ipv6Addr::from(*context.get(IP6..)?.first_chunk::<16>()?).into(),
    };
    Some(SocketAddr::new(address, port))
}

/// `None` if the rules decide, in any of the branches.
fn fate(packet: &Packet, outcomes: &[Outcome]) -> Option<Fate> {
    if let Some(refused) = outcomes.iter().find(|outcome| outcome.returned == 0) {
        return Some(Fate::Refuse(Refusal::Reject(reason(refused))));
    }
    let original = SocketAddr::new(packet.destination, packet.port);
    let mut candidates = Vec::new();
    for outcome in outcomes {
        let endpoint = destination(packet, &outcome.context).filter(|endpoint| *endpoint != original)?;
        candidates.push(Candidate { endpoint, masquerade: false });
    }
    candidates.sort_unstable();
    Some(Fate::Forward(candidates))
}

fn reason(outcome: &Outcome) -> Reason {
    let is_address = |step: &machine::Step| match step {
        machine::Step::Found { map, key, .. } => {
            map == MapName::Frontends.name()
                && matches!(decode_key(MapName::Frontends, key), Some(Key::Frontend(FrontendKey::Address(_))))
        }
        _ => false,
    };
    if outcome.steps.iter().any(is_address) { Reason::UnknownPort } else { Reason::NoEndpoints }
}

/// The look-ups that found something.
fn steps(packet: &Packet, outcome: &Outcome) -> Vec<Step> {
    let hook = program(packet);
    let step = |step: &machine::Step| {
        let machine::Step::Found { map, key, value } = step else { return None };
        let map = MapName::ALL.into_iter().find(|name| name.name() == map)?;
        let (key, value) = super::codec::decode(map, key, value);
        Some(Step::new(format!("hook {hook}: {key}"), value.to_string().trim_start_matches(" : ").to_owned()))
    };
    outcome.steps.iter().filter_map(step).collect()
}

/// The entries as the programs look them up. Maps that only programs write are empty.
struct Entries<'a>(&'a Objects<Ebpf>);

impl Maps for Entries<'_> {
    fn lookup(&self, map: &str, key: &[u8]) -> Option<Vec<u8>> {
        let map = MapName::ALL.into_iter().find(|name| name.name() == map)?;
        let value = match decode_key(map, key)? {
            Key::Slot { pool, slot, .. } => {
                Family::BOTH.into_iter().find_map(|family| self.0.0.get(&Key::Slot { family, pool, slot }))
            }
            key => self.0.0.get(&key),
        };
        value.filter(|value| !matches!(value, Value::Rule(_))).map(encode_value)
    }
}

#[cfg(test)]
mod tests {
    use super::super::codec::octets;
    use super::*;

    #[test]
    fn a_context_keeps_its_destination() {
        for (destination_ip, protocol) in [("10.96.0.10", Protocol::Tcp), ("fd00::10", Protocol::Udp)] {
            let packet = Packet {
                source: destination_ip.parse().unwrap(),
                interface: None,
                destination: destination_ip.parse().unwrap(),
                port: 80,
                protocol,
                is_from_socket: true,
            };
            let found = destination(&packet, &context(&packet)).unwrap();
            assert_eq!((found.ip(), found.port()), (packet.destination, 80));
            assert_eq!(octets(found.ip()), octets(packet.destination));
        }
    }
}
