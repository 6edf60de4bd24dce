//! Probes: real packets from a host of the lab, and their outcomes.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::time::Duration;

use socket2::Socket;

use super::Lab;
use crate::packet::{Protocol, Source};

/// The outcome for the sender of a packet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// A server answered; it saw the packet come from `seen_source`.
    Answered { by: String, seen_source: IpAddr, endpoint: SocketAddr },
    /// A reset, or ICMP's "port unreachable".
    Refused,
    /// No answer.
    TimedOut,
    /// Anything else, with the kernel's error.
    Failed(String),
}

/// A server's line: its own name and the client's address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    pub by: String,
    pub seen_source: IpAddr,
    pub seen_port: u16,
    pub endpoint: SocketAddr,
}

/// The sender's own address and port; the kernel chooses unset ones.
#[derive(Clone, Copy, Debug, Default)]
pub struct Binding {
    pub address: Option<IpAddr>,
    pub port: Option<u16>,
}

impl Lab {
    /// Sends one packet from the source's address and waits for its outcome.
    pub fn probe(&self, source: &Source, destination: SocketAddr, protocol: Protocol, timeout: Duration) -> Outcome {
        outcome(self.open_connection(source, destination, protocol, timeout))
    }

    /// The same from any address and port of a host.
    pub fn probe_from(
        &self,
        host: &str,
        binding: Binding,
        destination: SocketAddr,
        protocol: Protocol,
        timeout: Duration,
    ) -> Outcome {
        outcome(self.connect(host, binding, destination, protocol, timeout))
    }

    /// Opens a connection that lives until it is dropped. For UDP it is one socket, hence one flow.
    pub fn open_connection(
        &self,
        source: &Source,
        destination: SocketAddr,
        protocol: Protocol,
        timeout: Duration,
    ) -> io::Result<LongConnection> {
        let unowned = || io::Error::other(format!("no host of the lab owns the source address {}", source.address));
        let host = source.name.as_deref().ok_or_else(unowned)?;
        let binding = Binding { address: Some(source.address), port: None };
        self.connect(host, binding, destination, protocol, timeout)
    }

    fn connect(
        &self,
        host: &str,
        binding: Binding,
        destination: SocketAddr,
        protocol: Protocol,
        timeout: Duration,
    ) -> io::Result<LongConnection> {
        let socket = self.host(host).socket(destination, protocol)?;
        // UDP would get the port of another open socket at random, and its datagrams would belong to the same flow.
        socket.set_reuse_address(protocol != Protocol::Udp || binding.port.is_some())?;
        socket.bind(&binding.toward(destination).into())?;
        // Hooks translate each message of an unconnected socket, and may leave connected ones of UDP to the rules.
        let peer = (protocol == Protocol::Udp && !self.host(host).connects_udp()).then_some(destination);
        if peer.is_none() {
            socket.connect_timeout(&destination.into(), timeout)?;
        }
        socket.set_read_timeout(Some(timeout))?;
        socket.set_write_timeout(Some(timeout))?;
        LongConnection::greeted(socket, protocol, peer)
    }
}

impl Binding {
    fn toward(self, destination: SocketAddr) -> SocketAddr {
        let any = match destination {
            SocketAddr::V4(_) => IpAddr::V4(Ipv4Addr::UNSPECIFIED),
            SocketAddr::V6(_) => IpAddr::V6(Ipv6Addr::UNSPECIFIED),
        };
        SocketAddr::new(self.address.unwrap_or(any), self.port.unwrap_or(0))
    }
}

/// A connection that stays open, to detect whether it survives.
pub struct LongConnection {
    socket: Socket,
    protocol: Protocol,
    /// Where an unconnected socket sends to.
    peer: Option<SocketAddr>,
    answer: Answer,
}

impl LongConnection {
    fn greeted(socket: Socket, protocol: Protocol, peer: Option<SocketAddr>) -> io::Result<LongConnection> {
        if protocol == Protocol::Udp {
            send_datagram(&socket, peer, b"hello")?;
        }
        let answer = Answer::parse(&read_answer(&socket, peer)?)?;
        Ok(LongConnection { socket, protocol, peer, answer })
    }

    /// The server's line when the connection was opened.
    pub fn answer(&self) -> &Answer {
        &self.answer
    }

