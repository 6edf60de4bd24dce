//! Reading tables that are not ours: every family whose rules see IP packets, and base chains of any type and policy.

use super::read::request;
use super::uapi::{self, chain as attribute, message};
use super::{HookPoint, Nftables, TableFamily};
use crate::error::Result;
use crate::netlink::Attributes;

/// A chain as the kernel lists it, whatever it is.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ListedChain {
    pub table: String,
    pub name: String,
    pub base: Option<ListedBase>,
}

/// Where a base chain is hooked in.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ListedBase {
    /// `filter`, `nat` or `route`.
    pub kind: String,
    /// `None` for a hook before the IP layer, such as `ingress`.
    pub point: Option<HookPoint>,
    pub priority: i32,
    pub policy: Policy,
}

/// What becomes of a packet that reaches the end of a base chain.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Policy {
    Accept,
    Drop,
}

const POLICY_DROP: u32 = 0;

impl Nftables {
    /// The chains of all tables of the family.
    pub fn all_chains(&mut self, family: TableFamily) -> Result<Vec<ListedChain>> {
        let request = request(message::GET_CHAIN, family, |_| {});
        self.read(request, &format!("reading the chains of family {family}"), |chain| {
            Some(ListedChain {
                table: chain.string(uapi::TABLE)?.to_owned(),
                name: chain.string(attribute::NAME)?.to_owned(),
                base: read_base(chain),
            })
        })
    }
}

pub(super) fn read_base(chain: Attributes<'_>) -> Option<ListedBase> {
    let hook = chain.first(attribute::HOOK)?.nested();
    let number = hook.number_32(attribute::HOOK_NUMBER)?;
    Some(ListedBase {
        kind: chain.string(attribute::TYPE).unwrap_or_default().to_owned(),
        point: HookPoint::from_number(number),
        priority: hook.number_32(attribute::HOOK_PRIORITY).unwrap_or(0).cast_signed(),
        policy: match chain.number_32(attribute::POLICY) {
            Some(POLICY_DROP) => Policy::Drop,
            _ => Policy::Accept,
        },
    })
}
