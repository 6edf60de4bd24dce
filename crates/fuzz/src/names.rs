//! DNS: a client's query to its answer, and an upstream's reply through the cache to a client.

use std::cell::RefCell;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use portolan_dns::fuzz::answer_from_upstream;
use portolan_dns::wire::{HEADER, Name, Query, Reply, kind};
use portolan_dns::zone::{Pods, Zone, ZoneConfig};
use portolan_dns::{
    Acl, AclAction, AclRule, Autopath, Client, Config, ForwardConfig, Handled, Hosts, Policy, Resolver, RouteConfig,
    ThreadState,
};
use portolan_source::{Manifests, Options};

/// The cluster of the specification of names.
const CLUSTER: &str = include_str!("../../dns/tests/dns/names/cluster.yaml");
const UDP_LIMIT: usize = 1232;
const TCP_LIMIT: usize = 65_535;
/// The longest TTL that the cache lets through, with its defaults.
const MAX_TTL: u32 = 86_400;

thread_local! {
    static SERVER: RefCell<Server> = RefCell::new(Server::new());
}

struct Server {
    resolver: Resolver,
    state: ThreadState,
    out: Vec<u8>,
}

impl Server {
    fn new() -> Self {
        let resolver = Resolver::new(config());
        let ranges = ["10.96.0.0/16", "fd00::/112"].map(|range| range.parse().expect("it is a range"));
        let options = Options { service_ranges: ranges.into(), ..Options::default() };
        let (manifests, _) = Manifests::from_text(options, "cluster.yaml", CLUSTER);
        let zone = Zone::new(Arc::new(resolver.config().zone.clone())).follow(&manifests.snapshot(), 1);
        resolver.published.publish(Arc::new(zone));
        Self { state: resolver.thread_state(), resolver, out: Vec::new() }
    }
}

/// Every feature that a query can meet. The upstream is never contacted.
fn config() -> Config {
    let root = Name::from_text(".").expect("it is a name");
    let upstreams = vec![SocketAddr::from(([192, 0, 2, 53], 53))];
    let route = RouteConfig { suffix: root, upstreams, policy: Policy::Sequential, force_tcp: false };
    let mut hosts = Hosts::default();
    hosts.read("192.0.2.5 printer.example\n2001:db8::5 printer.example\n");
    let blocked = Name::from_text("blocked.example").expect("it is a name");
    let rule = AclRule { action: AclAction::Block, kinds: vec![kind::TXT], networks: Vec::new() };
    Config {
        zone: ZoneConfig { pods: Pods::Insecure, ..ZoneConfig::default() },
        forward: ForwardConfig { routes: vec![route], ..ForwardConfig::default() },
        hosts,
        acl: vec![Acl { zones: vec![blocked], except: Vec::new(), rules: vec![rule] }],
        autopath: Autopath::AnyClient(Vec::new()),
        ..Config::default()
    }
}

fn client(is_tcp: bool) -> Client {
    Client { address: ([10, 244, 1, 2], 40_000).into(), is_tcp }
}

/// The first byte chooses between UDP and TCP. The answer is a valid response to the query, within the client's limit.
pub(crate) fn query(bytes: &[u8]) {
    let Some((transport, message)) = bytes.split_first() else { return };
    let client = client(transport & 1 == 1);
    SERVER.with_borrow_mut(|server| {
        let Server { resolver, state, out } = server;
        out.clear();
        if matches!(resolver.handle(state, message, client, out), Handled::Answered) {
            check_answer(message, client, out);
        }
    });
}

/// A message that is no query is answered with a header alone.
fn check_answer(message: &[u8], client: Client, answer: &[u8]) {
    assert!(answer.len() >= HEADER && answer[..2] == message[..2], "{answer:?} for {message:?}");
    let Ok(query) = Query::parse(message) else { return };
    let limit = if client.is_tcp { TCP_LIMIT } else { query.limit(UDP_LIMIT) };
    assert!(answer.len() <= limit, "{} octets for {message:?}", answer.len());
    let reply = Reply::parse(answer, query.id, query.question());
    assert!(reply.is_ok(), "{reply:?} for {message:?}: {answer:?}");
}

/// Queries as clients send them: plain, with EDNS, with DNSSEC.
const QUERIES: [&[u8]; 4] = [
    b"\x12\x34\x01\x00\x00\x01\x00\x00\x00\x00\x00\x00\x03www\x07example\x00\x00\x01\x00\x01",
    b"\x12\x34\x01\x00\x00\x01\x00\x00\x00\x00\x00\x01\x03www\x07example\x00\x00\x1c\x00\x01\x00\x00\x29\x04\xd0\x00\x00\x00\x00\x00\x00",
    b"\x12\x34\x01\x10\x00\x01\x00\x00\x00\x00\x00\x01\x04_sip\x04_udp\x07example\x00\x00\x21\x00\x01\
      \x00\x00\x29\xff\xff\x00\x00\x80\x00\x00\x00",
    b"\x12\x34\x01\x00\x00\x01\x00\x00\x00\x00\x00\x00\x07example\x00\x00\xff\x00\x01",
];

/// The first byte selects the query and the transport, the second how long the reply is cached.
pub(crate) fn reply(bytes: &[u8]) {
    let Some((&[selector, minutes], upstream)) = bytes.split_first_chunk::<2>() else { return };
    let (message, client) = (QUERIES[usize::from(selector & 3)], client(selector & 4 != 0));
    let later = Duration::from_secs(60 * u64::from(minutes));
    SERVER.with_borrow_mut(|server| {
        let Some(answer) = answer_from_upstream(&server.resolver, message, upstream, client, later) else { return };
        check_answer(message, client, &answer);
        check_ttls(message, &answer);
    });
}

fn check_ttls(message: &[u8], answer: &[u8]) {
    let Ok(query) = Query::parse(message) else { return };
    let Ok(reply) = Reply::parse(answer, query.id, query.question()) else { return };
    let mut records = reply.answers.iter().chain(&reply.authorities).chain(&reply.additional);
    assert!(records.all(|record| record.ttl <= MAX_TTL), "{reply:?}");
}
