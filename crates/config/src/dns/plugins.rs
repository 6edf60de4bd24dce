//! The CoreDNS plugins of kubeadm's Corefile, and others with an equivalent here.

use super::DnsDocument;
use super::directive::Directive;
use crate::notice::Notice;
use crate::span::parse_duration;

pub(super) struct Reader<'a> {
    pub(super) file: &'a str,
    pub(super) document: DnsDocument,
    pub(super) notices: Vec<Notice>,
}

impl Reader<'_> {
    fn unsupported(&mut self, directive: &Directive, why: &str) {
        let (file, line, words) = (self.file, directive.line, directive.words.join(" "));
        self.notices.push(Notice::warning(format!("{file}:{line}: {words}: {why}")));
    }

    fn redundant(&mut self, directive: &Directive, why: &str) {
        let (file, line, words) = (self.file, directive.line, directive.words.join(" "));
        self.notices.push(Notice::info(format!("{file}:{line}: {words}: {why}")));
    }
}

pub(super) fn read(reader: &mut Reader<'_>, plugin: &Directive) {
    match plugin.name() {
        "kubernetes" => kubernetes(reader, plugin),
        "forward" => forward(reader, plugin),
        "cache" => cache(reader, plugin),
        "hosts" => hosts(reader, plugin),
        "health" => health(reader, plugin),
        "ready" => reader.document.ready = Some(plugin.argument().unwrap_or(":8181").to_owned()),
        "prometheus" => reader.document.metrics = Some(plugin.argument().unwrap_or("localhost:9153").to_owned()),
        "log" => reader.document.log_queries = true,
        "autopath" => autopath(reader, plugin),
        "bind" => bind(reader, plugin),
        "errors" => reader.redundant(plugin, "errors are always logged"),
        "loadbalance" => reader.redundant(plugin, "addresses always rotate"),
        "reload" => reader.redundant(plugin, "the file is read at startup; restart to apply changes"),
        "loop" => reader.redundant(plugin, "a forwarding loop ends with SERVFAIL after the deadline"),
        "multisocket" => reader.redundant(plugin, "--threads sets the number of sockets"),
        "bufsize" => reader.redundant(plugin, "UDP responses have at most 1232 octets"),
        "minimal" | "any" => reader.redundant(plugin, "responses are always minimal"),
        _ => reader.unsupported(plugin, "this plugin is not supported and has no effect"),
    }
}

fn health(reader: &mut Reader<'_>, plugin: &Directive) {
    reader.document.health = Some(plugin.argument().unwrap_or(":8080").to_owned());
    for option in &plugin.block {
        match (option.name(), option.argument().and_then(|text| parse_duration(text).ok())) {
            ("lameduck", Some(time)) => reader.document.lameduck = Some(time.as_secs()),
            _ => reader.unsupported(option, "this option is not supported and has no effect"),
        }
    }
}

fn kubernetes(reader: &mut Reader<'_>, plugin: &Directive) {
    let is_reverse = |zone: &&String| zone.ends_with("in-addr.arpa") || zone.ends_with("ip6.arpa");
    let (reverse, zones): (Vec<&String>, Vec<&String>) = plugin.arguments().iter().partition(is_reverse);
    reader.document.cluster_domains = zones.into_iter().cloned().collect();
    reader.document.reverse = Some(!reverse.is_empty());
    reader.document.pass_unknown_addresses = Some(false);
    for option in &plugin.block {
        match (option.name(), option.argument()) {
            ("pods", Some(mode)) => reader.document.pods = Some(mode.to_owned()),
            ("ttl", Some(ttl)) => match ttl.parse() {
                Ok(ttl) => reader.document.ttl = Some(ttl),
                Err(_) => reader.unsupported(option, "write a number of seconds"),
            },
            ("fallthrough", _) => fallthrough(reader, option),
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

/// Without zones it applies to all zones.
fn fallthrough(reader: &mut Reader<'_>, option: &Directive) {
    let zones = option.arguments();
    let is_reverse = |zone: &String| zone.ends_with("arpa");
    if zones.is_empty() || zones.iter().any(is_reverse) {
        reader.document.pass_unknown_addresses = Some(true);
    }
    reader.document.pass_unknown_names |= zones.is_empty() || zones.iter().any(|zone| !is_reverse(zone));
}

fn forward(reader: &mut Reader<'_>, plugin: &Directive) {
    let Some((from, servers)) = plugin.arguments().split_first() else {
        return reader.unsupported(plugin, "write forward . SERVER…");
    };
    let servers = usable(reader, plugin, servers);
    if from == "." {
        reader.document.upstreams = Some(servers);
        forward_options(reader, plugin);
    } else {
        reader.document.stub_domains.insert(from.clone(), servers);
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

fn forward_options(reader: &mut Reader<'_>, plugin: &Directive) {
    for option in &plugin.block {
        match (option.name(), option.argument()) {
            ("policy", Some(policy)) => reader.document.upstream_policy = Some(policy.to_owned()),
            ("force_tcp", _) => reader.document.force_tcp = true,
            ("prefer_udp", _) => {}
            ("max_concurrent", Some(most)) => reader.document.max_concurrent = most.parse().ok(),
            ("health_check" | "max_fails" | "expire", _) => {
                reader.redundant(option, "an upstream that fails twice is probed twice a second until it answers");
            }
            _ => reader.unsupported(option, "this option is not supported and has no effect"),
        }
    }
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

fn hosts(reader: &mut Reader<'_>, plugin: &Directive) {
    match plugin.argument() {
        Some(file) => reader.document.hosts_files.push(file.into()),
        None if plugin.block.is_empty() => reader.document.hosts_files.push("/etc/hosts".into()),
        None => {}
    }
    for option in &plugin.block {
        match (option.name(), option.argument()) {
            ("fallthrough", None) => {}
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

fn bind(reader: &mut Reader<'_>, plugin: &Directive) {
    let port = reader.document.listen.first().and_then(|it| it.rsplit_once(':')).map_or("53", |(_, port)| port);
    let at = |address: &String| match address.contains(':') {
        true => format!("[{address}]:{port}"),
        false => format!("{address}:{port}"),
    };
    let listen: Vec<String> = plugin.arguments().iter().map(at).collect();
    if !listen.is_empty() {
        reader.document.listen = listen;
    }
}

/// A separate server block for a zone: `example.org:53 { forward . 10.0.0.1 }`.
pub(super) fn stub(reader: &mut Reader<'_>, server: &Directive) {
    let Some(forward) = server.block.iter().find(|plugin| plugin.name() == "forward") else {
        return reader.unsupported(server, "a block without kubernetes and without forward has no effect");
    };
    let servers = usable(reader, forward, forward.arguments().get(1..).unwrap_or_default());
    for zone in &server.words {
        let zone = zone.trim_start_matches("dns://").split(':').next().unwrap_or_default();
        reader.document.stub_domains.insert(zone.to_owned(), servers.clone());
    }
    for plugin in
        server.block.iter().filter(|it| !matches!(it.name(), "forward" | "cache" | "errors" | "loop" | "reload"))
    {
        reader.unsupported(plugin, "in a separate server block only forward and cache are supported");
    }
}
