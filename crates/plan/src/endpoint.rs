//! An endpoint, as the plan of a Service port has it.

use std::net::{IpAddr, SocketAddr};

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Endpoint {
    pub address: IpAddr,
    pub port: u16,
    /// The endpoint runs on this node, or its node is unknown: it may be a client of its own Service.
    pub may_be_here: bool,
}

impl Endpoint {
    pub fn socket(&self) -> SocketAddr {
        SocketAddr::new(self.address, self.port)
    }
}
