//! The expressions of one rule, run on a packet.

use std::net::{IpAddr, SocketAddr};

use portolan_kernel::nftables::{ElementData, Expression, MetaKey, Operator, Register, Verdict as Code};
use portolan_model::{Family, jhash, scaled};

use super::load::{self, LOOPBACK_INDEX, LOOPBACK_NAME, Loaded, OtherInterface};
use super::registers::Registers;
use super::table::{OnError, Table, Unsupported};
use crate::walk::{Branch, Site, Verdict};

/// What one rule does with one branch.
pub(super) enum Step {
    /// On to the next rule.
    Next(Branch),
    Code(Branch, Code),
    End(Branch, Verdict),
    Error(Branch, Unsupported),
    /// The budget of the walk does not cover it.
    Exhausted(Branch),
}

impl Step {
    /// Whether the other one does the same with the same branch. If so, this one stands for both.
    pub(super) fn absorb(&mut self, other: &Self) -> bool {
        match (self, other) {
            (Self::Next(branch), Self::Next(other)) => branch.absorb(other),
            (Self::Code(branch, code), Self::Code(other, of_other)) => code == of_other && branch.absorb(other),
            (Self::End(branch, verdict), Self::End(other, of_other)) => verdict == of_other && branch.absorb(other),
            _ => false,
        }
    }
}

/// No draw has more outcomes: a Service has fewer endpoints.
const MOST_OUTCOMES: u32 = 65_536;

/// A random draw, one in turns, and a hash of what is not known of the client make a run of the rule for each outcome.
pub(super) fn run_rule(table: &Table, site: &Site<'_>, rule: &[Expression], branch: Branch) -> Vec<Step> {
    let mut steps = Vec::new();
    let mut runs = vec![Run { table, site, branch, registers: Registers::new(), position: 0 }];
    while let Some(mut run) = runs.pop() {
        let Some(expression) = rule.get(run.position) else {
            steps.push(Step::Next(run.branch));
            continue;
        };
        if !site.budget.step() {
            steps.push(Step::Exhausted(run.branch));
            continue;
        }
        run.position += 1;
        match run.execute(expression) {
            Ok(Outcome::Matched) => runs.push(run),
            Ok(Outcome::NoMatch) => steps.push(Step::Next(run.branch)),
            Ok(Outcome::Draw { count, .. }) if !site.budget.copy(&run.branch, count) => {
                steps.push(Step::Exhausted(run.branch));
            }
            Ok(Outcome::Draw { destination, first, count }) => match run.draw(destination, first, count) {
                Ok(drawn) => runs.extend(drawn),
                Err(error) => steps.push(Step::Error(run.branch, error)),
            },
            Ok(Outcome::Code(Code::Continue)) => runs.push(run),
            Ok(Outcome::Code(code)) => steps.push(Step::Code(run.branch, code)),
            Ok(Outcome::End(verdict)) => steps.push(Step::End(run.branch, verdict)),
            Err(error) => steps.push(Step::Error(run.branch, error)),
        }
    }
    steps
}

/// Whether the machine can run the expression at all.
pub(super) fn unsupported(expression: &Expression) -> Result<(), Unsupported> {
    match expression {
        Expression::Unknown { name } if is_passive(name) || name == NO_TRACKING => Ok(()),
        Expression::Unknown { name } => Err(Unsupported(format!("expression {name}"))),
        Expression::SetMeta { key: MetaKey::Mark, .. } => Ok(()),
        Expression::SetMeta { key, .. } => Err(Unsupported(format!("setting meta {key:?}"))),
        Expression::NumberGenerator { modulus, offset, .. } | Expression::Hash { modulus, offset, .. } => {
            match (*modulus, offset.checked_add(*modulus)) {
                (1..=MOST_OUTCOMES, Some(_)) => Ok(()),
                _ => Err(Unsupported(format!("a draw of {modulus} numbers from {offset}"))),
            }
        }
        _ => Ok(()),
    }
}

