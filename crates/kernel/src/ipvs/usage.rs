//! What a destination has carried since it was added.

use std::net::SocketAddr;

use super::codec::{DESTINATION, PROTOCOL_HEADER, command, read_endpoint, write_server};
use super::{Ipvs, ServerAddress};
use crate::error::Result;
use crate::netlink::{Attributes, Message, MessageWriter};
use crate::nftables::Count;

/// Numbers of 32 bits, and of 64 bits since Linux 4.1.
const STATISTICS: u16 = 10;
const STATISTICS_64: u16 = 12;
const CONNECTIONS: u16 = 1;
const PACKETS_IN: u16 = 2;
const PACKETS_OUT: u16 = 3;
const BYTES_IN: u16 = 4;
const BYTES_OUT: u16 = 5;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DestinationUsage {
    pub connections: u64,
    /// From clients.
    pub received: Count,
    /// To clients.
    pub sent: Count,
}

impl Ipvs {
    /// The usage of each destination. Empty if there is no such server.
    pub fn usage(&mut self, server: ServerAddress) -> Result<Vec<(SocketAddr, DestinationUsage)>> {
        let mut request = MessageWriter::default();
        request.message(self.header(), &[command::GET_DESTINATION, 1, 0, 0], |writer| {
            write_server(writer, server, None);
        });
        self.sent += 1;
        let gather = |found: &mut Vec<_>, message: &Message<'_>| found.extend(read_usage(message));
        self.socket.dump(&mut request, &format!("reading the statistics of {server}"), gather)
    }
}

pub(super) fn read_usage(message: &Message<'_>) -> Option<(SocketAddr, DestinationUsage)> {
    let attributes = message.attributes(PROTOCOL_HEADER).nested(DESTINATION);
    let statistics = [STATISTICS_64, STATISTICS].into_iter().find_map(|kind| attributes.first(kind))?.nested();
    let number = |kind| number(statistics, kind).unwrap_or(0);
    let usage = DestinationUsage {
        connections: number(CONNECTIONS),
        received: Count { packets: number(PACKETS_IN), bytes: number(BYTES_IN) },
        sent: Count { packets: number(PACKETS_OUT), bytes: number(BYTES_OUT) },
    };
    Some((read_endpoint(attributes)?, usage))
}

/// In native byte order, of either length.
fn number(attributes: Attributes<'_>, kind: u16) -> Option<u64> {
    let value = attributes.first(kind)?.value;
    match value.first_chunk::<8>() {
        Some(long) => Some(u64::from_ne_bytes(*long)),
        None => value.first_chunk::<4>().map(|short| u32::from_ne_bytes(*short).into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ipvs::codec;
    use crate::netlink::{Header, Messages};

    fn written(kind: u16, numbers: &[(u16, &[u8])]) -> Vec<u8> {
        let mut writer = MessageWriter::default();
        writer.message(Header { kind: 1, flags: 0 }, &[0; PROTOCOL_HEADER], |writer| {
            writer.nest(DESTINATION, |writer| {
                codec::write_endpoint(writer, "10.244.1.2:8080".parse().unwrap());
                writer.nest(kind, |writer| numbers.iter().for_each(|(kind, value)| writer.attribute(*kind, value)));
            });
        });
        writer.bytes().to_vec()
    }

    #[test]
    fn statistics_of_both_lengths_are_read() {
        let long = |number: u64| number.to_ne_bytes();
        let short = |number: u32| number.to_ne_bytes();
        let new = written(
            STATISTICS_64,
            &[
                (CONNECTIONS, &long(1)),
                (PACKETS_IN, &long(2)),
                (PACKETS_OUT, &long(3)),
                (BYTES_IN, &long(4)),
                (BYTES_OUT, &long(1 << 40)),
            ],
        );
        let old = written(
            STATISTICS,
            &[
                (CONNECTIONS, &short(1)),
                (PACKETS_IN, &short(2)),
                (PACKETS_OUT, &short(3)),
                (BYTES_IN, &long(4)),
                (BYTES_OUT, &long(1 << 40)),
            ],
        );
        let expected = DestinationUsage {
            connections: 1,
            received: Count { packets: 2, bytes: 4 },
            sent: Count { packets: 3, bytes: 1 << 40 },
        };
        for bytes in [new, old] {
            let read = Messages::new(&bytes).find_map(|message| read_usage(&message));
            assert_eq!(read, Some(("10.244.1.2:8080".parse().unwrap(), expected)));
        }
    }
}
