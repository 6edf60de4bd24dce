//! Corefiles: what is supported, what is logged, and what is an error.

use portolan_config::{AclDocument, AclRuleDocument, CacheDocument, DnsDocument, Level, from_corefile};
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
        reverse_zones: vec!["in-addr.arpa".into(), "ip6.arpa".into()],
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
    let text = format!("{text}cluster.local {{\n kubernetes\n}}\n");
    let (_, notices) = from_corefile("Corefile", &text).expect("it is valid");
    notices.into_iter().filter(|notice| notice.level == Level::Warning).map(|notice| notice.text).collect()
}

#[test]
fn lines_without_effect_are_logged_with_their_number() {
    for (text, line) in [
        (
            ".:53 {\n  rewrite name a b\n}\n",
            "Corefile:2: rewrite name a b: this plugin is not supported and has no effect",
        ),
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
fn a_syntax_error_is_reported_with_its_line() {
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
    let text = "corp.example:1053 10.in-addr.arpa:1053 {\n  bind 169.254.20.10\n  forward . 10.0.0.1 10.0.0.2\n  cache\n}\n\
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

/// To ignore such a line would serve what the operator withholds.
#[test]
fn what_restricts_and_is_not_supported_is_an_error() {
    for (text, mistake) in [
        (".:53 {\n kubernetes cluster.local {\n  labels app=web\n }\n}\n", "Corefile:3: labels app=web: this option"),
        (".:53 {\n kubernetes cluster.local {\n  noendpoints\n }\n}\n", "Corefile:3: noendpoints: this option"),
        (".:53 {\n kubernetes cluster.local\n view internal {\n }\n}\n", "Corefile:3: view internal: this plugin"),
        (".:53 {\n kubernetes cluster.local\n acl {\n  refuse net 10.0.0.0/8\n }\n}\n", "Corefile:4: refuse net"),
        (".:53 {\n kubernetes cluster.local\n acl {\n  block 10.0.0.0/8\n }\n}\n", "Corefile:4: block 10.0.0.0/8"),
        (".:53 {\n kubernetes\n}\n", "Corefile:2: kubernetes: write the domain of the cluster"),
        (".:53 {\n forward . 1.1.1.1\n}\n", "Corefile:1: .:53: no server block has the kubernetes plugin"),
        ("corp.local {\n kubernetes cluster.local\n}\n", "Corefile:2: kubernetes cluster.local: a zone of the plugin"),
        (
            ".:53 {\n kubernetes cluster.local\n}\na.example:54 {\n forward . 1.1.1.1\n}\n",
            "Corefile:4: a.example:54: all server",
        ),
        (".:53 {\n kubernetes cluster.local\n bind 127.0.0.1\n}\na.example {\n forward . 1.1.1.1\n}\n", "same bind"),
        ("tls://.:853 {\n kubernetes cluster.local\n}\n", "Corefile:1: tls://.:853: only plain DNS"),
        ("(snip) {\n log\n}\n.:53 {\n kubernetes cluster.local\n}\n", "Corefile:1: (snip): snippets and import"),
        (
            ".:53 {\n kubernetes cluster.local\n hosts {\n  192.0.2.1 a\n }\n}\n",
            "Corefile:3: hosts: only hosts with fallthrough",
        ),
        (
            ".:53 {\n kubernetes cluster.local\n forward . 1.1.1.1 {\n max_concurrent many\n }\n}\n",
            "Corefile:4: max_concurrent many",
        ),
    ] {
        let errors = from_corefile("Corefile", text).expect_err(text);
        assert!(errors.contains(mistake), "{mistake} is not in {errors}");
    }
}

#[test]
fn zones_and_ports_come_from_the_keys_of_a_block() {
    let (document, _) = from_corefile("Corefile", "corp.local:5301 {\n kubernetes\n}\n").unwrap();
    assert_eq!(
        (&document.listen[..], &document.cluster_domains[..]),
        (&[":5301".into()][..], &["corp.local".into()][..])
    );
    assert_eq!((document.reverse, document.upstreams), (Some(false), Some(vec![])));
    assert_eq!(document.stub_domains["corp.local"], Vec::<String>::new());
    let (document, _) = from_corefile("Corefile", ".:53 {\n kubernetes cluster.local\n}\n").unwrap();
    assert_eq!(document.upstreams, Some(vec![]), "no forward, no upstream");
    let text = ".:53 {\n kubernetes cluster.local\n forward . 1.1.1.1 {\n except secret.example\n }\n}\n";
    let (document, _) = from_corefile("Corefile", text).unwrap();
    assert_eq!(document.stub_domains["secret.example"], Vec::<String>::new());
}

#[test]
fn access_control_and_namespaces_are_read() {
    let text = ".:53 {\n acl {\n  allow net 10.0.0.0/8 192.0.2.1\n  filter type AAAA TXT net *\n  block\n }\n\
        kubernetes cluster.local {\n  namespaces prod test\n }\n}\nsub.example {\n forward . 10.0.0.1\n}\n";
    let (document, _) = from_corefile("Corefile", text).unwrap();
    assert_eq!(document.namespaces, ["prod", "test"]);
    let rule = |action: &str, types: &[&str], networks: &[&str]| AclRuleDocument {
        action: action.into(),
        types: types.iter().map(ToString::to_string).collect(),
        networks: networks.iter().map(ToString::to_string).collect(),
    };
    let expected = AclDocument {
        zones: vec![".".into()],
        except: vec!["sub.example".into()],
        rules: vec![
            rule("allow", &[], &["10.0.0.0/8", "192.0.2.1"]),
            rule("filter", &["AAAA", "TXT"], &[]),
            rule("block", &[], &[]),
        ],
    };
    assert_eq!(document.acl, [expected]);
}

proptest! {
    #[test]
    fn no_text_does_harm(text in "([a-z.:{}\"# \n0-9@/]{0,8}|kubernetes|forward|cache|hosts|health|acl|allow|net |import|\\{\n|\n\\}\n){0,40}") {
        _ = from_corefile("Corefile", &text);
        _ = DnsDocument::from_yaml("dns.yaml", &text);
    }
}
