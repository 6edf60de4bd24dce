//! Encodes expressions.

use super::expression::{Expression, Register};
use super::uapi::{LIST_ELEMENT, expression as attribute};
use super::verdict::write_value;
use crate::netlink::MessageWriter;

impl Expression {
    /// Writes the expression as a member of a rule's list.
    pub(super) fn write(&self, writer: &mut MessageWriter) {
        writer.nest(LIST_ELEMENT, |writer| self.write_content(writer));
    }

    fn write_content(&self, writer: &mut MessageWriter) {
        writer.string(attribute::NAME, self.name());
        writer.nest(attribute::DATA, |writer| self.write_data(writer));
    }

    /// The kernel's name of the expression.
    pub fn name(&self) -> &str {
        match self {
            Expression::Payload { .. } => "payload",
            Expression::Meta { .. } | Expression::SetMeta { .. } => "meta",
            Expression::Conntrack { .. } => "ct",
            Expression::Fib { .. } => "fib",
            Expression::Compare { .. } => "cmp",
            Expression::Range { .. } => "range",
            Expression::Bitwise { .. } => "bitwise",
            Expression::Immediate { .. } | Expression::Verdict(_) => "immediate",
            Expression::Lookup { .. } => "lookup",
            Expression::NumberGenerator { .. } => "numgen",
            Expression::Hash { .. } => "hash",
            Expression::Dynset { .. } => "dynset",
            Expression::DestinationNat { .. } => "nat",
            Expression::Masquerade { .. } => "masq",
            Expression::Reject { .. } => "reject",
            Expression::Counter => "counter",
            Expression::Unknown { name } => name,
        }
    }

