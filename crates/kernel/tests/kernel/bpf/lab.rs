//! A network namespace with servers, and a cgroup with the hooks.

use std::collections::BTreeMap;
use std::fs;
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::Duration;

use portolan_kernel::bpf::{
    Cgroup, Hook, Link, Loader, Map, Object, Program, SOCKET_HOOKS, find_cgroup2, network_namespace_cookie,
};

use super::entries::{CAN_END, Frontend, address, endpoint, endpoint_key, frontend_key, member_key};
use crate::common::{new_namespace, run};

/// No socket operation takes longer, so that a test fails instead of waiting for ever.
const PATIENCE: Duration = Duration::from_secs(5);

/// The hooks attached to a cgroup of the test, with empty maps.
pub(crate) struct Lab {
    pub(crate) object: Object,
    pub(crate) maps: BTreeMap<String, Map>,
    pub(crate) rodata: Map,
    pub(crate) links: Vec<(Hook, Link)>,
    pub(crate) cgroup: TestCgroup,
    pub(crate) cookie: u64,
}

impl Lab {
    /// In the node's own namespace, with connected UDP and refusals.
    pub(crate) fn on_node() -> Self {
        new_namespace();
        run("ip", &["link", "set", "lo", "up"]);
        Self::with(&[("host_cookie", network_namespace_cookie().unwrap()), ("udp_connect", 1), ("retval", 1)])
    }

    /// In a namespace that is not the node's.
    pub(crate) fn in_pod() -> Self {
        Self::in_pod_with(&[("udp_connect", 1), ("retval", 1)])
    }

    pub(crate) fn in_pod_with(constants: &[(&str, u64)]) -> Self {
        new_namespace();
        run("ip", &["link", "set", "lo", "up"]);
        Self::with(&[&[("host_cookie", 1)], constants].concat())
    }

    fn with(constants: &[(&str, u64)]) -> Self {
        let object = Object::parse(SOCKET_HOOKS).unwrap();
        let maps: BTreeMap<String, Map> =
            object.maps.iter().map(|it| (it.name.clone(), Map::create(it).unwrap())).collect();
        let rodata = Map::frozen("rodata", &object.rodata_with(constants).unwrap()).unwrap();
        let cgroup = TestCgroup::new();
        let mut lab =
            Self { object, maps, rodata, links: Vec::new(), cgroup, cookie: network_namespace_cookie().unwrap() };
        let opened = Cgroup::open(&lab.cgroup.path).unwrap();
        let programs = lab.load();
        lab.know(CAN_END);
        lab.links = programs
            .iter()
            .map(|it| (it.hook(), Link::attach(it, std::os::fd::AsFd::as_fd(&opened)).unwrap()))
            .collect();
        lab
    }

    /// What the daemon knows about the namespace of the lab.
    pub(crate) fn know(&self, facts: u32) {
        self.map("namespaces").update(&self.cookie.to_le_bytes(), &facts.to_le_bytes()).unwrap();
    }

    /// Loads all programs over the maps of the lab.
    pub(crate) fn load(&self) -> Vec<Program> {
        let loader = Loader::new(&self.object, |name| self.maps.get(name), Some(&self.rodata)).unwrap();
        self.object.programs.iter().map(|it| loader.load(&it.name).unwrap()).collect()
    }

    pub(crate) fn map(&self, name: &str) -> &Map {
        &self.maps[name]
    }

    /// The pool, and the frontend of TCP or UDP that leads to it.
    pub(crate) fn serve(&self, frontend: &str, protocol: u8, pool: u64, endpoints: &[&str]) -> Frontend {
        self.fill(pool, endpoints);
        let entry = Frontend::of_pool(pool, endpoints.len() as u32);
        self.map("frontends").update(&frontend_key(frontend, protocol), &entry.bytes()).unwrap();
        entry
    }

    pub(crate) fn fill(&self, pool: u64, endpoints: &[&str]) {
        for (slot, it) in endpoints.iter().enumerate() {
            self.map("endpoints").update(&endpoint_key(pool, slot as u32), &endpoint(it)).unwrap();
            self.map("members").update(&member_key(pool, it), &[0; 4]).unwrap();
        }
    }

