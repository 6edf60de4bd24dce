//! SRV records, with the addresses of their targets in the additional section.

use std::net::IpAddr;

use portolan_model::{Protocol, ServicePort};

use super::Question;
use super::addresses::unique_labels;
use crate::wire::{Builder, Data, Name, Section, kind};
use crate::zone::{Entry, Place, Targets};

/// The sum of all weights; a client selects a target in proportion to its weight.
const WEIGHTS: usize = 100;

impl Question<'_> {
    pub(super) fn services(&self, place: &Place<'_>, builder: &mut Builder<'_>) {
        match place {
            Place::Service(entry) if entry.is_headless() => self.endpoints(entry, entry.targets().all(), builder),
            Place::Port { entry, port, protocol } if entry.is_headless() => {
                let ports = entry.targets().of_port(port, *protocol).unwrap_or_default();
                self.endpoints(entry, ports, builder);
            }
            Place::Endpoint { entry, label } => {
                let targets = entry.targets();
                let ports = targets.find(label).map_or(&[][..], |label| targets.ports_of(label));
                self.endpoints(entry, ports, builder);
            }
            Place::Service(entry) => self.service(entry, |_| true, builder),
            Place::Port { entry, port, protocol } => self.service(entry, |it| has_name(it, port, *protocol), builder),
            _ => {}
        }
    }

    /// Ports of endpoints, and their addresses: as many as fit.
    fn endpoints(&self, entry: &Entry, ports: &[(u32, u16)], builder: &mut Builder<'_>) {
        let targets: &Targets = entry.targets();
        let weight = weight_of(ports.len());
        for (label, port) in ports {
            let Some(name) = self.target(entry, Some(targets.label(*label))) else { continue };
            if !self.service_record(weight, *port, &name, builder) {
                return;
            }
        }
        for label in unique_labels(ports) {
            let Some(name) = self.target(entry, Some(targets.label(label))) else { continue };
            if !targets.addresses_of(label).all(|address| self.additional(&name, address, builder)) {
                return;
            }
        }
    }

    /// Ports of the Service itself, and its ClusterIPs.
    fn service(&self, entry: &Entry, is_wanted: impl Fn(&ServicePort) -> bool, builder: &mut Builder<'_>) {
        let Some(name) = self.target(entry, None) else { return };
        let mut ports: Vec<u16> = entry.service.ports.iter().filter(|it| is_wanted(it)).map(|it| it.port).collect();
        ports.sort_unstable();
        ports.dedup();
        for port in &ports {
            self.service_record(weight_of(ports.len()), *port, &name, builder);
        }
        for address in entry.service.cluster_ips.iter().filter(|_| !ports.is_empty()) {
            self.additional(&name, *address, builder);
        }
    }

    fn service_record(&self, weight: u16, port: u16, name: &Name, builder: &mut Builder<'_>) -> bool {
        let data = Data::Service { weight, port, target: name.as_bytes() };
        self.record(kind::SRV, self.zone.config().ttl, data, builder)
    }

    fn target(&self, entry: &Entry, label: Option<&str>) -> Option<Name> {
        let service = &entry.service.name;
        let fixed = [service.name.as_bytes(), service.namespace.as_bytes(), b"svc".as_slice()];
        Name::from_labels(label.map(str::as_bytes).into_iter().chain(fixed), self.apex).ok()
    }

    pub(super) fn additional(&self, name: &Name, address: IpAddr, builder: &mut Builder<'_>) -> bool {
        let ttl = self.zone.config().ttl;
        let mut add =
            |kind, octets: &[u8]| builder.record(Section::Additional, name.as_bytes(), kind, ttl, Data::Raw(octets));
        match address {
            IpAddr::V4(address) => add(kind::A, &address.octets()),
            IpAddr::V6(address) => add(kind::AAAA, &address.octets()),
        }
    }
}

fn weight_of(targets: usize) -> u16 {
    (WEIGHTS / targets.max(1)).max(1) as u16
}

fn has_name(port: &ServicePort, name: &[u8], protocol: Protocol) -> bool {
    port.name.as_bytes().eq_ignore_ascii_case(name) && port.protocol == protocol
}
