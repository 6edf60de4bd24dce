//! The kernel's part: the expressions of one rule, run on a packet. It knows registers and lookups, and nothing of what
//! kube-proxy means by them.

use std::net::{IpAddr, SocketAddr};

use portolan_kernel::nftables::{
    ConntrackKey, ElementData, Expression, FibAddress, MetaKey, Operator, PayloadBase, Register, Verdict as Code,
};
use portolan_plan::NodePlan;

use super::Table;
use portolan_dataplane::walk::{Branch, Verdict};

/// What one rule does with one branch.
pub(super) enum Step {
    /// On to the next rule.
    Next(Branch),
    Verdict(Branch, Code),
    End(Branch, Verdict),
}

const RTN_UNICAST: u32 = 1;
const RTN_LOCAL: u32 = 2;
const STATE_NEW: u32 = 8;
const STATUS_DNAT: u32 = 32;

/// Draws of a random number make several runs of one rule.
pub(super) fn run_rule(table: &Table, node: &NodePlan, rule: &[Expression], branch: Branch) -> Vec<Step> {
    let mut steps = Vec::new();
    let mut runs = vec![Run { table, node, branch, registers: [0; 64], position: 0 }];
    while let Some(mut run) = runs.pop() {
        match rule.get(run.position) {
            None => steps.push(Step::Next(run.branch)),
            Some(Expression::NumberGenerator { destination, modulus, offset }) => {
                for number in 0..*modulus {
                    runs.push(run.drawn(*destination, number + offset, *modulus));
                }
            }
            Some(expression) => match run.execute(expression) {
                Outcome::Matched => {
                    run.position += 1;
                    runs.push(run);
                }
                Outcome::NoMatch => steps.push(Step::Next(run.branch)),
                Outcome::Code(Code::Continue) => {
                    run.position += 1;
                    runs.push(run);
                }
                Outcome::Code(code) => steps.push(Step::Verdict(run.branch, code)),
                Outcome::End(verdict) => steps.push(Step::End(run.branch, verdict)),
            },
        }
    }
    steps
}

#[derive(Clone)]
struct Run<'a> {
    table: &'a Table,
    node: &'a NodePlan,
    branch: Branch,
    registers: [u8; 64],
    position: usize,
}

enum Outcome {
    Matched,
    NoMatch,
    Code(Code),
    End(Verdict),
}

