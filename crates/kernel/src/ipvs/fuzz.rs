//! The decoders of IPVS on any bytes, for the fuzz targets. A server that is decoded is encoded and decoded again.

use super::codec::{self, PROTOCOL_HEADER};
use super::usage::read_usage;
use super::{Scheduling, ServerAddress};
use crate::netlink::{Header, Message, MessageWriter, Messages};

pub(crate) fn decode(bytes: &[u8]) {
    for message in Messages::new(bytes) {
        codec::read_timeouts(&message);
        codec::read_version(&message);
        check_server(&message);
        _ = read_usage(&message);
        if let Some(destination) = codec::read_destination(&message) {
            destination.connections();
        }
    }
}

fn check_server(message: &Message<'_>) {
    let Some((server, scheduling)) = codec::read_server(message) else { return };
    _ = server.to_string();
    let read = rewritten(server, &scheduling);
    assert_eq!(read, Some((server, scheduling)));
}

fn rewritten(server: ServerAddress, scheduling: &Scheduling) -> Option<(ServerAddress, Scheduling)> {
    let mut writer = MessageWriter::default();
    writer.message(Header { kind: 0, flags: 0 }, &[0; PROTOCOL_HEADER], |writer| {
        codec::write_server(writer, server, Some(scheduling));
    });
    Messages::new(writer.bytes()).find_map(|message| codec::read_server(&message))
}
