//! Settings of the DNS server, from flags, YAML or a Corefile.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, anyhow, bail};
use portolan_config::{CacheDocument, DnsDocument, Notice, from_corefile};
use portolan_dns::wire::Name;
use portolan_dns::zone::{Pods, ZoneConfig};
use portolan_dns::{Autopath, CacheConfig, Config, ForwardConfig, Hosts, Listen, Policy, RouteConfig};
use portolan_source::cluster::Names;

use super::dns_acl;
use super::dns_upstreams::{address, search_list, servers};
use super::facts::{ClusterSettings, Facts, Keep, node_name, source_options};
use crate::flags::DnsFlags;
use crate::host;
use crate::system::has_ipv6;

const RESOLV_CONF: &str = "/etc/resolv.conf";

#[derive(Clone, Debug, PartialEq)]
pub struct DnsSettings {
    pub listen: Listen,
    pub config: Config,
    /// How long queries are still answered after SIGTERM: clients learn of the shutdown with a delay.
    pub lameduck: Duration,
    pub health: Option<SocketAddr>,
    pub ready: Option<SocketAddr>,
    pub metrics: Option<SocketAddr>,
}

impl DnsSettings {
    pub fn read(flags: &DnsFlags) -> anyhow::Result<(Self, Vec<Notice>)> {
        let (mut document, notices) = match (&flags.config, &flags.corefile) {
            (Some(path), _) => (from_yaml(path)?, Vec::new()),
            (None, Some(path)) => corefile(path)?,
            (None, None) => (DnsDocument::default(), Vec::new()),
        };
        overlay(&mut document, flags)?;
        Ok((Self::resolve(&document, flags.threads)?, notices))
    }

    /// Settings of a DNS server beside the rules, if one is configured. Two threads are enough: its clients are on this
    /// node. The next process on this node may listen before this one has ended.
    pub fn beside_rules(listen: &[String], file: Option<&Path>) -> anyhow::Result<Option<Self>> {
        if listen.is_empty() {
            return Ok(None);
        }
        let mut document = file.map(from_yaml).transpose()?.unwrap_or_default();
        document.listen = listen.to_vec();
        let mut settings = Self::resolve(&document, Some(cores().min(2)))?;
        settings.listen.is_shared = true;
        Ok(Some(settings))
    }

    /// Parses the words of the file.
    pub fn resolve(document: &DnsDocument, threads: Option<usize>) -> anyhow::Result<Self> {
        let listen = listen(&document.listen)?;
        let page = |text: &Option<String>| text.as_deref().map(page_address).transpose();
        Ok(Self {
            config: Config {
                zone: zone(document, &listen)?,
                forward: forward(document)?,
                cache: cache(&document.cache),
                hosts: hosts(document)?,
                acl: document.acl.iter().map(dns_acl::acl).collect::<Result<_, _>>()?,
                autopath: autopath(document)?,
                rate_limit: document.rate_limit,
                log_queries: document.log_queries,
            },
            listen: Listen { addresses: listen, threads: threads.unwrap_or_else(cores), is_shared: false },
            lameduck: Duration::from_secs(document.lameduck.unwrap_or(0)),
            health: page(&document.health)?,
            ready: page(&document.ready)?,
            metrics: page(&document.metrics)?,
        })
    }

    /// Where /health, /ready and /metrics are served.
    pub(crate) fn pages(&self) -> [Option<SocketAddr>; 3] {
        [self.health, self.ready, self.metrics]
    }

    /// Whether the addresses of pods are needed.
    pub fn needs_pods(&self) -> bool {
        self.config.zone.pods == Pods::Verified || matches!(self.config.autopath, Autopath::Pods(_))
    }

    pub(crate) fn facts(&self, flags: &DnsFlags) -> anyhow::Result<Facts> {
        if !flags.facts.manifests.manifests.is_empty() {
            return Ok(Facts::Manifests(source_options(&flags.facts, Keep::Allocations)?));
        }
        Ok(Facts::Cluster(ClusterSettings {
            kubeconfig: flags.server.kubeconfig.clone(),
            master: flags.server.master.clone(),
            content_type_json: false,
            qps: 50.0,
            burst: 100,
            names: if self.needs_pods() { Names::OfPods } else { Names::OfNamespaces },
            node_name: node_name(flags.facts.hostname_override.as_deref())?,
        }))
    }
}

