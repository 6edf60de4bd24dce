//! Reads objects back from the kernel.

use std::collections::HashSet;
use std::io;
use std::time::{Duration, Instant};

use portolan_model::Family;

use super::batch::{header, protocol_header};
use super::element::{Bound, Element, join_ranges};
use super::timed::TimedElement;
use super::uapi::{self, message};
use super::{Expression, Hook, Nftables, SetSpec, TableFamily};
use crate::error::{Error, Result};
use crate::netlink::{Attributes, Interruption, Message, MessageWriter, Messages};
use crate::system::libc;

/// Foreign commits are rare, and rehashing a large set takes some tens of milliseconds.
const ATTEMPTS: u32 = 200;
/// How many reads insist on an interval without foreign commits, however long they take.
const STRICT_ATTEMPTS: u32 = 2;
const MAX_PAUSE: Duration = Duration::from_millis(20);

/// A rule as the kernel lists it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ListedRule {
    pub chain: String,
    pub handle: u64,
    pub expressions: Vec<Expression>,
}

/// The elements of a set in the kernel's messages: one piece of memory, where decoded elements are many.
#[derive(Default)]
pub struct Dump {
    messages: Vec<u8>,
    has_simple_ranges: bool,
}

impl Dump {
    /// Hands every element to `each`.
    pub fn elements(&self, each: &mut dyn FnMut(Element)) {
        hand_over(members(&self.messages).filter_map(Element::read), self.has_simple_ranges, each);
    }
}

impl Nftables {
    /// The names of all tables of the family.
    pub fn tables(&mut self, family: impl Into<TableFamily>) -> Result<Vec<String>> {
        let family = family.into();
        let request = request(message::GET_TABLE, family, |_| {});
        self.read(request, &format!("reading the tables of family {}", family.nft_name()), |table| {
            Some(table.string(uapi::TABLE)?.to_owned())
        })
    }

    /// The chains of the table; none if there is no such table.
    pub fn chains(&mut self, family: Family, table: &str) -> Result<Vec<(String, Option<Hook>)>> {
        let request = request(message::GET_CHAIN, family, |_| {});
        let attempted = format!("reading the chains of table {} {table}", family.nft_name());
        self.read(request, &attempted, |chain| {
            // The kernel always dumps the chains of all tables.
            if chain.string(uapi::TABLE)? != table {
                return None;
            }
            let name = chain.string(uapi::chain::NAME)?;
            Some((name.to_owned(), Hook::read(chain)))
        })
    }

    /// The rules of the table in their order, each with its chain; none if there is no such table.
    pub fn rules(&mut self, family: Family, table: &str) -> Result<Vec<(String, Vec<Expression>)>> {
        let rules = self.rules_with_handles(family, table)?;
        Ok(rules.into_iter().map(|rule| (rule.chain, rule.expressions)).collect())
    }

    /// The same, with the handles by which single rules can be deleted.
    pub fn rules_with_handles(&mut self, family: impl Into<TableFamily>, table: &str) -> Result<Vec<ListedRule>> {
        let family = family.into();
        let request = request(message::GET_RULE, family, |writer| {
            writer.string(uapi::TABLE, table);
        });
        let attempted = format!("reading the rules of table {} {table}", family.nft_name());
        self.read(request, &attempted, |rule| {
            let chain = rule.string(uapi::rule::CHAIN)?;
            let expressions = rule.nested(uapi::rule::EXPRESSIONS);
            let expressions = expressions.map(|expression| Expression::read(expression.nested()));
            let handle = rule.first(uapi::rule::HANDLE)?.number_64()?;
            Some(ListedRule { chain: chain.to_owned(), handle, expressions: expressions.collect() })
        })
    }

    /// The sets and maps of the table; none if there is no such table. The names of anonymous ones
    /// begin with `__`.
    pub fn sets(&mut self, family: impl Into<TableFamily>, table: &str) -> Result<Vec<(String, SetSpec)>> {
        let family = family.into();
        let request = request(message::GET_SET, family, |writer| {
            writer.string(uapi::TABLE, table);
        });
        let attempted = format!("reading the sets of table {} {table}", family.nft_name());
        self.read(request, &attempted, |set| {
            let name = set.string(uapi::set::NAME)?;
            Some((name.to_owned(), SetSpec::read(set)))
        })
    }

