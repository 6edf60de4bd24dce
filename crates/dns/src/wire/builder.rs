//! Builds a response within a size limit, with name compression.

use super::{Edns, HEADER, Name, Query, Rcode, flag, kind};

/// Offsets of names that later names may point to; more are not recorded.
const MAX_POINTERS: usize = 48;
/// An OPT record without options.
const OPT_LENGTH: usize = 11;
/// The UDP payload size that we advertise.
const OWN_SIZE: u16 = 1232;
/// Compression pointers have 14 bits.
const LAST_POINTER: usize = 0x3fff;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Section {
    Answer,
    Authority,
    Additional,
}

/// A response under construction. It never exceeds its limit: a record that does not fit is omitted, and in the
/// answer section the response is marked as truncated.
pub struct Builder<'a> {
    out: &'a mut Vec<u8>,
    limit: usize,
    flags: u16,
    rcode: Rcode,
    edns: Option<Edns>,
    counts: [u16; 3],
    /// Offsets where a name, or a suffix of one, begins.
    places: [u16; MAX_POINTERS],
    n_places: usize,
    last: Section,
}

impl<'a> Builder<'a> {
    /// Starts with the header and the question as the client wrote it.
    pub fn new(query: &Query<'_>, limit: usize, out: &'a mut Vec<u8>) -> Self {
        let flags = flag::RESPONSE | query.flags & (flag::RECURSION_DESIRED | flag::CHECKING_DISABLED);
        let mut builder = Self::bare(query.id, flags, limit, out);
        builder.edns = query.edns;
        builder.out[4..6].copy_from_slice(&1u16.to_be_bytes());
        builder.out.extend_from_slice(query.question());
        builder.remember(query.name.as_bytes(), HEADER);
        builder
    }

    fn bare(id: u16, flags: u16, limit: usize, out: &'a mut Vec<u8>) -> Self {
        out.clear();
        out.extend_from_slice(&id.to_be_bytes());
        out.resize(HEADER, 0);
        Self {
            out,
            limit,
            flags,
            rcode: Rcode::NO_ERROR,
            edns: None,
            counts: [0; 3],
            places: [0; MAX_POINTERS],
            n_places: 0,
            last: Section::Answer,
        }
    }

    /// An error response to a message whose question could not be read: the header alone.
    pub fn error(id: u16, flags: u16, rcode: Rcode, out: &'a mut Vec<u8>) {
        let kept = flags & (flag::OPCODE | flag::RECURSION_DESIRED);
        let mut builder = Self::bare(id, flag::RESPONSE | kept, OWN_SIZE.into(), out);
        builder.rcode = rcode;
        if rcode.0 > 15 {
            builder.edns = Some(Edns { size: OWN_SIZE, version: 0, wants_dnssec: false });
        }
        builder.finish();
    }

    pub fn set(&mut self, flags: u16) -> &mut Self {
        self.flags |= flags;
        self
    }

    pub fn rcode(&mut self, rcode: Rcode) -> &mut Self {
        self.rcode = rcode;
        self
    }

    pub fn current_rcode(&self) -> Rcode {
        self.rcode
    }

    pub fn is_truncated(&self) -> bool {
        self.flags & flag::TRUNCATED != 0
    }

    pub fn n_answers(&self) -> u16 {
        self.counts[0]
    }

    /// Adds a record and returns whether it fits. Sections must come in their order.
    pub fn record(&mut self, section: Section, owner: &[u8], kind: u16, ttl: u32, data: Data<'_>) -> bool {
        self.record_of_class(section, owner, [kind, super::CLASS_IN], ttl, data)
    }

    pub fn record_of_class(
        &mut self,
        section: Section,
        owner: &[u8],
        [kind, class]: [u16; 2],
        ttl: u32,
        data: Data<'_>,
    ) -> bool {
        let (start, n_places) = (self.out.len(), self.n_places);
        self.name(owner);
        self.out.extend_from_slice(&kind.to_be_bytes());
        self.out.extend_from_slice(&class.to_be_bytes());
        self.out.extend_from_slice(&ttl.to_be_bytes());
        self.data(data);
        if self.out.len() + self.reserved() > self.limit || section_index(section) < section_index(self.last) {
            self.out.truncate(start);
            self.n_places = n_places;
            self.flags |= if section == Section::Answer { flag::TRUNCATED } else { 0 };
            return false;
        }
        self.last = section;
        self.counts[section_index(section)] += 1;
        true
    }

