//! Names of others.

use std::net::Ipv4Addr;
use std::time::Duration;

use portolan_dns::wire::{Name, Query, Rcode, Record, kind};
use portolan_dns::{CacheConfig, Config, ForwardConfig, Policy, RouteConfig};

use super::support::{Running, SHORT, addresses, ask, forwarding_to, question, until};
use super::upstream::{Manners, Upstream};

const GOOD: Manners =
    Manners { octet: 1, truncates: false, forgets_case: false, is_impersonated: false, only_below: None, ttl: 60 };

fn answer(octet: u8) -> [Ipv4Addr; 1] {
    [Ipv4Addr::new(192, 0, 2, octet)]
}

#[test]
fn a_name_of_others_is_asked_for_once_and_kept() {
    let upstream = Upstream::start(GOOD);
    let running = Running::start(forwarding_to(&[upstream.address]));
    for _ in 0..3 {
        assert_eq!(addresses(&running.ask("www.example", kind::A)), answer(1));
        assert_eq!(running.ask("missing", kind::A).rcode(), Rcode::NX_DOMAIN);
        assert_eq!(running.ask("www.example", kind::TXT).rcode(), Rcode::NO_ERROR);
    }
    let mut asked = upstream.asked();
    asked.sort();
    // An empty answer without a start of authority says nothing about how long it holds.
    assert_eq!(asked[..2], ["missing.", "www.example."]);
    assert_eq!(asked.iter().filter(|name| *name == "www.example.").count(), 4, "{asked:?}");
}

#[test]
fn an_alias_is_followed_to_others() {
    let upstream = Upstream::start(GOOD);
    let running = Running::start(forwarding_to(&[upstream.address]));
    let reply = running.ask("search-engine.default.svc.cluster.local", kind::A);
    let kinds: Vec<u16> = reply.answers.iter().map(|record| record.kind).collect();
    assert_eq!((kinds, addresses(&reply)), (vec![kind::CNAME, kind::A], answer(1).to_vec()));
    assert_eq!(upstream.asked(), ["google.example."]);
}

#[test]
fn an_answer_too_long_for_udp_comes_by_tcp() {
    let upstream = Upstream::start(Manners { truncates: true, ..GOOD });
    let running = Running::start(forwarding_to(&[upstream.address]));
    assert_eq!(addresses(&running.ask("www.example", kind::A)), answer(1));
    let by_tcp: Vec<bool> = upstream.messages().iter().map(|(_, _, is_tcp)| *is_tcp).collect();
    assert_eq!(by_tcp, [false, true]);
}

#[test]
fn impostors_are_not_believed() {
    let upstream = Upstream::start(Manners { is_impersonated: true, ..GOOD });
    let running = Running::start(forwarding_to(&[upstream.address]));
    assert_eq!(addresses(&running.ask("www.example", kind::A)), answer(1));
}

/// Such a server is asked again where nobody can pretend to be it.
#[test]
fn a_server_that_forgets_the_case_is_believed_by_tcp_only() {
    let upstream = Upstream::start(Manners { forgets_case: true, ..GOOD });
    let running = Running::start(forwarding_to(&[upstream.address]));
    let name = "a-name-of-which-some-letter-is-in-upper-case.example";
    assert_eq!(addresses(&running.ask(name, kind::A)), answer(1));
    assert!(upstream.messages().iter().any(|(_, _, is_tcp)| *is_tcp));
}