    /// How long elements of each set last that has a timeout for all of them, in milliseconds.
    pub fn set_timeouts(&mut self, family: impl Into<TableFamily>, table: &str) -> Result<Vec<(String, u64)>> {
        let family = family.into();
        let request = request(message::GET_SET, family, |writer| {
            writer.string(uapi::TABLE, table);
        });
        let attempted = format!("reading the timeouts of the sets of table {} {table}", family.nft_name());
        self.read(request, &attempted, |set| {
            let timeout = set.first(uapi::set::TIMEOUT)?.number_64()?;
            Some((set.string(uapi::set::NAME)?.to_owned(), timeout))
        })
    }

    /// Hands every element of the set to `each`; nothing if there is no such set or table.
    pub fn elements(&mut self, family: Family, table: &str, set: &str, each: &mut dyn FnMut(Element)) -> Result<()> {
        self.dump(family, table, set)?.elements(each);
        Ok(())
    }

    /// All elements of the set, not decoded yet; none if there is no such set or table.
    pub fn dump(&mut self, family: Family, table: &str, set: &str) -> Result<Dump> {
        let attempted = format!("reading the elements of set {set} of table {} {table}", family.nft_name());
        let found = self.read_consistent(&attempted, |nftables, interruption| {
            let Some((spec, _)) = nftables.set_attributes(family, table, set)? else {
                return Ok(Some(None));
            };
            let dump = nftables.dump_elements(family, table, set, &attempted, interruption)?;
            Ok(dump.filter(|dump| !has_duplicates(dump)).map(|dump| Some((spec, dump))))
        })?;
        let dump = found.map(|(spec, messages)| Dump { messages, has_simple_ranges: spec.has_simple_ranges() });
        Ok(dump.unwrap_or_default())
    }

    /// The elements of a set that end by themselves; none if there is no such set. Some may be missing if packets change the
    /// set in the meantime.
    pub fn timed_elements(&mut self, family: Family, table: &str, set: &str) -> Result<Vec<TimedElement>> {
        let attempted = format!("reading the elements of set {set} of table {} {table}", family.nft_name());
        let dump = self.dump_elements(family, table, set, &attempted, Interruption::Accept)?;
        Ok(members(&dump.unwrap_or_default()).filter_map(TimedElement::read).collect())
    }

    /// Hands every element of those sets to `each`, with the place of its set in the list. All are read at one moment,
    /// which takes much less time than one moment for each where there are thousands.
    pub fn elements_of_all(
        &mut self,
        family: impl Into<TableFamily>,
        table: &str,
        sets: &[(String, SetSpec)],
        each: &mut dyn FnMut(usize, Element),
    ) -> Result<()> {
        let family = family.into();
        let attempted = format!("reading the elements of {} sets of table {} {table}", sets.len(), family.nft_name());
        let dumps = self.read_consistent(&attempted, |nftables, interruption| {
            let mut dump_one = |(name, _): &(String, SetSpec)| {
                let dump = nftables.dump_elements(family, table, name, &attempted, interruption)?;
                Ok(dump.filter(|dump| !has_duplicates(dump)))
            };
            sets.iter().map(&mut dump_one).collect::<Result<Option<Vec<Vec<u8>>>>>()
        })?;
        for (index, (dump, (_, spec))) in dumps.iter().zip(sets).enumerate() {
            let elements = members(dump).filter_map(Element::read);
            hand_over(elements, spec.has_simple_ranges(), &mut |element| each(index, element));
            members(dump).filter_map(Element::read_catch_all).for_each(|element| each(index, element));
        }
        Ok(())
    }

