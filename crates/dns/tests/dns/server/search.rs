//! Search lists, resolved for the client.

use std::net::Ipv4Addr;

use portolan_dns::wire::{Name, Rcode, kind};
use portolan_dns::{Autopath, Config};

use super::support::{Running, addresses, forwarding_to};
use super::upstream::{Behaviour, Upstream};

fn running(upstream: &Upstream, autopath: Autopath) -> Running {
    Running::start(Config { autopath, ..forwarding_to(&[upstream.address]) })
}

fn host() -> Vec<Name> {
    vec![Name::from_text("corp.example").expect("a name")]
}

/// The client's one query, and how many it would have sent without autopath.
#[test]
fn an_outside_name_costs_the_client_one_question() {
    let upstream = Upstream::start(Behaviour { octet: 1, ttl: 60, only_below: Some("org"), ..Behaviour::default() });
    let running = running(&upstream, Autopath::AnyClient(host()));
    let reply = running.query("www.example.org.default.svc.cluster.local", kind::A);
    assert_eq!(reply.rcode(), Rcode::NO_ERROR);
    assert_eq!(reply.answers[0].kind, kind::CNAME);
    assert_eq!(Name::from_wire(&reply.answers[0].data).unwrap().to_string(), "www.example.org.");
    assert_eq!(addresses(&reply), [Ipv4Addr::new(192, 0, 2, 1)]);
    assert_eq!(upstream.queries(), ["www.example.org.corp.example.", "www.example.org."]);
}

#[test]
fn a_service_of_another_namespace_is_found_in_the_search_list() {
    let upstream = Upstream::start(Behaviour::default());
    let running = running(&upstream, Autopath::AnyClient(host()));
    let reply = running.query("db.shop.default.svc.cluster.local", kind::A);
    assert_eq!(Name::from_wire(&reply.answers[0].data).unwrap().to_string(), "db.shop.svc.cluster.local.");
    assert_eq!(addresses(&reply).len(), 3);
    let reply = running.query("search-engine.default.shop.svc.cluster.local", kind::A);
    assert_eq!(reply.answers.iter().filter(|it| it.kind == kind::CNAME).count(), 2);
    assert_eq!(upstream.queries(), ["google.example."]);
}

#[test]
fn a_name_that_does_not_exist_is_nxdomain() {
    let upstream = Upstream::start(Behaviour { only_below: Some("org"), ttl: 60, ..Behaviour::default() });
    let running = running(&upstream, Autopath::AnyClient(host()));
    assert_eq!(running.query("nothing.at-all.default.svc.cluster.local", kind::A).rcode(), Rcode::NX_DOMAIN);
    assert_eq!(running.query("missing.svc.cluster.local", kind::A).rcode(), Rcode::NX_DOMAIN);
}

/// The client is not a pod of the cluster.
#[test]
fn a_client_that_is_no_pod_resolves_its_own_list() {
    let upstream = Upstream::start(Behaviour { ttl: 60, ..Behaviour::default() });
    for autopath in [Autopath::Off, Autopath::Pods(host())] {
        let running = running(&upstream, autopath);
        assert_eq!(running.query("www.example.org.default.svc.cluster.local", kind::A).rcode(), Rcode::NX_DOMAIN);
    }
    assert!(upstream.queries().is_empty());
}
