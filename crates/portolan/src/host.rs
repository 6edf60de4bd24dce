//! What the machine itself tells: its addresses.

use std::net::IpAddr;
use std::sync::Arc;

use portolan_dataplane::ipvs::DEVICE;
use portolan_kernel::addresses::interface_addresses;
use portolan_model::{Family, Node, Snapshot};

/// Every address of every interface, but for link-local ones: each pod's link brings one, and nobody serves on them. Those
/// of Services, which ipvs mode has on a device of their own, are not the machine's. An
/// error leaves the list empty, with a word: node ports then follow the Node object alone.
pub fn addresses() -> Vec<IpAddr> {
    match interface_addresses() {
        Ok(addresses) => {
            let own = addresses.into_iter().filter(|it| it.name != DEVICE && !is_link_local(it.address));
            own.map(|it| it.address).collect()
        }
        Err(error) => {
            tracing::warn!("the addresses of this machine are unknown: {error}");
            Vec::new()
        }
    }
}

/// Adds the machine's addresses to the facts. A machine that no Node object describes is described by its interfaces.
/// The address that the operator names as primary stands before all others.
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
