//! The lab itself: reachability, silence, translation by hand-written rules, long connections, labs side by side.

use std::collections::BTreeSet;
use std::net::{IpAddr, SocketAddr};
use std::thread;
use std::time::{Duration, Instant};

use portolan_testkit::{Answer, Binding, Expected, Lab, Outcome, PacketLine, Protocol, Scenario, Source, check};

const PATIENT: Duration = Duration::from_secs(5);
const IMPATIENT: Duration = Duration::from_millis(300);

/// Virtual addresses on port 80 lead to endpoints, on port 81 one is rejected, on port 82 dropped, for forwarded and
/// node-a's own packets. What carries the mark is masqueraded.
const RULES: &str = "
table inet byhand {
    chain translate {
        ip daddr 10.96.0.10 meta l4proto { tcp, udp } th dport 80 dnat ip to 10.244.1.2:8080
        ip6 daddr fd00:10:96::10 meta l4proto { tcp, udp } th dport 80 dnat ip6 to [fd00:10:244:2::2]:8080
        ip daddr 10.96.0.11 tcp dport 80 dnat ip to numgen random mod 2 map { 0 : 10.244.1.2, 1 : 10.244.2.2 }
        ip daddr 10.96.0.12 tcp dport 80 meta mark set 1 dnat ip to 10.244.1.3:8080
        ip daddr 192.168.50.1 tcp dport 30080 meta mark set 1 dnat ip to 10.244.1.3:8080
        ip daddr 198.51.100.10 meta l4proto { tcp, udp } th dport 80 meta mark set 1 dnat ip to 10.244.2.2:8080
    }
    chain refuse {
        ip daddr 10.96.0.10 th dport 81 reject
        ip6 daddr fd00:10:96::10 th dport 81 reject
        ip daddr 10.96.0.10 th dport 82 drop
    }
    chain prerouting { type nat hook prerouting priority dstnat; jump translate; }
    chain output { type nat hook output priority -100; jump translate; }
    chain postrouting { type nat hook postrouting priority srcnat; meta mark 1 masquerade; }
    chain forward { type filter hook forward priority filter; jump refuse; }
    chain local { type filter hook output priority filter; jump refuse; }
}
";

fn lab() -> Lab {
    Lab::new().unwrap_or_else(|error| panic!("{error}"))
}

fn lab_with_rules() -> Lab {
    let lab = lab();
    let loaded = lab.host("node-a").command_with_input(&["nft", "-f", "-"], RULES);
    loaded.unwrap_or_else(|error| panic!("{error}"));
    lab
}

fn address(text: &str) -> SocketAddr {
    text.parse().expect("the address is well formed")
}

fn source(name: &str, destination: SocketAddr) -> Source {
    Source::parse(name, destination.ip()).expect("the host exists")
}

/// Sends the packet lines as a scenario would.
fn verify_all(lab: &Lab, packets: &str) {
    let verified = lab.verify_all(&packet_lines(packets));
    verified.unwrap_or_else(|failures| panic!("{failures}"));
}

/// Sends the packet lines one by one, and lists what is not as expected.
fn failures(lab: &Lab, packets: &str) -> Vec<String> {
    packet_lines(packets).iter().filter_map(|packet| lab.verify(packet).err()).collect()
}

fn packet_lines(packets: &str) -> Vec<PacketLine> {
    let text = format!("# packets\n-- objects.yaml --\n-- packets --\n{packets}");
    let mut scenario = Scenario::parse("packets", &text).unwrap_or_else(|error| panic!("{error}"));
    scenario.steps.remove(0).packets
}

