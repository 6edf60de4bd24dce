//! The virtual servers of Services that are in the kernel, for removal. They are read by netlink: the listing in /proc
//! skips servers if another network namespace has some too.

use std::net::IpAddr;

use portolan_kernel::addresses;
use portolan_kernel::ipvs::{Ipvs, Requests, ServerAddress};

use super::read::Entries;
use super::{DEVICE, Server};
use crate::Error;
use crate::place::{Outcome, RemovalError};

#[derive(Default)]
pub(super) struct VirtualServers {
    servers: Vec<ServerAddress>,
    /// Connections that are open or closing.
    pub(super) connections: u32,
}

/// Servers whose address is on the device, and servers that the sets name. Foreign servers are left out.
pub(super) fn of_services() -> Outcome<VirtualServers> {
    read().map_err(|error| RemovalError::new("looking for virtual servers", error))
}

fn read() -> Result<VirtualServers, Error> {
    let Some(mut ipvs) = Ipvs::open()? else { return Ok(VirtualServers::default()) };
    let addresses = addresses::interface_addresses()?;
    let on_device = |wanted: IpAddr| addresses.iter().any(|it| it.name == DEVICE && it.address == wanted);
    let entries = Entries::open()?;
    let is_meant = |server: ServerAddress| {
        on_device(server.address.ip()) || Server::from_kernel(server).is_some_and(|server| entries.name(server))
    };
    let mut found = VirtualServers::default();
    for (server, _) in ipvs.servers()?.into_iter().filter(|(server, _)| is_meant(*server)) {
        found.connections += ipvs.destinations(server)?.iter().map(|it| it.connections()).sum::<u32>();
        found.servers.push(server);
    }
    Ok(found)
}

/// Removes these servers, and those that appear when they are gone: the kernel interrupts a long listing, and changes in
/// other network namespaces make it skip servers.
pub(super) fn remove(mut found: VirtualServers) -> Outcome<Vec<String>> {
    let failure = |error| RemovalError::new("removing virtual servers", error);
    let mut removed = Vec::new();
    let Some(mut ipvs) = Ipvs::open().map_err(failure)? else { return Ok(removed) };
    while !found.servers.is_empty() {
        let mut requests = Requests::default();
        found.servers.iter().for_each(|server| requests.delete_server(*server));
        ipvs.perform(requests).map_err(failure)?;
        removed.extend(found.servers.iter().map(|server| format!("virtual server {}", server.address)));
        found = of_services()?;
    }
    Ok(removed)
}
