//! The kernel's part, played in memory: rules and map elements are really run on a packet.
//!
//! This is no second opinion about Services. It knows expressions, registers and lookups, and nothing of what they are
//! for, so that it finds out when a rule or an element does not do what the plan says.

use std::net::IpAddr;

use portolan_kernel::nftables::{
    ConntrackKey, Expression, FibAddress, HookPoint, MetaKey, Operator, PayloadBase, Register, Verdict,
};
use portolan_model::Family;
use portolan_plan::{NodePlan, Packet, Step};

use super::Nftables;
use super::codec::{decode_endpoint, encode_dispatch_key};
use super::elements::{ElementKey, SourceKey, octets};
use super::kinds::concatenated_length;
use super::objects::{Chain, Key, Value, verdict_text};
use super::sets::SetName;
use crate::Objects;

/// A packet on its way through the table.
pub(super) struct Simulation<'a> {
    objects: &'a Objects<Nftables>,
    node: &'a NodePlan,
    family: Family,
    packet: Packet,
    original: (IpAddr, u16),
    translated: bool,
    mark: u32,
    /// Which slot every draw gives.
    draw: u32,
    /// How many slots the last draw had.
    pub(super) slots: Option<u32>,
    pub(super) masqueraded: bool,
    pub(super) steps: Vec<Step>,
    registers: [u8; 64],
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum End {
    /// The rules let it pass, to wherever it is going now.
    Accept,
    /// Refused in this chain.
    Drop(String),
    Reject(String),
}

/// What one rule, or one chain, says.
enum Outcome {
    NoMatch,
    Matched,
    Return,
    End(End),
}

const RTN_UNICAST: u32 = 1;
const RTN_LOCAL: u32 = 2;
const STATE_NEW: u32 = 8;
const STATUS_DNAT: u32 = 32;
const DIRECTION_ORIGINAL: u8 = 0;

impl<'a> Simulation<'a> {
    pub(super) fn new(objects: &'a Objects<Nftables>, node: &'a NodePlan, packet: &Packet, draw: u32) -> Self {
        Self {
            objects,
            node,
            family: Family::of(packet.destination),
            packet: packet.clone(),
            original: (packet.destination, packet.port),
            translated: false,
            mark: 0,
            draw,
            slots: None,
            masqueraded: false,
            steps: Vec::new(),
            registers: [0; 64],
        }
    }

    /// Where the packet goes now.
    pub(super) fn destination(&self) -> Option<(IpAddr, u16)> {
        self.translated.then_some((self.packet.destination, self.packet.port))
    }

    pub(super) fn run(&mut self) -> End {
        let is_sent_here = self.node.owns(self.packet.source);
        let first = if is_sent_here { HookPoint::Output } else { HookPoint::Prerouting };
        match self.run_hook(first) {
            End::Accept if is_sent_here || !self.node.owns(self.packet.destination) => {
                self.run_hook(HookPoint::Postrouting)
            }
            End::Accept => self.run_hook(HookPoint::Input),
            refusal => refusal,
        }
    }

    fn run_hook(&mut self, point: HookPoint) -> End {
        for name in self.base_chains(point) {
            match self.run_chain(&name) {
                Outcome::End(End::Accept) | Outcome::NoMatch | Outcome::Matched | Outcome::Return => {}
                Outcome::End(refusal) => return refusal,
            }
        }
        End::Accept
    }

    /// The chains at one hook, in the order of their priorities.
    fn base_chains(&self, point: HookPoint) -> Vec<String> {
        let mut chains: Vec<(i32, String)> = self
            .objects
            .0
            .iter()
            .filter_map(|(key, value)| match (key, value) {
                (Key::Chain(family, name), Value::Chain(chain)) if *family == self.family => {
                    let hook = chain.hook.as_ref().filter(|hook| hook.point == point)?;
                    Some((hook.priority, name.to_string()))
                }
                _ => None,
            })
            .collect();
        chains.sort();
        chains.into_iter().map(|(_, name)| name).collect()
    }

