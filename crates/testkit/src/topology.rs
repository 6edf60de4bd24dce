//! The fixed network of every scenario: the addresses of each host, and the interface of node-a on which its packets
//! arrive.
//!
//! | host | what | IPv4 | IPv6 | seen by node-a on |
//! |---|---|---|---|---|
//! | node-a | the node under test | 192.168.50.1, 192.168.51.1, 203.0.113.1, 10.244.1.1, 127.0.0.1 | fd00:50::1, fd00:51::1, 2001:db8:113::1, fd00:10:244:1::1, ::1 | (itself) |
//! | pod-a1 | pod of node-a | 10.244.1.2 | fd00:10:244:1::2 | veth-a1 |
//! | pod-a2 | pod of node-a | 10.244.1.3 | fd00:10:244:1::3 | veth-a2 |
//! | pod-a3 | pod of node-a | 10.244.1.4 | fd00:10:244:1::4 | veth-a3 |
//! | node-b | another node | 192.168.50.2, 192.168.51.2, 10.244.2.1 | fd00:50::2, fd00:51::2, fd00:10:244:2::1 | eth0 |
//! | pod-b1 | pod of node-b | 10.244.2.2 | fd00:10:244:2::2 | eth0 |
//! | pod-b2 | pod of node-b | 10.244.2.3 | fd00:10:244:2::3 | eth0 |
//! | pod-b3 | pod of node-b | 10.244.2.4 | fd00:10:244:2::4 | eth0 |
//! | client | the outside world | 203.0.113.9, all of 192.0.2.0/24 | 2001:db8:113::9, all of 2001:db8:2::/64 | eth2 |
//!
//! A host's name stands for the first address of its row. node-a's `eth0` is the node network, `eth1` a second network
//! to node-b, `eth2` the way out. 10.96.0.0/16, fd00:10:96::/112, 198.51.100.0/24 and 2001:db8:51::/64 are for virtual
//! addresses: no host owns them, and an untranslated packet to one ends in silence at the client.
//!
//! node-b translates nothing: its packets to virtual addresses reach node-a by the default route. An endpoint among
//! node-b's own pods then answers node-b's senders directly, past node-a, so such a packet only works with masquerade.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// The node under test.
pub const NODE: &str = "node-a";

/// Whether it is the node under test or one of its pods.
pub fn is_on_node(name: &str) -> bool {
    name == NODE || name.starts_with("pod-a")
}

/// One row of the table.
#[derive(Debug)]
pub struct HostAddresses {
    pub name: &'static str,
    pub ipv4: &'static [Ipv4Addr],
    pub ipv6: &'static [Ipv6Addr],
    /// The interface of node-a on which this host's packets arrive; none for node-a itself.
    pub interface: Option<&'static str>,
}

impl HostAddresses {
    /// The address that the host's name stands for, in the family of `peer`.
    pub fn address_toward(&self, peer: IpAddr) -> IpAddr {
        match peer {
            IpAddr::V4(_) => self.ipv4[0].into(),
            IpAddr::V6(_) => self.ipv6[0].into(),
        }
    }

    pub fn owns(&self, address: IpAddr) -> bool {
        let listed = match address {
            IpAddr::V4(address) => self.ipv4.contains(&address),
            IpAddr::V6(address) => self.ipv6.contains(&address),
        };
        listed || (self.name == "client" && is_elsewhere(address))
    }
}

