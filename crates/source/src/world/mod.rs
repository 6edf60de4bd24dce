//! The snapshot, and how it follows from the objects.

mod memory;
mod names;
mod nodes;
mod services;
mod slices;

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use portolan_model::{Node, ServiceName, Snapshot};

use crate::allocate::Allocator;
use crate::object::{Object, ObjectId};
use crate::pods::PodAddresses;
use crate::report::Problem;
use crate::store::Store;
use crate::{Options, State};

#[derive(Debug)]
pub(crate) struct World {
    node_name: Arc<str>,
    state: State,
    snapshot: Snapshot,
    allocator: Allocator,
    /// Services that got no place, and why.
    refused: BTreeMap<ServiceName, Problem>,
    /// Written slices with the headless mark whose Service is not headless.
    hidden: BTreeMap<ServiceName, Vec<Arc<str>>>,
    pods: PodAddresses,
    /// The zone of every node that has one.
    zones: HashMap<Arc<str>, Arc<str>>,
    unsaved: bool,
    /// What is wrong with the state file, as found at the start and at the last attempt to write it.
    recall_problem: Option<Problem>,
    save_problem: Option<Problem>,
}

impl World {
    pub(crate) fn new(options: &Options) -> Self {
        let node_name: Arc<str> = options.node_name.as_str().into();
        let node = Arc::new(Node { name: node_name.clone(), ..Node::default() });
        let service_ranges = options.service_ranges.as_slice().into();
        let mut world = Self {
            node_name,
            state: options.state.clone(),
            snapshot: Snapshot { node, service_ranges, ..Snapshot::default() },
            allocator: Allocator::new(&options.service_ranges, options.node_port_range.clone()),
            pods: PodAddresses::default(),
            refused: BTreeMap::new(),
            hidden: BTreeMap::new(),
            zones: HashMap::new(),
            unsaved: false,
            recall_problem: None,
            save_problem: None,
        };
        world.recall();
        world
    }

    pub(crate) fn snapshot(&self) -> Snapshot {
        self.snapshot.clone()
    }

    pub(crate) fn problems(&self) -> impl Iterator<Item = Problem> {
        self.refused.values().chain(&self.recall_problem).chain(&self.save_problem).cloned()
    }

    /// Follows a change of objects. `lost` are the objects as they were before; what is touched may be new, changed or
    /// gone. Tells whether the snapshot changed.
    pub(crate) fn settle(&mut self, store: &mut Store, touched: &[ObjectId], lost: &[(ObjectId, Object)]) -> bool {
        let node_changed = self.settle_nodes(store, touched);
        let services_changed = self.settle_services(store, touched);
        let slices_changed = self.settle_slices(store, touched, lost);
        let names_changed = self.settle_names(store, touched);
        node_changed || services_changed || slices_changed || names_changed
    }
}
