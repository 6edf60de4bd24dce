//! A query of a client.

use super::{CLASS_IN, HEADER, Name, Rcode, SMALLEST_LIMIT, flag, kind, word};

/// A message with one question.
#[derive(Clone)]
pub struct Query<'a> {
    pub message: &'a [u8],
    pub id: u16,
    pub flags: u16,
    pub name: Name,
    pub kind: u16,
    pub class: u16,
    /// The end of the question in the message.
    pub question_end: usize,
    pub edns: Option<Edns>,
}

/// The content of an OPT record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Edns {
    pub size: u16,
    pub version: u8,
    /// The client wants DNSSEC records (the DO bit).
    pub wants_dnssec: bool,
}

/// Why a message is not a valid query.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unanswerable {
    /// Not a query at all: a response would allow amplification or reflection attacks.
    Ignored,
    /// The error code for the sender.
    Error { id: u16, flags: u16, rcode: Rcode },
}

/// Queries with more records are rejected: one is usual.
const MAX_RECORDS: u16 = 16;

impl<'a> Query<'a> {
    pub fn parse(message: &'a [u8]) -> Result<Self, Unanswerable> {
        let (id, flags) = word(message, 0).zip(word(message, 2)).ok_or(Unanswerable::Ignored)?;
        if message.len() < HEADER || flags & flag::RESPONSE != 0 {
            return Err(Unanswerable::Ignored);
        }
        let error = |rcode| Unanswerable::Error { id, flags, rcode };
        if flags & flag::OPCODE != 0 {
            return Err(error(Rcode::NOT_IMPLEMENTED));
        }
        let query = Self::parse_question(message, id, flags).ok_or(error(Rcode::FORMAT_ERROR))?;
        match query.edns {
            Some(edns) if edns.version > 0 => Err(error(Rcode::BAD_VERSION)),
            _ => Ok(query),
        }
    }

    fn parse_question(message: &'a [u8], id: u16, flags: u16) -> Option<Self> {
        let counts = [4, 6, 8, 10].map(|place| word(message, place).unwrap_or(0));
        let [1, answers, authorities, additional] = counts else { return None };
        let (name, end) = Name::read_plain(message, HEADER).ok()?;
        let (kind, class) = word(message, end).zip(word(message, end + 2))?;
        let records = answers.checked_add(authorities)?.checked_add(additional)?;
        let edns = if records == 0 { None } else { find_edns(message, end + 4, records)? };
        Some(Self { message, id, flags, name, kind, class, question_end: end + 4, edns })
    }

    /// The question as the client wrote it: name, type and class.
    pub fn question(&self) -> &'a [u8] {
        &self.message[HEADER..self.question_end]
    }

    pub fn is_internet(&self) -> bool {
        self.class == CLASS_IN
    }

    pub fn wants_dnssec(&self) -> bool {
        self.edns.is_some_and(|edns| edns.wants_dnssec)
    }

    /// The largest UDP response: what the client advertises, up to our own limit.
    pub fn limit(&self, ours: usize) -> usize {
        let theirs = self.edns.map_or(SMALLEST_LIMIT, |edns| usize::from(edns.size));
        theirs.max(SMALLEST_LIMIT).min(ours.max(SMALLEST_LIMIT))
    }
}

/// Walks all records. `None` if they do not match the header, or if there are two OPT records.
fn find_edns(message: &[u8], mut place: usize, records: u16) -> Option<Option<Edns>> {
    let mut found = None;
    for _ in 0..records.min(MAX_RECORDS) {
        let is_root = *message.get(place)? == 0;
        place = skip_name(message, place)?;
        let (kind, class) = word(message, place).zip(word(message, place + 2))?;
        let (version, bits) = (*message.get(place + 5)?, word(message, place + 6)?);
        let length = usize::from(word(message, place + 8)?);
        place += 10 + length;
        if place > message.len() {
            return None;
        }
        if kind == kind::OPT {
            let edns = Edns { size: class, version, wants_dnssec: bits & 0x8000 != 0 };
            if !is_root || found.replace(edns).is_some() {
                return None;
            }
        }
    }
    Some(found)
}

/// Skips a name, which may end in a pointer, without following it.
fn skip_name(message: &[u8], mut place: usize) -> Option<usize> {
    loop {
        let length = *message.get(place)?;
        match length >> 6 {
            0 if length == 0 => return Some(place + 1),
            0 => place += 1 + usize::from(length),
            3 => return Some(place + 2),
            _ => return None,
        }
    }
}
