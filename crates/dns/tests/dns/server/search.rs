//! Search lists, walked for the client.

use std::net::Ipv4Addr;

use portolan_dns::wire::{Name, Rcode, kind};
use portolan_dns::{Autopath, Config};

use super::support::{Running, addresses, forwarding_to};
use super::upstream::{Manners, Upstream};

fn running(upstream: &Upstream, autopath: Autopath) -> Running {
    Running::start(Config { autopath, ..forwarding_to(&[upstream.address]) })
}

fn host() -> Vec<Name> {
    vec![Name::from_text("corp.example").expect("a name")]
}

/// The client's one question, and how many answers it would have waited for without us.
#[test]
fn an_outside_name_costs_the_client_one_question() {
    let upstream = Upstream::start(Manners { octet: 1, ttl: 60, only_below: Some("org"), ..Manners::default() });
    let running = running(&upstream, Autopath::AnyClient(host()));
    let reply = running.ask("www.example.org.default.svc.cluster.local", kind::A);
    assert_eq!(reply.rcode(), Rcode::NO_ERROR);
    assert_eq!(reply.answers[0].kind, kind::CNAME);
    assert_eq!(Name::from_wire(&reply.answers[0].data).unwrap().to_string(), "www.example.org.");
    assert_eq!(addresses(&reply), [Ipv4Addr::new(192, 0, 2, 1)]);
    assert_eq!(upstream.asked(), ["www.example.org.corp.example.", "www.example.org."]);
}

#[test]
fn a_service_of_another_namespace_is_found_on_the_way() {
    let upstream = Upstream::start(Manners::default());
    let running = running(&upstream, Autopath::AnyClient(host()));
    let reply = running.ask("db.shop.default.svc.cluster.local", kind::A);
    assert_eq!(Name::from_wire(&reply.answers[0].data).unwrap().to_string(), "db.shop.svc.cluster.local.");
    assert_eq!(addresses(&reply).len(), 3);
    let reply = running.ask("search-engine.default.shop.svc.cluster.local", kind::A);
    assert_eq!(reply.answers.iter().filter(|it| it.kind == kind::CNAME).count(), 2);
    assert_eq!(upstream.asked(), ["google.example."]);
}

#[test]
fn what_is_nowhere_is_denied() {
    let upstream = Upstream::start(Manners { only_below: Some("org"), ttl: 60, ..Manners::default() });
    let running = running(&upstream, Autopath::AnyClient(host()));
    assert_eq!(running.ask("nothing.at-all.default.svc.cluster.local", kind::A).rcode(), Rcode::NX_DOMAIN);
    assert_eq!(running.ask("missing.svc.cluster.local", kind::A).rcode(), Rcode::NX_DOMAIN);
}

/// We are no pod of the cluster.
#[test]
fn a_client_that_is_no_pod_walks_its_own_list() {
    let upstream = Upstream::start(Manners { ttl: 60, ..Manners::default() });
    for autopath in [Autopath::Off, Autopath::Pods(host())] {
        let running = running(&upstream, autopath);
        assert_eq!(running.ask("www.example.org.default.svc.cluster.local", kind::A).rcode(), Rcode::NX_DOMAIN);
    }
    assert!(upstream.asked().is_empty());
}
