//! A and AAAA.

use std::net::IpAddr;

use portolan_model::Family;

use super::Question;
use crate::wire::{Builder, Data, kind};
use crate::zone::{Entry, Place};

impl Question<'_> {
    pub(super) fn addresses(&self, place: &Place<'_>, builder: &mut Builder<'_>) {
        match place {
            Place::Service(entry) if entry.is_headless() => self.rotate(entry, builder),
            Place::Service(entry) => self.all(entry.service.cluster_ips.iter().copied(), builder),
            Place::Port { entry, port, protocol } if entry.is_headless() => {
                let targets = entry.targets();
                let labels = targets.of_port(port, *protocol).into_iter().flat_map(unique_labels);
                self.all(labels.flat_map(|label| targets.addresses_of(label)), builder);
            }
            Place::Port { entry, .. } => self.all(entry.service.cluster_ips.iter().copied(), builder),
            Place::Endpoint { entry, label } => {
                let targets = entry.targets();
                let found = targets.find(label).into_iter();
                self.all(found.flat_map(|label| targets.addresses_of(label)), builder);
            }
            Place::Pod(address) => self.all([*address], builder),
            Place::Server => self.all(self.zone.config().own_addresses.iter().copied(), builder),
            _ => {}
        }
    }

    fn wanted(&self) -> Family {
        if self.kind == kind::A { Family::V4 } else { Family::V6 }
    }

    fn all(&self, addresses: impl IntoIterator<Item = IpAddr>, builder: &mut Builder<'_>) {
        let wanted = self.wanted();
        for address in addresses.into_iter().filter(|address| Family::of(*address) == wanted) {
            if !self.address(address, builder) {
                break;
            }
        }
    }

    /// Each query starts with another endpoint, so that clients that use the first address spread evenly.
    fn rotate(&self, entry: &Entry, builder: &mut Builder<'_>) {
        match self.wanted() {
            Family::V4 => self.all(rotated(&entry.endpoints.v4, self.turn).map(|it| IpAddr::V4(*it)), builder),
            Family::V6 => self.all(rotated(&entry.endpoints.v6, self.turn).map(|it| IpAddr::V6(*it)), builder),
        }
    }

    fn address(&self, address: IpAddr, builder: &mut Builder<'_>) -> bool {
        let ttl = self.zone.config().ttl;
        match address {
            IpAddr::V4(address) => self.record(kind::A, ttl, Data::Raw(&address.octets()), builder),
            IpAddr::V6(address) => self.record(kind::AAAA, ttl, Data::Raw(&address.octets()), builder),
        }
    }
}

fn rotated<T>(items: &[T], turn: u32) -> impl Iterator<Item = &T> {
    let (before, after) = items.split_at(turn as usize % items.len().max(1));
    after.iter().chain(before)
}

/// Each label of sorted targets once.
pub(super) fn unique_labels(ports: &[(u32, u16)]) -> impl Iterator<Item = u32> {
    ports.chunk_by(|one, next| one.0 == next.0).filter_map(|chunk| chunk.first()).map(|(label, _)| *label)
}
