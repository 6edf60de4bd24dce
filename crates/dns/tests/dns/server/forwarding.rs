//! Forwarding of names outside the cluster.

use std::net::Ipv4Addr;
use std::time::Duration;

use portolan_dns::wire::{Name, Query, Rcode, kind};
use portolan_dns::{CacheConfig, Config, ForwardConfig, Policy, RouteConfig};

use super::support::{Running, SHORT, addresses, forwarding_to, query, question, until};
use super::upstream::{Behaviour, Upstream};

const GOOD: Behaviour = Behaviour {
    octet: 1,
    truncates: false,
    forgets_case: false,
    is_impersonated: false,
    only_below: None,
    ttl: 60,
    delay: Duration::ZERO,
    loses_first: false,
    header_only: None,
    rejects_edns: false,
};

fn answer(octet: u8) -> [Ipv4Addr; 1] {
    [Ipv4Addr::new(192, 0, 2, octet)]
}

#[test]
fn a_forwarded_answer_is_cached() {
    let upstream = Upstream::start(GOOD);
    let running = Running::start(forwarding_to(&[upstream.address]));
    for _ in 0..3 {
        assert_eq!(addresses(&running.query("www.example", kind::A)), answer(1));
        assert_eq!(running.query("missing", kind::A).rcode(), Rcode::NX_DOMAIN);
        assert_eq!(running.query("www.example", kind::TXT).rcode(), Rcode::NO_ERROR);
    }
    let mut queries = upstream.queries();
    queries.sort();
    // An empty answer without a SOA record has no TTL.
    assert_eq!(queries[..2], ["missing.", "www.example."]);
    assert_eq!(queries.iter().filter(|name| *name == "www.example.").count(), 4, "{queries:?}");
}

#[test]
fn an_alias_is_followed_upstream() {
    let upstream = Upstream::start(GOOD);
    let running = Running::start(forwarding_to(&[upstream.address]));
    let reply = running.query("search-engine.default.svc.cluster.local", kind::A);
    let kinds: Vec<u16> = reply.answers.iter().map(|record| record.kind).collect();
    assert_eq!((kinds, addresses(&reply)), (vec![kind::CNAME, kind::A], answer(1).to_vec()));
    assert_eq!(upstream.queries(), ["google.example."]);
}

#[test]
fn an_answer_too_long_for_udp_comes_by_tcp() {
    let upstream = Upstream::start(Behaviour { truncates: true, ..GOOD });
    let running = Running::start(forwarding_to(&[upstream.address]));
    assert_eq!(addresses(&running.query("www.example", kind::A)), answer(1));
    let by_tcp: Vec<bool> = upstream.messages().iter().map(|(_, _, is_tcp)| *is_tcp).collect();
    assert_eq!(by_tcp, [false, true]);
}

#[test]
fn spoofed_answers_are_ignored() {
    let upstream = Upstream::start(Behaviour { is_impersonated: true, ..GOOD });
    let running = Running::start(forwarding_to(&[upstream.address]));
    assert_eq!(addresses(&running.query("www.example", kind::A)), answer(1));
}

/// Such a server is queried again over TCP, where spoofing is not possible.
#[test]
fn a_server_that_changes_the_case_is_accepted_over_tcp_only() {
    let upstream = Upstream::start(Behaviour { forgets_case: true, ..GOOD });
    let running = Running::start(forwarding_to(&[upstream.address]));
    let name = "a-name-of-which-some-letter-is-in-upper-case.example";
    assert_eq!(addresses(&running.query(name, kind::A)), answer(1));
    assert!(upstream.messages().iter().any(|(_, _, is_tcp)| *is_tcp));
}

#[test]
fn ids_ports_and_cases_cannot_be_guessed() {
    let upstream = Upstream::start(GOOD);
    let running = Running::start(forwarding_to(&[upstream.address]));
    for number in 0..32 {
        running.query(&format!("some-long-name-{number}.example"), kind::A);
    }
    let messages = upstream.messages();
    let distinct = |mut values: Vec<u16>| {
        values.sort_unstable();
        values.dedup();
        values.len()
    };
    let ids = messages.iter().map(|(message, ..)| u16::from_be_bytes([message[0], message[1]])).collect();
    assert!(distinct(ids) > 28);
    assert!(distinct(messages.iter().map(|(_, from, _)| from.port()).collect()) > 16);
    let has_upper_case =
        |message: &Vec<u8>| Query::parse(message).unwrap().question().iter().any(u8::is_ascii_uppercase);
    assert!(messages.iter().filter(|(message, ..)| has_upper_case(message)).count() > 28);
}

