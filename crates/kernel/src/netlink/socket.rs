//! The netlink socket. The kernel processes a request inside `send`, and the next part of a dump inside `recv`, so
//! that a reply is always queued already: requests never wait, and a lost reply is detected instead of being waited
//! for.

use std::io;
use std::time::{Duration, Instant};

use super::{Message, MessageWriter, Messages, aligned, flags};
use crate::error::{Error, Refusal, Result};
use crate::system::libc;
use crate::system::netlink_socket::Descriptor;

/// The kernel splits dumps and notifications into parts of at most 32 KiB.
const RECEIVE_LENGTH: usize = 64 * 1024;
/// Room for the refusals of a batch of some thousand messages.
const RECEIVE_BUFFER: usize = 4 * 1024 * 1024;
/// The number of attempts for a dump that is interrupted repeatedly, with increasing pauses.
const DUMP_ATTEMPTS: u32 = 200;
const MAX_PAUSE: Duration = Duration::from_millis(20);

/// The content of the receive queue.
pub enum Received<'a> {
    Messages(&'a [u8]),
    /// The queue overflowed: at least one message is lost.
    Overflow,
    Nothing,
}

pub struct Socket {
    descriptor: Descriptor,
    port_id: u32,
    sequence: u32,
    send_buffer: usize,
    buffer: Box<[u8]>,
}

impl Socket {
    /// Opens a socket of that netlink protocol, in the network namespace of this thread.
    pub fn open(protocol: i32) -> Result<Self> {
        let descriptor = Descriptor::open(protocol)?;
        let port_id = descriptor.bind()?;
        descriptor.set_option(libc::SOL_NETLINK, libc::NETLINK_EXT_ACK, 1)?;
        descriptor.set_option(libc::SOL_NETLINK, libc::NETLINK_CAP_ACK, 1)?;
        let send_buffer = descriptor.option(libc::SOL_SOCKET, libc::SO_SNDBUF)?;
        let socket = Socket {
            descriptor,
            port_id,
            sequence: 0,
            send_buffer,
            buffer: vec![0; RECEIVE_LENGTH].into_boxed_slice(),
        };
        socket.set_receive_buffer(RECEIVE_BUFFER)?;
        Ok(socket)
    }

    pub fn port_id(&self) -> u32 {
        self.port_id
    }

    /// Joins a multicast group of the socket's protocol.
    pub fn subscribe(&self, group: u32) -> Result<()> {
        let group = group.cast_signed();
        self.descriptor.set_option(libc::SOL_NETLINK, libc::NETLINK_ADD_MEMBERSHIP, group)
    }

    /// Beyond the system limit if privileged, else up to it.
    pub fn set_receive_buffer(&self, bytes: usize) -> Result<()> {
        let bytes = i32::try_from(bytes).unwrap_or(i32::MAX);
        let set = |option| self.descriptor.set_option(libc::SOL_SOCKET, option, bytes);
        set(libc::SO_RCVBUFFORCE).or_else(|_| set(libc::SO_RCVBUF))
    }

    /// Makes the kernel drop datagrams that the classic BPF program rejects before they are queued.
    pub(crate) fn attach_filter(&self, program: &[libc::sock_filter]) -> Result<()> {
        self.descriptor.attach_filter(program)
    }

    /// Numbers the messages, sends them as one datagram and returns the first sequence number. Numbers are never
    /// reused, so that a late reply is never attributed to another request.
    pub fn send(&mut self, messages: &mut MessageWriter, attempted: &str) -> Result<u32> {
        let first = self.sequence.wrapping_add(1);
        self.sequence = self.sequence.wrapping_add(messages.count());
        messages.number(first);
        self.make_room_for(messages.bytes().len())?;
        self.descriptor.send(messages.bytes()).map_err(|source| Error::io(format!("sending {attempted}"), source))?;
        Ok(first)
    }

    /// Sends one request and returns the messages of its reply, without acknowledgements.
    pub fn request(&mut self, request: &mut MessageWriter, attempted: &str) -> Result<Vec<u8>> {
        self.discard_received()?;
        request.add_flags_to_last(flags::ACKNOWLEDGE);
        let sequence = self.send(request, attempted)?;
        let mut answer = Vec::new();
        loop {
            let received = match self.receive(attempted)? {
                Received::Messages(bytes) => bytes,
                Received::Overflow => return Err(lost(attempted, libc::ENOBUFS)),
                Received::Nothing => return Err(lost(attempted, libc::ENODATA)),
            };
            if collect_answer(received, sequence, attempted, &mut answer)? {
                return Ok(answer);
            }
        }
    }

