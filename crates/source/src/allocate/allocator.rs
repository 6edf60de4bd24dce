//! Which Service gets which ClusterIPs and node ports.

use std::collections::{BTreeMap, HashSet};
use std::net::IpAddr;
use std::ops::RangeInclusive;

use ipnet::IpNet;
use portolan_model::{Family, Service, ServiceName};

use super::band::{Usable, stable_hash, usable};
use super::holding::Holding;
use crate::object::AddressRequest;

/// Why a Service gets no addresses and node ports.
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
    pub(super) node_port_range: RangeInclusive<u16>,
    addresses: HashSet<IpAddr>,
    pub(super) ports: HashSet<u16>,
    /// Holdings of Services that are not in the snapshot: restored and not yet seen, or refused.
    holdings: BTreeMap<ServiceName, Holding>,
}

impl Allocator {
    pub(crate) fn new(ranges: &[IpNet], node_port_range: RangeInclusive<u16>) -> Self {
        let ranges = ranges.iter().map(usable).collect();
        let (addresses, ports, holdings) = Default::default();
        Self { ranges, node_port_range, addresses, ports, holdings }
    }

    /// Restores holdings from the state file. Of two that claim the same number the first keeps it.
    pub(crate) fn restore(&mut self, stored: BTreeMap<ServiceName, Holding>) {
        for (name, mut holding) in stored {
            holding.addresses.retain(|address| !self.addresses.contains(address));
            holding.node_ports.retain(|(_, _, port)| !self.ports.contains(port));
            holding.health_port = holding.health_port.filter(|port| !self.ports.contains(port));
            self.reserve(&holding);
            self.holdings.insert(name, holding);
        }
    }

    /// Reserves what a Service holds while it is not in the snapshot.
    pub(crate) fn suspend(&mut self, service: &Service) {
        self.holdings.insert(service.name.clone(), Holding::of(service));
    }

    /// Releases what a Service held. Returns whether it held anything.
    pub(crate) fn forget(&mut self, name: &ServiceName) -> bool {
        let Some(holding) = self.holdings.remove(name) else { return false };
        self.release(&holding);
        !holding.is_empty()
    }

    pub(crate) fn holdings(&self) -> &BTreeMap<ServiceName, Holding> {
        &self.holdings
    }

    /// Allocates addresses and node ports: the explicit ones, those held before, or free ones.
    pub(crate) fn allocate(&mut self, draft: &Service, request: &AddressRequest) -> Result<Service, Refusal> {
        let held = self.holdings.remove(&draft.name).unwrap_or_default();
        self.release(&held);
        let chosen = self.choose(draft, request, &held);
        match &chosen {
            Ok(service) => self.reserve(&Holding::of(service)),
            Err(_) => {
                self.reserve(&held);
                self.holdings.insert(draft.name.clone(), held);
            }
        }
        chosen
    }

    fn choose(&self, draft: &Service, request: &AddressRequest, held: &Holding) -> Result<Service, Refusal> {
        let mut service = draft.clone();
        service.cluster_ips = self.choose_addresses(draft, request, held)?;
        self.choose_ports(&mut service, request, held)?;
        Ok(service)
    }

    fn choose_addresses(
        &self,
        draft: &Service,
        request: &AddressRequest,
        held: &Holding,
    ) -> Result<Box<[IpAddr]>, Refusal> {
        if request.headless {
            return Ok([].into());
        }
        let families = request.families().enumerate();
        families
            .map(|(index, family)| match request.addresses().get(index) {
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
        let hash = stable_hash(&[&name.namespace, &name.name, &family.to_string()]);
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
