//! Connection tracking: listing flows, and deleting stale ones.

mod tuple;

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use portolan_model::Family;

use crate::error::{Error, Result};
use crate::netlink::{Header, Message, MessageWriter, Messages, Socket, flags};
use tuple::{Partial, read_tuple, write_filter, write_tuple};

/// Selects flows to delete: those that match every field that is set.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct FlowFilter {
    pub family: Family,
    pub protocol: u8,
    /// The destination that the client sends to.
    pub original_destination: Option<IpAddr>,
    pub original_destination_port: Option<u16>,
    /// The source of replies, which is the endpoint.
    pub reply_source: Option<IpAddr>,
    pub reply_source_port: Option<u16>,
}

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
    /// False once the kernel has shown that it does not filter deletions.
    kernel_filters: bool,
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
const STATUS_CONFIRMED: u32 = 8;

/// From this version on the kernel honours the family of a deletion.
const VERSION_WITH_FAMILY: u8 = 1;

impl Conntrack {
    pub fn open() -> Result<Self> {
        Ok(Conntrack { socket: Socket::open(libc::NETLINK_NETFILTER)?, kernel_filters: true })
    }

    /// Deletes all flows that match; no error if there are none. A filter with nothing but a protocol is rejected,
    /// because it can only be a bug.
    pub fn delete_matching(&mut self, filter: &FlowFilter) -> Result<()> {
        filter.check()?;
        if self.kernel_filters && filter.kernel_can_match() {
            match self.delete_in_kernel(filter) {
                Err(error) if is_unsupported(&error) => self.kernel_filters = false,
                outcome => return outcome,
            }
        }
        self.delete_one_by_one(filter)
    }

    /// All flows of the protocol.
    pub fn flows(&mut self, family: Family, protocol: u8) -> Result<Vec<Flow>> {
        let side = Partial::of_protocol(protocol);
        self.dump(family, side, side)
    }

    /// The flow that one direction belongs to, if it is tracked.
    pub fn find(&mut self, protocol: u8, source: SocketAddr, destination: SocketAddr) -> Result<Option<Flow>> {
        let mut request = request(GET, 0, Family::of(source.ip()), 0, |writer| {
            // The kernel finds a flow by the tuple of either direction, whatever the attribute's name.
            write_tuple(writer, REPLY, protocol, source, destination);
        });
        match self.socket.request(&mut request, "reading a tracked connection") {
            Ok(answer) => Ok(Messages::new(&answer).find_map(|message| read_flow(&message))),
            Err(error) if error.errno() == Some(libc::ENOENT) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// The flows with that protocol and those ports.
    fn dump(&mut self, family: Family, original: Partial, reply: Partial) -> Result<Vec<Flow>> {
        let attempted = format!("reading the tracked connections of family {}", family.nft_name());
        let protocol = original.protocol;
        let mut request = request(GET, 0, family, 0, |writer| {
            write_sides(writer, &original.without_addresses(), &reply.without_addresses());
        });
        let gather = |flows: &mut Vec<Flow>, message: &Message<'_>| {
            // Before Linux 5.8 dumps could not be filtered.
            flows.extend(read_flow(message).filter(|flow| flow.protocol == protocol));
        };
        self.socket.dump(&mut request, &attempted, gather)
    }

    /// Deletes that flow; no error if it is gone already.
    pub fn delete_flow(&mut self, flow: &Flow) -> Result<()> {
        let mut request = request(DELETE, 0, flow.family(), 0, |writer| {
            let (source, destination) = (flow.original_source, flow.original_destination);
            write_tuple(writer, ORIGINAL, flow.protocol, source, destination);
        });
        let outcome = self.socket.request(&mut request, "deleting a tracked connection");
        match outcome {
            Err(error) if error.errno() == Some(libc::ENOENT) => Ok(()),
            outcome => outcome.map(drop),
        }
    }

    /// Adds a flow as if it had been tracked, for tests.
    pub fn insert(&mut self, flow: &Flow, timeout: Duration) -> Result<()> {
        let flags = flags::CREATE | flags::EXCLUSIVE;
        let seconds = u32::try_from(timeout.as_secs()).unwrap_or(u32::MAX);
        let mut request = request(NEW, flags, flow.family(), 0, |writer| {
            let (source, destination) = (flow.original_source, flow.original_destination);
            write_tuple(writer, ORIGINAL, flow.protocol, source, destination);
            let (source, destination) = (flow.reply_source, flow.reply_destination);
            write_tuple(writer, REPLY, flow.protocol, source, destination);
            writer.number_32(STATUS, STATUS_CONFIRMED);
            writer.number_32(TIMEOUT, seconds);
        });
        let outcome = self.socket.request(&mut request, "adding a tracked connection");
        outcome.map(drop)
    }

    /// For tests of the fallback for kernels that cannot filter deletions.
    #[doc(hidden)]
    pub fn without_kernel_filters(mut self) -> Self {
        self.kernel_filters = false;
        self
    }

    fn delete_in_kernel(&mut self, filter: &FlowFilter) -> Result<()> {
        let (original, reply) = filter.sides();
        let mut request = request(DELETE, 0, filter.family, VERSION_WITH_FAMILY, |writer| {
            write_sides(writer, &original, &reply);
        });
        let outcome = self.socket.request(&mut request, "deleting tracked connections");
        outcome.map(drop)
    }

    fn delete_one_by_one(&mut self, filter: &FlowFilter) -> Result<()> {
        let (original, reply) = filter.sides();
        let flows = self.dump(filter.family, original, reply)?;
        flows.iter().filter(|flow| filter.matches(flow)).try_for_each(|flow| self.delete_flow(flow))
    }
}

impl FlowFilter {
    /// Whether the filter matches the flow.
    pub fn matches(&self, flow: &Flow) -> bool {
        let address = |wanted: Option<IpAddr>, found: SocketAddr| wanted.is_none_or(|wanted| wanted == found.ip());
        let port = |wanted: Option<u16>, found: SocketAddr| wanted.is_none_or(|wanted| wanted == found.port());
        self.protocol == flow.protocol
            && self.family == flow.family()
            && address(self.original_destination, flow.original_destination)
            && port(self.original_destination_port, flow.original_destination)
            && address(self.reply_source, flow.reply_source)
            && port(self.reply_source_port, flow.reply_source)
    }