    /// Sends a dump request and gathers the replies. A dump that is interrupted by a change of the dumped objects is
    /// restarted with an empty `Gathered`.
    pub fn dump<Gathered: Default>(
        &mut self,
        request: &mut MessageWriter,
        attempted: &str,
        mut each: impl FnMut(&mut Gathered, &Message<'_>),
    ) -> Result<Gathered> {
        for attempt in 0..DUMP_ATTEMPTS {
            if let Some(gathered) = self.try_dump(request, attempted, Interruption::Refuse, &mut each)? {
                return Ok(gathered);
            }
            std::thread::sleep(Duration::from_micros(u64::from(attempt) * 100).min(MAX_PAUSE));
        }
        let interrupted = io::Error::from_raw_os_error(libc::EINTR);
        Err(Error::io(attempted, interrupted))
    }

    /// One attempt at a dump; `None` if it must be repeated.
    pub fn try_dump<Gathered: Default>(
        &mut self,
        request: &mut MessageWriter,
        attempted: &str,
        interruption: Interruption,
        mut each: impl FnMut(&mut Gathered, &Message<'_>),
    ) -> Result<Option<Gathered>> {
        request.add_flags_to_last(flags::DUMP);
        let mut gathered = Gathered::default();
        let mut gather = |message: &Message<'_>| each(&mut gathered, message);
        let is_whole = self.dump_once(request, attempted, interruption, &mut gather)?;
        Ok(is_whole.then_some(gathered))
    }

    /// False if the dump must be repeated.
    fn dump_once(
        &mut self,
        request: &mut MessageWriter,
        attempted: &str,
        interruption: Interruption,
        each: &mut dyn FnMut(&Message<'_>),
    ) -> Result<bool> {
        // This also reads an interrupted dump to its end: the kernel runs one per socket.
        self.discard_received()?;
        let sequence = self.send(request, attempted)?;
        loop {
            let Received::Messages(received) = self.receive(attempted)? else {
                return Ok(false);
            };
            match visit_dump(received, sequence, attempted, interruption, each)? {
                DumpState::More => {}
                DumpState::Done => return Ok(true),
                DumpState::Interrupted => return Ok(false),
            }
        }
    }

    /// Discards everything in the receive queue.
    pub fn discard_received(&mut self) -> Result<()> {
        let attempted = "draining the receive queue";
        while !matches!(self.receive(attempted)?, Received::Nothing) {}
        Ok(())
    }

    /// Takes one datagram from the receive queue, without blocking.
    pub fn receive(&mut self, attempted: &str) -> Result<Received<'_>> {
        let length = match self.descriptor.receive(&mut self.buffer) {
            Ok(length) => length,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                return Ok(Received::Nothing);
            }
            Err(error) if error.raw_os_error() == Some(libc::ENOBUFS) => {
                return Ok(Received::Overflow);
            }
            Err(error) => return Err(Error::io(format!("receiving {attempted}"), error)),
        };
        let received = self.buffer.get(..length).map(Received::Messages);
        received.ok_or_else(|| Error::malformed(attempted, format!("{length} bytes at once")))
    }

    /// Waits until something can be received; false after the timeout.
    pub fn wait_readable(&self, timeout: Option<Duration>) -> Result<bool> {
        let deadline = timeout.map(|timeout| Instant::now() + timeout);
        loop {
            let left = deadline.map(|end| end.saturating_duration_since(Instant::now()));
            match self.descriptor.poll(left) {
                Ok(ready) => return Ok(ready),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(Error::io("waiting for a netlink message", error)),
            }
        }
    }

    /// A datagram must fit the send buffer; the default holds about 4,400 elements.
    fn make_room_for(&mut self, length: usize) -> Result<()> {
        let needed = length + 4096;
        if needed <= self.send_buffer {
            return Ok(());
        }
        let value = i32::try_from(needed).unwrap_or(i32::MAX);
        self.descriptor.set_option(libc::SOL_SOCKET, libc::SO_SNDBUFFORCE, value)?;
        self.send_buffer = self.descriptor.option(libc::SOL_SOCKET, libc::SO_SNDBUF)?;
        Ok(())
    }
}

/// How to handle a dump during which the kernel changed objects of the same type, ours or not.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Interruption {
    Refuse,
    Accept,
}

pub(super) enum DumpState {
    More,
    Done,
    Interrupted,
}

/// Passes the messages of one receive to `each`.
pub(super) fn visit_dump(
    received: &[u8],
    sequence: u32,
    attempted: &str,
    interruption: Interruption,
    each: &mut dyn FnMut(&Message<'_>),
) -> Result<DumpState> {
    let answers = Messages::new(received).filter(|message| message.sequence == sequence);
    for message in answers {
        if message.is_interrupted() && interruption == Interruption::Refuse {
            return Ok(DumpState::Interrupted);
        }
        match message.acknowledgement() {
            Some(end) if matches!(end.errno, libc::EBUSY | libc::EINTR) => {
                return Ok(DumpState::Interrupted);
            }
            Some(end) if end.errno != 0 => return Err(refused(attempted, end.errno, end.reason)),
            Some(_) => return Ok(DumpState::Done),
            None => each(&message),
        }
    }
    Ok(DumpState::More)
}

/// True if the acknowledgement was among the messages.
pub(super) fn collect_answer(received: &[u8], sequence: u32, attempted: &str, answer: &mut Vec<u8>) -> Result<bool> {
    let answers = Messages::new(received).filter(|message| message.sequence == sequence);
    for message in answers {
        match message.acknowledgement() {
            Some(end) if end.errno != 0 => return Err(refused(attempted, end.errno, end.reason)),
            Some(_) => return Ok(true),
            None => {
                answer.extend_from_slice(message.bytes);
                answer.resize(aligned(answer.len()), 0);
            }
        }
    }
    Ok(false)
}

fn refused(attempted: &str, errno: i32, reason: String) -> Error {
    let refusal = Refusal { message: String::new(), errno, reason };
    Error::Refused { attempted: attempted.to_owned(), refusals: vec![refusal] }
}

fn lost(attempted: &str, errno: i32) -> Error {
    Error::OutcomeUnknown { attempted: attempted.to_owned(), source: io::Error::from_raw_os_error(errno) }
}
