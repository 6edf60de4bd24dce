//! Entries of the maps, in the layouts of `bpf/common.h`.

use std::net::{IpAddr, SocketAddr};

pub(crate) const TCP: u8 = 6;
pub(crate) const UDP: u8 = 17;

pub(crate) const CLUSTER: u8 = 0;
pub(crate) const LOCAL: u8 = 1;
pub(crate) const REJECT: u8 = 2;
pub(crate) const PASS: u8 = 3;

const FRONTEND: usize = 112;
const HAS_SLOTS: u8 = 1;

/// What is known about a network namespace.
pub(crate) const CAN_END: u32 = 1;
pub(crate) const APART: u32 = 2;

/// 16 bytes, with IPv4 as a mapped address.
pub(crate) fn address(address: IpAddr) -> [u8; 16] {
    match address {
        IpAddr::V4(address) => address.to_ipv6_mapped().octets(),
        IpAddr::V6(address) => address.octets(),
    }
}

pub(crate) fn frontend_key(frontend: &str, protocol: u8) -> Vec<u8> {
    let frontend: SocketAddr = frontend.parse().unwrap();
    [&address(frontend.ip())[..], &frontend.port().to_be_bytes(), &[protocol, 0]].concat()
}

pub(crate) fn node_port_key(port: u16, protocol: u8) -> Vec<u8> {
    [&[0; 16][..], &port.to_be_bytes(), &[protocol, 1]].concat()
}

/// Every other port of the address.
pub(crate) fn address_key(it: &str) -> Vec<u8> {
    [&address(it.parse().unwrap())[..], &[0; 4]].concat()
}

#[derive(Clone, Copy, Default)]
pub(crate) struct Frontend {
    pub(crate) pools: [(u64, u32); 2],
    pub(crate) service: u64,
    pub(crate) affinity: u32,
    /// For pods, for the node.
    pub(crate) routes: [u8; 2],
}

impl Frontend {
    pub(crate) fn of_pool(pool: u64, count: u32) -> Self {
        Self { pools: [(pool, count), (0, 0)], service: 7, ..Self::default() }
    }

    pub(crate) fn routed(route: u8) -> Self {
        Self { routes: [route; 2], service: 7, ..Self::default() }
    }

    pub(crate) fn bytes(&self) -> Vec<u8> {
        let [(cluster, cluster_count), (local, local_count)] = self.pools;
        let mut bytes = [cluster.to_le_bytes(), local.to_le_bytes()].concat();
        bytes.extend([cluster_count.to_le_bytes(), local_count.to_le_bytes()].concat());
        bytes.extend(self.service.to_le_bytes());
        bytes.extend(self.affinity.to_le_bytes());
        bytes.extend(self.routes);
        bytes.resize(FRONTEND, 0);
        bytes
    }

    /// With the endpoints of both pools in the entry itself.
    pub(crate) fn with_slots(&self, endpoints: &[&str]) -> Vec<u8> {
        let mut bytes = self.bytes();
        bytes[38] = HAS_SLOTS;
        for (slot, it) in endpoints.iter().enumerate() {
            let it: SocketAddr = it.parse().unwrap();
            bytes[40 + 2 * slot..][..2].copy_from_slice(&it.port().to_be_bytes());
            bytes[48 + 16 * slot..][..16].copy_from_slice(&address(it.ip()));
        }
        bytes
    }
}

pub(crate) fn endpoint_key(pool: u64, slot: u32) -> Vec<u8> {
    [&pool.to_le_bytes()[..], &slot.to_le_bytes(), &[0; 4]].concat()
}

pub(crate) fn endpoint(it: &str) -> Vec<u8> {
    let it: SocketAddr = it.parse().unwrap();
    [&address(it.ip())[..], &it.port().to_be_bytes(), &[0; 6]].concat()
}

pub(crate) fn member_key(pool: u64, it: &str) -> Vec<u8> {
    [&pool.to_le_bytes()[..], &endpoint(it)].concat()
}

pub(crate) fn traffic_key(service: u64, it: &str) -> Vec<u8> {
    [&service.to_le_bytes()[..], &endpoint(it)].concat()
}

pub(crate) fn client_key(cookie: u64, service: u64) -> Vec<u8> {
    [cookie.to_le_bytes(), service.to_le_bytes()].concat()
}
