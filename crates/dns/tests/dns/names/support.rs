//! Queries a zone, and prints its answers.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::Arc;

use portolan_dns::answer::{Outcome, answer};
use portolan_dns::wire::{Builder, HEADER, Name, Query, Record, Reply, kind};
use portolan_dns::zone::{Zone, ZoneConfig};
use portolan_model::Snapshot;
use portolan_source::{Manifests, Options};

pub(crate) const CLUSTER: &str = include_str!("cluster.yaml");

pub(crate) fn snapshot(manifests: &str) -> Snapshot {
    let ranges = ["10.96.0.0/16", "fd00::/112"].map(|range| range.parse().expect("a range"));
    let options = Options { service_ranges: ranges.to_vec(), ..Options::default() };
    let (manifests, report) = Manifests::from_text(options, "cluster.yaml", manifests);
    assert!(report.problems.is_empty(), "{:?}", report.problems);
    manifests.snapshot()
}

pub(crate) fn config() -> ZoneConfig {
    ZoneConfig {
        pass_unknown_addresses: false,
        own_addresses: vec![Ipv4Addr::LOCALHOST.into()],
        ..ZoneConfig::default()
    }
}

pub(crate) fn zone_with(config: ZoneConfig) -> Zone {
    Zone::new(Arc::new(config)).follow(&snapshot(CLUSTER), 1)
}

/// A question as a client without EDNS would send it.
pub(crate) fn question(name: &[u8], kind: u16) -> Vec<u8> {
    let mut message = vec![0x12, 0x34, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0];
    message.extend_from_slice(name);
    message.extend_from_slice(&kind.to_be_bytes());
    message.extend_from_slice(&[0, 1]);
    message
}

pub(crate) fn query(zone: &Zone, name: &str, kind: u16) -> (Outcome, Reply) {
    query_within(zone, name, kind, 65_535, 0)
}

pub(crate) fn query_within(zone: &Zone, name: &str, kind: u16, limit: usize, turn: u32) -> (Outcome, Reply) {
    let name = Name::from_text(name).unwrap_or_else(|error| panic!("{name}: {error}"));
    let message = question(name.as_bytes(), kind);
    let query = Query::parse(&message).unwrap_or_else(|error| panic!("{name}: {error:?}"));
    let mut out = Vec::new();
    let mut builder = Builder::new(&query, limit, &mut out);
    let outcome = answer(zone, &query.name, kind, turn, &mut builder);
    builder.finish();
    assert!(out.len() <= limit, "{} octets", out.len());
    let reply = Reply::parse(&out, 0x1234, &message[HEADER..]).unwrap_or_else(|error| panic!("{name}: {error}"));
    (outcome, reply)
}

/// In the notation of specification.txt.
pub(crate) fn shown(reply: &Reply) -> String {
    let mut records: Vec<String> = reply.answers.iter().map(record).collect();
    records.sort();
    let mut additional: Vec<String> = reply.additional.iter().map(|it| format!("+ {}", record(it))).collect();
    additional.sort();
    records.extend(additional);
    records.extend(reply.authorities.iter().filter(|it| it.kind == kind::SOA).map(|_| "soa".to_owned()));
    format!("{} {}", reply.rcode().name(), records.join(" ; ")).trim().to_owned()
}

fn record(record: &Record) -> String {
    let name = |bytes: &[u8]| Name::from_wire(bytes).map_or("?".into(), |name| name.to_string());
    let number = |place: usize| u16::from_be_bytes([record.data[place], record.data[place + 1]]);
    let data = match (record.kind, &*record.data) {
        (kind::A, data) => address(data),
        (kind::AAAA, data) => address(data),
        (kind::SRV, data) => format!("{} {} {} {}", number(0), number(2), number(4), name(&data[6..])),
        (kind::TXT, data) => format!("{:?}", String::from_utf8_lossy(&data[1..])),
        (kind::SOA, _) => "soa".to_owned(),
        (_, data) => name(data),
    };
    format!("{} {} {data}", name(&record.owner), kind::name(record.kind))
}

fn address(octets: &[u8]) -> String {
    let v4 = <[u8; 4]>::try_from(octets).map(|it| IpAddr::V4(it.into()));
    let v6 = <[u8; 16]>::try_from(octets).map(|it| IpAddr::V6(Ipv6Addr::from(it)));
    v4.or(v6).map_or("?".into(), |address| address.to_string())
}
