//! SCTP with real packets.

use portolan_dataplane::iptables::{Iptables, IptablesKernel};
use portolan_dataplane::nftables::{Nftables, NftablesKernel};
use portolan_dataplane::peers::cleanup_everything;
use portolan_dataplane::tables::Variant;
use portolan_dataplane::{Error, Reconciler};
use portolan_testkit::{Protocol, Scenario, topology};

use crate::lab;
use crate::live::check_steps;
use crate::mode::Mode;
use crate::support::scenarios;

#[test]
fn sctp_in_nftables_mode() {
    check::<Nftables>(NftablesKernel::open);
}

#[test]
fn sctp_in_iptables_mode() {
    check::<Iptables>(|| IptablesKernel::open(Variant::Nft));
}

#[test]
fn sctp_in_iptables_mode_of_old() {
    check::<Iptables>(|| IptablesKernel::open(Variant::Legacy));
}

fn check<M: Mode>(open: impl Fn() -> Result<M::Kernel, Error> + Sync) {
    let lab = lab();
    assert!(lab.supports_sctp(), "the kernel of the VM has SCTP");
    let with_sctp: Vec<Scenario> = scenarios().into_iter().filter(sends_sctp).collect();
    assert!(with_sctp.len() >= 3, "there are scenarios with SCTP");
    let node = lab.host(topology::NODE);
    // Other tests use the same lab.
    node.run(cleanup_everything);
    for scenario in with_sctp {
        let kernel = node.run(&open).unwrap_or_else(|error| panic!("{}: {error}", M::NAME));
        let mut reconciler = Reconciler::new(M::make(M::session(&scenario).masquerade_bit), kernel);
        check_steps(&lab, &scenario, &mut reconciler)
            .unwrap_or_else(|failure| panic!("{}, {}: {failure}", M::NAME, scenario.name));
    }
    let report = node.run(cleanup_everything);
    assert!(report.is_complete(), "{report}");
}

fn sends_sctp(scenario: &Scenario) -> bool {
    scenario.steps.iter().flat_map(|step| &step.packets).any(|packet| packet.protocol == Protocol::Sctp)
}
