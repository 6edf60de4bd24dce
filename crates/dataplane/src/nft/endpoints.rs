//! The maps of endpoints, read by their keys.
//!
//! They are by far the largest maps, and dumping one costs the square of its size. The element of a frontend holds the sizes
//! of its pools, and each place in a pool is one element: so the keys of all endpoints follow from the frontends, which have
//! just been read. They are looked up one by one. If each exists, and the kernel counts as many elements as there are keys,
//! the map has been read completely. Otherwise another process has changed it, and it is dumped.
//!
//! Older kernels do not count. An element that no frontend has a place for is of no effect: the chain of a pool draws places
//! below the pool's size. So the first read of a daemon, which delays all changes since the last one ended, does without
//! the proof. Should such an element be in the way later, the kernel refuses the change, and the read after that dumps.

use portolan_kernel::nftables::{Dump, Found, Nftables as Handle};
use portolan_model::Family;

use super::TABLE;
use super::codec::{decode, decode_object};
use super::dispatch_key::DispatchKey;
use super::elements::ElementKey;
use super::objects::{ObjectList, Value};
use super::routes::LOCAL_OFFSET;
use super::sets::SetName;
use crate::Error;

pub(super) fn is_of_frontends(set: SetName) -> bool {
    matches!(set, SetName::Services | SetName::NodePorts)
}

/// The map of frontends that a map of endpoints belongs to; `None` for other sets.
pub(super) fn frontends_of(set: SetName) -> Option<SetName> {
    match set {
        SetName::Endpoints => Some(SetName::Services),
        SetName::NodePortEndpoints => Some(SetName::NodePorts),
        _ => None,
    }
}

/// How much a read of the endpoints has to show.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Proof {
    /// That there are no other elements.
    Complete,
    /// The same, but only on a kernel that counts elements.
    IfCounted,
}

/// The elements of a map of endpoints. `None` if they do not follow from the frontends, or if the kernel cannot show that they do.
pub(super) fn look_up(
    handle: &mut Handle,
    family: Family,
    set: SetName,
    proof: Proof,
    keys: &mut dyn Iterator<Item = Vec<u8>>,
) -> Result<Option<ObjectList>, Error> {
    let mut endpoints = ObjectList::new();
    let found = handle.look_up(family, TABLE, set.name(), keys, &mut |element| {
        endpoints.push(decode_object(set, family, element));
    })?;
    let is_shown = found == Found::Exactly || (found == Found::AtLeast && proof == Proof::IfCounted);
    Ok(is_shown.then_some(endpoints))
}

/// The keys of all places in the pools of these frontends, in the order of the objects.
pub(super) fn keys_of_endpoints(
    family: Family,
    frontends: SetName,
    dump: Option<&Dump>,
) -> impl Iterator<Item = Vec<u8>> + use<> {
    let mut pools = Vec::new();
    let mut note = |element| {
        if let (key, Value::Frontend(frontend)) = decode(frontends, family, element) {
            pools.push((key, frontend.dispatch_key));
        }
    };
    dump.into_iter().for_each(|dump| dump.elements(&mut note));
    pools.sort_unstable_by(|(one, _), (other, _)| one.cmp(other));
    pools.into_iter().flat_map(slots).map(|key| key.encode().0)
}

/// The keys of all places in both pools of a frontend.
fn slots((frontend, pools): (ElementKey, DispatchKey)) -> impl Iterator<Item = ElementKey> {
    let slots = (0..pools.cluster).chain(LOCAL_OFFSET..LOCAL_OFFSET + pools.local);
    slots.filter_map(move |slot| frontend.slot_of_frontend(slot))
}
