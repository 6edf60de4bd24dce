//! Removal of our own table, without a refused packet on the way.

use portolan_kernel::nftables::{Batch, Nftables as Handle};
use portolan_model::Family;

use super::TABLE;
use crate::Error;

/// The base chains that translate new connections.
const NAT_CHAINS: [&str; 2] = ["nat-prerouting", "nat-output"];

/// Deletes the table of one family.
pub(crate) fn remove_table(handle: &mut Handle, family: Family) -> Result<(), Error> {
    flush_nat_chains(handle, family)?;
    let mut batch = Batch::new();
    batch.delete_table(family, TABLE);
    Ok(handle.commit(batch)?)
}

/// A packet that is inside the table while the table is deleted can find the maps empty and the sets not, and is refused
/// as if its Service had no such port (seen on Linux 6.1). So first no packet enters any more. A table of another version
/// may have other chains.
fn flush_nat_chains(handle: &mut Handle, family: Family) -> Result<(), Error> {
    let mut batch = Batch::new();
    NAT_CHAINS.iter().for_each(|chain| batch.flush_chain(family, TABLE, chain));
    match handle.commit(batch) {
        Err(error) if error.is_absent() => Ok(()),
        outcome => Ok(outcome?),
    }
}
