//! The lab: the hosts of [`crate::topology`] as network namespaces, with servers and probes.
//!
//! The namespaces have no names on disk. The lab holds each by a file descriptor, so the kernel removes everything when
//! the lab is dropped or the process dies, and any number of labs can run in parallel.

mod build;
mod cgroup;
mod conntrack;
mod flood;
mod host;
mod load;
mod probe;
mod server;
mod verdict;
mod verify;

use std::mem;
use std::net::{IpAddr, SocketAddr};
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

pub use cgroup::{Cgroup, remove_cgroup};
pub use host::Host;
pub use load::{Load, Stream, Tally};
pub use probe::{Answer, Binding, LongConnection, Outcome};
pub use verdict::check;

use crate::error::Error;
use crate::packet::Protocol;
use crate::topology;
use server::Servers;

pub struct Lab {
    hosts: Vec<Host>,
    servers: Mutex<Servers>,
    cgroup: Option<Arc<Cgroup>>,
}

impl Lab {
    /// Builds every host and link, and returns when packets can flow.
    pub fn new() -> Result<Lab, Error> {
        let hosts = build::hosts()?;
        Ok(Lab { hosts, servers: Mutex::new(no_servers()?), cgroup: None })
    }

    /// The same with a cgroup for what runs on node-a and in its pods, where hooks can be attached.
    pub fn with_cgroup() -> Result<Lab, Error> {
        let mut lab = Self::beside_cgroup()?;
        for host in lab.hosts.iter_mut().filter(|host| topology::is_on_node(host.name())) {
            host.use_cgroup(lab.cgroup.clone());
        }
        Ok(lab)
    }

    /// The same, but nothing runs in the cgroup.
    pub fn beside_cgroup() -> Result<Lab, Error> {
        let cgroup = Arc::new(Cgroup::create().map_err(|source| Error::Cgroup { source })?);
        Ok(Self { cgroup: Some(cgroup), ..Self::new()? })
    }

    /// From node-a and its pods, probes by UDP use unconnected sockets.
    pub fn without_connected_udp(mut self) -> Lab {
        self.hosts.iter_mut().filter(|host| topology::is_on_node(host.name())).for_each(Host::leave_udp_unconnected);
        self
    }

    pub fn cgroup(&self) -> Option<&Path> {
        self.cgroup.as_deref().map(Cgroup::path)
    }

    /// Prepares the lab for another scenario: no server listens, and node-a tracks no connection. Rules and addresses
    /// that the caller added stay.
    pub fn reset(&self) -> Result<(), Error> {
        let mut servers = self.servers.lock().unwrap_or_else(PoisonError::into_inner);
        mem::replace(&mut *servers, no_servers()?).stop();
        let node = self.host(topology::NODE);
        conntrack::flush(node).map_err(|source| Error::Conntrack { host: node.name(), source })
    }

    /// The host of that name.
    ///
    /// # Panics
    /// When the topology has no such host: that is a bug in the test.
    pub fn host(&self, name: &str) -> &Host {
        let host = self.hosts.iter().find(|host| host.name() == name);
        host.unwrap_or_else(|| panic!("`{name}` is not a host of the lab; there are {}", topology::names()))
    }

    pub fn host_by_address(&self, address: IpAddr) -> Option<&Host> {
        topology::by_address(address).map(|host| self.host(host.name))
    }

    /// Starts a server on that address, in the host that owns it, unless it runs already. It answers each connection
    /// or datagram with one line, `HOST SOURCE_ADDRESS SOURCE_PORT LOCAL_ADDRESS:PORT`, and then echoes a connection's
    /// bytes until the peer closes it.
    pub fn serve(&self, address: SocketAddr, protocol: Protocol) -> Result<(), Error> {
        let host = self.host_by_address(address.ip()).ok_or(Error::NoOwner { address })?;
        let mut servers = self.servers.lock().unwrap_or_else(PoisonError::into_inner);
        let failed = |source| Error::Serve { host: host.name(), address, source };
        servers.start(host, address, protocol).map_err(failed)
    }

    /// Whether this kernel can open SCTP sockets.
    pub fn supports_sctp(&self) -> bool {
        let any = SocketAddr::from(([0, 0, 0, 0], 0));
        self.host(topology::NODE).socket(any, Protocol::Sctp).is_ok()
    }
}

fn no_servers() -> Result<Servers, Error> {
    Servers::new().map_err(|source| Error::StopSignal { source })
}
