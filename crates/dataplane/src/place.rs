//! Places in the kernel where a service proxy keeps objects. Each mode lists its own, so that takeover and cleanup find
//! and remove exactly what a proxy has programmed, ours or kube-proxy's.

use std::fmt;

use portolan_model::Family;

use crate::tables::{Layout, Variant};

pub(crate) type Outcome<T> = Result<T, RemovalError>;

/// One place: a table, the chains of one address family, or a device with its virtual servers.
pub trait Place: fmt::Display {
    /// The mode whose objects are here.
    fn mode(&self) -> &'static str;

    fn users(&self) -> Users;

    /// What is here, apart from what the active mode owns.
    fn find(&self, owned: Option<&Owned>) -> Outcome<Option<Found>>;

    /// Whether Portolan programmed it.
    fn is_ours(&self) -> Outcome<bool>;

    /// Removes what [`Place::find`] finds. A second call completes what a failed one left.
    fn remove(&self, owned: Option<&Owned>, connections: Connections, report: &mut Report) -> Outcome<()>;

    /// Whether open connections keep it from being removed.
    fn is_busy(&self) -> bool {
        false
    }

    /// Whether a proxy can serve this family from here.
    fn serves(&self, family: Family) -> bool;

    /// The variant of iptables, for places in its tables.
    fn variant(&self) -> Option<Variant> {
        None
    }
}

/// Who can have programmed a place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Users {
    KubeProxy,
    Portolan,
    /// The objects have the same names in both.
    Both,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Found {
    /// How many chains, tables, sets and devices there are.
    pub objects: usize,
    /// At least one Service is served, as opposed to an empty frame.
    pub has_services: bool,
}

impl Found {
    /// `None` for an empty place.
    pub(crate) fn new(objects: usize, has_services: bool) -> Option<Self> {
        (objects > 0).then_some(Self { objects, has_services })
    }
}

/// What the active mode owns, which a takeover keeps.
#[derive(Clone, Debug)]
pub struct Owned {
    pub mode: &'static str,
    /// The table of nf_tables that belongs to Portolan alone.
    pub(crate) table: bool,
    /// Chains in the tables of one variant of iptables.
    pub(crate) chains: Option<(Variant, Layout)>,
}

impl Owned {
    pub(crate) fn by(mode: &'static str) -> Self {
        Self { mode, table: false, chains: None }
    }

    pub(crate) fn with_table(mode: &'static str) -> Self {
        Self { table: true, ..Self::by(mode) }
    }

    pub(crate) fn with_chains(mode: &'static str, variant: Variant, layout: Layout) -> Self {
        Self { chains: Some((variant, layout)), ..Self::by(mode) }
    }
}

/// What happens to connections that live only as long as the objects that carry them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Connections {
    Keep,
    Cut,
}

/// What was removed, what was kept and why, and what failed.
#[derive(Debug, Default)]
pub struct Report {
    pub removed: Vec<String>,
    /// Chains with kube-proxy's names that foreign rules use.
    pub kept: Vec<String>,
    pub failed: Vec<RemovalError>,
}

/// A removal that failed, and why.
#[derive(Debug, thiserror::Error)]
#[error("{attempted}: {reason}")]
pub struct RemovalError {
    attempted: String,
    reason: String,
    /// A second attempt would fail, too.
    is_final: bool,
}

impl RemovalError {
    pub fn new(attempted: impl Into<String>, reason: impl fmt::Display) -> Self {
        Self { attempted: attempted.into(), reason: reason.to_string(), is_final: false }
    }

    /// For an attempt that fails until the machine changes.
    pub(crate) fn lasting(self) -> Self {
        Self { is_final: true, ..self }
    }

    pub(crate) fn is_final(&self) -> bool {
        self.is_final
    }
}

impl Report {
    pub fn append(&mut self, mut other: Self) {
        self.removed.append(&mut other.removed);
        self.kept.append(&mut other.kept);
        self.failed.append(&mut other.failed);
    }

    pub fn is_complete(&self) -> bool {
        self.failed.is_empty()
    }
}

impl fmt::Display for Report {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.removed.iter().try_for_each(|what| writeln!(formatter, "removed {what}"))?;
        self.kept.iter().try_for_each(|what| writeln!(formatter, "kept {what}"))?;
        self.failed.iter().try_for_each(|what| writeln!(formatter, "failed: {what}"))
    }
}