fn cores() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

pub(crate) fn from_yaml(path: &Path) -> anyhow::Result<DnsDocument> {
    let text = std::fs::read_to_string(path).with_context(|| format!("reading {}", path.display()))?;
    DnsDocument::from_yaml(&path.display().to_string(), &text).map_err(|mistake| anyhow!(mistake))
}

fn corefile(path: &Path) -> anyhow::Result<(DnsDocument, Vec<Notice>)> {
    let text = std::fs::read_to_string(path).with_context(|| format!("reading {}", path.display()))?;
    from_corefile(&path.display().to_string(), &text).map_err(|mistake| anyhow!(mistake))
}

fn overlay(document: &mut DnsDocument, flags: &DnsFlags) -> anyhow::Result<()> {
    let put = |into: &mut Vec<String>, given: &[String]| {
        if !given.is_empty() {
            *into = given.to_vec();
        }
    };
    put(&mut document.listen, &flags.listen);
    put(&mut document.cluster_domains, &flags.cluster_domain);
    if !flags.upstream.is_empty() {
        document.upstreams = Some(flags.upstream.clone());
    }
    for text in &flags.stub_domain {
        let advice = || format!("--stub-domain {text:?}: write DOMAIN=SERVER[,SERVER]");
        let (domain, servers) = text.split_once('=').with_context(advice)?;
        document.stub_domains.insert(domain.to_owned(), servers.split(',').map(str::to_owned).collect());
    }
    document.ttl = flags.ttl.or(document.ttl);
    document.rate_limit = flags.rate_limit.or(document.rate_limit);
    document.log_queries |= flags.log_queries;
    for (into, given) in [
        (&mut document.pods, &flags.pods),
        (&mut document.autopath, &flags.autopath),
        (&mut document.health, &flags.health),
        (&mut document.ready, &flags.ready),
        (&mut document.metrics, &flags.metrics),
    ] {
        *into = given.clone().or(into.take());
    }
    Ok(())
}

/// The default is port 53 at all addresses of both families.
fn listen(words: &[String]) -> anyhow::Result<Vec<SocketAddr>> {
    let everywhere = [":53".to_owned()];
    let words = if words.is_empty() { &everywhere } else { words };
    let mut addresses = Vec::new();
    for word in words {
        if let Some(port) = word.strip_prefix(':').and_then(|port| port.parse::<u16>().ok()) {
            addresses.push(SocketAddr::new(Ipv4Addr::UNSPECIFIED.into(), port));
            if has_ipv6() {
                addresses.push(SocketAddr::new(Ipv6Addr::UNSPECIFIED.into(), port));
            }
        } else {
            let advice = || format!("--listen {word:?}: write ADDRESS:PORT, ADDRESS or :PORT");
            addresses.push(address(word).with_context(advice)?);
        }
    }
    Ok(addresses)
}

/// `:8080` means every address.
fn page_address(text: &str) -> anyhow::Result<SocketAddr> {
    let text = text.replace("localhost", "127.0.0.1");
    let whole = if text.starts_with(':') { format!("0.0.0.0{text}") } else { text.clone() };
    whole.parse().with_context(|| format!("{text:?} is not a place to listen: write ADDRESS:PORT or :PORT"))
}

fn name(text: &str) -> anyhow::Result<Name> {
    Name::from_text(text).with_context(|| format!("{text:?} is not a domain"))
}

fn names(texts: &[String]) -> anyhow::Result<Vec<Name>> {
    texts.iter().map(|text| name(text)).collect()
}

fn zone(document: &DnsDocument, listen: &[SocketAddr]) -> anyhow::Result<ZoneConfig> {
    let standard = ZoneConfig::default();
    let zones = names(&document.cluster_domains)?;
    Ok(ZoneConfig {
        zones: if zones.is_empty() { standard.zones } else { zones },
        ttl: document.ttl.unwrap_or(standard.ttl),
        pods: pods(document.pods.as_deref())?,
        ignore_empty: document.ignore_empty_service,
        pass_unknown_addresses: document.pass_unknown_addresses.unwrap_or_else(|| has_upstreams(document)),
        pass_unknown_names: document.pass_unknown_names,
        reverse_zones: reverse_zones(document)?,
        namespaces: document.namespaces.iter().cloned().collect(),
        own_addresses: own_addresses(listen),
    })
}

