//! What the fuzz targets of `portolan-fuzz` call: every decoder of what the kernel sends, without a socket. Each function
//! accepts any bytes and panics only for a bug. It is not behind a Cargo feature, because a feature would build every crate
//! twice; the linker leaves it out of the program.

use crate::netlink::Messages;
use crate::{accounting, addresses, conntrack, ipset, ipvs, netlink, nftables};

pub fn decode_nf_tables(bytes: &[u8]) {
    nftables::fuzz::decode(bytes);
}

pub fn decode_ip_sets(bytes: &[u8]) {
    ipset::fuzz::decode(bytes);
}

pub fn decode_ipvs(bytes: &[u8]) {
    ipvs::fuzz::decode(bytes);
}

pub fn decode_conntrack(bytes: &[u8]) {
    conntrack::fuzz::decode(bytes);
}

/// Addresses, counters of nfacct, acknowledgements and dumps.
pub fn decode_route(bytes: &[u8]) {
    netlink::fuzz::decode(bytes);
    accounting::packets(bytes);
    for message in Messages::new(bytes) {
        addresses::is_change(&message);
        addresses::read_address(&message);
    }
}
