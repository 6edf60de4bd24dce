//! What proxies leave in HNS, found and removed.

use std::fmt;

use portolan_hns::{Endpoint, Error, Guid, Hns, LoadBalancer, connect};
use portolan_model::Family;

use super::network::conjured_mac;
use super::{NAME, documents};
use crate::place::{Connections, Found, Outcome, Owned, Place, RemovalError, Report, Users};

pub(super) struct HnsObjects;

impl fmt::Display for HnsObjects {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("the load balancers and remote endpoints of HNS")
    }
}

/// What a proxy can have made: load balancers of one address and one port, and the endpoints that it marks.
struct Left {
    balancers: Vec<LoadBalancer>,
    endpoints: Vec<Endpoint>,
}

impl Left {
    fn read(hns: &mut dyn Hns) -> Result<Self, Error> {
        let balancers = hns.load_balancers()?.into_iter().filter(|it| documents::front(it).is_some()).collect();
        let mut endpoints = Vec::new();
        for network in hns.networks()? {
            let found = hns.endpoints(network.id)?;
            endpoints.extend(found.into_iter().filter(|it| is_a_proxys(it, network.id)));
        }
        Ok(Self { balancers, endpoints })
    }

    fn has_our_identities(&self) -> bool {
        let is_ours = |it: &LoadBalancer| {
            it.id.is_some() && it.id == documents::front(it).map(|front| documents::balancer_id(&front))
        };
        self.balancers.iter().any(is_ours)
            || self
                .endpoints
                .iter()
                .any(|it| it.host_compute_network.is_some_and(|network| has_our_identity(it, network)))
    }

    /// Load balancers go first: they name endpoints.
    fn remove(&self, hns: &mut dyn Hns) -> Result<(), Error> {
        let unless_gone = |outcome: Result<(), Error>| match outcome {
            Err(error) if error.is_not_found() => Ok(()),
            outcome => outcome,
        };
        self.balancers.iter().filter_map(|it| it.id).try_for_each(|id| unless_gone(hns.delete_load_balancer(id)))?;
        self.endpoints.iter().filter_map(|it| it.id).try_for_each(|id| unless_gone(hns.delete_endpoint(id)))
    }
}

fn addresses(endpoint: &Endpoint) -> impl Iterator<Item = std::net::IpAddr> {
    endpoint.ip_configurations.iter().filter_map(|it| it.ip_address.parse().ok())
}

/// Remote endpoints have a hardware address that kube-proxy and this mode make up in the same way.
fn is_a_proxys(endpoint: &Endpoint, network: Guid) -> bool {
    let has_mark = |address| endpoint.mac_address.eq_ignore_ascii_case(&conjured_mac(address));
    endpoint.is_remote() && addresses(endpoint).any(has_mark) || has_our_identity(endpoint, network)
}

fn has_our_identity(endpoint: &Endpoint, network: Guid) -> bool {
    addresses(endpoint).any(|address| endpoint.id == Some(documents::endpoint_id(network, address)))
}

fn failed(error: Error) -> RemovalError {
    RemovalError::new(format!("removing {HnsObjects}"), error)
}

impl Place for HnsObjects {
    fn mode(&self) -> &'static str {
        NAME
    }

    fn users(&self) -> Users {
        Users::Both
    }

    /// Of the active mode nothing is left over: a sync removes what no Service needs.
    fn find(&self, owned: Option<&Owned>) -> Outcome<Option<Found>> {
        if owned.is_some_and(|owned| owned.mode == NAME) {
            return Ok(None);
        }
        let left = connect().and_then(|mut hns| Left::read(&mut *hns)).map_err(failed)?;
        Ok(Found::new(left.balancers.len() + left.endpoints.len(), !left.balancers.is_empty()))
    }

    fn is_ours(&self) -> Outcome<bool> {
        let left = connect().and_then(|mut hns| Left::read(&mut *hns)).map_err(failed)?;
        Ok(left.has_our_identities())
    }

    fn remove(&self, _: Option<&Owned>, _: Connections, report: &mut Report) -> Outcome<()> {
        let mut hns = connect().map_err(failed)?;
        let left = Left::read(&mut *hns).map_err(failed)?;
        left.remove(&mut *hns).map_err(failed)?;
        let (balancers, endpoints) = (left.balancers.len(), left.endpoints.len());
        report.removed.push(format!("{balancers} load balancers and {endpoints} endpoints of HNS"));
        Ok(())
    }

    fn serves(&self, _: Family) -> bool {
        true
    }
}

#[cfg(test)]
mod tests {
    use portolan_hns::{Habits, IpConfiguration, MemoryHns, Network, PortMapping, endpoint_flags};

    use super::*;

    #[test]
    fn endpoints_of_pods_stay() {
        let mut hns = MemoryHns::new(Habits::default());
        let network = Network { id: Guid::of("network"), name: "cbr0".into(), ..Network::default() };
        hns.add_network(network.clone());
        hns.add_local_endpoint(network.id, "pod", "10.244.1.2".parse().unwrap());
        let address = "10.244.2.2".parse().unwrap();
        let remote = Endpoint {
            ip_configurations: vec![IpConfiguration { ip_address: "10.244.2.2".into(), prefix_length: 0 }],
            mac_address: conjured_mac(address),
            flags: endpoint_flags::REMOTE,
            ..Endpoint::default()
        };
        let id = Guid::of("of kube-proxy");
        hns.create_endpoint(network.id, id, &remote).unwrap();
        let balancer = LoadBalancer {
            host_compute_endpoints: vec![id],
            frontend_vips: vec!["10.96.0.10".into()],
            port_mappings: vec![PortMapping { protocol: 6, external_port: 80, ..PortMapping::default() }],
            ..LoadBalancer::default()
        };
        hns.create_load_balancer(Guid::of("its"), &balancer).unwrap();
        let left = Left::read(&mut hns).unwrap();
        assert!(!left.has_our_identities());
        left.remove(&mut hns).unwrap();
        let (endpoints, balancers) = hns.held();
        assert_eq!((endpoints.len(), balancers.len()), (1, 0));
        assert!(!endpoints[0].is_remote());
    }
}
