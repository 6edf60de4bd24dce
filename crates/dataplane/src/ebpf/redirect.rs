//! Redirects of a pod's own connections, inside its network namespace: service meshes match the addresses of Services there, so
//! that the hooks must not translate them before.

use portolan_kernel::legacy_tables;
use portolan_kernel::nftables::{HookPoint, ListedChain, Nftables, TableFamily};
use portolan_model::Family;

use crate::Error;

/// Whether the network namespace of the calling thread translates the destinations of its own packets: with nf_tables, with
/// iptables over it, or with the legacy tables.
pub(super) fn exists() -> Result<bool, Error> {
    Ok(has_chain()? || has_legacy_table()?)
}

fn has_chain() -> Result<bool, Error> {
    let mut tables = Nftables::open()?;
    for family in TableFamily::ALL {
        if tables.all_chains(family)?.iter().any(translates_output) {
            return Ok(true);
        }
    }
    Ok(false)
}

fn translates_output(chain: &ListedChain) -> bool {
    chain.base.as_ref().is_some_and(|base| base.kind == "nat" && base.point == Some(HookPoint::Output))
}

fn has_legacy_table() -> Result<bool, Error> {
    for family in Family::BOTH {
        if legacy_tables::entries(family, "nat")? > 0 {
            return Ok(true);
        }
    }
    Ok(false)
}
