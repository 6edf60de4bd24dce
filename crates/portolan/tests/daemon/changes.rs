//! Changes of the mode under traffic, from each mode of the registry to each other one that this machine can run.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;

use portolan_dataplane::mode::Mode;
use portolan_dataplane::modes;

use crate::node::{Node, WEB_IP, web};
use crate::poll::until;
use crate::switching::{switch, write_mode};
use crate::traffic::{Traffic, node_with_service};

/// A walk that takes every step from one of these to another one once.
fn walk(modes: &[&'static dyn Mode]) -> Vec<&'static dyn Mode> {
    let pairs = |first: usize| modes[first + 1..].iter().flat_map(move |second| [modes[first], *second]);
    let mut walk: Vec<&'static dyn Mode> = (0..modes.len()).flat_map(pairs).collect();
    walk.push(modes[0]);
    walk
}

#[test]
fn a_walk_takes_every_step_once() {
    let names: Vec<&str> = walk(modes::ALL).iter().map(|mode| mode.name()).collect();
    let mut steps: Vec<_> = names.windows(2).map(|pair| (pair[0], pair[1])).collect();
    let count = modes::ALL.len() * (modes::ALL.len() - 1);
    assert_eq!(steps.len(), count, "{names:?}");
    steps.sort_unstable();
    steps.dedup();
    assert_eq!(steps.len(), count, "{names:?}");
}

#[test]
fn changing_the_mode_fails_no_connection() {
    let here: Vec<&dyn Mode> = modes::ALL.iter().copied().filter(|mode| mode.missing().is_none()).collect();
    assert!(here.len() > 1, "there are modes to change between");
    let walk = walk(&here);
    let mut node = node_with_service();
    write_mode(&node, walk[0], "");
    let file = node.path("config.conf").display().to_string();
    node.start_with(&["--config", &file]);
    let traffic = Traffic::start(&node);
    traffic.go_on();
    for mode in &walk[1..] {
        switch(&node, *mode, "");
        assert!(node.get("127.0.0.1:10249", "/metrics").starts_with("HTTP/1.1 200"));
        traffic.go_on();
    }
    traffic.stop_without_failures();
}

fn start_with_file(node: &mut Node) {
    let file = node.path("config.conf").display().to_string();
    node.start_with(&["--config", &file]);
}

/// A watch of an earlier mode would call every commit of the new one foreign.
#[test]
fn a_watch_ends_with_its_mode() {
    let here: Vec<&dyn Mode> = modes::ALL.iter().copied().filter(|mode| mode.missing().is_none()).collect();
    let mut node = Node::new();
    node.write("web.yaml", &web(WEB_IP, &["10.244.1.2"]));
    write_mode(&node, here[0], "");
    start_with_file(&mut node);
    for mode in [here[1], here[0], here[1], here[0]] {
        switch(&node, mode, "");
    }
    let watches = || node.threads().iter().filter(|name| *name == "kernel").count();
    until("the watch of the active mode is the only one", || watches() == 1);
    let noticed = || node.log().matches("comparing with the plan").count();
    let before = noticed();
    for endpoint in 1..=5 {
        node.write("web.yaml", &web(WEB_IP, &[&format!("10.244.3.{endpoint}")]));
        node.settle_on(&[&format!("10.244.3.{endpoint}")]);
    }
    assert_eq!((noticed(), watches()), (before, 1), "{}", node.log());
}

/// Another file names a mode that cannot be opened: its programs are broken.
#[test]
fn a_mode_that_cannot_be_opened_leaves_the_settings_of_the_one_before() {
    let mut node = Node::new();
    let programs = node.path("programs");
    fs::create_dir(&programs).unwrap();
    for name in ["iptables-nft-save", "iptables-legacy-save", "ip6tables-nft-save"] {
        let program = programs.join(name);
        fs::write(&program, "#!/bin/sh\nexit 1\n").unwrap();
        fs::set_permissions(&program, Permissions::from_mode(0o755)).unwrap();
    }
    node.programs = Some(programs);
    node.write("web.yaml", &web(WEB_IP, &["10.244.1.2"]));
    let mode = |name| modes::named(name).expect("a mode");
    write_mode(&node, mode("nftables"), "nftables: {masqueradeBit: 9}\n");
    start_with_file(&mut node);
    write_mode(&node, mode("iptables"), "iptables: {masqueradeBit: 11}\n");
    until("the mode is refused", || node.log().contains("the mode stays nftables"));
    node.write("web.yaml", &web(WEB_IP, &["10.244.2.2"]));
    node.settle_on(&["10.244.2.2"]);
    // The view of the settings in force agrees with the kernel.
    node.settle();
    assert!(node.get("127.0.0.1:10249", "/proxyMode").ends_with("nftables"));
}
