//! What connection tracking knows of a TCP connection.

use std::net::SocketAddr;
use std::time::Duration;

use portolan_model::Family;

use super::tuple::{write_protocol, write_tuple};
use super::{
    Conntrack, DELETE, FILTER, Flow, GET, ORIGINAL, PROTOCOL_HEADER, REPLY, STATUS, TIMEOUT, header, protocol_header,
    read_flow, request,
};
use crate::error::Result;
use crate::netlink::{Message, MessageWriter, Messages, Series};
use crate::system::libc;

const TCP: u8 = 6;
const PROTOCOL_INFORMATION: u16 = 4;
const INFORMATION_OF_TCP: u16 = 1;
const STATE: u16 = 1;
const ID: u16 = 12;
const STATUS_SEEN_REPLY: u32 = 1 << 1;
const STATUS_ASSURED: u32 = 1 << 2;
const STATUS_OFFLOADED: u32 = 1 << 14;

/// A tracked TCP connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TcpFlow {
    pub flow: Flow,
    /// Another connection between the same addresses and ports has another number.
    pub id: TcpFlowId,
    pub state: TcpState,
    pub is_replied: bool,
    /// It has been established, so that a full table does not evict it.
    pub is_assured: bool,
    /// Its packets pass by a flow table, so that its timeout says nothing about them.
    pub is_offloaded: bool,
    /// When the entry expires if no packet follows, in whole seconds.
    pub timeout_left: Duration,
}

/// The number of an entry, as `ct id` of nf_tables has it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct TcpFlowId(pub [u8; 4]);

/// As the kernel numbers them, by the packets of both directions.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TcpState {
    /// A SYN without answer, of one side or of both.
    Opening,
    /// A SYN and its answer.
    Answered,
    Established,
    /// One side has sent a FIN, or both.
    Closing,
    /// Nothing follows.
    Closed,
}

impl TcpState {
    fn of_number(number: u8) -> Self {
        match number {
            0 | 1 | 9 => Self::Opening,
            2 => Self::Answered,
            3 => Self::Established,
            4..=6 => Self::Closing,
            _ => Self::Closed,
        }
    }
}

impl Conntrack {
    /// Passes each tracked TCP connection to `each`, in one walk of the table. A walk that is interrupted begins again with an
    /// empty `Gathered`.
    pub fn tcp_flows<Gathered: Default>(
        &mut self,
        family: Family,
        mut each: impl FnMut(&mut Gathered, &TcpFlow),
    ) -> Result<Gathered> {
        let mut request = request(GET, 0, family, |writer| write_protocol(writer, ORIGINAL, FILTER, TCP));
        let attempted = format!("reading the tracked TCP connections of family {}", family.nft_name());
        self.socket.dump(&mut request, &attempted, |gathered, message| {
            read_tcp_flow(message).iter().for_each(|flow| each(gathered, flow));
        })
    }

    /// The TCP connection that one direction belongs to, if it is tracked.
    pub fn find_tcp(&mut self, source: SocketAddr, destination: SocketAddr) -> Result<Option<TcpFlow>> {
        let mut request = request(GET, 0, Family::of(source.ip()), |writer| {
            write_tuple(writer, REPLY, TCP, source, destination);
        });
        match self.socket.request(&mut request, "reading a tracked TCP connection") {
            Ok(answer) => Ok(Messages::new(&answer).find_map(|message| read_tcp_flow(&message))),
            Err(error) if error.errno() == Some(libc::ENOENT) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Deletes these connections, and no later one between the same addresses and ports. Returns how many still existed.
    pub fn delete_tcp(&mut self, flows: &[TcpFlow]) -> Result<usize> {
        let mut series = Series::default();
        for flow in flows {
            let family = protocol_header(flow.flow.family());
            series.push(String::new(), &[libc::ENOENT], header(DELETE, 0), &family, |writer| {
                write_deletion(writer, flow);
            });
        }
        let gone = self.socket.perform(series, "deleting tracked TCP connections")?;
        Ok(flows.len() - gone.len())
    }
}

fn write_deletion(writer: &mut MessageWriter, TcpFlow { flow, id, .. }: &TcpFlow) {
    write_tuple(writer, ORIGINAL, TCP, flow.original_source, flow.original_destination);
    writer.attribute(ID, &id.0);
}

/// An entry that was added by another program may have no state.
pub(super) fn read_tcp_flow(message: &Message<'_>) -> Option<TcpFlow> {
    let flow = read_flow(message).filter(|flow| flow.protocol == TCP)?;
    let attributes = message.attributes(PROTOCOL_HEADER);
    let status = attributes.number_32(STATUS).unwrap_or(0);
    let state = attributes.nested(PROTOCOL_INFORMATION).nested(INFORMATION_OF_TCP).first(STATE);
    let id = attributes.first(ID).and_then(|id| id.value.try_into().ok()).unwrap_or_default();
    Some(TcpFlow {
        flow,
        id: TcpFlowId(id),
        state: TcpState::of_number(state.and_then(|state| state.number_8()).unwrap_or(0)),
        is_replied: status & STATUS_SEEN_REPLY != 0,
        is_assured: status & STATUS_ASSURED != 0,
        is_offloaded: status & STATUS_OFFLOADED != 0,
        timeout_left: Duration::from_secs(attributes.number_32(TIMEOUT).unwrap_or(0).into()),
    })
}
