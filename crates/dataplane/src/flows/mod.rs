//! Flows that a change of the plan or a repair made stale.
//!
//! Connection tracking pins each UDP flow to one endpoint, and a client that keeps its source port never gets a new one. When
//! an endpoint, a frontend or an address of the node goes, its flows are deleted; when one comes, so are the flows that were
//! not translated before. TCP is left alone: connections to a terminating endpoint may still finish.
//!
//! Translation is decided by the first packet of a flow. A connection whose first packet passed while rules were missing stays
//! untranslated, and each retransmission belongs to the same flow. After a repair, flows of all protocols that are
//! untranslated and have no reply yet are deleted, so that the next retransmission is translated.
//!
//! All stale flows are found in one walk of the connection table, whatever has changed. It is in no sync's way: see
//! [`FlowWorker`].

mod worker;

use std::collections::{BTreeSet, HashMap, HashSet};
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use portolan_kernel::conntrack::{Conntrack, Flow};
use portolan_model::{Family, Protocol};
use portolan_plan::{FrontendAddress, NodePlan, Plan, Pool, PortKey, ServicePlan, Verdict};

pub use worker::{FlowWorker, NoteWalk};

use crate::Error;
use crate::report::Changes;

/// How many earlier plans of one frontend are known at most: those of a Service that flaps during one walk.
const EARLIER_PLANS: usize = 8;
/// How many frontends are known at most, which bounds the memory while walks fail.
const MOST_FRONTENDS: usize = 200_000;

/// What served before, since the last walk. The current plan alone does not show which flows to addresses that it does not
/// serve were once its own.
#[derive(Clone, Default)]
pub struct Suspects {
    /// What a frontend led to before it changed.
    earlier: HashMap<(Family, FrontendAddress), Vec<Arc<ServicePlan>>>,
    /// Addresses of the node that have served node ports.
    withdrawn: BTreeSet<IpAddr>,
    /// Rules were missing: flows may be untranslated, whatever their protocol.
    untranslated: bool,
}

impl Suspects {
    /// Rules were missing until now.
    pub fn add_untranslated(&mut self) {
        self.untranslated = true;
    }

    /// Adds what changed. Returns whether there may be stale flows.
    pub fn add(&mut self, changes: &Changes, plan: &Plan) -> bool {
        let Changes::Known { ports, node } = changes else { return true };
        let is_udp = |port: &&Arc<ServicePlan>| port.protocol() == Protocol::Udp;
        let before = ports.iter().filter_map(|change| change.before.as_ref()).filter(is_udp);
        before.for_each(|port| self.add_port(port));
        if let Some(node) = node {
            self.add_node(node, &plan.node);
        }
        let has_changed =
            ports.iter().filter_map(|change| change.after.as_ref().or(change.before.as_ref())).any(|it| is_udp(&it));
        has_changed || node.is_some()
    }

    fn add_port(&mut self, port: &Arc<ServicePlan>) {
        for frontend in &port.frontends {
            if self.earlier.len() >= MOST_FRONTENDS {
                return;
            }
            let plans = self.earlier.entry((port.key.family, frontend.address)).or_default();
            if plans.len() >= EARLIER_PLANS {
                plans.remove(0);
            }
            plans.push(port.clone());
        }
    }

    fn add_node(&mut self, before: &NodePlan, after: &NodePlan) {
        for family in Family::BOTH {
            let served = before.node_port_addresses(family);
            self.withdrawn.extend(served.filter(|address| !after.serves_node_ports(family, *address)));
        }
    }

    fn merge(&mut self, earlier: Self) {
        for (frontend, mut plans) in earlier.earlier {
            let known = self.earlier.entry(frontend).or_default();
            plans.append(known);
            *known = plans.split_off(plans.len().saturating_sub(EARLIER_PLANS));
        }
        self.withdrawn.extend(earlier.withdrawn);
        self.untranslated |= earlier.untranslated;
    }
}

/// Deletes the stale flows of one family, which are found in one walk. Returns how many there were.
pub fn forget_stale_flows(
    conntrack: &mut Conntrack,
    family: Family,
    suspects: &Suspects,
    plan: &Plan,
) -> Result<usize, Error> {
    let mut check = Check { plan, suspects, serving: HashMap::new() };
    let udp = Protocol::Udp.number();
    let stale = if suspects.untranslated {
        conntrack.all_flows(family, |flow, is_replied| match flow.protocol == udp {
            true => check.is_stale(flow),
            false => !is_replied && is_untranslated(flow, plan),
        })
    } else {
        conntrack.flows(family, udp, |flow| check.is_stale(flow))
    };
    Ok(conntrack.delete_flows(&stale?)?)
}

