//! From a plan to kernel objects, and those objects into the kernel.
//!
//! A mode implements [`Dataplane`], which is pure, and gives a kernel that can be read ([`Observe`]) and written
//! ([`Program`]). What changed, which objects are shared and what to do after an error is written once, in `reconcile`.
//! To the rest of the program a mode is a [`mode::Mode`], found in [`modes`].
#![forbid(unsafe_code)]

pub mod connections;
mod difference;
mod drift;
pub mod ebpf;
mod families;
mod fate;
mod flows;
pub mod iptables;
pub mod ipvs;
pub mod kernelspace;
pub mod machine;
pub mod mode;
pub mod modes;
pub mod nft;
pub mod nftables;
mod objects;
mod options;
mod pace;
pub mod peers;
mod place;
mod reconcile;
mod report;
pub mod requirements;
pub mod tables;
mod tracer;
pub mod traffic;
pub mod userspace;
mod view;
pub mod walk;

pub mod fake;

use std::fmt::Display;

use portolan_model::Family;
use portolan_plan::{NodePlan, Packet, Plan, ServicePlan, Trace};

pub use difference::{Difference, ObjectDifference};
pub use flows::{FlowWorker, NoteWalk, Suspects, forget_stale_flows};
pub use objects::{Change, Objects, Sorted};
pub use options::{FlagKind, ModeFlag, ModeSettings, OptionValue, Options};
pub use place::Owned;
pub use reconcile::{Reconciler, render, verify};
pub use report::{Changes, PortChange, SyncReport, Trust};
pub use tracer::Tracer;
pub use userspace::{Listener, Listeners, NamedSocket, receive_sockets, send_sockets};

/// Renders a plan to kernel objects, one implementation per mode.
pub trait Dataplane {
    /// Names one kernel object: a map element, a chain, a virtual server, a listener.
    type Key: Ord + Clone + Display;
    /// Its whole content.
    type Value: Eq + Clone + Display;

    fn render_node(&self, node: &NodePlan) -> Objects<Self>;
    /// In any order. An object that several parts of the Service need may come several times.
    fn render_service(&self, node: &NodePlan, service: &ServicePlan) -> Vec<(Self::Key, Self::Value)>;
    /// The family that an object belongs to.
    fn family_of(&self, key: &Self::Key) -> Family;
    /// Whether several Services can have the same object, with the same content.
    fn is_shared(&self, key: &Self::Key) -> bool;
    /// Whether Services render to the same objects on both. If not, all of them are rewritten.
    fn renders_alike(&self, one: &NodePlan, other: &NodePlan) -> bool {
        one.treats_services_like(other)
    }

    /// Traces a packet through these objects alone.
    fn trace(&self, objects: &Objects<Self>, node: &NodePlan, packet: &Packet) -> Trace {
        self.tracer(objects, &walk::NoRules, node)(packet)
    }

    /// Traces packets through these objects and the rules of other programs.
    fn tracer<'a>(&'a self, objects: &'a Objects<Self>, foreign: &'a dyn walk::Rules, node: &'a NodePlan)
    -> Tracer<'a>;

    /// The nf_tables table that belongs to the mode alone.
    fn own_table(&self) -> Option<&'static str> {
        None
    }

    /// Whether a chain of this name, in a table shared with other programs, is one of these objects.
    fn is_own_chain(&self, _chain: &str) -> bool {
        false
    }
}

/// A kernel that can be read.
pub trait Observe<D: Dataplane + ?Sized> {
    fn read(&mut self) -> Result<Objects<D>, Error>;

    /// The same, to be compared.
    fn read_sorted(&mut self) -> Result<Sorted<D>, Error> {
        Ok(self.read()?.into())
    }

    /// Reads now what the next [`Self::read`] returns, unless something is written before.
    fn read_ahead(&mut self) -> Result<(), Error> {
        Ok(())
    }

    /// Whether it is certain that no other process has written since the last read or write.
    fn is_undisturbed(&mut self) -> Result<bool, Error>;

    /// What differs from these objects in the places that the watch has noted, and nowhere else. `None` if the whole kernel
    /// has to be read instead.
    fn read_noted(&mut self, _expected: &Objects<D>) -> Result<Option<Change<D>>, Error> {
        Ok(None)
    }

    /// The dataplane as this kernel calls for it, once it is read, where that differs between machines.
    fn dataplane(&self) -> Option<D>
    where
        D: Sized,
    {
        None
    }

    /// Whether the node has this family. Objects of one that it lacks are left out.
    fn serves(&self, _family: Family) -> bool {
        true
    }
}

/// A kernel that can be written.
pub trait Program<D: Dataplane + ?Sized>: Observe<D> {
    /// Writes the change. Few kernels have transactions for all of it, so this is what holds: each prefix of the write is
    /// safe for traffic (a new object is written before what refers to it, and an old one is unlinked before it is
    /// deleted), and after an error the kernel holds some prefix, from nothing to all. The next sync reads it and
    /// converges from there.
    ///
    /// All objects of a change belong to one family, so that families succeed and fail apart.
    ///
    /// With `only_if_undisturbed`, a kernel that can detect it refuses the change if another process has written since the
    /// last [`Observe::read`].
    fn apply(&mut self, change: &Change<D>, only_if_undisturbed: bool) -> Result<(), Error>;

    /// Called between a read and the write that follows it: what an earlier version has stored about clients is kept, where
    /// there is any.
    fn adopt_clients(&mut self, _plan: &Plan) -> Result<(), Error> {
        Ok(())
    }

    /// Deletes the session affinity of this Service port to endpoints that are in its pools no longer, where the kernel
    /// stores it. Returns how many entries were read.
    fn forget_clients(&mut self, _service: &ServicePlan) -> Result<usize, Error> {
        Ok(0)
    }
}

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error(transparent)]
    Kernel(#[from] portolan_kernel::Error),
    #[error(transparent)]
    Hns(#[from] portolan_hns::Error),
    #[error(transparent)]
    Relay(#[from] portolan_relay::Error),
    #[error("{attempted}: {reason}")]
    Program { attempted: String, reason: String },
    #[error("{0} (injected by the fake kernel)")]
    Fake(&'static str),
}

impl Error {
    /// Another process wrote between our read and our write: a second read is enough.
    pub fn is_outdated(&self) -> bool {
        matches!(self, Self::Kernel(portolan_kernel::Error::Outdated { .. }))
    }

    /// Something is missing that another program of the node creates: it is waited for.
    pub fn is_awaited(&self) -> bool {
        matches!(self, Self::Hns(error) if error.kind() == portolan_hns::ErrorKind::NetworkNotFound)
    }
}
