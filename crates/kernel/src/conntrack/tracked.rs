//! A tracked connection with what accounting knows of it: when it began, and what it carried.

use std::net::SocketAddr;
use std::time::{Duration, SystemTime};

use portolan_model::Family;

use super::tcp::read_tcp_flow;
use super::tuple::write_tuple;
use super::{Conntrack, Flow, GET, PROTOCOL_HEADER, REPLY, TIMEOUT, is_replied, read_flow, request};
use super::{TcpFlow, TcpState};
use crate::error::Result;
use crate::netlink::{Attributes, Message, Messages};
use crate::nftables::Count;
use crate::system::libc;

const COUNTERS_ORIGINAL: u16 = 9;
const COUNTERS_REPLY: u16 = 10;
const COUNTER_PACKETS: u16 = 1;
const COUNTER_BYTES: u16 = 2;
const TIMESTAMP: u16 = 20;
const TIMESTAMP_START: u16 = 1;

/// A connection of TCP or SCTP, or a flow of UDP.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Tracked {
    pub flow: Flow,
    pub is_replied: bool,
    /// When the entry expires if no packet follows, in whole seconds.
    pub timeout_left: Duration,
    /// Of TCP.
    pub tcp: Option<TcpFlow>,
    /// From and to the client, where `net.netfilter.nf_conntrack_acct` is 1.
    pub sent: Option<Count>,
    pub received: Option<Count>,
    /// Where `net.netfilter.nf_conntrack_timestamp` is 1.
    pub started: Option<SystemTime>,
}

impl Tracked {
    /// Whether nothing follows: the entry only waits for late packets.
    pub fn is_closed(&self) -> bool {
        self.tcp.is_some_and(|tcp| tcp.state == TcpState::Closed)
    }
}

impl Conntrack {
    /// Passes each tracked connection of all protocols to `each`, in one walk of the table. A walk that is interrupted begins
    /// again with an empty `Gathered`.
    pub fn tracked<Gathered: Default>(
        &mut self,
        family: Family,
        mut each: impl FnMut(&mut Gathered, &Tracked),
    ) -> Result<Gathered> {
        let attempted = format!("reading the tracked connections of family {}", family.nft_name());
        self.socket.dump(&mut request(GET, 0, family, |_| {}), &attempted, |gathered, message| {
            read_tracked(message).iter().for_each(|tracked| each(gathered, tracked));
        })
    }

    /// The connection that one direction belongs to, if it is tracked.
    pub fn find_tracked(
        &mut self,
        protocol: u8,
        source: SocketAddr,
        destination: SocketAddr,
    ) -> Result<Option<Tracked>> {
        let mut request = request(GET, 0, Family::of(source.ip()), |writer| {
            write_tuple(writer, REPLY, protocol, source, destination);
        });
        match self.socket.request(&mut request, "reading a tracked connection") {
            Ok(answer) => Ok(Messages::new(&answer).find_map(|message| read_tracked(&message))),
            Err(error) if error.errno() == Some(libc::ENOENT) => Ok(None),
            Err(error) => Err(error),
        }
    }
}

pub(super) fn read_tracked(message: &Message<'_>) -> Option<Tracked> {
    let attributes = message.attributes(PROTOCOL_HEADER);
    let start = attributes.nested(TIMESTAMP).first(TIMESTAMP_START).and_then(|start| start.number_64());
    Some(Tracked {
        flow: read_flow(message)?,
        is_replied: is_replied(message),
        timeout_left: Duration::from_secs(attributes.number_32(TIMEOUT).unwrap_or(0).into()),
        tcp: read_tcp_flow(message),
        sent: count(attributes, COUNTERS_ORIGINAL),
        received: count(attributes, COUNTERS_REPLY),
        started: start.and_then(|nanoseconds| SystemTime::UNIX_EPOCH.checked_add(Duration::from_nanos(nanoseconds))),
    })
}

fn count(attributes: Attributes<'_>, kind: u16) -> Option<Count> {
    let counters = attributes.first(kind)?.nested();
    let number = |kind| counters.first(kind)?.number_64();
    Some(Count { packets: number(COUNTER_PACKETS)?, bytes: number(COUNTER_BYTES)? })
}
