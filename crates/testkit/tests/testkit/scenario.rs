//! The scenario reader: what it accepts, what it refuses and in which words.

use std::net::SocketAddr;

use portolan_testkit::{Expected, OpenFate, Protocol, Scenario};

const GOOD: &str = "\
# cluster-ip
A ClusterIP is reached by pods without masquerade
and by the node with it.
-- flags --
# pods live here
--cluster-cidr 10.244.0.0/16
--hostname-override=node-a
-- objects.yaml --
kind: Service
---
kind: EndpointSlice
-- packets --
# comment

pod-a1       -> 10.96.0.10:80/tcp     forward 10.244.1.2:8080 10.244.2.2:8080
client       -> [fd00:10:96::10]:80/tcp  forward [fd00:10:244:1::2]:8080 masquerade
node-a       -> 10.96.0.10:81/sctp    reject unknown-port
203.0.113.9  -> 198.51.100.10:80/udp  drop no-local-endpoints      # trailing comment
198.18.0.1   -> 10.244.2.2:8080/tcp   pass
-- objects.yaml --
kind: List
-- packets --
pod-b1 -> 10.96.0.10:80/tcp reject no-endpoints
-- nftables --
table ip portolan {
}
";

fn good() -> Scenario {
    Scenario::parse("cluster-ip", GOOD).expect("the scenario is well formed")
}

fn address(text: &str) -> SocketAddr {
    text.parse().expect("the address is well formed")
}

#[test]
fn sections_become_fields() {
    let scenario = good();
    assert_eq!(scenario.name, "cluster-ip");
    assert_eq!(scenario.title, "cluster-ip");
    assert_eq!(scenario.prose, "A ClusterIP is reached by pods without masquerade\nand by the node with it.");
    assert_eq!(scenario.flags, ["--cluster-cidr", "10.244.0.0/16", "--hostname-override=node-a"]);
    assert_eq!(scenario.steps.len(), 2);
    assert_eq!(scenario.steps[0].objects, "kind: Service\n---\nkind: EndpointSlice\n");
    assert_eq!(scenario.steps[0].objects_line, 9);
    assert_eq!(scenario.steps[1].objects, "kind: List\n");
    assert_eq!(scenario.golden["nftables"], "table ip portolan {\n}\n");
}

#[test]
fn packets_carry_line_source_destination_and_fate() {
    let packets = &good().steps[0].packets;
    let lines: Vec<usize> = packets.iter().map(|packet| packet.line_number).collect();
    assert_eq!(lines, [15, 16, 17, 18, 19]);
    assert_eq!(packets[0].destination, address("10.96.0.10:80"));
    let endpoints = vec![address("10.244.1.2:8080"), address("10.244.2.2:8080")];
    assert_eq!(packets[0].expected, Expected::Forward { endpoints, shares: vec![], masquerade: false });
    let endpoints = vec![address("[fd00:10:244:1::2]:8080")];
    assert_eq!(packets[1].expected, Expected::Forward { endpoints, shares: vec![], masquerade: true });
    assert_eq!(packets[2].expected, Expected::Reject("unknown-port".to_owned()));
    assert_eq!(packets[2].protocol, Protocol::Sctp);
    assert_eq!(packets[3].expected, Expected::Drop("no-local-endpoints".to_owned()));
    assert_eq!(packets[4].expected, Expected::Pass);
}

#[test]
fn a_mode_may_have_a_fate_of_its_own() {
    let text =
        "# t\n-- objects.yaml --\n-- packets --\npod-a1 -> 10.96.0.10:81/tcp pass | ipvs reject unknown-port  # why\n";
    let packet = &Scenario::parse("t", text).unwrap().steps[0].packets[0];
    assert_eq!(packet.in_mode("nftables").expected, Expected::Pass);
    assert_eq!(packet.in_mode("ipvs").expected, Expected::Reject("unknown-port".to_owned()));
}

