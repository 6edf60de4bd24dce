//! The addresses of this machine.

use std::fmt::Display;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use portolan_dataplane::modes;
use portolan_kernel::addresses::{InterfaceAddress, interface_addresses};
use portolan_model::{Family, Node, Snapshot};

/// How often reading the addresses is tried, and the pause in between.
const ATTEMPTS: usize = 5;
const PAUSE: Duration = Duration::from_millis(100);

/// The addresses of all interfaces, except link-local addresses, which every pod link has, and Service addresses. If they
/// cannot be read, the list is empty, and node ports follow the Node object alone.
pub fn addresses() -> Vec<IpAddr> {
    try_addresses().unwrap_or_default()
}

/// The same; `None` if they cannot be read, so that the caller can keep those that it knows.
pub fn try_addresses() -> Option<Vec<IpAddr>> {
    attempted(own_addresses, PAUSE)
}

fn own_addresses() -> portolan_kernel::Result<Vec<IpAddr>> {
    let is_own = |it: &InterfaceAddress| !is_service_device(&it.name) && !is_link_local(it.address);
    Ok(interface_addresses()?.into_iter().filter(is_own).map(|it| it.address).collect())
}

/// A dump fails now and then, when addresses change during it.
fn attempted<T, E: Display>(mut read: impl FnMut() -> Result<T, E>, pause: Duration) -> Option<T> {
    for attempt in 1..=ATTEMPTS {
        match read() {
            Ok(value) => return Some(value),
            Err(error) if attempt == ATTEMPTS => tracing::warn!("the addresses of this machine are unknown: {error}"),
            Err(_) => std::thread::sleep(pause),
        }
    }
    None
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failed_read_is_repeated_and_never_an_empty_list() {
        let mut failures = 2;
        let mut read = || {
            failures -= 1;
            if failures >= 0 { Err("interrupted") } else { Ok(vec![1]) }
        };
        assert_eq!(attempted(&mut read, Duration::ZERO), Some(vec![1]));
        assert_eq!(attempted(|| Err::<Vec<u8>, _>("interrupted"), Duration::ZERO), None);
    }
}
