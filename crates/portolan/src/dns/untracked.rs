//! Excludes DNS at a node-local address from connection tracking: queries neither fill the table nor run into the race
//! between two queries from one port. One small nf_tables table does this, in every mode.

use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4};

use anyhow::Context;
use portolan_kernel::nftables::{
    Batch, ChainKind, Expression, Hook, HookPoint, MetaKey, Nftables, Operator, PayloadBase, Register,
};
use portolan_model::Family;

const TABLE: &str = "portolan-dns";
/// Before connection tracking, which is at -200.
const PRIORITY: i32 = -300;
const PROTOCOLS: [(&str, u8); 2] = [("udp", 17), ("tcp", 6)];
/// Offsets of addresses and ports in their headers.
const SOURCE: (u32, u32) = (12, 0);
const DESTINATION: (u32, u32) = (16, 2);

/// Rewrites the table. Only IPv4 has addresses that are reserved for this by convention.
pub(super) fn leave_untracked(addresses: &[SocketAddr]) -> anyhow::Result<()> {
    let mut batch = Batch::new();
    batch.add_table(Family::V4, TABLE);
    batch.delete_table(Family::V4, TABLE);
    batch.add_table(Family::V4, TABLE);
    for (chain, point) in [("prerouting", HookPoint::Prerouting), ("output", HookPoint::Output)] {
        let hook = Hook { kind: ChainKind::Filter, point, priority: PRIORITY };
        batch.add_chain(Family::V4, TABLE, chain, Some(&hook));
    }
    for address in addresses.iter().filter_map(|address| as_v4(*address)) {
        add_rules(&mut batch, address);
    }
    Nftables::open().and_then(|mut kernel| kernel.commit(batch)).context("keeping DNS out of connection tracking")
}

/// Returns whether there was one.
pub(crate) fn remove_table() -> anyhow::Result<bool> {
    let mut kernel = Nftables::open()?;
    let is_there = kernel.tables(Family::V4)?.iter().any(|table| table == TABLE);
    if is_there {
        let mut batch = Batch::new();
        batch.delete_table(Family::V4, TABLE);
        kernel.commit(batch)?;
    }
    Ok(is_there)
}

fn as_v4(address: SocketAddr) -> Option<SocketAddrV4> {
    match address {
        SocketAddr::V4(address) if !address.ip().is_unspecified() => Some(address),
        _ => None,
    }
}

/// Queries from pods and from the node itself, and the responses to both.
fn add_rules(batch: &mut Batch, address: SocketAddrV4) {
    for (name, protocol) in PROTOCOLS {
        for (chain, side, what) in [
            ("prerouting", DESTINATION, "queries"),
            ("output", DESTINATION, "queries"),
            ("output", SOURCE, "responses"),
        ] {
            let comment = format!("{what} over {name}");
            batch.add_rule(
                Family::V4,
                TABLE,
                chain,
                &rule(protocol, *address.ip(), address.port(), side),
                Some(&comment),
            );
        }
    }
}

fn rule(protocol: u8, address: Ipv4Addr, port: u16, (address_at, port_at): (u32, u32)) -> Vec<Expression> {
    let register = Register(0);
    let equals =
        |value: &[u8]| Expression::Compare { source: register, operator: Operator::Equal, value: value.to_vec() };
    let field = |base, offset, length| Expression::Payload { base, offset, length, destination: register };
    vec![
        field(PayloadBase::Network, address_at, 4),
        equals(&address.octets()),
        Expression::Meta { key: MetaKey::L4Protocol, destination: register },
        equals(&[protocol]),
        field(PayloadBase::Transport, port_at, 2),
        equals(&port.to_be_bytes()),
        // This expression has no attributes.
        Expression::Unknown { name: "notrack".to_owned() },
    ]
}
