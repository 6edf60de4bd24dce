//! Detects foreign changes of our tables.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use portolan_model::Family;

use super::describe::describe_change;
use super::uapi;
use crate::error::Result;
use crate::netlink::{Message, Messages, Received, Socket};

/// Receives the kernel's notifications of commits, except those of one sender.
pub struct Monitor {
    socket: Socket,
    pending: VecDeque<ForeignChange>,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub enum ForeignChange {
    /// Something in the table of that family changed, for example "deleted chain x".
    Changed { family: Family, what: String },
    /// Notifications were lost, so that anything may have changed.
    Overflow,
}

impl Monitor {
    /// Ignores commits of `ignore_port`, which is [`super::Nftables::port_id`].
    pub fn open(ignore_port: u32) -> Result<Self> {
        let socket = Socket::open(libc::NETLINK_NETFILTER)?;
        // The filter first: a commit between the two calls must not pass.
        socket.attach_filter(&reject_messages_from(ignore_port))?;
        socket.subscribe(uapi::NOTIFICATION_GROUP)?;
        Ok(Monitor { socket, pending: VecDeque::new() })
    }

    /// Waits for a foreign change of the table of that name, in either family; `None` after the timeout. The changes
    /// of one commit are reported once or a few times per family, but not once per object.
    pub fn wait(&mut self, table: &str, timeout: Option<Duration>) -> Result<Option<ForeignChange>> {
        let deadline = timeout.map(|timeout| Instant::now() + timeout);
        loop {
            if let Some(change) = self.pending.pop_front() {
                return Ok(Some(change));
            }
            let left = deadline.map(|end| end.saturating_duration_since(Instant::now()));
            if !self.socket.wait_readable(left)? {
                return Ok(None);
            }
            self.receive(table)?;
        }
    }

    fn receive(&mut self, table: &str) -> Result<()> {
        match self.socket.receive("notifications of changed rules")? {
            Received::Nothing => {}
            Received::Overflow => self.pending.push_back(ForeignChange::Overflow),
            Received::Messages(bytes) => self.pending.extend(changes(bytes, table)),
        }
        Ok(())
    }
}

/// The first change in each family among the messages of one receive.
pub(super) fn changes(bytes: &[u8], table: &str) -> Vec<ForeignChange> {
    let first = |wanted: Family| {
        Messages::new(bytes)
            .filter(|message| is_about(message, wanted, table))
            .find_map(|message| describe_change(&message))
            .map(|what| ForeignChange::Changed { family: wanted, what })
    };
    [Family::V4, Family::V6].into_iter().filter_map(first).collect()
}

fn is_about(message: &Message<'_>, family: Family, table: &str) -> bool {
    let attributes = message.attributes(uapi::PROTOCOL_HEADER);
    message.kind >> 8 == uapi::SUBSYSTEM
        && message.body.first() == Some(&family.number())
        && attributes.string(uapi::TABLE) == Some(table)
}

/// A program that rejects datagrams by the port in the header of their first message. A datagram contains
/// notifications of one commit, never of several.
fn reject_messages_from(port: u32) -> [libc::sock_filter; 4] {
    const PORT_OFFSET: u32 = 12;
    let load = libc::BPF_LD | libc::BPF_W | libc::BPF_ABS;
    let compare = libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K;
    let end = libc::BPF_RET | libc::BPF_K;
    [
        instruction(load, PORT_OFFSET, 0, 0),
        // BPF loads are in network byte order, the header is in native byte order.
        instruction(compare, port.to_be(), 0, 1),
        instruction(end, 0, 0, 0),
        instruction(end, u32::MAX, 0, 0),
    ]
}

fn instruction(code: u32, operand: u32, if_true: u8, if_false: u8) -> libc::sock_filter {
    libc::sock_filter {
        code: u16::try_from(code).expect("instruction codes are small"),
        jt: if_true,
        jf: if_false,
        k: operand,
    }
}