#[test]
fn when_one_server_is_silent_another_answers_and_is_preferred_until_the_first_is_back() {
    let (first, second) = (Upstream::start(GOOD), Upstream::start(Behaviour { octet: 2, ..GOOD }));
    let running = Running::start(forwarding_to(&[first.address, second.address]));
    first.fall_silent(true);
    for number in 0..2 {
        assert_eq!(addresses(&running.query(&format!("{number}.example"), kind::A)), answer(2));
    }
    let before = first.queries().len();
    assert_eq!(addresses(&running.query("third.example", kind::A)), answer(2));
    assert_eq!(first.queries().len(), before, "a server that failed twice is not queried first");
    first.fall_silent(false);
    let mut number = 0;
    until("the first server is queried again", || {
        number += 1;
        addresses(&running.query(&format!("again-{number}.example"), kind::A)) == answer(1)
    });
}

#[test]
fn stale_answers_are_served_while_no_upstream_answers() {
    let upstream = Upstream::start(Behaviour { ttl: 0, ..GOOD });
    let mut config = forwarding_to(&[upstream.address]);
    config.cache = CacheConfig { min_ttl: Duration::from_millis(1), ..CacheConfig::default() };
    config.forward.deadline = Duration::from_millis(400);
    let running = Running::start(config);
    assert_eq!(addresses(&running.query("www.example", kind::A)), answer(1));
    upstream.fall_silent(true);
    until("the answer has expired", || {
        let reply = running.query("www.example", kind::A);
        assert_eq!(addresses(&reply), answer(1));
        reply.answers[0].ttl == 30
    });
    assert_eq!(running.query("other.example", kind::A).rcode(), Rcode::SERVER_FAILURE);
    let page = running.resolver.metrics_page("");
    assert!(!page.contains("coredns_cache_served_stale_total{server=\"\",view=\"\",zones=\".\"} 0"), "{page}");
}

#[test]
fn stale_answers_are_served_while_the_upstream_fails() {
    let upstream = Upstream::start(Behaviour { ttl: 0, ..GOOD });
    let mut config = forwarding_to(&[upstream.address]);
    config.cache = CacheConfig { min_ttl: Duration::from_millis(1), ..CacheConfig::default() };
    let running = Running::start(config);
    assert_eq!(addresses(&running.query("www.example", kind::A)), answer(1));
    upstream.fail();
    until("the answer has expired", || {
        let reply = running.query("www.example", kind::A);
        assert_eq!(addresses(&reply), answer(1));
        reply.answers[0].ttl == 30
    });
    assert_eq!(addresses(&running.query("www.example", kind::A)), answer(1), "the failure is cached by now");
    assert_eq!(running.query("other.example", kind::A).rcode(), Rcode::SERVER_FAILURE);
}

#[test]
fn a_lost_datagram_is_sent_again() {
    let upstream = Upstream::start(Behaviour { loses_first: true, ..GOOD });
    let mut config = forwarding_to(&[upstream.address]);
    config.forward.server_timeout = Duration::from_secs(2);
    let running = Running::start(config);
    assert_eq!(addresses(&running.query("www.example", kind::A)), answer(1));
    assert_eq!(upstream.queries(), ["www.example.", "www.example."]);
}

/// Such an answer is no reason to wait, nor to count the server as down.
#[test]
fn a_refusal_without_a_question_is_an_answer() {
    let refusing = Upstream::start(Behaviour { header_only: Some(Rcode::REFUSED), ..GOOD });
    let mut config = forwarding_to(&[refusing.address]);
    config.forward.server_timeout = Duration::from_secs(60);
    let running = Running::start(config.clone());
    for number in 0..3 {
        assert_eq!(running.query(&format!("{number}.example"), kind::A).rcode(), Rcode::REFUSED);
    }
    assert!(!running.resolver.metrics_page("").contains("rcode=\"SERVFAIL\",to"), "the server is not down");
    let good = Upstream::start(GOOD);
    config.forward.routes[0].upstreams.push(good.address);
    let running = Running::start(config);
    assert_eq!(addresses(&running.query("www.example", kind::A)), answer(1), "another server answers");
}

