//! The frontends of a Service port, and the route of each origin.

use std::net::IpAddr;

use portolan_model::{Family, IpNet, Protocol, Service, ServiceKind, ServicePort, TrafficPolicy};

use crate::balance::Selection;
use crate::config::LoadBalancers;
use crate::connect::{self, AtConnect};
use crate::node::NodePlan;
use crate::pools::{Pools, Wanted};
use crate::service::{Frontend, FrontendAddress, FrontendKind};
use crate::verdict::{Pool, Reason, Refusal, Route, Routes, Verdict};

/// One Service port in one family, on this node.
pub(crate) struct Context<'a> {
    service: &'a Service,
    port: &'a ServicePort,
    family: Family,
    node: &'a NodePlan,
    selection: Selection,
}

impl<'a> Context<'a> {
    pub(crate) fn new(
        service: &'a Service,
        port: &'a ServicePort,
        family: Family,
        node: &'a NodePlan,
        selection: Selection,
    ) -> Self {
        Self { service, port, family, node, selection }
    }

    pub(crate) fn wanted_pools(&self) -> Wanted {
        let reachable = self.is_externally_accessible();
        Wanted {
            cluster: !self.internal_local() || reachable,
            local: self.internal_local() || (reachable && (self.external_local() || self.preserves_destination())),
        }
    }

    pub(crate) fn frontends(&self, cluster_ip: IpAddr, pools: &Pools) -> Box<[Frontend]> {
        let internal = self.internal_routes(pools);
        let external = self.external_routes(self.external_local(), pools);
        // The annotation concerns what a load balancer outside of the cluster sends, and that arrives at its own addresses.
        let balanced = self.external_routes(self.external_local() || self.preserves_destination(), pools);
        let mut frontends = vec![self.vip(cluster_ip, FrontendKind::ClusterIp, internal, None)];
        let sources = self.allowed_sources();
        for address in self.of_family(&self.service.load_balancer_ips) {
            frontends.push(self.vip(address, FrontendKind::LoadBalancerIp, balanced, sources.clone()));
        }
        if self.node.allow_external_ips {
            for address in self.of_family(&self.service.external_ips) {
                frontends.push(self.vip(address, FrontendKind::ExternalIp, external, None));
            }
        }
        if let Some(port) = self.port.node_port {
            let address = FrontendAddress::NodePort(port);
            let routes = if external == balanced { external } else { with_source_of(external, balanced) };
            frontends.push(self.frontend(address, FrontendKind::NodePort, routes, None));
        }
        deduplicated(frontends)
    }

    fn vip(&self, address: IpAddr, kind: FrontendKind, routes: Routes, sources: Option<Box<[IpNet]>>) -> Frontend {
        self.frontend(FrontendAddress::Vip(address, self.port.port), kind, routes, sources)
    }

    /// The routes are those of origins that are known for certain.
    fn frontend(
        &self,
        address: FrontendAddress,
        kind: FrontendKind,
        known: Routes,
        sources: Option<Box<[IpNet]>>,
    ) -> Frontend {
        let at_connect = self.at_connect(known, sources.is_some());
        // Without a detector no packet is known to come from a pod, so that pods are treated as outside traffic.
        let pod = if self.detects_pods() { known.pod } else { known.outside };
        Frontend { address, kind, sources, routes: Routes { pod, ..known }, at_connect }
    }

    /// Hooks draw at random: the rules take turns, and hash the source, which no hook knows.
    fn at_connect(&self, routes: Routes, limits_sources: bool) -> AtConnect {
        let is_left_to_rules = limits_sources || self.selection != Selection::Random;
        if !self.node.limits.at_connect || is_left_to_rules || self.port.protocol == Protocol::Sctp {
            return AtConnect::default();
        }
        let decide = |route| connect::verdict(route, self.node);
        let pod = decide(routes.pod).filter(|_| !self.node.limits.only_node_at_connect);
        AtConnect { pod, node: decide(routes.node) }
    }

    /// Traffic to the ClusterIP. The source of pods is kept; other sources are masqueraded, because replies to them
    /// might bypass this node.
    fn internal_routes(&self, pools: &Pools) -> Routes {
        let pool = if self.internal_local() { Pool::Local } else { Pool::Cluster };
        let verdict = self.forward(pool, pools);
        if let Some(LoadBalancers { direct_return, .. }) = self.node.limits.load_balancers {
            return Routes::same(self.route(verdict, !direct_return));
        }
        let all = self.node.masquerade_all;
        let others = self.route(verdict, all || self.detects_pods());
        Routes { pod: self.route(verdict, all), node: others, outside: others }
    }

