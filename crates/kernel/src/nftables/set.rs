//! Sets and maps: their specification.

use super::uapi::{LIST_ELEMENT, set as attribute};
use crate::netlink::{Attributes, MessageWriter, aligned};

/// A set or map, comparable to that of the kernel.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct SetSpec {
    /// The type number by which `nft` prints keys; the kernel ignores it.
    pub key_type: u32,
    /// The length in bytes of each concatenated field; one entry is a key without concatenation.
    pub key_fields: Vec<u32>,
    pub data: SetData,
    /// Elements are ranges.
    pub interval: bool,
    /// Rules may add elements.
    pub dynamic: bool,
    /// Elements may have their own timeouts.
    pub timeout: bool,
    /// The maximum number of elements.
    pub size: Option<u32>,
    /// Data of the `nft` program, such as byte orders and the comment.
    pub user_data: Vec<u8>,
}

/// The data of a map.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum SetData {
    /// It is a set, not a map.
    #[default]
    None,
    Verdict,
    Value {
        data_type: u32,
        length: u32,
    },
}

impl SetSpec {
    /// The length of a key in bytes. Concatenated fields are padded to registers, a sole one is not.
    pub fn key_length(&self) -> u32 {
        match self.key_fields.as_slice() {
            [length] => *length,
            fields => fields.iter().map(|length| padded(*length)).sum(),
        }
    }

    /// Whether it is a set of ranges over a single field, whose elements have a special form: see
    /// [`super::Batch::add_ranges`].
    pub fn has_simple_ranges(&self) -> bool {
        self.interval && !self.is_concatenated()
    }

    fn is_concatenated(&self) -> bool {
        self.key_fields.len() > 1
    }

    fn flags(&self) -> u32 {
        let flag = |condition, flag| if condition { flag } else { 0 };
        flag(self.interval, attribute::FLAG_INTERVAL)
            | flag(self.data != SetData::None, attribute::FLAG_MAP)
            | flag(self.timeout, attribute::FLAG_TIMEOUT)
            | flag(self.dynamic, attribute::FLAG_EVALUATED)
            | flag(self.is_concatenated(), attribute::FLAG_CONCATENATED)
    }

    /// Writes everything but the names. The id is only used within the batch, but the kernel requires one.
    pub(super) fn write(&self, writer: &mut MessageWriter, id: u32) {
        writer.number_32(attribute::FLAGS, self.flags());
        writer.number_32(attribute::KEY_TYPE, self.key_type);
        writer.number_32(attribute::KEY_LENGTH, self.key_length());
        self.write_data(writer);
        writer.nest(attribute::DESCRIPTION, |writer| {
            self.write_description(writer);
        });
        writer.number_32(attribute::ID, id);
        if !self.user_data.is_empty() {
            writer.attribute(attribute::USER_DATA, &self.user_data);
        }
    }

    fn write_data(&self, writer: &mut MessageWriter) {
        match self.data {
            SetData::None => {}
            SetData::Verdict => {
                writer.number_32(attribute::DATA_TYPE, attribute::DATA_TYPE_VERDICT);
            }
            SetData::Value { data_type, length } => {
                writer.number_32(attribute::DATA_TYPE, data_type);
                writer.number_32(attribute::DATA_LENGTH, length);
            }
        }
    }

    fn write_description(&self, writer: &mut MessageWriter) {
        if let Some(size) = self.size {
            writer.number_32(attribute::DESCRIPTION_SIZE, size);
        }
        if self.is_concatenated() {
            writer.nest(attribute::DESCRIPTION_CONCATENATION, |writer| {
                for length in &self.key_fields {
                    writer.nest(LIST_ELEMENT, |writer| {
                        writer.number_32(attribute::FIELD_LENGTH, *length);
                    });
                }
            });
        }
    }

    /// Reads a set. Missing attributes become zero, which no set of ours has.
    pub(super) fn read(set: Attributes<'_>) -> Self {
        let flags = set.number_32(attribute::FLAGS).unwrap_or(0);
        let description = set.nested(attribute::DESCRIPTION);
        let user_data = set.first(attribute::USER_DATA);
        SetSpec {
            key_type: set.number_32(attribute::KEY_TYPE).unwrap_or(0),
            key_fields: read_fields(set),
            data: read_data(set, flags),
            interval: flags & attribute::FLAG_INTERVAL != 0,
            dynamic: flags & attribute::FLAG_EVALUATED != 0,
            timeout: flags & attribute::FLAG_TIMEOUT != 0,
            size: description.number_32(attribute::DESCRIPTION_SIZE),
            user_data: user_data.map_or(Vec::new(), |data| data.value.to_vec()),
        }
    }
}

/// The longest key that the kernel has (`NFT_DATA_VALUE_MAXLEN`).
const LONGEST_KEY: u32 = 64;

fn read_fields(set: Attributes<'_>) -> Vec<u32> {
    let length = |length: Option<u32>| length.unwrap_or(0).min(LONGEST_KEY);
    let description = set.nested(attribute::DESCRIPTION);
    let fields: Vec<u32> = description
        .nested(attribute::DESCRIPTION_CONCATENATION)
        .map(|field| length(field.nested().number_32(attribute::FIELD_LENGTH)))
        .collect();
    if fields.is_empty() {
        return vec![length(set.number_32(attribute::KEY_LENGTH))];
    }
    fields
}

fn read_data(set: Attributes<'_>, flags: u32) -> SetData {
    if flags & attribute::FLAG_MAP == 0 {
        return SetData::None;
    }
    match set.number_32(attribute::DATA_TYPE).unwrap_or(0) {
        attribute::DATA_TYPE_VERDICT => SetData::Verdict,
        data_type => SetData::Value { data_type, length: set.number_32(attribute::DATA_LENGTH).unwrap_or(0) },
    }
}

fn padded(length: u32) -> u32 {
    aligned(length as usize) as u32
}
