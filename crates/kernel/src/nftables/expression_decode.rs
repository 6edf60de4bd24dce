//! Decodes expressions. Anything that we would not write exactly so becomes `Unknown`, so that a comparison can only
//! err towards rewriting.

use std::sync::Arc;

use portolan_model::Family;

use super::expression::{
    ConntrackKey, DynsetOperation, Expression, FibAddress, MetaKey, Numbers, Operator, PayloadBase, Register,
};
use super::uapi::expression as attribute;
use super::verdict::{Verdict, read_value};
use crate::netlink::Attributes;

impl Expression {
    /// Reads one member of a rule's list.
    pub(super) fn read(member: Attributes<'_>) -> Self {
        let name = member.string(attribute::NAME).unwrap_or_default();
        let data = member.nested(attribute::DATA);
        read_named(name, data).unwrap_or_else(|| Expression::Unknown { name: unknown_name(name, data) })
    }
}

/// Extensions of iptables have a name of their own, such as `match conntrack`.
fn unknown_name(name: &str, data: Attributes<'_>) -> String {
    match (name, data.string(attribute::EXTENSION_NAME)) {
        ("match" | "target", Some(extension)) => format!("{name} {extension}"),
        _ => name.to_owned(),
    }
}

fn read_named(name: &str, data: Attributes<'_>) -> Option<Expression> {
    match name {
        "payload" => read_payload(data),
        "meta" => read_meta(data),
        "ct" => read_conntrack(data),
        "fib" => read_fib(data),
        "cmp" => read_compare(data),
        "range" => read_range(data),
        "bitwise" => read_bitwise(data),
        "immediate" => read_immediate(data),
        "lookup" => read_lookup(data),
        "numgen" => read_number_generator(data),
        "hash" => read_hash(data),
        "dynset" => read_dynset(data),
        "nat" => read_nat(data),
        "masq" => read_masquerade(data),
        "reject" => read_reject(data),
        "counter" => Some(Expression::Counter),
        _ => None,
    }
}

fn read_payload(data: Attributes<'_>) -> Option<Expression> {
    Some(Expression::Payload {
        base: PayloadBase::from_number(data.number_32(attribute::PAYLOAD_BASE)?)?,
        offset: data.number_32(attribute::PAYLOAD_OFFSET)?,
        length: data.number_32(attribute::PAYLOAD_LENGTH)?,
        destination: register(data, attribute::PAYLOAD_DESTINATION)?,
    })
}

fn read_meta(data: Attributes<'_>) -> Option<Expression> {
    let key = MetaKey::from_number(data.number_32(attribute::META_KEY)?)?;
    match register(data, attribute::META_SOURCE) {
        Some(source) => Some(Expression::SetMeta { key, source }),
        None => Some(Expression::Meta { key, destination: register(data, attribute::META_DESTINATION)? }),
    }
}

fn read_conntrack(data: Attributes<'_>) -> Option<Expression> {
    let direction = data.first(attribute::CONNTRACK_DIRECTION).and_then(|direction| direction.number_8());
    let key = ConntrackKey::from_number(data.number_32(attribute::CONNTRACK_KEY)?)?;
    if direction != key.direction() {
        return None;
    }
    Some(Expression::Conntrack { key, destination: register(data, attribute::CONNTRACK_DESTINATION)? })
}

fn read_fib(data: Attributes<'_>) -> Option<Expression> {
    if data.number_32(attribute::FIB_RESULT)? != attribute::FIB_RESULT_ADDRESS_TYPE {
        return None;
    }
    Some(Expression::Fib {
        address: FibAddress::from_number(data.number_32(attribute::FIB_FLAGS)?)?,
        destination: register(data, attribute::FIB_DESTINATION)?,
    })
}

fn read_compare(data: Attributes<'_>) -> Option<Expression> {
    Some(Expression::Compare {
        source: register(data, attribute::COMPARE_SOURCE)?,
        operator: Operator::from_number(data.number_32(attribute::COMPARE_OPERATOR)?)?,
        value: read_value(data, attribute::COMPARE_DATA)?,
    })
}

fn read_range(data: Attributes<'_>) -> Option<Expression> {
    Some(Expression::Range {
        source: register(data, attribute::RANGE_SOURCE)?,
        inverted: match Operator::from_number(data.number_32(attribute::RANGE_OPERATOR)?)? {
            Operator::Equal => false,
            Operator::NotEqual => true,
            _ => return None,
        },
        from: read_value(data, attribute::RANGE_FROM)?,
        to: read_value(data, attribute::RANGE_TO)?,
    })
}

fn read_bitwise(data: Attributes<'_>) -> Option<Expression> {
    // Any other operation is a shift, or takes its operand from a register.
    if data.number_32(attribute::BITWISE_OPERATION).unwrap_or(0) != 0 {
        return None;
    }
    Some(Expression::Bitwise {
        source: register(data, attribute::BITWISE_SOURCE)?,
        destination: register(data, attribute::BITWISE_DESTINATION)?,
        mask: read_value(data, attribute::BITWISE_MASK)?,
        xor: read_value(data, attribute::BITWISE_XOR)?,
    })
}