impl Run<'_> {
    /// The same run after a draw that came out as this number.
    fn drawn(&self, destination: Register, number: u32, modulus: u32) -> Self {
        let mut run = self.clone();
        run.branch.share /= f64::from(modulus.max(1));
        run.store(destination, &number.to_ne_bytes());
        run.position += 1;
        run
    }

    fn execute(&mut self, expression: &Expression) -> Outcome {
        match expression {
            Expression::Payload { base, offset, length, destination } => {
                return self.load_payload(*base, *offset as usize, *length as usize, *destination);
            }
            Expression::Meta { key, destination } => return self.load_meta(*key, *destination),
            Expression::SetMeta { key: MetaKey::Mark, source } => self.branch.mark = self.number(*source),
            Expression::Conntrack { key, destination } => self.load_conntrack(*key, *destination),
            Expression::Fib { address, destination } => self.load_address_type(*address, *destination),
            Expression::Compare { source, operator, value } => {
                let is_equal = self.bytes(*source, value.len()) == value.as_slice();
                return matched(is_equal == (*operator == Operator::Equal));
            }
            Expression::Bitwise { source, destination, mask, xor } => {
                let bytes = self.bytes(*source, mask.len()).to_vec();
                let result: Vec<u8> =
                    bytes.iter().zip(mask).zip(xor).map(|((byte, mask), xor)| (byte & mask) ^ xor).collect();
                self.store(*destination, &result);
            }
            Expression::Immediate { destination, value } => self.store(*destination, value),
            Expression::Lookup { set, source, destination, inverted } => {
                return self.look_up(set, *source, *destination, *inverted);
            }
            Expression::Verdict(code) => return Outcome::Code(code.clone()),
            Expression::DestinationNat { address, port, .. } => return self.translate(*address, *port),
            Expression::Masquerade { .. } => return Outcome::End(Verdict::Masquerade),
            Expression::Reject { .. } => return Outcome::End(Verdict::Reject),
            Expression::Dynset { set, .. } => self.note_affinity(set),
            Expression::Counter => {}
            Expression::SetMeta { .. }
            | Expression::NumberGenerator { .. }
            | Expression::Hash { .. }
            | Expression::Unknown { .. } => return Outcome::NoMatch,
        }
        Outcome::Matched
    }

    /// Source and destination address of either family, and the destination port.
    fn load_payload(&mut self, base: PayloadBase, offset: usize, length: usize, destination: Register) -> Outcome {
        let packet = &self.branch.packet;
        let (source_at, destination_at) = if packet.destination.is_ipv4() { (12, 16) } else { (8, 24) };
        let port = packet.port.to_be_bytes();
        let bytes = match (base, offset) {
            (PayloadBase::Network, at) if at == source_at => octets(packet.source),
            (PayloadBase::Network, at) if at == destination_at => octets(packet.destination),
            (PayloadBase::Transport, 2) => port.to_vec(),
            _ => return Outcome::NoMatch,
        };
        match bytes.get(..length) {
            Some(bytes) => self.store(destination, bytes),
            None => return Outcome::NoMatch,
        }
        Outcome::Matched
    }

    fn load_meta(&mut self, key: MetaKey, destination: Register) -> Outcome {
        match key {
            MetaKey::Mark => self.store(destination, &self.branch.mark.to_ne_bytes()),
            MetaKey::L4Protocol => self.store(destination, &[self.branch.packet.protocol.number()]),
            // No packet that is asked about comes over the loopback interface.
            MetaKey::InputInterface => self.store(destination, &[0; 4]),
            MetaKey::InputInterfaceName => {
                let mut name = [0; 16];
                let interface = self.branch.packet.interface.clone().unwrap_or_default();
                let length = interface.len().min(15);
                name[..length].copy_from_slice(&interface.as_bytes()[..length]);
                self.store(destination, &name);
            }
        }
        Outcome::Matched
    }

    fn load_conntrack(&mut self, key: ConntrackKey, destination: Register) {
        let value = match key {
            ConntrackKey::State => STATE_NEW,
            ConntrackKey::Status if self.branch.translated => STATUS_DNAT,
            _ => 0,
        };
        self.store(destination, &value.to_ne_bytes());
    }

    fn load_address_type(&mut self, address: FibAddress, destination: Register) {
        let address = match address {
            FibAddress::Source => self.branch.packet.source,
            FibAddress::Destination => self.branch.packet.destination,
        };
        let kind = if self.node.owns(address) { RTN_LOCAL } else { RTN_UNICAST };
        self.store(destination, &kind.to_ne_bytes());
    }

    /// A set of clients that came before has nobody in it, but says that clients are remembered.
    fn look_up(&mut self, name: &str, source: Register, destination: Option<Register>, inverted: bool) -> Outcome {
        let Some(set) = self.table.sets.get(name) else {
            return Outcome::NoMatch;
        };
        if set.is_learned {
            self.note_affinity(name);
            return matched(inverted);
        }
        let key = self.bytes(source, set.key_length).to_vec();
        match (set.find(&key).cloned(), destination) {
            (Some(ElementData::Verdict(code)), Some(Register::VERDICT)) => Outcome::Code(code),
            (Some(ElementData::Value(value)), Some(destination)) => {
                self.store(destination, &value);
                Outcome::Matched
            }
            (found, _) => matched(found.is_some() != inverted),
        }
    }

    fn note_affinity(&mut self, set: &str) {
        let timeout = self.table.sets.get(set).and_then(|set| set.timeout);
        self.branch.affinity = self.branch.affinity.or(timeout);
    }

    fn translate(&self, address: Register, port: Register) -> Outcome {
        let address = match self.branch.packet.destination {
            IpAddr::V4(_) => <[u8; 4]>::try_from(self.bytes(address, 4)).map(IpAddr::from),
            IpAddr::V6(_) => <[u8; 16]>::try_from(self.bytes(address, 16)).map(IpAddr::from),
        };
        let port = self.bytes(port, 2);
        match (address, port) {
            (Ok(address), [high, low]) => {
                Outcome::End(Verdict::Translate(SocketAddr::new(address, u16::from_be_bytes([*high, *low]))))
            }
            _ => Outcome::NoMatch,
        }
    }

    fn number(&self, register: Register) -> u32 {
        self.bytes(register, 4).try_into().map_or(0, u32::from_ne_bytes)
    }

    /// Registers are words of four bytes; what does not fit reads as nothing.
    fn bytes(&self, register: Register, length: usize) -> &[u8] {
        let start = usize::from(register.0) * 4;
        self.registers.get(start..start + length).unwrap_or_default()
    }

    /// A value that is shorter than its words leaves zeros behind it.
    fn store(&mut self, register: Register, value: &[u8]) {
        let start = usize::from(register.0) * 4;
        let end = start + value.len().next_multiple_of(4);
        if let Some(words) = self.registers.get_mut(start..end) {
            words.fill(0);
            words[..value.len()].copy_from_slice(value);
        }
    }
}

fn matched(is_match: bool) -> Outcome {
    if is_match { Outcome::Matched } else { Outcome::NoMatch }
}

fn octets(address: IpAddr) -> Vec<u8> {
    match address {
        IpAddr::V4(address) => address.octets().to_vec(),
        IpAddr::V6(address) => address.octets().to_vec(),
    }
}
