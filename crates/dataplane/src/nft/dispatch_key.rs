//! The dispatch key of a frontend: everything by which one Service's chains differ from another's, as plain numbers.
//!
//! A Service's element holds these numbers, and one small map, shared by all Services, has the chain for them. If the
//! element named the chain itself, then each new element would make the kernel check the whole table for loops again:
//! every verdict of every Service, from every hook.

use std::fmt;

use portolan_model::HashOf;
use portolan_plan::{Refusal, Route, Routes, Selection, Verdict};

use super::bytes::{Bytes, Reader};
use super::kinds::Kind;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DispatchKey {
    /// Four bits for each route, and flags: see [`DispatchKey::new`].
    pub routes: u32,
    /// How many endpoints each pool has, if it is used.
    pub cluster: u32,
    pub local: u32,
}

/// The parts of a dispatch key where it is the key of the map `ways`.
pub(super) const DISPATCH_KEY: &[Kind] = &[Kind::Bits, Kind::Size, Kind::Size];
/// The same where it is the value of a frontend, with a word in front that is always zero: see `RuleBuilder::dispatch_by`.
pub(super) const PADDED_DISPATCH_KEY: &[Kind] = &[Kind::Bits, Kind::Bits, Kind::Size, Kind::Size];
pub(super) const PADDING: [u8; 4] = [0; 4];

const HAS_SOURCES: u32 = 0x1000;
const REMEMBERS_CLIENTS: u32 = 0x2000;
const IS_NODE_PORT: u32 = 0x4000;
const IN_TURN: u32 = 0x8000;
const BY_CLIENT: u32 = 0x10000;
const BY_CLIENT_AND_PORT: u32 = 0x20000;
const MASQUERADE: u32 = 8;

/// The flags of a dispatch key, beside its routes.
#[derive(Clone, Copy, Default)]
pub(super) struct Flags {
    pub(super) is_node_port: bool,
    pub(super) remembers_clients: bool,
    pub(super) has_sources: bool,
    pub(super) selection: Selection,
}

impl DispatchKey {
    pub(super) fn new(routes: Routes, flags: Flags, cluster: u32, local: u32) -> Self {
        let flag = |is_set, bit| if is_set { bit } else { 0 };
        let Routes { pod, node, outside } = routes;
        let routes = [pod, node, outside].into_iter().fold(0, |all, route| (all << 4) | route_bits(route));
        let flags = flag(flags.has_sources, HAS_SOURCES)
            | flag(flags.remembers_clients, REMEMBERS_CLIENTS)
            | flag(flags.is_node_port, IS_NODE_PORT)
            | selection_bits(flags.selection);
        Self { routes: flags | routes, cluster, local }
    }

    pub(super) fn encode(self, bytes: Bytes) -> Bytes {
        bytes.number(self.routes).size(self.cluster).size(self.local)
    }

    pub(super) fn decode(reader: &mut Reader<'_>) -> Option<Self> {
        Some(Self { routes: reader.number()?, cluster: reader.size()?, local: reader.size()? })
    }
}

fn selection_bits(selection: Selection) -> u32 {
    match selection {
        Selection::Random => 0,
        Selection::InTurn => IN_TURN,
        Selection::ByHash(HashOf::Client) => BY_CLIENT,
        Selection::ByHash(HashOf::ClientAndPort) => BY_CLIENT_AND_PORT,
    }
}

/// One route in four bits: 1 is the cluster pool, 2 the local one, from 3 on the refusals in their order; 8 more is
/// masqueraded.
fn route_bits(route: Route) -> u32 {
    use portolan_plan::Pool::{Cluster, Local};
    let target = match route.verdict {
        Verdict::Forward(Cluster) => 1,
        Verdict::Forward(Local) => 2,
        Verdict::Refuse(refusal) => FIRST_REFUSAL + refusal_number(refusal),
    };
    if route.masquerade { target | MASQUERADE } else { target }
}

const FIRST_REFUSAL: u32 = 3;

/// One more refusal would take the number of the masquerade bit: such a route would masquerade instead of refusing.
const _: () = assert!(FIRST_REFUSAL as usize + Refusal::ALL.len() <= MASQUERADE as usize, "refusals need more bits");

fn refusal_number(refusal: Refusal) -> u32 {
    let number = (0..).zip(Refusal::ALL).find_map(|(number, known)| (known == refusal).then_some(number));
    number.expect("a refusal of the kernel is in Refusal::ALL; userspace mode alone has another one")
}

/// As `nft` prints it.
impl fmt::Display for DispatchKey {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{:#010x} . {} . {}", self.routes, self.cluster, self.local)
    }
}

#[cfg(test)]
mod tests {
    use portolan_plan::Pool;

    use super::*;

    #[test]
    fn every_route_has_bits_of_its_own() {
        let pools = [Pool::Cluster, Pool::Local].map(Verdict::Forward);
        let verdicts: Vec<Verdict> = pools.into_iter().chain(Refusal::ALL.map(Verdict::Refuse)).collect();
        let routes =
            verdicts.iter().flat_map(|verdict| [false, true].map(|masquerade| Route::new(*verdict, masquerade)));
        let mut seen: Vec<(u32, Route)> = routes.map(|route| (route_bits(route), route)).collect();
        seen.sort_unstable();
        seen.dedup();
        assert!(
            seen.iter().all(|(bits, route)| *bits < 16 && (bits & MASQUERADE != 0) == route.masquerade),
            "{seen:?}"
        );
        assert!(seen.windows(2).all(|pair| pair[0].0 != pair[1].0), "{seen:?}");
    }
}
