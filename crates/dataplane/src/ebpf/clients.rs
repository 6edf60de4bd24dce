//! The map of the clients of session affinity. The kernel allocates all of its entries when it is created, 7 MB, so that it has room
//! for a few until a Service has session affinity.

use portolan_kernel::bpf::{Map, MapDefinition};

pub(super) const NAME: &str = "clients";

/// Programs are loaded over the map, also where none of them uses it.
const FEW: u32 = 16;

/// The map as it is created first. Other maps have one size.
pub(super) fn at_first(definition: &MapDefinition) -> MapDefinition {
    let most = if definition.name == NAME { FEW } else { u32::MAX };
    MapDefinition { max_entries: definition.max_entries.min(most), ..definition.clone() }
}

/// Whether an existing map is one of this definition, in either size.
pub(super) fn is_like(map: &Map, definition: &MapDefinition) -> bool {
    map.info().is_like(definition) || map.info().is_like(&at_first(definition))
}
