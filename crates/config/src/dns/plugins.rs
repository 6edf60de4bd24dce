//! The CoreDNS plugins of kubeadm's Corefile, and others with an equivalent here.

use super::block::{Block, is_within, normalized};
use super::directive::Directive;
use super::reader::Reader;
use super::{acl, forward};
use crate::span::parse_duration;

pub(super) fn read(reader: &mut Reader<'_>, block: &Block<'_>, all: &[Block<'_>], plugin: &Directive) {
    match plugin.name() {
        "kubernetes" => kubernetes(reader, block, plugin),
        "forward" => forward::read(reader, block, plugin),
        "acl" => acl::read(reader, block, all, plugin),
        "cache" => cache(reader, plugin),
        "hosts" => hosts(reader, plugin),
        "autopath" => autopath(reader, plugin),
        _ => read_everywhere(reader, plugin),
    }
}

/// In a block for another zone, with upstreams of its own.
pub(super) fn read_in_stub(reader: &mut Reader<'_>, block: &Block<'_>, all: &[Block<'_>], plugin: &Directive) {
    match plugin.name() {
        "forward" => forward::read(reader, block, plugin),
        "acl" => acl::read(reader, block, all, plugin),
        "cache" => reader.redundant(plugin, "all server blocks share one cache, with the settings of the main one"),
        "hosts" => reader.refuse(plugin, "hosts is supported in the block of the cluster or of the root zone only"),
        "autopath" => reader.unsupported(plugin, "autopath has no effect without kubernetes"),
        _ => read_everywhere(reader, plugin),
    }
}

fn read_everywhere(reader: &mut Reader<'_>, plugin: &Directive) {
    match plugin.name() {
        "health" => health(reader, plugin),
        "ready" => reader.document.ready = Some(plugin.argument().unwrap_or(":8181").to_owned()),
        "prometheus" => reader.document.metrics = Some(plugin.argument().unwrap_or("localhost:9153").to_owned()),
        "log" => reader.document.log_queries = true,
        "bind" if plugin.block.is_empty() => {}
        "bind" => reader.refuse(plugin, "options of bind are not supported: write the addresses"),
        "errors" => reader.redundant(plugin, "errors are always logged"),
        "loadbalance" => reader.redundant(plugin, "addresses always rotate"),
        "reload" => reader.redundant(plugin, "a changed file is always applied"),
        "loop" => reader.redundant(plugin, "a forwarding loop ends with SERVFAIL after the deadline"),
        "multisocket" => reader.redundant(plugin, "--threads sets the number of sockets"),
        "bufsize" => reader.redundant(plugin, "UDP responses have at most 1232 octets"),
        "minimal" | "any" => reader.redundant(plugin, "responses are always minimal"),
        name if RESTRICTING.contains(&name) => {
            reader.refuse(plugin, "this plugin is not supported, and without it more would be served than is intended");
        }
        _ => reader.unsupported(plugin, "this plugin is not supported and has no effect"),
    }
}

/// Plugins, built in and external, whose purpose is to withhold or to protect.
const RESTRICTING: [&str; 15] = [
    "view",
    "tsig",
    "tls",
    "import",
    "firewall",
    "opa",
    "policy",
    "themis",
    "rrl",
    "ratelimit",
    "block",
    "blocker",
    "blocklist",
    "filter",
    "ads",
];

fn health(reader: &mut Reader<'_>, plugin: &Directive) {
    reader.document.health = Some(plugin.argument().unwrap_or(":8080").to_owned());
    for option in &plugin.block {
        match (option.name(), option.argument().and_then(|text| parse_duration(text).ok())) {
            ("lameduck", Some(time)) => reader.document.lameduck = Some(time.as_secs()),
            _ => reader.unsupported(option, "this option is not supported and has no effect"),
        }
    }
}

fn kubernetes(reader: &mut Reader<'_>, block: &Block<'_>, plugin: &Directive) {
    let own = plugin.arguments().iter().map(|zone| normalized(zone)).collect::<Vec<_>>();
    let all = if own.is_empty() { block.zones.clone() } else { own };
    for zone in &all {
        check_zone(reader, block, plugin, zone);
    }
    let is_reverse = |zone: &String| is_within(zone, "in-addr.arpa") || is_within(zone, "ip6.arpa");
    let (reverse, zones): (Vec<String>, Vec<String>) = all.into_iter().partition(is_reverse);
    reader.document.cluster_domains = zones;
    reader.document.reverse = Some(!reverse.is_empty());
    reader.document.reverse_zones = reverse;
    reader.document.pass_unknown_addresses = Some(false);
    for option in &plugin.block {
        match (option.name(), option.argument()) {
            ("pods", Some(mode)) => reader.document.pods = Some(mode.to_owned()),
            ("ttl", Some(ttl)) => match ttl.parse() {
                Ok(ttl) => reader.document.ttl = Some(ttl),
                Err(_) => reader.refuse(option, "write a number of seconds"),
            },
            ("fallthrough", _) => fallthrough(reader, option),
            ("namespaces", Some(_)) => reader.document.namespaces.extend_from_slice(option.arguments()),
            ("labels" | "namespace_labels" | "noendpoints" | "namespaces", _) => {
                reader.refuse(option, "this option is not supported, and without it more names would be served");
            }
            ("ignore", Some("empty_service")) => reader.document.ignore_empty_service = true,
            ("endpoint" | "tls" | "kubeconfig", _) => {
                reader.unsupported(option, "use --kubeconfig or --master on the command line");
            }
            ("startup_timeout" | "apiserver_qps" | "apiserver_burst" | "apiserver_max_inflight", _) => {
                reader.redundant(option, "queries are answered after the first sync");
            }
            _ => reader.unsupported(option, "this option is not supported and has no effect"),
        }
    }
}

fn check_zone(reader: &mut Reader<'_>, block: &Block<'_>, plugin: &Directive, zone: &str) {
    if zone == "." {
        reader.refuse(plugin, "write the domain of the cluster: kubernetes cluster.local");
    } else if zone.contains('/') {
        reader.refuse(plugin, "write the name of the reverse zone instead of an address range");
    } else if !block.serves(zone) {
        reader.refuse(plugin, "a zone of the plugin is not within the zones of its server block");
    }
}

/// Without zones it applies to all zones.
fn fallthrough(reader: &mut Reader<'_>, option: &Directive) {
    let zones = option.arguments();
    let is_reverse = |zone: &String| zone.ends_with("arpa");
    if zones.is_empty() || zones.iter().any(is_reverse) {
        reader.document.pass_unknown_addresses = Some(true);
    }
    reader.document.pass_unknown_names |= zones.is_empty() || zones.iter().any(|zone| !is_reverse(zone));
}

fn cache(reader: &mut Reader<'_>, plugin: &Directive) {
    let ttl = plugin.arguments().iter().find_map(|word| word.parse().ok());
    reader.document.cache.max_ttl = ttl.or(reader.document.cache.max_ttl);
    reader.document.cache.max_negative_ttl = ttl.or(reader.document.cache.max_negative_ttl);
    for option in &plugin.block {
        let number = |index: usize| option.arguments().get(index).and_then(|word| word.parse::<u64>().ok());
        let cache = &mut reader.document.cache;
        match option.name() {
            "success" => {
                cache.entries = number(0).map(|entries| entries as usize).or(cache.entries);
                cache.max_ttl = number(1).or(cache.max_ttl);
                cache.min_ttl = number(2).or(cache.min_ttl);
            }
            "denial" => {
                cache.negative_entries = number(0).map(|entries| entries as usize).or(cache.negative_entries);
                cache.max_negative_ttl = number(1).or(cache.max_negative_ttl);
            }
            "serve_stale" => {
                let time = option.argument().and_then(|text| parse_duration(text).ok());
                cache.serve_stale = Some(time.map_or(3600, |time| time.as_secs()));
            }
            "disable" => reader.redundant(option, "cluster names are never cached"),
            _ => reader.unsupported(option, "this option is not supported and has no effect"),
        }
    }
}

/// Without `fallthrough`, CoreDNS fails all names that are not in the list.
fn hosts(reader: &mut Reader<'_>, plugin: &Directive) {
    if plugin.arguments().len() > 1 {
        reader.refuse(plugin, "zones of hosts are not supported");
    }
    if !plugin.block.iter().any(|option| option.name() == "fallthrough" && option.argument().is_none()) {
        reader.refuse(plugin, "only hosts with fallthrough, for all zones, is supported");
    }
    match plugin.argument() {
        Some(file) => reader.document.hosts_files.push(file.into()),
        None if plugin.block.is_empty() => reader.document.hosts_files.push("/etc/hosts".into()),
        None => {}
    }
    for option in &plugin.block {
        match (option.name(), option.argument()) {
            ("fallthrough", _) => {}
            ("ttl", Some(ttl)) => reader.document.hosts_ttl = ttl.parse().ok(),
            ("reload" | "no_reverse", _) => reader.redundant(option, "PTR records are not made from this list"),
            (address, Some(_)) if address.parse::<std::net::IpAddr>().is_ok() => {
                reader.document.hosts.push(option.words.join(" "));
            }
            _ => reader.unsupported(option, "this option is not supported and has no effect"),
        }
    }
}

fn autopath(reader: &mut Reader<'_>, plugin: &Directive) {
    match plugin.arguments().last().map(String::as_str) {
        Some("@kubernetes") => reader.document.autopath = Some("pods".into()),
        _ => reader.unsupported(plugin, "only autopath @kubernetes is supported"),
    }
}
