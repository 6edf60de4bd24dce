//! DNS over TCP: accepts connections.

use std::io;
use std::net::TcpListener;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

use tokio::runtime::Handle;
use tokio::sync::Semaphore;
use tokio::task::{AbortHandle, JoinSet};

use super::connection::{Connection, MAX_UNREAD};
use super::connections::Connections;
use crate::published::Published;
use crate::resolve::Resolver;

/// The backoff after an accept error, for example when the process is out of descriptors.
const ACCEPT_BACKOFF: Duration = Duration::from_millis(100);

/// What the connections of all addresses share.
#[derive(Clone, Debug)]
pub(super) struct Tcp {
    connections: Arc<Connections>,
    unread: Arc<Semaphore>,
}

impl Tcp {
    pub(super) fn new(evicted: Arc<AtomicU64>) -> Self {
        Self { connections: Arc::new(Connections::new(evicted)), unread: Arc::new(Semaphore::new(MAX_UNREAD)) }
    }

    pub(super) fn serve(
        &self,
        listener: TcpListener,
        current: Arc<Published<Resolver>>,
        runtime: &Handle,
    ) -> io::Result<AbortHandle> {
        let _context = runtime.enter();
        let listener = tokio::net::TcpListener::from_std(listener)?;
        Ok(runtime.spawn(self.clone().accept_forever(listener, current)).abort_handle())
    }

    async fn accept_forever(self, listener: tokio::net::TcpListener, current: Arc<Published<Resolver>>) {
        let mut tasks = JoinSet::new();
        loop {
            match listener.accept().await {
                Ok((stream, client)) => {
                    let place = self.connections.admit(client.ip());
                    let (number, unread) = (place.number, self.unread.clone());
                    let connection = Connection { stream, client, current: current.clone(), place, unread };
                    self.connections.attach(number, tasks.spawn(async move { _ = connection.serve().await }));
                }
                Err(error) => {
                    tracing::debug!("accepting a connection: {error}");
                    self.connections.make_room();
                    tokio::time::sleep(ACCEPT_BACKOFF).await;
                }
            }
            while tasks.try_join_next().is_some() {}
        }
    }
}