#[test]
fn hosts_reach_each_other_under_their_own_addresses() {
    let packets = "\
        pod-a1     -> 10.244.2.2:8080/tcp            pass
        pod-a1     -> 10.244.2.2:8080/udp            pass
        pod-a1     -> [fd00:10:244:2::2]:8080/tcp    pass
        pod-a1     -> [fd00:10:244:2::2]:8080/udp    pass
        pod-a1     -> 10.244.1.4:8080/tcp            pass
        node-a     -> 10.244.1.2:8080/tcp            pass
        node-a     -> [fd00:10:244:1::2]:8080/tcp    pass
        node-a     -> 10.244.2.3:8080/udp            pass
        node-a     -> 192.168.51.2:8080/tcp          pass
        127.0.0.1  -> 127.0.0.1:8080/tcp             pass
        client     -> 10.244.1.3:8080/tcp            pass
        client     -> [fd00:10:244:1::3]:8080/udp    pass
        client     -> 10.244.2.4:8080/tcp            pass
        client     -> 192.168.51.1:8080/tcp          pass
        client     -> [fd00:51::1]:8080/tcp          pass
        192.0.2.77 -> 10.244.2.4:8080/tcp            pass
        2001:db8:2::77 -> [fd00:10:244:1::2]:8080/tcp pass
        node-b     -> 192.168.50.1:8080/tcp          pass
        pod-b3     -> 10.244.1.2:8080/tcp            pass
        pod-b3     -> [fd00:10:244:1::2]:8080/tcp    pass
        pod-b3     -> 203.0.113.9:8080/tcp           pass
    ";
    verify_all(&lab(), packets);
}

#[test]
fn a_virtual_address_without_rules_is_silent() {
    let packets = "\
        pod-a1 -> 10.96.0.10:80/tcp          pass
        pod-b1 -> 10.96.0.10:80/udp          pass
        client -> 198.51.100.10:80/tcp       pass
        client -> [2001:db8:51::10]:80/udp   pass
        node-a -> 10.96.0.10:80/tcp          pass
        node-a -> [fd00:10:96::10]:80/tcp    pass
        node-b -> [fd00:10:96::10]:80/udp    pass
        pod-a1 -> 10.244.1.99:80/tcp         pass
        pod-a1 -> 10.244.2.99:80/tcp         pass
    ";
    verify_all(&lab(), packets);
}

#[test]
fn hand_written_rules_are_seen_by_every_sender() {
    let packets = "\
        pod-a2 -> 10.96.0.10:80/tcp         forward 10.244.1.2:8080
        pod-a2 -> 10.96.0.10:80/udp         forward 10.244.1.2:8080
        node-a -> 10.96.0.10:80/tcp         forward 10.244.1.2:8080
        node-a -> 10.96.0.10:80/udp         forward 10.244.1.2:8080
        client -> 10.96.0.10:80/tcp         forward 10.244.1.2:8080
        client -> 198.51.100.10:80/tcp      forward 10.244.2.2:8080 masquerade
        pod-a2 -> 10.96.0.12:80/tcp         forward 10.244.1.3:8080 masquerade
        pod-b1 -> 10.96.0.12:80/tcp         forward 10.244.1.3:8080 masquerade
        client -> 192.168.50.1:30080/tcp    forward 10.244.1.3:8080 masquerade
        node-a -> 192.168.50.1:30080/tcp    forward 10.244.1.3:8080 masquerade
        node-a -> 198.51.100.10:80/udp      forward 10.244.2.2:8080 masquerade
        pod-a2 -> [fd00:10:96::10]:80/tcp   forward [fd00:10:244:2::2]:8080
        client -> [fd00:10:96::10]:80/udp   forward [fd00:10:244:2::2]:8080
        node-a -> [fd00:10:96::10]:80/tcp   forward [fd00:10:244:2::2]:8080
        pod-a2 -> 10.96.0.10:81/tcp         reject by-hand
        pod-a2 -> 10.96.0.10:81/udp         reject by-hand
        client -> [fd00:10:96::10]:81/tcp   reject by-hand
        client -> [fd00:10:96::10]:81/udp   reject by-hand
        node-a -> 10.96.0.10:81/tcp         reject by-hand
        node-a -> 10.96.0.10:81/udp         reject by-hand
        node-a -> [fd00:10:96::10]:81/udp   reject by-hand
        pod-a2 -> 10.96.0.10:82/tcp         drop by-hand
        node-a -> 10.96.0.10:82/udp         drop by-hand
    ";
    verify_all(&lab_with_rules(), packets);
}

