//! A rule as text, close to what `nft list` prints. It is for people: what has no short form is shown in brackets.

use std::collections::HashMap;
use std::net::{Ipv4Addr, Ipv6Addr};
use std::sync::Arc;

use portolan_kernel::nftables::{
    ConntrackKey, Element, Expression, FibAddress, MetaKey, Numbers, Operator, PayloadBase, Register, Verdict,
};
use portolan_model::Protocol;

use super::sets::Set;
use super::table::{Rule, Table};

/// Sets that belong to one rule have such names.
const ANONYMOUS: &str = "__";
/// More elements are not shown.
const MOST_ELEMENTS: usize = 8;

pub(super) fn rule_text(table: &Table, rule: &Rule) -> String {
    let mut writer = Writer { sets: &table.sets, loaded: HashMap::new(), words: Vec::new() };
    rule.expressions.iter().for_each(|expression| writer.add(expression));
    simplified(writer.words).join(" ")
}

/// `nft` leaves out tests of the protocol that a later word implies.
fn simplified(words: Vec<String>) -> Vec<String> {
    let mut short: Vec<String> = Vec::new();
    for word in words {
        match short.last().and_then(|last| joined(last, &word)) {
            Some(both) => {
                short.pop();
                short.push(both);
            }
            None => short.push(word),
        }
    }
    short
}

fn joined(first: &str, second: &str) -> Option<String> {
    let is_implied = (first == "meta nfproto ipv4" && second.starts_with("ip "))
        || (first == "meta nfproto ipv6" && second.starts_with("ip6 "));
    let of_protocol = || Some(format!("{} {}", first.strip_prefix("meta l4proto ")?, second.strip_prefix("th ")?));
    if is_implied { Some(second.to_owned()) } else { of_protocol() }
}

#[derive(Clone)]
struct Load {
    text: String,
    kind: Kind,
    mask: Option<Vec<u8>>,
}

#[derive(Clone, Copy, PartialEq)]
enum Kind {
    Address4,
    Address6,
    Port,
    Protocol,
    Version,
    Name,
    State,
    Bytes,
}

struct Writer<'a> {
    sets: &'a HashMap<Arc<str>, Set>,
    loaded: HashMap<u8, Load>,
    words: Vec<String>,
}

impl Writer<'_> {
    fn add(&mut self, expression: &Expression) {
        match expression {
            Expression::Payload { base, offset, length, destination } => {
                let (text, kind) = payload(*base, *offset, *length);
                self.load(*destination, text, kind);
            }
            Expression::Meta { key, destination } => {
                let (text, kind) = meta(*key);
                self.load(*destination, text.into(), kind);
            }
            Expression::Conntrack { key, destination } => {
                let (text, kind) = conntrack(*key);
                self.load(*destination, text.into(), kind);
            }
            Expression::Fib { address, destination } => {
                let side = if *address == FibAddress::Source { "saddr" } else { "daddr" };
                self.load(*destination, format!("fib {side} type"), Kind::Bytes);
            }
            Expression::Immediate { destination, value } => {
                let kind = if value.len() == 16 { Kind::Address6 } else { Kind::Address4 };
                let kind = if value.len() == 2 { Kind::Port } else { kind };
                self.load(*destination, shown(kind, value), kind);
            }
            Expression::NumberGenerator { numbers, destination, modulus, .. } => {
                let kind = if *numbers == Numbers::Random { "random" } else { "inc" };
                self.load(*destination, format!("numgen {kind} mod {modulus}"), Kind::Bytes);
            }
            Expression::Hash { source, destination, modulus, .. } => {
                let hashed = self.from(*source).text;
                self.load(*destination, format!("jhash {hashed} mod {modulus}"), Kind::Bytes);
            }
            Expression::Bitwise { source, destination, mask, .. } => {
                let load = Load { mask: Some(mask.clone()), ..self.from(*source) };
                self.loaded.insert(destination.0, load);
            }
            other => {
                let word = self.word(other);
                self.words.push(word);
            }
        }
    }

    fn word(&self, expression: &Expression) -> String {
        match expression {
            Expression::Compare { source, operator, value } => comparison(&self.from(*source), *operator, value),
            Expression::Range { source, inverted, from, to } => {
                let load = self.from(*source);
                let not = if *inverted { "!= " } else { "" };
                format!("{} {not}{}-{}", load.text, shown(load.kind, from), shown(load.kind, to))
            }
            Expression::Lookup { set, source, destination, inverted } => {
                let not = if *inverted { "!= " } else { "" };
                let map = match destination {
                    Some(Register::VERDICT) => "vmap ",
                    Some(_) => "map ",
                    None => "",
                };
                format!("{} {not}{map}{}", self.from(*source).text, self.set(set, self.from(*source).kind))
            }
            Expression::Verdict(verdict) => verdict_text(verdict),
            Expression::SetMeta { source, .. } => format!("meta mark set {}", self.from(*source).text),
            Expression::DestinationNat { address, port, .. } => {
                format!("dnat to {}:{}", self.from(*address).text, self.from(*port).text)
            }
            Expression::Masquerade { .. } => "masquerade".into(),
            Expression::Reject { .. } => "reject".into(),
            Expression::Dynset { set, .. } => format!("update @{set}"),
            other => match other.name() {
                name @ ("counter" | "log" | "last" | "notrack" | "limit") => name.to_owned(),
                name => format!("[{name}]"),
            },
        }
    }

    fn load(&mut self, register: Register, text: String, kind: Kind) {
        self.loaded.insert(register.0, Load { text, kind, mask: None });
    }

    fn from(&self, register: Register) -> Load {
        let unknown = || Load { text: "[register]".into(), kind: Kind::Bytes, mask: None };
        self.loaded.get(&register.0).cloned().unwrap_or_else(unknown)
    }

    fn set(&self, name: &str, kind: Kind) -> String {
        let Some(set) = self.sets.get(name).filter(|_| name.starts_with(ANONYMOUS)) else { return format!("@{name}") };
        let element = |element: &Element| match &element.key_end {
            Some(end) => format!("{}-{}", shown(kind, &element.key), shown(kind, end)),
            None => shown(kind, &element.key),
        };
        let mut elements: Vec<&Element> = set.elements().collect();
        elements.sort_by(|one, other| one.key.cmp(&other.key));
        let more = if elements.len() > MOST_ELEMENTS { ", …" } else { "" };
        let texts: Vec<String> = elements.into_iter().take(MOST_ELEMENTS).map(element).collect();
        format!("{{ {}{more} }}", texts.join(", "))
    }
}

