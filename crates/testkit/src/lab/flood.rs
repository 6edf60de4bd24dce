//! A flood: first packets of TCP connections from spoofed sources, which no host answers for.

use std::io;
use std::net::{Ipv4Addr, SocketAddrV4};

use socket2::{Domain, Socket, Type};

use super::Lab;

/// `IPPROTO_RAW`: the packet comes with its own IP header.
const WITH_OWN_HEADER: i32 = 255;
const SOURCE_PORT: u16 = 40_000;
const HEADER: usize = 20;

impl Lab {
    /// Sends one SYN from each source address, whether or not the host owns it.
    pub fn flood(
        &self,
        host: &str,
        destination: SocketAddrV4,
        sources: impl Iterator<Item = Ipv4Addr> + Send,
    ) -> io::Result<()> {
        self.host(host).run(|| {
            let socket = Socket::new(Domain::IPV4, Type::RAW, Some(WITH_OWN_HEADER.into()))?;
            for source in sources {
                socket.send_to(&syn(source, destination), &destination.into())?;
            }
            Ok(())
        })
    }
}

/// The kernel fills in length and checksum of the IP header.
fn syn(source: Ipv4Addr, destination: SocketAddrV4) -> [u8; 2 * HEADER] {
    let mut packet = [0; 2 * HEADER];
    let (ip, tcp) = packet.split_at_mut(HEADER);
    (ip[0], ip[8], ip[9]) = (0x45, 64, 6);
    ip[12..16].copy_from_slice(&source.octets());
    ip[16..20].copy_from_slice(&destination.ip().octets());
    tcp[..2].copy_from_slice(&SOURCE_PORT.to_be_bytes());
    tcp[2..4].copy_from_slice(&destination.port().to_be_bytes());
    (tcp[12], tcp[13]) = (5 << 4, 2);
    let checksum = checksum(source, *destination.ip(), tcp);
    tcp[16..18].copy_from_slice(&checksum.to_be_bytes());
    packet
}

/// Connection tracking ignores packets with a wrong checksum.
fn checksum(source: Ipv4Addr, destination: Ipv4Addr, tcp: &[u8]) -> u16 {
    let pseudo = [&source.octets()[..], &destination.octets(), &[0, 6, 0, HEADER as u8]].concat();
    let words = pseudo.chunks(2).chain(tcp.chunks(2)).map(|word| u32::from(u16::from_be_bytes([word[0], word[1]])));
    let sum: u32 = words.sum();
    let folded = (sum & 0xffff) + (sum >> 16);
    !((folded & 0xffff) + (folded >> 16)) as u16
}
