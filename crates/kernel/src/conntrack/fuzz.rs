//! The decoder of tracked flows on any bytes, for the fuzz targets. What is decoded is encoded and decoded again.

use super::{Flow, ORIGINAL, PROTOCOL_HEADER, REPLY, read_flow, write_tuple};
use crate::netlink::{Header, MessageWriter, Messages};

pub(crate) fn decode(bytes: &[u8]) {
    Messages::new(bytes).filter_map(|message| read_flow(&message)).for_each(|flow| check_flow(&flow));
}

fn check_flow(flow: &Flow) {
    flow.family();
    let mut writer = MessageWriter::default();
    writer.message(Header { kind: 0, flags: 0 }, &[0; PROTOCOL_HEADER], |writer| {
        write_tuple(writer, ORIGINAL, flow.protocol, flow.original_source, flow.original_destination);
        write_tuple(writer, REPLY, flow.protocol, flow.reply_source, flow.reply_destination);
    });
    let read = Messages::new(writer.bytes()).find_map(|message| read_flow(&message));
    assert_eq!(read.as_ref(), Some(flow));
}