fn payload(base: PayloadBase, offset: u32, length: u32) -> (String, Kind) {
    let (text, kind) = match (base, offset, length) {
        (PayloadBase::Network, 12, ..=4) => ("ip saddr", Kind::Address4),
        (PayloadBase::Network, 16, ..=4) => ("ip daddr", Kind::Address4),
        (PayloadBase::Network, 8, 2..=16) => ("ip6 saddr", Kind::Address6),
        (PayloadBase::Network, 24, ..=16) => ("ip6 daddr", Kind::Address6),
        (PayloadBase::Network, 9, 1) => ("ip protocol", Kind::Protocol),
        (PayloadBase::Network, 6, 1) => ("ip6 nexthdr", Kind::Protocol),
        (PayloadBase::Transport, 0, 2) => ("th sport", Kind::Port),
        (PayloadBase::Transport, 2, 2) => ("th dport", Kind::Port),
        _ => return (bits(base, offset, length), Kind::Bytes),
    };
    (text.into(), kind)
}

fn bits(base: PayloadBase, offset: u32, length: u32) -> String {
    format!("@{},{},{}", super::load::base_name(base), u64::from(offset) * 8, u64::from(length) * 8)
}

fn meta(key: MetaKey) -> (&'static str, Kind) {
    match key {
        MetaKey::EtherType => ("meta protocol", Kind::Bytes),
        MetaKey::NetworkProtocol => ("meta nfproto", Kind::Version),
        MetaKey::Priority => ("meta priority", Kind::Bytes),
        MetaKey::Mark => ("meta mark", Kind::Bytes),
        MetaKey::L4Protocol => ("meta l4proto", Kind::Protocol),
        MetaKey::InputInterface => ("iif", Kind::Bytes),
        MetaKey::InputInterfaceName => ("iifname", Kind::Name),
        MetaKey::OutputInterface => ("oif", Kind::Bytes),
        MetaKey::OutputInterfaceName => ("oifname", Kind::Name),
    }
}

