//! Making the kernel forget UDP flows that a change made wrong.

use std::net::{IpAddr, SocketAddr};

use portolan_kernel::conntrack::{Conntrack, FlowFilter};
use portolan_model::{DiffItem, Family, Protocol};
use portolan_plan::{FrontendAddress, NodePlan, Plan, StaleFlow, StaleTarget, stale_flows};

use crate::Error;

/// Forgets what the change from one plan to the next makes stale; the kernel itself picks the flows.
pub fn forget_flows(conntrack: &mut Conntrack, before: &Plan, after: &Plan) -> Result<usize, Error> {
    let mut count = 0;
    for item in before.services.diff(&after.services) {
        let (old, new) = match item {
            DiffItem::Add(_, new) => (None, Some(new)),
            DiffItem::Remove(_, old) => (Some(old), None),
            DiffItem::Update { old, new } => (Some(old.1), Some(new.1)),
        };
        for flow in stale_flows(old.map(|it| &**it), new.map(|it| &**it)) {
            for filter in filters(&flow, &after.node) {
                conntrack.delete_matching(&filter)?;
                count += 1;
            }
        }
    }
    Ok(count)
}

/// Looks at every UDP flow, for when it is not known what happened before; tells how many were stale.
pub fn forget_all_stale_flows(conntrack: &mut Conntrack, plan: &Plan) -> Result<usize, Error> {
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

/// A node port is a flow to any of the node's own addresses that serve it, and to no other.
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