    /// The messages are kept until the dump is known to be complete, in a fraction of the memory of the elements.
    pub(super) fn dump_elements(
        &mut self,
        family: impl Into<TableFamily>,
        table: &str,
        set: &str,
        attempted: &str,
        interruption: Interruption,
    ) -> Result<Option<Vec<u8>>> {
        let mut request = request(message::GET_ELEMENT, family, |writer| {
            writer.string(uapi::TABLE, table);
            writer.string(uapi::element::LIST_SET, set);
        });
        let keep = |dump: &mut Vec<u8>, message: &Message<'_>| {
            dump.extend_from_slice(message.bytes);
            dump.resize(crate::netlink::aligned(dump.len()), 0);
        };
        match self.socket.try_dump(&mut request, attempted, interruption, keep) {
            Err(error) if error.is_absent() => Ok(Some(Vec::new())),
            dump => dump,
        }
    }

    /// Dumps objects; those that `decode` returns `None` for are skipped.
    pub(super) fn read<T>(
        &mut self,
        mut request: MessageWriter,
        attempted: &str,
        decode: impl Fn(Attributes<'_>) -> Option<T>,
    ) -> Result<Vec<T>> {
        let gather = |objects: &mut Vec<T>, message: &Message<'_>| {
            objects.extend(decode(message.attributes(uapi::PROTOCOL_HEADER)));
        };
        self.read_consistent(attempted, |nftables, interruption| {
            match nftables.socket.try_dump(&mut request, attempted, interruption, gather) {
                Err(error) if error.is_absent() => Ok(Some(Vec::new())),
                objects => objects,
            }
        })
    }

    /// Repeats a read until no commit happened during it. The kernel marks dumps as interrupted by the generation
    /// number, but increments that number before it removes deleted elements from a set, which makes it lose its
    /// position in a dump (Linux 6.18). A commit in progress is therefore waited for. `read` returns `None` if it has
    /// detected by itself that it must be repeated.
    ///
    /// Commits to other tables count as well, so that a busy neighbour could prevent us from ever reading a large
    /// set. After a while a read is therefore accepted as it is: commits to other tables do not touch ours, and
    /// [`super::Monitor`] reports those that do.
    fn read_consistent<T>(
        &mut self,
        attempted: &str,
        mut read: impl FnMut(&mut Self, Interruption) -> Result<Option<T>>,
    ) -> Result<T> {
        let start = Instant::now();
        for attempt in 0..ATTEMPTS {
            let is_strict = attempt < STRICT_ATTEMPTS || start.elapsed() < self.strict_for;
            let interruption = if is_strict { Interruption::Refuse } else { Interruption::Accept };
            let generation = self.generation()?;
            self.wait_for_commits()?;
            if let Some(value) = read(self, interruption)?
                && (!is_strict || self.generation()? == generation)
            {
                return Ok(value);
            }
            std::thread::sleep(MAX_PAUSE.min(Duration::from_micros(100) * attempt));
        }
        Err(Error::io(attempted, io::Error::from_raw_os_error(libc::EINTR)))
    }
}

/// The elements in a dump, not decoded.
pub(super) fn members(dump: &[u8]) -> impl Iterator<Item = Attributes<'_>> {
    Messages::new(dump).flat_map(|message| {
        let attributes = message.attributes(uapi::PROTOCOL_HEADER);
        let list = attributes.nested(uapi::element::LIST_ELEMENTS);
        list.map(|member| member.nested())
    })
}

/// A set without a size is a hash table that the kernel rehashes some time after it has grown. Parts of a dump from
/// before and after that are inconsistent: some elements come twice while others are missing, and the dump is not
/// marked as interrupted (Linux 6.18). The kernel continues after as many elements as it has returned, so that a dump
/// without duplicates is complete.
pub(super) fn has_duplicates(dump: &[u8]) -> bool {
    let mut seen = HashSet::new();
    members(dump).any(|member| {
        let key = member.first(uapi::element::KEY).map(|key| key.value);
        // The bounds of adjacent ranges have the same key.
        let flags = member.number_32(uapi::element::FLAGS).unwrap_or(0);
        !seen.insert((key, flags))
    })
}

fn hand_over(elements: impl Iterator<Item = (Element, Bound)>, has_simple_ranges: bool, each: &mut dyn FnMut(Element)) {
    if has_simple_ranges {
        join_ranges(elements.collect()).into_iter().for_each(each);
    } else {
        elements.map(|(element, _)| element).for_each(each);
    }
}

pub(super) fn request(
    kind: u16,
    family: impl Into<TableFamily>,
    write: impl FnOnce(&mut MessageWriter),
) -> MessageWriter {
    let mut writer = MessageWriter::default();
    writer.message(header(kind, 0), &protocol_header(family), write);
    writer
}
