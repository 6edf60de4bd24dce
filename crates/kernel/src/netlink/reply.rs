//! Parses messages: their headers, and acknowledgements.

use super::{Attributes, aligned, flags, message::HEADER_LENGTH};

const KIND_ERROR: u16 = 2;
const KIND_DONE: u16 = 3;

/// In an acknowledgement: only the header of the request is repeated.
const CAPPED: u16 = 0x100;
const ACKNOWLEDGEMENT_TEXT: u16 = 1;
const ACKNOWLEDGEMENT_OFFSET: u16 = 2;

/// One message as it was received.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Message<'a> {
    pub kind: u16,
    pub flags: u16,
    pub sequence: u32,
    pub port: u32,
    /// Everything after the netlink header.
    pub body: &'a [u8],
    /// The whole message, header included.
    pub bytes: &'a [u8],
}

impl<'a> Message<'a> {
    /// The last message of a dump.
    pub fn is_done(&self) -> bool {
        self.kind == KIND_DONE
    }

    pub fn is_interrupted(&self) -> bool {
        self.flags & flags::DUMP_INTERRUPTED != 0
    }

    /// The attributes after a protocol header of that length.
    pub fn attributes(&self, protocol_header: usize) -> Attributes<'a> {
        Attributes::new(self.body.get(aligned(protocol_header)..).unwrap_or(&[]))
    }

    /// The acknowledgement or error in this message, or the result that ends a dump.
    pub fn acknowledgement(&self) -> Option<Acknowledgement> {
        let details = match self.kind {
            KIND_ERROR if self.flags & CAPPED != 0 => 4 + HEADER_LENGTH,
            KIND_ERROR => 4 + aligned(self.repeated_length()?),
            KIND_DONE => 4,
            _ => return None,
        };
        let code = self.body.first_chunk().map_or(0, |b| i32::from_ne_bytes(*b));
        let attributes = Attributes::new(self.body.get(details..).unwrap_or(&[]));
        Some(Acknowledgement {
            errno: code.saturating_neg(),
            reason: attributes.string(ACKNOWLEDGEMENT_TEXT).unwrap_or_default().to_owned(),
            offset: native_32(attributes, ACKNOWLEDGEMENT_OFFSET),
        })
    }

    /// The length of the request, which an error repeats in full unless it is capped.
    fn repeated_length(&self) -> Option<usize> {
        let length = self.body.get(4..)?.first_chunk()?;
        usize::try_from(u32::from_ne_bytes(*length)).ok()
    }
}

fn native_32(attributes: Attributes<'_>, kind: u16) -> Option<u32> {
    let value = attributes.first(kind)?.value.first_chunk()?;
    Some(u32::from_ne_bytes(*value))
}

/// The kernel's reply to one message; `errno` 0 is success.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Acknowledgement {
    pub errno: i32,
    pub reason: String,
    /// The offset of the offending attribute in the request.
    pub offset: Option<u32>,
}

/// The messages of one receive; iteration ends at an invalid length.
#[derive(Clone, Copy, Debug)]
pub struct Messages<'a> {
    rest: &'a [u8],
}

impl<'a> Messages<'a> {
    pub fn new(bytes: &'a [u8]) -> Self {
        Messages { rest: bytes }
    }

    /// The bytes of the next message, header included, without consuming it.
    fn next_bytes(&self) -> Option<&'a [u8]> {
        let length: [u8; 4] = *self.rest.first_chunk()?;
        let length = usize::try_from(u32::from_ne_bytes(length)).ok()?;
        self.rest.get(..length).filter(|_| length >= HEADER_LENGTH)
    }
}

impl<'a> Iterator for Messages<'a> {
    type Item = Message<'a>;

    fn next(&mut self) -> Option<Message<'a>> {
        let message = self.next_bytes()?;
        let header: [u8; HEADER_LENGTH] = *message.first_chunk()?;
        let number = |at: usize| u32::from_ne_bytes([header[at], header[at + 1], header[at + 2], header[at + 3]]);
        self.rest = self.rest.get(aligned(message.len())..).unwrap_or(&[]);
        Some(Message {
            kind: u16::from_ne_bytes([header[4], header[5]]),
            flags: u16::from_ne_bytes([header[6], header[7]]),
            sequence: number(8),
            port: number(12),
            body: &message[HEADER_LENGTH..],
            bytes: message,
        })
    }
}
