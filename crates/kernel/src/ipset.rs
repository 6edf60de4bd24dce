//! IP sets (`ipset list`), as far as taking others' away needs.

use crate::error::{Error, Result};
use crate::netlink::{Header, MessageWriter, Socket, flags};

const SUBSYSTEM: u16 = 6;
const DESTROY: u16 = 3;
/// Asks for one set's header, which is the cheapest way to learn whether it is there.
const HEADER: u16 = 12;
const PROTOCOL: u16 = 1;
const SET_NAME: u16 = 2;
/// The oldest version of the protocol that all kernels in use speak.
const PROTOCOL_VERSION: u8 = 6;
/// `struct nfgenmsg` with the family IPv4, which these requests do not mind.
const PROTOCOL_HEADER: [u8; 4] = [2, 0, 0, 0];
/// `IPSET_ERR_BUSY`: a rule still refers to the set.
const BUSY: i32 = 4103;

/// The IP sets of the network namespace that the handle was opened in.
pub struct IpSets {
    socket: Socket,
}

impl IpSets {
    pub fn open() -> Result<Self> {
        Ok(IpSets { socket: Socket::open(libc::NETLINK_NETFILTER)? })
    }

    /// Whether there is a set of that name; false also if the kernel has no sets at all.
    pub fn exists(&mut self, name: &str) -> Result<bool> {
        found(self.request(HEADER, name, &format!("reading the IP set {name}")))
    }

    /// Deletes the set; false if there was none.
    pub fn destroy(&mut self, name: &str) -> Result<bool> {
        found(self.request(DESTROY, name, &format!("the deletion of the IP set {name}")))
    }

    fn request(&mut self, kind: u16, name: &str, attempted: &str) -> Result<()> {
        let mut request = MessageWriter::default();
        let header = Header { kind: SUBSYSTEM << 8 | kind, flags: flags::REQUEST };
        request.message(header, &PROTOCOL_HEADER, |writer| {
            writer.attribute(PROTOCOL, &[PROTOCOL_VERSION]);
            writer.string(SET_NAME, name);
        });
        self.socket.request(&mut request, attempted).map(drop)
    }
}

/// A rule still refers to the set, so that it cannot be deleted yet.
pub fn is_in_use(error: &Error) -> bool {
    error.errno() == Some(BUSY)
}

/// The kernel answers EINVAL for a whole subsystem that it does not have.
fn found(answer: Result<()>) -> Result<bool> {
    match answer {
        Err(error) if matches!(error.errno(), Some(libc::ENOENT | libc::EINVAL)) => Ok(false),
        answer => answer.map(|()| true),
    }
}
