//! A batch: changes that the kernel applies as one transaction.

use std::borrow::Borrow;

use portolan_model::Family;

use super::chain::Hook;
use super::element::{Element, ElementData, comment_user_data};
use super::expression::Expression;
use super::family::TableFamily;
use super::set::SetSpec;
use super::timed::TimedElement;
use super::uapi::{self, message};
use crate::netlink::{Header, MessageWriter, flags};

/// A list attribute has a 16-bit length.
const LONGEST_LIST: usize = 65_000;

/// The opening message with its generation attribute, whose value is at the end.
const OPENING_LENGTH: usize = 28;
/// The value for a batch that is not based on a particular generation.
const ANY_GENERATION: u32 = 0;
/// `struct nfgenmsg` of the messages around a batch, with the subsystem as resource.
const FRAME_HEADER: [u8; uapi::PROTOCOL_HEADER] = [0, 0, 0, uapi::SUBSYSTEM as u8];

/// Changes to commit together. Names are not validated here: the kernel refuses invalid ones.
#[derive(Clone, Debug)]
pub struct Batch {
    /// The message that opens the batch, then the operations.
    writer: MessageWriter,
    set_id: u32,
}

impl Default for Batch {
    fn default() -> Self {
        Batch::new()
    }
}

impl Batch {
    pub fn new() -> Self {
        Batch::with_capacity(0)
    }

    /// An empty batch with room for that many bytes.
    pub fn with_capacity(bytes: usize) -> Self {
        let mut writer = MessageWriter::with_capacity(OPENING_LENGTH + bytes);
        writer.message(frame(message::BATCH_BEGIN), &FRAME_HEADER, |writer| {
            writer.number_32(uapi::BATCH_GENERATION, ANY_GENERATION);
        });
        Batch { writer, set_id: 0 }
    }

    /// Makes the kernel refuse the batch if there was any commit since that generation.
    pub fn based_on(&mut self, generation: u32) {
        let generation = generation.to_be_bytes();
        self.writer.overwrite(OPENING_LENGTH - generation.len(), &generation);
    }

    /// No error if the table exists already.
    pub fn add_table(&mut self, family: Family, table: &str) {
        self.operation(message::NEW_TABLE, flags::CREATE, family, table, |_| {});
    }

    pub fn delete_table(&mut self, family: Family, table: &str) {
        self.operation(message::DELETE_TABLE, 0, family, table, |_| {});
    }

    /// No error if the chain exists already.
    pub fn add_chain(&mut self, family: Family, table: &str, name: &str, hook: Option<&Hook>) {
        self.operation(message::NEW_CHAIN, flags::CREATE, family, table, |writer| {
            writer.string(uapi::chain::NAME, name);
            if let Some(hook) = hook {
                hook.write(writer);
            }
        });
    }

    pub fn delete_chain(&mut self, family: Family, table: &str, name: &str) {
        self.operation(message::DELETE_CHAIN, 0, family, table, |writer| {
            writer.string(uapi::chain::NAME, name);
        });
    }

    /// Deletes all rules of the chain.
    pub fn flush_chain(&mut self, family: Family, table: &str, chain: &str) {
        self.operation(message::DELETE_RULE, 0, family, table, |writer| {
            writer.string(uapi::rule::CHAIN, chain);
        });
    }

    /// Deletes one rule by its handle, which [`super::Nftables::rules_with_handles`] returns.
    pub fn delete_rule(&mut self, family: Family, table: &str, chain: &str, handle: u64) {
        self.operation(message::DELETE_RULE, 0, family, table, |writer| {
            writer.string(uapi::rule::CHAIN, chain);
            writer.number_64(uapi::rule::HANDLE, handle);
        });
    }

    /// Appends a rule to the chain. `nft list` prints the comment after it.
    pub fn add_rule(
        &mut self,
        family: Family,
        table: &str,
        chain: &str,
        expressions: &[Expression],
        comment: Option<&str>,
    ) {
        let flags = flags::CREATE | flags::APPEND;
        self.operation(message::NEW_RULE, flags, family, table, |writer| {
            writer.string(uapi::rule::CHAIN, chain);
            writer.nest(uapi::rule::EXPRESSIONS, |writer| {
                for expression in expressions {
                    expression.write(writer);
                }
            });
            if let Some(comment) = comment {
                writer.attribute(uapi::rule::USER_DATA, &comment_user_data(comment));
            }
        });
    }

    /// No error if the same set exists already.
    pub fn add_set(&mut self, family: Family, table: &str, name: &str, spec: &SetSpec) {
        self.set_id += 1;
        let id = self.set_id;
        self.operation(message::NEW_SET, flags::CREATE, family, table, |writer| {
            writer.string(uapi::set::NAME, name);
            spec.write(writer, id);
        });
    }

    pub fn delete_set(&mut self, family: Family, table: &str, name: &str) {
        self.operation(message::DELETE_SET, 0, family, table, |writer| {
            writer.string(uapi::set::NAME, name);
        });
    }

    /// Adds elements to a set or map, except for ranges over a single field, which need [`Self::add_ranges`]. An
    /// element that exists in a map is an error, even with the same data; in a set it is not.
    pub fn add_elements(
        &mut self,
        family: Family,
        table: &str,
        set: &str,
        elements: impl Iterator<Item = impl Borrow<Element>>,
    ) {
        let list = ElementList { kind: message::NEW_ELEMENT, family, table, set };
        self.elements(&list, elements, |element, writer| element.borrow().write(writer));
    }

