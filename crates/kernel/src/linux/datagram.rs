//! Datagrams with their local address, so that a reply is sent from the address that the request was sent to.
//!
//! A socket that is bound to all addresses would reply from the address that the route prefers, and neither the
//! client nor connection tracking would match the reply to the request.

use std::io::{Error, ErrorKind, Result};
use std::mem::MaybeUninit;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV4, SocketAddrV6};
use std::os::fd::{AsRawFd, BorrowedFd};

/// The local address of a datagram.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct LocalAddress {
    pub address: IpAddr,
    /// The interface, if the address needs one (IPv6 link-local); 0 otherwise.
    pub interface: u32,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Received {
    pub length: usize,
    pub from: SocketAddr,
    pub at: LocalAddress,
}

/// Room for one control message of either family, with the alignment that the kernel requires.
#[repr(C, align(8))]
struct Control([u8; 64]);

/// Enables the local address of each datagram in `receive`.
pub fn enable_local_address(socket: BorrowedFd<'_>, is_ipv6: bool) -> Result<()> {
    let (level, option) =
        if is_ipv6 { (libc::IPPROTO_IPV6, libc::IPV6_RECVPKTINFO) } else { (libc::IPPROTO_IP, libc::IP_PKTINFO) };
    let value: libc::c_int = 1;
    let length = size_of_val(&value) as libc::socklen_t;
    // SAFETY: the pointer and the length describe a live integer.
    let outcome = unsafe { libc::setsockopt(socket.as_raw_fd(), level, option, (&raw const value).cast(), length) };
    if outcome == 0 { Ok(()) } else { Err(Error::last_os_error()) }
}

/// Receives the next datagram; what does not fit into the buffer is lost.
pub fn receive(socket: BorrowedFd<'_>, buffer: &mut [u8]) -> Result<Received> {
    let mut name = MaybeUninit::<libc::sockaddr_storage>::zeroed();
    let mut control = Control([0; 64]);
    let mut piece = libc::iovec { iov_base: buffer.as_mut_ptr().cast(), iov_len: buffer.len() };
    let mut message = message(&mut piece, &mut control);
    message.msg_name = name.as_mut_ptr().cast();
    message.msg_namelen = size_of::<libc::sockaddr_storage>() as libc::socklen_t;
    // SAFETY: every pointer of the message refers to a live value of the length beside it.
    let length = unsafe { libc::recvmsg(socket.as_raw_fd(), &raw mut message, 0) };
    let length = usize::try_from(length).map_err(|_| Error::last_os_error())?;
    // SAFETY: it was zeroed, and consists of plain numbers.
    let from = socket_address(unsafe { name.assume_init_ref() });
    match (from, local_address(&message)) {
        (Some(from), Some(at)) => Ok(Received { length, from, at }),
        _ => Err(Error::new(ErrorKind::InvalidData, "a datagram has no addresses")),
    }
}

/// Sends a datagram from that local address.
pub fn send(socket: BorrowedFd<'_>, content: &[u8], to: SocketAddr, from: LocalAddress) -> Result<()> {
    let mut control = Control([0; 64]);
    let mut piece = libc::iovec { iov_base: content.as_ptr().cast_mut().cast(), iov_len: content.len() };
    let mut message = message(&mut piece, &mut control);
    let (mut name, length) = socket_name(to);
    message.msg_name = (&raw mut name).cast();
    message.msg_namelen = length;
    message.msg_controllen = write_local_address(&message, from) as _;
    // SAFETY: every pointer of the message refers to a live value of the length beside it; the content is only read,
    // though the type of the field does not express that.
    match unsafe { libc::sendmsg(socket.as_raw_fd(), &raw const message, libc::MSG_NOSIGNAL) } {
        sent if sent >= 0 => Ok(()),
        _ => Err(Error::last_os_error()),
    }
}

/// A message of one buffer. It must not outlive what it points to.
fn message(piece: &mut libc::iovec, control: &mut Control) -> libc::msghdr {
    // SAFETY: all zeroes is an empty message.
    let mut message: libc::msghdr = unsafe { MaybeUninit::zeroed().assume_init() };
    message.msg_iov = piece;
    message.msg_iovlen = 1;
    message.msg_control = control.0.as_mut_ptr().cast();
    message.msg_controllen = control.0.len() as _;
    message
}

pub(crate) fn local_address(message: &libc::msghdr) -> Option<LocalAddress> {
    // SAFETY: the kernel has written the control messages; each header and its content lie in the buffer.
    unsafe {
        let mut header = libc::CMSG_FIRSTHDR(message);
        while let Some(found) = header.as_ref() {
            let content = libc::CMSG_DATA(header);
            match (found.cmsg_level, found.cmsg_type) {
                (libc::IPPROTO_IP, libc::IP_PKTINFO) => return Some(from_ipv4(content.cast())),
                (libc::IPPROTO_IPV6, libc::IPV6_PKTINFO) => return Some(from_ipv6(content.cast())),
                _ => header = libc::CMSG_NXTHDR(message, header),
            }
        }
    }
    None
}

/// # Safety
/// The content must be that of an IP_PKTINFO message.
unsafe fn from_ipv4(content: *const libc::in_pktinfo) -> LocalAddress {
    // SAFETY: by the contract above; the buffer's alignment is not relied on.
    let info = unsafe { content.read_unaligned() };
    LocalAddress { address: Ipv4Addr::from(u32::from_be(info.ipi_spec_dst.s_addr)).into(), interface: 0 }
}

