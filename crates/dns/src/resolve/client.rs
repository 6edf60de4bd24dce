//! The sender of a query.

use std::net::SocketAddr;

#[derive(Clone, Copy, Debug)]
pub struct Client {
    pub address: SocketAddr,
    pub is_tcp: bool,
}
