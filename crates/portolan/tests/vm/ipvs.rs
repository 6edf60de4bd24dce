//! ipvs mode with real packets: every scenario.

use portolan_dataplane::Reconciler;
use portolan_dataplane::ipvs::{Ipvs, IpvsKernel, IpvsSettings, prepare};
use portolan_dataplane::tables::Variant;
use portolan_testkit::topology;

use crate::lab;
use crate::live::check_steps;
use crate::mode::Mode;
use crate::support::scenarios;

/// One after the other on one node, so that each also replaces what another has left.
#[test]
fn real_packets_go_as_written_in_ipvs_mode() {
    let lab = lab();
    let node = lab.host(topology::NODE);
    node.run(|| prepare(&IpvsSettings::default())).unwrap();
    let kernel = node.run(|| IpvsKernel::open(Variant::Nft)).unwrap();
    let (mut bit, mut failures) = (14, Vec::new());
    let mut reconciler = Reconciler::new(Ipvs::make(bit), kernel);
    for scenario in scenarios() {
        let wanted = Ipvs::session(&scenario).masquerade_bit;
        if wanted != bit {
            reconciler.use_dataplane(Ipvs::make(wanted));
            bit = wanted;
        }
        let outcome = check_steps(&lab, &scenario, &mut reconciler);
        failures.extend(outcome.err().map(|failure| format!("{}: {failure}", scenario.name)));
    }
    assert!(failures.is_empty(), "{} scenarios fail:\n\n{}", failures.len(), failures.join("\n\n"));
}
