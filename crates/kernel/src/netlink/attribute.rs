//! Parses netlink attributes. Lengths are not trusted, so that no input can cause a panic.

use super::aligned;

const HEADER_LENGTH: usize = 4;

/// The type without the flags for "nested" and "network byte order".
const KIND_MASK: u16 = 0x3fff;

/// One attribute, its value still undecoded.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Attribute<'a> {
    pub kind: u16,
    pub value: &'a [u8],
}

impl<'a> Attribute<'a> {
    pub fn number_8(&self) -> Option<u8> {
        self.value.first().copied()
    }

    pub fn number_16(&self) -> Option<u16> {
        Some(u16::from_be_bytes(*self.value.first_chunk()?))
    }

    pub fn number_32(&self) -> Option<u32> {
        Some(u32::from_be_bytes(*self.value.first_chunk()?))
    }

    pub fn number_64(&self) -> Option<u64> {
        Some(u64::from_be_bytes(*self.value.first_chunk()?))
    }

    /// The text up to the terminating zero; `None` if it is not UTF-8.
    pub fn string(&self) -> Option<&'a str> {
        let text = self.value.split(|byte| *byte == 0).next()?;
        std::str::from_utf8(text).ok()
    }

    pub fn nested(&self) -> Attributes<'a> {
        Attributes::new(self.value)
    }
}

/// The attributes in a part of a message; iteration ends at an invalid length.
#[derive(Clone, Copy, Debug)]
pub struct Attributes<'a> {
    rest: &'a [u8],
}

impl<'a> Attributes<'a> {
    pub fn new(bytes: &'a [u8]) -> Self {
        Attributes { rest: bytes }
    }

    /// The first attribute of that kind.
    pub fn first(self, kind: u16) -> Option<Attribute<'a>> {
        let mut attributes = self;
        attributes.find(|attribute: &Attribute<'a>| attribute.kind == kind)
    }

    pub fn number_32(self, kind: u16) -> Option<u32> {
        self.first(kind)?.number_32()
    }

    pub fn string(self, kind: u16) -> Option<&'a str> {
        self.first(kind)?.string()
    }

    /// The attributes nested in the first one of that kind; none if it is missing.
    pub fn nested(self, kind: u16) -> Attributes<'a> {
        let value = self.first(kind).map_or(&[][..], |attribute| attribute.value);
        Attributes::new(value)
    }
}

impl<'a> Iterator for Attributes<'a> {
    type Item = Attribute<'a>;

    fn next(&mut self) -> Option<Attribute<'a>> {
        let header: [u8; HEADER_LENGTH] = *self.rest.first_chunk()?;
        let length = usize::from(u16::from_ne_bytes([header[0], header[1]]));
        let kind = u16::from_ne_bytes([header[2], header[3]]) & KIND_MASK;
        let value = self.rest.get(HEADER_LENGTH..length)?;
        self.rest = self.rest.get(aligned(length)..).unwrap_or(&[]);
        Some(Attribute { kind, value })
    }
}
