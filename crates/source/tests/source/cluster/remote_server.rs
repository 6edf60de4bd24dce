//! A server that runs nothing: it answers the request for a command with WebSocket, and sends what a test tells it to.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use ring::digest;
use serde_json::{Value, json};
use tokio::io::AsyncReadExt;
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;

use super::fake::{Socket, read_request, reply, write};
use super::world::Seen;

pub(crate) enum Act {
    /// These bytes, as they are.
    Send(Vec<u8>),
    /// Waits for a message of the client with this channel in front, and keeps it.
    Await(u8),
    /// Waits for a frame of this kind.
    AwaitKind(u8),
    /// Says nothing more and keeps the connection open.
    Stay,
}

/// How the server answers the request itself.
#[derive(Clone, Default)]
pub(crate) struct Manner {
    pub(crate) protocol: &'static str,
    pub(crate) refusal: Option<(u16, Value)>,
    pub(crate) wrong_key: bool,
}

#[derive(Clone)]
pub(crate) struct Server {
    pub(crate) address: SocketAddr,
    pub(crate) requests: Arc<Mutex<Vec<Seen>>>,
    pub(crate) received: Arc<Mutex<Vec<Vec<u8>>>>,
}

impl Server {
    pub(crate) async fn start(manner: Manner, acts: Vec<Act>, identity: Option<TlsAcceptor>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let server = Self { address, requests: Arc::default(), received: Arc::default() };
        let serving = server.clone();
        tokio::spawn(async move {
            let (socket, _) = listener.accept().await.unwrap();
            match identity {
                None => serving.serve(socket, &manner, acts).await,
                Some(identity) => serving.serve(identity.accept(socket).await.unwrap(), &manner, acts).await,
            }
        });
        server
    }

    /// `None` when the client has gone.
    async fn serve(&self, mut socket: impl Socket, manner: &Manner, acts: Vec<Act>) -> Option<()> {
        let request = read_request(&mut socket).await?;
        self.requests.lock().unwrap().push(request.clone());
        if let Some((code, status)) = &manner.refusal {
            return reply(&mut socket, *code, "application/json", status.to_string().as_bytes()).await;
        }
        let key = &request.headers["sec-websocket-key"];
        let key = if manner.wrong_key { "other" } else { key };
        let head = format!(
            "HTTP/1.1 101 Switching Protocols\r\nupgrade: websocket\r\nconnection: Upgrade\r\nsec-websocket-accept: {}\r\n\
             sec-websocket-protocol: {}\r\n\r\n",
            accepted(key),
            manner.protocol
        );
        write(&mut socket, head.as_bytes()).await?;
        for act in acts {
            match act {
                Act::Send(bytes) => write(&mut socket, &bytes).await?,
                Act::Await(channel) => while self.receive(&mut socket).await?.1.first() != Some(&channel) {},
                Act::AwaitKind(kind) => while self.receive(&mut socket).await?.0 != kind {},
                Act::Stay => std::future::pending().await,
            }
        }
        Some(())
    }

    /// The kind and the content of a frame of the client, which must be masked.
    async fn receive(&self, socket: &mut impl Socket) -> Option<(u8, Vec<u8>)> {
        let (first, second) = (socket.read_u8().await.ok()?, socket.read_u8().await.ok()?);
        assert_eq!((first & 0xf0, second & 0x80), (0x80, 0x80), "a whole and masked frame");
        let length = match second & 0x7f {
            126 => u64::from(socket.read_u16().await.ok()?),
            127 => socket.read_u64().await.ok()?,
            length => u64::from(length),
        };
        let mut mask = [0; 4];
        socket.read_exact(&mut mask).await.ok()?;
        let mut content = vec![0; usize::try_from(length).unwrap()];
        socket.read_exact(&mut content).await.ok()?;
        content.iter_mut().zip(mask.iter().cycle()).for_each(|(byte, mask)| *byte ^= mask);
        self.received.lock().unwrap().push(content.clone());
        Some((first & 0x0f, content))
    }
}

fn accepted(key: &str) -> String {
    let text = format!("{key}258EAFA5-E914-47DA-95CA-C5AB0DC85B11");
    encode(digest::digest(&digest::SHA1_FOR_LEGACY_USE_ONLY, text.as_bytes()).as_ref())
}

fn encode(bytes: &[u8]) -> String {
    const ALPHABET: &[u8] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let group = |group: &[u8]| {
        let bits = group.iter().chain([&0, &0]).take(3).fold(0_usize, |bits, byte| bits << 8 | usize::from(*byte));
        let digit = |index: usize| match index > group.len() {
            true => '=',
            false => char::from(ALPHABET[bits >> (18 - 6 * index) & 63]),
        };
        (0..4).map(digit).collect::<String>()
    };
    bytes.chunks(3).map(group).collect()
}

/// A whole message of a server.
pub(crate) fn message(channel: u8, content: &[u8]) -> Vec<u8> {
    frame(0x82, &[&[channel], content].concat())
}

pub(crate) fn frame(first: u8, content: &[u8]) -> Vec<u8> {
    let length = match content.len() {
        length @ 0..126 => vec![length as u8],
        length @ 126..=0xffff => [&[126][..], &(length as u16).to_be_bytes()].concat(),
        length => [&[127][..], &(length as u64).to_be_bytes()].concat(),
    };
    [&[first][..], &length, content].concat()
}

/// The message that ends a command.
pub(crate) fn exit(code: u8) -> Vec<u8> {
    let status = match code {
        0 => json!({"metadata": {}, "status": "Success"}),
        code => {
            json!({"metadata": {}, "status": "Failure", "reason": "NonZeroExitCode", "message": "command terminated",
            "details": {"causes": [{"reason": "ExitCode", "message": code.to_string()}]}})
        }
    };
    message(3, status.to_string().as_bytes())
}
