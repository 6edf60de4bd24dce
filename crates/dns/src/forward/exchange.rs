//! One query to one upstream, protected against spoofed answers: each has a new source port, a new id, and a name in
//! random case (0x20 encoding).

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpStream, UdpSocket};
use tokio::sync::Semaphore;
use tokio::time::timeout;

use super::config::ForwardConfig;
use crate::cache::Key;
use crate::random::random_bytes;
use crate::wire::{CLASS_IN, HEADER, Rcode, Reply, ReplyError, flag, kind};

/// The largest datagram that arrives without fragmentation.
const OWN_SIZE: u16 = 1232;
/// Datagrams that do not match the query: an attacker may be guessing. The query is then repeated over TCP, which
/// cannot be spoofed this way.
const MAX_FORGERIES: usize = 8;

#[derive(Debug, thiserror::Error)]
pub(super) enum ExchangeError {
    #[error("no answer within {0:?}")]
    Late(Duration),
    #[error(transparent)]
    Io(#[from] io::Error),
    #[error(transparent)]
    Reply(#[from] ReplyError),
}

/// A query as it is sent, and what the answer must repeat.
struct Sent {
    id: u16,
    message: Vec<u8>,
    question_end: usize,
}

impl Sent {
    fn new(key: &Key, random_case: bool, with_edns: bool) -> Self {
        let id = u16::from_ne_bytes(random_bytes());
        let unchecked = if key.unchecked { flag::CHECKING_DISABLED } else { 0 };
        let mut message = id.to_be_bytes().to_vec();
        message.extend_from_slice(&(flag::RECURSION_DESIRED | unchecked).to_be_bytes());
        message.extend_from_slice(&[0, 1, 0, 0, 0, 0, 0, u8::from(with_edns)]);
        message.extend_from_slice(key.name.as_bytes());
        if random_case {
            shuffle_case(&mut message[HEADER..]);
        }
        message.extend_from_slice(&key.kind.to_be_bytes());
        message.extend_from_slice(&CLASS_IN.to_be_bytes());
        let question_end = message.len();
        if with_edns {
            message.extend_from_slice(&[0, 0, kind::OPT as u8]);
            message.extend_from_slice(&OWN_SIZE.to_be_bytes());
            message.extend_from_slice(&[0, 0, if key.wants_dnssec { 0x80 } else { 0 }, 0, 0, 0]);
        }
        Self { id, message, question_end }
    }

    fn read(&self, answer: &[u8]) -> Result<Reply, ReplyError> {
        Reply::parse(answer, self.id, &self.message[HEADER..self.question_end])
    }
}

/// A length is below 64 and therefore never a letter.
fn shuffle_case(name: &mut [u8]) {
    let dice: [u8; 32] = random_bytes();
    for (index, byte) in name.iter_mut().enumerate().filter(|(_, byte)| byte.is_ascii_alphabetic()) {
        if dice[index / 8 % dice.len()] >> (index % 8) & 1 == 1 {
            byte.make_ascii_uppercase();
        }
    }
}

/// One query to one upstream.
pub(super) struct Exchange<'a> {
    pub(super) server: SocketAddr,
    pub(super) key: &'a Key,
    /// Use TCP from the start.
    pub(super) force_tcp: bool,
    pub(super) config: &'a ForwardConfig,
    /// Concurrent TCP connections.
    pub(super) tcp: &'a Semaphore,
}

impl Exchange<'_> {
    /// A server that does not know EDNS is queried again without it.
    pub(super) async fn run(&self) -> Result<Reply, ExchangeError> {
        let reply = self.query(true).await?;
        let rejects_edns = matches!(reply.rcode(), Rcode::FORMAT_ERROR | Rcode::NOT_IMPLEMENTED | Rcode::BAD_VERSION);
        if rejects_edns { self.query(false).await } else { Ok(reply) }
    }

    /// Over UDP, and over TCP if the answer is truncated or suspicious.
    async fn query(&self, with_edns: bool) -> Result<Reply, ExchangeError> {
        let patience = self.config.server_timeout;
        if !self.force_tcp {
            let sent = Sent::new(self.key, self.config.random_case, with_edns);
            let outcome = timeout(patience, by_udp(self.server, &sent, patience)).await;
            match outcome.map_err(|_| ExchangeError::Late(patience))? {
                Ok(reply) if !reply.is_truncated() => return Ok(reply),
                // A server that does not preserve the case is trusted over TCP, where it cannot be spoofed.
                Ok(_) | Err(ExchangeError::Reply(_)) => {}
                Err(error) => return Err(error),
            }
        }
        let sent = Sent::new(self.key, false, with_edns);
        let outcome = timeout(patience, by_tcp(self.server, &sent, self.tcp)).await;
        outcome.map_err(|_| ExchangeError::Late(patience))?
    }
}

/// A lost datagram is sent again after a quarter of the time, and after three quarters.
async fn by_udp(server: SocketAddr, sent: &Sent, patience: Duration) -> Result<Reply, ExchangeError> {
    let any: IpAddr = if server.is_ipv4() { Ipv4Addr::UNSPECIFIED.into() } else { Ipv6Addr::UNSPECIFIED.into() };
    let socket = UdpSocket::bind((any, 0)).await?;
    socket.connect(server).await?;
    socket.send(&sent.message).await?;
    let (mut doubt, mut forgeries, mut wait) = (ReplyError::OtherQuestion, 0, patience / 4);
    while forgeries < MAX_FORGERIES {
        match timeout(wait, receive(&socket, sent)).await {
            Err(_) => {
                wait *= 2;
                socket.send(&sent.message).await?;
            }
            Ok(outcome) => match outcome? {
                Ok(reply) => return Ok(reply),
                // The id and the port match: this is the server, with an invalid answer.
                Err(error) if error != ReplyError::OtherQuestion => return Err(error.into()),
                Err(error) => (doubt, forgeries) = (error, forgeries + 1),
            },
        }
    }
    Err(doubt.into())
}

/// The next datagram. The buffer is on the stack only while a datagram is read, so that a waiting query does not hold
/// one.
async fn receive(socket: &UdpSocket, sent: &Sent) -> io::Result<Result<Reply, ReplyError>> {
    loop {
        socket.readable().await?;
        match try_receive(socket, sent) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            outcome => return outcome,
        }
    }
}

fn try_receive(socket: &UdpSocket, sent: &Sent) -> io::Result<Result<Reply, ReplyError>> {
    let mut buffer = [0; 4096];
    let length = socket.try_recv(&mut buffer)?;
    Ok(sent.read(&buffer[..length]))
}

/// The buffer grows with what arrives: the length that a server announces costs nothing.
async fn by_tcp(server: SocketAddr, sent: &Sent, tcp: &Semaphore) -> Result<Reply, ExchangeError> {
    let _turn = tcp.acquire().await;
    let mut stream = TcpStream::connect(server).await?;
    stream.set_nodelay(true)?;
    let length = (sent.message.len() as u16).to_be_bytes();
    stream.write_all(&[&length[..], &sent.message].concat()).await?;
    let length = stream.read_u16().await?;
    let mut answer = Vec::new();
    stream.take(length.into()).read_to_end(&mut answer).await?;
    if answer.len() < usize::from(length) {
        return Err(ReplyError::Truncated.into());
    }
    Ok(sent.read(&answer)?)
}
