//! The DNS message format (RFC 1035, RFC 6891). All input is untrusted until it is parsed.

mod builder;
mod name;
mod query;
mod reply;

pub use builder::{Builder, Data, Section};
pub use name::{Labels, Name, NameError};
pub use query::{Edns, Query, Unanswerable};
pub use reply::{Record, Reply, ReplyError};

/// Record types with a meaning here; all others are passed through unchanged.
pub mod kind {
    pub const A: u16 = 1;
    pub const NS: u16 = 2;
    pub const MD: u16 = 3;
    pub const MF: u16 = 4;
    pub const CNAME: u16 = 5;
    pub const SOA: u16 = 6;
    pub const MB: u16 = 7;
    pub const MR: u16 = 9;
    pub const PTR: u16 = 12;
    pub const HINFO: u16 = 13;
    pub const MINFO: u16 = 14;
    pub const MX: u16 = 15;
    pub const TXT: u16 = 16;
    pub const RP: u16 = 17;
    pub const AFSDB: u16 = 18;
    pub const RT: u16 = 21;
    pub const SIG: u16 = 24;
    pub const PX: u16 = 26;
    pub const AAAA: u16 = 28;
    pub const NXT: u16 = 30;
    pub const SRV: u16 = 33;
    pub const NAPTR: u16 = 35;
    pub const KX: u16 = 36;
    pub const DNAME: u16 = 39;
    pub const OPT: u16 = 41;
    pub const IXFR: u16 = 251;
    pub const AXFR: u16 = 252;
    pub const ANY: u16 = 255;

    const NAMES: [(&str, u16); 30] = [
        ("A", A),
        ("NS", NS),
        ("CNAME", CNAME),
        ("SOA", SOA),
        ("PTR", PTR),
        ("HINFO", HINFO),
        ("MX", MX),
        ("TXT", TXT),
        ("RP", RP),
        ("AFSDB", AFSDB),
        ("AAAA", AAAA),
        ("LOC", 29),
        ("SRV", SRV),
        ("NAPTR", NAPTR),
        ("DNAME", DNAME),
        ("DS", 43),
        ("SSHFP", 44),
        ("RRSIG", 46),
        ("NSEC", 47),
        ("DNSKEY", 48),
        ("NSEC3", 50),
        ("TLSA", 52),
        ("SVCB", 64),
        ("HTTPS", 65),
        ("SPF", 99),
        ("IXFR", IXFR),
        ("AXFR", AXFR),
        ("ANY", ANY),
        ("URI", 256),
        ("CAA", 257),
    ];

    /// From a name such as `AAAA`, or from `TYPE28`.
    pub fn from_name(name: &str) -> Option<u16> {
        let name = name.to_ascii_uppercase();
        let known = NAMES.iter().find(|(known, _)| *known == name).map(|(_, kind)| *kind);
        known.or_else(|| name.strip_prefix("TYPE")?.parse().ok())
    }

    /// The name in the query log and in metrics.
    pub fn name(kind: u16) -> &'static str {
        match kind {
            A => "A",
            NS => "NS",
            CNAME => "CNAME",
            SOA => "SOA",
            PTR => "PTR",
            MX => "MX",
            TXT => "TXT",
            AAAA => "AAAA",
            SRV => "SRV",
            NAPTR => "NAPTR",
            43 => "DS",
            48 => "DNSKEY",
            65 => "HTTPS",
            IXFR => "IXFR",
            AXFR => "AXFR",
            ANY => "ANY",
            _ => "other",
        }
    }
}

pub const CLASS_IN: u16 = 1;
/// The header's length.
pub const HEADER: usize = 12;
/// The largest UDP response for a client without EDNS.
pub const SMALLEST_LIMIT: usize = 512;

/// Bits of the header's second word.
pub mod flag {
    pub const RESPONSE: u16 = 0x8000;
    pub const AUTHORITATIVE: u16 = 0x0400;
    pub const TRUNCATED: u16 = 0x0200;
    pub const RECURSION_DESIRED: u16 = 0x0100;
    pub const RECURSION_AVAILABLE: u16 = 0x0080;
    pub const AUTHENTIC: u16 = 0x0020;
    pub const CHECKING_DISABLED: u16 = 0x0010;
    pub const OPCODE: u16 = 0x7800;
}

/// The response code. Codes above 15 need EDNS.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Rcode(pub u16);

impl Rcode {
    pub const NO_ERROR: Self = Self(0);
    pub const FORMAT_ERROR: Self = Self(1);
    pub const SERVER_FAILURE: Self = Self(2);
    pub const NX_DOMAIN: Self = Self(3);
    pub const NOT_IMPLEMENTED: Self = Self(4);
    pub const REFUSED: Self = Self(5);
    pub const BAD_VERSION: Self = Self(16);

    pub fn name(self) -> &'static str {
        match self.0 {
            0 => "NOERROR",
            1 => "FORMERR",
            2 => "SERVFAIL",
            3 => "NXDOMAIN",
            4 => "NOTIMP",
            5 => "REFUSED",
            16 => "BADVERS",
            _ => "other",
        }
    }
}

/// Two octets at an offset, if the message is long enough.
fn word(message: &[u8], place: usize) -> Option<u16> {
    Some(u16::from_be_bytes(message.get(place..place.checked_add(2)?)?.try_into().ok()?))
}

fn double_word(message: &[u8], place: usize) -> Option<u32> {
    Some(u32::from_be_bytes(message.get(place..place.checked_add(4)?)?.try_into().ok()?))
}
