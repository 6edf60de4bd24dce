//! SCTP with real packets.

use portolan_dataplane::Error;
use portolan_dataplane::iptables::{Iptables, IptablesKernel};
use portolan_dataplane::nftables::{self, Nftables, NftablesKernel};
use portolan_dataplane::tables::Variant;
use portolan_testkit::{Protocol, Scenario, topology};

use crate::lab;
use crate::live::check_packets;
use crate::mode::Mode;
use crate::support::scenarios;

#[test]
fn sctp_in_nftables_mode() {
    check::<Nftables>(NftablesKernel::open);
    lab().host(topology::NODE).run(nftables::cleanup).unwrap();
}

#[test]
fn sctp_in_iptables_mode() {
    check::<Iptables>(|| IptablesKernel::open(Variant::Nft));
    clear("iptables-nft");
}

#[test]
fn sctp_in_iptables_mode_of_old() {
    check::<Iptables>(|| IptablesKernel::open(Variant::Legacy));
    clear("iptables-legacy");
}

fn check<M: Mode>(open: impl Fn() -> Result<M::Kernel, Error> + Sync) {
    let lab = lab();
    assert!(lab.supports_sctp(), "the kernel of the VM has SCTP");
    let with_sctp: Vec<Scenario> = scenarios().into_iter().filter(sends_sctp).collect();
    assert!(with_sctp.len() >= 3, "there are scenarios with SCTP");
    for scenario in with_sctp {
        check_packets::<M>(&lab, &scenario, &open)
            .unwrap_or_else(|failure| panic!("{}, {}: {failure}", M::NAME, scenario.name));
    }
}

fn sends_sctp(scenario: &Scenario) -> bool {
    scenario.steps.iter().flat_map(|step| &step.packets).any(|packet| packet.protocol == Protocol::Sctp)
}

/// The lab is used again, and nothing else is in these tables.
fn clear(program: &str) {
    let lab = lab();
    for table in ["mangle", "nat", "filter"] {
        for words in [["-F"], ["-X"]] {
            for family in ["", "6"] {
                let program = program.replacen("ip", &format!("ip{family}"), 1);
                let cleared = lab.host(topology::NODE).command(&[&program, "-t", table, words[0]]);
                cleared.expect("the table can be cleared");
            }
        }
    }
}
