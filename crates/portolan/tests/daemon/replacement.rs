//! A replacement that ends before it serves: the daemon that it replaced serves again.

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;
use std::process::Child;

use portolan_dataplane::receive_sockets;
use portolan_testkit::Protocol;
use rustix::process::{Pid, Signal, kill_process};

use crate::node::{Node, WEB, WEB_IP, web};
use crate::poll::until;

const USERSPACE: [&str; 2] = ["--proxy-mode=userspace", "--sync-period=300ms"];

/// A replacement whose first write to the kernel never ends. In the same mode it would have nothing to write.
fn hanging_replacement(node: &mut Node) -> Child {
    let programs = node.path("programs");
    fs::create_dir_all(&programs).unwrap();
    let version = "PATH=${PATH#*:}; exec \"${0##*/}\" --version";
    let wait = format!("echo $$ > {}/waiting; exec tail -f /dev/null", programs.display());
    let script = format!("#!/bin/sh\ncase \"$*\" in *--version*) {version} ;; *) {wait} ;; esac\n");
    for name in ["iptables-restore", "iptables-nft-restore", "iptables-legacy-restore"] {
        let program = programs.join(name);
        fs::write(&program, &script).unwrap();
        fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
    }
    node.programs = Some(programs);
    let replacement = node.spawn(&["--proxy-mode=iptables", "--replace"]);
    node.programs = None;
    replacement
}

/// Kills the replacement and the program that it waits for.
fn kill_hanging(node: &Node, replacement: &mut Child) {
    let waiting = node.path("programs/waiting");
    let process = || fs::read_to_string(&waiting).ok()?.trim().parse().ok().and_then(Pid::from_raw);
    until("the replacement writes", || process().is_some());
    replacement.kill().unwrap();
    replacement.wait().unwrap();
    kill_process(process().unwrap(), Signal::KILL).unwrap();
    fs::remove_file(waiting).unwrap();
}

/// Twice, because the second time the daemon has been in this place before.
#[test]
fn a_replacement_that_is_killed_before_it_serves_leaves_the_daemon_serving() {
    let mut node = Node::serving_web(&["10.244.1.2"], &USERSPACE);
    for (round, endpoint, pod) in [(1, "10.244.2.2", "pod-b1"), (2, "10.244.1.2", "pod-a1")] {
        let mut replacement = hanging_replacement(&mut node);
        kill_hanging(&node, &mut replacement);
        until("the daemon serves again", || node.log().matches("this one serves again").count() == round);
        node.write("web.yaml", &web(WEB_IP, &[endpoint]));
        until("it follows changes", || node.answer("pod-a3", WEB, Protocol::Tcp) == pod);
        assert!(node.is_running());
        node.settle();
        until("its pages are open", || node.get("127.0.0.1:10256", "/healthz").starts_with("HTTP/1.1 200"));
    }
    let mut before = node.replace_with(&USERSPACE);
    until("a replacement that serves ends it", || before.try_wait().unwrap().is_some_and(|it| it.success()));
    assert_eq!(node.answer("pod-a3", WEB, Protocol::Tcp), "pod-a1");
}

/// Such a version does not confirm that it serves.
#[test]
fn a_replacement_of_an_older_version_ends_the_daemon() {
    let mut node = Node::serving_web(&["10.244.1.2"], &[]);
    let mut stream = UnixStream::connect(node.path("control.sock")).unwrap();
    stream.write_all(b"\"Replace\"\n").unwrap();
    let mut line = String::new();
    BufReader::with_capacity(1, &stream).read_line(&mut line).unwrap();
    assert_eq!(line, "\"SocketsAndLock\"\n");
    assert_eq!((0..2).map(|_| receive_sockets(&stream).unwrap().len()).collect::<Vec<_>>(), [0, 1]);
    stream.write_all(b"taken\n").unwrap();
    let mut rest = String::new();
    stream.read_to_string(&mut rest).unwrap();
    assert_eq!(rest, "stopped\n");
    until("the daemon has ended", || !node.is_running());
}
