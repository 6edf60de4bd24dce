//! Corefiles: what is understood, what is told, and that nothing in one does harm.

use portolan_config::{CacheDocument, DnsDocument, Level, from_corefile};
use proptest::prelude::*;

/// As kubeadm writes it.
const KUBEADM: &str = ".:53 {
    errors
    health {
       lameduck 5s
    }
    ready
    kubernetes cluster.local in-addr.arpa ip6.arpa {
       pods insecure
       fallthrough in-addr.arpa ip6.arpa
       ttl 30
    }
    prometheus :9153
    forward . /etc/resolv.conf {
       max_concurrent 1000
    }
    cache 30 {
       disable success cluster.local
       disable denial cluster.local
    }
    loop
    reload
    loadbalance
}
";

#[test]
fn the_file_of_kubeadm_means_what_it_says() {
    let (document, notices) = from_corefile("Corefile", KUBEADM).unwrap();
    let expected = DnsDocument {
        listen: vec![":53".into()],
        cluster_domains: vec!["cluster.local".into()],
        ttl: Some(30),
        pods: Some("insecure".into()),
        reverse: Some(true),
        pass_unknown_addresses: Some(true),
        upstreams: Some(vec!["/etc/resolv.conf".into()]),
        max_concurrent: Some(1000),
        cache: CacheDocument { max_ttl: Some(30), max_negative_ttl: Some(30), ..CacheDocument::default() },
        lameduck: Some(5),
        health: Some(":8080".into()),
        ready: Some(":8181".into()),
        metrics: Some(":9153".into()),
        ..DnsDocument::default()
    };
    assert_eq!(document, expected);
    assert!(notices.iter().all(|notice| notice.level == Level::Info), "{notices:?}");
}

#[test]
fn the_capacities_of_the_cache_are_kept_apart() {
    let text = ".:53 {\n kubernetes cluster.local\n cache 30 {\n success 5000 600\n denial 2500 10\n }\n}\n";
    let (document, _) = from_corefile("Corefile", text).unwrap();
    let expected = CacheDocument {
        entries: Some(5000),
        negative_entries: Some(2500),
        max_ttl: Some(600),
        max_negative_ttl: Some(10),
        ..CacheDocument::default()
    };
    assert_eq!(document.cache, expected);
}

fn warnings(text: &str) -> Vec<String> {
    let (_, notices) = from_corefile("Corefile", text).expect("it makes sense");
    notices.into_iter().filter(|notice| notice.level == Level::Warning).map(|notice| notice.text).collect()
}

#[test]
fn what_has_no_effect_is_told_with_its_line() {
    for (text, line) in [
        (
            ".:53 {\n  rewrite name a b\n}\n",
            "Corefile:2: rewrite name a b: this plugin is not supported and has no effect",
        ),
        (".:53 {\n  kubernetes {\n    multicluster x\n  }\n}\n", "Corefile:3: multicluster x: this option"),
        (".:53 {\n  forward . tls://9.9.9.9\n}\n", "Corefile:2: forward . tls://9.9.9.9: only plain DNS upstreams"),
        ("example.org {\n  file db\n}\n", "Corefile:1: example.org: a block without kubernetes and without forward"),
        (
            ".:53 {\n  autopath /etc/resolv.conf\n}\n",
            "Corefile:2: autopath /etc/resolv.conf: only autopath @kubernetes",
        ),
    ] {
        let warnings = warnings(text);
        assert!(warnings.iter().any(|it| it.contains(line)), "{line} is not in {warnings:?}");
    }
}

#[test]
fn a_file_that_makes_no_sense_is_an_error_with_its_line() {
    for (text, mistake) in [
        (".:53 {\n  errors\n", "Corefile:1: the brace after \".:53\" is never closed"),
        ("}\n", "Corefile:1: unexpected closing brace"),
        (".:53 {\n  hosts \"x\n}\n", "Corefile:2: a quote is never closed"),
    ] {
        assert_eq!(from_corefile("Corefile", text).unwrap_err(), mistake);
    }
}

#[test]
fn stub_domains_hosts_and_addresses_are_read() {
    let text = "corp.example:53 10.in-addr.arpa {\n  forward . 10.0.0.1 10.0.0.2\n  cache\n}\n\
        .:1053 {\n  bind 169.254.20.10\n  kubernetes example.internal\n  autopath @kubernetes\n  log\n\
        hosts {\n 192.0.2.1 a.example b.example # why\n ttl 60\n fallthrough\n }\n forward . 1.1.1.1 { \n policy sequential\n force_tcp\n }\n}\n";
    let (document, _) = from_corefile("Corefile", text).unwrap();
    let servers: Vec<&str> = document.stub_domains["corp.example"].iter().map(String::as_str).collect();
    assert_eq!((servers, document.stub_domains.len()), (vec!["10.0.0.1", "10.0.0.2"], 2));
    assert_eq!(document.listen, ["169.254.20.10:1053"]);
    assert_eq!(document.hosts, ["192.0.2.1 a.example b.example"]);
    assert_eq!((document.hosts_ttl, document.autopath.as_deref()), (Some(60), Some("pods")));
    assert_eq!((document.upstream_policy.as_deref(), document.force_tcp), (Some("sequential"), true));
    assert_eq!((document.reverse, document.log_queries), (Some(false), true));
}

proptest! {
    #[test]
    fn no_text_does_harm(text in "([a-z.:{}\"# \n0-9@/]{0,8}|kubernetes|forward|cache|hosts|health|\\{\n|\n\\}\n){0,40}") {
        _ = from_corefile("Corefile", &text);
        _ = DnsDocument::from_yaml("dns.yaml", &text);
    }
}