    /// Makes an address one of the node: 1 in any namespace, 2 in its own.
    pub(crate) fn own(&self, it: &str, whose: u32) {
        self.map("own").update(&address(it.parse().unwrap()), &whose.to_le_bytes()).unwrap();
    }
}

/// A cgroup of threads, so that each test of the process has one.
pub(crate) struct TestCgroup {
    pub(crate) path: PathBuf,
    parent: PathBuf,
}

impl TestCgroup {
    fn new() -> Self {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let root = find_cgroup2().unwrap().expect("this test needs cgroup v2");
        let own = fs::read_to_string("/proc/self/cgroup").unwrap();
        let own = own.lines().find_map(|line| line.strip_prefix("0::/")).expect("the process is in a cgroup");
        let parent = root.join(own);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let path = parent.join(format!("portolan-test-{}-{number}", std::process::id()));
        fs::create_dir(&path).unwrap();
        fs::write(path.join("cgroup.type"), "threaded").unwrap();
        Self { path, parent }
    }

    /// From now on the calling thread, and the threads that it starts, have the hooks.
    pub(crate) fn enter(&self) {
        fs::write(self.path.join("cgroup.threads"), "0").unwrap();
    }

    pub(crate) fn leave(&self) {
        fs::write(self.parent.join("cgroup.threads"), "0").unwrap();
    }
}

impl Drop for TestCgroup {
    /// A cgroup with threads cannot be removed.
    fn drop(&mut self) {
        let threads = fs::read_to_string(self.path.join("cgroup.threads")).unwrap_or_default();
        for thread in threads.lines() {
            let _ = fs::write(self.parent.join("cgroup.threads"), thread);
        }
        let _ = fs::remove_dir(&self.path);
    }
}

/// Answers each connection with its address, after a request of any length. Ends with the test's process.
pub(crate) fn serve_tcp(address: &str) {
    let listener = TcpListener::bind(address).unwrap();
    let name = address.to_owned();
    thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            let mut request = [0; 4096];
            let _ = stream.read(&mut request);
            let _ = stream.write_all(name.as_bytes());
        }
    });
}

/// Answers each datagram with its address.
pub(crate) fn serve_udp(address: &str) {
    let socket = UdpSocket::bind(address).unwrap();
    let name = address.to_owned();
    thread::spawn(move || {
        let mut request = [0; 4096];
        while let Ok((_, client)) = socket.recv_from(&mut request) {
            let _ = socket.send_to(name.as_bytes(), client);
        }
    });
}

/// The server that answers, and the address that the client sees as its peer.
pub(crate) fn ask_tcp(to: &str) -> io::Result<(String, SocketAddr)> {
    let mut stream = TcpStream::connect_timeout(&to.parse().unwrap(), PATIENCE)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    let peer = stream.peer_addr()?;
    stream.write_all(b"?")?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    Ok((answer, peer))
}

pub(crate) fn udp_socket(any: &str) -> UdpSocket {
    let socket = UdpSocket::bind((any, 0)).unwrap();
    socket.set_read_timeout(Some(PATIENCE)).unwrap();
    socket
}

/// The server that answers a message, and the address that the answer seems to come from.
pub(crate) fn ask_udp(socket: &UdpSocket, to: &str) -> io::Result<(String, SocketAddr)> {
    socket.send_to(b"?", to.parse::<SocketAddr>().unwrap())?;
    let mut answer = [0; 100];
    let (length, from) = socket.recv_from(&mut answer)?;
    Ok((String::from_utf8_lossy(&answer[..length]).into_owned(), from))
}

pub(crate) fn is_refused<T>(outcome: io::Result<T>) -> bool {
    outcome.is_err_and(|error| error.kind() == io::ErrorKind::ConnectionRefused)
}

/// A file system for pins, removed with the test.
pub(crate) struct Pins(pub(crate) PathBuf);

impl Pins {
    pub(crate) fn new(name: &str) -> Self {
        let folder = std::env::temp_dir().join(format!("portolan-pins-{}-{name}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        portolan_kernel::bpf::mount_bpf_file_system(&folder).unwrap();
        Self(folder)
    }

    pub(crate) fn at(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }
}

impl Drop for Pins {
    fn drop(&mut self) {
        unmount(&self.0);
        let _ = fs::remove_dir(&self.0);
    }
}

fn unmount(folder: &Path) {
    run("umount", &[&folder.display().to_string()]);
}