fn reverse_zones(document: &DnsDocument) -> anyhow::Result<Vec<Name>> {
    match (document.reverse, &document.reverse_zones[..]) {
        (Some(false), _) => Ok(Vec::new()),
        (_, []) => Ok(ZoneConfig::default().reverse_zones),
        (_, zones) => names(zones),
    }
}

/// Reverse lookups of unknown addresses are forwarded if there is an upstream.
fn has_upstreams(document: &DnsDocument) -> bool {
    document.upstreams.as_ref().is_none_or(|words| words.iter().any(|word| word != "none"))
}

fn own_addresses(listen: &[SocketAddr]) -> Vec<IpAddr> {
    if listen.iter().any(|address| address.ip().is_unspecified()) {
        return host::addresses().into_iter().filter(|address| !address.is_loopback()).collect();
    }
    listen.iter().map(SocketAddr::ip).collect()
}

fn pods(text: Option<&str>) -> anyhow::Result<Pods> {
    Ok(match text {
        None | Some("disabled") => Pods::Disabled,
        Some("insecure") => Pods::Insecure,
        Some("verified") => Pods::Verified,
        Some(other) => bail!("pods {other:?}: write disabled, insecure or verified"),
    })
}

fn forward(document: &DnsDocument) -> anyhow::Result<ForwardConfig> {
    let policy = match document.upstream_policy.as_deref() {
        None | Some("random") => Policy::Random,
        Some("round_robin") => Policy::RoundRobin,
        Some("sequential") => Policy::Sequential,
        Some(other) => bail!("upstream policy {other:?}: write random, round_robin or sequential"),
    };
    let route = |suffix: Name, words: &[String]| -> anyhow::Result<RouteConfig> {
        Ok(RouteConfig { suffix, upstreams: servers(words)?, policy, force_tcp: document.force_tcp })
    };
    let standard = [RESOLV_CONF.to_owned()];
    let words = document.upstreams.as_deref().unwrap_or(&standard);
    let mut routes = vec![route(Name::ROOT, words)?];
    for (domain, words) in &document.stub_domains {
        routes.push(route(name(domain)?, words)?);
    }
    if routes.iter().all(|route| route.upstreams.is_empty()) {
        routes.clear();
    }
    let max_concurrent = document.max_concurrent.filter(|most| *most > 0).unwrap_or(1000);
    Ok(ForwardConfig { routes, max_concurrent, ..ForwardConfig::default() })
}

fn cache(document: &CacheDocument) -> CacheConfig {
    let standard = CacheConfig::default();
    let time = |seconds: Option<u64>, standard| seconds.map_or(standard, Duration::from_secs);
    CacheConfig {
        capacity: document.entries.unwrap_or(standard.capacity),
        negative_capacity: document.negative_entries.unwrap_or(standard.negative_capacity),
        max_octets: document.max_bytes.unwrap_or(standard.max_octets),
        max_ttl: time(document.max_ttl, standard.max_ttl),
        max_negative_ttl: time(document.max_negative_ttl, standard.max_negative_ttl),
        min_ttl: time(document.min_ttl, standard.min_ttl),
        serve_stale: time(document.serve_stale, standard.serve_stale),
    }
}

fn hosts(document: &DnsDocument) -> anyhow::Result<Hosts> {
    let mut hosts = Hosts::default();
    hosts.ttl = document.hosts_ttl.unwrap_or(hosts.ttl);
    for file in &document.hosts_files {
        hosts.read(&std::fs::read_to_string(file).with_context(|| format!("reading {}", file.display()))?);
    }
    document.hosts.iter().for_each(|line| hosts.read(line));
    Ok(hosts)
}

fn autopath(document: &DnsDocument) -> anyhow::Result<Autopath> {
    let host = || search_list(Path::new(RESOLV_CONF));
    Ok(match document.autopath.as_deref() {
        None | Some("off") => Autopath::Off,
        Some("pods") => Autopath::Pods(host()),
        Some("everybody") => Autopath::AnyClient(host()),
        Some(other) => bail!("autopath {other:?}: write off, pods or everybody"),
    })
}
