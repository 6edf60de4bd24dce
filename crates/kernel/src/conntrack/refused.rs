//! Connections that are refused: the kernel forgets one whose SYN is answered by a reset, so that no walk of the table finds it.
//! It sends a notification of each entry that goes.

use super::tcp::{TcpState, read_tcp_flow};
use super::{Flow, PROTOCOL_HEADER, STATUS, STATUS_SEEN_REPLY};
use crate::error::Result;
use crate::netlink::{Message, Messages, Received, Socket};
use crate::system::libc;

/// `NFNLGRP_CONNTRACK_DESTROY`
const GROUP: u32 = 3;
const COUNTERS_OF_REPLIES: u16 = 10;
const PACKETS: u16 = 1;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Refused {
    pub flow: Flow,
    /// Whether the reset is certain to come from the other side than the SYN. The kernel knows only if it counts packets
    /// (`net.netfilter.nf_conntrack_acct`).
    pub is_by_server: bool,
}

/// Notifications of refused TCP connections.
pub struct Refusals {
    socket: Socket,
}

impl Refusals {
    pub fn open() -> Result<Self> {
        let socket = Socket::open(libc::NETLINK_NETFILTER)?;
        socket.attach_filter(&without_reply())?;
        socket.subscribe(GROUP)?;
        Ok(Self { socket })
    }

    /// All that have arrived since the last call. Some may be lost if there are very many.
    pub fn take(&mut self) -> Result<Vec<Refused>> {
        let mut refused = Vec::new();
        loop {
            match self.socket.receive("notifications of ended connections")? {
                Received::Nothing => return Ok(refused),
                Received::Overflow => {}
                Received::Messages(bytes) => refused.extend(Messages::new(bytes).filter_map(|it| read(&it))),
            }
        }
    }
}

/// An entry that expires or is deleted stays in its state; a reset closes it.
fn read(message: &Message<'_>) -> Option<Refused> {
    let tcp = read_tcp_flow(message).filter(|tcp| tcp.state == TcpState::Closed && !tcp.is_replied)?;
    let counters = message.attributes(PROTOCOL_HEADER).nested(COUNTERS_OF_REPLIES);
    let replies = counters.first(PACKETS).and_then(|packets| packets.number_64()).unwrap_or(0);
    Some(Refused { flow: tcp.flow, is_by_server: replies > 0 })
}

/// Lets only entries pass that have seen no reply: few, whatever the rate of connections is.
fn without_reply() -> [libc::sock_filter; 9] {
    const FIND_ATTRIBUTE: u32 = (libc::SKF_AD_OFF + libc::SKF_AD_NLATTR).cast_unsigned();
    const HEADERS: u32 = 16 + PROTOCOL_HEADER as u32;
    const VALUE: u32 = 4;
    let statement = |code: u32, operand: u32| instruction(code, operand, 0, 0);
    [
        statement(libc::BPF_LD | libc::BPF_IMM, HEADERS),
        statement(libc::BPF_LDX | libc::BPF_IMM, STATUS.into()),
        statement(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, FIND_ATTRIBUTE),
        instruction(libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K, 0, 4, 0),
        statement(libc::BPF_MISC | libc::BPF_TAX, 0),
        statement(libc::BPF_LD | libc::BPF_W | libc::BPF_IND, VALUE),
        instruction(libc::BPF_JMP | libc::BPF_JSET | libc::BPF_K, STATUS_SEEN_REPLY, 1, 0),
        statement(libc::BPF_RET | libc::BPF_K, u32::MAX),
        statement(libc::BPF_RET | libc::BPF_K, 0),
    ]
}

fn instruction(code: u32, operand: u32, if_true: u8, if_false: u8) -> libc::sock_filter {
    libc::sock_filter { code: code as u16, jt: if_true, jf: if_false, k: operand }
}
