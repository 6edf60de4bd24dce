//! The table of nf_tables whose rules answer the packets of some connections with resets. It is independent of modes, and
//! exists only while there are such connections.

use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use portolan_kernel::conntrack::TcpFlow;
use portolan_kernel::nftables::{
    Batch, ChainKind, ConntrackKey, DynsetOperation, Element, ElementData, Expression, Hook, HookPoint, MetaKey,
    Nftables as Handle, Operator, PayloadBase, Register, SetSpec, TimedElement,
};
use portolan_kernel::segment::PRIORITY;
use portolan_model::Family;

use crate::Error;
use crate::place::{Connections, Found, Outcome, Owned, Place, RemovalError, Report, Users};

pub const TABLE: &str = "portolan-resets";
const SET: &str = "connections";
/// Before connection tracking.
const RAW: i32 = -300;
/// After connection tracking, and before any translation.
const EARLY: i32 = -150;
/// When the endpoint of a new connection is known.
const LATE: i32 = -50;
type Rule = fn(Family) -> Vec<Expression>;
const CHAINS: [(&str, HookPoint, i32, Rule); 5] = [
    ("provoke-output", HookPoint::Output, RAW, untracked_rule),
    ("reset-prerouting", HookPoint::Prerouting, EARLY, reset_rule),
    ("reset-output", HookPoint::Output, EARLY, reset_rule),
    ("forget-prerouting", HookPoint::Prerouting, LATE, forget_rule),
    ("forget-output", HookPoint::Output, LATE, forget_rule),
];
const TCP: u8 = 6;
const TCP_FLAGS: u32 = 13;
const TCP_HEADER_LENGTH: u32 = 12;
/// Five words, in the upper half of a byte.
const WITHOUT_OPTIONS: u8 = 0x50;
const SYN: u8 = 0x02;
const RST: u8 = 0x04;
const ACK: u8 = 0x10;
const TCP_RESET: u32 = 1;
/// `mark . ipv4_addr . inet_service`, and the same with `ipv6_addr`: what `nft` prints keys by.
const KEY_TYPES: [u32; 2] = [(19 << 12) | (7 << 6) | 13, (19 << 12) | (8 << 6) | 13];

/// Resets these connections, which are of one family, with their next packets. What the table lacks is added; the rules are
/// written again, so that a table of another version is replaced.
pub(super) fn add(handle: &mut Handle, family: Family, flows: &[TcpFlow], lasts: Duration) -> Result<(), Error> {
    let mut batch = Batch::new();
    batch.add_table(family, TABLE);
    batch.add_set(family, TABLE, SET, &set(family));
    for (name, point, priority, rule) in CHAINS {
        let hook = Hook { kind: ChainKind::Filter, point, priority };
        batch.add_chain(family, TABLE, name, Some(&hook));
        batch.flush_chain(family, TABLE, name);
        batch.add_rule(family, TABLE, name, &rule(family), None);
    }
    let milliseconds = lasts.as_millis() as u64;
    let elements: Vec<TimedElement> = flows
        .iter()
        .map(|flow| TimedElement {
            element: Element { key: key(flow), key_end: None, data: ElementData::None, comment: None },
            timeout_milliseconds: milliseconds,
            left_milliseconds: milliseconds,
        })
        .collect();
    batch.add_timed_elements(family, TABLE, SET, elements.iter());
    Ok(handle.commit(batch)?)
}

/// A table that is gone already is no error.
pub(super) fn remove(handle: &mut Handle, family: Family) -> Result<(), Error> {
    let mut batch = Batch::new();
    batch.delete_table(family, TABLE);
    match handle.commit(batch) {
        Err(error) if error.is_absent() => Ok(()),
        outcome => Ok(outcome?),
    }
}

fn set(family: Family) -> SetSpec {
    SetSpec {
        key_type: KEY_TYPES[family as usize],
        key_fields: vec![4, address_length(family), 2],
        dynamic: true,
        timeout: true,
        ..SetSpec::default()
    }
}

fn address_length(family: Family) -> u32 {
    if family == Family::V4 { 4 } else { 16 }
}

/// The number of the connection's entry and its endpoint. The number is a hash: the endpoint keeps a collision from being one
/// with any connection of the node.
fn key(flow: &TcpFlow) -> Vec<u8> {
    let endpoint: SocketAddr = flow.flow.reply_source;
    let mut key = flow.id.0.to_vec();
    match endpoint.ip() {
        IpAddr::V4(address) => key.extend(address.octets()),
        IpAddr::V6(address) => key.extend(address.octets()),
    }
    key.extend(endpoint.port().to_be_bytes());
    key.extend([0; 2]);
    key
}

