//! The listeners: UDP on its own threads, TCP on the asynchronous runtime.

mod connection;
mod connections;
mod tcp;
mod udp;

use std::io;
use std::net::{SocketAddr, TcpListener, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

use tokio::runtime::Handle;
use tokio::task::AbortHandle;

use crate::published::Published;
use crate::resolve::Resolver;
use crate::system::open;
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
    /// The resolver in use; a new one is used from the next query on.
    pub resolver: Arc<Published<Resolver>>,
    listeners: Vec<Listener>,
    tcp: Tcp,
    runtime: Handle,
}

/// Open ports. A process that has them needs no privileges to serve.
#[derive(Debug)]
pub struct Sockets(Vec<OpenAddress>);

#[derive(Debug)]
struct OpenAddress {
    wanted: SocketAddr,
    tcp: TcpListener,
    sockets: Vec<UdpSocket>,
}

impl Sockets {
    pub fn open(listen: &Listen) -> Result<Self, ServerError> {
        open::raise_descriptor_limit();
        listen.addresses.iter().map(|address| OpenAddress::open(*address, listen)).collect::<Result<_, _>>().map(Self)
    }
}

impl OpenAddress {
    fn open(wanted: SocketAddr, listen: &Listen) -> Result<Self, ServerError> {
        let failed = |source| ServerError::Open { address: wanted, source };
        let (tcp, sockets) = open::both(wanted, listen.is_shared, listen.threads).map_err(failed)?;
        Ok(Self { wanted, tcp, sockets })
    }
}

/// The threads of one address.
#[derive(Debug)]
struct Listener {
    /// As configured: port 0 means any.
    wanted: SocketAddr,
    address: SocketAddr,
    stop: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
    task: Option<AbortHandle>,
}

impl Server {
    pub fn start(listen: &Listen, resolver: &Arc<Resolver>, runtime: &Handle) -> Result<Self, ServerError> {
        Self::start_on(Sockets::open(listen)?, resolver, runtime)
    }

    /// On ports that are open already.
    pub fn start_on(sockets: Sockets, resolver: &Arc<Resolver>, runtime: &Handle) -> Result<Self, ServerError> {
        let current = Arc::new(Published::default());
        current.publish(resolver.clone());
        let tcp = Tcp::new(resolver.metrics.evicted_connections.clone());
        let runtime = runtime.clone();
        let mut server = Self { addresses: Vec::new(), resolver: current, listeners: Vec::new(), tcp, runtime };
        let opened = sockets.0.into_iter().map(|sockets| server.serve(sockets));
        server.use_listeners(opened.collect::<Result<_, _>>()?);
        Ok(server)
    }

    /// Opens the addresses that are new, then closes those that are not wanted any more. After an error nothing has
    /// changed.
    pub fn listen(&mut self, listen: &Listen) -> Result<(), ServerError> {
        let is_open = |address: &&SocketAddr| self.listeners.iter().any(|it| it.wanted == **address);
        let missing = listen.addresses.iter().filter(|address| !is_open(address));
        let opened = missing.map(|address| self.serve(OpenAddress::open(*address, listen)?));
        let opened = opened.collect::<Result<Vec<_>, _>>()?;
        self.listeners.retain(|listener| listen.addresses.contains(&listener.wanted));
        self.use_listeners(opened);
        Ok(())
    }

    fn use_listeners(&mut self, opened: Vec<Listener>) {
        self.listeners.extend(opened);
        self.addresses = self.listeners.iter().map(|listener| listener.address).collect();
    }

    fn serve(&self, open: OpenAddress) -> Result<Listener, ServerError> {
        let OpenAddress { wanted, tcp, sockets } = open;
        let failed = |source| ServerError::Open { address: wanted, source };
        let address = tcp.local_addr().map_err(failed)?;
        let mut listener = Listener { wanted, address, stop: Arc::default(), threads: Vec::new(), task: None };
        for socket in sockets {
            let thread = udp::serve(socket, self.resolver.clone(), self.runtime.clone(), listener.stop.clone());
            listener.threads.push(thread.map_err(ServerError::Thread)?);
        }
        listener.task = Some(self.tcp.serve(tcp, self.resolver.clone(), &self.runtime).map_err(failed)?);
        Ok(listener)
    }
}

impl Drop for Server {
    /// All threads stop at the same time.
    fn drop(&mut self) {
        self.listeners.iter().for_each(Listener::stop);
    }
}

impl Listener {
    fn stop(&self) {
        self.stop.store(true, Ordering::Relaxed);
        self.task.iter().for_each(AbortHandle::abort);
    }
}

impl Drop for Listener {
    /// The ports are free when this returns: a remaining socket would take queries from the successor.
    fn drop(&mut self) {
        self.stop();
        self.threads.drain(..).for_each(|thread| _ = thread.join());
    }
}
