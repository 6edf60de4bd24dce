//! TCP segments without data, sent for one side of a tracked connection to the other.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

use portolan_model::Family;

use crate::error::{Error, Result};

/// Which segment provokes an answer. Each belongs to the beginning of a connection: a peer whose connection is established
/// answers with an ACK that has its current numbers (RFC 5961, section 4), and connection tracking lets it pass.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Segment {
    /// As from the client.
    Syn,
    /// As from the server.
    SynAck,
}

impl Segment {
    fn flags(self) -> u8 {
        match self {
            Self::Syn => 0x02,
            Self::SynAck => 0x12,
        }
    }
}

/// The priority of packets that a [`SegmentSender`] sends. Rules recognize them by it; routing does not regard it. The lowest
/// byte selects the queue that packets without a priority have.
pub const PRIORITY: u32 = 0x506f_7200;

/// A raw socket, which needs `CAP_NET_RAW`.
pub struct SegmentSender {
    descriptor: OwnedFd,
    family: Family,
}

impl SegmentSender {
    /// In the network namespace of the calling thread.
    pub fn open(family: Family) -> Result<Self> {
        let domain = if family == Family::V4 { libc::AF_INET } else { libc::AF_INET6 };
        let kind = libc::SOCK_RAW | libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK;
        // SAFETY: takes no pointers. With IPPROTO_RAW, packets come with their headers, and none are received.
        let descriptor = unsafe { libc::socket(domain, kind, libc::IPPROTO_RAW) };
        if descriptor < 0 {
            return Err(Error::last("opening a raw socket"));
        }
        // SAFETY: the descriptor is open and belongs to nothing else.
        let sender = Self { descriptor: unsafe { OwnedFd::from_raw_fd(descriptor) }, family };
        sender.set_priority()?;
        Ok(sender)
    }

    fn set_priority(&self) -> Result<()> {
        let descriptor = self.descriptor.as_raw_fd();
        let (pointer, length) = (std::ptr::from_ref(&PRIORITY).cast(), size_of::<u32>() as libc::socklen_t);
        // SAFETY: the pointer and the length describe a live value that the kernel only reads.
        let status = unsafe { libc::setsockopt(descriptor, libc::SOL_SOCKET, libc::SO_PRIORITY, pointer, length) };
        if status < 0 { Err(Error::last("setting the priority of a raw socket")) } else { Ok(()) }
    }

    /// Both addresses are of the socket's family.
    pub fn send(&self, segment: Segment, source: SocketAddr, destination: SocketAddr, sequence: u32) -> Result<()> {
        let packet = packet(segment, source, destination, sequence);
        let attempted = || format!("sending a TCP segment from {source} to {destination}");
        match (self.family, destination.ip()) {
            (Family::V4, IpAddr::V4(address)) => {
                // SAFETY: all fields of the structure may be zero.
                let mut peer: libc::sockaddr_in = unsafe { std::mem::zeroed() };
                peer.sin_family = libc::AF_INET as libc::sa_family_t;
                peer.sin_addr.s_addr = u32::from_ne_bytes(address.octets());
                self.send_to(&packet, &peer).map_err(|error| Error::io(attempted(), error))
            }
            (Family::V6, IpAddr::V6(address)) => {
                // SAFETY: as above.
                let mut peer: libc::sockaddr_in6 = unsafe { std::mem::zeroed() };
                peer.sin6_family = libc::AF_INET6 as libc::sa_family_t;
                peer.sin6_addr.s6_addr = address.octets();
                self.send_to(&packet, &peer).map_err(|error| Error::io(attempted(), error))
            }
            _ => Err(Error::io(attempted(), io::Error::from_raw_os_error(libc::EAFNOSUPPORT))),
        }
    }

    fn send_to<Address>(&self, packet: &[u8], peer: &Address) -> io::Result<()> {
        let descriptor = self.descriptor.as_raw_fd();
        let (pointer, length) = (std::ptr::from_ref(peer).cast(), size_of::<Address>() as libc::socklen_t);
        // SAFETY: both pairs of pointer and length describe live values that the kernel only reads.
        let sent = unsafe {
            libc::sendto(descriptor, packet.as_ptr().cast(), packet.len(), libc::MSG_NOSIGNAL, pointer, length)
        };
        if sent < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
    }
}

const TCP: u8 = 6;
const TCP_HEADER: u16 = 20;
const HOPS: u8 = 64;
const WINDOW: u16 = 1024;

/// The kernel fills in the checksum of the IPv4 header. Addresses of two families give a packet that no one sends.
fn packet(segment: Segment, source: SocketAddr, destination: SocketAddr, sequence: u32) -> Vec<u8> {
    let (from, to) = (octets(source.ip()), octets(destination.ip()));
    let mut header = Vec::with_capacity(60);
    if from.len() == 4 {
        header.extend([0x45, 0, 0, 20 + TCP_HEADER as u8, 0, 0, 0, 0, HOPS, TCP, 0, 0]);
    } else {
        header.extend([0x60, 0, 0, 0, 0, TCP_HEADER as u8, TCP, HOPS]);
    }
    header.extend(from.iter().chain(&to));
    let mut tcp = Vec::with_capacity(usize::from(TCP_HEADER));
    tcp.extend(source.port().to_be_bytes().into_iter().chain(destination.port().to_be_bytes()));
    tcp.extend(sequence.to_be_bytes().into_iter().chain([0; 4]));
    tcp.extend([5 << 4, segment.flags()].into_iter().chain(WINDOW.to_be_bytes()).chain([0; 4]));
    let pseudo: Vec<u8> = from.into_iter().chain(to).chain([0, TCP]).chain(TCP_HEADER.to_be_bytes()).collect();
    let checksum = checksum(pseudo.iter().chain(&tcp));
    tcp[16..18].copy_from_slice(&checksum.to_be_bytes());
    header.extend(tcp);
    header
}

fn octets(address: IpAddr) -> Vec<u8> {
    match address {
        IpAddr::V4(address) => address.octets().to_vec(),
        IpAddr::V6(address) => address.octets().to_vec(),
    }
}

/// The ones' complement of the ones' complement sum of an even number of bytes.
fn checksum<'a>(bytes: impl Iterator<Item = &'a u8>) -> u16 {
    let sum: u32 = bytes.enumerate().map(|(index, byte)| u32::from(*byte) << (8 * (1 - index % 2))).sum();
    let folded = (sum & 0xffff) + (sum >> 16);
    !((folded & 0xffff) + (folded >> 16)) as u16
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A sum over a packet with its checksum is all ones.
    #[test]
    fn checksums_are_right() {
        let address = |text: &str| text.parse::<SocketAddr>().unwrap();
        let pairs = [("10.96.0.1:80", "10.244.1.2:45678", 20), ("[fd00::1]:80", "[fd00::1:2]:1", 40)];
        for (source, destination, header) in pairs {
            let (source, destination) = (address(source), address(destination));
            let packet = packet(Segment::SynAck, source, destination, 0xffff_fffe);
            assert_eq!(packet.len(), header + 20);
            let pseudo = [octets(source.ip()), octets(destination.ip()), vec![0, TCP, 0, 20]].concat();
            assert_eq!(checksum(pseudo.iter().chain(&packet[header..])), 0);
            assert_eq!(packet[header + 13], 0x12);
        }
    }
}
