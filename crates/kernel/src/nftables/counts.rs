//! Counter values. They are read separately from the rules and elements that hold them, because they are not part of
//! their identity: two rules are equal whatever they have counted.

use std::time::Duration;

use portolan_model::Family;

use super::Nftables;
use super::read::{has_duplicates, members, request};
use super::uapi::{self, element, expression as attribute, message};
use super::verdict::read_value;
use crate::error::{Error, Result};
use crate::netlink::{Attributes, Interruption, Message};
use crate::system::libc;

/// How often a dump is restarted when the kernel refuses to continue it.
const ATTEMPTS: u32 = 20;

#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Count {
    pub packets: u64,
    pub bytes: u64,
}

impl Nftables {
    /// Passes the key and the counter of every element of a set to `each`; nothing if there is no such set. Elements
    /// that packets add in the meantime may be missing.
    pub fn element_counts(
        &mut self,
        family: Family,
        table: &str,
        set: &str,
        each: &mut dyn FnMut(&[u8], Count),
    ) -> Result<()> {
        let attempted = format!("reading the counters of set {set} of table {} {table}", family.nft_name());
        let dump = undisturbed(&attempted, || {
            let dump = self.dump_elements(family, table, set, &attempted, Interruption::Accept)?;
            Ok(dump.filter(|dump| !has_duplicates(dump)))
        })?;
        members(&dump).filter_map(read_element).for_each(|(key, count)| each(&key, count));
        Ok(())
    }

    /// The counters in the rules of the table, each with the chain of its rule.
    pub fn rule_counts(&mut self, family: Family, table: &str) -> Result<Vec<(String, Count)>> {
        let attempted = format!("reading the counters of table {} {table}", family.nft_name());
        let mut request = request(message::GET_RULE, family, |writer| writer.string(uapi::TABLE, table));
        let gather = |counts: &mut Vec<(String, Count)>, message: &Message<'_>| {
            let rule = message.attributes(uapi::PROTOCOL_HEADER);
            let chain = rule.string(uapi::rule::CHAIN).unwrap_or_default();
            let found = rule.nested(uapi::rule::EXPRESSIONS).filter_map(|expression| read_count(expression.nested()));
            counts.extend(found.map(|count| (chain.to_owned(), count)));
        };
        undisturbed(&attempted, || match self.socket.try_dump(&mut request, &attempted, Interruption::Accept, gather) {
            Err(error) if error.is_absent() => Ok(Some(Vec::new())),
            counts => counts,
        })
    }
}

/// A concurrent commit is no reason to read again: counters are never consistent with each other. A rehash is, but it
/// is short.
fn undisturbed<T>(attempted: &str, mut read: impl FnMut() -> Result<Option<T>>) -> Result<T> {
    for attempt in 0..ATTEMPTS {
        if let Some(value) = read()? {
            return Ok(value);
        }
        std::thread::sleep(Duration::from_millis(u64::from(attempt)));
    }
    Err(Error::io(attempted, std::io::Error::from_raw_os_error(libc::EINTR)))
}

pub(super) fn read_element(member: Attributes<'_>) -> Option<(Vec<u8>, Count)> {
    let count = read_count(member.first(element::EXPRESSION)?.nested())?;
    Some((read_value(member, element::KEY)?, count))
}

pub(super) fn read_count(expression: Attributes<'_>) -> Option<Count> {
    if expression.string(attribute::NAME)? != "counter" {
        return None;
    }
    let data = expression.nested(attribute::DATA);
    let number = |kind| data.first(kind).and_then(|number| number.number_64());
    Some(Count { packets: number(attribute::COUNTER_PACKETS)?, bytes: number(attribute::COUNTER_BYTES)? })
}
