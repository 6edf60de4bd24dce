//! A mode as the rest of the program sees it: one object with its name, its requirements, and a way to open it.
//!
//! A mode's folder implements [`Mode`]; one line in [`crate::modes`] makes it exist. Nothing outside that folder depends
//! on which mode it is.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use portolan_model::Family;
use portolan_plan::{Limits, Packet, Plan, Trace};

use crate::difference::Difference;
pub use crate::drift::{ForeignChange, WatchForeignChanges};
use crate::options::{ModeFlag, ModeSettings};
use crate::place::{Owned, Place, Report};
use crate::report::{SyncReport, Trust};
use crate::requirements::Feature;
use crate::tables::RuleTally;
use crate::traffic::{Pair, ReadTraffic, Usage};
use crate::{Error, Listeners};

/// One way to implement Services on a node.
pub trait Mode: Sync {
    /// As in `--proxy-mode`.
    fn name(&self) -> &'static str;

    /// Other names for the same mode.
    fn aliases(&self) -> &'static [&'static str] {
        &[]
    }

    /// The operating system of the nodes that it is for, as in [`std::env::consts::OS`]. Elsewhere the mode answers questions, and
    /// its tests run in memory.
    fn system(&self) -> &'static str {
        "linux"
    }

    /// What this machine lacks for the mode, as a clause: "this kernel has no IPVS (module ip_vs)".
    fn missing(&self) -> Option<String> {
        None
    }

    /// What the mode uses of the kernel that not every release has, the oldest first.
    fn features(&self) -> &'static [Feature];

    /// The command whose output a listing looks like, where the listing does not begin with it.
    fn tool(&self) -> Option<&'static str> {
        None
    }

    /// Kernel modules that are not on every machine, besides nf_tables and conntrack.
    fn kernel_modules(&self) -> &'static [&'static str] {
        &[]
    }

    /// What the mode cannot do, for the plan.
    fn limits(&self) -> Limits {
        Limits::default()
    }

    /// The same with these settings.
    fn limits_with(&self, _settings: &ModeSettings) -> Limits {
        self.limits()
    }

    /// Flags of `portolan proxy` that only this mode reads.
    fn flags(&self) -> &'static [ModeFlag] {
        &[]
    }

    /// The settings as this mode reads them, for the log.
    fn describe(&self, settings: &ModeSettings) -> String {
        format!("masquerade_bit: {}", settings.masquerade_bit)
    }

    /// Whether a write is so expensive that kube-proxy's default interval between writes applies.
    fn batches_changes(&self) -> bool {
        false
    }

    /// Interfaces that hold Service addresses, which are not addresses of the node.
    fn devices(&self) -> &'static [&'static str] {
        &[]
    }

    /// Opens the mode in the network namespace of the calling thread.
    fn open(&self, settings: &ModeSettings) -> Result<Box<dyn ActiveMode>, Error>;

    /// The read-only side of the mode. Only the process that has the mode open knows its listeners.
    fn view(&self, settings: &ModeSettings, listeners: Option<Arc<Listeners>>) -> Box<dyn ModeView>;

    /// The mode on a kernel in memory, where one call in `fails_one_in` fails.
    fn in_memory(&self, settings: &ModeSettings, fails_one_in: u64, seed: u64) -> Box<dyn Synchronize>;

    /// Where this mode, ours and kube-proxy's, keeps objects in the kernel, in the order of removal.
    fn places(&self) -> Vec<Box<dyn Place>> {
        Vec::new()
    }

    /// A command that damages what this mode has programmed, as another process might; for the demo and for tests of
    /// repair.
    fn damage(&self) -> &'static [&'static str];

    /// Removes objects outside of all places that no rule refers to any more.
    fn remove_extras(&self, _report: &mut Report) {}
}

impl fmt::Debug for dyn Mode {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.name())
    }
}

impl PartialEq for dyn Mode {
    fn eq(&self, other: &Self) -> bool {
        self.name() == other.name()
    }
}