#[test]
fn sources_know_their_host_family_and_interface() {
    let described: Vec<(String, Option<String>)> = good().steps[0]
        .packets
        .iter()
        .map(|packet| (packet.source.to_string(), packet.source.interface.clone()))
        .collect();
    let interface = |name: &str| Some(name.to_owned());
    assert_eq!(described[0], ("pod-a1 (10.244.1.2)".to_owned(), interface("veth-a1")));
    assert_eq!(described[1], ("client (2001:db8:113::9)".to_owned(), interface("eth2")));
    assert_eq!(described[2], ("node-a (192.168.50.1)".to_owned(), None));
    assert_eq!(described[3], ("client (203.0.113.9)".to_owned(), interface("eth2")));
    assert_eq!(described[4], ("198.18.0.1".to_owned(), interface("eth2")));
}

#[test]
fn bad_packets_are_refused_with_line_and_reason() {
    let cases = [
        ("pod-a1 10.96.0.10:80/tcp pass", "expected `SOURCE -> ADDRESS:PORT/PROTOCOL FATE`"),
        (
            "pod-a9 -> 10.96.0.10:80/tcp pass",
            "`pod-a9` is not a source; allowed are an IP address or one of node-a, pod-a1",
        ),
        ("pod-a1 -> 10.96.0.10:80 pass", "`10.96.0.10:80` is not a destination"),
        ("pod-a1 -> 10.96.0.10:80/icmp pass", "`10.96.0.10:80/icmp` is not a destination"),
        ("pod-a1 -> 10.96.0.10/tcp pass", "`10.96.0.10/tcp` is not a destination"),
        ("pod-a1 -> 10.96.0.10:80/tcp", "`` is not a fate"),
        (
            "pod-a1 -> 10.96.0.10:80/tcp vanish",
            "`vanish` is not a fate; allowed are `forward ENDPOINT... [masquerade]`",
        ),
        ("pod-a1 -> 10.96.0.10:80/tcp pass through", "`pass through` is not a fate"),
        ("pod-a1 -> 10.96.0.10:80/tcp reject", "`reject` takes one reason"),
        ("pod-a1 -> 10.96.0.10:80/tcp drop two reasons", "`drop` takes one reason"),
        ("pod-a1 -> 10.96.0.10:80/tcp forward", "`forward` needs at least one endpoint"),
        ("pod-a1 -> 10.96.0.10:80/tcp forward masquerade", "`forward` needs at least one endpoint"),
        ("pod-a1 -> 10.96.0.10:80/tcp forward pod-a2", "`pod-a2` is not an endpoint"),
        ("pod-a1 -> 10.96.0.10:80/tcp forward masquerade 10.244.1.2:80", "`masquerade` is not an endpoint"),
        ("pod-a1 -> 10.96.0.10:80/tcp forward [fd00::1]:80", "different address families"),
        ("fd00::1 -> 10.96.0.10:80/tcp pass", "different address families"),
        ("pod-a1 -> 10.96.0.10:80/tcp pass | pass", "after a bar, write one of nftables, iptables, ipvs"),
        ("pod-a1 -> 10.96.0.10:80/tcp pass | ipvs vanish", "`vanish` is not a fate"),
    ];
    for (packet, reason) in cases {
        let text = format!("# t\n-- objects.yaml --\n-- packets --\n{packet}\n");
        expect_refusal(&text, 4, reason);
    }
}

#[test]
fn connections_that_stay_open_belong_to_their_step() {
    let open =
        |line: &str| format!("# t\n-- objects.yaml --\n-- packets --\n-- connections --\n{line}\n-- objects.yaml --\n");
    let scenario = Scenario::parse("t", &open("pod-a3 -> 10.96.0.80:80  10.244.1.2:8080 reset 2  # comment")).unwrap();
    let [line] = &scenario.steps[0].open[..] else { panic!("one line") };
    assert_eq!((line.line_number, line.fate, line.count), (5, OpenFate::Reset, 2));
    assert_eq!((line.frontend, line.endpoint), (address("10.96.0.80:80"), address("10.244.1.2:8080")));
    assert!(scenario.steps[1].open.is_empty());
    for bad in ["pod-a3 -> 10.96.0.80:80 10.244.1.2:8080 lost 1", "pod-a3 -> 10.96.0.80:80 reset 1"] {
        expect_refusal(&open(bad), 5, "is not `SOURCE -> FRONTEND ENDPOINT opened|reset|kept COUNT`");
    }
}

