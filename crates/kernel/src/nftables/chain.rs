//! Chains and their hooks.

use super::uapi::chain as attribute;
use crate::netlink::{Attributes, MessageWriter};

/// The hook of a base chain. Its policy is always accept.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Hook {
    pub kind: ChainKind,
    pub point: HookPoint,
    pub priority: i32,
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum ChainKind {
    Filter,
    Nat,
    /// Read from the kernel, but never written: another type, or another policy.
    Unknown,
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum HookPoint {
    Prerouting,
    Input,
    Forward,
    Output,
    Postrouting,
}

const POLICY_ACCEPT: u32 = 1;

/// In the order of the kernel's numbers.
const POINTS: [HookPoint; 5] =
    [HookPoint::Prerouting, HookPoint::Input, HookPoint::Forward, HookPoint::Output, HookPoint::Postrouting];

impl HookPoint {
    pub(super) fn from_number(number: u32) -> Option<Self> {
        POINTS.get(number as usize).copied()
    }
}

impl ChainKind {
    fn name(self) -> &'static str {
        match self {
            ChainKind::Filter => "filter",
            ChainKind::Nat => "nat",
            // The kernel refuses this name.
            ChainKind::Unknown => "unknown",
        }
    }

    fn from_name(name: &str) -> Option<Self> {
        [ChainKind::Filter, ChainKind::Nat].into_iter().find(|kind| kind.name() == name)
    }
}

impl Hook {
    pub(super) fn write(&self, writer: &mut MessageWriter) {
        writer.nest(attribute::HOOK, |writer| {
            writer.number_32(attribute::HOOK_NUMBER, self.point as u32);
            writer.number_32(attribute::HOOK_PRIORITY, self.priority.cast_unsigned());
        });
        writer.number_32(attribute::POLICY, POLICY_ACCEPT);
        writer.string(attribute::TYPE, self.kind.name());
    }

    /// Reads the hook of a chain, if it has one.
    pub(super) fn read(chain: Attributes<'_>) -> Option<Self> {
        let hook = chain.first(attribute::HOOK)?.nested();
        let number = hook.number_32(attribute::HOOK_NUMBER).unwrap_or(0);
        let priority = hook.number_32(attribute::HOOK_PRIORITY).unwrap_or(0);
        Some(Hook {
            kind: read_kind(chain).unwrap_or(ChainKind::Unknown),
            point: HookPoint::from_number(number).unwrap_or(HookPoint::Prerouting),
            priority: priority.cast_signed(),
        })
    }
}

/// A chain with another policy is foreign, whatever its type.
fn read_kind(chain: Attributes<'_>) -> Option<ChainKind> {
    if chain.number_32(attribute::POLICY)? != POLICY_ACCEPT {
        return None;
    }
    ChainKind::from_name(chain.string(attribute::TYPE)?)
}
