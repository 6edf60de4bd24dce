//! The addresses of interfaces, and notifications of changes.

use std::net::IpAddr;
use std::time::Duration;

use portolan_kernel::addresses::{AddressMonitor, interface_addresses};

use crate::common::{new_namespace, run};

const LONG: Option<Duration> = Some(Duration::from_secs(20));
const NOW: Option<Duration> = Some(Duration::ZERO);

fn add_interface(name: &str) {
    let peer = ["peer", "name", "other"];
    run("ip", &[&["link", "add", name, "type", "veth"], &peer[..]].concat());
}

fn listed() -> Vec<(String, IpAddr, u8)> {
    let mut addresses: Vec<_> = interface_addresses()
        .expect("addresses can be read")
        .into_iter()
        .map(|found| (found.name, found.address, found.prefix_length))
        .collect();
    addresses.sort();
    addresses
}

fn address(name: &str, address: &str, prefix_length: u8) -> (String, IpAddr, u8) {
    let address = address.parse().expect("an address");
    (name.to_owned(), address, prefix_length)
}

#[test]
fn addresses_are_listed_with_their_interfaces() {
    new_namespace();
    assert_eq!(listed(), []);
    add_interface("one");
    run("ip", &["address", "add", "10.0.0.1/24", "dev", "one"]);
    run("ip", &["address", "add", "10.0.1.1", "peer", "10.0.1.2/32", "dev", "one"]);
    run("ip", &["address", "add", "fd00::1/64", "dev", "one"]);
    run("ip", &["link", "set", "lo", "up"]);
    assert_eq!(
        listed(),
        [
            address("lo", "127.0.0.1", 8),
            address("lo", "::1", 128),
            address("one", "10.0.0.1", 24),
            address("one", "10.0.1.1", 32),
            address("one", "fd00::1", 64),
        ]
    );
}

#[test]
fn changes_of_either_family_are_noticed() {
    new_namespace();
    add_interface("one");
    let mut monitor = AddressMonitor::open().unwrap();
    assert!(!monitor.wait(NOW).unwrap());
    for change in [["add", "10.0.0.1/24"], ["add", "fd00::1/64"], ["delete", "10.0.0.1/24"], ["delete", "fd00::1/64"]] {
        run("ip", &["address", change[0], change[1], "dev", "one"]);
        assert!(monitor.wait(LONG).unwrap(), "{change:?}");
        assert!(!monitor.wait(NOW).unwrap(), "{change:?}");
    }
}
