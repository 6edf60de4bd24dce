//! The listeners: UDP on its own threads, TCP on the asynchronous runtime.

mod connection;
mod connections;
mod open;
mod tcp;
mod udp;

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

use tokio::runtime::Handle;
use tokio::task::AbortHandle;

use crate::resolve::Resolver;
use tcp::Tcp;

/// The addresses to listen on, and the number of threads for each.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listen {
    pub addresses: Vec<SocketAddr>,
    pub threads: usize,
    /// Whether another process of the same user may listen there at the same time, for a restart without a gap.
    pub is_shared: bool,
}

#[derive(Debug, thiserror::Error)]
pub enum ServerError {
    #[error("listening on {address} for DNS: {source}{}", advice(.source))]
    Open { address: SocketAddr, source: io::Error },
    #[error("starting a thread for DNS: {0}")]
    Thread(io::Error),
}

fn advice(error: &io::Error) -> &'static str {
    match error.kind() {
        io::ErrorKind::AddrInUse => " (another DNS server listens there)",
        io::ErrorKind::PermissionDenied => " (ports below 1024 need root, or CAP_NET_BIND_SERVICE)",
        io::ErrorKind::AddrNotAvailable => " (no interface of this machine has the address)",
        _ => "",
    }
}

/// A running server. Dropping it closes its ports.
#[derive(Debug)]
pub struct Server {
    pub addresses: Vec<SocketAddr>,
    stop: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
    tasks: Vec<AbortHandle>,
}

impl Server {
    pub fn start(listen: &Listen, resolver: &Arc<Resolver>, runtime: &Handle) -> Result<Self, ServerError> {
        let mut server = Self { addresses: Vec::new(), stop: Arc::default(), threads: Vec::new(), tasks: Vec::new() };
        open::raise_descriptor_limit();
        let tcp = Tcp::new(resolver.metrics.evicted_connections.clone());
        for address in &listen.addresses {
            let failed = |source| ServerError::Open { address: *address, source };
            let (listener, sockets) = open::both(*address, listen).map_err(failed)?;
            let address = listener.local_addr().map_err(failed)?;
            for socket in sockets {
                let thread = udp::serve(socket, resolver.clone(), runtime.clone(), server.stop.clone());
                server.threads.push(thread.map_err(ServerError::Thread)?);
            }
            let task = tcp.serve(listener, resolver.clone(), runtime).map_err(failed)?;
            server.tasks.push(task);
            server.addresses.push(address);
        }
        Ok(server)
    }
}

impl Drop for Server {
    /// The ports are free when this returns: a remaining socket would take queries from the successor.
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        self.tasks.iter().for_each(AbortHandle::abort);
        self.threads.drain(..).for_each(|thread| _ = thread.join());
    }
}