#[test]
fn ids_ports_and_cases_cannot_be_guessed() {
    let upstream = Upstream::start(GOOD);
    let running = Running::start(forwarding_to(&[upstream.address]));
    for number in 0..32 {
        running.ask(&format!("some-long-name-{number}.example"), kind::A);
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
    let (first, second) = (Upstream::start(GOOD), Upstream::start(Manners { octet: 2, ..GOOD }));
    let running = Running::start(forwarding_to(&[first.address, second.address]));
    first.fall_silent(true);
    for number in 0..2 {
        assert_eq!(addresses(&running.ask(&format!("{number}.example"), kind::A)), answer(2));
    }
    let before = first.asked().len();
    assert_eq!(addresses(&running.ask("third.example", kind::A)), answer(2));
    assert_eq!(first.asked().len(), before, "a server that failed twice is not asked first");
    first.fall_silent(false);
    let mut number = 0;
    until("the first server is asked again", || {
        number += 1;
        addresses(&running.ask(&format!("again-{number}.example"), kind::A)) == answer(1)
    });
}

#[test]
fn what_was_known_is_told_while_nobody_answers() {
    let upstream = Upstream::start(Manners { ttl: 0, ..GOOD });
    let mut config = forwarding_to(&[upstream.address]);
    config.cache = CacheConfig { min_ttl: Duration::from_millis(1), ..CacheConfig::default() };
    config.forward.deadline = Duration::from_millis(400);
    let running = Running::start(config);
    assert_eq!(addresses(&running.ask("www.example", kind::A)), answer(1));
    upstream.fall_silent(true);
    until("the answer has outlived its time", || {
        let reply = running.ask("www.example", kind::A);
        assert_eq!(addresses(&reply), answer(1));
        reply.answers[0].ttl == 30
    });
    assert_eq!(running.ask("other.example", kind::A).rcode(), Rcode::SERVER_FAILURE);
    let page = running.resolver.metrics_page("");
    assert!(!page.contains("coredns_cache_served_stale_total{server=\"\",view=\"\",zones=\".\"} 0"), "{page}");
}

#[test]
fn a_domain_may_have_servers_of_its_own() {
    let (all, own) = (Upstream::start(GOOD), Upstream::start(Manners { octet: 9, ..GOOD }));
    let mut config = forwarding_to(&[all.address]);
    config.forward.routes.push(RouteConfig {
        suffix: Name::from_text("corp.example").unwrap(),
        upstreams: vec![own.address],
        policy: Policy::Random,
        force_tcp: true,
    });
    let running = Running::start(config);
    assert_eq!(addresses(&running.ask("www.example", kind::A)), answer(1));
    assert_eq!(addresses(&running.ask("www.CORP.example", kind::A)), answer(9));
    assert!(own.messages().iter().all(|(_, _, is_tcp)| *is_tcp));
}

#[test]
fn unknown_addresses_are_asked_for_elsewhere() {
    let upstream = Upstream::start(GOOD);
    let running = Running::start(forwarding_to(&[upstream.address]));
    running.ask("7.2.0.192.in-addr.arpa", kind::PTR);
    running.ask("10.0.96.10.in-addr.arpa", kind::PTR);
    assert_eq!(upstream.asked(), ["7.2.0.192.in-addr.arpa."]);
}

/// A server that asks us what we ask it.
#[test]
fn a_question_that_comes_back_does_not_go_round() {
    let first = Running::start_empty(Config::default());
    let mut config = forwarding_to(&[first.address]);
    config.forward.deadline = Duration::from_millis(600);
    drop(first);
    let mut running = Running::start(config.clone());
    config.forward.routes[0].upstreams = vec![running.address];
    let address = running.address;
    drop(running);
    running = start_at(address, config);
    let reply = ask(running.address, &question("round.example", kind::A), SHORT).unwrap();
    assert_eq!(reply.rcode(), Rcode::SERVER_FAILURE);
    let page = running.resolver.metrics_page("");
    let asked: u64 = page
        .lines()
        .filter(|line| line.starts_with("coredns_dns_requests_total"))
        .filter_map(|line| line.rsplit(' ').next()?.parse::<u64>().ok())
        .sum();
    assert!(asked <= 8, "{page}");
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
fn more_questions_than_allowed_are_refused() {
    let upstream = Upstream::start(GOOD);
    upstream.fall_silent(true);
    let mut config = forwarding_to(&[upstream.address]);
    config.forward = ForwardConfig { max_concurrent: 1, ..config.forward };
    let running = Running::start(config);
    let address = running.address;
    let waiting = std::thread::spawn(move || ask(address, &question("slow.example", kind::A), SHORT));
    until("the first question is under way", || !upstream.asked().is_empty());
    assert_eq!(running.ask("other.example", kind::A).rcode(), Rcode::REFUSED);
    assert_eq!(waiting.join().unwrap().unwrap().rcode(), Rcode::SERVER_FAILURE);
}

#[test]
fn the_cache_does_not_grow_without_end() {
    let cache = portolan_dns::Cache::new(CacheConfig { capacity: 320, ..CacheConfig::default() });
    let now = std::time::Instant::now();
    let record = Record { owner: [0].into(), kind: kind::A, class: 1, ttl: 60, data: [1, 2, 3, 4].into() };
    let reply = std::sync::Arc::new(portolan_dns::wire::Reply { answers: vec![record], ..Default::default() });
    for number in 0..10_000 {
        let name = Name::from_text(&format!("{number}.example")).unwrap();
        let key = portolan_dns::Key { name, kind: kind::A, wants_dnssec: false, unchecked: false };
        cache.put(key, &reply, now);
        cache.put(key, &reply, now);
        assert!(cache.get(&key, now).is_some());
        assert!(cache.get(&key, now + Duration::from_secs(61)).is_none());
        assert!(cache.stale(&key, now + Duration::from_secs(61)).is_some());
    }
    assert!(cache.sizes().0 <= 320, "{:?}", cache.sizes());
}