    /// Adds elements that end by themselves.
    pub fn add_timed_elements<'a>(
        &mut self,
        family: Family,
        table: &str,
        set: &str,
        elements: impl Iterator<Item = &'a TimedElement>,
    ) {
        let list = ElementList { kind: message::NEW_ELEMENT, family, table, set };
        self.elements(&list, elements, |element, writer| element.write(writer));
    }

    /// Deletes the elements with those keys; their data is ignored.
    pub fn delete_elements(
        &mut self,
        family: Family,
        table: &str,
        set: &str,
        elements: impl Iterator<Item = impl Borrow<Element>>,
    ) {
        let list = ElementList { kind: message::DELETE_ELEMENT, family, table, set };
        self.elements(&list, elements, |element, writer| element.borrow().write_for_deletion(writer));
    }

    /// The same, where an element may be absent. Linux before 6.3 refuses the message (`EINVAL`).
    pub fn destroy_elements(
        &mut self,
        family: Family,
        table: &str,
        set: &str,
        elements: impl Iterator<Item = impl Borrow<Element>>,
    ) {
        let list = ElementList { kind: message::DESTROY_ELEMENT, family, table, set };
        self.elements(&list, elements, |element, writer| element.borrow().write_for_deletion(writer));
    }

    /// Adds elements to a set of ranges over a single field ([`SetSpec::has_simple_ranges`]). The kernel stores the
    /// two bounds of such a range as two elements.
    pub fn add_ranges(
        &mut self,
        family: Family,
        table: &str,
        set: &str,
        ranges: impl Iterator<Item = impl Borrow<Element>>,
    ) {
        let list = ElementList { kind: message::NEW_ELEMENT, family, table, set };
        self.elements(&list, ranges, |range, writer| {
            range.borrow().write_start(writer, true);
            range.borrow().write_end(writer);
        });
    }

    /// Deletes elements from a set of ranges over a single field.
    pub fn delete_ranges(
        &mut self,
        family: Family,
        table: &str,
        set: &str,
        ranges: impl Iterator<Item = impl Borrow<Element>>,
    ) {
        let list = ElementList { kind: message::DELETE_ELEMENT, family, table, set };
        self.elements(&list, ranges, |range, writer| {
            range.borrow().write_start(writer, false);
            range.borrow().write_end(writer);
        });
    }

    /// Deletes all elements of the set.
    pub fn flush_set(&mut self, family: Family, table: &str, set: &str) {
        self.operation(message::DELETE_ELEMENT, 0, family, table, |writer| {
            writer.string(uapi::element::LIST_SET, set);
        });
    }

    pub fn is_empty(&self) -> bool {
        self.message_count() == 0
    }

    /// The length of the operations, without the messages that open and close the batch.
    pub fn byte_length(&self) -> usize {
        self.writer.bytes().len() - OPENING_LENGTH
    }

    /// The number of operations; a list of elements counts as one.
    pub fn message_count(&self) -> usize {
        self.writer.count() as usize - 1
    }

    /// Closes the batch. Only the last operation is acknowledged, because thousands of acknowledgements would
    /// overflow the receive queue; the closing message itself is acknowledged only since Linux 6.10.
    pub(super) fn close(self) -> MessageWriter {
        let mut writer = self.without_end();
        writer.message(frame(message::BATCH_END), &FRAME_HEADER, |_| {});
        writer
    }

    /// The same without the message that makes the kernel commit.
    pub(super) fn without_end(mut self) -> MessageWriter {
        self.writer.add_flags_to_last(flags::ACKNOWLEDGE);
        self.writer
    }

    fn operation(
        &mut self,
        kind: u16,
        flags: u16,
        family: Family,
        table: &str,
        write: impl FnOnce(&mut MessageWriter),
    ) {
        self.writer.message(header(kind, flags), &protocol_header(family), |writer| {
            writer.string(uapi::TABLE, table);
            write(writer);
        });
    }

    /// Splits the elements into as many messages as the maximum length of a list requires.
    fn elements<Item: Borrow<Element>>(
        &mut self,
        list: &ElementList<'_>,
        elements: impl Iterator<Item = Item>,
        write: impl Fn(&Item, &mut MessageWriter),
    ) {
        let mut elements = elements.peekable();
        while let Some(first) = elements.peek() {
            let flags = list.flags(first.borrow());
            self.operation(list.kind, flags, list.family, list.table, |writer| {
                writer.string(uapi::element::LIST_SET, list.set);
                writer.nest(uapi::element::LIST_ELEMENTS, |writer| {
                    let mut room = LONGEST_LIST;
                    while let Some(element) = elements.next_if(|next| next.borrow().longest_encoding() < room) {
                        room -= element.borrow().longest_encoding();
                        write(&element, writer);
                    }
                });
            });
        }
    }
}

/// The set of a list of elements, and the operation.
struct ElementList<'a> {
    kind: u16,
    family: Family,
    table: &'a str,
    set: &'a str,
}

impl ElementList<'_> {
    fn flags(&self, first: &Element) -> u16 {
        match (self.kind, &first.data) {
            (message::DELETE_ELEMENT | message::DESTROY_ELEMENT, _) => 0,
            (_, ElementData::None) => flags::CREATE,
            _ => flags::CREATE | flags::EXCLUSIVE,
        }
    }
}

fn frame(kind: u16) -> Header {
    Header { kind, flags: flags::REQUEST }
}

pub(super) fn header(kind: u16, flags: u16) -> Header {
    Header { kind: uapi::SUBSYSTEM << 8 | kind, flags: flags::REQUEST | flags }
}

/// `struct nfgenmsg`: family, version, resource.
pub(super) fn protocol_header(family: impl Into<TableFamily>) -> [u8; uapi::PROTOCOL_HEADER] {
    [family.into().number(), 0, 0, 0]
}
