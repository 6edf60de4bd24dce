//! A response of an upstream server: validated, and with its names expanded, so that it can be sent to any client.

use super::builder::Data;
use super::{Builder, HEADER, Name, NameError, Rcode, Section, double_word, flag, kind, word};

/// A response with more records is rejected.
const MAX_RECORDS: usize = 2048;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    /// The owner as the server wrote it.
    pub owner: Box<[u8]>,
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
    #[error("the response has too many records")]
    TooMany,
    #[error("the response has an invalid name: {0}")]
    Name(#[from] NameError),
}

impl Reply {
    /// Parses the response to the query with this id: name, type and class must be the same octets.
    pub fn parse(message: &[u8], id: u16, question: &[u8]) -> Result<Self, ReplyError> {
        let (their_id, flags) = word(message, 0).zip(word(message, 2)).ok_or(ReplyError::Truncated)?;
        let counts = [4, 6, 8, 10].map(|place| word(message, place).map(usize::from));
        let [Some(questions), Some(answers), Some(authorities), Some(additional)] = counts else {
            return Err(ReplyError::Truncated);
        };
        let is_answer = flags & flag::RESPONSE != 0 && flags & flag::OPCODE == 0;
        if their_id != id || !is_answer || questions != 1 {
            return Err(ReplyError::OtherQuestion);
        }
        check_question(message, question)?;
        if answers + authorities + additional > MAX_RECORDS {
            return Err(ReplyError::TooMany);
        }
        let mut reply = Self { flags, rcode: flags & 0x0f, ..Self::default() };
        let place = read_records(message, HEADER + question.len(), answers, &mut reply.answers)?;
        let place = read_records(message, place, authorities, &mut reply.authorities)?;
        read_records(message, place, additional, &mut reply.additional)?;
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

    /// Writes all records, with their TTLs reduced by the time in the cache.
    pub fn write(&self, builder: &mut Builder<'_>, age: u32) {
        let parts = [
            (Section::Answer, &self.answers),
            (Section::Authority, &self.authorities),
            (Section::Additional, &self.additional),
        ];
        for (section, records) in parts {
            records.iter().for_each(|record| record.write(section, builder, age));
        }
    }
}

impl Record {
    fn write(&self, section: Section, builder: &mut Builder<'_>, age: u32) {
        let data = match self.kind {
            kind::CNAME | kind::NS | kind::PTR | kind::DNAME => Data::Name(&self.data),
            _ => Data::Raw(&self.data),
        };
        builder.record_of_class(section, &self.owner, [self.kind, self.class], self.ttl.saturating_sub(age), data);
    }
}

fn check_question(message: &[u8], question: &[u8]) -> Result<(), ReplyError> {
    let theirs = message.get(HEADER..HEADER + question.len()).ok_or(ReplyError::Truncated)?;
    if theirs == question {
        return Ok(());
    }
    Err(if theirs.eq_ignore_ascii_case(question) { ReplyError::OtherCase } else { ReplyError::OtherQuestion })
}

fn read_records(message: &[u8], mut place: usize, count: usize, into: &mut Vec<Record>) -> Result<usize, ReplyError> {
    for _ in 0..count {
        let (record, end) = read_record(message, place)?;
        into.push(record);
        place = end;
    }
    Ok(place)
}

fn read_record(message: &[u8], place: usize) -> Result<(Record, usize), ReplyError> {
    let mut owner = Vec::new();
    let place = Name::expand(message, place, &mut owner)?;
    let (kind, class) = word(message, place).zip(word(message, place + 2)).ok_or(ReplyError::Truncated)?;
    let (ttl, length) = double_word(message, place + 4).zip(word(message, place + 8)).ok_or(ReplyError::Truncated)?;
    let (start, end) = (place + 10, place + 10 + usize::from(length));
    message.get(start..end).ok_or(ReplyError::Truncated)?;
    // A TTL with its highest bit set counts as zero (RFC 2181); an OPT record uses the field for flags.
    let ttl = if ttl > i32::MAX as u32 && kind != kind::OPT { 0 } else { ttl };
    let data = read_data(message, kind, start, end)?;
    Ok((Record { owner: owner.into(), kind, class, ttl, data }, end))
}

/// Names are compressed only in the types of RFC 1035 (RFC 3597), and by some servers in SRV.
fn read_data(message: &[u8], kind: u16, start: usize, end: usize) -> Result<Box<[u8]>, ReplyError> {
    let (fixed, names) = match kind {
        kind::NS | kind::CNAME | kind::PTR | kind::DNAME => (0, 1),
        kind::MX => (2, 1),
        kind::SRV => (6, 1),
        kind::SOA => (0, 2),
        _ => return Ok(message[start..end].into()),
    };
    // Names in the data must not extend past the record.
    let message = &message[..end];
    let mut data = message.get(start..start + fixed).ok_or(ReplyError::Truncated)?.to_vec();
    let mut place = start + fixed;
    for _ in 0..names {
        place = Name::expand(message, place, &mut data)?;
    }
    let rest = message.get(place..).ok_or(ReplyError::Truncated)?;
    if kind != kind::SOA && !rest.is_empty() {
        return Err(ReplyError::Truncated);
    }
    data.extend_from_slice(rest);
    Ok(data.into())
}
