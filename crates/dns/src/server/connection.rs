//! One TCP connection: any number of queries, each with a length prefix. Several may wait for an upstream at a time, and
//! each is answered as soon as it can be.

use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tokio::time::{Instant, Sleep, sleep_until, timeout};

use super::connections::Place;
use super::udp::follow;
use crate::published::{Published, Reader};
use crate::resolve::{Client, Deferred, Handled, PanicGuard, Resolver, ThreadState};

/// A connection without a complete query or an answer for this time is closed.
const IDLE_TIMEOUT: Duration = Duration::from_secs(10);
/// A connection whose client does not read its responses is closed after this time.
const WRITE_TIMEOUT: Duration = Duration::from_secs(5);
/// The queries of one connection that wait for an upstream; more are not read.
const MAX_WAITING: usize = 16;
/// Queries are short; a connection with a longer one is closed.
const MAX_QUERY: usize = 4096;
/// What is read at once.
const READ: usize = 1024;
/// Responses that wait for clients to read, over all connections. Beyond that, slow clients are disconnected.
pub(super) const MAX_UNREAD: usize = 128;

pub(super) struct Connection {
    pub(super) stream: TcpStream,
    pub(super) client: SocketAddr,
    pub(super) current: Arc<Published<Resolver>>,
    pub(super) place: Place,
    pub(super) unread: Arc<Semaphore>,
}

/// Received octets, and the queries that wait.
struct Session {
    connection: Connection,
    current: Reader<Resolver>,
    resolver: Arc<Resolver>,
    state: ThreadState,
    input: Vec<u8>,
    waiting: JoinSet<Box<Deferred>>,
    is_closed: bool,
}

impl Connection {
    pub(super) async fn serve(self) -> io::Result<()> {
        let Some(resolver) = self.current.current() else { return Ok(()) };
        let _guard = PanicGuard(resolver.clone());
        self.stream.set_nodelay(true)?;
        let mut session = Session {
            current: Reader::new(self.current.clone()),
            connection: self,
            state: resolver.task_state(),
            resolver,
            input: Vec::new(),
            waiting: JoinSet::new(),
            is_closed: false,
        };
        let mut idle = Box::pin(sleep_until(Instant::now() + IDLE_TIMEOUT));
        while session.step(&mut idle).await? {}
        Ok(())
    }
}

impl Session {
    /// Handles the next query, octets or answer. Returns false at the end.
    async fn step(&mut self, idle: &mut Pin<Box<Sleep>>) -> io::Result<bool> {
        let has_room = self.waiting.len() < MAX_WAITING;
        if has_room && let Some(message) = self.next_message()? {
            idle.as_mut().reset(Instant::now() + IDLE_TIMEOUT);
            return self.handle(&message).await;
        }
        if self.is_closed && self.waiting.is_empty() {
            return Ok(false);
        }
        self.input.reserve(READ);
        tokio::select! {
            read = self.connection.stream.read_buf(&mut self.input), if has_room && !self.is_closed => {
                self.is_closed = read? == 0;
            }
            Some(deferred) = self.waiting.join_next() => {
                self.answer(deferred.map_err(io::Error::other)?).await?;
                idle.as_mut().reset(Instant::now() + IDLE_TIMEOUT);
            }
            () = idle.as_mut() => return Ok(false),
        }
        Ok(true)
    }

    /// The next complete message, if there is one.
    fn next_message(&mut self) -> io::Result<Option<Vec<u8>>> {
        let Some(length) = self.input.first_chunk().map(|length| usize::from(u16::from_be_bytes(*length))) else {
            return Ok(None);
        };
        if length > MAX_QUERY {
            return Err(io::ErrorKind::InvalidData.into());
        }
        if self.input.len() < 2 + length {
            return Ok(None);
        }
        let message = self.input[2..2 + length].to_vec();
        self.input.drain(..2 + length);
        Ok(Some(message))
    }

    async fn handle(&mut self, message: &[u8]) -> io::Result<bool> {
        follow(&mut self.current, &mut self.resolver, &mut self.state);
        let client = Client { address: self.connection.client, is_tcp: true };
        let mut answer = Vec::new();
        match self.resolver.handle(&mut self.state, message, client, &mut answer) {
            Handled::Answered => self.write(&answer).await?,
            Handled::Ignored => return Ok(false),
            Handled::Deferred(deferred) => self.wait_for(deferred),
        }
        self.connection.place.touch(self.waiting.len());
        Ok(true)
    }

    fn wait_for(&mut self, mut deferred: Box<Deferred>) {
        let resolver = self.resolver.clone();
        self.waiting.spawn(async move {
            let _guard = PanicGuard(resolver.clone());
            resolver.gather(&mut deferred).await;
            deferred
        });
    }

    async fn answer(&mut self, deferred: Box<Deferred>) -> io::Result<()> {
        let mut answer = Vec::new();
        if self.resolver.complete(&mut self.state, &deferred, &mut answer) {
            self.write(&answer).await?;
        } else {
            self.wait_for(deferred);
        }
        self.connection.place.touch(self.waiting.len());
        Ok(())
    }

    /// Usually the kernel takes the whole response at once.
    async fn write(&mut self, answer: &[u8]) -> io::Result<()> {
        let length = (answer.len() as u16).to_be_bytes();
        let whole = [&length[..], answer].concat();
        let stream = &mut self.connection.stream;
        let written = match stream.try_write(&whole) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => 0,
            outcome => outcome?,
        };
        if written == whole.len() {
            return Ok(());
        }
        let _unread = self.connection.unread.try_acquire().map_err(io::Error::other)?;
        timeout(WRITE_TIMEOUT, stream.write_all(&whole[written..])).await?
    }
}
