//! PTR records.

use std::net::IpAddr;

use super::{Outcome, Question};
use crate::wire::{Builder, Data, Name, kind};
use crate::zone::{Entry, label};

impl Question<'_> {
    /// A ClusterIP has the name of its Service; another address has a name for each Service that it is an endpoint
    /// of.
    pub(super) fn pointers(&self, address: IpAddr, builder: &mut Builder<'_>) -> Outcome {
        let names = self.names_of(address);
        if names.is_empty() {
            return self.deny(builder);
        }
        if self.kind == kind::PTR {
            for name in &names {
                self.record(kind::PTR, self.zone.config().ttl, Data::from(name), builder);
            }
        }
        self.complete(builder)
    }

    pub(super) fn names_of(&self, address: IpAddr) -> Vec<Name> {
        let Some(zone) = self.zone.config().zones.first() else { return Vec::new() };
        if let Some(entry) = self.zone.by_cluster_ip(address) {
            return self.zone.name_of(&entry.service.name, zone).into_iter().collect();
        }
        let endpoints = self.zone.by_endpoint(address);
        endpoints.flat_map(|entry| names_in(entry, address, zone)).collect()
    }
}

fn names_in(entry: &Entry, address: IpAddr, zone: &Name) -> Vec<Name> {
    let service = &entry.service.name;
    let endpoints = entry.ready().filter(|(_, endpoint)| endpoint.address == address);
    let mut labels: Vec<String> = endpoints.map(|(_, endpoint)| label(endpoint)).collect();
    labels.sort_unstable();
    labels.dedup();
    let name = |label: &String| {
        let labels = [label.as_bytes(), service.name.as_bytes(), service.namespace.as_bytes(), b"svc"];
        Name::from_labels(labels, zone).ok()
    };
    labels.iter().filter_map(name).collect()
}
