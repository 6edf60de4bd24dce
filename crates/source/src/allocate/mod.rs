//! ClusterIPs and node ports: who holds what, and who gets what.
//!
//! What a Service holds stays its own as long as the Service is there. An explicit wish for something that another
//! Service holds is refused; a pick never takes what is held.

mod band;
mod ports;
mod state;

use std::collections::{BTreeMap, HashSet};
use std::net::IpAddr;
use std::ops::RangeInclusive;

use ipnet::IpNet;
use portolan_model::{Family, Protocol, Service, ServiceName};

use crate::object::Wish;
use band::Usable;
pub(crate) use band::usable;
pub(crate) use state::{StateFile, load, path as state_path, put_aside, save};

/// What one Service holds.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Holding {
    pub(crate) addresses: Vec<IpAddr>,
    pub(crate) node_ports: Vec<(Protocol, u16, u16)>,
    pub(crate) health_port: Option<u16>,
}

impl Holding {
    pub(crate) fn of(service: &Service) -> Self {
        let ports = service.ports.iter();
        let node_ports = ports.filter_map(|port| Some((port.protocol, port.port, port.node_port?))).collect();
        Self { addresses: service.cluster_ips.to_vec(), node_ports, health_port: service.health_check_node_port }
    }

    pub(crate) fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    fn ports(&self) -> impl Iterator<Item = u16> {
        self.node_ports.iter().map(|(_, _, node_port)| *node_port).chain(self.health_port)
    }
}

/// Why a Service gets nothing.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Refusal {
    AddressTaken(IpAddr),
    PortTaken { path: String, number: u16 },
    NoAddressLeft(Family),
    NoPortLeft,
}

#[derive(Debug)]
pub(crate) struct Allocator {
    ranges: Vec<Usable>,
    node_port_range: RangeInclusive<u16>,
    addresses: HashSet<IpAddr>,
    ports: HashSet<u16>,
    /// Of Services that have no place in the snapshot: stored and not yet seen, or refused.
    holdings: BTreeMap<ServiceName, Holding>,
}

impl Allocator {
    pub(crate) fn new(ranges: &[IpNet], node_port_range: RangeInclusive<u16>) -> Self {
        let ranges = ranges.iter().map(usable).collect();
        let (addresses, ports, holdings) = Default::default();
        Self { ranges, node_port_range, addresses, ports, holdings }
    }

    /// Takes over what was stored. Of two that claim the same thing the first keeps it.
    pub(crate) fn remember(&mut self, stored: BTreeMap<ServiceName, Holding>) {
        for (name, mut holding) in stored {
            holding.addresses.retain(|address| !self.addresses.contains(address));
            holding.node_ports.retain(|(_, _, port)| !self.ports.contains(port));
            holding.health_port = holding.health_port.filter(|port| !self.ports.contains(port));
            self.reserve(&holding);
            self.holdings.insert(name, holding);
        }
    }

    /// A Service loses its place, but not yet what it holds.
    pub(crate) fn displace(&mut self, service: &Service) {
        self.holdings.insert(service.name.clone(), Holding::of(service));
    }

    /// A Service is gone, and others may have what it held. Tells whether it held anything.
    pub(crate) fn forget(&mut self, name: &ServiceName) -> bool {
        let Some(holding) = self.holdings.remove(name) else { return false };
        self.release(&holding);
        !holding.is_empty()
    }

    pub(crate) fn holdings(&self) -> &BTreeMap<ServiceName, Holding> {
        &self.holdings
    }

    /// Gives a Service its addresses and ports: those it asks for, those it held before, or free ones.
    pub(crate) fn place(&mut self, draft: &Service, wish: &Wish) -> Result<Service, Refusal> {
        let held = self.holdings.remove(&draft.name).unwrap_or_default();
        self.release(&held);
        let chosen = self.choose(draft, wish, &held);
        match &chosen {
            Ok(service) => self.reserve(&Holding::of(service)),
            Err(_) => {
                self.reserve(&held);
                self.holdings.insert(draft.name.clone(), held);
            }
        }
        chosen
    }

    fn choose(&self, draft: &Service, wish: &Wish, held: &Holding) -> Result<Service, Refusal> {
        let mut service = draft.clone();
        service.cluster_ips = self.choose_addresses(draft, wish, held)?;
        self.choose_ports(&mut service, wish, held)?;
        Ok(service)
    }

    fn choose_addresses(&self, draft: &Service, wish: &Wish, held: &Holding) -> Result<Box<[IpAddr]>, Refusal> {
        if wish.headless {
            return Ok([].into());
        }
        let families = wish.families().enumerate();
        families
            .map(|(index, family)| match wish.addresses().get(index) {
                Some(address) if self.addresses.contains(address) => Err(Refusal::AddressTaken(*address)),
                Some(address) => Ok(*address),
                None => self.choose_address(draft, family, held).ok_or(Refusal::NoAddressLeft(family)),
            })
            .collect()
    }

    fn choose_address(&self, draft: &Service, family: Family, held: &Holding) -> Option<IpAddr> {
        let in_range = |address: &&IpAddr| self.ranges.iter().any(|range| range.contains(**address));
        let of_family = |address: &&IpAddr| Family::of(**address) == family;
        let held = held.addresses.iter().filter(of_family).find(in_range);
        held.copied().or_else(|| self.pick_address(&draft.name, family))
    }

    fn pick_address(&self, name: &ServiceName, family: Family) -> Option<IpAddr> {
        let hash = band::stable_hash(&[&name.namespace, &name.name, &family.to_string()]);
        let mut ranges = self.ranges.iter().filter(|range| range.family() == family);
        ranges.find_map(|range| range.pick(hash, |address| !self.addresses.contains(&address)))
    }

    fn reserve(&mut self, holding: &Holding) {
        self.addresses.extend(&holding.addresses);
        self.ports.extend(holding.ports());
    }

    fn release(&mut self, holding: &Holding) {
        holding.addresses.iter().for_each(|address| _ = self.addresses.remove(address));
        holding.ports().for_each(|port| _ = self.ports.remove(&port));
    }
}
