//! What this mode needs of the kernel, and a trial of whether the kernel accepts its rules.

use std::sync::LazyLock;

use portolan_kernel::nftables::{Batch, ChainKind, Hook, HookPoint, Nftables as Handle};
use portolan_model::{Algorithm, Family, HashOf};
use portolan_plan::{NodePlan, Pool, Selection};

use super::Nftables;
use super::objects::{Key, Value};
use super::render;
use super::routes::draw_rule;
use super::sets::SetName;
use crate::requirements::{Feature, NETLINK};

pub(crate) const FEATURES: &[Feature] = &[
    NETLINK,
    Feature { since: (4, 18), what: "NAT chains of nf_tables beside those of iptables", without: None },
    Feature { since: (5, 6), what: "ranges in concatenated keys", without: None },
    Feature { since: (5, 9), what: "reject in the hook prerouting", without: None },
    Feature {
        since: (6, 3),
        what: "deletion of elements that may be gone",
        without: Some("idle counters and clients are deleted in smaller transactions"),
    },
    Feature {
        since: (6, 18),
        what: "the number of elements of a set",
        without: Some("reads after the first one dump all endpoints, which takes seconds above 100,000"),
    },
];

/// Exists only within a transaction that is never committed.
const TRIAL: &str = "portolan-trial";

/// The first thing of an empty table that the kernel refuses, as a clause. Nothing is written.
pub(crate) fn refused() -> Option<String> {
    let error = Handle::open().ok()?.check(trial(&Nftables::new(14))).err()?;
    error.is_unsupported_or_invalid().then(|| format!("a trial of the rules failed: {error}"))
}

/// Algorithms that this kernel has no expression for, tried once. Where the trial is not permitted, that shows later.
pub(crate) fn lacks() -> &'static [Algorithm] {
    static HAS_HASH: LazyLock<bool> = LazyLock::new(|| {
        let error = Handle::open().ok().and_then(|mut handle| handle.check(trial_of_hash()).err());
        !error.is_some_and(|error| error.is_unsupported_or_invalid())
    });
    match *HAS_HASH {
        true => &[],
        false => &[Algorithm::SourceHash, Algorithm::Maglev],
    }
}

/// A rule that selects a slot by a hash (`nft_hash`, a module of its own).
fn trial_of_hash() -> Batch {
    let (family, mut batch, chain) = (Family::V4, Batch::new(), "trial");
    let rule = draw_rule(family, false, Pool::Cluster, Selection::ByHash(HashOf::ClientAndPort), 2);
    batch.add_table(family, TRIAL);
    batch.add_set(family, TRIAL, SetName::Endpoints.name(), &SetName::Endpoints.spec(family));
    batch.add_chain(
        family,
        TRIAL,
        chain,
        Some(&Hook { kind: ChainKind::Nat, point: HookPoint::Prerouting, priority: 0 }),
    );
    batch.add_rule(family, TRIAL, chain, &rule.expressions, None);
    batch
}

fn trial(mode: &Nftables) -> Batch {
    let (family, mut batch) = (Family::V4, Batch::new());
    let objects = render::node(mode, &NodePlan::default(), family);
    batch.add_table(family, TRIAL);
    for (key, value) in &objects {
        match (key, value) {
            (Key::Set(_, name), Value::Set(spec)) => batch.add_set(family, TRIAL, name, spec),
            (Key::Chain(_, name), Value::Chain(chain)) => batch.add_chain(family, TRIAL, name, chain.hook.as_ref()),
            _ => {}
        }
    }
    for (key, value) in &objects {
        if let (Key::Chain(_, name), Value::Chain(chain)) = (key, value) {
            for rule in &chain.rules {
                batch.add_rule(family, TRIAL, name, &rule.expressions, None);
            }
        }
    }
    batch
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_trial_writes_nothing() {
        portolan_kernel::enter_new_network_namespace().expect("root is needed to make a network namespace");
        let mut handle = Handle::open().unwrap();
        let before = handle.generation().unwrap();
        assert_eq!((refused(), lacks()), (None, &[][..]));
        assert_eq!((handle.generation().unwrap(), handle.tables(Family::V4).unwrap()), (before, vec![]));
    }
}
