//! The decoders accept any input.

use std::sync::Arc;

use portolan_model::Family;

use super::describe::{describe_change, describe_operation};
use super::element::{Bound, join_ranges};
use super::*;
use crate::netlink::Messages;

/// Miri is a thousand times slower.
const ROUNDS: usize = if cfg!(miri) { 20 } else { 20_000 };

/// A deterministic generator.
struct XorShift(u64);

impl XorShift {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    fn below(&mut self, limit: usize) -> usize {
        usize::try_from(self.next() % limit as u64).expect("it is below a limit that is one")
    }
}

/// A sample of everything that has a decoder.
fn sample() -> Vec<u8> {
    let element = Element {
        key: vec![10, 0, 0, 1],
        key_end: Some(vec![10, 0, 0, 9]),
        data: ElementData::Verdict(Verdict::Goto(Arc::from("target"))),
        comment: Some(Arc::from("a comment")),
    };
    let hook = Hook { kind: ChainKind::Nat, point: HookPoint::Output, priority: -100 };
    let spec = SetSpec { key_fields: vec![4, 2], user_data: vec![1, 2, 3], ..SetSpec::default() };
    let mut batch = Batch::new();
    batch.add_chain(Family::V4, "table", "chain", Some(&hook));
    batch.add_set(Family::V4, "table", "set", &spec);
    batch.add_elements(Family::V4, "table", "set", [element].iter());
    batch.add_rule(Family::V4, "table", "chain", &expressions(), None);
    batch.close().bytes().to_vec()
}

fn expressions() -> Vec<Expression> {
    let register = Register(1);
    vec![
        Expression::Dynset {
            operation: DynsetOperation::Update,
            set: Arc::from("set"),
            key: register,
            data: Some(register),
            timeout_milliseconds: Some(1000),
            counts: false,
        },
        Expression::Lookup {
            set: Arc::from("set"),
            source: register,
            destination: Some(Register::VERDICT),
            inverted: false,
        },
        Expression::Bitwise { source: register, destination: register, mask: vec![255; 4], xor: vec![0; 4] },
        Expression::DestinationNat { family: Family::V6, address: register, port: register },
        Expression::Reject { kind: 0, code: 3 },
        Expression::Verdict(Verdict::Jump(Arc::from("chain"))),
    ]
}

fn decode_everything(bytes: &[u8]) {
    for (index, message) in Messages::new(bytes).enumerate() {
        describe_operation(bytes, index, Some(60));
        describe_change(&message);
        let attributes = message.attributes(uapi::PROTOCOL_HEADER);
        Hook::read(attributes);
        SetSpec::read(attributes);
        let list = attributes.nested(uapi::element::LIST_ELEMENTS);
        let bounds: Vec<(Element, Bound)> = list.filter_map(|member| Element::read(member.nested())).collect();
        join_ranges(bounds);
        for expression in attributes.nested(uapi::rule::EXPRESSIONS) {
            Expression::read(expression.nested());
        }
    }
}

#[test]
fn damaged_messages_are_decoded_without_panic() {
    let mut random = XorShift(0x2545_f491_4f6c_dd1d);
    let sample = sample();
    for _ in 0..ROUNDS {
        let mut damaged = sample.clone();
        for _ in 0..1 + random.below(8) {
            let place = random.below(damaged.len());
            damaged[place] = random.next().to_be_bytes()[0] >> random.below(8);
        }
        damaged.truncate(damaged.len() - random.below(damaged.len() / 2));
        decode_everything(&damaged);
    }
}

#[test]
fn registers_have_two_numberings() {
    for word in 0..16 {
        let register = Register(word);
        assert_eq!(Register::from_number(register.number()), Some(register));
        assert_eq!(Register::from_number(8 + u32::from(word)), Some(register));
    }
    assert_eq!(Register(0).number(), 1);
    assert_eq!(Register(4).number(), 2);
    assert_eq!(Register(5).number(), 13);
    assert_eq!(Register::VERDICT.number(), 0);
    assert_eq!(Register::from_number(0), Some(Register::VERDICT));
    for number in [5, 7, 24, u32::MAX] {
        assert_eq!(Register::from_number(number), None);
    }
}
