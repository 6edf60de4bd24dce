//! Answers of a zone beyond the table, and how it follows the facts.

use std::sync::Arc;

use portolan_dns::answer::Outcome;
use portolan_dns::wire::{Name, kind};
use portolan_dns::zone::{Pods, Zone, ZoneConfig};

use super::support::{CLUSTER, config, query, query_within, shown, snapshot, zone_with};

#[test]
fn an_alias_leads_out_of_the_cluster() {
    let (outcome, reply) = query(&zone_with(config()), "search-engine.default.svc.cluster.local", kind::A);
    assert_eq!(outcome, Outcome::Alias(Box::new(Name::from_text("google.example").unwrap())));
    assert_eq!(shown(&reply), "NOERROR search-engine.default.svc.cluster.local. CNAME google.example.");
}

#[test]
fn an_alias_of_itself_is_a_failure_and_no_endless_answer() {
    let (outcome, reply) = query(&zone_with(config()), "ring.default.svc.cluster.local", kind::A);
    assert_eq!((outcome, reply.rcode().name()), (Outcome::Done, "SERVFAIL"));
}

#[test]
fn names_of_pods_follow_the_setting() {
    let cases = [
        (Pods::Disabled, "10-244-6-1.shop.pod.cluster.local", "NXDOMAIN"),
        (Pods::Insecure, "10-244-6-1.shop.pod.cluster.local", "NOERROR"),
        (Pods::Insecure, "1-2-3-4.shop.pod.cluster.local", "NOERROR"),
        (Pods::Insecure, "1-2-3-4.missing.pod.cluster.local", "NXDOMAIN"),
        (Pods::Insecure, "1-2-3.shop.pod.cluster.local", "NXDOMAIN"),
        (Pods::Insecure, "x.1-2-3-4.shop.pod.cluster.local", "NXDOMAIN"),
        (Pods::Verified, "10-244-6-1.shop.pod.cluster.local", "NOERROR"),
        (Pods::Verified, "10-244-6-1.default.pod.cluster.local", "NXDOMAIN"),
        (Pods::Verified, "1-2-3-4.shop.pod.cluster.local", "NXDOMAIN"),
    ];
    for (pods, name, status) in cases {
        let (_, reply) = query(&zone_with(ZoneConfig { pods, ..config() }), name, kind::A);
        assert_eq!(reply.rcode().name(), status, "{pods:?} {name}");
        assert_eq!(reply.answers.len(), usize::from(status == "NOERROR"), "{pods:?} {name}");
    }
}

#[test]
fn a_service_without_endpoints_has_no_name_if_so_configured() {
    let zone = zone_with(ZoneConfig { ignore_empty: true, ..config() });
    for (name, status) in [("lonely.shop", "NXDOMAIN"), ("hello-service.default", "NOERROR")] {
        let (_, reply) = query(&zone, &format!("{name}.svc.cluster.local"), kind::A);
        assert_eq!(reply.rcode().name(), status, "{name}");
    }
}

#[test]
fn the_ttl_is_configurable_except_for_the_version() {
    let zone = zone_with(ZoneConfig { ttl: 30, ..config() });
    assert_eq!(query(&zone, "db.shop.svc.cluster.local", kind::A).1.answers[0].ttl, 30);
    assert_eq!(query(&zone, "foo.cluster.local", kind::A).1.authorities[0].ttl, 30);
    assert_eq!(query(&zone, "dns-version.cluster.local", kind::TXT).1.answers[0].ttl, 28_800);
    let zone = zone_with(ZoneConfig { ttl: 3600, ..config() });
    assert_eq!(query(&zone, "foo.cluster.local", kind::A).1.authorities[0].ttl, 300);
}

#[test]
fn endpoints_take_turns() {
    let zone = zone_with(config());
    let first =
        |turn| query_within(&zone, "db.shop.svc.cluster.local", kind::A, 65_535, turn).1.answers[0].data.clone();
    assert_eq!([first(0)[3], first(1)[3], first(2)[3], first(3)[3]], [1, 2, 3, 1]);
}

