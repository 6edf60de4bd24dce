//! The decoder of IP sets on any bytes, for the fuzz targets. What is decoded is encoded and decoded again.

use super::codec::{PROTOCOL_HEADER, read_data, read_set, write_entry};
use super::{Entry, Set, SetType};
use crate::netlink::{Header, MessageWriter, Messages};

pub(crate) fn decode(bytes: &[u8]) {
    let mut set: Option<Set> = None;
    Messages::new(bytes).for_each(|message| read_set(&message, &mut set));
    let Some(set) = set else { return };
    set.kind.into_iter().for_each(|kind| set.entries.iter().for_each(|entry| check_entry(kind, entry)));
}

fn check_entry(kind: SetType, entry: &Entry) {
    let mut writer = MessageWriter::default();
    writer.message(Header { kind: 0, flags: 0 }, &PROTOCOL_HEADER, |writer| write_entry(writer, "set", entry));
    let read = Messages::new(writer.bytes()).find_map(|message| read_data(kind, &message));
    assert_eq!(read.as_ref(), Some(entry), "{entry}");
}
