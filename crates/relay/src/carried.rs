//! A connection that the relay carries.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use crate::counters::Tally;
use crate::worker::Listed;

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

impl Carried {
    pub(crate) fn of(listed: Listed, names: &HashMap<*const Tally, String>) -> Option<Self> {
        let Listed { tally, client, endpoint, age, idle, bytes_from_client, bytes_to_client } = listed;
        let listener = names.get(&Arc::as_ptr(&tally))?.clone();
        Some(Self { listener, client, endpoint, age, idle, bytes_from_client, bytes_to_client })
    }
}
