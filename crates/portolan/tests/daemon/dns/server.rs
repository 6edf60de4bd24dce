//! The program as a DNS server.

use std::fs::{self, File};
use std::net::UdpSocket;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

const TIMEOUT: Duration = Duration::from_secs(20);

pub(crate) struct Server {
    child: Child,
    folder: TempDir,
    pub(crate) address: String,
}

pub(crate) fn portolan() -> Command {
    Command::new(env!("CARGO_BIN_EXE_portolan"))
}

/// The manifests of the specification table.
pub(crate) fn cluster() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../dns/tests/dns/names/cluster.yaml")
}

impl Server {
    /// Serves these manifests on a port that is free.
    pub(crate) fn start(manifests: &Path, arguments: &[&str]) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let child = spawn(folder.path(), manifests, 0, arguments);
        let mut server = Self { child, folder, address: String::new() };
        server.address = server.logged("serving DNS at ");
        server.logged("ready: ");
        server
    }

    /// SIGKILL, and a new process on the same port, which has synced when this returns.
    pub(crate) fn kill_and_start(&mut self, manifests: &Path, port: u16) {
        _ = self.child.kill();
        _ = self.child.wait();
        self.child = spawn(self.folder.path(), manifests, port, &["--upstream", "none"]);
        self.logged("ready: ");
    }

    pub(crate) fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).expect("it runs");
    }

    pub(crate) fn has_ended(&mut self) -> bool {
        matches!(self.child.try_wait(), Ok(Some(_)))
    }

    pub(crate) fn port(&self) -> u16 {
        self.address.rsplit(':').next().and_then(|port| port.parse().ok()).expect("a port")
    }

    /// The peak of its resident memory so far, in octets.
    pub(crate) fn peak_resident(&self) -> u64 {
        let status = fs::read_to_string(format!("/proc/{}/status", self.child.id())).expect("it runs");
        let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).expect("a line");
        let kilobytes: u64 = line.trim().trim_end_matches(" kB").parse().expect("a number");
        kilobytes << 10
    }

    pub(crate) fn log(&self) -> String {
        fs::read_to_string(self.folder.path().join("log")).unwrap_or_default()
    }

    /// The rest of the log line with these words.
    pub(crate) fn logged(&self, words: &str) -> String {
        let mut found = None;
        until(&format!("the log has {words:?}"), || {
            let log = self.log();
            found = log.lines().find_map(|line| Some(line.split_once(words)?.1.to_owned()));
            found.is_some()
        });
        found.unwrap_or_default()
    }

    pub(crate) fn dig(&self, arguments: &[&str]) -> String {
        let port = self.address.rsplit(':').next().unwrap_or_default();
        let output = Command::new("dig")
            .args(["@127.0.0.1", "-p", port, "+tries=1", "+time=10"])
            .args(arguments)
            .output()
            .unwrap_or_else(|error| panic!("running dig: {error} (apt-get install bind9-dnsutils)"));
        String::from_utf8_lossy(&output.stdout).into_owned()
    }
}

fn spawn(folder: &Path, manifests: &Path, port: u16, arguments: &[&str]) -> Child {
    let log = File::create(folder.join("log")).expect("a log");
    let mut command = portolan();
    command.arg("dns").arg("--listen").arg(format!("127.0.0.1:{port}")).args(arguments);
    command.arg("--manifests").arg(manifests);
    command.args(["--service-cluster-ip-range", "10.96.0.0/16,fd00::/112"]);
    command.arg("--state-directory").arg(folder.join("state"));
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(log).spawn().expect("it starts")
}

impl Drop for Server {
    fn drop(&mut self) {
        _ = self.child.kill();
        _ = self.child.wait();
        if std::thread::panicking() {
            eprintln!("the server's log:\n{}", self.log());
        }
    }
}

pub(crate) fn until(what: &str, mut look: impl FnMut() -> bool) {
    let start = Instant::now();
    while !look() {
        assert!(start.elapsed() < TIMEOUT, "timed out after {TIMEOUT:?}: {what}");
        std::thread::yield_now();
    }
}

/// Receives a datagram. A call with a timeout is interrupted when the process is stopped and continued.
pub(crate) fn receive(socket: &UdpSocket, buffer: &mut [u8]) -> std::io::Result<usize> {
    loop {
        match socket.recv(buffer) {
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
            received => return received,
        }
    }
}
