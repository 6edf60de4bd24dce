//! The connection tracking table of a host, flushed by one netlink message.

use std::io::{self, Read};

use socket2::{Domain, Protocol, Socket, Type};

use super::host::Host;

const AF_NETLINK: i32 = 16;
const NETLINK_NETFILTER: i32 = 12;
/// `NFNL_SUBSYS_CTNETLINK << 8 | IPCTNL_MSG_CT_DELETE`.
const CONNTRACK_DELETE: u16 = 1 << 8 | 2;
/// `NLM_F_REQUEST | NLM_F_ACK`.
const REQUEST_AND_ACKNOWLEDGE: u16 = 1 | 4;
const MESSAGE_LENGTH: u32 = 20;

/// A delete request without a tuple deletes the connections of all families.
pub(super) fn flush(host: &Host) -> io::Result<()> {
    let mut socket = host.run(open)?;
    socket.send(&request())?;
    let mut reply = [0; 128];
    let length = socket.read(&mut reply)?;
    errno(&reply[..length])
}

fn open() -> io::Result<Socket> {
    Socket::new_raw(Domain::from(AF_NETLINK), Type::RAW, Some(Protocol::from(NETLINK_NETFILTER)))
}

/// A netlink header and an empty `nfgenmsg`: sequence, port, family, version and resource are all zero.
fn request() -> Vec<u8> {
    let mut message = MESSAGE_LENGTH.to_ne_bytes().to_vec();
    message.extend(CONNTRACK_DELETE.to_ne_bytes());
    message.extend(REQUEST_AND_ACKNOWLEDGE.to_ne_bytes());
    message.resize(MESSAGE_LENGTH as usize, 0);
    message
}

/// The acknowledgement holds the negative error number behind its header.
fn errno(reply: &[u8]) -> io::Result<()> {
    let code = reply.get(16..20).and_then(|bytes| bytes.try_into().ok()).map(i32::from_ne_bytes);
    match code {
        Some(0) => Ok(()),
        Some(code) => Err(io::Error::from_raw_os_error(-code)),
        None => Err(io::Error::new(io::ErrorKind::InvalidData, "the acknowledgement is too short")),
    }
}