const NO_TRACKING: &str = "notrack";

/// These never change what becomes of a packet.
fn is_passive(name: &str) -> bool {
    matches!(name, "log" | "last" | "match comment")
}

#[derive(Clone)]
struct Run<'a> {
    table: &'a Table,
    site: &'a Site<'a>,
    branch: Branch,
    registers: Registers,
    position: usize,
}

enum Outcome {
    Matched,
    NoMatch,
    Draw { destination: Register, first: u32, count: u32 },
    Code(Code),
    End(Verdict),
}

impl Run<'_> {
    /// The runs that go on after a draw, each as likely as the others.
    fn draw(&self, destination: Register, first: u32, count: u32) -> Result<Vec<Self>, Unsupported> {
        let drawn = |number: u32| {
            let mut run = self.clone();
            run.branch.share /= f64::from(count);
            run.registers.store(destination, &number.to_ne_bytes())?;
            Ok(run)
        };
        (first..first.saturating_add(count)).rev().map(drawn).collect()
    }

    fn execute(&mut self, expression: &Expression) -> Result<Outcome, Unsupported> {
        unsupported(expression)?;
        match expression {
            Expression::Payload { base, offset, length, destination } => {
                let loaded = load::payload(&self.branch, *base, *offset, *length)?;
                return self.store(*destination, loaded);
            }
            Expression::Meta { key, destination } => {
                return self.store(*destination, load::meta(&self.branch, self.site, *key));
            }
            Expression::Conntrack { key, destination } => {
                return self.store(*destination, load::conntrack(&self.branch, *key));
            }
            Expression::Fib { address, destination } => {
                return self.store(*destination, load::address_type(&self.branch, self.site, *address));
            }
            Expression::SetMeta { source, .. } => self.branch.mark = self.registers.number(*source)?,
            Expression::Compare { source, operator, value } => return self.compare(*source, *operator, value),
            Expression::Range { source, inverted, from, to } => {
                let value = self.registers.bytes(*source, from.len())?;
                return Ok(matched((from.as_slice() <= value && value <= to.as_slice()) != *inverted));
            }
            Expression::Bitwise { source, destination, mask, xor } => {
                let old = self.registers.bytes(*source, mask.len())?;
                let new: Vec<u8> = old.iter().zip(mask).zip(xor).map(|((old, mask), xor)| (old & mask) ^ xor).collect();
                self.registers.store(*destination, &new)?;
            }
            Expression::Immediate { destination, value } => self.registers.store(*destination, value)?,
            Expression::Lookup { set, source, destination, inverted } => {
                return self.look_up(set, *source, *destination, *inverted);
            }
            Expression::NumberGenerator { destination, modulus, offset, .. } => {
                return Ok(Outcome::Draw { destination: *destination, first: *offset, count: *modulus });
            }
            Expression::Hash { source, length, destination, modulus, seed, offset } => {
                let Ok(key) = self.registers.bytes(*source, *length as usize) else {
                    return Ok(Outcome::Draw { destination: *destination, first: *offset, count: *modulus });
                };
                let number = offset + scaled(jhash(key, *seed), *modulus);
                self.registers.store(*destination, &number.to_ne_bytes())?;
            }
            Expression::Verdict(code) => return Ok(Outcome::Code(code.clone())),
            Expression::DestinationNat { family, address, port } => return self.translate(*family, *address, *port),
            Expression::Masquerade { .. } => return Ok(Outcome::End(Verdict::Masquerade)),
            Expression::Reject { .. } => return Ok(Outcome::End(Verdict::Reject)),
            Expression::Dynset { set, .. } => self.note_affinity(set),
            Expression::Unknown { name } if name == NO_TRACKING => self.branch.untracked = true,
            Expression::Counter | Expression::Unknown { .. } => {}
        }
        Ok(Outcome::Matched)
    }

    fn store(&mut self, destination: Register, loaded: Loaded) -> Result<Outcome, Unsupported> {
        match loaded {
            Loaded::Bytes(bytes) => self.registers.store(destination, &bytes)?,
            Loaded::OtherInterface(interface) => self.registers.store_interface(destination, interface),
            Loaded::ClientPort => self.registers.store_unknown(destination),
            Loaded::Absent => return Ok(Outcome::NoMatch),
        }
        Ok(Outcome::Matched)
    }

    fn compare(&self, source: Register, operator: Operator, value: &[u8]) -> Result<Outcome, Unsupported> {
        if let Some(interface) = self.registers.interface(source)
            && self.is_another_interface(interface, value)
        {
            return Ok(matched(operator == Operator::NotEqual));
        }
        let found = self.registers.bytes(source, value.len())?;
        Ok(matched(match operator {
            Operator::Equal => found == value,
            Operator::NotEqual => found != value,
            Operator::Less => found < value,
            Operator::LessOrEqual => found <= value,
            Operator::Greater => found > value,
            Operator::GreaterOrEqual => found >= value,
        }))
    }

    /// Whether an interface that is not the loopback interface is certainly not the one in the rule. Where no interface is
    /// given, the plan takes the packet for one that arrives on an interface which no rule of ours names.
    fn is_another_interface(&self, interface: OtherInterface, value: &[u8]) -> bool {
        let mut loopback_name = LOOPBACK_NAME.as_bytes().to_vec();
        loopback_name.push(0);
        match interface.is_index {
            true => value == LOOPBACK_INDEX.to_ne_bytes(),
            false => value.starts_with(&loopback_name) || self.table.on_error == OnError::End,
        }
    }

    fn look_up(
        &mut self,
        name: &str,
        source: Register,
        destination: Option<Register>,
        inverted: bool,
    ) -> Result<Outcome, Unsupported> {
        let set = self.table.sets.get(name).ok_or_else(|| Unsupported(format!("set {name}, which is missing")))?;
        if set.remembers_clients {
            self.note_affinity(name);
            return Ok(matched(inverted));
        }
        let Some(element) = set.find(self.registers.bytes(source, set.key_length)?) else {
            return Ok(matched(inverted));
        };
        let family = Family::of(self.branch.packet.destination);
        self.branch.path.extend(self.table.describe.and_then(|describe| describe(name, family, element)));
        match (&element.data, destination) {
            (_, None) => Ok(matched(!inverted)),
            (ElementData::Verdict(code), Some(Register::VERDICT)) => Ok(Outcome::Code(code.clone())),
            (ElementData::Value(value), Some(destination)) => {
                self.registers.store(destination, value)?;
                Ok(Outcome::Matched)
            }
            _ => Err(Unsupported(format!("an element of map {name} without a value"))),
        }
    }

    fn note_affinity(&mut self, set: &str) {
        let timeout = self.table.sets.get(set).filter(|set| set.remembers_clients).and_then(|set| set.timeout);
        self.branch.affinity = self.branch.affinity.or(timeout);
    }

    fn translate(&self, family: Family, address: Register, port: Register) -> Result<Outcome, Unsupported> {
        let bytes = |length| self.registers.bytes(address, length);
        let outside = || Unsupported("an address outside the registers".to_owned());
        let address: IpAddr = match family {
            Family::V4 => (*bytes(4)?.first_chunk::<4>().ok_or_else(outside)?).into(),
            Family::V6 => (*bytes(16)?.first_chunk::<16>().ok_or_else(outside)?).into(),
        };
        let port = self.registers.bytes(port, 2)?.first_chunk().ok_or_else(outside)?;
        Ok(Outcome::End(Verdict::Translate(SocketAddr::new(address, u16::from_be_bytes(*port)))))
    }
}

fn matched(is_match: bool) -> Outcome {
    if is_match { Outcome::Matched } else { Outcome::NoMatch }
}
