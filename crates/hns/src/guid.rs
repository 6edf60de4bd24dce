//! Identities of HNS objects.

use std::fmt;
use std::str::FromStr;

use ring::digest::{SHA256, digest};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Guid([u8; 16]);

impl Guid {
    /// The identity that follows from a text: the same one on every node and after every restart.
    pub fn of(text: &str) -> Self {
        let digest = digest(&SHA256, text.as_bytes());
        let mut bytes = [0; 16];
        bytes.copy_from_slice(&digest.as_ref()[..16]);
        // Version 8 of RFC 9562 is for identities of one's own making.
        bytes[6] = bytes[6] & 0x0f | 0x80;
        bytes[8] = bytes[8] & 0x3f | 0x80;
        Self(bytes)
    }

    pub fn bytes(&self) -> [u8; 16] {
        self.0
    }
}

impl fmt::Display for Guid {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, byte) in self.0.iter().enumerate() {
            let dash = if matches!(index, 4 | 6 | 8 | 10) { "-" } else { "" };
            write!(formatter, "{dash}{byte:02x}")?;
        }
        Ok(())
    }
}

/// HNS writes capital letters, and other programs write small ones or braces.
impl FromStr for Guid {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || "this is not a GUID".to_owned();
        let digits: Vec<u8> = text.bytes().filter(|byte| !matches!(byte, b'-' | b'{' | b'}')).collect();
        let mut bytes = [0; 16];
        if digits.len() != 32 || text.len() > 38 {
            return Err(wrong());
        }
        for (byte, pair) in bytes.iter_mut().zip(digits.chunks(2)) {
            let number = |digit: u8| char::from(digit).to_digit(16).ok_or_else(wrong);
            *byte = (number(pair[0])? * 16 + number(pair[1])?) as u8;
        }
        Ok(Self(bytes))
    }
}

impl Serialize for Guid {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Guid {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_identity_is_read_however_it_is_written() {
        let guid = Guid::of("endpoint 10.244.2.2");
        let text = guid.to_string();
        assert_eq!(text.len(), 36);
        for written in [text.clone(), text.to_uppercase(), format!("{{{text}}}")] {
            assert_eq!(written.parse(), Ok(guid));
        }
        for wrong in ["", "-", "0".repeat(33).as_str(), "g".repeat(32).as_str(), "é".repeat(16).as_str()] {
            assert!(wrong.parse::<Guid>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn the_same_text_has_the_same_identity() {
        assert_eq!(Guid::of("a"), Guid::of("a"));
        assert_ne!(Guid::of("a"), Guid::of("b"));
    }
}
