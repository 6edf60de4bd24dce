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

use portolan_kernel::nftables::{Found, Nftables as Handle};
use portolan_model::Family;

use super::TABLE;
use super::codec::decode;
use super::dispatch_key::DispatchKey;
use super::elements::ElementKey;
use super::objects::{Key, ObjectList, Value};
use super::routes::LOCAL_OFFSET;
use super::sets::SetName;
use crate::Error;

pub(super) fn is_of_endpoints(set: SetName) -> bool {
    matches!(set, SetName::Endpoints | SetName::NodePortEndpoints)
}

/// How much a read of the endpoints has to show.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Proof {
    /// That there are no other elements.
    Complete,
    /// The same, but only on a kernel that counts elements.
    IfCounted,
}

/// Adds the elements of a map of endpoints. False, with nothing added, if they do not follow from the frontends, or if the
/// kernel cannot show that they do.
pub(super) fn read_endpoints(
    handle: &mut Handle,
    family: Family,
    set: SetName,
    proof: Proof,
    objects: &mut ObjectList,
) -> Result<bool, Error> {
    let frontends = if set == SetName::Endpoints { SetName::Services } else { SetName::NodePorts };
    let pools = pools(family, frontends, objects);
    let before = objects.len();
    let mut keys = pools.iter().flat_map(slots).map(|key| key.encode().0);
    let found = handle.look_up(family, TABLE, set.name(), &mut keys, &mut |element| {
        let (key, value) = decode(set, family, element);
        objects.push((Key::Element(family, set, key), value));
    })?;
    let is_shown = found == Found::Exactly || (found == Found::AtLeast && proof == Proof::IfCounted);
    if !is_shown {
        objects.truncate(before);
    }
    Ok(is_shown)
}

/// The frontends, each with the sizes of its pools, in the order of the objects.
fn pools(family: Family, frontends: SetName, objects: &[(Key, Value)]) -> Vec<(ElementKey, DispatchKey)> {
    let frontend = |(key, value): &(Key, Value)| match (key, value) {
        (Key::Element(it, set, key), Value::Frontend(frontend)) if (*it, *set) == (family, frontends) => {
            Some((key.clone(), frontend.dispatch_key))
        }
        _ => None,
    };
    let mut pools: Vec<_> = objects.iter().filter_map(frontend).collect();
    pools.sort_unstable_by(|(one, _), (other, _)| one.cmp(other));
    pools
}

/// The keys of all places in both pools of a frontend.
fn slots((frontend, pools): &(ElementKey, DispatchKey)) -> impl Iterator<Item = ElementKey> {
    let slots = (0..pools.cluster).chain(LOCAL_OFFSET..LOCAL_OFFSET + pools.local);
    slots.filter_map(|slot| frontend.slot_of_frontend(slot))
}
