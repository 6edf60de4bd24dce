//! One Service with its endpoints, in the form that answers are built from.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::Arc;

use portolan_model::{Protocol, Service, ServiceKind, Slice, SliceEndpoint, Slices};

use super::targets::{Lazy, Targets};

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    pub service: Arc<Service>,
    slices: Option<Arc<Slices>>,
    /// The addresses of a headless Service, without duplicates.
    pub endpoints: Endpoints,
    targets: Lazy,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Endpoints {
    pub v4: Box<[Ipv4Addr]>,
    pub v6: Box<[Ipv6Addr]>,
}

impl Entry {
    pub fn new(service: Arc<Service>, slices: Option<Arc<Slices>>) -> Self {
        let mut entry = Self { service, slices, endpoints: Endpoints::default(), targets: Lazy::default() };
        if entry.is_headless() {
            entry.endpoints = entry.unique_addresses();
        }
        entry
    }

    fn unique_addresses(&self) -> Endpoints {
        let (mut v4, mut v6) = (Vec::new(), Vec::new());
        for (_, endpoint) in self.ready() {
            match endpoint.address {
                IpAddr::V4(address) => v4.push(address),
                IpAddr::V6(address) => v6.push(address),
            }
        }
        v4.sort_unstable();
        v4.dedup();
        v6.sort_unstable();
        v6.dedup();
        Endpoints { v4: v4.into(), v6: v6.into() }
    }

    /// The target of an ExternalName Service. `None` if it is an address, which cannot be the target of a CNAME
    /// record.
    pub fn alias(&self) -> Option<&str> {
        let target = self.service.external_name.as_deref()?;
        (target.parse::<IpAddr>().is_err() && !target.is_empty()).then_some(target)
    }

    pub fn is_external(&self) -> bool {
        self.service.kind == ServiceKind::ExternalName
    }

    pub fn is_headless(&self) -> bool {
        !self.is_external() && self.service.cluster_ips.is_empty()
    }

    /// Ready endpoints with their slices. Termination does not matter to DNS.
    pub fn ready(&self) -> impl Iterator<Item = (&Slice, &SliceEndpoint)> + Clone {
        let slices = self.slices.iter().flat_map(|slices| slices.0.iter());
        let all = slices.flat_map(|slice| slice.endpoints.iter().map(move |endpoint| (&**slice, endpoint)));
        all.filter(|(_, endpoint)| endpoint.conditions.ready)
    }

    /// The ready endpoints by label and port.
    pub(crate) fn targets(&self) -> &Targets {
        self.targets.get(self.ready())
    }

    /// Whether the Service, or one of its endpoints if it is headless, has this port.
    pub fn has_port(&self, port: &[u8], protocol: Protocol) -> bool {
        let is_it = |name: &str, known: Protocol| name.as_bytes().eq_ignore_ascii_case(port) && known == protocol;
        if self.is_headless() {
            self.targets().of_port(port, protocol).is_some()
        } else {
            self.service.ports.iter().any(|it| is_it(&it.name, it.protocol))
        }
    }
}
