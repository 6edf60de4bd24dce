//! Lenient about names, strict about types, and every mistake told with its place and what to write.

use portolan_config::{Errors, Given, Level, Read, Span, from_file, from_flags};

const HEADER: &str = "apiVersion: kubeproxy.config.k8s.io/v1alpha1\nkind: KubeProxyConfiguration\n";

fn read_with(text: &str, flags: &[(&str, &str)]) -> Result<Read, Errors> {
    from_file("f.conf", &format!("{HEADER}{text}"), &Given::new(flags).expect("the flags are good"))
}

fn read(text: &str) -> Read {
    read_with(text, &[]).unwrap_or_else(|mistakes| panic!("{text}: {mistakes}"))
}

fn mistakes(text: &str) -> Vec<String> {
    read_with(text, &[]).expect_err(text).0
}

fn words(read: &Read) -> Vec<&str> {
    read.notices.iter().map(|notice| notice.text.as_str()).collect()
}

#[test]
fn unknown_and_repeated_fields_are_told_and_passed_over() {
    let read = read("bogus: {a: 1}\nmode: iptables\nmode: ipvs\nconntrack: {maxx: 1, min: 5}\nMode: x\n");
    assert_eq!(
        words(&read),
        [
            "f.conf:3: bogus: unknown field, ignored",
            "f.conf:5: mode: duplicate field; this one overrides line 4",
            "f.conf:6: conntrack.maxx: unknown field, ignored",
            "f.conf:7: Mode: unknown field, ignored; did you mean mode?",
        ]
    );
    assert!(read.notices.iter().all(|notice| notice.level == Level::Warning));
    assert_eq!((read.document.text("mode"), read.document.integer("conntrack.min")), ("ipvs", 5));
}

#[test]
fn of_a_section_that_is_there_twice_only_the_second_counts() {
    let read = read("conntrack: {min: 5}\nconntrack: {maxPerCore: 6}\n");
    let both = ["conntrack.min", "conntrack.maxPerCore"].map(|path| read.document.integer(path));
    assert_eq!(both, [131_072, 6]);
}

#[test]
fn wrong_types_are_told_all_at_once() {
    let text = "mode: 5\noomScoreAdj: \"5\"\nconfigSyncPeriod: 5\nbindAddressHardFail: 1\nnodePortAddresses: a\n\
        conntrack: [1]\nfeatureGates: {A: 1}\nlogging: {vmodule: [a]}\niptables: {syncPeriod: 5x}\n\
        clientConnection: {burst: 99999999999}\n";
    let expected = [
        "f.conf:3: mode: expected a string, found a number",
        "f.conf:4: oomScoreAdj: expected an integer, found a string",
        "f.conf:5: configSyncPeriod: expected a duration such as 30s, found a number",
        "f.conf:6: bindAddressHardFail: expected true or false, found a number",
        "f.conf:7: nodePortAddresses: expected a list, found a string",
        "f.conf:8: conntrack: expected a mapping, found a list",
        "f.conf:9: featureGates: A is a number: write true or false",
        "f.conf:10: logging.vmodule: each item is a mapping: write {filePattern: daemon, verbosity: 4}",
        "f.conf:11: iptables.syncPeriod: \"5x\" is not a duration: write for example 30s, 500ms or 1m30s",
        "f.conf:12: clientConnection.burst: 99999999999 is too large: at most 2147483647",
    ];
    assert_eq!(mistakes(text), expected);
}

#[test]
fn another_kind_of_file_is_refused() {
    let refused = |text: &str| from_file("f", text, &Given::default()).expect_err(text).to_string();
    assert_eq!(
        refused("kind: Service\napiVersion: v1\n"),
        "2 errors in the configuration:\n  \
         f:2: apiVersion: \"v1\" is not supported: write kubeproxy.config.k8s.io/v1alpha1\n  \
         f:1: kind: \"Service\" is not supported: write KubeProxyConfiguration"
    );
    assert!(refused("mode: x\n").contains("f:1: kind: it is missing"));
    assert!(refused("").contains("found nothing"));
    assert!(refused("- a\n").contains("found a list"));
    assert!(refused("a: [\n").starts_with("f:"));
}

