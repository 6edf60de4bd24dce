//! A batch that the kernel checks without committing it.

use portolan_kernel::nftables::{Batch, ChainKind, Expression, Hook, HookPoint, Nftables};
use portolan_model::Family;

use crate::common::new_namespace;

const TABLE: &str = "test";

/// A chain that rejects before routing.
fn rejecting() -> Batch {
    let point = HookPoint::Prerouting;
    let mut batch = Batch::new();
    batch.add_table(Family::V4, TABLE);
    batch.add_chain(Family::V4, TABLE, "base", Some(&Hook { kind: ChainKind::Filter, point, priority: 0 }));
    batch.add_rule(Family::V4, TABLE, "base", &[Expression::Reject { kind: 0, code: 3 }], None);
    batch
}

#[test]
fn a_trial_writes_nothing() {
    new_namespace();
    let mut nftables = Nftables::open().unwrap();
    let generation = nftables.generation().unwrap();
    nftables.check(rejecting()).unwrap();
    assert_eq!((nftables.generation().unwrap(), nftables.tables(Family::V4).unwrap()), (generation, vec![]));
    nftables.commit(rejecting()).unwrap();
}

#[test]
fn a_trial_finds_an_operation_that_is_refused() {
    new_namespace();
    let mut nftables = Nftables::open().unwrap();
    let mut batch = rejecting();
    batch.add_rule(Family::V4, TABLE, "missing", &[Expression::Counter], None);
    let error = nftables.check(batch).unwrap_err();
    assert!(error.to_string().contains("missing"), "{error}");
    assert_eq!(nftables.tables(Family::V4).unwrap(), [""; 0]);
}
