//! A connection that the relay carries.

use std::net::SocketAddr;
use std::time::Duration;

/// An open connection, or a UDP association.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Carried {
    /// The name of its listener.
    pub listener: String,
    pub client: SocketAddr,
    pub endpoint: SocketAddr,
    pub age: Duration,
    /// The time since bytes were moved.
    pub idle: Duration,
    pub bytes_from_client: u64,
    pub bytes_to_client: u64,
}
