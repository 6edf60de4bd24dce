//! A response of an upstream server: validated, and with its names expanded, so that it can be sent to any client.

use std::sync::Arc;

use super::builder::Data;
use super::{Builder, HEADER, Name, NameError, Rcode, Section, double_word, flag, kind, word};

/// A response with more records is rejected.
const MAX_RECORDS: usize = 2048;
/// A response whose names expand to more octets is rejected: compression makes 64 KiB stand for half a megabyte.
const MAX_OCTETS: usize = 128 * 1024;
/// The TTL of a stale answer (RFC 8767).
const STALE_TTL: u32 = 30;
/// The allocator's share of a small block, about.
const BLOCK: usize = 24;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    /// The owner as the server wrote it, shared by records in a row with the same owner.
    pub owner: Arc<[u8]>,
    pub kind: u16,
    pub class: u16,
    pub ttl: u32,
    /// The data, with its names expanded.
    pub data: Box<[u8]>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Reply {
    pub flags: u16,
    /// Including the upper bits from EDNS.
    pub rcode: u16,
    pub answers: Vec<Record>,
    pub authorities: Vec<Record>,
    pub additional: Vec<Record>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ReplyError {
    #[error("the response is truncated")]
    Truncated,
    #[error("the response is for another question")]
    OtherQuestion,
    #[error("the response has the question in another case")]
    OtherCase,
    #[error("the response is too large")]
    TooLarge,
    #[error("the response has an invalid name: {0}")]
    Name(#[from] NameError),
}

impl Reply {
    /// Parses the response to the query with this id: name, type and class must be the same octets. A server that does
    /// not want to answer may leave out the question.
    pub fn parse(message: &[u8], id: u16, question: &[u8]) -> Result<Self, ReplyError> {
        let (their_id, flags) = word(message, 0).zip(word(message, 2)).ok_or(ReplyError::Truncated)?;
        let counts = [4, 6, 8, 10].map(|place| word(message, place).map(usize::from));
        let [Some(questions), Some(answers), Some(authorities), Some(additional)] = counts else {
            return Err(ReplyError::Truncated);
        };
        let is_answer = flags & flag::RESPONSE != 0 && flags & flag::OPCODE == 0;
        let is_bare = questions == 0 && answers + authorities == 0 && is_refusal(flags);
        if their_id != id || !is_answer || questions != 1 && !is_bare {
            return Err(ReplyError::OtherQuestion);
        }
        let question = if is_bare { &[] } else { question };
        check_question(message, question)?;
        if answers + authorities + additional > MAX_RECORDS {
            return Err(ReplyError::TooLarge);
        }
        let mut reply = Self { flags, rcode: flags & 0x0f, ..Self::default() };
        let mut records = Records { message, place: HEADER + question.len(), owner: Arc::new([0]), octets: 0 };
        reply.answers = records.read(answers)?;
        reply.authorities = records.read(authorities)?;
        reply.additional = records.read(additional)?;
        reply.take_edns();
        Ok(reply)
    }

    /// The OPT record concerns the upstream connection only.
    fn take_edns(&mut self) {
        if let Some(opt) = self.additional.iter().find(|record| record.kind == kind::OPT) {
            self.rcode |= (opt.ttl >> 24) as u16 * 16;
        }
        self.additional.retain(|record| record.kind != kind::OPT);
    }

    pub fn is_truncated(&self) -> bool {
        self.flags & flag::TRUNCATED != 0
    }

    pub fn rcode(&self) -> Rcode {
        Rcode(self.rcode)
    }

    /// The memory that it takes, about.
    pub fn octets(&self) -> usize {
        let all = [&self.answers, &self.authorities, &self.additional];
        let records = all.into_iter().flatten();
        let own = records.clone().map(|record| size_of::<Record>() + BLOCK + record.data.len());
        let owners = records.clone().zip(records.skip(1)).filter(|(one, next)| !Arc::ptr_eq(&one.owner, &next.owner));
        let owners = owners.map(|(one, _)| one.owner.len() + 2 * BLOCK);
        size_of::<Self>() + own.sum::<usize>() + owners.sum::<usize>()
    }

    /// Writes the records that fit, with their TTLs reduced by the time in the cache.
    pub fn write(&self, builder: &mut Builder<'_>, age: u32, is_stale: bool) {
        let parts = [
            (Section::Answer, &self.answers),
            (Section::Authority, &self.authorities),
            (Section::Additional, &self.additional),
        ];
        let ttl = |record: &Record| if is_stale { STALE_TTL } else { record.ttl.saturating_sub(age) };
        for (section, records) in parts {
            if !records.iter().all(|record| record.write(section, builder, ttl(record))) {
                return;
            }
        }
    }
}

impl Record {
    /// Returns whether it fits.
    fn write(&self, section: Section, builder: &mut Builder<'_>, ttl: u32) -> bool {
        let data = match self.kind {
            kind::CNAME | kind::NS | kind::PTR | kind::DNAME => Data::Name(&self.data),
            _ => Data::Raw(&self.data),
        };
        builder.record_of_class(section, &self.owner, [self.kind, self.class], ttl, data)
    }
}

/// FORMERR, SERVFAIL, NOTIMP or REFUSED: codes that concern the server and not the name.
fn is_refusal(flags: u16) -> bool {
    let rcode = Rcode(flags & 0x0f);
    matches!(rcode, Rcode::FORMAT_ERROR | Rcode::SERVER_FAILURE | Rcode::NOT_IMPLEMENTED | Rcode::REFUSED)
}

fn check_question(message: &[u8], question: &[u8]) -> Result<(), ReplyError> {
    let theirs = message.get(HEADER..HEADER + question.len()).ok_or(ReplyError::Truncated)?;
    if theirs == question {
        return Ok(());
    }
    Err(if theirs.eq_ignore_ascii_case(question) { ReplyError::OtherCase } else { ReplyError::OtherQuestion })
}

/// Reads records one after the other.
struct Records<'a> {
    message: &'a [u8],
    place: usize,
    owner: Arc<[u8]>,
    octets: usize,
}

impl Records<'_> {
    fn read(&mut self, count: usize) -> Result<Vec<Record>, ReplyError> {
        (0..count).map(|_| self.next()).collect()
    }

    fn next(&mut self) -> Result<Record, ReplyError> {
        let Self { message, .. } = *self;
        let mut owner = Vec::new();
        let place = Name::expand(message, self.place, &mut owner)?;
        let (kind, class) = word(message, place).zip(word(message, place + 2)).ok_or(ReplyError::Truncated)?;
        let (ttl, length) =
            double_word(message, place + 4).zip(word(message, place + 8)).ok_or(ReplyError::Truncated)?;
        let (start, end) = (place + 10, place + 10 + usize::from(length));
        message.get(start..end).ok_or(ReplyError::Truncated)?;
        // A TTL with its highest bit set counts as zero (RFC 2181); an OPT record uses the field for flags.
        let ttl = if ttl > i32::MAX as u32 && kind != kind::OPT { 0 } else { ttl };
        let data = read_data(message, kind, start, end)?;
        self.place = end;
        Ok(Record { owner: self.share(owner, data.len())?, kind, class, ttl, data })
    }

    /// The owner of the record before, if it is the same.
    fn share(&mut self, owner: Vec<u8>, data: usize) -> Result<Arc<[u8]>, ReplyError> {
        self.octets += data;
        if *self.owner != *owner {
            self.octets += owner.len();
            self.owner = owner.into();
        }
        if self.octets > MAX_OCTETS { Err(ReplyError::TooLarge) } else { Ok(self.owner.clone()) }
    }
}

