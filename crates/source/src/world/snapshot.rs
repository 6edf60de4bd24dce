//! The state from which the snapshot is updated.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::Instant;

use portolan_model::{Node, ServiceName, Snapshot};

use crate::allocate::Allocator;
use crate::object::{Object, ObjectId};
use crate::options::{Options, State};
use crate::pods::PodAddresses;
use crate::report::Problem;
use crate::store::Store;

#[derive(Debug)]
pub(crate) struct World {
    pub(super) node_name: Arc<str>,
    pub(super) state: State,
    pub(super) snapshot: Snapshot,
    pub(super) allocator: Allocator,
    /// Services without addresses and node ports, and why.
    pub(super) refused: BTreeMap<ServiceName, Problem>,
    /// Slices with the headless label whose Service is not headless.
    pub(super) hidden: BTreeMap<ServiceName, Vec<Arc<str>>>,
    pub(super) pods: PodAddresses,
    /// The zone of every node that has one.
    pub(super) zones: HashMap<Arc<str>, Arc<str>>,
    pub(super) unsaved: bool,
    /// Why the state file could not be read at the start.
    pub(super) load_problem: Option<Problem>,
    /// Why the last attempt to write the state file failed, and when the next one is due.
    pub(super) save_problem: Option<Problem>,
    pub(super) next_save: Option<Instant>,
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
            load_problem: None,
            save_problem: None,
            next_save: None,
        };
        world.load_allocations();
        world
    }

    pub(crate) fn snapshot(&self) -> Snapshot {
        self.snapshot.clone()
    }

    pub(crate) fn problems(&self) -> impl Iterator<Item = Problem> {
        self.refused.values().chain(&self.load_problem).chain(&self.save_problem).cloned()
    }

    /// Updates the snapshot after a change of objects: `touched` ones are new, changed or gone, and `lost` are the objects
    /// as they were before. Returns whether the snapshot changed.
    pub(crate) fn update(&mut self, store: &mut Store, touched: &[ObjectId], lost: &[(ObjectId, Object)]) -> bool {
        let node_changed = self.update_nodes(store, touched);
        let services_changed = self.update_services(store, touched);
        let slices_changed = self.update_slices(store, touched, lost);
        let names_changed = self.update_names(store, touched);
        node_changed || services_changed || slices_changed || names_changed
    }
}
