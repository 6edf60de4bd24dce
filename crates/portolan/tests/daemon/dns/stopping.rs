//! Being told to stop.

use std::fs;

use rustix::process::Signal;

use super::server::{Server, cluster, until};

/// Pods that are about to end are still asked for a while: those who send to them learn of it only by and by.
#[test]
fn questions_are_answered_for_a_while_after_the_end_was_ordered() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("dns.yaml");
    fs::write(&file, "upstreams: [none]\nlameduck: 2\n").unwrap();
    let mut server = Server::start(&cluster(), &["--config", file.to_str().unwrap()]);
    server.signal(Signal::TERM);
    assert_eq!(server.dig(&["+short", "hello-service.default.svc.cluster.local"]).trim(), "10.96.0.10");
    until("it has ended", || server.has_ended());
}