/// # Safety
/// The content must be that of an IPV6_PKTINFO message.
unsafe fn from_ipv6(content: *const libc::in6_pktinfo) -> LocalAddress {
    // SAFETY: by the contract above; the buffer's alignment is not relied on.
    let info = unsafe { content.read_unaligned() };
    let address = Ipv6Addr::from(info.ipi6_addr.s6_addr);
    let interface = if address.is_unicast_link_local() { info.ipi6_ifindex } else { 0 };
    LocalAddress { address: address.into(), interface }
}

/// Writes the source address into the control buffer of the message, and returns the used length.
fn write_local_address(message: &libc::msghdr, from: LocalAddress) -> usize {
    match from.address {
        IpAddr::V4(address) => {
            let address = libc::in_addr { s_addr: u32::from(address).to_be() };
            let nowhere = libc::in_addr { s_addr: 0 };
            let info = libc::in_pktinfo { ipi_ifindex: 0, ipi_spec_dst: address, ipi_addr: nowhere };
            write_control(message, libc::IPPROTO_IP, libc::IP_PKTINFO, info)
        }
        IpAddr::V6(address) => {
            let address = libc::in6_addr { s6_addr: address.octets() };
            let info = libc::in6_pktinfo { ipi6_addr: address, ipi6_ifindex: from.interface };
            write_control(message, libc::IPPROTO_IPV6, libc::IPV6_PKTINFO, info)
        }
    }
}

fn write_control<T>(message: &libc::msghdr, level: libc::c_int, kind: libc::c_int, content: T) -> usize {
    let length = size_of::<T>() as libc::c_uint;
    // SAFETY: the buffer of 64 bytes has room for a header and either content (at most 16 + 24 bytes).
    unsafe {
        let header = libc::CMSG_FIRSTHDR(message);
        (*header).cmsg_level = level;
        (*header).cmsg_type = kind;
        (*header).cmsg_len = libc::CMSG_LEN(length) as _;
        libc::CMSG_DATA(header).cast::<T>().write_unaligned(content);
        libc::CMSG_SPACE(length) as usize
    }
}

pub(crate) fn socket_address(name: &libc::sockaddr_storage) -> Option<SocketAddr> {
    let name = &raw const *name;
    // SAFETY: the family says which of the two the storage holds, and it is large enough for both.
    unsafe {
        match i32::from((*name).ss_family) {
            libc::AF_INET => {
                let name = &*name.cast::<libc::sockaddr_in>();
                let address = Ipv4Addr::from(u32::from_be(name.sin_addr.s_addr));
                Some(SocketAddrV4::new(address, u16::from_be(name.sin_port)).into())
            }
            libc::AF_INET6 => {
                let name = &*name.cast::<libc::sockaddr_in6>();
                let address = Ipv6Addr::from(name.sin6_addr.s6_addr);
                Some(SocketAddrV6::new(address, u16::from_be(name.sin6_port), 0, name.sin6_scope_id).into())
            }
            _ => None,
        }
    }
}

fn socket_name(address: SocketAddr) -> (libc::sockaddr_storage, libc::socklen_t) {
    // SAFETY: all zeroes is an address of no family.
    let mut name: libc::sockaddr_storage = unsafe { MaybeUninit::zeroed().assume_init() };
    let place = &raw mut name;
    match address {
        SocketAddr::V4(address) => {
            let content = libc::sockaddr_in {
                sin_family: libc::AF_INET as libc::sa_family_t,
                sin_port: address.port().to_be(),
                sin_addr: libc::in_addr { s_addr: u32::from(*address.ip()).to_be() },
                sin_zero: [0; 8],
            };
            // SAFETY: the storage is large enough, and aligned, for every kind of address.
            unsafe { place.cast::<libc::sockaddr_in>().write(content) };
            (name, size_of::<libc::sockaddr_in>() as libc::socklen_t)
        }
        SocketAddr::V6(address) => {
            let content = libc::sockaddr_in6 {
                sin6_family: libc::AF_INET6 as libc::sa_family_t,
                sin6_port: address.port().to_be(),
                sin6_flowinfo: 0,
                sin6_addr: libc::in6_addr { s6_addr: address.ip().octets() },
                sin6_scope_id: address.scope_id(),
            };
            // SAFETY: as above.
            unsafe { place.cast::<libc::sockaddr_in6>().write(content) };
            (name, size_of::<libc::sockaddr_in6>() as libc::socklen_t)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::UdpSocket;
    use std::os::fd::AsFd;

    fn replies_from(wildcard: &str, address: &str) {
        let socket = UdpSocket::bind((wildcard, 0)).unwrap();
        let address: IpAddr = address.parse().unwrap();
        enable_local_address(socket.as_fd(), address.is_ipv6()).unwrap();
        let client = UdpSocket::bind((address, 0)).unwrap();
        client.connect((address, socket.local_addr().unwrap().port())).unwrap();
        client.send(b"question").unwrap();

        let mut buffer = [0; 100];
        let received = receive(socket.as_fd(), &mut buffer).unwrap();
        let at = LocalAddress { address, interface: 0 };
        assert_eq!(received, Received { length: 8, from: client.local_addr().unwrap(), at });

        send(socket.as_fd(), b"answer", received.from, received.at).unwrap();
        // A connected socket takes only what comes from its peer.
        assert_eq!(client.recv(&mut buffer).unwrap(), 6);
        assert_eq!(&buffer[..6], b"answer");
    }

    #[test]
    fn a_reply_is_sent_from_the_address_of_the_request() {
        replies_from("0.0.0.0", "127.0.0.9");
        replies_from("::", "::1");
    }
}
