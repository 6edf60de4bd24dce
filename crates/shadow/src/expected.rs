//! Intended differences, each with its reason.

use std::collections::HashSet;

use portolan_model::Family;
use portolan_plan::{FrontendAddress, FrontendKind, Packet, Plan, ServicePlan};

use portolan_dataplane::walk::End;

use crate::behaviour::Behaviour;
use crate::probes::{Client, Probe};

const OTHER_NODE_ADDRESSES: &str = "Portolan serves node ports on the node's primary addresses, as kube-proxy's nftables \
    mode does; set nodePortAddresses (--nodeport-addresses all) to serve them on every address";
const LOCALHOST: &str = "node ports on 127.0.0.1 exist in kube-proxy's iptables mode only";
const SHARED_ADDRESS: &str = "several Services have this address and port; which one kube-proxy serves depends on the \
    order of events, Portolan always serves the same";

/// The rest is about kube-proxy's iptables mode alone; its nftables mode does as Portolan does.
const REFUSED_TO_THE_NODE: &str = "kube-proxy's iptables mode does not reject connections of the node itself to \
    an external or load-balancer address without endpoints";
const RESTRICTED_AND_EMPTY: &str =
    "kube-proxy's iptables mode applies source ranges only while the Service has endpoints";
const TWICE_IN_ONE_SERVICE: &str = "the address is an external IP of the same Service, too, for which kube-proxy's \
    iptables mode does not apply the source ranges";

pub(crate) struct Expectations<'a> {
    plan: &'a Plan,
    mode: &'static str,
    contested: HashSet<FrontendAddress>,
}

impl<'a> Expectations<'a> {
    pub(crate) fn new(plan: &'a Plan, mode: &'static str) -> Self {
        let conflicts = plan.services.values().flat_map(|service| &service.conflicts);
        Self { plan, mode, contested: conflicts.map(|conflict| conflict.address).collect() }
    }

    /// Why the two differ by design, if they do.
    pub(crate) fn reason(
        &self,
        probe: &Probe,
        service: Option<&ServicePlan>,
        portolan: &Behaviour,
        kube_proxy: &Behaviour,
    ) -> Option<&'static str> {
        let packet = &probe.packet;
        let ends = (portolan.sole_end(), kube_proxy.sole_end());
        if ends.0 == Some(End::Pass) {
            return self.not_served_here(packet);
        }
        if self.is_contested(packet) {
            return Some(SHARED_ADDRESS);
        }
        if self.mode != "iptables" {
            return None;
        }
        let service = service?;
        let is_external =
            matches!(kind(service, packet), Some(FrontendKind::LoadBalancerIp | FrontendKind::ExternalIp));
        let is_empty = service.cluster.is_empty() && service.local.is_empty();
        match ends {
            (Some(End::Reject), Some(End::Pass)) if probe.client == Client::Node && is_external && is_empty => {
                Some(REFUSED_TO_THE_NODE)
            }
            (Some(End::Drop), Some(End::Reject | End::Pass)) if is_external && is_empty => Some(RESTRICTED_AND_EMPTY),
            (Some(End::Drop), _) if self.is_external_ip(service, packet) => Some(TWICE_IN_ONE_SERVICE),
            _ => None,
        }
    }

    fn not_served_here(&self, packet: &Packet) -> Option<&'static str> {
        let (node, destination) = (&self.plan.node, packet.destination);
        if self.mode == "iptables" && destination.is_loopback() {
            return Some(LOCALHOST);
        }
        let is_other = node.owns(destination) && !node.serves_node_ports(Family::of(destination), destination);
        is_other.then_some(OTHER_NODE_ADDRESSES)
    }

    fn is_contested(&self, packet: &Packet) -> bool {
        self.contested.contains(&FrontendAddress::Vip(packet.destination, packet.port))
            || self.contested.contains(&FrontendAddress::NodePort(packet.port))
    }

    /// The stricter kind of an address that is listed twice hides the other one in the plan, but not in the facts.
    fn is_external_ip(&self, service: &ServicePlan, packet: &Packet) -> bool {
        let facts = self.plan.facts().services.get(&service.key.name.service);
        kind(service, packet) == Some(FrontendKind::LoadBalancerIp)
            && facts.is_some_and(|facts| facts.external_ips.contains(&packet.destination))
    }
}

fn kind(service: &ServicePlan, packet: &Packet) -> Option<FrontendKind> {
    let address = FrontendAddress::Vip(packet.destination, packet.port);
    service.frontends.iter().find(|frontend| frontend.address == address).map(|frontend| frontend.kind)
}
