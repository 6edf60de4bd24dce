//! Whether a packet rule redirected a client to the relay. A client that connects to the relay's own port would bypass
//! the rules that check source ranges and traffic policies.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::os::fd::OwnedFd;

use portolan_kernel::conntrack::Conntrack;
use portolan_model::Protocol;
use rustix::net::getsockname;
use rustix::net::sockopt::{ip_original_dst, ipv6_original_dst};

use crate::error::Error;

/// Looks up the original destination of datagrams. A UDP socket has no `SO_ORIGINAL_DST`, so that connection tracking
/// is asked over netlink, once per association.
pub(super) struct Redirections(Conntrack);

impl Redirections {
    /// Of the network namespace of the caller.
    pub(super) fn open() -> Result<Self, Error> {
        let failed = |error| Error::io("opening connection tracking", std::io::Error::other(error));
        Conntrack::open().map(Redirections).map_err(failed)
    }

    /// Whether a datagram from this client to the relay's address was sent to another address.
    pub(super) fn has(&mut self, client: SocketAddr, own: SocketAddr) -> bool {
        match self.0.find(Protocol::Udp.number(), own, client) {
            Ok(flow) => flow.is_some_and(|flow| flow.original_destination != own),
            Err(error) => {
                tracing::debug!("a datagram of {client} is dropped: {error}");
                false
            }
        }
    }
}

/// Whether the accepted connection was made to another address.
pub(super) fn is_redirected(socket: &OwnedFd, client: SocketAddr, own_port: u16) -> bool {
    let original = match client {
        SocketAddr::V4(_) => ip_original_dst(socket).map(SocketAddr::V4),
        SocketAddr::V6(_) => ipv6_original_dst(socket).map(SocketAddr::V6),
    };
    // Without connection tracking there is no redirection.
    original.is_ok_and(|it| it.port() != own_port || it.ip() != local_address(socket))
}

fn local_address(socket: &OwnedFd) -> IpAddr {
    let address = getsockname(socket).and_then(SocketAddr::try_from);
    address.map_or(IpAddr::V4(Ipv4Addr::UNSPECIFIED), |address| address.ip())
}
