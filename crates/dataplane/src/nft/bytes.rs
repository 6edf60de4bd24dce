//! The fields of keys and values as the kernel's bytes.

use std::net::IpAddr;

use portolan_model::{Family, Protocol};

/// Takes fields off the front of a key, each padded to four bytes.
pub(super) struct Reader<'a> {
    pub(super) bytes: &'a [u8],
    pub(super) family: Family,
}

impl<'a> Reader<'a> {
    fn take(&mut self, length: usize) -> Option<&'a [u8]> {
        let (head, rest) = self.bytes.split_at_checked(length)?;
        self.bytes = rest;
        Some(head)
    }

    pub(super) fn address(&mut self) -> Option<IpAddr> {
        match self.family {
            Family::V4 => self.take(4)?.first_chunk::<4>().map(|bytes| IpAddr::from(*bytes)),
            Family::V6 => self.take(16)?.first_chunk::<16>().map(|bytes| IpAddr::from(*bytes)),
        }
    }

    pub(super) fn port(&mut self) -> Option<u16> {
        let bytes = self.take(4)?.first_chunk::<2>()?;
        Some(u16::from_be_bytes(*bytes))
    }

    pub(super) fn tail(&mut self) -> Option<(Protocol, u16)> {
        let protocol = Protocol::from_number(self.take(4)?[0])?;
        Some((protocol, self.port()?))
    }

    pub(super) fn number(&mut self) -> Option<u32> {
        Some(u32::from_ne_bytes(*self.take(4)?.first_chunk()?))
    }

    pub(super) fn size(&mut self) -> Option<u32> {
        let [high, low, highest, higher] = *self.take(4)?.first_chunk()?;
        Some(u32::from_be_bytes([highest, higher, high, low]))
    }
}

/// Puts fields together, each padded to four bytes.
pub(super) struct Bytes(pub(super) Vec<u8>);

/// Room for an IPv6 address with port, protocol and slot: the longest key that is frequent.
const USUAL_LENGTH: usize = 28;

impl Default for Bytes {
    fn default() -> Self {
        Self(Vec::with_capacity(USUAL_LENGTH))
    }
}

impl Bytes {
    pub(super) fn address(mut self, address: IpAddr) -> Self {
        match address {
            IpAddr::V4(address) => self.0.extend_from_slice(&address.octets()),
            IpAddr::V6(address) => self.0.extend_from_slice(&address.octets()),
        }
        self
    }

    pub(super) fn port(mut self, port: u16) -> Self {
        let [high, low] = port.to_be_bytes();
        self.0.extend_from_slice(&[high, low, 0, 0]);
        self
    }

    pub(super) fn tail(mut self, protocol: Protocol, port: u16) -> Self {
        self.0.extend_from_slice(&[protocol.number(), 0, 0, 0]);
        self.port(port)
    }

    /// Two bytes as in a port, so that `nft` prints them; the rest stands where a port has its padding.
    pub(super) fn size(mut self, size: u32) -> Self {
        let [highest, higher, high, low] = size.to_be_bytes();
        self.0.extend_from_slice(&[high, low, highest, higher]);
        self
    }

    pub(super) fn number(mut self, number: u32) -> Self {
        self.0.extend_from_slice(&number.to_ne_bytes());
        self
    }
}

pub(super) fn octets(address: IpAddr) -> Vec<u8> {
    Bytes::default().address(address).0
}