#[test]
fn a_packet_is_sent_until_each_endpoint_has_answered() {
    let lab = lab_with_rules();
    let packets = packet_lines("client -> 10.96.0.11:80/tcp forward 10.244.1.2:80 10.244.2.2:80\n");
    let outcomes = lab.verify(&packets[0]).unwrap();
    for pod in ["pod-a1", "pod-b1"] {
        let answered = |outcome: &Outcome| matches!(outcome, Outcome::Answered { by, .. } if by == pod);
        assert!(outcomes.iter().any(answered), "{pod} is not among {outcomes:?}");
    }
}

#[test]
fn many_refusals_in_a_row_are_all_told() {
    let lab = lab_with_rules();
    let destination = address("10.96.0.10:81");
    let source = source("pod-a1", destination);
    let outcomes: Vec<_> = (0..300).map(|_| lab.probe(&source, destination, Protocol::Udp, PATIENT)).collect();
    check(&Expected::Reject("by-hand".to_owned()), source.address, &outcomes).unwrap();
}

#[test]
fn what_is_not_as_expected_is_said_in_words() {
    let packets = "\
        pod-a2 -> 10.96.0.10:80/tcp    forward 10.244.1.3:8080
        pod-a2 -> 10.96.0.10:80/tcp    forward 10.244.1.2:8080 masquerade
        client -> 198.51.100.10:80/tcp forward 10.244.2.2:8080
        pod-a2 -> 10.96.0.10:80/tcp    reject no-endpoints
        pod-a2 -> 10.96.0.10:81/tcp    drop no-endpoints
        198.18.0.1 -> 10.96.0.10:81/tcp drop no-endpoints
        pod-a2 -> 10.96.0.10:80/tcp    forward 10.9.9.9:80
    ";
    let lab = lab_with_rules();
    lab.serve(address("10.244.1.2:8080"), Protocol::Tcp).unwrap();
    let expected = [
        "line 4: pod-a2 (10.244.1.3) -> 10.96.0.10:80/tcp: \
         expected an answer from 10.244.1.3:8080, but pod-a1 answered as 10.244.1.2:8080",
        "line 5: pod-a2 (10.244.1.3) -> 10.96.0.10:80/tcp: \
         expected the endpoint to see an address of node-a, but it saw 10.244.1.3",
        "line 6: client (203.0.113.9) -> 198.51.100.10:80/tcp: \
         expected the endpoint to see the sender's own address 203.0.113.9, but it saw 192.168.50.1",
        "line 7: pod-a2 (10.244.1.3) -> 10.96.0.10:80/tcp: \
         expected refusal (no-endpoints), but pod-a1 answered as 10.244.1.2:8080",
        "line 8: pod-a2 (10.244.1.3) -> 10.96.0.10:81/tcp: \
         expected silence (no-endpoints), but the connection was refused",
        "line 9: 198.18.0.1 -> 10.96.0.10:81/tcp: expected silence (no-endpoints), \
         but sending failed: no host of the lab owns the source address 198.18.0.1",
        "line 10: pod-a2 (10.244.1.3) -> 10.96.0.10:80/tcp: \
         cannot serve 10.9.9.9:80: no host of the lab owns that address",
    ];
    assert_eq!(failures(&lab, packets), expected);
    assert_eq!(check(&Expected::Pass, address("10.0.0.1:1").ip(), &[]), Err("no packet was sent".to_owned()));
}

#[test]
fn a_probe_can_choose_its_address_and_port() {
    let lab = lab();
    let endpoint = address("10.244.1.2:8080");
    lab.serve(endpoint, Protocol::Tcp).unwrap();
    let second: IpAddr = "192.168.51.1".parse().unwrap();
    let chosen = Binding { address: Some(second), port: Some(40_000) };
    let outcome = lab.probe_from("node-a", chosen, endpoint, Protocol::Tcp, PATIENT);
    assert_eq!(outcome, Outcome::Answered { by: "pod-a1".to_owned(), seen_source: second, endpoint });
    let closed = lab.probe_from("node-a", Binding::default(), address("10.244.1.2:9"), Protocol::Tcp, PATIENT);
    assert_eq!(closed, Outcome::Refused);
}

