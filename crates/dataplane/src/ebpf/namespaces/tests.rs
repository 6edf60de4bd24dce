//! A folder with many namespaces, and with entries that are none.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::os::fd::AsRawFd;
use std::os::unix::fs::symlink;
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::sync::mpsc::channel;
use std::thread;
use std::time::Duration;

use portolan_kernel::bpf::{Map, network_namespace_cookie};
use portolan_kernel::enter_new_network_namespace;

use super::super::programs::object;
use super::{MAP, Visitor, open};

const PODS: usize = 300;
/// Generous, for a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);

struct Folder(PathBuf);

impl Folder {
    fn create() -> Self {
        let path = std::env::temp_dir().join(format!("portolan-namespaces-{}", std::process::id()));
        fs::create_dir(&path).unwrap();
        Self(path)
    }

    /// What a folder of namespaces must not have, and may have all the same.
    fn add_others(&self) {
        fs::write(self.0.join("file"), "no namespace").unwrap();
        fs::create_dir(self.0.join("folder")).unwrap();
        symlink("nowhere", self.0.join("dangling")).unwrap();
        symlink("loop", self.0.join("loop")).unwrap();
        symlink("/dev/zero", self.0.join("device")).unwrap();
        drop(UnixListener::bind(self.0.join("socket")).unwrap());
        assert!(Command::new("mkfifo").arg(self.0.join("fifo")).status().unwrap().success());
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        _ = fs::remove_dir_all(&self.0);
    }
}

fn new_namespace() -> File {
    let enter = || {
        enter_new_network_namespace().expect("root is needed to make a network namespace");
        open(Path::new("/proc/thread-self/ns/net")).unwrap()
    };
    thread::spawn(enter).join().unwrap()
}

fn visitor(folder: &Path) -> Visitor {
    let object = object().unwrap();
    let map = Map::create(object.map(MAP).unwrap()).unwrap();
    Visitor {
        folder: Some(folder.to_owned()),
        maps: Arc::new(BTreeMap::from([(MAP.to_owned(), map)])),
        ending: None,
        home: open(Path::new("/proc/thread-self/ns/net")).unwrap(),
        node: network_namespace_cookie().unwrap(),
        known: BTreeMap::new(),
        refused: BTreeMap::new(),
    }
}

fn descriptors() -> usize {
    fs::read_dir("/proc/self/fd").unwrap().count()
}

/// Other tests of this process open some at the same time.
fn check_descriptors(before: usize) {
    let after = descriptors();
    assert!(after < before + PODS / 2, "{before} descriptors before, {after} after");
}

fn visit() {
    enter_new_network_namespace().expect("root is needed to make a network namespace");
    let folder = Folder::create();
    folder.add_others();
    let pods: Vec<File> = (0..PODS).map(|_| new_namespace()).collect();
    for (number, pod) in pods.iter().enumerate() {
        symlink(format!("/proc/self/fd/{}", pod.as_raw_fd()), folder.0.join(format!("pod-{number}"))).unwrap();
    }
    let (mut visitor, before) = (visitor(&folder.0), descriptors());
    (0..3).for_each(|_| visitor.look());
    let noted = |visitor: &Visitor| (visitor.known.len(), visitor.maps[MAP].entries().unwrap().len());
    assert_eq!(noted(&visitor), (PODS, PODS));
    assert_eq!(visitor.refused.len(), 1, "the file is not visited each time");
    check_descriptors(before);
    (0..PODS / 2).for_each(|number| fs::remove_file(folder.0.join(format!("pod-{number}"))).unwrap());
    visitor.look();
    assert_eq!(noted(&visitor), (PODS / 2, PODS / 2));
}

#[test]
fn no_entry_keeps_many_namespaces_waiting() {
    let (sender, visited) = channel();
    let thread = thread::spawn(move || {
        visit();
        _ = sender.send(());
    });
    match visited.recv_timeout(PATIENCE) {
        Err(std::sync::mpsc::RecvTimeoutError::Timeout) => panic!("the visits do not end"),
        _ => thread.join().unwrap(),
    }
}