#[test]
fn an_answer_that_does_not_fit_is_truncated_and_flagged() {
    let mut text = "kind: Service\nmetadata: {name: many}\nspec: {clusterIP: None, ports: [{name: p, port: 1}]}\n---\n\
        kind: EndpointSlice\nmetadata: {name: many-1, labels: {kubernetes.io/service-name: many}}\n\
        addressType: IPv4\nports: [{name: p, port: 1}]\nendpoints:\n"
        .to_owned();
    (0..200).for_each(|number| text += &format!("- addresses: [10.1.0.{number}]\n"));
    let zone = Zone::new(Arc::new(config())).follow(&snapshot(&text), 1);
    let (_, reply) = query_within(&zone, "many.default.svc.cluster.local", kind::A, 512, 7);
    assert!(reply.is_truncated() && reply.answers.len() > 20, "{}", reply.answers.len());
    let (_, reply) = query(&zone, "many.default.svc.cluster.local", kind::A);
    assert!(!reply.is_truncated());
    assert_eq!(reply.answers.len(), 200);
    // Additional records may be missing without the TC flag.
    let (_, reply) = query_within(&zone, "10-1-0-7.many.default.svc.cluster.local", kind::SRV, 120, 0);
    assert_eq!((reply.is_truncated(), reply.answers.len(), reply.additional.len()), (false, 1, 0));
    let (_, reply) = query(&zone, "many.default.svc.cluster.local", kind::SRV);
    assert_eq!((reply.answers.len(), reply.answers[0].data[3], reply.additional.len()), (200, 1, 200));
}

/// After any history, the zone is that of the facts.
#[test]
fn following_changes_ends_where_a_fresh_start_does() {
    let documents: Vec<&str> = CLUSTER.split("---\n").collect();
    let config = Arc::new(ZoneConfig { pods: Pods::Verified, ..config() });
    let mut zone = Zone::new(config.clone());
    let mut dice = 1u64;
    for step in 0..60 {
        let mut kept = Vec::new();
        for document in &documents {
            dice = dice.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            if dice >> 62 != 0 {
                kept.push(document.replace("10.244.3.1", &format!("10.244.3.{}", 100 + (dice >> 40) % 3)));
            }
        }
        let facts = snapshot(&kept.join("---\n"));
        zone = zone.follow(&facts, step);
        let fresh = Zone::new(config.clone()).follow(&facts, zone.serial);
        assert_same(&zone, &fresh);
    }
}

fn assert_same(zone: &Zone, fresh: &Zone) {
    let names = ["db.shop", "hello-service.default", "both.shop", "gossip.shop", "inside.default", "foreign.default"];
    for name in names {
        for kind in [kind::A, kind::AAAA, kind::SRV] {
            let name = format!("{name}.svc.cluster.local");
            assert_eq!(query(zone, &name, kind), query(fresh, &name, kind), "{name}");
        }
    }
    for address in ["1.3.244.10", "100.3.244.10", "101.3.244.10", "2.1.244.10", "10.0.96.10", "20.0.96.10"] {
        let name = format!("{address}.in-addr.arpa");
        assert_eq!(query(zone, &name, kind::PTR), query(fresh, &name, kind::PTR), "{name}");
    }
}

#[test]
fn the_serial_moves_with_changes_only() {
    let zone = zone_with(config());
    assert_eq!(zone.follow(zone.facts(), 9).serial, 1);
    assert_eq!(zone.follow(&snapshot(""), 9).serial, 9);
}

/// An answer costs as much as fits into it, however many endpoints there are.
#[test]
fn queries_for_a_service_with_thousands_of_endpoints_are_cheap() {
    let mut manifests = "kind: Service\nmetadata: {name: big}\nspec: {clusterIP: None, selector: {}, ports: [{name: a, port: 80}, {name: b, port: 81}]}\n".to_owned();
    for slice in 0..50 {
        let endpoint = |number: usize| format!("{{addresses: [10.{}.{}.{number}]}}", 1 + slice / 10, slice % 10);
        let endpoints: Vec<String> = (1..=100).map(endpoint).collect();
        manifests += &format!(
            "---\nkind: EndpointSlice\nmetadata: {{name: big-{slice}, labels: {{kubernetes.io/service-name: big}}}}\n\
             addressType: IPv4\nports: [{{name: a, port: 80}}, {{name: b, port: 81}}]\nendpoints: [{}]\n",
            endpoints.join(", ")
        );
    }
    let zone = Zone::new(Arc::new(config())).follow(&snapshot(&manifests), 1);
    let (_, reply) = query(&zone, "big.default.svc.cluster.local", kind::SRV);
    assert!(reply.answers.len() > 500 && reply.is_truncated(), "{} answers", reply.answers.len());
    let start = std::time::Instant::now();
    for turn in 0..500 {
        for (name, kind) in [
            ("big.default.svc.cluster.local", kind::SRV),
            ("_b._tcp.big.default.svc.cluster.local", kind::SRV),
            ("_b._tcp.big.default.svc.cluster.local", kind::A),
            ("10-1-2-3.big.default.svc.cluster.local", kind::A),
            ("10-9-9-9.big.default.svc.cluster.local", kind::SRV),
        ] {
            query_within(&zone, name, kind, 1232, turn);
        }
    }
    let each = start.elapsed() / 2500;
    println!("{each:?} for each query");
    assert!(each < std::time::Duration::from_millis(2), "{each:?} for each query");
}
