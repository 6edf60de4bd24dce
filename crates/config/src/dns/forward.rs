//! The plugin `forward`: upstream servers for the zones of a block.

use super::block::{Block, ROOT, is_within, normalized};
use super::directive::Directive;
use super::reader::Reader;

/// Names of the block's zones below FROM are forwarded.
pub(super) fn read(reader: &mut Reader<'_>, block: &Block<'_>, plugin: &Directive) {
    let Some((from, servers)) = plugin.arguments().split_first() else {
        return reader.refuse(plugin, "write forward . SERVER…");
    };
    let (from, servers) = (normalized(from), usable(reader, plugin, servers));
    let suffixes: Vec<String> = block.zones.iter().filter_map(|zone| narrower(zone, &from)).collect();
    if suffixes.is_empty() {
        reader.unsupported(plugin, "no name of this server block matches");
    }
    for suffix in &suffixes {
        set(reader, suffix, servers.clone());
    }
    for option in &plugin.block {
        read_option(reader, option, suffixes.iter().any(|suffix| suffix == ROOT));
    }
}

fn set(reader: &mut Reader<'_>, suffix: &str, servers: Vec<String>) {
    if suffix == ROOT {
        reader.document.upstreams = Some(servers);
    } else {
        reader.document.stub_domains.insert(suffix.to_owned(), servers);
    }
}

/// The names that are in both zones.
fn narrower(zone: &str, from: &str) -> Option<String> {
    match (is_within(zone, from), is_within(from, zone)) {
        (true, _) => Some(zone.to_owned()),
        (_, true) => Some(from.to_owned()),
        _ => None,
    }
}

/// Servers without TLS only: queries to the others would be sent in clear text by mistake.
fn usable(reader: &mut Reader<'_>, plugin: &Directive, servers: &[String]) -> Vec<String> {
    let (plain, other): (Vec<&String>, Vec<&String>) =
        servers.iter().partition(|server| !server.contains("://") || server.starts_with("dns://"));
    if !other.is_empty() {
        reader.unsupported(plugin, "only plain DNS upstreams are supported; those with tls:// or https:// are ignored");
    }
    plain.into_iter().map(|server| server.trim_start_matches("dns://").to_owned()).collect()
}

fn read_option(reader: &mut Reader<'_>, option: &Directive, is_root: bool) {
    match (option.name(), option.argument()) {
        ("except", _) => {
            for name in option.arguments() {
                reader.document.stub_domains.entry(normalized(name)).or_default();
            }
        }
        ("policy" | "force_tcp" | "max_concurrent", _) if !is_root => {
            reader.unsupported(option, "this option is supported in forward . of the root zone only");
        }
        ("policy", Some(policy)) => reader.document.upstream_policy = Some(policy.to_owned()),
        ("force_tcp", _) => reader.document.force_tcp = true,
        ("prefer_udp", _) => {}
        ("max_concurrent", most) => match most.and_then(|most| most.parse().ok()) {
            Some(most) => reader.document.max_concurrent = Some(most),
            None => reader.refuse(option, "write a number of queries"),
        },
        ("health_check" | "max_fails" | "expire", _) => {
            reader.redundant(option, "an upstream that fails twice is probed twice a second until it answers");
        }
        _ => reader.unsupported(option, "this option is not supported and has no effect"),
    }
}

/// A zone without `forward` has no upstream, and neither have names outside all blocks.
pub(super) fn close_zones(reader: &mut Reader<'_>, blocks: &[Block<'_>]) {
    let document = &mut reader.document;
    document.upstreams.get_or_insert_default();
    for zone in blocks.iter().flat_map(|block| &block.zones).filter(|zone| *zone != ROOT) {
        document.stub_domains.entry(zone.clone()).or_default();
    }
}
