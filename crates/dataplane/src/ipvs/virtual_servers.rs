//! The virtual servers of IPVS, as `/proc/net/ip_vs` lists them.

use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use portolan_kernel::addresses;
use portolan_kernel::ipvs::{Ipvs, Requests, ServerAddress};

use super::read::Entries;
use super::{DEVICE, Server};
use crate::place::{Outcome, RemovalError};

const LISTING: &str = "/proc/thread-self/net/ip_vs";

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct VirtualServer {
    pub(super) protocol: u8,
    pub(super) address: SocketAddr,
    /// Connections that are open or closing.
    pub(super) connections: u32,
}

/// Servers whose address is on the device, and servers that the sets name. Foreign servers are left out.
pub(super) fn of_services() -> Outcome<Vec<VirtualServer>> {
    let failure = |error: crate::Error| RemovalError::new("looking for virtual servers", error);
    let addresses = addresses::interface_addresses().map_err(|error| failure(error.into()))?;
    let on_device = |wanted: IpAddr| addresses.iter().any(|it| it.name == DEVICE && it.address == wanted);
    let entries = Entries::open().map_err(failure)?;
    let is_meant = |server: &VirtualServer| {
        let address = ServerAddress { address: server.address, protocol: server.protocol };
        on_device(server.address.ip()) || Server::from_kernel(address).is_some_and(|server| entries.name(server))
    };
    Ok(parse(&listing()?).into_iter().filter(is_meant).collect())
}

pub(super) fn remove(servers: &[VirtualServer]) -> Outcome<Vec<String>> {
    let failure = |error| RemovalError::new("removing virtual servers", error);
    let Some(mut ipvs) = Ipvs::open().map_err(failure)? else { return Ok(Vec::new()) };
    let mut requests = Requests::default();
    for server in servers {
        requests.delete_server(ServerAddress { address: server.address, protocol: server.protocol });
    }
    ipvs.perform(requests).map_err(failure)?;
    Ok(servers.iter().map(|server| format!("virtual server {}", server.address)).collect())
}

fn listing() -> Outcome<String> {
    match std::fs::read_to_string(LISTING) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(String::new()),
        text => text.map_err(|error| RemovalError::new(format!("reading {LISTING}"), error)),
    }
}

/// A server's line is followed by one line for each of its endpoints, which begins with an arrow.
fn parse(text: &str) -> Vec<VirtualServer> {
    let mut servers: Vec<VirtualServer> = Vec::new();
    for line in text.lines() {
        let words: Vec<&str> = line.split_whitespace().collect();
        match words[..] {
            ["->", _, "Masq" | "Route" | "Tunnel" | "Local", _, active, inactive, ..] => {
                if let Some(server) = servers.last_mut() {
                    server.connections +=
                        [active, inactive].iter().filter_map(|it| it.parse::<u32>().ok()).sum::<u32>();
                }
            }
            [protocol, address, ..] => servers.extend(server(protocol, address)),
            _ => {}
        }
    }
    servers
}

fn server(protocol: &str, address: &str) -> Option<VirtualServer> {
    let protocol = match protocol {
        "TCP" => 6,
        "UDP" => 17,
        "SCTP" => 132,
        _ => return None,
    };
    let (host, port) = address.rsplit_once(':')?;
    let address = match host.strip_prefix('[') {
        Some(host) => IpAddr::V6(host.strip_suffix(']')?.parse().ok()?),
        None => IpAddr::V4(Ipv4Addr::from(u32::from_str_radix(host, 16).ok()?)),
    };
    let address = SocketAddr::new(address, u16::from_str_radix(port, 16).ok()?);
    Some(VirtualServer { protocol, address, connections: 0 })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn servers_are_read_with_their_connections() {
        let text = "IP Virtual Server version 1.2.1 (size=4096)\n\
            Prot LocalAddress:Port Scheduler Flags\n  -> RemoteAddress:Port Forward Weight ActiveConn InActConn\n\
            TCP  0A60000A:0050 rr \n  -> 0AF40102:1F90      Masq    1      2          1         \n\
            \x20 -> 0AF40202:1F90      Masq    1      0          4         \n\
            UDP  [fd00:0010:0096:0000:0000:0000:0000:000a]:0035 rr \nFWM  00000001 wlc\n";
        let read = |protocol, address: &str, connections| VirtualServer {
            protocol,
            address: address.parse().expect("an address and port"),
            connections,
        };
        assert_eq!(parse(text), [read(6, "10.96.0.10:80", 7), read(17, "[fd00:10:96::a]:53", 0)]);
    }
}