pub const HOSTS: &[HostAddresses] = &[
    HostAddresses {
        name: NODE,
        ipv4: &[
            Ipv4Addr::new(192, 168, 50, 1),
            Ipv4Addr::new(192, 168, 51, 1),
            Ipv4Addr::new(203, 0, 113, 1),
            Ipv4Addr::new(10, 244, 1, 1),
            Ipv4Addr::LOCALHOST,
        ],
        ipv6: &[
            Ipv6Addr::new(0xfd00, 0x50, 0, 0, 0, 0, 0, 1),
            Ipv6Addr::new(0xfd00, 0x51, 0, 0, 0, 0, 0, 1),
            Ipv6Addr::new(0x2001, 0xdb8, 0x113, 0, 0, 0, 0, 1),
            Ipv6Addr::new(0xfd00, 0x10, 0x244, 1, 0, 0, 0, 1),
            Ipv6Addr::LOCALHOST,
        ],
        interface: None,
    },
    HostAddresses {
        name: "pod-a1",
        ipv4: &[Ipv4Addr::new(10, 244, 1, 2)],
        ipv6: &[Ipv6Addr::new(0xfd00, 0x10, 0x244, 1, 0, 0, 0, 2)],
        interface: Some("veth-a1"),
    },
    HostAddresses {
        name: "pod-a2",
        ipv4: &[Ipv4Addr::new(10, 244, 1, 3)],
        ipv6: &[Ipv6Addr::new(0xfd00, 0x10, 0x244, 1, 0, 0, 0, 3)],
        interface: Some("veth-a2"),
    },
    HostAddresses {
        name: "pod-a3",
        ipv4: &[Ipv4Addr::new(10, 244, 1, 4)],
        ipv6: &[Ipv6Addr::new(0xfd00, 0x10, 0x244, 1, 0, 0, 0, 4)],
        interface: Some("veth-a3"),
    },
    HostAddresses {
        name: "node-b",
        ipv4: &[Ipv4Addr::new(192, 168, 50, 2), Ipv4Addr::new(192, 168, 51, 2), Ipv4Addr::new(10, 244, 2, 1)],
        ipv6: &[
            Ipv6Addr::new(0xfd00, 0x50, 0, 0, 0, 0, 0, 2),
            Ipv6Addr::new(0xfd00, 0x51, 0, 0, 0, 0, 0, 2),
            Ipv6Addr::new(0xfd00, 0x10, 0x244, 2, 0, 0, 0, 1),
        ],
        interface: Some("eth0"),
    },
    HostAddresses {
        name: "pod-b1",
        ipv4: &[Ipv4Addr::new(10, 244, 2, 2)],
        ipv6: &[Ipv6Addr::new(0xfd00, 0x10, 0x244, 2, 0, 0, 0, 2)],
        interface: Some("eth0"),
    },
    HostAddresses {
        name: "pod-b2",
        ipv4: &[Ipv4Addr::new(10, 244, 2, 3)],
        ipv6: &[Ipv6Addr::new(0xfd00, 0x10, 0x244, 2, 0, 0, 0, 3)],
        interface: Some("eth0"),
    },
    HostAddresses {
        name: "pod-b3",
        ipv4: &[Ipv4Addr::new(10, 244, 2, 4)],
        ipv6: &[Ipv6Addr::new(0xfd00, 0x10, 0x244, 2, 0, 0, 0, 4)],
        interface: Some("eth0"),
    },
    HostAddresses {
        name: "client",
        ipv4: &[Ipv4Addr::new(203, 0, 113, 9)],
        ipv6: &[Ipv6Addr::new(0x2001, 0xdb8, 0x113, 0, 0, 0, 0, 9)],
        interface: Some("eth2"),
    },
];

pub fn by_name(name: &str) -> Option<&'static HostAddresses> {
    HOSTS.iter().find(|host| host.name == name)
}

pub fn by_address(address: IpAddr) -> Option<&'static HostAddresses> {
    HOSTS.iter().find(|host| host.owns(address))
}

/// Whether node-a, the node under test, owns this address; a masqueraded packet carries one of these.
pub fn is_node_address(address: IpAddr) -> bool {
    by_address(address).is_some_and(|host| host.name == NODE)
}

/// Every host's name, for error messages.
pub fn names() -> String {
    let names: Vec<&str> = HOSTS.iter().map(|host| host.name).collect();
    names.join(", ")
}

/// 192.0.2.0/24 and 2001:db8:2::/64 are all other external addresses; the client answers for all of them, so that
/// source ranges can be tested with any number of external addresses.
fn is_elsewhere(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => address.octets()[..3] == [192, 0, 2],
        IpAddr::V6(address) => address.segments()[..4] == [0x2001, 0xdb8, 2, 0],
    }
}
