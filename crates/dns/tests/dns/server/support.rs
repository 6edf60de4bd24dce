//! A running server, and a client of it.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream, UdpSocket};
use std::sync::Arc;
use std::time::{Duration, Instant};

use portolan_dns::wire::{HEADER, Name, Reply, kind};
use portolan_dns::zone::{Zone, ZoneConfig};
use portolan_dns::{Config, ForwardConfig, Listen, Policy, Resolver, RouteConfig, Server};
use portolan_source::{Manifests, Options};
use tokio::runtime::Builder;

const CLUSTER: &str = include_str!("../names/cluster.yaml");

pub(crate) struct Running {
    pub(crate) server: Server,
    pub(crate) resolver: Arc<Resolver>,
    pub(crate) address: SocketAddr,
    /// Dropping it ends all waiting tasks.
    _stop: tokio::sync::oneshot::Sender<()>,
}

pub(crate) fn zone(config: &ZoneConfig) -> Arc<Zone> {
    let ranges = ["10.96.0.0/16", "fd00::/112"].map(|range| range.parse().expect("a range"));
    let options = Options { service_ranges: ranges.to_vec(), ..Options::default() };
    let (manifests, report) = Manifests::from_text(options, "cluster.yaml", CLUSTER);
    assert!(report.problems.is_empty(), "{:?}", report.problems);
    Arc::new(Zone::new(Arc::new(config.clone())).follow(&manifests.snapshot(), 1))
}

impl Running {
    pub(crate) fn start(config: Config) -> Self {
        let running = Self::start_empty(config);
        running.resolver.published.publish(zone(&running.resolver.config().zone));
        running
    }

    /// Before the first publish.
    pub(crate) fn start_empty(config: Config) -> Self {
        Self::try_start_at(SocketAddr::new(Ipv4Addr::LOCALHOST.into(), 0), config).expect("a port is free")
    }

    pub(crate) fn try_start_at(address: SocketAddr, config: Config) -> Option<Self> {
        let runtime = Builder::new_current_thread().enable_all().build().expect("a runtime");
        let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
        let handle = runtime.handle().clone();
        std::thread::spawn(move || _ = runtime.block_on(stopped));
        let resolver = Arc::new(Resolver::new(config));
        let listen = Listen { addresses: vec![address], threads: 2, is_shared: false };
        let server = Server::start(&listen, &resolver, &handle).ok()?;
        let address = server.addresses[0];
        Some(Self { server, resolver, address, _stop: stop })
    }

    pub(crate) fn query(&self, name: &str, kind: u16) -> Reply {
        query(self.address, &question(name, kind), SHORT).unwrap_or_else(|| panic!("no answer to {name}"))
    }

    pub(crate) fn query_by_tcp(&self, name: &str, kind: u16) -> Reply {
        let message = question(name, kind);
        let mut stream = TcpStream::connect(self.address).expect("the port is open");
        let answer = exchange(&mut stream, &message);
        Reply::parse(&answer, 0x1234, &message[HEADER..]).unwrap_or_else(|error| panic!("{name}: {error}"))
    }
}

pub(crate) const SHORT: Duration = Duration::from_secs(10);

pub(crate) fn exchange(stream: &mut TcpStream, message: &[u8]) -> Vec<u8> {
    let length = (message.len() as u16).to_be_bytes();
    stream.write_all(&[&length[..], message].concat()).expect("the server accepts a query");
    let mut length = [0; 2];
    stream.read_exact(&mut length).expect("the server answers");
    let mut answer = vec![0; u16::from_be_bytes(length).into()];
    stream.read_exact(&mut answer).expect("the server answers");
    answer
}

pub(crate) fn question(name: &str, kind: u16) -> Vec<u8> {
    let name = Name::from_text(name).unwrap_or_else(|error| panic!("{name}: {error}"));
    let mut message = vec![0x12, 0x34, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0];
    message.extend_from_slice(name.as_bytes());
    message.extend_from_slice(&kind.to_be_bytes());
    message.extend_from_slice(&[0, 1]);
    message
}

pub(crate) fn query(server: SocketAddr, message: &[u8], within: Duration) -> Option<Reply> {
    let answer = raw(server, message, within)?;
    Some(Reply::parse(&answer, 0x1234, &message[HEADER..]).unwrap_or_else(|error| panic!("{error}: {answer:02x?}")))
}

pub(crate) fn raw(server: SocketAddr, message: &[u8], within: Duration) -> Option<Vec<u8>> {
    let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");
    socket.connect(server).expect("a server");
    socket.set_read_timeout(Some(within)).expect("a timeout");
    socket.send(message).expect("a query can be sent");
    let mut buffer = [0; 65_535];
    let length = receive(&socket, &mut buffer).ok()?;
    Some(buffer[..length].to_vec())
}

/// Receives a datagram. A call with a timeout is interrupted when the process is stopped and continued.
pub(crate) fn receive(socket: &UdpSocket, buffer: &mut [u8]) -> std::io::Result<usize> {
    loop {
        match socket.recv(buffer) {
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
            received => return received,
        }
    }
}

pub(crate) fn until(what: &str, mut look: impl FnMut() -> bool) {
    let start = Instant::now();
    while !look() {
        assert!(start.elapsed() < Duration::from_secs(20), "timed out: {what}");
        std::thread::yield_now();
    }
}

/// The addresses in an answer.
pub(crate) fn addresses(reply: &Reply) -> Vec<Ipv4Addr> {
    let octets = reply.answers.iter().filter(|it| it.kind == kind::A).map(|it| <[u8; 4]>::try_from(&*it.data));
    octets.map(|octets| octets.expect("four octets").into()).collect()
}

/// Forwards all other names to these servers.
pub(crate) fn forwarding_to(upstreams: &[SocketAddr]) -> Config {
    let route =
        RouteConfig { suffix: Name::ROOT, upstreams: upstreams.to_vec(), policy: Policy::Sequential, force_tcp: false };
    let forward =
        ForwardConfig { routes: vec![route], server_timeout: Duration::from_millis(300), ..Default::default() };
    Config { forward, ..Config::default() }
}
