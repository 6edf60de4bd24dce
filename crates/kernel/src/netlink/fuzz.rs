//! The replies of any netlink protocol, for the fuzz targets.

use super::socket::{collect_answer, visit_dump};
use super::{Attributes, Interruption, Messages};

/// How deep attributes are followed: more than any protocol nests.
const DEPTH: u32 = 6;

/// A dump and the reply to a request, both with the sequence number of the first message.
pub(crate) fn decode(bytes: &[u8]) {
    let Some(first) = Messages::new(bytes).next() else { return };
    for interruption in [Interruption::Refuse, Interruption::Accept] {
        let each = &mut |message: &super::Message<'_>| visit(message.attributes(4), DEPTH);
        _ = visit_dump(bytes, first.sequence, "a dump", interruption, each);
    }
    let mut answer = Vec::new();
    let outcome = collect_answer(bytes, first.sequence, "a request", &mut answer);
    let kept = Messages::new(&answer).map(|message| message.bytes.len()).sum::<usize>();
    assert!(outcome.is_err() || kept <= answer.len() && answer.len() <= bytes.len() + 3);
}

fn visit(attributes: Attributes<'_>, depth: u32) {
    for attribute in attributes {
        _ = (attribute.number_8(), attribute.number_16(), attribute.number_32(), attribute.number_64());
        attribute.string();
        if depth > 0 {
            visit(attribute.nested(), depth - 1);
        }
    }
}