    fn write_data(&self, writer: &mut MessageWriter) {
        match self {
            Expression::Payload { base, offset, length, destination } => {
                writer.register(attribute::PAYLOAD_DESTINATION, *destination);
                writer.number_32(attribute::PAYLOAD_BASE, base.number());
                writer.number_32(attribute::PAYLOAD_OFFSET, *offset);
                writer.number_32(attribute::PAYLOAD_LENGTH, *length);
            }
            Expression::Meta { key, destination } => {
                writer.register(attribute::META_DESTINATION, *destination);
                writer.number_32(attribute::META_KEY, key.number());
            }
            Expression::SetMeta { key, source } => {
                writer.number_32(attribute::META_KEY, key.number());
                writer.register(attribute::META_SOURCE, *source);
            }
            Expression::Conntrack { key, destination } => {
                writer.register(attribute::CONNTRACK_DESTINATION, *destination);
                writer.number_32(attribute::CONNTRACK_KEY, key.number());
                if let Some(direction) = key.direction() {
                    writer.attribute(attribute::CONNTRACK_DIRECTION, &[direction]);
                }
            }
            Expression::Fib { address, destination } => {
                writer.register(attribute::FIB_DESTINATION, *destination);
                writer.number_32(attribute::FIB_RESULT, attribute::FIB_RESULT_ADDRESS_TYPE);
                writer.number_32(attribute::FIB_FLAGS, address.number());
            }
            Expression::Range { source, inverted, from, to } => {
                writer.register(attribute::RANGE_SOURCE, *source);
                writer.number_32(attribute::RANGE_OPERATOR, u32::from(*inverted));
                write_value(writer, attribute::RANGE_FROM, from);
                write_value(writer, attribute::RANGE_TO, to);
            }
            Expression::Compare { source, operator, value } => {
                writer.register(attribute::COMPARE_SOURCE, *source);
                writer.number_32(attribute::COMPARE_OPERATOR, operator.number());
                write_value(writer, attribute::COMPARE_DATA, value);
            }
            Expression::Bitwise { source, destination, mask, xor } => {
                writer.register(attribute::BITWISE_SOURCE, *source);
                writer.register(attribute::BITWISE_DESTINATION, *destination);
                writer.length(attribute::BITWISE_LENGTH, mask);
                write_value(writer, attribute::BITWISE_MASK, mask);
                write_value(writer, attribute::BITWISE_XOR, xor);
            }
            Expression::Immediate { destination, value } => {
                writer.register(attribute::IMMEDIATE_DESTINATION, *destination);
                write_value(writer, attribute::IMMEDIATE_DATA, value);
            }
            Expression::Verdict(verdict) => {
                writer.register(attribute::IMMEDIATE_DESTINATION, Register::VERDICT);
                writer.nest(attribute::IMMEDIATE_DATA, |writer| verdict.write(writer));
            }
            Expression::Lookup { set, source, destination, inverted } => {
                writer.string(attribute::LOOKUP_SET, set);
                writer.register(attribute::LOOKUP_SOURCE, *source);
                writer.optional_register(attribute::LOOKUP_DESTINATION, *destination);
                if *inverted {
                    writer.number_32(attribute::LOOKUP_FLAGS, attribute::LOOKUP_INVERTED);
                }
            }
            Expression::NumberGenerator { numbers, destination, modulus, offset } => {
                writer.register(attribute::NUMBER_DESTINATION, *destination);
                writer.number_32(attribute::NUMBER_MODULUS, *modulus);
                writer.number_32(attribute::NUMBER_TYPE, numbers.number());
                writer.number_32(attribute::NUMBER_OFFSET, *offset);
            }
            Expression::Hash { source, length, destination, modulus, seed, offset } => {
                writer.register(attribute::HASH_SOURCE, *source);
                writer.register(attribute::HASH_DESTINATION, *destination);
                writer.number_32(attribute::HASH_LENGTH, *length);
                writer.number_32(attribute::HASH_MODULUS, *modulus);
                writer.number_32(attribute::HASH_SEED, *seed);
                writer.number_32(attribute::HASH_OFFSET, *offset);
                writer.number_32(attribute::HASH_TYPE, attribute::HASH_JENKINS);
            }
            Expression::Dynset { operation, set, key, data, timeout_milliseconds, counts } => {
                writer.string(attribute::DYNSET_SET, set);
                writer.number_32(attribute::DYNSET_OPERATION, operation.number());
                writer.register(attribute::DYNSET_KEY, *key);
                writer.optional_register(attribute::DYNSET_DATA, *data);
                if let Some(timeout) = timeout_milliseconds {
                    writer.number_64(attribute::DYNSET_TIMEOUT, *timeout);
                }
                if *counts {
                    writer.nest(attribute::DYNSET_EXPRESSION, |writer| Expression::Counter.write_content(writer));
                }
            }
            Expression::DestinationNat { family, address, port } => {
                writer.number_32(attribute::NAT_TYPE, attribute::NAT_DESTINATION);
                writer.number_32(attribute::NAT_FAMILY, u32::from(family.number()));
                writer.register(attribute::NAT_ADDRESS, *address);
                writer.register(attribute::NAT_PORT, *port);
                writer.number_32(attribute::NAT_FLAGS, attribute::NAT_PORT_GIVEN);
            }
            Expression::Masquerade { fully_random } => {
                if *fully_random {
                    writer.number_32(attribute::MASQUERADE_FLAGS, attribute::NAT_FULLY_RANDOM);
                }
            }
            Expression::Reject { kind, code } => {
                writer.number_32(attribute::REJECT_TYPE, *kind);
                writer.attribute(attribute::REJECT_CODE, &[*code]);
            }
            Expression::Counter => {}
            // The kernel refuses an unknown name, and most names without their attributes.
            Expression::Unknown { .. } => {}
        }
    }
}

impl MessageWriter {
    fn register(&mut self, kind: u16, register: Register) {
        self.number_32(kind, register.number());
    }

    fn optional_register(&mut self, kind: u16, register: Option<Register>) {
        if let Some(register) = register {
            self.register(kind, register);
        }
    }

    fn length(&mut self, kind: u16, value: &[u8]) {
        let length = u32::try_from(value.len()).expect("a value fits the registers");
        self.number_32(kind, length);
    }
}