    fn chain(&self, name: &str) -> Option<&'a Chain> {
        match self.objects.0.get(&Key::Chain(self.family, name.into()))? {
            Value::Chain(chain) => Some(chain),
            _ => None,
        }
    }

    fn run_chain(&mut self, name: &str) -> Outcome {
        let Some(chain) = self.chain(name) else { return Outcome::End(End::Drop(format!("missing chain {name}"))) };
        for rule in &chain.rules {
            match self.run_rule(name, &rule.expressions) {
                Outcome::NoMatch | Outcome::Matched => {}
                other => return other,
            }
        }
        Outcome::Return
    }

    fn run_rule(&mut self, chain: &str, expressions: &[Expression]) -> Outcome {
        for expression in expressions {
            match self.run_expression(chain, expression) {
                Outcome::Matched => {}
                other => return other,
            }
        }
        Outcome::Matched
    }

    fn run_expression(&mut self, chain: &str, expression: &Expression) -> Outcome {
        match expression {
            Expression::Payload { base, offset, length, destination } => {
                self.load(*destination, &self.payload(*base, *offset, *length));
            }
            Expression::Meta { key, destination } => self.load(*destination, &self.meta(*key)),
            Expression::SetMeta { key: MetaKey::Mark, source } => self.mark = self.word(*source),
            Expression::Conntrack { key, destination } => self.load(*destination, &self.conntrack(*key)),
            Expression::Fib { address, destination } => self.load(*destination, &self.address_type(*address)),
            Expression::Compare { source, operator, value } => {
                let equal = self.bytes(*source, value.len()) == value.as_slice();
                return matched(equal == (*operator == Operator::Equal));
            }
            Expression::Bitwise { source, destination, mask, xor } => {
                let old = self.bytes(*source, mask.len()).to_vec();
                let new: Vec<u8> = old.iter().zip(mask).zip(xor).map(|((old, mask), xor)| (old & mask) ^ xor).collect();
                self.load(*destination, &new);
            }
            Expression::Immediate { destination, value } => self.load(*destination, value),
            Expression::NumberGenerator { destination, modulus, offset }
            | Expression::Hash { destination, modulus, offset, .. } => {
                self.slots = Some(*modulus);
                self.load(*destination, &(offset + self.draw % modulus).to_ne_bytes());
            }
            Expression::Lookup { set, source, destination, .. } => return self.lookup(set, *source, *destination),
            Expression::Verdict(verdict) => return self.verdict(chain, verdict),
            Expression::DestinationNat { address, port, .. } => return self.translate(*address, *port),
            Expression::Masquerade { .. } => {
                self.masqueraded = true;
                return Outcome::End(End::Accept);
            }
            Expression::Reject { .. } => return Outcome::End(End::Reject(chain.into())),
            // What packets teach the kernel is not part of the objects.
            Expression::Dynset { .. } | Expression::Counter => {}
            Expression::SetMeta { .. } | Expression::Unknown { .. } => return Outcome::NoMatch,
        }
        Outcome::Matched
    }

    fn verdict(&mut self, chain: &str, verdict: &Verdict) -> Outcome {
        match verdict {
            Verdict::Accept => Outcome::End(End::Accept),
            Verdict::Drop => Outcome::End(End::Drop(chain.into())),
            Verdict::Return => Outcome::Return,
            Verdict::Continue => Outcome::Matched,
            Verdict::Jump(target) => match self.run_chain(target) {
                Outcome::Return => Outcome::Matched,
                other => other,
            },
            Verdict::Goto(target) => self.run_chain(target),
        }
    }

    fn lookup(&mut self, set: &str, source: Register, destination: Option<Register>) -> Outcome {
        let Some((key, value)) = self.find(set, source) else { return Outcome::NoMatch };
        self.steps.push(Step::new(format!("{} {set}: {key}", self.kind_of(set)), step_of(value)));
        match (value, destination) {
            (Value::Verdict(verdict), Some(Register::VERDICT)) => self.verdict(set, verdict),
            (Value::Frontend(frontend), Some(register)) => {
                self.load(register, &encode_dispatch_key(frontend.dispatch_key));
                Outcome::Matched
            }
            (Value::Endpoint(address, port), Some(register)) => {
                let bytes = [octets(*address), vec![port.to_be_bytes()[0], port.to_be_bytes()[1], 0, 0]].concat();
                self.load(register, &bytes);
                Outcome::Matched
            }
            (Value::Member, None) => Outcome::Matched,
            _ => Outcome::NoMatch,
        }
    }

    fn kind_of(&self, set: &str) -> &'static str {
        match SetName::from_name(set).map(SetName::data) {
            Some(super::sets::Data::None) => "set",
            _ => "map",
        }
    }

    fn find(&self, set: &str, source: Register) -> Option<(&'a ElementKey, &'a Value)> {
        let set = SetName::from_name(set)?;
        let length = concatenated_length(&set.key(), self.family) as usize;
        let bytes = self.bytes(source, length);
        if set == SetName::Sources {
            return self.find_source(bytes);
        }
        let wanted = Key::Element(self.family, set, ElementKey::decode(set, self.family, bytes, None));
        match self.objects.0.get_key_value(&wanted)? {
            (Key::Element(_, _, key), value) => Some((key, value)),
            _ => None,
        }
    }

    /// The one set of ranges: a source is found if any range of its frontend holds it.
    fn find_source(&self, bytes: &[u8]) -> Option<(&'a ElementKey, &'a Value)> {
        let wanted = ElementKey::decode(SetName::Sources, self.family, bytes, Some(bytes));
        let ElementKey::Source(wanted) = wanted else { return None };
        let frontend = |source: &SourceKey| (source.address, source.port, source.protocol);
        let holds = |source: &SourceKey| frontend(source) == frontend(&wanted) && source.range.contains(&wanted.range);
        self.objects.0.iter().find_map(|(key, value)| match key {
            Key::Element(_, SetName::Sources, key @ ElementKey::Source(source)) if holds(source) => Some((key, value)),
            _ => None,
        })
    }

    fn translate(&mut self, address: Register, port: Register) -> Outcome {
        let length = if self.family == Family::V4 { 4 } else { 16 };
        let bytes = [self.bytes(address, length), self.bytes(port, 4)].concat();
        let Value::Endpoint(address, port) = decode_endpoint(self.family, &bytes) else { return Outcome::NoMatch };
        (self.packet.destination, self.packet.port) = (address, port);
        self.translated = true;
        Outcome::End(End::Accept)
    }

    fn payload(&self, base: PayloadBase, offset: u32, length: u32) -> Vec<u8> {
        let is_source = matches!((self.family, offset), (Family::V4, 12) | (Family::V6, 8));
        let bytes = match (base, is_source) {
            (PayloadBase::Network, true) => octets(self.packet.source),
            (PayloadBase::Network, false) => octets(self.packet.destination),
            (PayloadBase::Transport, _) => self.packet.port.to_be_bytes().to_vec(),
        };
        bytes.into_iter().take(length as usize).collect()
    }

    fn meta(&self, key: MetaKey) -> Vec<u8> {
        match key {
            MetaKey::Mark => self.mark.to_ne_bytes().to_vec(),
            MetaKey::L4Protocol => vec![self.packet.protocol.number()],
            // No packet that is asked about comes over the loopback interface.
            MetaKey::InputInterface => vec![0; 4],
            MetaKey::InputInterfaceName => {
                let mut name = self.packet.interface.as_deref().unwrap_or("").as_bytes().to_vec();
                name.resize(16, 0);
                name
            }
        }
    }

    fn conntrack(&self, key: ConntrackKey) -> Vec<u8> {
        match key {
            ConntrackKey::State => STATE_NEW.to_ne_bytes().to_vec(),
            ConntrackKey::Status => (if self.translated { STATUS_DNAT } else { 0 }).to_ne_bytes().to_vec(),
            ConntrackKey::OriginalDestination4 | ConntrackKey::OriginalDestination6 => octets(self.original.0),
            ConntrackKey::OriginalDestinationPort => self.original.1.to_be_bytes().to_vec(),
            ConntrackKey::Direction => vec![DIRECTION_ORIGINAL],
            ConntrackKey::Protocol => vec![self.packet.protocol.number()],
            ConntrackKey::ReplySource4 | ConntrackKey::ReplySource6 => octets(self.packet.destination),
            ConntrackKey::ReplySourcePort => self.packet.port.to_be_bytes().to_vec(),
        }
    }

    fn address_type(&self, address: FibAddress) -> Vec<u8> {
        let address = match address {
            FibAddress::Source => self.packet.source,
            FibAddress::Destination => self.packet.destination,
        };
        (if self.node.owns(address) { RTN_LOCAL } else { RTN_UNICAST }).to_ne_bytes().to_vec()
    }

    /// Loads bytes into a register and clears the rest of its last word, as the kernel does.
    fn load(&mut self, register: Register, bytes: &[u8]) {
        let start = usize::from(register.0) * 4;
        let end = start + bytes.len().next_multiple_of(4);
        self.registers[start..end].fill(0);
        self.registers[start..start + bytes.len()].copy_from_slice(bytes);
    }

    fn bytes(&self, register: Register, length: usize) -> &[u8] {
        let start = usize::from(register.0) * 4;
        &self.registers[start..start + length]
    }

    fn word(&self, register: Register) -> u32 {
        u32::from_ne_bytes(*self.bytes(register, 4).first_chunk().expect("four bytes were asked for"))
    }
}

fn step_of(value: &Value) -> String {
    match value {
        Value::Verdict(verdict) => verdict_text(verdict),
        Value::Frontend(frontend) => match &frontend.comment {
            Some(comment) => format!("{} ({comment})", frontend.dispatch_key),
            None => frontend.dispatch_key.to_string(),
        },
        Value::Endpoint(address, port) => std::net::SocketAddr::new(*address, *port).to_string(),
        _ => "is in the set".into(),
    }
}

fn matched(condition: bool) -> Outcome {
    if condition { Outcome::Matched } else { Outcome::NoMatch }
}
