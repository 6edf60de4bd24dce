//! The open connections and associations, for questions about them.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use super::Worker;
use crate::system::tally::Tally;

/// One of them; its listener is the one with this tally.
pub(crate) struct Listed {
    pub(crate) tally: Arc<Tally>,
    pub(crate) client: SocketAddr,
    pub(crate) endpoint: SocketAddr,
    pub(crate) age: Duration,
    pub(crate) idle: Duration,
    pub(crate) bytes_from_client: u64,
    pub(crate) bytes_to_client: u64,
}

impl Worker {
    /// At most so many: the worker moves no bytes meanwhile.
    pub(super) fn list(&self, most: usize) -> Vec<Listed> {
        let connections = self.connections.iter().filter_map(|(_, connection)| connection.listed(self.now));
        connections.chain(self.list_associations()).take(most).collect()
    }
}
