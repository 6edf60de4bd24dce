//! IP sets that rules match, held in memory.

use std::collections::{BTreeSet, HashMap};
use std::net::IpAddr;

use portolan_kernel::ipset::Entry;
use portolan_model::{IpNet, Protocol};
use portolan_plan::Packet;

#[derive(Default)]
pub(crate) struct Sets(HashMap<String, BTreeSet<Entry>>);

impl Sets {
    pub(crate) fn add(&mut self, set: String, entry: Entry) {
        self.0.entry(set).or_default().insert(entry);
    }

    /// Whether the set contains these fields of the packet, such as `dst,dst,src`. For every type of set, the first
    /// field is an address or, in a set of ports, a port; the second a port; the third an address.
    pub(super) fn hold(&self, set: &str, parts: &str, packet: &Packet) -> bool {
        let Some(entries) = self.0.get(set) else { return false };
        let parts: Vec<&str> = parts.split(',').collect();
        let address = |index: usize| if parts.get(index) == Some(&"src") { packet.source } else { packet.destination };
        let (first, protocol) = (address(0), packet.protocol);
        let has = |entry: Entry| entries.contains(&entry);
        match parts.len() {
            1 => has(Entry::Ip(first)) || has(Entry::Port(packet.port)),
            2 => has(Entry::IpPort(first, protocol, packet.port)),
            _ => {
                let third = address(2);
                has(Entry::IpPortIp(first, protocol, packet.port, third))
                    || entries.iter().any(|entry| in_network(entry, first, protocol, packet.port, third))
            }
        }
    }
}

fn in_network(entry: &Entry, address: IpAddr, protocol: Protocol, port: u16, other: IpAddr) -> bool {
    match *entry {
        Entry::IpPortNet(of, of_protocol, of_port, network, length) => {
            (of, of_protocol, of_port) == (address, protocol, port)
                && IpNet::new(network, length).is_ok_and(|range| range.contains(&other))
        }
        _ => false,
    }
}