/// A client may open a new connection from the port of one that was reset. The kernel then may revive the entry, or give its
/// number to the new one. Unlike a segment that provokes, the SYN of a client has options.
fn forget_rule(family: Family) -> Vec<Expression> {
    let mut rule = of_tcp();
    rule.extend(masked(TCP_FLAGS, SYN | ACK, Operator::Equal, SYN));
    rule.extend(masked(TCP_HEADER_LENGTH, 0xf0, Operator::NotEqual, WITHOUT_OPTIONS));
    rule.extend(load_key(family));
    rule.push(Expression::Dynset {
        operation: DynsetOperation::Delete,
        set: SET.into(),
        key: Register(0),
        data: None,
        timeout_milliseconds: None,
        counts: false,
    });
    rule
}

/// The SYN that provokes an endpoint has the addresses that the endpoint sees, which connection tracking knows for replies alone:
/// it would take the SYN for a new connection and change its port.
fn untracked_rule(_: Family) -> Vec<Expression> {
    let mut rule = of_tcp();
    rule.push(Expression::Meta { key: MetaKey::Priority, destination: Register(0) });
    let value = PRIORITY.to_ne_bytes().to_vec();
    rule.push(Expression::Compare { source: Register(0), operator: Operator::Equal, value });
    rule.extend(masked(TCP_FLAGS, SYN | ACK, Operator::Equal, SYN));
    rule.push(Expression::Unknown { name: "notrack".to_owned() });
    rule
}

/// A SYN passes because it provokes the packet that is answered, and an RST because it is the answer.
fn reset_rule(family: Family) -> Vec<Expression> {
    let mut rule = of_tcp();
    rule.extend(masked(TCP_FLAGS, SYN | RST, Operator::Equal, 0));
    rule.extend(load_key(family));
    rule.push(Expression::Lookup { set: SET.into(), source: Register(0), destination: None, inverted: false });
    rule.push(Expression::Reject { kind: TCP_RESET, code: 0 });
    rule
}

fn of_tcp() -> Vec<Expression> {
    vec![
        Expression::Meta { key: MetaKey::L4Protocol, destination: Register(0) },
        Expression::Compare { source: Register(0), operator: Operator::Equal, value: vec![TCP] },
    ]
}

/// Compares some bits of a byte of the TCP header.
fn masked(offset: u32, mask: u8, operator: Operator, value: u8) -> [Expression; 3] {
    let (source, destination) = (Register(0), Register(0));
    [
        Expression::Payload { base: PayloadBase::Transport, offset, length: 1, destination },
        Expression::Bitwise { source, destination, mask: vec![mask], xor: vec![0] },
        Expression::Compare { source, operator, value: vec![value] },
    ]
}

fn load_key(family: Family) -> [Expression; 3] {
    let source = match family {
        Family::V4 => ConntrackKey::ReplySource4,
        Family::V6 => ConntrackKey::ReplySource6,
    };
    let after_address = 1 + (address_length(family) / 4) as u8;
    [
        Expression::Conntrack { key: ConntrackKey::Id, destination: Register(0) },
        Expression::Conntrack { key: source, destination: Register(1) },
        Expression::Conntrack { key: ConntrackKey::ReplySourcePort, destination: Register(after_address) },
    ]
}

/// The table of one family, for cleanup. A takeover leaves it to the daemon that runs.
struct ResetTable(Family);

/// Where this is kept in the kernel.
pub fn places() -> impl Iterator<Item = Box<dyn Place>> {
    Family::BOTH.into_iter().map(|family| Box::new(ResetTable(family)) as Box<dyn Place>)
}

impl ResetTable {
    fn exists(&self) -> Outcome<bool> {
        let tables = Handle::open().and_then(|mut handle| handle.tables(self.0));
        let tables = tables.map_err(|error| RemovalError::new(format!("reading {self}"), error))?;
        Ok(tables.iter().any(|name| name == TABLE))
    }
}

impl fmt::Display for ResetTable {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "table {} {TABLE}", self.0.nft_name())
    }
}

impl Place for ResetTable {
    fn mode(&self) -> &'static str {
        "any"
    }

    fn users(&self) -> Users {
        Users::Portolan
    }

    fn find(&self, owned: Option<&Owned>) -> Outcome<Option<Found>> {
        if owned.is_some() {
            return Ok(None);
        }
        Ok(Found::new(usize::from(self.exists()?), false))
    }

    fn is_ours(&self) -> Outcome<bool> {
        self.exists()
    }

    fn remove(&self, _: Option<&Owned>, _: Connections, report: &mut Report) -> Outcome<()> {
        let failure = |error: String| RemovalError::new(format!("removing {self}"), error);
        let mut handle = Handle::open().map_err(|error| failure(error.to_string()))?;
        remove(&mut handle, self.0).map_err(|error| failure(error.to_string()))?;
        report.removed.push(self.to_string());
        Ok(())
    }

    fn serves(&self, _: Family) -> bool {
        false
    }
}
