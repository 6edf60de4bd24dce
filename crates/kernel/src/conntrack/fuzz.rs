//! The decoder of tracked flows on any bytes, for the fuzz targets. What is decoded is encoded and decoded again.

use super::tcp::read_tcp_flow;
use super::tracked::read_tracked;
use super::{Flow, ORIGINAL, PROTOCOL_HEADER, REPLY, read_flow, write_tuple};
use crate::netlink::{Header, MessageWriter, Messages};

pub(crate) fn decode(bytes: &[u8]) {
    for message in Messages::new(bytes) {
        let (flow, tcp) = (read_flow(&message), read_tcp_flow(&message));
        flow.iter().for_each(check_flow);
        assert_eq!(tcp.map(|tcp| tcp.flow), flow.filter(|flow| flow.protocol == TCP));
        assert_eq!(read_tracked(&message).map(|tracked| tracked.flow), flow);
    }
}

const TCP: u8 = 6;

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
