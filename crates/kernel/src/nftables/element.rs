//! Elements of sets and maps.

use std::sync::Arc;

use super::Verdict;
use super::uapi::{LIST_ELEMENT, element as attribute};
use super::verdict::{read_value, write_value};
use crate::netlink::{Attributes, MessageWriter};

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Element {
    /// Empty for the catch-all element, which [`super::Nftables::elements_of_all`] alone gives.
    pub key: Vec<u8>,
    /// The last key of the range, inclusive; `None` for a single key.
    pub key_end: Option<Vec<u8>>,
    pub data: ElementData,
    /// `nft list` prints it as `comment "..."`; at most 128 bytes by its convention.
    pub comment: Option<Arc<str>>,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub enum ElementData {
    None,
    Verdict(Verdict),
    Value(Vec<u8>),
}

/// The kernel's limit for user data is 256 bytes, of which tag, length and zero take three.
const LONGEST_COMMENT: usize = 250;

impl Element {
    pub(super) fn write(&self, writer: &mut MessageWriter) {
        writer.nest(LIST_ELEMENT, |writer| self.write_content(writer));
    }

    pub(super) fn write_content(&self, writer: &mut MessageWriter) {
        self.write_keys(writer);
        self.write_data(writer);
    }

    /// Writes the part that identifies an element for deletion.
    pub(super) fn write_for_deletion(&self, writer: &mut MessageWriter) {
        writer.nest(LIST_ELEMENT, |writer| self.write_keys(writer));
    }

    /// The first key of a range over a single field; its end is a separate element.
    pub(super) fn write_start(&self, writer: &mut MessageWriter, with_data: bool) {
        writer.nest(LIST_ELEMENT, |writer| {
            write_value(writer, attribute::KEY, &self.key);
            if with_data {
                self.write_data(writer);
            }
        });
    }

    /// The first key after a range over a single field; a range up to the last key has none.
    pub(super) fn write_end(&self, writer: &mut MessageWriter) {
        let last = self.key_end.as_deref().unwrap_or(&self.key);
        if let Some(behind) = successor(last) {
            writer.nest(LIST_ELEMENT, |writer| {
                write_value(writer, attribute::KEY, &behind);
                writer.number_32(attribute::FLAGS, attribute::FLAG_INTERVAL_END);
            });
        }
    }

    /// An upper bound for the length of the element in a message, in any of its forms.
    pub(super) fn longest_encoding(&self) -> usize {
        let chain = match &self.data {
            ElementData::Verdict(Verdict::Jump(chain) | Verdict::Goto(chain)) => chain.len(),
            ElementData::Value(value) => value.len(),
            ElementData::Verdict(_) | ElementData::None => 0,
        };
        let comment = self.comment.as_ref().map_or(0, |comment| comment.len());
        let keys = self.key.len() + self.key_end.as_ref().map_or(self.key.len(), Vec::len);
        96 + keys + chain + comment.min(LONGEST_COMMENT)
    }

    fn write_keys(&self, writer: &mut MessageWriter) {
        write_value(writer, attribute::KEY, &self.key);
        if let Some(end) = &self.key_end {
            write_value(writer, attribute::KEY_END, end);
        }
    }

    fn write_data(&self, writer: &mut MessageWriter) {
        match &self.data {
            ElementData::None => {}
            ElementData::Verdict(verdict) => {
                writer.nest(attribute::DATA, |writer| verdict.write(writer));
            }
            ElementData::Value(value) => write_value(writer, attribute::DATA, value),
        }
        if let Some(comment) = &self.comment {
            writer.attribute(attribute::USER_DATA, &comment_user_data(comment));
        }
    }

    /// Reads a member of an element list; `None` if it has no key, like the catch-all element.
    pub(super) fn read(member: Attributes<'_>) -> Option<(Self, Bound)> {
        let flags = member.number_32(attribute::FLAGS).unwrap_or(0);
        let bound = match flags & attribute::FLAG_INTERVAL_END {
            0 => Bound::Start,
            _ => Bound::End,
        };
        let element = Element {
            key: read_value(member, attribute::KEY)?,
            key_end: read_value(member, attribute::KEY_END),
            data: read_data(member),
            comment: read_comment(member),
        };
        Some((element, bound))
    }
}

impl Element {
    /// Reads a member of an element list if it is the one for every key that no other element has.
    pub(super) fn read_catch_all(member: Attributes<'_>) -> Option<Self> {
        let flags = member.number_32(attribute::FLAGS).unwrap_or(0);
        (flags & attribute::FLAG_CATCH_ALL != 0).then(|| Element {
            key: Vec::new(),
            key_end: None,
            data: read_data(member),
            comment: read_comment(member),
        })
    }
}

/// The bound of a range over a single field that an element of the kernel represents.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) enum Bound {
    End,
    Start,
}

/// Joins the two bounds of ranges over a single field.
pub(super) fn join_ranges(mut bounds: Vec<(Element, Bound)>) -> Vec<Element> {
    // For adjacent ranges, the end of one has the key of the start of the other.
    bounds.sort_by(|(one, one_bound), (other, other_bound)| (&one.key, one_bound).cmp(&(&other.key, other_bound)));
    let mut ranges: Vec<Element> = Vec::new();
    let mut open: Option<Element> = None;
    for (element, bound) in bounds {
        if let Some(mut range) = open.take() {
            range.key_end = predecessor(&element.key).filter(|last| *last != range.key);
            ranges.push(range);
        }
        if bound == Bound::Start {
            open = Some(element);
        }
    }
    if let Some(mut range) = open {
        let last = vec![0xff; range.key.len()];
        range.key_end = Some(last).filter(|last| *last != range.key);
        ranges.push(range);
    }
    ranges
}

/// The next key; `None` after the last one.
fn successor(key: &[u8]) -> Option<Vec<u8>> {
    let mut next = key.to_vec();
    for byte in next.iter_mut().rev() {
        *byte = byte.wrapping_add(1);
        if *byte != 0 {
            return Some(next);
        }
    }
    None
}

/// The previous key; `None` before the first one.
fn predecessor(key: &[u8]) -> Option<Vec<u8>> {
    let mut previous = key.to_vec();
    for byte in previous.iter_mut().rev() {
        *byte = byte.wrapping_sub(1);
        if *byte != 0xff {
            return Some(previous);
        }
    }
    None
}

fn read_data(member: Attributes<'_>) -> ElementData {
    let content = member.nested(attribute::DATA);
    match Verdict::read(content) {
        Some(verdict) => ElementData::Verdict(verdict),
        None => read_value(member, attribute::DATA).map_or(ElementData::None, ElementData::Value),
    }
}

/// One entry of tag, length and zero-terminated text.
pub(super) fn comment_user_data(comment: &str) -> Vec<u8> {
    let length = comment.floor_char_boundary(LONGEST_COMMENT);
    let text = &comment.as_bytes()[..length];
    let mut data = vec![attribute::USER_DATA_COMMENT, (length + 1) as u8];
    data.extend_from_slice(text);
    data.push(0);
    data
}

fn read_comment(member: Attributes<'_>) -> Option<Arc<str>> {
    let mut data = member.first(attribute::USER_DATA)?.value;
    while let [tag, length, rest @ ..] = data {
        let value = rest.get(..usize::from(*length))?;
        if *tag == attribute::USER_DATA_COMMENT {
            let text = value.strip_suffix(&[0]).unwrap_or(value);
            return std::str::from_utf8(text).ok().map(Arc::from);
        }
        data = &rest[value.len()..];
    }
    None
}
