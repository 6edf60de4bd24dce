//! One host of the lab: a network namespace that closures and commands can be run in.

use std::fs::File;
use std::io::{self, Write};
use std::net::SocketAddr;
use std::os::fd::{AsFd, AsRawFd};
use std::panic;
use std::process::{Child, Command, Output, Stdio};
use std::sync::Arc;
use std::thread;

use rustix::thread::{
    CapabilitySet, CapabilitySets, LinkNameSpaceType, UnshareFlags, move_into_link_name_space, set_capabilities,
};
use socket2::{Domain, Socket, Type};

use super::cgroup::Cgroup;
use crate::error::Error;
use crate::packet::Protocol;

pub struct Host {
    name: &'static str,
    /// The open file keeps the namespace alive.
    namespace: File,
    cgroup: Option<Arc<Cgroup>>,
    /// Whether probes by UDP use connected sockets.
    connects_udp: bool,
}

impl Host {
    /// Only the thread that unshares leaves the old namespace, so a short-lived one does it.
    pub(super) fn create(name: &'static str) -> Result<Host, Error> {
        let namespace = thread::spawn(fresh_namespace).join().unwrap_or_else(|panic| panic::resume_unwind(panic));
        Ok(Host {
            name,
            namespace: namespace.map_err(|source| Error::Privilege { source })?,
            cgroup: None,
            connects_udp: true,
        })
    }

    pub(super) fn use_cgroup(&mut self, cgroup: Option<Arc<Cgroup>>) {
        self.cgroup = cgroup;
    }

    pub(super) fn leave_udp_unconnected(&mut self) {
        self.connects_udp = false;
    }

    pub(super) fn connects_udp(&self) -> bool {
        self.connects_udp
    }

    pub fn name(&self) -> &'static str {
        self.name
    }

    /// Runs the closure on a thread inside this host's network namespace. Sockets that it opens, and processes and
    /// threads that it starts, stay in that namespace.
    pub fn run<T: Send>(&self, job: impl FnOnce() -> T + Send) -> T {
        thread::scope(|scope| {
            let worker = scope.spawn(|| {
                self.enter();
                job()
            });
            worker.join().unwrap_or_else(|panic| panic::resume_unwind(panic))
        })
    }

    /// The same with these capabilities alone. They belong to a thread, so that the lab keeps its own.
    pub fn run_with<T: Send>(&self, kept: CapabilitySet, job: impl FnOnce() -> T + Send) -> T {
        let sets = CapabilitySets { effective: kept, permitted: kept, inheritable: CapabilitySet::empty() };
        self.run(|| {
            set_capabilities(None, sets).unwrap_or_else(|error| panic!("cannot give up capabilities: {error}"));
            job()
        })
    }

    /// Runs a command and returns its output; an error has its standard error.
    pub fn command(&self, words: &[&str]) -> Result<String, Error> {
        self.command_with_input(words, "")
    }

    /// The same with text on its standard input, as for `nft -f -`.
    pub fn command_with_input(&self, words: &[&str], input: &str) -> Result<String, Error> {
        let output = self.run(|| output_of(words, input)).map_err(|error| self.cannot_run(words, &error))?;
        if !output.status.success() {
            let stderr = String::from_utf8_lossy(&output.stderr);
            return Err(self.failed(words, format!("{}: {}", output.status, stderr.trim())));
        }
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    }

    /// A socket keeps the namespace in which it was opened, so only this step needs to run inside.
    pub(super) fn socket(&self, address: SocketAddr, protocol: Protocol) -> io::Result<Socket> {
        let (kind, protocol) = match protocol {
            Protocol::Tcp => (Type::STREAM, socket2::Protocol::TCP),
            Protocol::Udp => (Type::DGRAM, socket2::Protocol::UDP),
            Protocol::Sctp => (Type::STREAM, socket2::Protocol::SCTP),
        };
        self.run(|| Socket::new(Domain::for_address(address), kind, Some(protocol)))
    }

    /// A path by which another process, such as `ip`, can open this namespace.
    pub fn namespace_path(&self) -> String {
        format!("/proc/{}/fd/{}", std::process::id(), self.namespace.as_raw_fd())
    }

    fn enter(&self) {
        let entered = move_into_link_name_space(self.namespace.as_fd(), Some(LinkNameSpaceType::Network));
        entered.unwrap_or_else(|error| panic!("cannot enter the network namespace of {}: {error}", self.name));
        let moved = self.cgroup.as_deref().map_or(Ok(()), Cgroup::enter);
        moved.unwrap_or_else(|error| panic!("cannot enter the cgroup of {}: {error}", self.name));
    }

    fn cannot_run(&self, words: &[&str], error: &io::Error) -> Error {
        if error.kind() != io::ErrorKind::NotFound {
            return self.failed(words, error.to_string());
        }
        Error::MissingTool { host: self.name, tool: words[0].to_owned(), package: package_of(words[0]) }
    }

    fn failed(&self, words: &[&str], reason: String) -> Error {
        Error::Command { host: self.name, command: words.join(" "), reason }
    }
}

#[expect(deprecated, reason = "rustix warns of unsharing file descriptors, which this does not do")]
fn fresh_namespace() -> io::Result<File> {
    rustix::thread::unshare(UnshareFlags::NEWNET)?;
    File::open("/proc/thread-self/ns/net")
}

fn output_of(words: &[&str], input: &str) -> io::Result<Output> {
    let mut command = Command::new(words[0]);
    command.args(&words[1..]).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn()?;
    thread::scope(|scope| {
        let stdin = child.stdin.take();
        scope.spawn(|| feed(stdin, input));
        Child::wait_with_output(child)
    })
}

/// A command may end without reading all of its input; its exit status shows whether that was a failure.
fn feed(stdin: Option<impl Write>, input: &str) {
    if let Some(mut stdin) = stdin {
        let _ = stdin.write_all(input.as_bytes());
    }
}

/// Debian's name for the package that holds a tool.
fn package_of(tool: &str) -> &'static str {
    match tool {
        "ip" | "ss" | "tc" | "bridge" => "iproute2",
        "nft" => "nftables",
        "ipset" => "ipset",
        "ipvsadm" => "ipvsadm",
        "conntrack" => "conntrack",
        "tcpdump" => "tcpdump",
        tool if tool.starts_with("iptables") || tool.starts_with("ip6tables") => "iptables",
        _ => "(the package that holds it)",
    }
}