fn conntrack(key: ConntrackKey) -> (&'static str, Kind) {
    match key {
        ConntrackKey::State => ("ct state", Kind::State),
        ConntrackKey::Direction => ("ct direction", Kind::Bytes),
        ConntrackKey::Status => ("ct status", Kind::Bytes),
        ConntrackKey::Protocol => ("ct protocol", Kind::Protocol),
        ConntrackKey::OriginalDestination4 => ("ct original ip daddr", Kind::Address4),
        ConntrackKey::OriginalDestination6 => ("ct original ip6 daddr", Kind::Address6),
        ConntrackKey::OriginalDestinationPort => ("ct original proto-dst", Kind::Port),
        ConntrackKey::ReplySource4 => ("ct reply ip saddr", Kind::Address4),
        ConntrackKey::ReplySource6 => ("ct reply ip6 saddr", Kind::Address6),
        ConntrackKey::ReplySourcePort => ("ct reply proto-src", Kind::Port),
        ConntrackKey::Id => ("ct id", Kind::Bytes),
    }
}

fn comparison(load: &Load, operator: Operator, value: &[u8]) -> String {
    let sign = match operator {
        Operator::Equal => "",
        Operator::NotEqual => "!= ",
        Operator::Less => "< ",
        Operator::LessOrEqual => "<= ",
        Operator::Greater => "> ",
        Operator::GreaterOrEqual => ">= ",
    };
    let Some(mask) = &load.mask else { return format!("{} {sign}{}", load.text, shown(load.kind, value)) };
    let bits: u32 = mask.iter().map(|byte| byte.count_ones()).sum();
    match load.kind {
        Kind::State if operator == Operator::NotEqual => format!("{} {}", load.text, shown(Kind::State, mask)),
        Kind::Address4 | Kind::Address6 => format!("{} {sign}{}/{bits}", load.text, address(load.kind, value)),
        _ => format!("{} & {} {sign}{}", load.text, hexadecimal(mask), hexadecimal(value)),
    }
}

fn shown(kind: Kind, value: &[u8]) -> String {
    match (kind, value) {
        (Kind::Address4 | Kind::Address6, _) => address_or_prefix(kind, value),
        (Kind::Port, [high, low, ..]) => u16::from_be_bytes([*high, *low]).to_string(),
        (Kind::Protocol, [number, ..]) => {
            Protocol::from_number(*number).map_or_else(|| number.to_string(), |protocol| protocol.to_string())
        }
        (Kind::Version, [2, ..]) => "ipv4".into(),
        (Kind::Version, [10, ..]) => "ipv6".into(),
        (Kind::Name, _) => interface(value),
        (Kind::State, _) => states(value),
        _ => hexadecimal(value),
    }
}

/// A range that ends at a whole byte is compared by its first bytes alone.
fn address_or_prefix(kind: Kind, value: &[u8]) -> String {
    let length = if kind == Kind::Address4 { 4 } else { 16 };
    match value.len() < length {
        true => format!("{}/{}", address(kind, value), value.len() * 8),
        false => address(kind, value),
    }
}

fn address(kind: Kind, value: &[u8]) -> String {
    let mut bytes = value.to_vec();
    bytes.resize(16, 0);
    match (kind, bytes.first_chunk::<4>(), bytes.first_chunk::<16>()) {
        (Kind::Address4, Some(bytes), _) => Ipv4Addr::from(*bytes).to_string(),
        (_, _, Some(bytes)) => Ipv6Addr::from(*bytes).to_string(),
        _ => hexadecimal(value),
    }
}

fn interface(value: &[u8]) -> String {
    let end = value.iter().position(|byte| *byte == 0);
    let name = String::from_utf8_lossy(&value[..end.unwrap_or(value.len())]).into_owned();
    if end.is_some() { format!("\"{name}\"") } else { format!("\"{name}*\"") }
}

fn states(value: &[u8]) -> String {
    const NAMES: [(u32, &str); 5] = [(1, "invalid"), (2, "established"), (4, "related"), (8, "new"), (64, "untracked")];
    let bits = value.first_chunk().map_or(0, |bytes| u32::from_ne_bytes(*bytes));
    let names: Vec<&str> = NAMES.iter().filter(|(bit, _)| bits & bit != 0).map(|(_, name)| *name).collect();
    names.join(",")
}

fn hexadecimal(value: &[u8]) -> String {
    value.iter().fold("0x".to_owned(), |text, byte| format!("{text}{byte:02x}"))
}

fn verdict_text(verdict: &Verdict) -> String {
    match verdict {
        Verdict::Accept => "accept".into(),
        Verdict::Drop => "drop".into(),
        Verdict::Return => "return".into(),
        Verdict::Continue => "continue".into(),
        Verdict::Jump(chain) => format!("jump {chain}"),
        Verdict::Goto(chain) => format!("goto {chain}"),
    }
}
