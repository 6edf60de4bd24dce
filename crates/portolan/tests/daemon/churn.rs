//! No connection is lost during changes: a short version of the soak benchmark.

use std::io::Read;
use std::net::TcpStream;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use portolan_testkit::Protocol;

use crate::node::{Node, WEB, WEB_IP, web};

const PODS: [&str; 4] = ["10.244.1.2", "10.244.1.3", "10.244.2.2", "10.244.2.3"];
const TIMEOUT: Duration = Duration::from_secs(10);
/// Endpoints leave and return this often, with a crash of the daemon in every fifth round.
const ROUNDS: usize = 20;

/// All pods keep serving while the manifests change, so that any failure is ours.
#[test]
fn no_connection_fails_while_endpoints_change_and_the_daemon_crashes() {
    let mut node = Node::running(&[("web.yaml", &web(WEB_IP, &PODS))]);
    node.serve(&PODS.map(|pod| format!("{pod}:8080")).each_ref().map(String::as_str), Protocol::Tcp);
    let lab = std::sync::Arc::clone(&node.lab);
    let (is_over, done, failed) = (AtomicBool::new(false), AtomicUsize::new(0), AtomicUsize::new(0));
    std::thread::scope(|scope| {
        scope.spawn(|| {
            lab.host("pod-a3").run(|| {
                while !is_over.load(Ordering::Relaxed) {
                    failed.fetch_add(usize::from(exchange().is_err()), Ordering::Relaxed);
                    done.fetch_add(1, Ordering::Relaxed);
                }
            });
        });
        for round in 0..ROUNDS {
            let left: Vec<&str> = PODS.iter().copied().filter(|pod| *pod != PODS[round % PODS.len()]).collect();
            node.write("web.yaml", &web(WEB_IP, &left));
            if round % 5 == 4 {
                node.kill();
                node.start();
            }
            node.settle_on(&left);
        }
        is_over.store(true, Ordering::Relaxed);
    });
    assert!(done.load(Ordering::Relaxed) > ROUNDS);
    assert_eq!(failed.load(Ordering::Relaxed), 0, "of {} connections", done.load(Ordering::Relaxed));
}

/// A connection counts only when the server's line has arrived.
fn exchange() -> std::io::Result<()> {
    let mut connection = TcpStream::connect_timeout(&WEB.parse().expect("an address"), TIMEOUT)?;
    connection.set_read_timeout(Some(TIMEOUT))?;
    connection.read_exact(&mut [0; 8])
}