fn read_immediate(data: Attributes<'_>) -> Option<Expression> {
    match register(data, attribute::IMMEDIATE_DESTINATION)? {
        Register::VERDICT => {
            let content = data.nested(attribute::IMMEDIATE_DATA);
            Some(Expression::Verdict(Verdict::read(content)?))
        }
        destination => Some(Expression::Immediate { destination, value: read_value(data, attribute::IMMEDIATE_DATA)? }),
    }
}

fn read_lookup(data: Attributes<'_>) -> Option<Expression> {
    let flags = data.number_32(attribute::LOOKUP_FLAGS).unwrap_or(0);
    Some(Expression::Lookup {
        set: Arc::from(data.string(attribute::LOOKUP_SET)?),
        source: register(data, attribute::LOOKUP_SOURCE)?,
        destination: register(data, attribute::LOOKUP_DESTINATION),
        inverted: flags & attribute::LOOKUP_INVERTED != 0,
    })
}

fn read_number_generator(data: Attributes<'_>) -> Option<Expression> {
    Some(Expression::NumberGenerator {
        numbers: Numbers::from_number(data.number_32(attribute::NUMBER_TYPE)?)?,
        destination: register(data, attribute::NUMBER_DESTINATION)?,
        modulus: data.number_32(attribute::NUMBER_MODULUS)?,
        offset: data.number_32(attribute::NUMBER_OFFSET).unwrap_or(0),
    })
}

fn read_hash(data: Attributes<'_>) -> Option<Expression> {
    if data.number_32(attribute::HASH_TYPE).unwrap_or(0) != attribute::HASH_JENKINS {
        return None;
    }
    Some(Expression::Hash {
        source: register(data, attribute::HASH_SOURCE)?,
        length: data.number_32(attribute::HASH_LENGTH)?,
        destination: register(data, attribute::HASH_DESTINATION)?,
        modulus: data.number_32(attribute::HASH_MODULUS)?,
        seed: data.number_32(attribute::HASH_SEED)?,
        offset: data.number_32(attribute::HASH_OFFSET).unwrap_or(0),
    })
}

fn read_dynset(data: Attributes<'_>) -> Option<Expression> {
    let inverted = data.number_32(attribute::DYNSET_FLAGS).unwrap_or(0) & attribute::DYNSET_INVERTED;
    // This attribute is used for two or more expressions.
    if inverted != 0 || data.first(attribute::DYNSET_EXPRESSIONS).is_some() {
        return None;
    }
    let expression = data.first(attribute::DYNSET_EXPRESSION).map(|expression| Expression::read(expression.nested()));
    let counts = match expression {
        None => false,
        Some(Expression::Counter) => true,
        Some(_) => return None,
    };
    let timeout = data.first(attribute::DYNSET_TIMEOUT);
    Some(Expression::Dynset {
        operation: DynsetOperation::from_number(data.number_32(attribute::DYNSET_OPERATION)?)?,
        set: Arc::from(data.string(attribute::DYNSET_SET)?),
        key: register(data, attribute::DYNSET_KEY)?,
        data: register(data, attribute::DYNSET_DATA),
        // The kernel reports zero for an expression that uses the timeout of the set.
        timeout_milliseconds: timeout.and_then(|timeout| timeout.number_64()).filter(|timeout| *timeout != 0),
        counts,
    })
}

fn read_nat(data: Attributes<'_>) -> Option<Expression> {
    let address = register(data, attribute::NAT_ADDRESS)?;
    let port = register(data, attribute::NAT_PORT)?;
    // The kernel repeats the first register as the last one of a range.
    let is_range = register(data, attribute::NAT_ADDRESS_END).unwrap_or(address) != address
        || register(data, attribute::NAT_PORT_END).unwrap_or(port) != port;
    let flags = data.number_32(attribute::NAT_FLAGS).unwrap_or(0);
    let plain = attribute::NAT_ADDRESS_GIVEN | attribute::NAT_PORT_GIVEN;
    let is_destination = data.number_32(attribute::NAT_TYPE)? == attribute::NAT_DESTINATION;
    if is_range || flags & !plain != 0 || !is_destination {
        return None;
    }
    let family = u8::try_from(data.number_32(attribute::NAT_FAMILY)?).ok()?;
    Some(Expression::DestinationNat { family: Family::from_number(family)?, address, port })
}

fn read_masquerade(data: Attributes<'_>) -> Option<Expression> {
    let flags = data.number_32(attribute::MASQUERADE_FLAGS).unwrap_or(0);
    let has_ports = data.first(attribute::MASQUERADE_PORT).is_some();
    if has_ports || flags & !attribute::NAT_FULLY_RANDOM != 0 {
        return None;
    }
    Some(Expression::Masquerade { fully_random: flags != 0 })
}

fn read_reject(data: Attributes<'_>) -> Option<Expression> {
    let code = data.first(attribute::REJECT_CODE);
    Some(Expression::Reject {
        kind: data.number_32(attribute::REJECT_TYPE)?,
        // The kernel reports none for a TCP reset.
        code: code.and_then(|code| code.number_8()).unwrap_or(0),
    })
}

fn register(data: Attributes<'_>, kind: u16) -> Option<Register> {
    Register::from_number(data.number_32(kind)?)
}
