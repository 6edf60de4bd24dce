//! Entries as the bytes of `bpf/common.h`, and back. Addresses and ports are in network byte order, and IPv4 addresses are
//! mapped to IPv6; other numbers are in the byte order of the machine.

use std::net::{IpAddr, Ipv6Addr, SocketAddr};

use portolan_model::{Family, Protocol};

use super::objects::{Frontend, FrontendKey, Key, MapName, PoolName, Route, SLOTS, Value};

/// `SCOPE_…`
const ADDRESS: u8 = 0;
const NODE_PORT_V4: u8 = 1;
const NODE_PORT_V6: u8 = 2;

/// `HAS_SLOTS`: both pools are in the frontend.
const HAS_SLOTS: u8 = 1;
/// The offsets of `port` and `address` in `struct frontend`, and its size.
const PORTS: usize = 40;
const ADDRESSES: usize = PORTS + 2 * SLOTS;
const FRONTEND: usize = ADDRESSES + 16 * SLOTS;

const OWN_ANYWHERE: u32 = 1;
const OWN_NODE: u32 = 2;

/// The map and the bytes of an entry; `None` for an object of the rules.
pub(super) fn encode_key(key: &Key) -> Option<(MapName, Vec<u8>)> {
    Some(match key {
        Key::Rule(_) => return None,
        Key::Own(address) => (MapName::Own, octets(*address).to_vec()),
        Key::Slot { pool, slot, .. } => {
            (MapName::Endpoints, [&pool.0.to_ne_bytes()[..], &slot.to_ne_bytes(), &[0; 4]].concat())
        }
        Key::Member { pool, endpoint } => {
            (MapName::Members, [&pool.0.to_ne_bytes()[..], &endpoint_bytes(*endpoint)].concat())
        }
        Key::Frontend(key) => (MapName::Frontends, frontend_key(key)),
        Key::Foreign { map, key } => (*map, key.to_vec()),
    })
}

pub(super) fn encode_value(value: &Value) -> Vec<u8> {
    match value {
        Value::Rule(_) => Vec::new(),
        Value::Own { node_only } => (if *node_only { OWN_NODE } else { OWN_ANYWHERE }).to_ne_bytes().to_vec(),
        Value::Endpoint(endpoint) => endpoint_bytes(*endpoint).to_vec(),
        Value::Member => 1u32.to_ne_bytes().to_vec(),
        Value::Frontend(frontend) => frontend_value(frontend),
        Value::Foreign(bytes) => bytes.to_vec(),
    }
}

/// What this mode does not write is foreign, so that it is removed.
pub(super) fn decode(map: MapName, key: &[u8], value: &[u8]) -> (Key, Value) {
    let foreign = || (Key::Foreign { map, key: key.into() }, Value::Foreign(value.into()));
    let entry = decode_key(map, key).zip(decode_value(map, value)).map(with_family);
    // Bytes that are not exactly those that would be written, such as padding that is not zero, are foreign, too.
    let is_same = |(as_key, as_value): &(Key, Value)| {
        encode_key(as_key).is_some_and(|(_, bytes)| bytes == key) && encode_value(as_value) == value
    };
    entry.filter(is_same).unwrap_or_else(foreign)
}

fn frontend_key(key: &FrontendKey) -> Vec<u8> {
    let (address, port, protocol, scope) = match *key {
        FrontendKey::Vip(address, protocol) => (octets(address.ip()), address.port(), number(protocol), ADDRESS),
        FrontendKey::NodePort(Family::V4, port, protocol) => ([0; 16], port, number(protocol), NODE_PORT_V4),
        FrontendKey::NodePort(Family::V6, port, protocol) => ([0; 16], port, number(protocol), NODE_PORT_V6),
        FrontendKey::Address(address) => (octets(address), 0, 0, ADDRESS),
    };
    [&address[..], &port.to_be_bytes(), &[protocol, scope]].concat()
}

fn frontend_value(frontend: &Frontend) -> Vec<u8> {
    let [cluster, local] = frontend.pools;
    let [pod, node] = frontend.routes.map(|route| route as u8);
    let flags = if frontend.slots.is_empty() { 0 } else { HAS_SLOTS };
    let mut bytes = [
        &cluster.0.0.to_ne_bytes()[..],
        &local.0.0.to_ne_bytes(),
        &cluster.1.to_ne_bytes(),
        &local.1.to_ne_bytes(),
        &frontend.service.to_ne_bytes(),
        &frontend.affinity.to_ne_bytes(),
        &[pod, node, flags, 0],
    ]
    .concat();
    bytes.resize(FRONTEND, 0);
    for (slot, endpoint) in frontend.slots.iter().enumerate().take(SLOTS) {
        bytes[PORTS + 2 * slot..][..2].copy_from_slice(&endpoint.port().to_be_bytes());
        bytes[ADDRESSES + 16 * slot..][..16].copy_from_slice(&octets(endpoint.ip()));
    }
    bytes
}