#[test]
fn bad_sections_are_refused_with_line_and_reason() {
    let cases = [
        ("", 1, "a scenario begins with its title"),
        ("no title\n-- objects.yaml --\n", 1, "a scenario begins with its title"),
        ("# t\nprose\n", 2, "no `-- objects.yaml --` section"),
        ("# t\n-- packets --\n", 2, "`packets` comes once, right after"),
        ("# t\n-- objects.yaml --\n-- flags --\n", 3, "`flags` is the first section"),
        ("# t\n-- flags --\n-- flags --\n", 3, "`flags` is the first section"),
        ("# t\n-- objects.yaml --\n-- packets --\n-- packets --\n", 4, "`packets` comes once, right after"),
        (
            "# t\n-- objects.yaml --\n-- packet --\n",
            3,
            "`packet` is not a section; allowed are flags, objects.yaml, packets, connections, nftables",
        ),
        ("# t\n-- objects.yaml --\n-- ipvs --\n-- ipvs --\n", 4, "a second `ipvs` section"),
        ("# t\n-- objects.yaml --\n-- ipvs --\n-- packets --\n", 4, "`packets` comes once, right after"),
        ("# t\n-- connections --\n", 2, "`connections` comes once, at the end of a step"),
        ("# t\n-- objects.yaml --\n-- connections --\n-- connections --\n", 4, "`connections` comes once, at the end"),
        ("# t\n-- objects.yaml --\n-- connections --\n-- packets --\n", 4, "`packets` comes once, right after"),
    ];
    for (text, line, reason) in cases {
        expect_refusal(text, line, reason);
    }
}

fn expect_refusal(text: &str, line: usize, reason: &str) {
    let message = Scenario::parse("bad.txt", text).expect_err("the text is bad").to_string();
    assert!(message.starts_with(&format!("bad.txt:{line}: ")), "{message}\nin {text}");
    assert!(message.contains(reason), "{message}\ndoes not say: {reason}");
}

#[test]
fn golden_text_is_replaced_byte_for_byte() {
    let replaced = good().with_golden("nftables", "new\n");
    assert_eq!(replaced, GOOD.replace("table ip portolan {\n}\n", "new\n"));
    let restored = Scenario::parse("again", &replaced).unwrap().with_golden("nftables", "table ip portolan {\n}");
    assert_eq!(restored, GOOD);
}

#[test]
fn golden_text_is_replaced_between_other_sections() {
    let text = "# t\n\n-- objects.yaml --\na: b\n--  iptables -- \nold\n\n-- nftables --\nkept";
    let replaced = Scenario::parse("t", text).unwrap().with_golden("iptables", "new\n");
    assert_eq!(replaced, "# t\n\n-- objects.yaml --\na: b\n--  iptables -- \nnew\n-- nftables --\nkept");
}

#[test]
fn golden_text_is_appended_when_missing() {
    assert_eq!(good().with_golden("ipvs", "x\n"), format!("{GOOD}-- ipvs --\nx\n"));
    let text = "# t\n-- objects.yaml --\na: b";
    let appended = Scenario::parse("t", text).unwrap().with_golden("nftables", "x");
    assert_eq!(appended, "# t\n-- objects.yaml --\na: b\n-- nftables --\nx\n");
    let bare = Scenario::parse("t", &format!("{text}\n-- ipvs --")).unwrap();
    assert_eq!(bare.with_golden("ipvs", "x"), "# t\n-- objects.yaml --\na: b\n-- ipvs --\nx\n");
}

#[test]
fn all_reads_the_folder_in_order() {
    let folder = tempfile::tempdir().unwrap();
    for name in ["b.txt", "a.txt", "README.md"] {
        std::fs::write(folder.path().join(name), GOOD).unwrap();
    }
    let names: Vec<String> = Scenario::all(folder.path()).unwrap().into_iter().map(|scenario| scenario.name).collect();
    assert_eq!(names, ["a", "b"]);
    let missing = Scenario::load(folder.path().join("none.txt")).expect_err("x").to_string();
    assert!(missing.starts_with("cannot read ") && missing.contains("none.txt"), "{missing}");
}