#[test]
fn values_that_make_no_sense_are_told_all_at_once() {
    let text = "bindAddress: foo\nhealthzBindAddress: 1.2.3.4:0\nmetricsBindAddress: x:1\n\
        iptables: {masqueradeBit: 40, syncPeriod: 1s, minSyncPeriod: 2s}\ndetectLocalMode: Foo\n\
        nodePortAddresses: [primary, primary, x, 010.0.0.0/8]\nconntrack: {maxPerCore: -1, tcpCloseWaitTimeout: -1s}\n\
        clientConnection: {burst: -5, qps: -2}\nhostnameOverride: \" \"\nconfigSyncPeriod: -1s\noomScoreAdj: 5000\n\
        showHiddenMetricsForVersion: \"0.1\"\nmode: bogus\nlogging: {format: xml}\n";
    let found = mistakes(text);
    let expected = [
        (15, "mode: \"bogus\" is not a mode: must be nftables, iptables, ipvs, ebpf, userspace or blank"),
        (6, "iptables.masqueradeBit: 40 is out of range: write a number from 0 to 31"),
        (13, "oomScoreAdj: 5000 is out of range: write a number from -1000 to 1000"),
        (9, "conntrack.maxPerCore: -1 is out of range"),
        (10, "clientConnection.burst: -5 is out of range"),
        (9, "conntrack.tcpCloseWaitTimeout: -1s is negative: write 0s or more"),
        (6, "iptables.minSyncPeriod: 2s is longer than iptables.syncPeriod, which is 1s"),
        (12, "configSyncPeriod: -1s is too short"),
        (3, "bindAddress: \"foo\" is not an address"),
        (4, "healthzBindAddress: \"1.2.3.4:0\" has port 0"),
        (5, "metricsBindAddress: \"x:1\" is not an address with a port"),
        (7, "detectLocalMode: \"Foo\" is not a mode of pod detection: write one of ClusterCIDR, NodeCIDR"),
        (8, "nodePortAddresses: \"primary\" is listed twice"),
        (8, "nodePortAddresses: \"x\" is not a range"),
        (11, "hostnameOverride: it is blank"),
        (14, "showHiddenMetricsForVersion: \"0.1\" is not the previous version: leave it out or write 1.36"),
        (16, "logging.format: \"xml\" is not a log format: write text or json"),
    ];
    assert_eq!(found.len(), expected.len(), "{found:#?}");
    for (found, (line, start)) in found.iter().zip(expected) {
        assert!(found.starts_with(&format!("f.conf:{line}: {start}")), "{found}");
    }
}

#[test]
fn what_the_mode_does_not_use_is_not_checked() {
    read("nftables: {masqueradeBit: 99, minSyncPeriod: 9h}\nipvs: {excludeCIDRs: [a]}\n");
    read("detectLocalMode: NodeCIDR\nclusterCIDR: x\n");
    assert_eq!(mistakes("mode: nftables\nnftables: {masqueradeBit: 99}\n").len(), 1);
    assert_eq!(mistakes("mode: ipvs\nipvs: {excludeCIDRs: [a], udpTimeout: -1s}\n").len(), 2);
    assert_eq!(mistakes("mode: ipvs\nfeatureGates: {KubeProxyIPVS: false}\n").len(), 1);
}

#[test]
fn pods_are_told_by_what_their_mode_needs() {
    for text in ["10.0.0.0/8,10.1.0.0/16", "10.0.0.0/8,", "x", "10.0.0.0/8,fd00::/64,fd01::/64"] {
        assert_eq!(mistakes(&format!("clusterCIDR: \"{text}\"\n")).len(), 1, "{text}");
    }
    read("clusterCIDR: \"010.0.0.1/8, fd00::/64\"\n");
    for mode in ["BridgeInterface", "InterfaceNamePrefix"] {
        assert_eq!(mistakes(&format!("detectLocalMode: {mode}\n")).len(), 1, "{mode}");
    }
    assert_eq!(mistakes("detectLocalMode: BridgeInterface\ndetectLocal: {bridgeInterface: \"a b\"}\n").len(), 1);
}

#[test]
fn flags_beside_a_file_are_ignored_but_for_a_few() {
    let flags = [
        ("masquerade-all", "true"),
        ("metrics-port", "1"),
        ("proxy-mode", "bogus"),
        ("hostname-override", " Node-7 "),
        ("v", "4"),
        ("vmodule", "b=3"),
        ("logging-format", "json"),
        ("cleanup-iptables", "true"),
        ("master", "https://192.0.2.1"),
    ];
    let read =
        read_with("hostnameOverride: other\nlogging: {vmodule: [{filePattern: a, verbosity: 2}]}\n", &flags).unwrap();
    let notices = [
        "ignored because --config is set: --masquerade-all, --metrics-port, --proxy-mode",
        "--cleanup-iptables has no effect: removed: use --cleanup",
    ];
    assert_eq!(words(&read), notices);
    assert!(!read.document.boolean("iptables.masqueradeAll"));
    assert_eq!(read.document.text("hostnameOverride"), "node-7");
    assert_eq!((read.document.integer("logging.verbosity"), read.document.text("logging.format")), (4, "json"));
    assert_eq!(read.document.patterns(), [("b".to_owned(), 3), ("a".to_owned(), 2)]);
}

