//! Connection tracking: listing flows, and deleting stale ones.

pub(crate) mod fuzz;
mod refused;
mod tcp;
mod tracked;
mod tuple;

use std::net::SocketAddr;
use std::time::Duration;

use portolan_model::Family;

use crate::error::Result;
use crate::netlink::{Header, Message, MessageWriter, Messages, Series, Socket, flags};
use crate::system::libc;
pub use refused::{Refusals, Refused};
pub use tcp::{TcpFlow, TcpFlowId, TcpState};
pub use tracked::Tracked;
use tuple::{read_tuple, write_protocol, write_tuple};

/// A tracked flow with both directions. Protocols without ports have port 0.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Flow {
    pub protocol: u8,
    pub original_source: SocketAddr,
    pub original_destination: SocketAddr,
    pub reply_source: SocketAddr,
    pub reply_destination: SocketAddr,
}

/// The connection tracking of the network namespace that the handle was opened in.
pub struct Conntrack {
    socket: Socket,
}

const SUBSYSTEM: u16 = 1;
const NEW: u16 = 0;
const GET: u16 = 1;
const DELETE: u16 = 2;
const PROTOCOL_HEADER: usize = 4;

const ORIGINAL: u16 = 1;
const REPLY: u16 = 2;
const STATUS: u16 = 3;
const TIMEOUT: u16 = 7;
const FILTER: u16 = 25;
const STATUS_SEEN_REPLY: u32 = 2;
const STATUS_ASSURED: u32 = 4;
const STATUS_CONFIRMED: u32 = 8;

impl Conntrack {
    pub fn open() -> Result<Self> {
        Ok(Conntrack { socket: Socket::open(libc::NETLINK_NETFILTER)? })
    }

    /// The flow that one direction belongs to, if it is tracked.
    pub fn find(&mut self, protocol: u8, source: SocketAddr, destination: SocketAddr) -> Result<Option<Flow>> {
        let mut request = request(GET, 0, Family::of(source.ip()), |writer| {
            // The kernel finds a flow by the tuple of either direction, whatever the attribute's name.
            write_tuple(writer, REPLY, protocol, source, destination);
        });
        match self.socket.request(&mut request, "reading a tracked connection") {
            Ok(answer) => Ok(Messages::new(&answer).find_map(|message| read_flow(&message))),
            Err(error) if error.errno() == Some(libc::ENOENT) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// All flows of the protocol that are chosen, in one walk of the table. Only those are kept in memory.
    pub fn flows(
        &mut self,
        family: Family,
        protocol: u8,
        mut is_chosen: impl FnMut(&Flow) -> bool,
    ) -> Result<Vec<Flow>> {
        let request = request(GET, 0, family, |writer| write_protocol(writer, ORIGINAL, FILTER, protocol));
        // Before Linux 5.8 dumps could not be filtered.
        self.walk(request, family, |message| {
            read_flow(message).filter(|flow| flow.protocol == protocol && is_chosen(flow))
        })
    }

    /// The same for all protocols. The second argument of `is_chosen` is whether the flow has a reply.
    pub fn all_flows(&mut self, family: Family, mut is_chosen: impl FnMut(&Flow, bool) -> bool) -> Result<Vec<Flow>> {
        self.walk(request(GET, 0, family, |_| {}), family, |message| {
            read_flow(message).filter(|flow| is_chosen(flow, is_replied(message)))
        })
    }

    fn walk(
        &mut self,
        mut request: MessageWriter,
        family: Family,
        mut read: impl FnMut(&Message<'_>) -> Option<Flow>,
    ) -> Result<Vec<Flow>> {
        let attempted = format!("reading the tracked connections of family {}", family.nft_name());
        self.socket.dump(&mut request, &attempted, |flows: &mut Vec<Flow>, message| flows.extend(read(message)))
    }

    /// Deletes these flows. Returns how many still existed.
    pub fn delete_flows(&mut self, flows: &[Flow]) -> Result<usize> {
        let mut series = Series::default();
        for flow in flows {
            let write = |writer: &mut MessageWriter| {
                write_tuple(writer, ORIGINAL, flow.protocol, flow.original_source, flow.original_destination);
            };
            series.push(String::new(), &[libc::ENOENT], header(DELETE, 0), &protocol_header(flow.family()), write);
        }
        let gone = self.socket.perform(series, "deleting tracked connections")?;
        Ok(flows.len() - gone.len())
    }

    /// Adds a flow as if it had been tracked, for tests. A full table does not evict it for another.
    pub fn insert(&mut self, flow: &Flow, timeout: Duration) -> Result<()> {
        let flags = flags::CREATE | flags::EXCLUSIVE;
        let seconds = u32::try_from(timeout.as_secs()).unwrap_or(u32::MAX);
        let mut request = request(NEW, flags, flow.family(), |writer| {
            let (source, destination) = (flow.original_source, flow.original_destination);
            write_tuple(writer, ORIGINAL, flow.protocol, source, destination);
            let (source, destination) = (flow.reply_source, flow.reply_destination);
            write_tuple(writer, REPLY, flow.protocol, source, destination);
            writer.number_32(STATUS, STATUS_CONFIRMED | STATUS_ASSURED);
            writer.number_32(TIMEOUT, seconds);
        });
        let outcome = self.socket.request(&mut request, "adding a tracked connection");
        outcome.map(drop)
    }
}

impl Flow {
    pub fn family(&self) -> Family {
        Family::of(self.original_destination.ip())
    }
}

fn read_flow(message: &Message<'_>) -> Option<Flow> {
    let attributes = message.attributes(PROTOCOL_HEADER);
    let original = read_tuple(attributes.first(ORIGINAL)?.nested())?;
    let reply = read_tuple(attributes.first(REPLY)?.nested())?;
    Some(Flow {
        protocol: original.protocol,
        original_source: original.source,
        original_destination: original.destination,
        reply_source: reply.source,
        reply_destination: reply.destination,
    })
}

fn is_replied(message: &Message<'_>) -> bool {
    let status = message.attributes(PROTOCOL_HEADER).number_32(STATUS);
    status.is_some_and(|status| status & STATUS_SEEN_REPLY != 0)
}

fn request(kind: u16, flags: u16, family: Family, write: impl FnOnce(&mut MessageWriter)) -> MessageWriter {
    let mut writer = MessageWriter::default();
    writer.message(header(kind, flags), &protocol_header(family), write);
    writer
}

fn header(kind: u16, flags: u16) -> Header {
    Header { kind: SUBSYSTEM << 8 | kind, flags: flags::REQUEST | flags }
}

/// `struct nfgenmsg`: family, version, resource.
fn protocol_header(family: Family) -> [u8; PROTOCOL_HEADER] {
    [family.number(), 0, 0, 0]
}
