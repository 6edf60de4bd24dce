//! The kernel objects of this mode: sets, chains with their rules, and elements.

use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;

use portolan_kernel::nftables::{ChainKind, Hook, HookPoint, SetSpec, Verdict};
use portolan_model::Family;

use super::dispatch_key::DispatchKey;
use super::elements::ElementKey;
use super::rules::Rule;
use super::sets::SetName;

/// The name of an object. Sets sort before chains and chains before elements, the order in which they can be created.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Key {
    Set(Family, Arc<str>),
    Chain(Family, Arc<str>),
    Element(Family, SetName, ElementKey),
}

impl Key {
    pub(crate) fn family(&self) -> Family {
        match self {
            Self::Set(family, _) | Self::Chain(family, _) | Self::Element(family, ..) => *family,
        }
    }
}

/// Objects as they are read, in any order. Sorted once at the end, they take less memory and time than sorted one by one.
pub(super) type ObjectList = Vec<(Key, Value)>;

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Value {
    Set(Arc<SetSpec>),
    Chain(Arc<Chain>),
    /// An element of a set, without a value.
    Member,
    /// Boxed, as the next one, because most elements are endpoints.
    Verdict(Box<Verdict>),
    /// The dispatch key of a frontend.
    Frontend(Box<Frontend>),
    Endpoint(IpAddr, u16),
    /// A foreign value, in a form that Portolan never writes.
    Foreign(Box<[u8]>),
}

/// The dispatch key of a frontend, with the name of its Service port as a comment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Frontend {
    pub dispatch_key: DispatchKey,
    pub comment: Option<Arc<str>>,
}

impl Value {
    pub(super) fn frontend(dispatch_key: DispatchKey, comment: Option<Arc<str>>) -> Self {
        Self::Frontend(Box::new(Frontend { dispatch_key, comment }))
    }
}

/// A chain with all its rules.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Chain {
    pub hook: Option<Hook>,
    pub rules: Vec<Rule>,
}

pub(super) type Named = (Arc<str>, Chain);

/// A chain without a hook.
pub(super) fn regular(rules: Vec<Rule>) -> Chain {
    Chain { hook: None, rules }
}

/// A chain that the kernel runs at a hook.
pub(super) fn base(kind: ChainKind, point: HookPoint, priority: i32, rules: Vec<Rule>) -> Chain {
    Chain { hook: Some(Hook { kind, point, priority }), rules }
}

impl fmt::Display for Key {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Set(family, name) => write!(formatter, "set {} {name}", family.nft_name()),
            Self::Chain(family, name) => write!(formatter, "chain {} {name}", family.nft_name()),
            Self::Element(family, set, key) => {
                write!(formatter, "element {} {} {key}", family.nft_name(), set.name())
            }
        }
    }
}

impl fmt::Display for Value {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Set(_) | Self::Member => Ok(()),
            Self::Chain(chain) => write!(formatter, "{chain}"),
            Self::Verdict(verdict) => write!(formatter, " : {}", verdict_text(verdict)),
            Self::Frontend(frontend) => {
                write!(formatter, " : {}", frontend.dispatch_key)?;
                frontend.comment.iter().try_for_each(|comment| write!(formatter, "  # {comment}"))
            }
            Self::Endpoint(address, port) => write!(formatter, " : {address} . {port}"),
            Self::Foreign(bytes) => write!(formatter, " : {bytes:02x?}"),
        }
    }
}

/// One rule on a line of its own, indented.
impl fmt::Display for Chain {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(hook) = &self.hook {
            write!(formatter, "\n    {}", hook_text(hook))?;
        }
        self.rules.iter().try_for_each(|rule| write!(formatter, "\n    {rule}"))
    }
}

pub(super) fn verdict_text(verdict: &Verdict) -> String {
    match verdict {
        Verdict::Accept => "accept".into(),
        Verdict::Drop => "drop".into(),
        Verdict::Return => "return".into(),
        Verdict::Continue => "continue".into(),
        Verdict::Jump(chain) => format!("jump {chain}"),
        Verdict::Goto(chain) => format!("goto {chain}"),
    }
}

/// The line by which `nft list` shows a hook. It names the priorities that have names at that hook.
pub(super) fn hook_text(hook: &Hook) -> String {
    let kind = format!("{:?}", hook.kind).to_lowercase();
    let point = format!("{:?}", hook.point).to_lowercase();
    let priority = match (hook.point, hook.priority) {
        (HookPoint::Prerouting, -100) => "dstnat".into(),
        (HookPoint::Prerouting, -90) => "dstnat + 10".into(),
        (HookPoint::Postrouting, 100) => "srcnat".into(),
        (_, 0) => "filter".into(),
        (_, number) => number.to_string(),
    };
    format!("type {kind} hook {point} priority {priority}; policy accept;")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A large cluster has hundreds of thousands of these at once during the first sync.
    #[test]
    fn objects_are_small() {
        assert!(size_of::<(Key, Value)>() <= 64, "{}", size_of::<(Key, Value)>());
    }
}