    /// Whether the peer has reset it since the last call.
    pub fn is_reset(&self) -> io::Result<bool> {
        self.socket.set_nonblocking(true)?;
        let read = (&self.socket).read(&mut [0]);
        self.socket.set_nonblocking(false)?;
        match read {
            Err(error) if error.kind() == ErrorKind::ConnectionReset => Ok(true),
            Err(error) if error.kind() == ErrorKind::WouldBlock => Ok(false),
            Err(error) => Err(error),
            Ok(_) => Err(io::Error::other("the connection ends without a reset, or carries what nothing has sent")),
        }
    }

    /// Sends bytes and waits for the reply: the same bytes from a connection, the server's line for a datagram.
    pub fn exchange(&self, bytes: &[u8]) -> io::Result<Vec<u8>> {
        if self.protocol == Protocol::Udp {
            send_datagram(&self.socket, self.peer, bytes)?;
            return read_answer(&self.socket, self.peer).map(String::into_bytes);
        }
        let mut reply = vec![0; bytes.len()];
        (&self.socket).write_all(bytes)?;
        (&self.socket).read_exact(&mut reply)?;
        Ok(reply)
    }
}

impl Answer {
    pub fn parse(line: &str) -> io::Result<Answer> {
        let not_ours = || io::Error::new(ErrorKind::InvalidData, format!("`{line}` is not an answer of a lab server"));
        let words: Vec<&str> = line.split_whitespace().collect();
        let [by, seen_source, seen_port, endpoint] = words[..] else {
            return Err(not_ours());
        };
        Ok(Answer {
            by: by.to_owned(),
            seen_source: seen_source.parse().map_err(|_| not_ours())?,
            seen_port: seen_port.parse().map_err(|_| not_ours())?,
            endpoint: endpoint.parse().map_err(|_| not_ours())?,
        })
    }
}

fn outcome(opened: io::Result<LongConnection>) -> Outcome {
    match opened {
        Ok(LongConnection { answer: Answer { by, seen_source, endpoint, .. }, .. }) => {
            Outcome::Answered { by, seen_source, endpoint }
        }
        Err(error) => match error.kind() {
            ErrorKind::ConnectionRefused => Outcome::Refused,
            ErrorKind::TimedOut | ErrorKind::WouldBlock => Outcome::TimedOut,
            _ => Outcome::Failed(error.to_string()),
        },
    }
}

/// When a rule of the output hook drops or rejects the datagram, sending fails with EPERM at once; the wait for the
/// answer that follows distinguishes silence from refusal.
fn send_datagram(socket: &Socket, peer: Option<SocketAddr>, bytes: &[u8]) -> io::Result<()> {
    let sent = match peer {
        Some(peer) => socket.send_to(bytes, &peer.into()),
        None => socket.send(bytes),
    };
    match sent {
        Err(error) if error.kind() == ErrorKind::PermissionDenied => Ok(()),
        sent => sent.map(drop),
    }
}

fn read_answer(socket: &Socket, peer: Option<SocketAddr>) -> io::Result<String> {
    peer.map_or_else(|| read_line(socket), |peer| read_datagram(socket, peer))
}

/// An unconnected socket takes datagrams of everyone: the reply must come from where it was sent to.
fn read_datagram(socket: &Socket, peer: SocketAddr) -> io::Result<String> {
    let socket: UdpSocket = socket.try_clone()?.into();
    let mut buffer = [0; 512];
    loop {
        match socket.recv_from(&mut buffer) {
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
            Ok((length, from)) if from == peer => return Ok(String::from_utf8_lossy(&buffer[..length]).into_owned()),
            Ok((_, from)) => return Err(io::Error::other(format!("the reply comes from {from}, not from {peer}"))),
        }
    }
}

/// After its line, a server sends nothing until it receives data, so no byte beyond the line is lost.
fn read_line(mut socket: &Socket) -> io::Result<String> {
    let mut text = Vec::new();
    let mut buffer = [0; 512];
    while !text.ends_with(b"\n") {
        match socket.read(&mut buffer) {
            // A read with a timeout is interrupted when the process is stopped and continued.
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
            Ok(0) => {
                return Err(io::Error::new(ErrorKind::UnexpectedEof, "the peer closed before it answered"));
            }
            Ok(n_bytes) => text.extend_from_slice(&buffer[..n_bytes]),
        }
    }
    Ok(String::from_utf8_lossy(&text).into_owned())
}