#[test]
fn a_server_without_edns_is_queried_without_it() {
    let upstream = Upstream::start(Behaviour { rejects_edns: true, ..GOOD });
    let running = Running::start(forwarding_to(&[upstream.address]));
    assert_eq!(addresses(&running.query("www.example", kind::A)), answer(1));
    let with_opt: Vec<bool> = upstream.messages().iter().map(|(message, ..)| message[11] > 0).collect();
    assert_eq!(with_opt, [true, false]);
}

#[test]
fn a_server_for_tcp_only_is_probed_over_tcp() {
    let upstream = Upstream::start(GOOD);
    upstream.fall_silent(true);
    let mut config = forwarding_to(&[upstream.address]);
    config.forward.routes[0].force_tcp = true;
    config.forward.server_timeout = Duration::from_millis(50);
    config.forward.max_fails = 1;
    let running = Running::start(config);
    assert_eq!(running.query("www.example", kind::A).rcode(), Rcode::SERVER_FAILURE);
    upstream.fall_silent(false);
    until("a probe has arrived", || !upstream.messages().is_empty());
    assert!(upstream.messages().iter().all(|(_, _, is_tcp)| *is_tcp));
}

#[test]
fn a_domain_may_have_servers_of_its_own() {
    let (all, own) = (Upstream::start(GOOD), Upstream::start(Behaviour { octet: 9, ..GOOD }));
    let mut config = forwarding_to(&[all.address]);
    config.forward.routes.push(RouteConfig {
        suffix: Name::from_text("corp.example").unwrap(),
        upstreams: vec![own.address],
        policy: Policy::Random,
        force_tcp: true,
    });
    let running = Running::start(config);
    assert_eq!(addresses(&running.query("www.example", kind::A)), answer(1));
    assert_eq!(addresses(&running.query("www.CORP.example", kind::A)), answer(9));
    assert!(own.messages().iter().all(|(_, _, is_tcp)| *is_tcp));
}

#[test]
fn reverse_lookups_of_unknown_addresses_are_forwarded() {
    let upstream = Upstream::start(GOOD);
    let running = Running::start(forwarding_to(&[upstream.address]));
    running.query("7.2.0.192.in-addr.arpa", kind::PTR);
    running.query("10.0.96.10.in-addr.arpa", kind::PTR);
    assert_eq!(upstream.queries(), ["7.2.0.192.in-addr.arpa."]);
}

/// An upstream that forwards our queries back to us.
#[test]
fn a_forwarding_loop_is_broken() {
    let first = Running::start_empty(Config::default());
    let mut config = forwarding_to(&[first.address]);
    config.forward.deadline = Duration::from_millis(600);
    drop(first);
    let mut running = Running::start(config.clone());
    config.forward.routes[0].upstreams = vec![running.address];
    let address = running.address;
    drop(running);
    running = start_at(address, config);
    let reply = query(running.address, &question("round.example", kind::A), SHORT).unwrap();
    assert_eq!(reply.rcode(), Rcode::SERVER_FAILURE);
    let page = running.resolver.metrics_page("");
    let queries: u64 = page
        .lines()
        .filter(|line| line.starts_with("coredns_dns_requests_total"))
        .filter_map(|line| line.rsplit(' ').next()?.parse::<u64>().ok())
        .sum();
    assert!(queries <= 16, "{page}");
}

fn start_at(address: std::net::SocketAddr, config: Config) -> Running {
    let mut running = None;
    until("the port is free again", || {
        running = Running::try_start_at(address, config.clone());
        running.is_some()
    });
    running.expect("it was started")
}

#[test]
fn queries_above_the_limit_are_refused() {
    let upstream = Upstream::start(GOOD);
    upstream.fall_silent(true);
    let mut config = forwarding_to(&[upstream.address]);
    config.forward = ForwardConfig { max_concurrent: 1, ..config.forward };
    let running = Running::start(config);
    let address = running.address;
    let waiting = std::thread::spawn(move || query(address, &question("slow.example", kind::A), SHORT));
    until("the first query is in flight", || !upstream.queries().is_empty());
    assert_eq!(running.query("other.example", kind::A).rcode(), Rcode::REFUSED);
    assert_eq!(waiting.join().unwrap().unwrap().rcode(), Rcode::SERVER_FAILURE);
}