/// Two flows with one port would be one flow for connection tracking.
#[test]
fn open_flows_have_different_ports() {
    let lab = lab();
    let server = address("10.244.1.3:8080");
    lab.serve(server, Protocol::Udp).unwrap();
    let open =
        |_| lab.open_connection(&source("pod-a1", server), server, Protocol::Udp, Duration::from_secs(20)).unwrap();
    let flows: Vec<_> = (0..500).map(open).collect();
    let ports: BTreeSet<u16> = flows.iter().map(|flow| flow.answer().seen_port).collect();
    assert_eq!(ports.len(), flows.len());
}

#[test]
fn connections_survive_the_end_of_the_rules() {
    let lab = lab_with_rules();
    let destination = address("10.96.0.10:80");
    let client = source("client", destination);
    for protocol in [Protocol::Tcp, Protocol::Udp] {
        lab.serve(address("10.244.1.2:8080"), protocol).unwrap();
    }
    let stream = lab.open_connection(&client, destination, Protocol::Tcp, PATIENT).unwrap();
    let flow = lab.open_connection(&client, destination, Protocol::Udp, PATIENT).unwrap();
    assert_eq!(stream.exchange(b"ping").unwrap(), b"ping");

    // The base chains stay: without any NAT chain the kernel stops translating established connections too.
    lab.host("node-a").command(&["nft", "flush", "chain", "inet", "byhand", "translate"]).unwrap();
    assert_eq!(stream.exchange(b"still there").unwrap(), b"still there");
    assert_eq!(stream.answer().by, "pod-a1");
    let reply = String::from_utf8(flow.exchange(b"and here?").unwrap()).unwrap();
    assert_eq!(Answer::parse(&reply).unwrap(), *flow.answer());
    assert_eq!(lab.probe(&client, destination, Protocol::Tcp, IMPATIENT), Outcome::TimedOut);
}

#[test]
fn labs_live_side_by_side() {
    let destination = address("10.244.2.2:8080");
    thread::scope(|scope| {
        for serves in [true, false, true] {
            scope.spawn(move || {
                let lab = lab();
                if serves {
                    lab.serve(destination, Protocol::Tcp).unwrap();
                    lab.serve(destination, Protocol::Tcp).unwrap();
                }
                let outcome = lab.probe(&source("pod-a1", destination), destination, Protocol::Tcp, PATIENT);
                assert_eq!(matches!(outcome, Outcome::Answered { .. }), serves, "{outcome:?}");
            });
        }
    });
}

#[test]
fn a_dropped_lab_leaves_no_servers() {
    let lab = lab();
    let destination = address("10.244.2.2:8080");
    lab.serve(destination, Protocol::Tcp).unwrap();
    let connection = lab.open_connection(&source("pod-b1", destination), destination, Protocol::Tcp, PATIENT).unwrap();
    drop(lab);
    let deadline = Instant::now() + PATIENT;
    while connection.exchange(b"anybody?").is_ok() {
        assert!(Instant::now() < deadline, "the server still answers");
    }
}

#[test]
fn sctp_works_where_the_kernel_has_it() {
    let lab = lab();
    let expected = if lab.supports_sctp() { "" } else { "Protocol not supported" };
    let failures = failures(&lab, "pod-a1 -> 10.244.2.2:8080/sctp pass\n");
    assert!(failures.iter().all(|failure| !expected.is_empty() && failure.contains(expected)), "{failures:?}");
}

#[test]
fn a_missing_tool_is_named_with_its_package() {
    let lab = lab();
    let failed = lab.host("pod-a1").command(&["nft", "list", "table", "inet", "none"]).unwrap_err().to_string();
    assert!(failed.starts_with("`nft list table inet none` in pod-a1 failed: exit status: 1: "), "{failed}");
    let missing = lab.host("pod-a1").command(&["iptables-no-such-variant"]).unwrap_err().to_string();
    assert_eq!(
        missing,
        "cannot run `iptables-no-such-variant` in pod-a1: it is not installed; \
         install it with `apt-get install iptables`"
    );
}