/// Where the names are in the data of a type.
struct Layout {
    /// The octets before the names.
    fixed: usize,
    names: usize,
    /// Whether octets follow the names.
    has_rest: bool,
}

/// The types of RFC 1035, and those in which names may be compressed all the same (RFC 3597, section 4). The names of all
/// other types are never compressed.
fn layout(message: &[u8], kind: u16, start: usize) -> Option<Layout> {
    let plain = |fixed, names| Some(Layout { fixed, names, has_rest: false });
    let with_rest = |fixed, names| Some(Layout { fixed, names, has_rest: true });
    match kind {
        kind::NS | kind::CNAME | kind::PTR | kind::DNAME | kind::MD..=kind::MF | kind::MB..=kind::MR => plain(0, 1),
        kind::MINFO | kind::RP => plain(0, 2),
        kind::MX | kind::AFSDB | kind::RT | kind::KX => plain(2, 1),
        kind::PX => plain(2, 2),
        kind::SRV => plain(6, 1),
        kind::SOA => with_rest(0, 2),
        kind::SIG => with_rest(18, 1),
        kind::NXT => with_rest(0, 1),
        kind::NAPTR => plain(naptr_prefix(message, start)?, 1),
        _ => None,
    }
}

/// Order and preference, and three strings with their lengths.
fn naptr_prefix(message: &[u8], start: usize) -> Option<usize> {
    (0..3).try_fold(4, |length, _| Some(length + 1 + usize::from(*message.get(start + length)?)))
}

fn read_data(message: &[u8], kind: u16, start: usize, end: usize) -> Result<Box<[u8]>, ReplyError> {
    // Names in the data must not extend past the record.
    let message = &message[..end];
    let Some(Layout { fixed, names, has_rest }) = layout(message, kind, start) else {
        return Ok(message[start..].into());
    };
    let mut data = message.get(start..start + fixed).ok_or(ReplyError::Truncated)?.to_vec();
    let mut place = start + fixed;
    for _ in 0..names {
        place = Name::expand(message, place, &mut data)?;
    }
    let rest = message.get(place..).ok_or(ReplyError::Truncated)?;
    if !has_rest && !rest.is_empty() {
        return Err(ReplyError::Truncated);
    }
    data.extend_from_slice(rest);
    Ok(data.into())
}