/// A call for a load balancer that the machine refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct BalancerFailure {
    pub call: BalancerCall,
    pub family: Family,
    /// What the load balancer is for, as in kube-proxy's label `lb_type`.
    pub kind: &'static str,
    /// The class of the error, as in kube-proxy's label `error`.
    pub error: &'static str,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum BalancerCall {
    Create,
    Update,
    Delete,
}

/// Something that can be synced to a plan.
pub trait Synchronize {
    /// Reads the kernel for the next sync, where that takes long: it needs no plan.
    fn read_ahead(&mut self) -> Result<(), Error> {
        Ok(())
    }

    fn sync(&mut self, plan: &Plan, trust: Trust) -> Result<SyncReport, Error>;

    /// Reads back and compares. Writes nothing.
    fn verify(&mut self, plan: &Plan) -> Result<Difference, Error>;
}

/// For an active mode whose field `reconciler` does all the work.
macro_rules! synchronize_by_reconciler {
    ($active:ty) => {
        impl Synchronize for $active {
            fn read_ahead(&mut self) -> Result<(), $crate::Error> {
                self.reconciler.read_ahead()
            }

            fn sync(&mut self, plan: &Plan, trust: $crate::Trust) -> Result<$crate::SyncReport, Error> {
                self.reconciler.sync(plan, trust)
            }

            fn verify(&mut self, plan: &Plan) -> Result<$crate::Difference, Error> {
                self.reconciler.verify(plan)
            }
        }
    };
}
pub(crate) use synchronize_by_reconciler;

/// A mode at work on the kernel.
pub trait ActiveMode: Synchronize + Send {
    /// Puts changed settings in force; the next sync reads the kernel and rewrites what differs. After an error the
    /// previous settings stay in force.
    fn use_settings(&mut self, settings: &ModeSettings) -> Result<(), Error>;

    /// What a takeover by this mode keeps.
    fn owned(&self) -> Owned;

    /// Notices changes by other processes.
    fn watch(&mut self) -> Result<Box<dyn WatchForeignChanges>, Error>;

    /// Reads this mode's counters, on another thread than the one that syncs.
    fn traffic_reader(&self) -> Result<Box<dyn ReadTraffic>, Error>;

    /// Deletes counters from the kernel. Only the thread that syncs may write to the mode's tables.
    fn forget_counts(&mut self, _pairs: &[(Pair, Usage)]) -> Result<(), Error> {
        Ok(())
    }

    /// What the iptables programs have written, in modes that use them.
    fn rule_tally(&self) -> Option<RuleTally> {
        None
    }

    /// How often the machine refused calls for load balancers since the start, in a mode that makes such calls.
    fn balancer_failures(&self) -> BTreeMap<BalancerFailure, u64> {
        BTreeMap::new()
    }

    /// Frontends that this mode serves in a slower way than it could, because a map of the kernel has no room for them.
    fn unaccelerated_frontends(&self) -> usize {
        0
    }

    /// The listening sockets, in a mode whose daemon carries connections.
    fn listeners(&self) -> Option<Arc<Listeners>> {
        None
    }
}

/// The read-only side of a mode.
pub trait ModeView {
    fn render(&self, plan: &Plan) -> Rendered;

    /// Traces a packet through the objects that the plan renders to.
    fn trace(&self, plan: &Plan, packet: &Packet) -> Trace;

    /// The same for many packets, with the objects rendered once.
    fn trace_all(&self, plan: &Plan, packets: &[Packet]) -> Vec<Trace>;

    /// Traces a packet through what the kernel holds.
    fn trace_kernel(&self, plan: &Plan, packet: &Packet) -> Result<Trace, Error>;

    /// The same for many packets, with the kernel read once.
    fn trace_kernel_all(&self, plan: &Plan, packets: &[Packet]) -> Result<Vec<Trace>, Error>;

    /// What differs between the kernel and the plan.
    fn verify(&self, plan: &Plan) -> Result<Difference, Error>;

    /// What differs between the objects of two plans.
    fn difference(&self, before: &Plan, after: &Plan) -> Difference;
}

/// What a plan renders to.
pub struct Rendered {
    /// In the format of the kernel's own tools.
    pub listing: String,
    /// Each object with its content.
    pub objects: Vec<(String, String)>,
}
