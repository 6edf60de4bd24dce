//! What the tests share: servers with names, clients, and waiting for something to come true.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::time::{Duration, Instant};

use portolan_model::{Family, Protocol};
use portolan_relay::{Counters, Limits, Relay, Targets};
use socket2::{Domain, SockRef, Socket, Type};

/// Long, because a loaded machine must not fail what is only late.
pub(crate) const PATIENCE: Duration = Duration::from_secs(30);

/// Looks until there is something to see.
pub(crate) fn until(what: &str, mut look: impl FnMut() -> bool) {
    let start = Instant::now();
    while !look() {
        assert!(start.elapsed() < PATIENCE, "waited {PATIENCE:?} for this: {what}");
        std::thread::park_timeout(Duration::from_millis(2));
    }
}

pub(crate) fn limits() -> Limits {
    Limits { only_redirected: false, ..Limits::default() }
}

pub(crate) fn relay() -> Relay {
    Relay::start(limits()).unwrap()
}

pub(crate) fn to(endpoints: &[SocketAddr]) -> Targets {
    Targets { endpoints: endpoints.to_vec(), ..Targets::default() }
}

/// Listens for TCP as "web" and returns where.
pub(crate) fn web(relay: &Relay, targets: Targets) -> SocketAddr {
    service(relay, "web", targets)
}

pub(crate) fn service(relay: &Relay, name: &str, targets: Targets) -> SocketAddr {
    let port = relay.listen(name, Protocol::Tcp, Family::V4).unwrap();
    relay.set_targets(name, targets).unwrap();
    ([127, 0, 0, 1], port).into()
}

pub(crate) fn counters(relay: &Relay) -> Counters {
    let all = relay.counters();
    all.first().expect("there is one listener").1
}

pub(crate) fn connect(to: SocketAddr) -> TcpStream {
    patient(TcpStream::connect_timeout(&to, PATIENCE).unwrap())
}

/// A client with that address.
pub(crate) fn connect_from(from: [u8; 4], to: SocketAddr) -> TcpStream {
    connect_at((from, 0).into(), to).unwrap()
}

/// A client with that address and port.
pub(crate) fn connect_at(from: SocketAddr, to: SocketAddr) -> io::Result<TcpStream> {
    let socket = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
    socket.bind(&from.into()).unwrap();
    socket.connect_timeout(&to.into(), PATIENCE)?;
    Ok(patient(socket.into()))
}

/// Whether a new connection is reset, be it before or after the client has seen it established.
pub(crate) fn is_reset(to: SocketAddr) -> bool {
    let stream = TcpStream::connect_timeout(&to, PATIENCE).map(patient);
    let outcome = stream.and_then(|mut stream| stream.read(&mut [0]));
    outcome.is_err_and(|error| error.kind() == io::ErrorKind::ConnectionReset)
}

fn patient(stream: TcpStream) -> TcpStream {
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream.set_write_timeout(Some(PATIENCE)).unwrap();
    stream
}

/// Lets the peer see a reset.
pub(crate) fn reset(stream: TcpStream) {
    SockRef::from(&stream).set_linger(Some(Duration::ZERO)).unwrap();
}

/// A listener of a test's own server.
///
/// Its accept queue is long: the relay would dial again if the kernel dropped a SYN because the test is slow to accept.
pub(crate) fn server() -> (TcpListener, SocketAddr) {
    let socket = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
    socket.bind(&SocketAddr::from(([127, 0, 0, 1], 0)).into()).unwrap();
    socket.listen(4096).unwrap();
    let address = socket.local_addr().unwrap().as_socket().unwrap();
    (socket.into(), address)
}

pub(crate) fn accept(listener: &TcpListener) -> TcpStream {
    patient(listener.accept().unwrap().0)
}

/// A server that says its name, which is one letter, and then repeats what it hears.
pub(crate) fn named(name: u8) -> SocketAddr {
    named_at(name, "127.0.0.1:0")
}

pub(crate) fn named_at(name: u8, address: &str) -> SocketAddr {
    let listener = TcpListener::bind(address).unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            std::thread::spawn(move || serve(stream, name));
        }
    });
    address
}

/// A server that has one client and then is gone.
pub(crate) fn named_for_one(name: u8) -> SocketAddr {
    let (listener, address) = server();
    std::thread::spawn(move || {
        let stream = accept(&listener);
        drop(listener);
        serve(stream, name)
    });
    address
}

fn serve(mut stream: TcpStream, name: u8) -> io::Result<()> {
    stream.write_all(&[name])?;
    io::copy(&mut stream.try_clone()?, &mut stream)?;
    Ok(())
}

/// The first byte that comes: a server's name.
pub(crate) fn name_from(stream: &mut TcpStream) -> io::Result<char> {
    let mut name = [0];
    stream.read_exact(&mut name)?;
    Ok(name[0].into())
}

/// Whom a new connection leads to.
pub(crate) fn who(address: SocketAddr) -> char {
    name_from(&mut connect(address)).unwrap()
}

pub(crate) fn assert_echo(stream: &mut TcpStream, message: &[u8]) {
    stream.write_all(message).unwrap();
    let mut answer = vec![0; message.len()];
    stream.read_exact(&mut answer).unwrap();
    assert_eq!(answer, message);
}

/// An address where connections are refused for as long as the socket lives: it is taken, and does not listen.
pub(crate) fn refusing() -> (Socket, SocketAddr) {
    let socket = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
    socket.bind(&SocketAddr::from(([127, 0, 0, 1], 0)).into()).unwrap();
    let address = socket.local_addr().unwrap().as_socket().unwrap();
    (socket, address)
}

/// A UDP server that puts its name before what it hears.
pub(crate) fn named_udp(name: u8, address: &str) -> SocketAddr {
    let socket = UdpSocket::bind(address).unwrap();
    let address = socket.local_addr().unwrap();
    std::thread::spawn(move || {
        let mut buffer = [0; 65_536];
        buffer[0] = name;
        while let Ok((length, from)) = socket.recv_from(&mut buffer[1..]) {
            let _ = socket.send_to(&buffer[..length + 1], from);
        }
    });
    address
}

/// A client that takes answers only from the address that it asks.
pub(crate) fn udp_client(from: &str, to: SocketAddr) -> UdpSocket {
    let socket = UdpSocket::bind(from).unwrap();
    socket.set_read_timeout(Some(PATIENCE)).unwrap();
    socket.connect(to).unwrap();
    socket
}

/// Receives a datagram. A call with a timeout is interrupted when the process is stopped and continued.
pub(crate) fn receive(socket: &UdpSocket, buffer: &mut [u8]) -> io::Result<usize> {
    loop {
        match socket.recv(buffer) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            received => return received,
        }
    }
}

pub(crate) fn ask(socket: &UdpSocket, question: &str) -> String {
    socket.send(question.as_bytes()).unwrap();
    let mut buffer = [0; 65_536];
    let length = receive(socket, &mut buffer).unwrap();
    String::from_utf8(buffer[..length].to_vec()).unwrap()
}
