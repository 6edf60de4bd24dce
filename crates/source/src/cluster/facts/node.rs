//! This Node, and the ranges of ClusterIPs.

use std::sync::Arc;

use ipnet::IpNet;
use portolan_model::Node;

use super::known::Facts;
use super::report::report_omitted;
use crate::cluster::state::NodeState;
use crate::convert::context::{Context, Flaw, Reading};
use crate::convert::node;
use crate::spec::{self, ServiceCidr};

/// The taint that the cluster autoscaler puts on a node before it removes the machine.
const TO_BE_DELETED: &str = "ToBeDeletedByClusterAutoscaler";

impl Facts {
    pub(super) fn put_node(&mut self, object: &spec::Node) -> Result<(), Flaw> {
        if let Some((node, state)) = self.read_node(object)? {
            self.set_node(node, state);
        }
        Ok(())
    }

    /// `None` for another Node.
    pub(super) fn read_node(&mut self, object: &spec::Node) -> Result<Option<(Node, NodeState)>, Flaw> {
        if object.metadata.name != *self.node_name {
            return Ok(None);
        }
        let mut context = Context::new(Reading::Lenient, &mut self.names);
        let node = node::convert(object, &mut context)?;
        report_omitted("Node", &object.metadata, &context);
        let name = self.node_name.clone();
        let (zone, addresses, pod_ranges) = (node.zone, node.addresses, node.pod_ranges);
        let node = Node { name, zone, addresses, pod_ranges, interface_addresses: [].into() };
        Ok(Some((node, state(object))))
    }

    /// A Node may be deleted while its machine runs: its last version stays in force, so that Services go on working. Load
    /// balancers see the state.
    pub(super) fn forget_node(&mut self) {
        self.has_changed |= self.node_state != NodeState::Absent;
        self.node_state = NodeState::Absent;
    }

    pub(super) fn set_node(&mut self, node: Node, state: NodeState) {
        self.has_changed |= self.node_state != state || *self.node != node;
        self.node_state = state;
        if *self.node != node {
            self.node = Arc::new(node);
        }
    }

    pub(super) fn put_ranges(&mut self, object: &ServiceCidr) -> Result<(), Flaw> {
        let ranges = node::service_ranges(object)?;
        self.ranges_by_object.insert(object.metadata.name.clone(), ranges);
        self.collect_ranges();
        Ok(())
    }

    pub(super) fn collect_ranges(&mut self) {
        let mut ranges: Vec<IpNet> = self.ranges_by_object.values().flatten().copied().collect();
        ranges.sort_unstable();
        ranges.dedup();
        if *self.service_ranges != *ranges {
            self.service_ranges = ranges.into();
            self.has_changed = true;
        }
    }
}

fn state(object: &spec::Node) -> NodeState {
    NodeState::Present {
        deleting: object.metadata.deletion_timestamp.is_some(),
        to_be_deleted_taint: object.spec.taints.iter().any(|taint| taint.key == TO_BE_DELETED),
    }
}