    fn data(&mut self, data: Data<'_>) {
        let start = self.out.len();
        self.out.extend_from_slice(&[0, 0]);
        match data {
            Data::Raw(bytes) => self.out.extend_from_slice(bytes),
            Data::Name(name) => self.name(name),
            Data::Service { weight, port, target } => {
                for number in [0, weight, port] {
                    self.out.extend_from_slice(&number.to_be_bytes());
                }
                // RFC 2782 forbids compressing the target, but other names may point to it.
                self.remember(target, self.out.len());
                self.out.extend_from_slice(target);
            }
        }
        let length = (self.out.len() - start - 2) as u16;
        self.out[start..start + 2].copy_from_slice(&length.to_be_bytes());
    }

    fn reserved(&self) -> usize {
        if self.edns.is_some() { OPT_LENGTH } else { 0 }
    }

    /// Writes the labels of a name that are new, and a pointer for the rest.
    fn name(&mut self, name: &[u8]) {
        let mut rest = name;
        let start = self.out.len();
        while rest.first().is_some_and(|length| *length > 0) {
            if let Some(place) = self.places[..self.n_places].iter().find(|place| self.has(**place, rest)) {
                let pointer = 0xc000 | *place;
                self.out.extend_from_slice(&name[..name.len() - rest.len()]);
                self.out.extend_from_slice(&pointer.to_be_bytes());
                self.remember_until(name, start, name.len() - rest.len());
                return;
            }
            rest = &rest[1 + usize::from(rest[0])..];
        }
        self.out.extend_from_slice(name);
        self.remember(name, start);
    }

    fn remember(&mut self, name: &[u8], start: usize) {
        self.remember_until(name, start, name.len());
    }

    /// The name and each suffix of it that begins before `end`.
    fn remember_until(&mut self, name: &[u8], start: usize, end: usize) {
        let mut place = 0;
        while place < end && name[place] > 0 && start + place <= LAST_POINTER && self.n_places < MAX_POINTERS {
            self.places[self.n_places] = (start + place) as u16;
            self.n_places += 1;
            place += 1 + usize::from(name[place]);
        }
    }

    /// Whether this name is at that offset of the message.
    fn has(&self, place: u16, name: &[u8]) -> bool {
        let (mut place, mut rest) = (usize::from(place), name);
        loop {
            let length = usize::from(self.out[place]);
            if length >= 0xc0 {
                place = (length & 0x3f) << 8 | usize::from(self.out[place + 1]);
                continue;
            }
            let label = rest.get(..=length);
            if !label.is_some_and(|label| label.eq_ignore_ascii_case(&self.out[place..=place + length])) {
                return false;
            }
            if length == 0 {
                return true;
            }
            (place, rest) = (place + 1 + length, &rest[1 + length..]);
        }
    }

    /// Writes the OPT record and the header. A client without EDNS gets SERVFAIL in place of a code that needs it: its
    /// lower bits mean something else.
    pub fn finish(mut self) {
        if self.edns.is_none() && self.rcode.0 > 0x0f {
            self.rcode = Rcode::SERVER_FAILURE;
        }
        let mut additional = self.counts[2];
        if let Some(edns) = self.edns {
            let dnssec = if edns.wants_dnssec { 0x80 } else { 0 };
            self.out.extend_from_slice(&[0, 0, kind::OPT as u8]);
            self.out.extend_from_slice(&OWN_SIZE.to_be_bytes());
            self.out.extend_from_slice(&[(self.rcode.0 >> 4) as u8, 0, dnssec, 0, 0, 0]);
            additional += 1;
        }
        let flags = self.flags | self.rcode.0 & 0x0f;
        self.out[2..4].copy_from_slice(&flags.to_be_bytes());
        for (place, count) in [(6, self.counts[0]), (8, self.counts[1]), (10, additional)] {
            self.out[place..place + 2].copy_from_slice(&count.to_be_bytes());
        }
    }
}

fn section_index(section: Section) -> usize {
    section as usize
}

/// The data of a record.
#[derive(Clone, Copy)]
pub enum Data<'a> {
    Raw(&'a [u8]),
    /// One name, which may be compressed.
    Name(&'a [u8]),
    /// SRV with priority 0.
    Service {
        weight: u16,
        port: u16,
        target: &'a [u8],
    },
}

impl<'a> From<&'a Name> for Data<'a> {
    fn from(name: &'a Name) -> Self {
        Self::Name(name.as_bytes())
    }
}
