//! Every scenario with real packets in every mode on the VM's kernel: `make test-kernels`, once for each kernel. `make test`
//! skips it, because it takes a quarter of an hour under emulation.

use std::fs;

use portolan_dataplane::tables::Variant;

use crate::bench::check_on_bench;
use crate::mode::{self, Tested};
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
