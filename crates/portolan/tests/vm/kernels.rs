//! Every scenario with real packets in every mode on the VM's kernel: `make test-kernels`, once for each kernel. `make test`
//! skips it, because it takes a quarter of an hour under emulation.

use std::fs;

use portolan_dataplane::tables::Variant;
use portolan_testkit::{CapabilitySet, Lab, topology};

use crate::bench::check_on_bench;
use crate::mode::{self, HOOK_CAPABILITIES, Tested};
use crate::support::{failures, scenarios};

/// One line for each mode, then all failures.
#[test]
fn every_mode_sends_every_packet_as_written() {
    let kernel = fs::read_to_string("/proc/sys/kernel/osrelease").expect("every kernel has a release");
    let mut all = Vec::new();
    for tested in every_variant().filter(is_wanted) {
        let (name, scenarios) = (title(tested), scenarios());
        let total = scenarios.len();
        let failed = failures(scenarios, 2, || None, |bench, scenario| check_on_bench(bench, scenario, tested));
        println!("kernel {}: {name}: {} of {total} scenarios pass", kernel.trim(), total - failed.len());
        all.extend(failed.into_iter().map(|failure| format!("{name}: {failure}")));
    }
    assert!(all.is_empty(), "{} fail:\n\n{}", all.len(), all.join("\n\n"));
}

/// The scenarios of a mode with hooks run with three capabilities. With one less, the machine lacks something for it.
///
/// The VM's kernel has no mitigations of speculation, so that its verifier does not need CAP_PERFMON.
#[test]
fn hooks_need_their_capabilities() {
    let lab = Lab::new().expect("the VM has all that a lab needs");
    for tested in mode::all().filter(|tested| tested.has_hooks()) {
        let missing = |kept| lab.host(topology::NODE).run_with(kept, || tested.mode.missing());
        assert_eq!(missing(HOOK_CAPABILITIES), None);
        for needed in [CapabilitySet::BPF, CapabilitySet::NET_ADMIN] {
            let missing = missing(HOOK_CAPABILITIES.difference(needed)).unwrap_or_default();
            assert!(missing.contains("needs the capabilities"), "without {needed:?}: {missing}");
        }
    }
}

/// Modes with iptables rules come in both variants of the tables. A mode whose rules do not depend on the variant comes once.
fn every_variant() -> impl Iterator<Item = Tested> {
    let legacy = mode::all().filter(|tested| tested.has_tables());
    mode::all().chain(legacy.map(|tested| Tested { variant: Variant::Legacy, ..tested }))
}

/// `MODE=name` runs one mode.
fn is_wanted(tested: &Tested) -> bool {
    std::env::var("MODE").map_or(true, |mode| mode.is_empty() || title(*tested) == mode)
}

fn title(tested: Tested) -> String {
    match tested.variant {
        Variant::Nft => tested.name().to_owned(),
        Variant::Legacy => format!("{} legacy", tested.name()),
    }
}
