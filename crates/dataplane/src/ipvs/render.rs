//! From the plan of a Service port to objects.

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};

use portolan_kernel::ipset::Entry;
use portolan_model::{Family, IpNet};
use portolan_plan::{
    Frontend, FrontendAddress, FrontendKind, NodePlan, Pool, Reason, Refusal, Route, Routes, ServicePlan, Verdict,
};

use super::Ipvs;
use super::objects::{Key, Server, Value};
use super::sets::{SetKind, SetName};
use super::weights;

pub(super) fn service(mode: &Ipvs, node: &NodePlan, service: &ServicePlan) -> BTreeMap<Key, Value> {
    let mut port = Port { mode, node, service, objects: BTreeMap::new() };
    for frontend in &service.frontends {
        match frontend.address {
            FrontendAddress::Vip(address, port_number) => port.vip(frontend, address, port_number),
            FrontendAddress::NodePort(port_number) => port.node_port(frontend, port_number),
        }
    }
    port.hairpins();
    if let Some(health_check) = service.health_check_port {
        port.enter(SetKind::HealthCheckNodePort, Entry::Port(health_check));
    }
    port.objects
}

struct Port<'a> {
    mode: &'a Ipvs,
    node: &'a NodePlan,
    service: &'a ServicePlan,
    objects: BTreeMap<Key, Value>,
}

impl Port<'_> {
    fn family(&self) -> Family {
        self.service.key.family
    }

    fn enter(&mut self, kind: SetKind, entry: Entry) {
        self.objects.insert(Key::Entry(SetName { family: self.family(), kind }, entry), Value::Present);
    }

    fn entry(&self, address: IpAddr, port: u16) -> Entry {
        Entry::IpPort(address, self.service.protocol(), port)
    }

    /// An address that the node already has is not put on the device: removed there with the last Service that uses it,
    /// it would be lost to the node.
    fn vip(&mut self, frontend: &Frontend, address: IpAddr, port: u16) {
        if !self.node.owns(address) {
            self.objects.insert(Key::Address(address), Value::Present);
            self.enter(SetKind::IpvsIps, Entry::Ip(address));
        }
        let entry = self.entry(address, port);
        let keeps_source = keeps_source(frontend.routes);
        match frontend.kind {
            FrontendKind::ClusterIp => self.enter(SetKind::ClusterIp, entry),
            FrontendKind::ExternalIp if keeps_source => self.enter(SetKind::ExternalIpLocal, entry),
            FrontendKind::ExternalIp => self.enter(SetKind::ExternalIp, entry),
            FrontendKind::LoadBalancerIp | FrontendKind::NodePort => {
                self.enter(SetKind::LoadBalancer, entry);
                if keeps_source {
                    self.enter(SetKind::LoadBalancerLocal, entry);
                }
            }
        }
        self.sources(frontend, address, port);
        self.server(frontend, SocketAddr::new(address, port));
    }

    fn node_port(&mut self, frontend: &Frontend, port: u16) {
        let is_free = |address: &IpAddr| !self.service.taken_addresses.contains(address);
        let addresses: Vec<IpAddr> = self.node.node_port_addresses(self.family()).filter(is_free).collect();
        let (all, local) = SetKind::of_node_ports(self.service.protocol());
        let entries: Vec<Entry> = match all {
            // SCTP node ports need a set of addresses and ports.
            SetKind::NodePortSctp => addresses.iter().map(|address| self.entry(*address, port)).collect(),
            _ => vec![Entry::Port(port)],
        };
        for entry in entries {
            self.enter(all, entry);
            if keeps_source(frontend.routes) {
                self.enter(local, entry);
            }
        }
        for address in addresses {
            self.server(frontend, SocketAddr::new(address, port));
        }
    }

    fn sources(&mut self, frontend: &Frontend, address: IpAddr, port: u16) {
        let Some(ranges) = &frontend.sources else { return };
        let protocol = self.service.protocol();
        self.enter(SetKind::LoadBalancerFirewall, self.entry(address, port));
        for range in ranges {
            match *range == IpNet::from(address) {
                true => self.enter(SetKind::LoadBalancerSourceIp, Entry::IpPortIp(address, protocol, port, address)),
                false => {
                    let (network, length) = (range.network(), range.prefix_len());
                    let entry = Entry::IpPortNet(address, protocol, port, network, length);
                    self.enter(SetKind::LoadBalancerSourceCidr, entry);
                }
            }
        }
    }

    /// A server without destinations refuses at once. Packets to drop are dropped before they get here; the server
    /// stays for its open connections.
    fn server(&mut self, frontend: &Frontend, address: SocketAddr) {
        let entry = self.entry(address.ip(), address.port());
        let routes = frontend.routes;
        match (is_dropped(routes.outside), is_dropped(routes.node)) {
            (true, true) => self.enter(SetKind::NoLocalEndpoints, entry),
            (true, false) => self.enter(SetKind::NoLocalOutside, entry),
            _ => {}
        }
        let server = Server { address, protocol: self.service.protocol() };
        let endpoints = pool(routes).map(|pool| self.service.weighted(pool)).unwrap_or_default();
        let scheduling = self.mode.scheduling(self.service, weights::matter(self.service, &endpoints));
        let factor = if self.service.balance.weights_vary { weights::factor(&scheduling, &endpoints) } else { 1 };
        self.objects.insert(Key::Server(server), Value::Scheduling(scheduling));
        for (endpoint, weight) in endpoints {
            self.objects.insert(Key::Destination(server, endpoint.socket()), Value::Weight(weight * factor));
        }
    }

    fn hairpins(&mut self) {
        let protocol = self.service.protocol();
        let reached = [Pool::Cluster, Pool::Local]
            .into_iter()
            .filter(|pool| self.service.frontends.iter().any(|frontend| frontend.routes.use_pool(*pool)));
        let endpoints: Vec<_> = reached.flat_map(|pool| self.service.pool(pool)).copied().collect();
        for endpoint in endpoints.iter().filter(|endpoint| endpoint.may_be_here) {
            let entry = Entry::IpPortIp(endpoint.address, protocol, endpoint.port, endpoint.address);
            self.enter(SetKind::LoopBack, entry);
        }
    }
}

/// Whether any route preserves the client's address, or would with local endpoints.
fn keeps_source(routes: Routes) -> bool {
    let keeps = |route: Route| matches!(route.verdict, Verdict::Forward(_)) && !route.masquerade;
    keeps(routes.outside) || is_dropped(routes.outside)
}

fn is_dropped(route: Route) -> bool {
    route.verdict == Verdict::Refuse(Refusal::Drop(Reason::NoLocalEndpoints))
}

/// The pool of a virtual server: the plan gives all its forwarding routes the same one.
fn pool(routes: Routes) -> Option<Pool> {
    [routes.outside, routes.node, routes.pod].into_iter().find_map(|route| match route.verdict {
        Verdict::Forward(pool) => Some(pool),
        Verdict::Refuse(_) => None,
    })
}