/// Whether the flow is to a frontend, and no rule has translated it.
fn is_untranslated(flow: &Flow, plan: &Plan) -> bool {
    let destination = flow.original_destination;
    let is_served = |protocol: Protocol| {
        protocol.number() == flow.protocol && plan.holder(destination.ip(), destination.port(), protocol).is_some()
    };
    flow.reply_source == destination && [Protocol::Tcp, Protocol::Sctp].into_iter().any(is_served)
}

/// The pools that any route of a Service port leads to.
fn pools(port: &ServicePlan) -> BTreeSet<Pool> {
    let routes = port.frontends.iter().flat_map(|it| [it.routes.pod, it.routes.node, it.routes.outside]);
    let forwarded = routes.filter_map(|route| match route.verdict {
        Verdict::Forward(pool) => Some(pool),
        Verdict::Refuse(_) => None,
    });
    forwarded.collect()
}

struct Check<'a> {
    plan: &'a Plan,
    suspects: &'a Suspects,
    /// The endpoints of the Service ports that flows lead to. Thousands of flows may lead to thousands of endpoints.
    serving: HashMap<PortKey, HashSet<SocketAddr>>,
}

impl Check<'_> {
    /// A flow is stale if its destination is served and it leads elsewhere, or if an earlier plan has led it to an endpoint
    /// that its destination no longer has. A node port without endpoints counts as not served: another process may use the
    /// same port number on another address. A flow to the relay is stale only if its listener may have closed: the relay
    /// selects an endpoint for each datagram.
    fn is_stale(&mut self, flow: &Flow) -> bool {
        let (destination, leads_to) = (flow.original_destination, flow.reply_source);
        let node = &self.plan.node;
        if node.limits.relayed && leads_to != destination && node.owns(leads_to.ip()) {
            return self.has_lost_its_listener(flow);
        }
        let Some(claim) = self.plan.holder(destination.ip(), destination.port(), Protocol::Udp) else {
            return self.was_served(flow);
        };
        let serving = self.serving(&claim.holder);
        match matches!(claim.address, FrontendAddress::NodePort(_)) && serving.is_empty() {
            true => self.was_served(flow),
            false => !serving.contains(&leads_to),
        }
    }

    /// A pool that no route uses has no listener, and the next one may get another port.
    fn has_lost_its_listener(&self, flow: &Flow) -> bool {
        let now =
            |before: &ServicePlan| self.plan.services.get(&before.key).map(|port| pools(port)).unwrap_or_default();
        self.earlier(flow).any(|before| pools(before) != now(before))
    }

    /// What the destination of a flow has led to since the last walk.
    fn earlier(&self, flow: &Flow) -> impl Iterator<Item = &ServicePlan> {
        let destination = flow.original_destination;
        let vip = FrontendAddress::Vip(destination.ip(), destination.port());
        let addresses = [vip, FrontendAddress::NodePort(destination.port())].map(|address| (flow.family(), address));
        let plans = addresses.into_iter().filter_map(|address| self.suspects.earlier.get(&address));
        plans.flatten().map(Arc::as_ref)
    }

    fn was_served(&mut self, flow: &Flow) -> bool {
        let (destination, leads_to) = (flow.original_destination, flow.reply_source);
        if leads_to == destination {
            return false;
        }
        let (family, port) = (flow.family(), FrontendAddress::NodePort(destination.port()));
        let leads_to_one = self.earlier(flow).flat_map(|plan| plan.serving()).any(|it| it.socket() == leads_to);
        leads_to_one || self.suspects.withdrawn.contains(&destination.ip()) && self.serves(family, port, leads_to)
    }

    fn serves(&mut self, family: Family, frontend: FrontendAddress, endpoint: SocketAddr) -> bool {
        let claim = self.plan.claims.holder(family, frontend, Protocol::Udp);
        claim.is_some_and(|claim| self.serving(&claim.holder).contains(&endpoint))
    }

    fn serving(&mut self, port: &PortKey) -> &HashSet<SocketAddr> {
        let plan = self.plan;
        self.serving.entry(port.clone()).or_insert_with(|| {
            let service = plan.services.get(port);
            service.iter().flat_map(|service| service.serving()).map(|endpoint| endpoint.socket()).collect()
        })
    }
}
