//! Verdicts, and the data attribute that contains a verdict or a value.

use std::sync::Arc;

use super::uapi::data;
use crate::netlink::{Attributes, MessageWriter};

/// The verdict for a packet.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Verdict {
    Accept,
    Drop,
    Return,
    Continue,
    Jump(Arc<str>),
    Goto(Arc<str>),
}

const DROP: i32 = 0;
const ACCEPT: i32 = 1;
const CONTINUE: i32 = -1;
const JUMP: i32 = -3;
const GOTO: i32 = -4;
const RETURN: i32 = -5;

impl Verdict {
    fn code(&self) -> i32 {
        match self {
            Verdict::Accept => ACCEPT,
            Verdict::Drop => DROP,
            Verdict::Return => RETURN,
            Verdict::Continue => CONTINUE,
            Verdict::Jump(_) => JUMP,
            Verdict::Goto(_) => GOTO,
        }
    }

    fn chain(&self) -> Option<&str> {
        match self {
            Verdict::Jump(chain) | Verdict::Goto(chain) => Some(chain),
            _ => None,
        }
    }

    /// Writes the content of a data attribute.
    pub(super) fn write(&self, writer: &mut MessageWriter) {
        writer.nest(data::VERDICT, |writer| {
            writer.number_32(data::VERDICT_CODE, self.code().cast_unsigned());
            if let Some(chain) = self.chain() {
                writer.string(data::VERDICT_CHAIN, chain);
            }
        });
    }

    /// Reads the content of a data attribute; `None` if it contains no known verdict.
    pub(super) fn read(content: Attributes<'_>) -> Option<Self> {
        let verdict = content.first(data::VERDICT)?.nested();
        let chain = || verdict.string(data::VERDICT_CHAIN).map(Arc::from);
        match verdict.number_32(data::VERDICT_CODE)?.cast_signed() {
            ACCEPT => Some(Verdict::Accept),
            DROP => Some(Verdict::Drop),
            RETURN => Some(Verdict::Return),
            CONTINUE => Some(Verdict::Continue),
            JUMP => Some(Verdict::Jump(chain()?)),
            GOTO => Some(Verdict::Goto(chain()?)),
            _ => None,
        }
    }
}

/// Writes a data attribute of that type with a value.
pub(super) fn write_value(writer: &mut MessageWriter, kind: u16, value: &[u8]) {
    writer.nest(kind, |writer| writer.attribute(data::VALUE, value));
}

/// Reads the value of the data attribute of that type.
pub(super) fn read_value(attributes: Attributes<'_>, kind: u16) -> Option<Vec<u8>> {
    let value = attributes.nested(kind).first(data::VALUE)?;
    Some(value.value.to_vec())
}
