//! The server from the client's side.

use std::net::{Ipv4Addr, TcpStream, UdpSocket};

use portolan_dns::wire::{HEADER, Rcode, Reply, kind};
use portolan_dns::{Config, Hosts, Listen};

use super::support::{Running, SHORT, addresses, exchange, query, question, raw};

#[test]
fn names_are_answered_by_udp_and_by_tcp() {
    let running = Running::start(Config::default());
    for reply in [
        running.query("hello-service.default.svc.cluster.local", kind::A),
        running.query_by_tcp("hello-service.default.svc.cluster.local", kind::A),
    ] {
        assert_eq!(addresses(&reply), [Ipv4Addr::new(10, 96, 0, 10)]);
    }
}

#[test]
fn addresses_and_settings_change_without_a_restart() {
    let mut running = Running::start(Config::default());
    let hello = "hello-service.default.svc.cluster.local";
    running.query(hello, kind::A);
    let mut stream = TcpStream::connect(running.address).unwrap();
    let message = question("printer.example", kind::A);
    assert_eq!(exchange(&mut stream, &message)[3] & 0x0f, 5);

    let mut hosts = Hosts::default();
    hosts.read("192.0.2.9 printer.example");
    let changed = running.resolver.with_config(Config { hosts, ..Config::default() });
    running.server.resolver.publish(changed.into());
    assert_eq!(addresses(&running.query("printer.example", kind::A)), [Ipv4Addr::new(192, 0, 2, 9)]);
    assert_eq!(exchange(&mut stream, &message)[3] & 0x0f, 0, "on an open connection, too");
    assert_eq!(running.query(hello, kind::A).answers.len(), 1, "the zone is still there");
    let page = running.resolver.metrics_page("");
    assert!(page.contains("type=\"A\",view=\"\",zone=\"cluster.local.\"} 2"), "counters go on: {page}");

    let old = running.address;
    let taken = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap().local_addr().unwrap();
    let listen = |addresses| Listen { addresses, threads: 2, is_shared: false };
    running.server.listen(&listen(vec![taken])).unwrap();
    assert_eq!(running.server.addresses, [taken]);
    assert!(query(taken, &question(hello, kind::A), SHORT).is_some());
    assert!(TcpStream::connect(old).is_err(), "the old port is closed");
    let other = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    assert!(running.server.listen(&listen(vec![other.local_addr().unwrap()])).is_err());
    assert!(query(taken, &question(hello, kind::A), SHORT).is_some(), "after an error nothing has changed");
}

/// A server that is stopping still has its UDP sockets when its TCP port is free already. A new server on that port would
/// share its queries with them, and lose some.
#[test]
fn the_sockets_of_another_server_are_not_joined() {
    let start = || {
        let other = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        rustix::net::sockopt::set_socket_reuseport(&other, true).unwrap();
        let at = other.local_addr().unwrap();
        assert!(Running::try_start_at(at, Config::default()).is_none());
        drop(other);
        Running::try_start_at(at, Config::default())
    };
    // Another test may take the port in between.
    let running = (0..20).find_map(|_| start()).expect("a port is free");
    running.resolver.published.publish(super::support::zone(&running.resolver.config().zone));
    for _ in 0..64 {
        assert_eq!(running.query("hello-service.default.svc.cluster.local", kind::A).answers.len(), 1);
    }
}

#[test]
fn many_questions_share_a_connection() {
    let running = Running::start(Config::default());
    let mut stream = TcpStream::connect(running.address).unwrap();
    let message = question("db.shop.svc.cluster.local", kind::A);
    for _ in 0..100 {
        let reply = Reply::parse(&exchange(&mut stream, &message), 0x1234, &message[HEADER..]).unwrap();
        assert_eq!(addresses(&reply).len(), 3);
    }
}

#[test]
fn the_case_of_the_question_is_kept() {
    let running = Running::start(Config::default());
    let mut message = question("hello-service.default.svc.cluster.local", kind::A);
    message[13..20].make_ascii_uppercase();
    let reply = query(running.address, &message, SHORT).unwrap();
    assert_eq!(&reply.answers[0].owner[1..8], b"HELLO-S");
}

/// A wrong answer is cached, a failure is retried.
#[test]
fn before_the_first_sync_our_names_fail() {
    let running = Running::start_empty(Config::default());
    for name in ["hello-service.default.svc.cluster.local", "cluster.local", "10.0.96.10.in-addr.arpa"] {
        assert_eq!(running.query(name, kind::A).rcode(), Rcode::SERVER_FAILURE, "{name}");
    }
    running.resolver.published.publish(super::support::zone(&running.resolver.config().zone));
    assert_eq!(running.query("hello-service.default.svc.cluster.local", kind::A).rcode(), Rcode::NO_ERROR);
}

#[test]
fn transfers_other_classes_and_others_names_are_refused() {
    let running = Running::start(Config::default());
    assert_eq!(running.query_by_tcp("cluster.local", kind::AXFR).rcode(), Rcode::REFUSED);
    assert_eq!(running.query("cluster.local", kind::IXFR).rcode(), Rcode::REFUSED);
    assert_eq!(running.query("example.org", kind::A).rcode(), Rcode::REFUSED, "there is no upstream");
    let mut message = question("version.bind", kind::TXT);
    *message.last_mut().unwrap() = 3;
    assert_eq!(raw(running.address, &message, SHORT).unwrap()[3] & 0x0f, 5);
}

#[test]
fn names_of_the_hosts_file_come_first() {
    let mut hosts = Hosts::default();
    hosts.read("192.0.2.9 printer.example hello-service.default.svc.cluster.local # why\nnonsense\n2001:db8::9 printer.example");
    let running = Running::start(Config { hosts, ..Config::default() });
    for name in ["printer.example", "hello-service.default.svc.cluster.local"] {
        assert_eq!(addresses(&running.query(name, kind::A)), [Ipv4Addr::new(192, 0, 2, 9)], "{name}");
    }
    assert_eq!(running.query("printer.example", kind::AAAA).answers.len(), 1);
    assert_eq!(running.query("printer.example", kind::TXT).rcode(), Rcode::NO_ERROR);
}

#[test]
fn metrics_have_the_names_of_coredns() {
    let running = Running::start(Config::default());
    running.query("hello-service.default.svc.cluster.local", kind::A);
    running.query("unknown.default.svc.cluster.local", kind::A);
    let page = running.resolver.metrics_page("dns://test");
    for line in [
        "coredns_dns_requests_total{family=\"1\",proto=\"udp\",server=\"dns://test\",type=\"A\",view=\"\",zone=\"cluster.local.\"} 2",
        "coredns_dns_responses_total{plugin=\"kubernetes\",rcode=\"NXDOMAIN\",server=\"dns://test\",view=\"\",zone=\"cluster.local.\"} 1",
        "coredns_dns_request_duration_seconds_count{server=\"dns://test\",view=\"\",zone=\"cluster.local.\"} 2",
        "coredns_panics_total 0",
    ] {
        assert!(page.lines().any(|it| it == line), "{line} is not in\n{page}");
    }
}