#[test]
fn defaults_differ_between_flags_and_file_in_one_place() {
    let by_flags = from_flags(&Given::default()).unwrap().document;
    let by_file = read("").document;
    assert_eq!(by_flags.span("ipvs.minSyncPeriod"), Span(1_000_000_000));
    assert_eq!(by_file.span("ipvs.minSyncPeriod"), Span(0));
}

#[test]
fn old_flags_for_ports_count_where_no_port_was_given() {
    let sockets = |flags: &[(&str, &str)]| {
        let read = from_flags(&Given::new(flags).unwrap()).unwrap();
        (read.serves_health.then(|| read.document.text("healthzBindAddress").to_owned()), read.serves_metrics)
    };
    let shown = |text: &str| (Some(text.to_owned()), true);
    assert_eq!(sockets(&[("healthz-port", "1")]), shown("0.0.0.0:1"));
    assert_eq!(sockets(&[("healthz-port", "1"), ("healthz-bind-address", "192.0.2.1")]), shown("192.0.2.1:1"));
    assert_eq!(sockets(&[("healthz-port", "1"), ("healthz-bind-address", "192.0.2.1:2")]), shown("192.0.2.1:2"));
    assert_eq!(sockets(&[("healthz-port", "0"), ("metrics-port", "0")]), (None, false));
    assert_eq!(sockets(&[("bind-address", "fd00::1")]), shown("[::]:10256"));
    assert_eq!(sockets(&[("healthz-bind-address", "")]), shown("0.0.0.0:10256"));
}

#[test]
fn gates_that_change_nothing_are_told() {
    let read =
        read("featureGates: {Bogus: true, NFTablesNetlink: false, WatchListClient: true, KubeProxyIPVS: false}\n");
    assert_eq!(
        words(&read),
        [
            "feature gate Bogus is unknown and has no effect",
            "feature gate NFTablesNetlink=false has no effect: netlink is always used",
        ]
    );
}

#[test]
fn node_ports_on_one_family_of_two_are_told() {
    let told = |node_ports: &str| {
        let text = format!("clusterCIDR: 10.0.0.0/8,fd00::/64\nnodePortAddresses: [{node_ports}]\n");
        read(&text).notices.iter().map(|notice| notice.text.clone()).collect::<Vec<_>>()
    };
    let expected = "f.conf:4: nodePortAddresses: node ports are served on IPv4 only, though pods are on IPv6 too";
    assert_eq!(told("192.0.2.0/24"), [expected]);
    for both in ["\"192.0.2.0/24\", \"fd01::/64\"", "primary", "\"192.0.2.0/24\", localhost"] {
        assert!(told(both).is_empty(), "{both}");
    }
}

#[test]
fn json_is_read_too_and_of_several_documents_the_first() {
    let json = "{\n\t\"apiVersion\": \"kubeproxy.config.k8s.io/v1alpha1\",\n\t\"kind\": \"KubeProxyConfiguration\",\n\t\
        \"oomScoreAdj\": 7\n}\n";
    assert_eq!(from_file("f", json, &Given::default()).unwrap().document.integer("oomScoreAdj"), 7);
    let several = format!("# why\n---\n{HEADER}oomScoreAdj: 1.0\nbogus: 1\n---\n{HEADER}oomScoreAdj: 2\n");
    let read = from_file("f", &several, &Given::default()).unwrap();
    assert_eq!(read.document.integer("oomScoreAdj"), 1);
    assert_eq!(words(&read), ["f:6: bogus: unknown field, ignored"]);
}

#[test]
fn balancing_is_read_and_what_is_malformed_is_an_error() {
    let read = read("balancing: {algorithm: maglev, maglevTableSize: 251, slowStart: 30s, quarantine: on}\n");
    let shown = format!("{:?}", read.document.balancing());
    assert!(words(&read).is_empty() && shown.contains("Some(Maglev)") && shown.contains("Some(30s)"), "{shown}");
    let mistakes = mistakes("balancing: {algorithm: fastest, maglevTableSize: 250, slowStart: soon}\n");
    let fields = ["balancing.algorithm", "balancing.maglevTableSize", "balancing.slowStart"];
    assert_eq!(mistakes.len(), 3, "{mistakes:?}");
    assert!(fields.iter().all(|field| mistakes.iter().any(|it| it.contains(field))), "{mistakes:?}");
}
