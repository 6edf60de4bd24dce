//! Changes of the mode under traffic, from each mode of the registry to each other one that this machine can run.

use portolan_dataplane::mode::Mode;
use portolan_dataplane::modes;

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