    /// The kernel compares IPv6 addresses with inverted logic: a filter with one matches all flows but those that
    /// have it (`ctnetlink_filter_match_tuple`, Linux 5.8 to 6.18 at least).
    fn kernel_can_match(&self) -> bool {
        let has_address = self.original_destination.is_some() || self.reply_source.is_some();
        self.family == Family::V4 || !has_address
    }

    fn sides(&self) -> (Partial, Partial) {
        let original = Partial {
            destination: self.original_destination,
            destination_port: self.original_destination_port,
            ..Partial::of_protocol(self.protocol)
        };
        let reply = Partial {
            source: self.reply_source,
            source_port: self.reply_source_port,
            ..Partial::of_protocol(self.protocol)
        };
        (original, reply)
    }

    fn check(&self) -> Result<()> {
        let (original, reply) = self.sides();
        if !original.has_address_or_port() && !reply.has_address_or_port() {
            return Err(invalid("the filter would match every connection"));
        }
        let addresses = [self.original_destination, self.reply_source];
        let fits = |address: &IpAddr| Family::of(*address) == self.family;
        if !addresses.iter().flatten().all(fits) {
            return Err(invalid("the filter has an address of the other family"));
        }
        Ok(())
    }
}

impl Flow {
    fn family(&self) -> Family {
        Family::of(self.original_destination.ip())
    }
}

fn invalid(reason: &str) -> Error {
    let source = io::Error::new(io::ErrorKind::InvalidInput, reason.to_owned());
    Error::io("deleting tracked connections", source)
}

fn is_unsupported(error: &Error) -> bool {
    matches!(error.errno(), Some(libc::EINVAL | libc::EOPNOTSUPP))
}

/// Writes the tuples to compare with. The original side always has the protocol: without any tuple, the kernel would
/// delete every flow; with an incomplete one, a kernel without filters returns an error.
fn write_sides(writer: &mut MessageWriter, original: &Partial, reply: &Partial) {
    original.write(writer, ORIGINAL);
    if reply.has_address_or_port() {
        reply.write(writer, REPLY);
        write_filter(writer, FILTER, original.flags(), reply.flags());
    } else {
        write_filter(writer, FILTER, original.flags(), 0);
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

fn request(
    kind: u16,
    flags: u16,
    family: Family,
    version: u8,
    write: impl FnOnce(&mut MessageWriter),
) -> MessageWriter {
    let mut writer = MessageWriter::default();
    let header = Header { kind: SUBSYSTEM << 8 | kind, flags: flags::REQUEST | flags };
    writer.message(header, &[family.number(), version, 0, 0], write);
    writer
}
