//! SPELLING and DOING: a plan said in one mode's own objects, and those objects put into the kernel.
//!
//! A mode implements [`Dataplane`], which is pure, and gives a kernel that can be read ([`Observe`]) and written
//! ([`Program`]). Everything else (what changed, who shares what, what to do after an error) is written once, in
//! [`reconcile`].
#![forbid(unsafe_code)]

mod flows;
pub mod iptables;
pub mod ipvs;
pub mod nftables;
mod objects;
pub mod peers;
mod reconcile;
pub mod tables;
pub mod traffic;
pub mod userspace;
pub mod walk;

pub mod fake;

use std::fmt::Display;

use portolan_plan::{NodePlan, Packet, ServicePlan, Trace};

pub use portolan_plan::ClientChoice;

pub use flows::{forget_all_stale_flows, forget_flows};
pub use objects::{Change, Objects};
pub use reconcile::{Reconciler, SyncReport, render, verify};

/// One way of saying a plan.
pub trait Dataplane {
    /// Names one kernel object: a map element, a chain, a virtual server, a listener.
    type Key: Ord + Clone + Display;
    /// Its whole content.
    type Value: Eq + Clone + Display;

    fn render_node(&self, node: &NodePlan) -> Objects<Self>;
    fn render_service(&self, node: &NodePlan, service: &ServicePlan) -> Objects<Self>;
    /// Whether several Services may want the same object, with the same content.
    fn is_shared(&self, key: &Self::Key) -> bool;
    /// Whether Services are said in the same words on both; if not, all of them have to be written anew.
    fn says_alike(&self, one: &NodePlan, other: &NodePlan) -> bool {
        one.treats_services_like(other)
    }

    /// Where a packet goes by these objects alone.
    fn trace(&self, objects: &Objects<Self>, node: &NodePlan, packet: &Packet) -> Trace;
}

/// A kernel that can be asked.
pub trait Observe<D: Dataplane + ?Sized> {
    fn read(&mut self) -> Result<Objects<D>, Error>;

    /// Whether it is certain that nobody else has written since we last read or wrote.
    fn is_undisturbed(&mut self) -> Result<bool, Error>;
}

/// A kernel that can be told, in one transaction: all of the change is in force afterwards, or none of it.
pub trait Program<D: Dataplane + ?Sized>: Observe<D> {
    /// With `only_if_undisturbed`, the change is refused if anybody has written since the last [`Observe::read`].
    fn apply(&mut self, change: &Change<D>, only_if_undisturbed: bool) -> Result<(), Error>;

    /// Ends what the kernel itself remembers about clients (session affinity), but for the choices to keep.
    fn forget_clients(&mut self, keeps: &dyn Fn(&ClientChoice) -> bool) -> Result<usize, Error>;
}

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error(transparent)]
    Kernel(#[from] portolan_kernel::Error),
    #[error(transparent)]
    Relay(#[from] portolan_relay::Error),
    #[error("{attempted}: {reason}")]
    Program { attempted: String, reason: String },
    #[error("{0} (an error made by the fake kernel)")]
    Fake(&'static str),
}

impl Error {
    /// Somebody else wrote between our reading and our writing: reading again is all it takes.
    pub fn is_outdated(&self) -> bool {
        matches!(self, Self::Kernel(portolan_kernel::Error::Outdated { .. }))
    }
}
