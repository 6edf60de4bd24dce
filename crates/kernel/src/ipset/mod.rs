//! IP sets (`ipset list`), over nfnetlink.

mod codec;
mod entry;
pub(crate) mod fuzz;
mod set;

use std::collections::BTreeMap;

use crate::error::{Error, Result};
use crate::netlink::{Header, Message, MessageWriter, Series, Socket, flags};
use crate::system::libc;

use codec::PROTOCOL_HEADER;

pub use entry::Entry;
pub use set::{Set, SetType};

const SUBSYSTEM: u16 = 6;
/// `IPSET_ERR_BUSY`: a rule still refers to the set.
const BUSY: i32 = 4103;

mod command {
    pub(super) const CREATE: u16 = 2;
    pub(super) const DESTROY: u16 = 3;
    pub(super) const FLUSH: u16 = 4;
    pub(super) const LIST: u16 = 7;
    pub(super) const ADD: u16 = 9;
    pub(super) const DELETE: u16 = 10;
    /// Requests the header of one set, the cheapest way to learn whether it exists.
    pub(super) const HEADER: u16 = 12;
}

/// The IP sets of the network namespace that the handle was opened in.
pub struct IpSets {
    socket: Socket,
    sent: usize,
}

impl IpSets {
    pub fn open() -> Result<Self> {
        Ok(IpSets { socket: Socket::open(libc::NETLINK_NETFILTER)?, sent: 0 })
    }

    /// The number of requests that this handle has sent.
    pub fn requests_sent(&self) -> usize {
        self.sent
    }

    /// Whether there is a set of that name; false also if the kernel has no IP sets.
    pub fn exists(&mut self, name: &str) -> Result<bool> {
        found(self.request(command::HEADER, name, &format!("reading the IP set {name}")))
    }

    /// Deletes the set; false if there was none.
    pub fn destroy(&mut self, name: &str) -> Result<bool> {
        found(self.request(command::DESTROY, name, &format!("the deletion of the IP set {name}")))
    }

    /// Deletes all entries of the set; false if there is no such set.
    pub fn flush(&mut self, name: &str) -> Result<bool> {
        found(self.request(command::FLUSH, name, &format!("flushing the IP set {name}")))
    }

    /// `None` if there is no such set.
    pub fn list(&mut self, name: &str) -> Result<Option<Set>> {
        let mut request = MessageWriter::default();
        request.message(header(command::LIST), &PROTOCOL_HEADER, |writer| codec::write_name(writer, name));
        self.sent += 1;
        let gather = |set: &mut Option<Set>, message: &Message<'_>| codec::read_set(message, set);
        match self.socket.dump(&mut request, &format!("reading the IP set {name}"), gather) {
            Err(error) if is_absent(&error) => Ok(None),
            answer => answer,
        }
    }

    /// The number of entries of every set, without the entries; empty if the kernel has no IP sets.
    pub fn sizes(&mut self) -> Result<BTreeMap<String, u32>> {
        let mut request = MessageWriter::default();
        request.message(header(command::LIST), &PROTOCOL_HEADER, codec::write_headers_only);
        self.sent += 1;
        let gather = |sizes: &mut BTreeMap<_, _>, message: &Message<'_>| sizes.extend(codec::read_size(message));
        match self.socket.dump(&mut request, "reading the sizes of the IP sets", gather) {
            Err(error) if is_absent(&error) => Ok(BTreeMap::new()),
            answer => answer,
        }
    }

    /// Performs all requests, in their order.
    pub fn perform(&mut self, requests: Requests) -> Result<()> {
        self.sent += requests.0.len();
        self.socket.perform(requests.0, "a change of IP sets").map(drop)
    }

    fn request(&mut self, command: u16, name: &str, attempted: &str) -> Result<()> {
        let mut request = MessageWriter::default();
        request.message(header(command), &PROTOCOL_HEADER, |writer| codec::write_name(writer, name));
        // Without this, newer kernels report success for the deletion of a missing set.
        request.add_flags_to_last(flags::EXCLUSIVE);
        self.sent += 1;
        self.socket.request(&mut request, attempted).map(drop)
    }
}

/// Changes to sets. Adding what exists and deleting what does not is no error.
#[derive(Default)]
pub struct Requests(Series);

impl Requests {
    pub fn create(&mut self, name: &str, kind: SetType, is_ipv6: bool) {
        let what = format!("create set {name} of type {kind}");
        self.0.push(what, &[], header(command::CREATE), &PROTOCOL_HEADER, |writer| {
            codec::write_creation(writer, name, kind, is_ipv6);
        });
    }

    pub fn destroy(&mut self, name: &str) {
        let what = format!("destroy set {name}");
        self.0.push(what, &[libc::ENOENT], header(command::DESTROY), &PROTOCOL_HEADER, |writer| {
            codec::write_name(writer, name);
        });
    }

    pub fn add(&mut self, name: &str, entry: &Entry) {
        self.entry(command::ADD, "add", name, entry);
    }

    pub fn delete(&mut self, name: &str, entry: &Entry) {
        self.entry(command::DELETE, "delete", name, entry);
    }

    pub fn len(&self) -> usize {
        self.0.len()
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    fn entry(&mut self, command: u16, verb: &str, name: &str, entry: &Entry) {
        let what = format!("{verb} {entry} in set {name}");
        self.0.push(what, &[], header(command), &PROTOCOL_HEADER, |writer| codec::write_entry(writer, name, entry));
    }
}

fn header(command: u16) -> Header {
    Header { kind: SUBSYSTEM << 8 | command, flags: flags::REQUEST }
}

/// A rule still refers to the set, so that it cannot be deleted yet.
pub fn is_in_use(error: &Error) -> bool {
    error.errno() == Some(BUSY)
}

/// The kernel returns EINVAL for a subsystem that it does not have.
fn is_absent(error: &Error) -> bool {
    matches!(error.errno(), Some(libc::ENOENT | libc::EINVAL))
}

fn found(answer: Result<()>) -> Result<bool> {
    match answer {
        Err(error) if is_absent(&error) => Ok(false),
        answer => answer.map(|()| true),
    }
}
