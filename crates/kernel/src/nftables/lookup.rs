//! Reads elements by their keys. The kernel restarts each piece of a dump from the beginning of the set, so that dumping a
//! set costs the square of its size; a lookup costs the same in a set of any size.

use portolan_model::Family;

use super::element::Element;
use super::read::{members, request};
use super::uapi::{LIST_ELEMENT, TABLE, element as attribute, message, set};
use super::verdict::write_value;
use super::{Nftables, SetSpec, uapi};
use crate::error::{Error, Result};
use crate::netlink::{MessageWriter, Messages};

/// Keys in one request. The kernel queues a reply of about 1 KB of memory for each.
const KEYS_TOGETHER: usize = 1000;

/// What a lookup of keys has shown about a set.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Found {
    /// The set has these elements and no others.
    Exactly,
    /// The set has these elements. Whether it has others is unknown: the kernel does not give the number of elements (Linux
    /// 6.12 does not, 6.18 does).
    AtLeast,
    /// The set has other elements.
    Others,
}

impl Found {
    fn compared(found: usize, count: Option<usize>) -> Self {
        match count {
            None => Self::AtLeast,
            Some(count) if count == found => Self::Exactly,
            Some(_) => Self::Others,
        }
    }
}

impl Nftables {
    /// Hands the elements with those keys to `each`, until a key has none. The keys must differ from each other. Not for sets
    /// of ranges.
    pub fn look_up(
        &mut self,
        family: Family,
        table: &str,
        set: &str,
        keys: &mut dyn Iterator<Item = Vec<u8>>,
        each: &mut dyn FnMut(Element),
    ) -> Result<Found> {
        let count = self.element_count(family, table, set)?.map(|count| count as usize);
        let (mut keys, mut found) = (keys.peekable(), 0);
        while keys.peek().is_some() {
            let (mut request, number) = request_for(family, table, set, keys.by_ref().take(KEYS_TOGETHER));
            found += number;
            if count.is_some_and(|count| found > count) {
                return Ok(Found::Others);
            }
            let attempted = format!("looking up elements of set {set} of table {} {table}", family.nft_name());
            match self.socket.request(&mut request, &attempted) {
                Err(error) if error.is_absent() => return Ok(Found::Others),
                reply => members(&reply?).filter_map(Element::read).for_each(|(element, _)| each(element)),
            }
        }
        Ok(Found::compared(found, count))
    }

    /// The number of elements of a set. `None` if there is no such set, or if the kernel does not give the number.
    pub fn element_count(&mut self, family: Family, table: &str, set: &str) -> Result<Option<u32>> {
        let count = self.set_attributes(family, table, set)?.and_then(|(_, count)| count);
        Ok(count.filter(|_| !self.hides_counts))
    }

    /// The specification of one set, and the number of its elements where the kernel gives it.
    pub(super) fn set_attributes(
        &mut self,
        family: Family,
        table: &str,
        set: &str,
    ) -> Result<Option<(SetSpec, Option<u32>)>> {
        let attempted = format!("reading set {set} of table {} {table}", family.nft_name());
        let mut request = request(message::GET_SET, family, |writer| {
            writer.string(TABLE, table);
            writer.string(set::NAME, set);
        });
        let answer = match self.socket.request(&mut request, &attempted) {
            Err(error) if error.is_absent() => return Ok(None),
            answer => answer?,
        };
        let message = Messages::new(&answer).next().ok_or_else(|| Error::malformed(attempted, "it has no set"))?;
        let attributes = message.attributes(uapi::PROTOCOL_HEADER);
        Ok(Some((SetSpec::read(attributes), attributes.number_32(set::COUNT))))
    }
}

/// A request for one reply for each key, and the number of keys. The kernel stops at the first key that the set does not have, and
/// refuses.
fn request_for(family: Family, table: &str, set: &str, keys: impl Iterator<Item = Vec<u8>>) -> (MessageWriter, usize) {
    let mut number = 0;
    let request = request(message::GET_ELEMENT, family, |writer| {
        writer.string(TABLE, table);
        writer.string(attribute::LIST_SET, set);
        writer.nest(attribute::LIST_ELEMENTS, |writer| {
            for key in keys {
                writer.nest(LIST_ELEMENT, |writer| write_value(writer, attribute::KEY, &key));
                number += 1;
            }
        });
    });
    (request, number)
}