/// The family of a slot is that of its endpoint, which the key does not show.
fn with_family((key, value): (Key, Value)) -> (Key, Value) {
    match (key, value) {
        (Key::Slot { pool, slot, .. }, Value::Endpoint(endpoint)) => {
            (Key::Slot { family: Family::of(endpoint.ip()), pool, slot }, Value::Endpoint(endpoint))
        }
        entry => entry,
    }
}

/// Slots get a family of no meaning.
pub(super) fn decode_key(map: MapName, key: &[u8]) -> Option<Key> {
    match map {
        MapName::Own => Some(Key::Own(address(key)?)),
        MapName::Endpoints => Some(Key::Slot { family: Family::V4, pool: pool(key)?, slot: number_at(key, 8)? }),
        MapName::Members => Some(Key::Member { pool: pool(key)?, endpoint: endpoint(key.get(8..)?)? }),
        MapName::Frontends => decode_frontend_key(key),
    }
}

fn decode_value(map: MapName, value: &[u8]) -> Option<Value> {
    match map {
        MapName::Own => Some(Value::Own { node_only: number_at(value, 0)? == OWN_NODE }),
        MapName::Endpoints => Some(Value::Endpoint(endpoint(value)?)),
        MapName::Members => Some(Value::Member),
        MapName::Frontends => decode_frontend(value),
    }
}

fn decode_frontend_key(key: &[u8]) -> Option<Key> {
    let at = key.get(..16).and_then(address)?;
    let port = u16::from_be_bytes(key.get(16..18)?.try_into().ok()?);
    let protocol = || Protocol::ALL.into_iter().find(|protocol| Some(&number(*protocol)) == key.get(18));
    Some(Key::Frontend(match (key.get(19)?, key.get(18)?) {
        (&ADDRESS, 0) => FrontendKey::Address(at),
        (&ADDRESS, _) => FrontendKey::Vip(SocketAddr::new(at, port), protocol()?),
        (&NODE_PORT_V4, _) => FrontendKey::NodePort(Family::V4, port, protocol()?),
        (&NODE_PORT_V6, _) => FrontendKey::NodePort(Family::V6, port, protocol()?),
        _ => return None,
    }))
}

fn decode_frontend(value: &[u8]) -> Option<Value> {
    let route = |at: usize| match value.get(at)? {
        0 => Some(Route::Cluster),
        1 => Some(Route::Local),
        2 => Some(Route::Reject),
        3 => Some(Route::PassOn),
        _ => None,
    };
    let pools = [(pool(value)?, number_at(value, 16)?), (pool(value.get(8..)?)?, number_at(value, 20)?)];
    let has_slots = value.get(38)? & HAS_SLOTS != 0;
    let count = if has_slots { pools.iter().map(|(_, count)| *count as usize).sum() } else { 0 };
    Some(Value::Frontend(Box::new(Frontend {
        pools,
        service: pool(value.get(24..)?)?.0,
        affinity: number_at(value, 32)?,
        routes: [route(36)?, route(37)?],
        slots: (0..count.min(SLOTS)).map(|slot| slot_at(value, slot)).collect::<Option<_>>()?,
    })))
}

fn slot_at(frontend: &[u8], slot: usize) -> Option<SocketAddr> {
    let port = u16::from_be_bytes(*frontend.get(PORTS + 2 * slot..)?.first_chunk()?);
    let at = ADDRESSES + 16 * slot;
    Some(SocketAddr::new(address(frontend.get(at..at + 16)?)?, port))
}

fn pool(bytes: &[u8]) -> Option<PoolName> {
    Some(PoolName(u64::from_ne_bytes(*bytes.first_chunk()?)))
}

fn number_at(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_ne_bytes(*bytes.get(at..)?.first_chunk()?))
}

pub(super) fn octets(address: IpAddr) -> [u8; 16] {
    match address {
        IpAddr::V4(address) => address.to_ipv6_mapped().octets(),
        IpAddr::V6(address) => address.octets(),
    }
}

fn address(bytes: &[u8]) -> Option<IpAddr> {
    Some(Ipv6Addr::from(<[u8; 16]>::try_from(bytes).ok()?).to_canonical())
}

/// `struct endpoint`
pub(super) fn endpoint_bytes(endpoint: SocketAddr) -> [u8; 24] {
    let mut bytes = [0; 24];
    bytes[..16].copy_from_slice(&octets(endpoint.ip()));
    bytes[16..18].copy_from_slice(&endpoint.port().to_be_bytes());
    bytes
}

pub(super) fn endpoint(bytes: &[u8]) -> Option<SocketAddr> {
    let port = u16::from_be_bytes(*bytes.get(16..)?.first_chunk()?);
    Some(SocketAddr::new(address(bytes.get(..16)?)?, port))
}

/// By its number in IP.
pub(super) fn number(protocol: Protocol) -> u8 {
    match protocol {
        Protocol::Tcp => 6,
        Protocol::Udp => 17,
        Protocol::Sctp => 132,
    }
}
