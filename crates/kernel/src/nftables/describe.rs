//! Describes a message from its own bytes, for errors.

use portolan_model::Family;

use super::uapi::{self, message};
use crate::netlink::{Attributes, Message, Messages};

/// Describes the message with that index in the batch, for example "add element 0a600001 in set services of table ip
/// portolan".
pub(super) fn describe_operation(batch: &[u8], index: usize, offset: Option<u32>) -> String {
    match Messages::new(batch).nth(index) {
        Some(operation) => describe(&operation, offset),
        None => format!("message {index}"),
    }
}

/// `offset` is the position in the message that the kernel objects to.
fn describe(operation: &Message<'_>, offset: Option<u32>) -> String {
    match operation.kind {
        message::BATCH_BEGIN => return "beginning of the batch".to_owned(),
        message::BATCH_END => return "end of the batch".to_owned(),
        _ => {}
    }
    let attributes = operation.attributes(uapi::PROTOCOL_HEADER);
    let what = match words(operation.kind) {
        Some(words) => format!("{} {}", words.verb, words.object(attributes)),
        None => "unknown operation".to_owned(),
    };
    let element = offset
        .filter(|_| is_about_elements(operation.kind))
        .and_then(|offset| key_at(operation.body, offset))
        .map_or(String::new(), |key| format!(" (key {key})"));
    format!("{what}{element}{}", describe_table(operation, attributes))
}

/// Describes a notification, for example "deleted chain dispatch"; `None` if it is not about an object.
pub(super) fn describe_change(notification: &Message<'_>) -> Option<String> {
    let words = words(notification.kind)?;
    let attributes = notification.attributes(uapi::PROTOCOL_HEADER);
    let participle = match words.verb {
        ADD => "added",
        _ => "deleted",
    };
    Some(format!("{participle} {}", words.object(attributes)))
}

/// The operation and the type of its object, and the attribute with the name of the object.
struct Words {
    verb: &'static str,
    noun: &'static str,
    name: u16,
}

const ADD: &str = "add";
const DELETE: &str = "delete";

impl Words {
    fn object(&self, attributes: Attributes<'_>) -> String {
        match attributes.string(self.name) {
            Some(name) => format!("{} {name}", self.noun),
            None => self.noun.to_owned(),
        }
    }
}

fn words(kind: u16) -> Option<Words> {
    let (verb, noun, name) = match kind & 0xff {
        message::NEW_TABLE => (ADD, "table", uapi::TABLE),
        message::DELETE_TABLE => (DELETE, "table", uapi::TABLE),
        message::NEW_CHAIN => (ADD, "chain", uapi::chain::NAME),
        message::DELETE_CHAIN => (DELETE, "chain", uapi::chain::NAME),
        message::NEW_RULE => (ADD, "rule in chain", uapi::rule::CHAIN),
        message::DELETE_RULE => (DELETE, "rule in chain", uapi::rule::CHAIN),
        message::NEW_SET => (ADD, "set", uapi::set::NAME),
        message::DELETE_SET => (DELETE, "set", uapi::set::NAME),
        message::NEW_ELEMENT => (ADD, "element in set", uapi::element::LIST_SET),
        message::DELETE_ELEMENT | message::DESTROY_ELEMENT => (DELETE, "element in set", uapi::element::LIST_SET),
        message::NEW_OBJECT => (ADD, "object", uapi::OBJECT_NAME),
        message::DELETE_OBJECT => (DELETE, "object", uapi::OBJECT_NAME),
        message::NEW_FLOWTABLE => (ADD, "flowtable", uapi::FLOWTABLE_NAME),
        message::DELETE_FLOWTABLE => (DELETE, "flowtable", uapi::FLOWTABLE_NAME),
        _ => return None,
    };
    Some(Words { verb, noun, name })
}

fn describe_table(operation: &Message<'_>, attributes: Attributes<'_>) -> String {
    let family = operation.body.first().copied().and_then(Family::from_number);
    let family = family.map_or("", Family::nft_name);
    match (operation.kind & 0xff, attributes.string(uapi::TABLE)) {
        (message::NEW_TABLE | message::DELETE_TABLE, _) | (_, None) => {
            format!(" of family {family}")
        }
        (_, Some(table)) => format!(" of table {family} {table}"),
    }
}

fn is_about_elements(kind: u16) -> bool {
    matches!(kind & 0xff, message::NEW_ELEMENT | message::DELETE_ELEMENT | message::DESTROY_ELEMENT)
}

/// The key of the element that the offset falls into, in hexadecimal digits.
fn key_at(body: &[u8], offset: u32) -> Option<String> {
    // The kernel counts from the netlink header, which is not part of the body.
    let offset = usize::try_from(offset).ok()?.checked_sub(16)?;
    let attributes = Attributes::new(body.get(uapi::PROTOCOL_HEADER..)?);
    let list = attributes.nested(uapi::element::LIST_ELEMENTS);
    let position = |value: &[u8]| value.as_ptr().addr() - body.as_ptr().addr();
    let element = list.take_while(|element| position(element.value) <= offset + 4).last()?;
    let key = element.nested().nested(uapi::element::KEY).first(uapi::data::VALUE)?;
    Some(key.value.iter().map(|byte| format!("{byte:02x}")).collect())
}
