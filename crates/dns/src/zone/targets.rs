//! The endpoints of a Service by label and by port, sorted, so that an answer costs as much as fits into it.

use std::net::IpAddr;
use std::sync::OnceLock;

use portolan_model::{Protocol, Slice, SliceEndpoint};

use super::addresses::label;

/// An index of all ready endpoints. Labels are in lower case.
#[derive(Debug, Default)]
pub(crate) struct Targets {
    labels: Box<[Box<str>]>,
    /// By label.
    endpoints: Box<[(u32, IpAddr)]>,
    all: Ports,
    by_port: Box<[Port<Ports>]>,
}

/// The targets of a port with this name.
type Port<T> = (Box<str>, Protocol, T);

/// Labels with port numbers, sorted and without duplicates.
type Ports = Box<[(u32, u16)]>;

impl Targets {
    fn new<'a>(ready: impl Iterator<Item = (&'a Slice, &'a SliceEndpoint)> + Clone) -> Self {
        let mut labels: Vec<Box<str>> = ready.clone().map(|(_, endpoint)| lowered(endpoint)).collect();
        labels.sort_unstable();
        labels.dedup();
        let (mut endpoints, mut all) = (Vec::new(), Vec::new());
        let mut by_port: Vec<Port<Vec<(u32, u16)>>> = Vec::new();
        for (slice, endpoint) in ready {
            let Ok(index) = labels.binary_search(&lowered(endpoint)) else { continue };
            endpoints.push((index as u32, endpoint.address));
            for port in slice.ports.iter() {
                let target = (index as u32, port.port);
                all.push(target);
                let name = port.name.to_ascii_lowercase();
                match by_port.iter_mut().find(|(known, protocol, _)| **known == *name && *protocol == port.protocol) {
                    Some((_, _, ports)) => ports.push(target),
                    None => by_port.push((name.into(), port.protocol, vec![target])),
                }
            }
        }
        let by_port = by_port.into_iter().map(|(name, protocol, ports)| (name, protocol, sorted(ports))).collect();
        Self { labels: labels.into(), endpoints: sorted(endpoints), all: sorted(all), by_port }
    }

    pub(crate) fn label(&self, index: u32) -> &str {
        self.labels.get(index as usize).map_or("", |label| label)
    }

    pub(crate) fn all(&self) -> &[(u32, u16)] {
        &self.all
    }

    /// The targets of a port; `None` if no endpoint has it.
    pub(crate) fn of_port(&self, name: &[u8], protocol: Protocol) -> Option<&[(u32, u16)]> {
        let is_it = |known: &str| known.as_bytes().eq_ignore_ascii_case(name);
        let found = self.by_port.iter().find(|(known, same, _)| is_it(known) && *same == protocol);
        found.map(|(_, _, ports)| &**ports)
    }

    /// The index of a label that is in lower case.
    pub(crate) fn find(&self, label: &[u8]) -> Option<u32> {
        self.labels.binary_search_by(|known| known.as_bytes().cmp(label)).ok().map(|index| index as u32)
    }

    /// All ports of one label.
    pub(crate) fn ports_of(&self, label: u32) -> &[(u32, u16)] {
        range(&self.all, label)
    }

    pub(crate) fn addresses_of(&self, label: u32) -> impl Iterator<Item = IpAddr> {
        range(&self.endpoints, label).iter().map(|(_, address)| *address)
    }
}

fn lowered(endpoint: &SliceEndpoint) -> Box<str> {
    label(endpoint).to_ascii_lowercase().into()
}

fn sorted<T: Ord>(mut items: Vec<T>) -> Box<[T]> {
    items.sort_unstable();
    items.dedup();
    items.into()
}

/// The part of a sorted list with one label.
fn range<T>(items: &[(u32, T)], label: u32) -> &[(u32, T)] {
    let start = items.partition_point(|(known, _)| *known < label);
    let end = items.partition_point(|(known, _)| *known <= label);
    &items[start..end]
}

/// Built when it is first needed. It is no part of an entry's value.
#[derive(Debug, Default)]
pub(super) struct Lazy(OnceLock<Targets>);

impl Lazy {
    pub(super) fn get<'a>(&self, ready: impl Iterator<Item = (&'a Slice, &'a SliceEndpoint)> + Clone) -> &Targets {
        self.0.get_or_init(|| Targets::new(ready))
    }
}

impl Clone for Lazy {
    fn clone(&self) -> Self {
        Self::default()
    }
}

impl PartialEq for Lazy {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl Eq for Lazy {}
