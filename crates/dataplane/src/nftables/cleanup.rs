//! Taking everything away again, and nothing else.

use portolan_kernel::nftables::{Batch, Nftables as Handle};
use portolan_model::Family;

use super::{TABLE, table_family};
use crate::Error;

/// Deletes our tables; tells how many there were.
pub fn cleanup() -> Result<usize, Error> {
    let mut handle = Handle::open()?;
    let mut batch = Batch::new();
    let mut count = 0;
    for family in Family::BOTH.map(table_family) {
        if handle.tables(family)?.iter().any(|name| name == TABLE) {
            batch.delete_table(family, TABLE);
            count += 1;
        }
    }
    handle.commit(batch)?;
    Ok(count)
}
