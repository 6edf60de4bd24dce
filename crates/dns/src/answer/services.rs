//! SRV records, with the addresses of their targets in the additional section.

use std::net::IpAddr;

use portolan_model::{Protocol, Slice, SliceEndpoint};

use super::Question;
use super::addresses::unique;
use crate::wire::{Builder, Data, Name, Section, kind};
use crate::zone::{Entry, Place, label};

/// The sum of all weights; a client selects a target in proportion to its weight.
const WEIGHTS: usize = 100;

/// The ports that the query asks for.
enum Wanted<'a> {
    All,
    One(&'a [u8], Protocol),
}

impl Wanted<'_> {
    fn includes(&self, name: &str, protocol: Protocol) -> bool {
        match self {
            Self::All => true,
            Self::One(wanted, same) => name.as_bytes().eq_ignore_ascii_case(wanted) && protocol == *same,
        }
    }
}

/// A port of an endpoint, which has a label, or of the Service itself.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Target {
    label: Option<String>,
    port: u16,
}

/// The answers, and the records of the additional section.
#[derive(Default)]
struct Targets {
    ports: Vec<Target>,
    addresses: Vec<(Option<String>, IpAddr)>,
}

impl Question<'_> {
    pub(super) fn services(&self, place: &Place<'_>, builder: &mut Builder<'_>) {
        let (entry, targets) = match place {
            Place::Service(entry) => (entry, targets(entry, &Wanted::All)),
            Place::Port { entry, port, protocol } => (entry, targets(entry, &Wanted::One(port, *protocol))),
            Place::Endpoint { entry, label } => (entry, of_endpoints(entry.named(label), &Wanted::All)),
            _ => return,
        };
        self.write(entry, targets, builder);
    }

    fn write(&self, entry: &Entry, targets: Targets, builder: &mut Builder<'_>) {
        let ports = unique(targets.ports.into_iter());
        let weight = (WEIGHTS / ports.len().max(1)).max(1) as u16;
        for target in &ports {
            let Some(name) = self.target(entry, target.label.as_deref()) else { continue };
            let data = Data::Service { weight, port: target.port, target: name.as_bytes() };
            if !self.record(kind::SRV, self.zone.config().ttl, data, builder) {
                return;
            }
        }
        for (label, address) in unique(targets.addresses.into_iter()) {
            let Some(name) = self.target(entry, label.as_deref()) else { continue };
            if !self.additional(&name, address, builder) {
                return;
            }
        }
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

fn targets(entry: &Entry, wanted: &Wanted<'_>) -> Targets {
    if entry.is_headless() {
        return of_endpoints(entry.ready(), wanted);
    }
    let ports = entry.service.ports.iter().filter(|port| wanted.includes(&port.name, port.protocol));
    let ports: Vec<Target> = ports.map(|port| Target { label: None, port: port.port }).collect();
    let addresses = entry.service.cluster_ips.iter().filter(|_| !ports.is_empty());
    let addresses = addresses.map(|address| (None, *address)).collect();
    Targets { ports, addresses }
}

fn of_endpoints<'a>(endpoints: impl Iterator<Item = (&'a Slice, &'a SliceEndpoint)>, wanted: &Wanted<'_>) -> Targets {
    let mut targets = Targets::default();
    for (slice, endpoint) in endpoints {
        let ports = slice.ports.iter().filter(|port| wanted.includes(&port.name, port.protocol));
        let before = targets.ports.len();
        targets.ports.extend(ports.map(|port| Target { label: Some(label(endpoint)), port: port.port }));
        if targets.ports.len() > before {
            targets.addresses.push((Some(label(endpoint)), endpoint.address));
        }
    }
    targets
}
