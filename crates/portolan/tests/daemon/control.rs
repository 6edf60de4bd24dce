//! The control socket: clients that misbehave, two daemons on one socket, and replacements that fail.

use std::fs;
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::process::Child;
use std::time::{Duration, Instant};

use portolan_testkit::Protocol;

use crate::node::{Node, WEB, WEB_IP, web};
use crate::poll::until;

fn connect(node: &Node) -> UnixStream {
    let stream = UnixStream::connect(node.path("control.sock")).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(40))).unwrap();
    stream.set_write_timeout(Some(Duration::from_secs(40))).unwrap();
    stream
}

fn running() -> Node {
    Node::running(&[("web.yaml", &web(WEB_IP, &["10.244.1.2"]))])
}

#[test]
fn silent_clients_block_no_one() {
    let node = running();
    let mut silent: Vec<UnixStream> = (0..5).map(|_| connect(&node)).collect();
    // One byte at a time is as slow.
    silent.iter_mut().for_each(|stream| stream.write_all(b"{").unwrap());
    let start = Instant::now();
    assert!(node.query(&["services"]).status.success());
    assert!(start.elapsed() < Duration::from_secs(20), "{:?}", start.elapsed());
    // They are disconnected, with or without an answer.
    for mut stream in silent {
        let _ = stream.read_to_end(&mut Vec::new()).unwrap();
    }
}

#[test]
fn a_crowd_of_clients_is_bounded_and_passes() {
    let node = running();
    let crowd: Vec<UnixStream> = (0..200).map(|_| connect(&node)).collect();
    let status = fs::read_to_string(format!("/proc/{}/status", node.process())).unwrap();
    let threads = status.lines().find_map(|line| line.strip_prefix("Threads:")).unwrap();
    assert!(threads.trim().parse::<usize>().unwrap() < 60, "{threads}");
    until("the daemon answers beside the crowd, or after it", || node.query(&["services"]).status.success());
    drop(crowd);
}

#[test]
fn a_line_without_an_end_is_refused() {
    let node = running();
    let mut stream = connect(&node);
    let piece = vec![b' '; 1 << 20];
    // The daemon closes the socket before it has read all of it.
    let written = (0..64).take_while(|_| stream.write_all(&piece).is_ok()).count();
    assert!(written < 64, "the daemon has read {written} MiB");
    assert!(node.query(&["services"]).status.success());
}

fn start(node: &Node) -> Child {
    let manifests = node.path("manifests").display().to_string();
    let state = node.path("state").display().to_string();
    node.spawn_plainly(&["proxy", "--hostname-override=node-a", "--manifests", &manifests, "--state-directory", &state])
}

#[test]
fn of_simultaneous_starts_one_runs() {
    let node = Node::new();
    node.write("web.yaml", &web(WEB_IP, &["10.244.1.2"]));
    for _ in 0..3 {
        let mut daemons: Vec<Child> = (0..5).map(|_| start(&node)).collect();
        until("one of them serves", || node.query(&["verify"]).status.success());
        let exited = |daemons: &mut Vec<Child>| {
            daemons.iter_mut().filter_map(|it| it.try_wait().unwrap()).map(|it| it.code()).collect::<Vec<_>>()
        };
        until("the others have ended", || exited(&mut daemons).len() >= 4);
        assert_eq!(exited(&mut daemons), [Some(1); 4], "{}", node.log());
        assert!(node.query(&["verify"]).status.success(), "the one that runs has the socket");
        for mut daemon in daemons {
            daemon.kill().unwrap();
            daemon.wait().unwrap();
        }
    }
    assert!(node.log().contains("another portolan proxy"), "{}", node.log());
}

#[test]
fn a_second_daemon_is_refused_even_if_the_socket_is_gone() {
    let node = running();
    fs::remove_file(node.path("control.sock")).unwrap();
    let mut second = start(&node);
    until("the second has ended", || second.try_wait().unwrap().is_some());
    assert_eq!(second.wait().unwrap().code(), Some(1));
    assert!(node.log().contains("another portolan proxy uses"), "{}", node.log());
}

const USERSPACE: [&str; 2] = ["--proxy-mode=userspace", "--sync-period=300ms"];

/// The kubeconfig of a server that does not answer.
fn unreachable(node: &Node) -> String {
    let text = r#"{"current-context": "c", "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
        "clusters": [{"name": "c", "cluster": {"server": "http://127.0.0.1:1"}}], "users": [{"name": "u", "user": {}}]}"#;
    fs::write(node.path("kubeconfig"), text).unwrap();
    format!("--kubeconfig={}", node.path("kubeconfig").display())
}

#[test]
fn a_replacement_without_facts_leaves_the_daemon_running() {
    let mut node = Node::serving_web(&["10.244.1.2"], &USERSPACE);
    let mut failing = node.spawn_plainly(&["proxy", "--replace", USERSPACE[0], "--kubeconfig=/nonexistent"]);
    assert_eq!(failing.wait().unwrap().code(), Some(1));
    assert!(node.is_running());
    assert_eq!(node.answer("pod-a3", WEB, Protocol::Tcp), "pod-a1");

    let kubeconfig = unreachable(&node);
    let mut waiting =
        node.spawn_plainly(&["proxy", "--replace", USERSPACE[0], "--hostname-override=node-a", &kubeconfig]);
    until("it waits for facts", || node.log().contains("before replacing"));
    for _ in 0..20 {
        assert_eq!(node.answer("pod-a3", WEB, Protocol::Tcp), "pod-a1");
    }
    assert!(node.is_running() && waiting.try_wait().unwrap().is_none());
    waiting.kill().unwrap();
    waiting.wait().unwrap();
    node.write("web.yaml", &web(WEB_IP, &["10.244.2.2"]));
    until("the daemon follows edits", || node.answer("pod-a3", WEB, Protocol::Tcp) == "pod-b1");
}
