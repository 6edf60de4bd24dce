//! What a sync may assume, and what it did.

use std::sync::Arc;
use std::time::Duration;

use portolan_model::{DiffItem, Family, OrdMap};
use portolan_plan::{NodePlan, Plan, PortKey, ServicePlan, invalidates_affinity};

/// What a sync may assume about the kernel without reading all of it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Trust {
    /// It holds what the last sync wrote. Foreign changes are notified.
    #[default]
    Memory,
    /// It holds what the last sync wrote, except where the watch has noted a foreign change.
    Notified,
    /// It holds what the last sync wrote if its generation counter shows no foreign commit since.
    Generation,
    /// It is read and compared as a whole.
    Nothing,
}

/// What one sync did.
#[derive(Clone, Debug, Default)]
pub struct SyncReport {
    /// Objects written, changed or removed.
    pub objects: usize,
    /// Service ports that were rendered.
    pub services: usize,
    /// Service ports that differ from the last sync that succeeded.
    pub changes: Changes,
    /// The kernel was read and compared as a whole.
    pub full: bool,
    /// Objects that were not as the last sync wrote them.
    pub repaired: usize,
    /// One family failed; the other is in force.
    pub failure: Option<String>,
    /// Some work is left to the next sync, which is due at once.
    pub unfinished: bool,
    /// Time spent in the write itself.
    pub kernel_time: Duration,
}

impl SyncReport {
    /// Whether rules may have been missing until this sync: it has read the kernel, and what it found was not the plan.
    pub fn has_completed_rules(&self) -> bool {
        self.repaired > 0 || self.full && self.objects > 0
    }
}

/// What changed.
#[derive(Clone, Debug)]
pub enum Changes {
    /// There was no sync before: anything may have changed.
    Unknown,
    Known {
        ports: Vec<PortChange>,
        /// The node before, if other addresses serve node ports now.
        node: Option<Arc<NodePlan>>,
    },
}

/// A Service port before and after. At least one of the two is set.
#[derive(Clone, Debug)]
pub struct PortChange {
    pub before: Option<Arc<ServicePlan>>,
    pub after: Option<Arc<ServicePlan>>,
}

impl Default for Changes {
    fn default() -> Self {
        Self::Known { ports: Vec::new(), node: None }
    }
}

impl Changes {
    pub(crate) fn between(before: Option<&Plan>, after: &Plan) -> Self {
        match before {
            Some(before) => Self::Known {
                ports: changed_ports(&before.services, &after.services).collect(),
                node: (!serve_node_ports_alike(&before.node, &after.node)).then(|| before.node.clone()),
            },
            None => Self::Unknown,
        }
    }

    pub(crate) fn ports(&self) -> &[PortChange] {
        match self {
            Self::Unknown => &[],
            Self::Known { ports, .. } => ports,
        }
    }

    /// The Service ports whose session affinity may lead to endpoints that are gone.
    pub(crate) fn stale_clients(&self, plan: &Plan) -> Vec<PortKey> {
        match self {
            Self::Unknown => {
                let is_sticky = |service: &&Arc<ServicePlan>| service.affinity_seconds.is_some();
                plan.services.values().filter(is_sticky).map(|service| service.key.clone()).collect()
            }
            Self::Known { ports, .. } => ports.iter().filter_map(PortChange::stale_clients).collect(),
        }
    }
}

impl PortChange {
    fn stale_clients(&self) -> Option<PortKey> {
        let (before, after) = (self.before.as_deref()?, self.after.as_deref()?);
        invalidates_affinity(before, after).then(|| after.key.clone())
    }
}

fn serve_node_ports_alike(one: &NodePlan, other: &NodePlan) -> bool {
    one == other
        || Family::BOTH.into_iter().all(|family| one.node_port_addresses(family).eq(other.node_port_addresses(family)))
}

type PortPlans = OrdMap<PortKey, Arc<ServicePlan>>;

fn changed_ports(before: &PortPlans, after: &PortPlans) -> impl Iterator<Item = PortChange> {
    before.diff(after).map(|item| match item {
        DiffItem::Add(_, new) => PortChange { before: None, after: Some(new.clone()) },
        DiffItem::Remove(_, old) => PortChange { before: Some(old.clone()), after: None },
        DiffItem::Update { old, new } => PortChange { before: Some(old.1.clone()), after: Some(new.1.clone()) },
    })
}
