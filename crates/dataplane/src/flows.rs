//! UDP flows that a change of the plan made stale.

use std::net::{IpAddr, SocketAddr};

use portolan_kernel::conntrack::{Conntrack, FlowFilter};
use portolan_model::{Family, Protocol};
use portolan_plan::{FrontendAddress, NodePlan, Plan, StaleFlow, StaleTarget, stale_flows};

use crate::Error;
use crate::report::{Changes, PortChange};

/// Deletes conntrack entries of UDP flows to endpoints that are gone; they would keep clients from the current
/// endpoints. Returns the number of deleted entries, or of filters passed to the kernel.
pub fn forget_stale_flows(conntrack: &mut Conntrack, changes: &Changes, plan: &Plan) -> Result<usize, Error> {
    match changes {
        Changes::Unknown => forget_all_stale_flows(conntrack, plan),
        Changes::Ports(ports) => forget_flows(conntrack, ports, &plan.node),
    }
}

/// The cost follows the change: the kernel finds the flows.
fn forget_flows(conntrack: &mut Conntrack, ports: &[PortChange], node: &NodePlan) -> Result<usize, Error> {
    let mut count = 0;
    for change in ports {
        for flow in stale_flows(change.before.as_deref(), change.after.as_deref()) {
            for filter in filters(&flow, node) {
                conntrack.delete_matching(&filter)?;
                count += 1;
            }
        }
    }
    Ok(count)
}

/// Reads every UDP flow, for when it is unknown what changed.
fn forget_all_stale_flows(conntrack: &mut Conntrack, plan: &Plan) -> Result<usize, Error> {
    let mut count = 0;
    for family in Family::BOTH {
        for flow in conntrack.flows(family, Protocol::Udp.number())? {
            if plan.is_stale_flow(flow.original_destination, Protocol::Udp, flow.reply_source) {
                conntrack.delete_flow(&flow)?;
                count += 1;
            }
        }
    }
    Ok(count)
}

/// A node port matches flows to any of the node's own addresses that serve it, and to no other.
fn filters(flow: &StaleFlow, node: &NodePlan) -> Vec<FlowFilter> {
    match flow.frontend {
        FrontendAddress::Vip(address, port) => vec![filter(flow, address, port)],
        FrontendAddress::NodePort(port) => {
            node.node_port_addresses(flow.family).map(|address| filter(flow, address, port)).collect()
        }
    }
}

fn filter(flow: &StaleFlow, destination: IpAddr, port: u16) -> FlowFilter {
    let leads_to = match flow.target {
        StaleTarget::Anything => None,
        StaleTarget::Endpoint(endpoint) => Some(endpoint),
        StaleTarget::Untranslated => Some(SocketAddr::new(destination, port)),
    };
    FlowFilter {
        family: flow.family,
        protocol: flow.protocol.number(),
        original_destination: Some(destination),
        original_destination_port: Some(port),
        reply_source: leads_to.map(|endpoint| endpoint.ip()),
        reply_source_port: leads_to.map(|endpoint| endpoint.port()),
    }
}
