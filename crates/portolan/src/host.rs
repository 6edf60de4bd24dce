//! The addresses of this machine.

use std::net::IpAddr;
use std::sync::Arc;

use portolan_dataplane::modes;
use portolan_kernel::addresses::interface_addresses;
use portolan_model::{Family, Node, Snapshot};

/// The addresses of all interfaces, except link-local addresses, which every pod link has, and Service addresses.
pub fn read_addresses() -> Result<Vec<IpAddr>, portolan_kernel::Error> {
    let own =
        interface_addresses()?.into_iter().filter(|it| !is_service_device(&it.name) && !is_link_local(it.address));
    Ok(own.map(|it| it.address).collect())
}

/// The same. After an error the list is empty, and node ports follow the Node object alone.
pub fn addresses() -> Vec<IpAddr> {
    read_addresses().unwrap_or_else(|error| {
        tracing::warn!("the addresses of this machine are unknown: {error}");
        Vec::new()
    })
}

/// Adds the machine's addresses to the facts. Without a Node object, the addresses of the interfaces describe the node. A
/// configured primary address comes first.
pub fn add_addresses(snapshot: &mut Snapshot, addresses: &[IpAddr], named: Option<IpAddr>) {
    let mut node = Node { interface_addresses: addresses.into(), ..(*snapshot.node).clone() };
    if node.addresses.is_empty() {
        node.addresses = Family::BOTH.into_iter().filter_map(|family| primary(addresses, family)).collect();
    }
    if let Some(named) = named {
        let others = node.addresses.iter().copied().filter(|address| *address != named);
        node.addresses = [named].into_iter().chain(others).collect();
    }
    if node != *snapshot.node {
        snapshot.node = Arc::new(node);
    }
}

/// Some modes put Service addresses on their own device.
fn is_service_device(name: &str) -> bool {
    modes::devices().any(|device| device == name)
}

fn primary(addresses: &[IpAddr], family: Family) -> Option<IpAddr> {
    let is_global = |address: &IpAddr| !address.is_loopback() && !is_link_local(*address);
    addresses.iter().copied().find(|address| Family::of(*address) == family && is_global(address))
}

fn is_link_local(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => address.is_link_local(),
        IpAddr::V6(address) => address.is_unicast_link_local(),
    }
}
