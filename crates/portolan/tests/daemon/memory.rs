//! What the daemon needs for a moment only goes back to the system. The allocator would keep it.

use std::net::TcpStream;

use portolan_testkit::Protocol;

use crate::iptables::command;
use crate::node::Node;
use crate::poll::until;
use crate::repair::{SELDOM, many_address, many_services};

const SERVICES: usize = 2000;
const MOST: usize = 12 << 20;

/// Rules are read, compared and written as text: 14 MiB would stay after repairs, and 16 after `verify`.
#[test]
fn repairs_and_comparisons_return_their_memory() {
    let mut node = Node::new();
    node.write("many.yaml", &many_services(SERVICES));
    command(&node, "iptables-nft -t mangle -N KUBE-IPTABLES-HINT");
    node.start_with(&[&["--proxy-mode=iptables"], &SELDOM[..]].concat());
    for count in 1..=3 {
        command(&node, "iptables-nft -t nat -F KUBE-SERVICES");
        until("it is repaired", || node.log().matches(" repaired ").count() >= count);
    }
    until("the memory is returned", || node.own_bytes() < MOST);
    println!("{} KiB after three repairs", node.own_bytes() >> 10);
    for question in [&["verify"][..], &["explain", "10.244.1.3", "10.96.1.1:80"]] {
        assert!(node.query(question).status.success());
        println!("{} KiB after {question:?}", node.own_bytes() >> 10);
        assert!(node.own_bytes() < MOST);
    }
}

/// Every Service has traffic, which makes the page large: 22 MiB would stay.
#[test]
fn a_scrape_returns_its_memory() {
    let mut node = Node::new();
    node.write("many.yaml", &many_services(SERVICES));
    node.start_with(&SELDOM);
    node.serve(&["10.244.1.2:8080", "10.244.2.2:8080"], Protocol::Tcp);
    node.lab.host("pod-a3").run(|| {
        for number in 0..SERVICES {
            TcpStream::connect((many_address(number), 80)).expect("a Service with two endpoints answers");
        }
    });
    let pages = [(); 3].map(|()| node.get("127.0.0.1:10249", "/metrics").len());
    assert!(pages[2] > 2 << 20, "{pages:?}");
    until("the memory is returned", || node.own_bytes() < MOST);
    println!("{} KiB after pages of {pages:?} bytes", node.own_bytes() >> 10);
}
