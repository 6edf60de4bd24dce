//! This node, and the zones and addresses of all nodes.

use std::sync::Arc;

use portolan_model::Node;

use super::snapshot::World;
use crate::object::{Kind, NodeObject, Object, ObjectId};
use crate::store::Store;

impl World {
    pub(super) fn update_nodes(&mut self, store: &Store, touched: &[ObjectId]) -> bool {
        if !touched.iter().any(|id| id.kind == Kind::Node) {
            return false;
        }
        let nodes = store.of_kind(Kind::Node, None).filter_map(|(id, object)| Some((id, as_node(object)?)));
        self.zones = nodes.filter_map(|(id, node)| Some((id.name.clone(), node.zone.clone()?))).collect();
        let has_other_addresses = self.update_addresses(store);
        let node = self.this_node(store);
        let changed = *self.snapshot.node != node;
        if changed {
            self.snapshot.node = Arc::new(node);
        }
        changed || has_other_addresses
    }

    fn update_addresses(&mut self, store: &Store) -> bool {
        let nodes = store.of_kind(Kind::Node, None).filter_map(|(id, object)| Some((id, as_node(object)?)));
        let addresses = nodes.map(|(id, node)| (id.name.clone(), Arc::from(&*node.addresses))).collect();
        let changed = self.snapshot.nodes != addresses;
        self.snapshot.nodes = addresses;
        changed
    }

    /// The addresses of the machine's interfaces are not in manifests; the caller adds them.
    fn this_node(&self, store: &Store) -> Node {
        let id = ObjectId { kind: Kind::Node, namespace: "".into(), name: self.node_name.clone() };
        let empty = Node { name: self.node_name.clone(), ..Node::default() };
        let Some(node) = store.object(&id).and_then(as_node) else { return empty };
        Node {
            zone: node.zone.clone(),
            addresses: node.addresses.clone(),
            pod_ranges: node.pod_ranges.clone(),
            ..empty
        }
    }
}

fn as_node(object: &Object) -> Option<&NodeObject> {
    match object {
        Object::Node(node) => Some(node),
        _ => None,
    }
}