    /// Traffic to node ports, load-balancer IPs and external IPs.
    fn external_routes(&self, only_local: bool, pools: &Pools) -> Routes {
        let anywhere = self.forward(Pool::Cluster, pools);
        let masqueraded = self.route(anywhere, true);
        if !only_local {
            return Routes::same(masqueraded);
        }
        // Pods and the node are inside the cluster, so the external traffic policy does not apply to them: they reach
        // every endpoint, as though they had come through the load balancer.
        let local = self.forward(Pool::Local, pools);
        if self.node.limits.load_balancers.is_some() {
            return Routes::same(self.route(local, false));
        }
        // A virtual server cannot distinguish origins, so that inside and outside share the local pool, if it has any
        // endpoints.
        let inside =
            if self.node.limits.virtual_servers && matches!(local, Verdict::Forward(_)) { local } else { anywhere };
        Routes { pod: self.route(inside, false), node: self.route(inside, true), outside: self.route(local, false) }
    }

    /// The relay opens the connection to the endpoint, so that the endpoint sees the node as the client.
    fn route(&self, verdict: Verdict, masquerade: bool) -> Route {
        Route::new(verdict, masquerade || self.node.limits.relayed)
    }

    fn forward(&self, pool: Pool, pools: &Pools) -> Verdict {
        let endpoints = match pool {
            Pool::Cluster => &pools.cluster,
            Pool::Local => &pools.local,
        };
        match (endpoints.is_empty(), pool, pools.any) {
            _ if !self.node.carries(self.port.protocol) => {
                Verdict::Refuse(Refusal::Reject(Reason::UnsupportedProtocol))
            }
            (false, ..) => Verdict::Forward(pool),
            (true, Pool::Local, true) => Verdict::Refuse(Refusal::Drop(Reason::NoLocalEndpoints)),
            (true, ..) => Verdict::Refuse(Refusal::Reject(Reason::NoEndpoints)),
        }
    }

    /// `loadBalancerSourceRanges` of this family. A range that covers every address is no restriction.
    fn allowed_sources(&self) -> Option<Box<[IpNet]>> {
        if self.node.limits.load_balancers.is_some() {
            return None;
        }
        let mut ranges: Vec<IpNet> =
            self.service.source_ranges.iter().copied().filter(|it| Family::of_range(it) == self.family).collect();
        if ranges.is_empty() || ranges.iter().any(|range| range.prefix_len() == 0) {
            return None;
        }
        if self.node.object_addresses.iter().any(|address| ranges.iter().any(|range| range.contains(address))) {
            // Traffic from the node to the address may loop back with that address as its source.
            ranges.extend(self.of_family(&self.service.load_balancer_ips).map(IpNet::from));
        }
        Some(IpNet::aggregate(&ranges).into())
    }

    fn of_family<'b>(&self, addresses: &'b [IpAddr]) -> impl Iterator<Item = IpAddr> + use<'b> {
        let family = self.family;
        addresses.iter().copied().filter(move |address| Family::of(*address) == family)
    }

    fn detects_pods(&self) -> bool {
        self.node.family(self.family).pods.is_some()
    }

    fn internal_local(&self) -> bool {
        self.service.internal_policy == TrafficPolicy::Local
    }

    fn external_local(&self) -> bool {
        let is_external = match self.service.kind {
            ServiceKind::NodePort | ServiceKind::LoadBalancer => true,
            ServiceKind::ClusterIp => !self.service.external_ips.is_empty(),
            ServiceKind::ExternalName => false,
        };
        is_external && self.service.external_policy == TrafficPolicy::Local
    }

    fn preserves_destination(&self) -> bool {
        self.service.preserve_destination && self.node.limits.load_balancers.is_some()
    }

    fn is_externally_accessible(&self) -> bool {
        self.port.node_port.is_some()
            || self.of_family(&self.service.load_balancer_ips).next().is_some()
            || self.of_family(&self.service.external_ips).next().is_some()
    }
}

/// The endpoints of some routes, with the masquerade of others.
fn with_source_of(masquerade: Routes, endpoints: Routes) -> Routes {
    Routes::same(Route::new(endpoints.outside.verdict, masquerade.outside.masquerade))
}

/// An address may be listed twice, for example as load-balancer IP and as external IP: the first, stricter kind
/// counts.
fn deduplicated(frontends: Vec<Frontend>) -> Box<[Frontend]> {
    let mut kept: Vec<Frontend> = Vec::with_capacity(frontends.len());
    for frontend in frontends {
        if kept.iter().all(|other| other.address != frontend.address) {
            kept.push(frontend);
        }
    }
    kept.into()
}
