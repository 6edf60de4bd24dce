//! Shutdown.

use std::fs;

use rustix::process::Signal;

use super::server::{Server, cluster, until};

/// A terminating pod still gets queries for a while: clients learn of its endpoint's removal with a delay.
#[test]
fn queries_are_answered_for_a_grace_period_after_sigterm() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("dns.yaml");
    fs::write(&file, "upstreams: [none]\nlameduck: 2\n").unwrap();
    let mut server = Server::start(&cluster(), &["--config", file.to_str().unwrap()]);
    server.signal(Signal::TERM);
    assert_eq!(server.dig(&["+short", "hello-service.default.svc.cluster.local"]).trim(), "10.96.0.10");
    until("it has ended", || server.has_ended());
}
