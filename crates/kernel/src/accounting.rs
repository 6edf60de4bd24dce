//! nfacct: named packet counters of iptables rules (`nfacct list`).

use crate::error::Result;
use crate::netlink::{Attributes, Header, MessageWriter, Messages, Socket, flags};
use crate::system::libc;

const SUBSYSTEM: u16 = 7;
const NEW: u16 = 0;
const GET: u16 = 1;
const DELETE: u16 = 3;
const NAME: u16 = 1;
const PACKETS: u16 = 2;
/// `struct nfgenmsg`; these requests ignore the family.
const PROTOCOL_HEADER: [u8; 4] = [0; 4];

/// The counters of the network namespace that the handle was opened in.
pub struct Accounting {
    socket: Socket,
}

impl Accounting {
    pub fn open() -> Result<Self> {
        Ok(Self { socket: Socket::open(libc::NETLINK_NETFILTER)? })
    }

    /// Creates a counter unless it exists; false if the kernel has no nfacct.
    pub fn ensure(&mut self, name: &str) -> Result<bool> {
        let attempted = format!("creating the counter {name}");
        match self.request(NEW, flags::CREATE | flags::EXCLUSIVE, name, &attempted) {
            Err(error) if error.errno() == Some(libc::EEXIST) => Ok(true),
            Err(error) if is_missing(error.errno()) => Ok(false),
            answer => answer.map(|_| true),
        }
    }

    /// The number of packets; `None` if there is no such counter.
    pub fn packets(&mut self, name: &str) -> Result<Option<u64>> {
        match self.request(GET, 0, name, &format!("reading the counter {name}")) {
            Err(error) if is_missing(error.errno()) => Ok(None),
            answer => Ok(packets(&answer?)),
        }
    }

    /// Deletes a counter; false if there is none, or if a rule still uses it.
    pub fn delete(&mut self, name: &str) -> Result<bool> {
        match self.request(DELETE, 0, name, &format!("deleting the counter {name}")) {
            Err(error) if is_missing(error.errno()) || error.errno() == Some(libc::EBUSY) => Ok(false),
            answer => answer.map(|_| true),
        }
    }

    fn request(&mut self, kind: u16, more: u16, name: &str, attempted: &str) -> Result<Vec<u8>> {
        let mut request = MessageWriter::default();
        let header = Header { kind: SUBSYSTEM << 8 | kind, flags: flags::REQUEST | more };
        request.message(header, &PROTOCOL_HEADER, |writer| writer.string(NAME, name));
        self.socket.request(&mut request, attempted)
    }
}

pub(crate) fn packets(answer: &[u8]) -> Option<u64> {
    let attributes: Vec<Attributes<'_>> =
        Messages::new(answer).map(|message| message.attributes(PROTOCOL_HEADER.len())).collect();
    attributes.into_iter().find_map(|it| it.first(PACKETS)?.number_64())
}

/// The kernel returns EINVAL for a subsystem that it does not have.
fn is_missing(errno: Option<i32>) -> bool {
    matches!(errno, Some(libc::ENOENT | libc::EINVAL | libc::EOPNOTSUPP))
}
