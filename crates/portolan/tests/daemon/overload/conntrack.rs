//! A connection table without room. `nf_conntrack_max` is one value for the machine, and each network namespace may have so
//! many entries, so that the lab's node is full while the rest of the machine is not.

use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4};
use std::time::Duration;

use portolan_kernel::conntrack::{Conntrack, Flow};
use portolan_testkit::{LongConnection, Protocol, topology};

use crate::node::{Node, WEB, WEB_IP, udp_service, web};
use crate::poll::until;

const NAMES: &str = "10.96.0.53:80";
const CHANGES: u8 = 50;
const MOST_MORE_MEMORY: usize = 32 << 20;
const FULL: &str = "the connection table is full or nearly full";

const NO_ROOM: i32 = 12;
const TCP: u8 = 6;
/// Of the hoard: less than a twentieth of its connections.
const LAST_CLIENT: &str = "198.18.0.5";
const AN_HOUR: Duration = Duration::from_secs(3_600);

/// The connections of a client that opens one after the other and closes none.
fn hoard() -> impl Iterator<Item = Flow> {
    let socket = |address: u32, port: u16| SocketAddr::from(SocketAddrV4::new(Ipv4Addr::from(address), port));
    (0_u32..).map(move |number| {
        let client = socket(0xc612_0000 + number / 50_000, 1_024 + (number % 50_000) as u16);
        let server = socket(0xc613_0001, 443);
        Flow {
            protocol: TCP,
            original_source: client,
            original_destination: server,
            reply_source: server,
            reply_destination: client,
        }
    })
}

/// Returns how many entries it takes.
fn fill(conntrack: &mut Conntrack) -> usize {
    hoard()
        .position(|flow| match conntrack.insert(&flow, AN_HOUR) {
            Ok(()) => false,
            Err(error) if error.errno() == Some(NO_ROOM) => true,
            Err(error) => panic!("{error}"),
        })
        .expect("the table has a limit")
}

fn answered_by(flow: &LongConnection) -> Option<String> {
    let line = String::from_utf8(flow.exchange(b"hello").ok()?).ok()?;
    line.split(' ').next().map(str::to_owned)
}

fn is_assured(node: &Node) -> bool {
    let words = ["conntrack", "-L", "-p", "udp", "--orig-dst", "10.96.0.53"];
    node.lab.host(topology::NODE).command(&words).unwrap().contains("[ASSURED]")
}

#[test]
fn rules_follow_and_stale_flows_go_while_the_connection_table_is_full() {
    let names = |endpoint| udp_service("names", "10.96.0.53", &[endpoint]);
    let node = Node::running(&[("web.yaml", &web(WEB_IP, &["10.244.1.2"])), ("names.yaml", &names("10.244.1.2"))]);
    node.serve(&["10.244.1.2:8080", "10.244.2.2:8080"], Protocol::Tcp);
    node.serve(&["10.244.1.2:8080", "10.244.2.2:8080"], Protocol::Udp);
    let flow = node.connect("pod-a3", NAMES, Protocol::Udp);
    // Others would be evicted from a full table.
    until("the flow is assured", || answered_by(&flow).as_deref() == Some("pod-a1") && is_assured(&node));
    let mut conntrack = node.lab.host(topology::NODE).run(Conntrack::open).unwrap();
    let entries = fill(&mut conntrack);
    assert_eq!(node.answer("client", WEB, Protocol::Tcp), "silent", "the kernel drops new connections");
    until("the full table is logged", || node.log().contains(FULL));

    let before = node.resident_bytes();
    for number in 3..3 + CHANGES {
        let endpoint = format!("10.244.1.{number}");
        node.write("web.yaml", &web(WEB_IP, &[&endpoint]));
        until("the change is in force", || node.nft("list map ip portolan endpoints").contains(&endpoint));
    }
    // Some room, because another flow of the node could take the place of the one that is deleted.
    node.lab.host(topology::NODE).command(&["conntrack", "-D", "-p", "tcp", "--orig-src", LAST_CLIENT]).unwrap();
    node.write("web.yaml", &web(WEB_IP, &["10.244.2.2"]));
    node.write("names.yaml", &names("10.244.2.2"));
    until("the flow moves", || answered_by(&flow).as_deref() == Some("pod-b1"));
    node.settle();
    let more = node.resident_bytes().saturating_sub(before);
    println!("{entries} entries, {CHANGES} changes: {} KB more memory", more >> 10);
    assert!(more < MOST_MORE_MEMORY, "{more} bytes more");
    let log = node.log();
    assert_eq!(log.matches(FULL).count(), 1, "{log}");
    assert!(!log.contains("stale UDP flows"), "{log}");

    node.lab.host(topology::NODE).command(&["conntrack", "-F"]).unwrap();
    assert_eq!(node.answer("client", WEB, Protocol::Tcp), "pod-b1");
    until("the room is logged", || node.log().contains("the connection table has room again"));
}
