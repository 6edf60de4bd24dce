//! A packet's path through the kernel's netfilter hooks, with every random branch followed, for rules of any kind.
//!
//! At each hook, the base chains of all rules run in the order of their priorities, ours and foreign ones alike. A
//! packet that a base chain accepts continues to the next one; a dropped packet ends there.

mod budget;
mod hooks;

use std::collections::BTreeSet;
use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use portolan_model::Family;
use portolan_plan::{NodePlan, Packet};

pub use budget::Budget;
pub(crate) use hooks::{DESTINATION_NAT, SOURCE_NAT};
pub use hooks::{walk, walk_within};

/// Where base chains are attached.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Hook {
    Prerouting,
    Input,
    Forward,
    Output,
    Postrouting,
}

/// A chain that a hook runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BaseChain {
    pub table: Arc<str>,
    pub name: Arc<str>,
    pub kind: ChainKind,
    pub priority: i32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChainKind {
    Filter,
    /// Sees only the first packet of a connection, and only until the connection has its translation.
    Nat,
}

/// One possible path.
#[derive(Clone, Debug)]
pub struct Branch {
    pub packet: Packet,
    /// The destination of the connection's first packet, before any translation.
    pub original: SocketAddr,
    pub translated: bool,
    pub masqueraded: bool,
    /// A virtual server has chosen the destination.
    pub scheduled: bool,
    /// Connection tracking does not see the packet (NOTRACK).
    pub untracked: bool,
    pub mark: u32,
    pub share: f64,
    pub affinity: Option<u32>,
    /// The rules and elements on the path.
    pub path: Vec<Met>,
    /// The rule that ended it.
    pub stopped_by: Option<Met>,
    /// Restrictions of the result, as text.
    pub notes: Vec<String>,
    /// Rules of the base chain that were skipped and may have accepted the packet, as text.
    pub doubts: Vec<String>,
    /// The connection has its destination, translated or not.
    pub(crate) has_destination: bool,
    /// A foreign rule has translated it.
    pub(crate) is_diverted: bool,
}

/// A step on the path: a rule in its chain, or an element in its map.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Met {
    pub place: Arc<str>,
    pub content: Arc<str>,
}

/// All possible ends.
#[derive(Clone, Debug, Default)]
pub struct Outcome {
    pub endings: Vec<Ending>,
    /// The session affinity timeout, in seconds.
    pub affinity: Option<u32>,
    /// Restrictions of the result, as text.
    pub notes: BTreeSet<String>,
}

#[derive(Clone, Debug)]
pub struct Ending {
    pub end: End,
    /// Whether the endpoint sees an address of the node as the source.
    pub masquerade: bool,
    /// Its probability, from 0 to 1.
    pub share: f64,
    pub path: Vec<Met>,
    /// The rule that ended it, if one did.
    pub stopped_by: Option<Met>,
    /// That rule is foreign.
    pub is_foreign: bool,
    /// The packet's destination at that point.
    pub destination: SocketAddr,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum End {
    Forward(SocketAddr),
    Reject,
    Drop,
    /// It continues unchanged.
    Pass,
    /// A rule is not supported.
    Unknown,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Accepted by this base chain.
    Continue,
    Translate(SocketAddr),
    /// To a port of the node itself.
    Redirect(u16),
    /// To the destination that a virtual server has chosen.
    Schedule(SocketAddr),
    Masquerade,
    Drop,
    Reject,
    /// The rule in [`Branch::stopped_by`] is not supported.
    Unknown,
}

impl fmt::Display for End {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Forward(endpoint) => write!(formatter, "to {endpoint}"),
            Self::Reject => formatter.write_str("reject"),
            Self::Drop => formatter.write_str("drop"),
            Self::Pass => formatter.write_str("not handled"),
            Self::Unknown => formatter.write_str("unknown"),
        }
    }
}

impl fmt::Display for Met {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}: {}", self.place, self.content)
    }
}

impl Met {
    pub fn new(place: impl Into<Arc<str>>, content: impl Into<Arc<str>>) -> Self {
        Self { place: place.into(), content: content.into() }
    }
}

/// Rules of one kind, run on a packet.
pub trait Rules {
    fn base_chains(&self, hook: Hook, family: Family) -> Vec<BaseChain>;

    /// Runs one of [`Rules::base_chains`].
    fn run(&self, chain: &BaseChain, site: &Site<'_>, branch: Branch) -> Vec<(Branch, Verdict)>;

    /// Whether these rules add an address to the node that its Node object does not list.
    fn owns(&self, _address: IpAddr) -> bool {
        false
    }
}

/// No rules at all.
pub struct NoRules;

impl Rules for NoRules {
    fn base_chains(&self, _: Hook, _: Family) -> Vec<BaseChain> {
        Vec::new()
    }

    fn run(&self, _: &BaseChain, _: &Site<'_>, branch: Branch) -> Vec<(Branch, Verdict)> {
        vec![(branch, Verdict::Continue)]
    }
}

/// Where rules run.
pub struct Site<'a> {
    pub hook: Hook,
    pub node: &'a NodePlan,
    pub(crate) budget: &'a Budget,
    rules: &'a dyn Rules,
}

impl Site<'_> {
    /// Whether the address is one of the node's own.
    pub fn owns(&self, address: IpAddr) -> bool {
        self.node.owns(address) || self.rules.owns(address)
    }
}

impl Branch {
    fn new(packet: &Packet) -> Self {
        Self {
            packet: packet.clone(),
            original: SocketAddr::new(packet.destination, packet.port),
            translated: false,
            masqueraded: false,
            scheduled: false,
            untracked: false,
            mark: 0,
            share: 1.0,
            affinity: None,
            path: Vec::new(),
            stopped_by: None,
            notes: Vec::new(),
            doubts: Vec::new(),
            has_destination: false,
            is_diverted: false,
        }
    }

    pub fn destination(&self) -> SocketAddr {
        SocketAddr::new(self.packet.destination, self.packet.port)
    }

    /// The bytes that a copy of it takes.
    pub(crate) fn size(&self) -> usize {
        let texts = self.notes.iter().chain(&self.doubts).map(|text| size_of::<String>() + text.len());
        size_of::<Self>() + size_of_val(&*self.path) + texts.sum::<usize>()
    }

    /// Whether the other one is the same but for its share. If so, this one stands for both.
    pub(crate) fn absorb(&mut self, other: &Self) -> bool {
        let is_same = self.is_same(other);
        self.share += if is_same { other.share } else { 0.0 };
        is_same
    }

    fn is_same(&self, other: &Self) -> bool {
        let state = |it: &Self| (it.original, it.translated, it.masqueraded, it.scheduled, it.untracked, it.mark);
        let more = |it: &Self| (it.affinity, it.has_destination, it.is_diverted);
        state(self) == state(other)
            && more(self) == more(other)
            && self.packet == other.packet
            && (&self.notes, &self.doubts, &self.stopped_by) == (&other.notes, &other.doubts, &other.stopped_by)
            && self.path == other.path
    }

    /// Whether NAT chains of the hook have nothing left to decide.
    fn is_settled(&self, hook: Hook) -> bool {
        let is_destination = matches!(hook, Hook::Prerouting | Hook::Output);
        self.untracked || if is_destination { self.has_destination } else { self.masqueraded }
    }

    fn translate(&mut self, endpoint: SocketAddr, is_foreign: bool) {
        (self.packet.destination, self.packet.port) = (endpoint.ip(), endpoint.port());
        self.translated = true;
        self.has_destination = true;
        self.is_diverted |= is_foreign;
    }
}
