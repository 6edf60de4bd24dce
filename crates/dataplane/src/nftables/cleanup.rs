//! Taking everything away again, and nothing else.

use portolan_kernel::nftables::{Batch, Nftables as Handle};
use portolan_model::Family;

use super::TABLE;
use crate::Error;

/// The chains by which packets come in to be translated.
const WAYS_IN: [&str; 2] = ["nat-prerouting", "nat-output"];

/// Deletes our tables; tells how many there were.
pub fn cleanup() -> Result<usize, Error> {
    let mut handle = Handle::open()?;
    let mut families = Vec::new();
    for family in Family::BOTH {
        if handle.tables(family)?.iter().any(|name| name == TABLE) {
            families.push(family);
        }
    }
    close_ways_in(&mut handle, &families)?;
    let mut batch = Batch::new();
    families.iter().for_each(|family| batch.delete_table(*family, TABLE));
    handle.commit(batch)?;
    Ok(families.len())
}

/// A packet that is under way in a table while that is deleted may find its maps empty and its sets not, and so be refused
/// as though its Service had no such port (seen on Linux 6.1). So nobody is let in any more before that. A table of another
/// version may have other chains.
fn close_ways_in(handle: &mut Handle, families: &[Family]) -> Result<(), Error> {
    let mut batch = Batch::new();
    for family in families {
        WAYS_IN.iter().for_each(|chain| batch.flush_chain(*family, TABLE, chain));
    }
    match handle.commit(batch) {
        Err(error) if error.is_absent() => Ok(()),
        outcome => Ok(outcome?),
    }
}
