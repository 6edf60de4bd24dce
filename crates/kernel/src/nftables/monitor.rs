//! Detects foreign changes of our tables.

use std::collections::{BTreeMap, VecDeque};
use std::time::{Duration, Instant};

use portolan_model::Family;

use super::describe::describe_change;
use super::uapi::{self, message as kind};
use crate::error::Result;
use crate::netlink::{Attributes, Message, Messages, Received, Socket};
use crate::system::libc;

/// Receives the kernel's notifications of commits.
pub struct Monitor {
    socket: Socket,
    commit: Commit,
    pending: VecDeque<ForeignChange>,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub enum ForeignChange {
    /// Something in the table of that family changed, for example "deleted chain x", by the commit with that number. The
    /// process is `nft (pid 4711)`, as the kernel has it.
    Changed { family: Family, what: String, generation: u32, process: Option<String> },
    /// Notifications were lost, so that anything may have changed.
    Overflow,
}

/// What one notification is about.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Notice<'a> {
    /// The netlink port of the process that committed.
    pub port: u32,
    pub family: Family,
    pub table: &'a str,
    /// The chain that changed, or whose rule changed.
    pub chain: Option<&'a str>,
    /// The chain that the changed rule jumps to.
    pub target: Option<&'a str>,
}

impl Monitor {
    /// Ignores commits of `ignore_port`, which is [`super::Nftables::port_id`].
    pub fn open(ignore_port: u32) -> Result<Self> {
        Self::open_with(Some(ignore_port))
    }

    /// Receives the commits of all processes.
    pub fn open_for_all() -> Result<Self> {
        Self::open_with(None)
    }

    fn open_with(ignore_port: Option<u32>) -> Result<Self> {
        let socket = Socket::open(libc::NETLINK_NETFILTER)?;
        // The filter first: a commit between the two calls must not pass.
        if let Some(port) = ignore_port {
            socket.attach_filter(&reject_messages_from(port))?;
        }
        socket.subscribe(uapi::NOTIFICATION_GROUP)?;
        Ok(Monitor { socket, commit: Commit::default(), pending: VecDeque::new() })
    }

    /// Waits for a foreign change of the table of that name, in either family; `None` after the timeout.
    pub fn wait(&mut self, table: &str, timeout: Option<Duration>) -> Result<Option<ForeignChange>> {
        self.wait_for(timeout, &mut |notice| notice.table == table)
    }

    /// Waits for the end of a commit with a change that `is_wanted`. Each commit is reported once for each family, with the
    /// first of these changes; `is_wanted` has seen all of them by then.
    pub fn wait_for(
        &mut self,
        timeout: Option<Duration>,
        is_wanted: &mut dyn FnMut(&Notice<'_>) -> bool,
    ) -> Result<Option<ForeignChange>> {
        let deadline = timeout.map(|timeout| Instant::now() + timeout);
        loop {
            if let Some(change) = self.pending.pop_front() {
                return Ok(Some(change));
            }
            let left = deadline.map(|end| end.saturating_duration_since(Instant::now()));
            if !self.socket.wait_readable(left)? {
                return Ok(None);
            }
            self.receive(is_wanted)?;
        }
    }

    fn receive(&mut self, is_wanted: &mut dyn FnMut(&Notice<'_>) -> bool) -> Result<()> {
        match self.socket.receive("notifications of changed rules")? {
            Received::Nothing => {}
            Received::Overflow => {
                self.commit = Commit::default();
                self.pending.push_back(ForeignChange::Overflow);
            }
            Received::Messages(bytes) => {
                let messages = Messages::new(bytes);
                self.pending.extend(messages.flat_map(|message| self.commit.take(&message, is_wanted)));
            }
        }
        Ok(())
    }
}

/// The first wanted change in each family of a commit whose last notification has not arrived.
#[derive(Default)]
pub(super) struct Commit(BTreeMap<Family, String>);

impl Commit {
    /// Returns the changes with the last notification, which has the number of the commit.
    pub(super) fn take(
        &mut self,
        message: &Message<'_>,
        is_wanted: &mut dyn FnMut(&Notice<'_>) -> bool,
    ) -> Vec<ForeignChange> {
        if let Some(generation) = generation(message) {
            let (changes, process) = (std::mem::take(&mut self.0).into_iter(), process(message));
            let change = |(family, what)| ForeignChange::Changed { family, what, generation, process: process.clone() };
            return changes.map(change).collect();
        }
        if let Some(notice) = notice(message)
            && is_wanted(&notice)
            && !self.0.contains_key(&notice.family)
        {
            self.0.extend(describe_change(message).map(|what| (notice.family, what)));
        }
        Vec::new()
    }
}

/// The number of the commit, in the last notification about it.
fn generation(message: &Message<'_>) -> Option<u32> {
    let is_last = message.kind == uapi::SUBSYSTEM << 8 | kind::NEW_GENERATION;
    message.attributes(uapi::PROTOCOL_HEADER).number_32(uapi::GENERATION_ID).filter(|_| is_last)
}

/// The process that committed, in the same notification.
fn process(message: &Message<'_>) -> Option<String> {
    let attributes = message.attributes(uapi::PROTOCOL_HEADER);
    let number = attributes.number_32(uapi::GENERATION_PROCESS)?;
    Some(format!("{} (pid {number})", attributes.string(uapi::GENERATION_PROCESS_NAME)?))
}

fn notice<'a>(message: &Message<'a>) -> Option<Notice<'a>> {
    if message.kind >> 8 != uapi::SUBSYSTEM {
        return None;
    }
    let attributes = message.attributes(uapi::PROTOCOL_HEADER);
    let (chain, target) = match message.kind & 0xff {
        kind::NEW_CHAIN | kind::DELETE_CHAIN => (attributes.string(uapi::chain::NAME), None),
        kind::NEW_RULE | kind::DELETE_RULE => (attributes.string(uapi::rule::CHAIN), jump_target(attributes)),
        _ => (None, None),
    };
    let family = Family::from_number(*message.body.first()?)?;
    Some(Notice { port: message.port, family, table: attributes.string(uapi::TABLE)?, chain, target })
}

/// The chain in the verdict of a rule.
fn jump_target(rule: Attributes<'_>) -> Option<&str> {
    let mut expressions = rule.nested(uapi::rule::EXPRESSIONS);
    expressions.find_map(|expression| {
        let expression = expression.nested();
        let is_verdict = expression.string(uapi::expression::NAME) == Some("immediate");
        let data = expression.nested(uapi::expression::DATA).nested(uapi::expression::IMMEDIATE_DATA);
        data.nested(uapi::data::VERDICT).string(uapi::data::VERDICT_CHAIN).filter(|_| is_verdict)
    })
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
