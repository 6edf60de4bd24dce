//! Writes messages and their attributes into one growing buffer.

use super::aligned;

/// The length of `struct nlmsghdr`.
pub(crate) const HEADER_LENGTH: usize = 16;

/// The bit that marks an attribute as a list of attributes.
const NESTED: u16 = 0x8000;

/// A message header; the writer fills in its length and sequence number.
#[derive(Clone, Copy, Debug)]
pub struct Header {
    pub kind: u16,
    pub flags: u16,
}

/// One or more netlink messages. The sequence number of each is its index until [`Self::number`].
#[derive(Clone, Default, Debug)]
pub struct MessageWriter {
    bytes: Vec<u8>,
    last_start: usize,
    count: u32,
}

impl MessageWriter {
    pub fn with_capacity(bytes: usize) -> Self {
        MessageWriter { bytes: Vec::with_capacity(bytes), ..MessageWriter::default() }
    }

    /// Appends a message; `fixed` is the protocol's own header, `write` adds the attributes.
    pub fn message(&mut self, header: Header, fixed: &[u8], write: impl FnOnce(&mut Self)) {
        let start = self.bytes.len();
        self.bytes.extend_from_slice(&0u32.to_ne_bytes());
        self.bytes.extend_from_slice(&header.kind.to_ne_bytes());
        self.bytes.extend_from_slice(&header.flags.to_ne_bytes());
        self.bytes.extend_from_slice(&self.count.to_ne_bytes());
        self.bytes.extend_from_slice(&0u32.to_ne_bytes());
        self.bytes.extend_from_slice(fixed);
        self.pad();
        write(self);
        let length = u32::try_from(self.bytes.len() - start).expect("a message is below 4 GiB");
        self.bytes[start..start + 4].copy_from_slice(&length.to_ne_bytes());
        self.last_start = start;
        self.count += 1;
    }

    /// Adds flags to the message written last.
    pub fn add_flags_to_last(&mut self, flags: u16) {
        if self.count > 0 {
            self.add_flags_at(self.last_start, flags);
        }
    }

    pub fn add_flags_to_all(&mut self, flags: u16) {
        self.each_start(|writer, start, _| writer.add_flags_at(start, flags));
    }

    /// Gives the messages the sequence numbers `first`, `first + 1`, and so on.
    pub fn number(&mut self, first: u32) {
        self.each_start(|writer, start, index| {
            writer.overwrite(start + 8, &first.wrapping_add(index).to_ne_bytes());
        });
    }

    /// Replaces bytes that were written before.
    pub fn overwrite(&mut self, start: usize, bytes: &[u8]) {
        self.bytes[start..start + bytes.len()].copy_from_slice(bytes);
    }

    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    pub fn count(&self) -> u32 {
        self.count
    }

    pub fn attribute(&mut self, kind: u16, value: &[u8]) {
        self.attribute_header(kind, value.len());
        self.bytes.extend_from_slice(value);
        self.pad();
    }

    /// A string with the terminating zero that the kernel expects.
    pub fn string(&mut self, kind: u16, value: &str) {
        self.attribute_header(kind, value.len() + 1);
        self.bytes.extend_from_slice(value.as_bytes());
        self.bytes.push(0);
        self.pad();
    }

    /// Netfilter uses network byte order for all numbers.
    pub fn number_32(&mut self, kind: u16, value: u32) {
        self.attribute(kind, &value.to_be_bytes());
    }

    pub fn number_64(&mut self, kind: u16, value: u64) {
        self.attribute(kind, &value.to_be_bytes());
    }

    pub fn nest(&mut self, kind: u16, write: impl FnOnce(&mut Self)) {
        let start = self.bytes.len();
        self.attribute_header(kind | NESTED, 0);
        write(self);
        let length = attribute_length(self.bytes.len() - start);
        self.bytes[start..start + 2].copy_from_slice(&length.to_ne_bytes());
    }

    fn attribute_header(&mut self, kind: u16, value_length: usize) {
        let length = attribute_length(4 + value_length);
        self.bytes.extend_from_slice(&length.to_ne_bytes());
        self.bytes.extend_from_slice(&kind.to_ne_bytes());
    }

    fn pad(&mut self) {
        self.bytes.resize(aligned(self.bytes.len()), 0);
    }

    fn each_start(&mut self, change: impl Fn(&mut Self, usize, u32)) {
        let mut start = 0;
        for index in 0..self.count {
            change(self, start, index);
            start += aligned(self.length_at(start));
        }
    }

    fn add_flags_at(&mut self, start: usize, flags: u16) {
        let field = &self.bytes[start + 6..start + 8];
        let present = u16::from_ne_bytes([field[0], field[1]]);
        self.overwrite(start + 6, &(present | flags).to_ne_bytes());
    }

    fn length_at(&self, start: usize) -> usize {
        let field = &self.bytes[start..start + 4];
        u32::from_ne_bytes([field[0], field[1], field[2], field[3]]) as usize
    }
}

fn attribute_length(length: usize) -> u16 {
    u16::try_from(length).expect("an attribute is below 64 KiB, longer lists are split")
}
